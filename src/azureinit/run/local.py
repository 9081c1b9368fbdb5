"""The local stage: the host name from the media, before DHCP asks for an address under it."""

from __future__ import annotations

from azureinit.errors import AzureInitError, MediaAbsent
from azureinit.facts.gather import read_facts
from azureinit.facts.host import has_account
from azureinit.jsontext import dumps
from azureinit.machine import MOST_BYTES
from azureinit.memory.instance import POOL_FILE
from azureinit.plan.actions import work_left
from azureinit.plan.plan import Wanted, make_plan, parts_of
from azureinit.run.enact import best_effort, enact
from azureinit.run.stages import FORMER_NAME, NAME_FILES, POOL_HINT, find_stage
from azureinit.sources.media import read_media
from azureinit.sources.metadata import Metadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.state import Context, Identity

MEDIA_SECS = 2.0  # the network waits meanwhile; a drive that is there answers at once


def local(context: Context, identity: Identity) -> int:
    media, unmounted = context.config.provisioning_media, context.unmounted
    if not media.enable or _is_kept(context, identity) or _is_from_pool(context, identity):
        return 0
    until = min(context.work_deadline, context.machine.clock.monotonic() + MEDIA_SECS)
    try:
        with context.events.step("local") as span:
            observe = context.events.observe
            try:
                medium = read_media(
                    context.machine, path=media.path, deadline=until, observe=observe, optical_only=True
                )
            except MediaAbsent:
                span.text = "no provisioning media yet: the host name waits for IMDS"
                return 0
            if medium.ovf.preprovisioned or medium.ovf.pps_type is not None:
                _leave(context, POOL_HINT, b"")
                span.text = "the media ask for pre-provisioning: the host name is the customer's"
            elif unmounted is not None and has_account(context.machine, medium.ovf.username or ""):
                span.text = f"left to azure-init.service: {unmounted} is not mounted and may record an earlier run"
            elif medium.ovf.hostname is not None:
                name = set_hostname(context, identity, medium.ovf.hostname)
                span.text = f"the host name is {name}, from the provisioning media"
    except AzureInitError:
        pass  # the step has logged it; the run meets the same failure, and reports it
    return 0


def _is_kept(context: Context, identity: Identity) -> bool:
    """Whether the machine keeps its name: it was provisioned, and customData may have given it another one since."""
    if identity.instance is not None and context.machine.stat(identity.instance.path("userdata")) is not None:
        return True
    if context.config.platform.changed_vm_id != "keep":
        return False
    if context.unmounted is not None:
        return True  # the records of what this machine was are not readable yet
    from azureinit.run.changed_id import kept_id
    from azureinit.run.recall import recall

    return kept_id(context, identity, recall(context, identity)) is not None


def _is_from_pool(context: Context, identity: Identity) -> bool:
    """Whether the media are those of the pool that this VM waits in or was taken from."""
    data_dir = context.config.azure_init_data_dir.path
    if context.unmounted is not None or context.machine.stat(f"{data_dir.rstrip('/')}/{POOL_FILE}") is None:
        return False
    from azureinit.memory.pool import read_marker

    marker = read_marker(context.machine, data_dir)
    return marker is not None and marker.is_of(identity.vm_id)


def _leave(context: Context, path: str, data: bytes) -> None:
    """For the run of this boot. Not synced: it counts for this boot only."""
    if context.machine.rooted:
        return

    def write() -> None:
        context.machine.make_dirs(path.rpartition("/")[0], mode=0o700)
        context.machine.write(path, data, mode=0o600, sync=False)

    best_effort(context.events, "local", write)


def set_hostname(context: Context, identity: Identity, name: str) -> str:
    """Returns the name that the machine has then. Facts show whether it is done, so no journal is needed."""
    machine = context.machine
    planners = find_stage("local").planners()
    facts = read_facts(machine, context.config, ("ignition", *parts_of(planners)))
    if facts.ignition is not None:
        from azureinit.memory.journal import read_journal
        from azureinit.plan.ignition import kept_hostname

        instance = identity.instance
        done = read_journal(machine, instance.path("journal")).done if instance is not None else frozenset()
        name = kept_hostname(name, facts.names.hostname_file, facts.ignition, done=done) or name
    if identity.instance is not None and machine.is_dir(identity.instance.path("d")):
        from azureinit.memory.userdata import read_chosen_name

        name = read_chosen_name(machine, identity.instance) or name
    plan = make_plan(planners, Wanted(metadata=Metadata(hostname=name), config=context.config), facts)
    if work_left(plan):  # if IMDS puts this VM into a pool, the run restores it
        files = {path: machine.read(path, limit=MOST_BYTES) for path in NAME_FILES}
        texts = {path: None if data is None else data.decode("latin-1") for path, data in files.items()}
        _leave(context, FORMER_NAME, dumps({"kernel": facts.names.kernel, "files": texts}).encode())
    enact(machine, plan, events=context.events, deadline=context.work_deadline)
    if machine.unsynced.unknown or machine.unsynced.directories - {machine.real("/etc")}:  # the run syncs /etc itself
        from azureinit.machine.durable import make_durable

        make_durable(machine, "/etc")
    return name
