"""A VM of a pool: it reports Ready, waits, perhaps for weeks, and starts over for the customer who gets it.

In the pool nothing is made or changed: no account, host key, host name or disk. Logins, sshd and WALinuxAgent stay
held, and no deadline counts. SIGTERM ends the wait without a verdict; the marker lets the next start continue it.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError, PoolReadyFailed
from azureinit.jsontext import loads
from azureinit.machine import MOST_BYTES
from azureinit.memory.instance import KINDS
from azureinit.memory.pool import OFFERED, WAITING, Marker, remove_marker, write_marker
from azureinit.plan.pool import PAUSE_SECS
from azureinit.record import replace
from azureinit.run.enact import best_effort, enact
from azureinit.run.pool_links import PoolLinks
from azureinit.run.pool_ready import PoolReady, is_in_pool
from azureinit.run.pool_wait import LONGEST_WAIT, READ_OVF, PoolWait, keep_alive
from azureinit.run.reuse import begin_reuse
from azureinit.run.stages import FORMER_NAME
from azureinit.run.state import Knowing, Known, Stopped
from azureinit.run.termination import SigtermStops
from azureinit.sources.pps import OS_DISK
from azureinit.telemetry.events import DEBUG, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.channels import Channels
    from azureinit.run.early import Early
    from azureinit.run.state import Asked, Context, Identity, Memory

EJECT_SECS = 10.0


def enter_pool(context: Context, channels: Channels, asked: Asked, early: Early) -> Context:
    """Returns the context of the run for the customer."""
    kind, identity = asked.pps_type or "", asked.identity
    with Knowing(Known(identity=identity, pps_type=kind)) as knowing, _Held(context, channels):
        context.events.tell(INFO, "pre-provisioning", f"PPS type: {kind}; this VM waits in a pool for its customer")
        links = _open_links(context, identity, asked.memory.journal.own_keys.union(early.own_keys))
        channels.in_progress.wait()
        ready = PoolReady(context, channels, identity, kind, links)
        if kind == OS_DISK:
            _eject(context, asked.device)
            ready.report()
            knowing.learn(waits=True)
            _wait_for_power_off(context)
        data_dir = context.config.azure_init_data_dir.path
        marker = Marker(
            state=OFFERED,
            type=kind,
            firmware_id=identity.vm_id or "",
            imds_id=asked.imds_id or "",
            index=links.nic.index if links.nic is not None else 0,
            mac=links.nic.mac if links.nic is not None else "",
            boot=context.machine.boot_id(),
        )
        write_marker(context.machine, data_dir, marker)
        _eject(context, asked.device)  # after the marker: perhaps only the media say that this VM is in a pool
        try:
            accepted = ready.report()
        except PoolReadyFailed:
            if not ready.doubtful:  # otherwise the next start asks IMDS before it reports Ready
                remove_marker(context.machine, data_dir)
            raise
        return _wait_after_ready(context, knowing, links, marker, accepted=accepted)


def resume_pool(context: Context, channels: Channels, identity: Identity, memory: Memory) -> Context:
    """An earlier start has reported Ready, or ended while it did so. Returns the context of the run for the customer.

    The media are not read: those in the drive are the pool's.
    """
    marker = memory.waits
    assert marker is not None
    waits = True if marker.state == WAITING else None
    with Knowing(Known(identity=identity, pps_type=marker.type, waits=waits)) as knowing, _Held(context, channels):
        links = _open_links(context, identity, memory.journal.own_keys)
        boot = context.machine.boot_id()
        same = marker.boot == boot  # a run of this boot may have asked a moment ago
        if same and context.booted is not None:
            _hold_logins_again(context)
        marker = _written(context, replace(marker, boot=boot))
        if marker.state == OFFERED:
            return _offer_again(context, channels, knowing, marker, links)
        told = f"PPS type: {marker.type}; this VM has reported Ready in the pool before, and asks for the data"
        context.events.tell(INFO, "pre-provisioning", told)
        pause = PAUSE_SECS if same else 0.0
        return _wait_for_data(context, knowing, links, marker, recovered=True, pause=pause)


def _wait_for_data(
    context: Context,
    knowing: Knowing,
    links: PoolLinks,
    marker: Marker,
    *,
    recovered: bool = False,
    pause: float = 0.0,
) -> Context:
    """An error of the wait is no verdict: no customer has the VM yet, and the run is started again."""
    knowing.learn(waits=True)
    document = PoolWait(context, links, marker).for_data(recovered=recovered, pause=pause)
    knowing.learn(waits=False)
    with context.events.step(READ_OVF) as span:
        context = begin_reuse(context, marker, document)
        span.text = "the customer's data have arrived: provisioning starts over with them"
    return context


def _offer_again(context: Context, channels: Channels, knowing: Knowing, marker: Marker, links: PoolLinks) -> Context:
    """The platform may have had Ready, and a customer may have the VM by now: only one that IMDS still describes as in
    the pool reports Ready once more. Any other asks for the customer's data, also where IMDS does not answer.
    """
    tell = context.events.tell
    told = f"PPS type: {marker.type}; an earlier run ended at its Ready in the pool: asking IMDS where this VM is"
    tell(INFO, "pre-provisioning", told)
    accepted = False
    if is_in_pool(context, channels, secs=context.sources_deadline - context.machine.clock.monotonic()):
        told = "this VM is still in its pool: reporting Ready, of which the platform may get a second one"
        tell(WARN, "pre-provisioning", told)
        ready = PoolReady(context, channels, knowing.known.identity, marker.type, links)
        accepted = ready.report(doubtful=True)
    return _wait_after_ready(context, knowing, links, marker, accepted=accepted)


def _wait_after_ready(
    context: Context, knowing: Knowing, links: PoolLinks, marker: Marker, *, accepted: bool
) -> Context:
    knowing.learn(waits=True)
    if accepted:
        return _wait_for_data(context, knowing, links, _reported(context, marker))
    context.events.tell(INFO, "pre-provisioning", "Ready is not reported again: asking for the customer's data")
    return _wait_for_data(context, knowing, links, marker, recovered=True, pause=PAUSE_SECS)


def _reported(context: Context, marker: Marker) -> Marker:
    """The platform has accepted Ready: no later boot reports it again."""
    return _written(context, replace(marker, state=WAITING))


def _written(context: Context, marker: Marker) -> Marker:
    """Best effort: the wait goes on without it, and a later start finds the marker as it was."""
    work = lambda: write_marker(context.machine, context.config.azure_init_data_dir.path, marker)  # noqa: E731
    if best_effort(context.events, "pre-provisioning", work):
        context.events.tell(DEBUG, "pre-provisioning", f"the marker of the pool is written: {marker.state}")
    return marker


def _hold_logins_again(context: Context) -> None:
    """A run of this boot has ended. What is started now waits until this unit is ready."""
    from azureinit.plan.units import plan_logins

    until = context.machine.clock.monotonic() + EJECT_SECS
    work = lambda: enact(context.machine, plan_logins(), events=context.events, deadline=until)  # noqa: E731
    best_effort(context.events, "logins", work)


class _Held:
    """Logins stay held, and SIGTERM ends the process: with 0, and without telling systemd that the unit is ready."""

    def __init__(self, context: Context, channels: Channels) -> None:
        self.context, self.logins, self.sigterm = context, channels.logins, SigtermStops(context, always=True)

    def __enter__(self) -> None:
        self.logins.stay_held()
        keep_alive(self.context, "waiting in a pool for a customer")
        self.sigterm.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.sigterm.__exit__(kind, error, trace)
        if isinstance(error, Stopped):
            told = "stopped by SIGTERM in the pool; the next start continues"
            self.context.events.tell(INFO, "pre-provisioning", told)
            self.context.events.flush()
            raise SystemExit(0) from None


def _open_links(context: Context, identity: Identity, own_keys: frozenset[str]) -> PoolLinks:
    """Before Ready: the platform may move the machine at once."""
    renamed = _restore_image(context, identity, own_keys)
    links = PoolLinks(context)
    if renamed:
        links.reconfigure(links.nic)  # the DHCP client has sent the name
    return links


def _restore_image(context: Context, identity: Identity, own_keys: frozenset[str]) -> bool:
    """Undo what began before the type was known: host keys, the host name, and the records of a run.

    `own_keys`: also those of an earlier boot, which ended before it came to this.
    True if the host name was another one.
    """
    machine = context.machine
    for path in sorted(own_keys):
        for name in (path, f"{path}.pub"):
            best_effort(context.events, "host key", lambda name=name: machine.remove(name))  # type: ignore[misc]
    renamed = machine.stat(FORMER_NAME) is not None
    best_effort(context.events, "host name", lambda: _restore_name(context))
    if identity.instance is not None:
        for kind in KINDS:
            path = identity.instance.path(kind)
            best_effort(context.events, "pool", lambda path=path: machine.remove(path))  # type: ignore[misc]
    return renamed


def _restore_name(context: Context) -> None:
    """The local stage has set the host name from media that do not ask for pre-provisioning, and IMDS does."""
    machine = context.machine
    note = machine.read(FORMER_NAME, limit=MOST_BYTES)
    if note is None:
        return
    former = loads(note.decode())
    for path, text in former["files"].items():
        if text is None:
            machine.remove(path)
        else:
            machine.write(path, text.encode("latin-1"), mode=0o644)
    if not machine.rooted:
        machine.set_hostname(former["kernel"])
    machine.remove(FORMER_NAME)


def _eject(context: Context, device: str | None) -> None:
    if device is None or context.machine.rooted or not context.config.provisioning_media.eject:
        return
    try:
        context.machine.eject(device, timeout=EJECT_SECS)
    except AzureInitError as error:
        context.events.tell(INFO, "eject", str(error))


def _wait_for_power_off(context: Context) -> None:
    """The host powers this VM off and makes others from its disk: their first boot is an ordinary one."""
    from azureinit.memory.pending import READY_IN_POOL, write_verdict

    best_effort(context.events, "verdict", lambda: write_verdict(context.machine, READY_IN_POOL))
    context.events.tell(INFO, "waiting", "waiting for the host to power this VM off: its disk becomes an image")
    context.events.flush()
    while True:
        keep_alive(context, "Ready; waiting for the host to power this VM off")
        context.machine.clock.sleep(LONGEST_WAIT)
