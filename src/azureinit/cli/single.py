"""`cloud-init single`: one module of customData, now. Marks of the stages are respected unless a frequency is given."""

from __future__ import annotations

import sys

from azureinit.errors import AzureInitError, LocalError
from azureinit.record import Secret, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.run.modules import Module
    from azureinit.run.state import Context

# cloud-init's names of modules that have another one here.
ALIASES = {
    "runcmd": "scripts_user",
    "package_update_upgrade_install": "packages",
    "power_state_change": "power_state",
    "fs_setup": "disk_setup",
}


def main(name: str, *, machine: Machine, frequency: str, files: list[str]) -> int:
    from azureinit.cli.provision import make_context
    from azureinit.config.load import load
    from azureinit.memory.modules import ALWAYS, ONCE, once_path, read_marks
    from azureinit.memory.userdata import SavedUserdata
    from azureinit.modules.commands import progress_path
    from azureinit.run.enact import enact, tell_cautions
    from azureinit.run.modules import plans_of
    from azureinit.run.request import in_words, make_request, read_customdata, saved_userdata
    from azureinit.run.userdata import only_instance

    module = find_module(ALIASES.get(name, name))
    if not machine.privileged:
        raise LocalError("only root runs a module")
    config = load(machine, config=None, groups=None).config
    context = make_context(machine, config, started=machine.clock.monotonic(), stage=module.stage)
    instance = only_instance(context)
    if instance is None:
        raise LocalError("this VM has no customData that was saved", hint="name a file with --file")
    saved = saved_userdata(context, instance)
    if files:
        saved = SavedUserdata(source=files[0], data=Secret(joined(machine, files)), metadata=saved.metadata)
    directory = instance.path("d")
    machine.make_dirs(directory, mode=0o700)
    deadline = machine.clock.monotonic() + config.userdata.final_secs
    document = read_customdata(context, saved, vm_id=instance.vm_id, directory=directory, deadline=deadline, fetch=True)
    if document.errors:
        raise LocalError("; ".join(in_words(one) for one in document.errors))
    marks = read_marks(machine, once_path(instance) if module.frequency == ONCE else instance.path("modules"))
    if not frequency and module.frequency != ALWAYS and module.name in marks.ended:
        sys.stdout.write(f"{module.name} has run ({module.frequency}); --frequency always runs it again\n")
        return 0
    request = make_request(context, saved, document, vm_id=instance.vm_id, directory=directory)
    if frequency:
        machine.remove(progress_path(request, "runcmd"))  # it would go on where it ended
    else:
        request = replace(request, done=marks.done)
    if not module.asked(request):
        sys.stdout.write(f"{module.name}: customData has nothing for it\n")
        return 0
    try:
        for plan in plans_of(module, machine, request):
            tell_cautions(plan, context.events)
            enact(machine, plan, events=context.events, deadline=deadline)
    finally:
        flush(context)
    return 0


def find_module(name: str) -> Module:
    from azureinit.run.module_tables import modules_of
    from azureinit.run.modules import CONFIG, FINAL, NETWORK

    rows = {row.name: row for stage in (NETWORK, CONFIG, FINAL) for row in modules_of(stage)}
    if name not in rows:
        raise LocalError(f"there is no module {name}", hint=f"modules: {', '.join(sorted(rows))}")
    return rows[name]


def joined(machine: Machine, files: list[str]) -> bytes:
    """Several files are one document each: a cloud-config-archive of them."""
    from azureinit.cli.userdata import read_document

    texts = [read_document(machine, path, None) for path in files]
    if len(texts) == 1:
        return texts[0]
    from azureinit.jsontext import dumps

    parts = [{"type": "text/cloud-config", "content": text.decode("utf-8", "replace")} for text in texts]
    return f"#cloud-config-archive\n{dumps(parts)}\n".encode()


def flush(context: Context) -> None:
    try:
        context.events.flush()
    except AzureInitError as error:
        sys.stderr.write(f"cloud-init: {error}\n")
