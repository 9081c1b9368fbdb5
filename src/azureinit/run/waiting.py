"""What a boot waits for, and why: told on the console and to systemd every ten seconds.

Where there is no network the media alone are applied, so that the serial console has an account. Ready then waits for
the network, and for IMDS to agree with what was applied.
"""

from __future__ import annotations

from azureinit.addresses import host_of
from azureinit.errors import NoNetwork
from azureinit.facts.diagnosis import HOSTS, cards, diagnosis
from azureinit.facts.network import read_network
from azureinit.machine.service import notify
from azureinit.sources.route import has_route
from azureinit.telemetry.events import DEBUG, INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.network import Network
    from azureinit.run.engine import Walk

LEAST_TIME = 20.0  # to ask and do everything again
MOST_CAUSES = 2
SILENT = {
    "imds": "IMDS has not answered",
    "media": "no provisioning medium has come",
    "wireserver": "the wireserver has not accepted it",
}


def no_network(walk: Walk, seconds: float) -> NoNetwork | None:
    """The reason to wait no longer for a way to IMDS, after so many seconds without one; None: it may still come."""
    if has_route(walk.machine, imds_host(walk)):
        return None  # something else is waited for
    network = read_network(walk.machine)
    may_come = network.links is None or any(link.up for link in cards(network.links))
    if may_come and seconds < walk.config.boot.network_secs:
        return None
    return NoNetwork(cause(network))


def cause(network: Network) -> str:
    """In a sentence or two, the likeliest first."""
    return "; ".join(diagnosis(network)[:MOST_CAUSES]) or f"no route to {HOSTS[0]}"


def tell(walk: Walk) -> None:
    """Nothing, where nothing is waited for."""
    what, since = walk.waits_for, walk.waits_since
    if not what:
        return
    why = _why(walk)
    seconds = walk.machine.clock.monotonic() - since
    text = f"waiting for {what} since {seconds:.0f} s: {why}"
    notify(walk.machine, f"STATUS={text}")
    # The console has it every time, the log and the host once for each cause.
    walk.events.tell(DEBUG if why in walk.warned else INFO, "waiting", text)
    walk.warned.add(why)


def _why(walk: Walk) -> str:
    if not (has_route(walk.machine, imds_host(walk)) and has_route(walk.machine, wireserver_host(walk))):
        return f"no network: {cause(read_network(walk.machine))}"
    silent = [SILENT[name] + (f": {error}" if error else "") for name, error in list(walk.trouble.items())]
    return "; ".join(silent) or "no answer yet"


def imds_host(walk: Walk) -> str:
    return host_of(walk.config.imds.endpoint)


def wireserver_host(walk: Walk) -> str:
    return host_of(walk.config.wireserver.health_endpoint)


def confirm(walk: Walk) -> None:
    """The media alone were applied: logins are let go, and once there is a network everything is asked and done again.

    Ready is kept from now on, so that a later boot, too, asks IMDS before it sends it.
    """
    if walk.context.booted is None:
        return
    from azureinit.run.deliver import keep, wait_for_wireserver
    from azureinit.run.gather import gather
    from azureinit.run.settle import settle

    walk.ended = True
    notify(walk.machine, "READY=1\nSTATUS=provisioned from the media alone")
    keep(walk, verdict="ready", failure="")
    until = walk.context.work_deadline
    walk.wait("the network: the media alone were applied, and IMDS has to agree before Ready is sent")
    try:
        wait_for_wireserver(walk, until=until)
    finally:
        walk.wait("")
    left = until - walk.machine.clock.monotonic()
    if left < LEAST_TIME or not has_route(walk.machine, imds_host(walk)):
        return
    walk.events.tell(INFO, "network", "there is a network now: IMDS is asked whether it agrees with the media")
    gather(walk)
    settle(walk)
