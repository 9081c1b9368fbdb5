"""The customer's run of a VM from a pool: its data come from IMDS instead of media, and its id may be a new one."""

from __future__ import annotations

from azureinit.memory.pool import REUSED, renamed_id, write_marker, write_moment
from azureinit.record import replace
from azureinit.run.enact import best_effort
from azureinit.run.identify import adopt_vm_id
from azureinit.run.recall import recall
from azureinit.sources.identity import read_vm_id
from azureinit.sources.pps import check_reused
from azureinit.sources.reprovision import parse_medium, read_reprovisioned
from azureinit.telemetry.events import DEBUG, INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.errors import AzureInitError
    from azureinit.memory.pool import Marker
    from azureinit.record import Secret
    from azureinit.run.state import Context, Identity, Memory
    from azureinit.sources.gather import Gathered
    from azureinit.sources.media import Medium


def begin_reuse(context: Context, marker: Marker, document: Secret) -> Context:
    """The customer's data have arrived: no boot of this disk enters the pool from here on.

    Returns the context of the customer's run, whose time begins now.
    """
    write_marker(context.machine, context.config.azure_init_data_dir.path, replace(marker, state=REUSED))
    now = context.machine.clock.monotonic()
    best_effort(context.events, "pool", lambda: write_moment(context.machine, now), level=DEBUG)
    booted = None if context.booted is None else now
    return replace(context, started=now, booted=booted, reprovision=document, again=True)


def customers_medium(context: Context) -> Callable[[float, Callable[[AzureInitError], None]], Medium]:
    """The data that this run has waited for; in a later boot the platform is asked for them again."""

    def read(deadline: float, note: Callable[[AzureInitError], None]) -> Medium:
        if context.reprovision is not None:
            return parse_medium(context.reprovision)
        return read_reprovisioned(context.config, clock=context.machine.clock, deadline=deadline, note=note)

    return read


def adopt_customer(
    context: Context, identity: Identity, memory: Memory, gathered: Gathered, *, end_if_done: bool
) -> tuple[Identity, Memory]:
    """Check that IMDS describes a customer's VM, and record its ids.

    Where IMDS has another id for the VM now, the VM has that one: the firmware shows it only after the next boot.
    """
    marker, imds = memory.pool, gathered.answers.get("imds")
    if imds is None:
        raise gathered.failures["imds"]
    if marker is None:
        return identity, memory
    check_reused(imds.pps_type)
    gathered.answers["imds"] = replace(imds, pps_type=None)
    firmware = read_vm_id(context.machine, context.config.platform.vm_id) or ""
    known = replace(marker, new_firmware_id=firmware, new_imds_id=imds.vm_id or "")
    if known != marker and memory.readable and end_if_done:
        write_marker(context.machine, context.config.azure_init_data_dir.path, known)
    new = renamed_id(known)
    if not new or new == identity.vm_id:
        return identity, replace(memory, pool=known)
    context.events.tell(INFO, "changed VM id", f"this VM was {identity.vm_id} in its pool, and is {new} now")
    identity = adopt_vm_id(context, new, end_if_done=end_if_done)
    return identity, replace(recall(context, identity, readable=memory.readable), pool=known)
