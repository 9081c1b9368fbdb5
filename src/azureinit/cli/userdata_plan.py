"""`azure-init userdata explain` and `userdata run`: customData as plans, shown by stage and module, or carried out in a
file tree."""

from __future__ import annotations

import json

from azureinit.cli.userdata import FETCH_SECS, as_text, line_of, progress
from azureinit.config.filters import Filter
from azureinit.facts.image_config import read_image_config
from azureinit.modules.request import Request
from azureinit.plan.actions import Caution
from azureinit.plan.show import as_json as plan_as_json, as_text as plan_as_text
from azureinit.run.expand import expand
from azureinit.run.explain import STAGES, carry_out, cautions, planned
from azureinit.run.instance_data import make_instance_data, read_instance_data
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import WARN, Events
from azureinit.telemetry.log import stream_listener
from azureinit.userdata.validate import Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    from azureinit.config.model import Config
    from azureinit.machine import Machine
    from azureinit.plan.actions import Plan
    from azureinit.userdata.document import Document

NO_VM = "local"  # in place of a VM's id
DAY = 24 * 60 * 60
RUN_SECS = 3600.0
NOTHING = "nothing is to be done\n"


def explain(
    machine: Machine,
    config: Config,
    data: bytes,
    *,
    name: str,
    fetch: bool,
    in_json: bool,
    out: TextIO,
    err: TextIO,
) -> int:
    document = _expanded(machine, config, data, instance_data=_known(machine), fetch=fetch, err=err)
    if in_json:
        out.write(_as_json(machine, config, document))
        return 1 if document.errors else 0
    if not _told(document, name, err):
        return 1
    first = cautions(document)
    everything: list[Any] = [*first]
    if first:
        out.write(_body(first, machine))
    stage = ""
    for one in planned(machine, _request(machine, config, document)):
        if not one.plan and not one.failure:
            continue
        if one.stage != stage:
            stage = one.stage
            out.write(f"{stage} stage\n")
        out.write(f"  {one.module.name}, {one.module.frequency}\n")
        out.write(f"    ! {one.failure}\n" if one.failure else _indented(_body(one.plan, machine)))
        everything += one.plan
    summary = plan_as_text(tuple(everything), privileged=machine.privileged).splitlines()[-1]
    out.write(f"{summary}\n" if everything else NOTHING)
    return 0


def run(machine: Machine, config: Config, data: bytes, *, name: str, fetch: bool, out: TextIO, err: TextIO) -> int:
    """Every module, whether or not it has run before; the next one runs after one that failed."""
    from azureinit.machine.this_process import set_umask

    set_umask()
    document = _expanded(machine, config, data, instance_data=_known(machine), fetch=fetch, err=err)
    if not _told(document, name, err):
        return 1
    for caution in cautions(document):
        out.write(f"not done: {caution.name}: {caution.why}\n")
    chosen = Filter(level=WARN, targets={})
    events = Events(clock=machine.clock, listeners=(stream_listener(err.write, chosen=chosen, colour=False),))
    tell, failed = progress(err), 0
    deadline = machine.clock.monotonic() + RUN_SECS
    request = _request(machine, config, document)
    done = 0
    for one in planned(machine, request):
        if not one.plan and not one.failure:
            continue
        tell(f"{one.stage} stage: {one.module.name}")
        failure = carry_out(machine, request, one, events=events, deadline=deadline)
        done += 1
        failed += bool(failure)
        out.write(f"{one.stage} {one.module.name}: {failure or _outcome(one.plan)}\n")
    if not done:
        out.write(NOTHING)
    return 1 if failed else 0


def _known(machine: Machine) -> dict[str, Any] | None:
    """Of a file tree that no VM has booted, what the tree itself tells."""
    known = read_instance_data(machine)
    return make_instance_data(machine, Metadata(), vm_id=NO_VM) if known is None and machine.rooted else known


def _outcome(plan: Plan) -> str:
    left = [item.why for item in plan if isinstance(item, Caution)]
    return left[0] if left and len(left) == len(plan) else "done"


def _expanded(
    machine: Machine, config: Config, data: bytes, *, instance_data: dict[str, Any] | None, fetch: bool, err: TextIO
) -> Document:
    return expand(
        machine,
        data,
        config,
        below=read_image_config(machine, config),
        instance_data=instance_data,
        deadline=machine.clock.monotonic() + FETCH_SECS,
        fetch=fetch,
        tell=progress(err),
    )


def _request(machine: Machine, config: Config, document: Document) -> Request:
    return Request(
        config=document.config,
        settings=config,
        metadata=Metadata(),
        vm_id=NO_VM,
        directory=f"{config.azure_init_data_dir.path.rstrip('/')}/{NO_VM}.d",
        parts=document.scripts,
        fetched=document.fetched,
        today=int(machine.clock.now() // DAY),
        rooted=machine.rooted,
    )


def _told(document: Document, name: str, err: TextIO) -> bool:
    """Print what is wrong. False: nothing of the document is carried out."""
    if document.errors:
        err.write(as_text(Report(parts=document.parts, findings=document.findings), name))
        return False
    for one in document.findings:
        err.write(f"{line_of(one, name)}\n")
    return True


def _body(plan: Plan, machine: Machine) -> str:
    """Without the line that counts."""
    return "".join(f"{line}\n" for line in plan_as_text(plan, privileged=machine.privileged).splitlines()[:-1])


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _as_json(machine: Machine, config: Config, document: Document) -> str:
    rows = [] if document.errors else list(planned(machine, _request(machine, config, document)))
    told = {
        "findings": [one.as_dict() for one in document.findings],
        "cautions": json.loads(plan_as_json(cautions(document))),
        "stages": [
            {
                "stage": stage,
                "modules": [
                    {
                        "module": one.module.name,
                        "frequency": one.module.frequency,
                        "plan": json.loads(plan_as_json(one.plan)),
                        **({"failure": one.failure} if one.failure else {}),
                    }
                    for one in rows
                    if one.stage == stage
                ],
            }
            for stage in STAGES
        ],
    }
    return json.dumps(told, indent=2) + "\n"
