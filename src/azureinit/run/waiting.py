"""What a boot is waiting for, and why: on the console and in the service's status every ten seconds.

Without a network the media alone are applied, so that the serial console has an account. Ready then waits for the
network, and for IMDS to agree with what was applied.
"""

from __future__ import annotations

from azureinit.addresses import host_of
from azureinit.errors import NoNetwork
from azureinit.sources.route import has_route
from azureinit.telemetry.events import DEBUG, INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.errors import AzureInitError
    from azureinit.facts.network import Network
    from azureinit.run.platform import Platform
    from azureinit.run.state import Context

TELL_SECS = 10.0
MOST_CAUSES = 2
NO_LINK = 0.25  # of boot.network_secs, where no link can come up
SILENT = {
    "imds": "IMDS has not answered",
    "media": "no provisioning medium has come",
    "wireserver": "the wireserver has not accepted it",
}


class Waiting:
    """Written by the run, read by the thread that logs it. `silent`: what has not answered, and its last error."""

    def __init__(self, context: Context, platform: Platform) -> None:
        self.machine, self.events, self.platform = context.machine, context.events, platform
        self.silent: dict[str, AzureInitError | None] = {}
        self._what, self._since = "", 0.0
        self._told: set[str] = set()

    def begin(self, what: str) -> None:
        self.silent = {}
        self._what, self._since = what, self.machine.clock.monotonic()

    def end(self) -> None:
        self._what = ""

    def tell(self) -> None:
        """Log the current wait; nothing if there is none, or only a short one."""
        from azureinit.machine.service import notify

        what, seconds = self._what, self.machine.clock.monotonic() - self._since
        if not what or seconds < TELL_SECS / 2:
            return
        why = self._why()
        text = f"waiting for {what} ({seconds:.0f} s so far): {why}"
        notify(self.machine, f"STATUS={text}")
        # The console gets every line, the log and the host one for each cause.
        self.events.tell(DEBUG if why in self._told else INFO, "waiting", text)
        self._told.add(why)

    def _why(self) -> str:
        config = self.platform.config
        hosts = (host_of(config.imds.endpoint), host_of(config.wireserver.health_endpoint))
        if not all(has_route(self.machine, host) for host in hosts):
            from azureinit.facts.network import read_network

            return f"no network: {_cause(read_network(self.machine))}"
        silent = [SILENT[name] + (f": {error}" if error else "") for name, error in list(self.silent.items())]
        return "; ".join(silent) or "no answer yet"


def no_network(context: Context, seconds: float) -> NoNetwork | None:
    """The reason to give up waiting for a route to IMDS after so many seconds; None: one may still come."""
    machine, config = context.machine, context.config
    if seconds < config.boot.network_secs * NO_LINK or has_route(machine, host_of(config.imds.endpoint)):
        return None
    from azureinit.facts.diagnosis import cards
    from azureinit.facts.network import read_network

    network = read_network(machine)
    may_come = network.links is None or any(link.up for link in cards(network.links))
    if may_come and seconds < config.boot.network_secs:
        return None
    return NoNetwork(_cause(network))


def _cause(network: Network) -> str:
    """One or two sentences, the likeliest cause first."""
    from azureinit.facts.diagnosis import HOSTS, diagnosis

    return "; ".join(diagnosis(network)[:MOST_CAUSES]) or f"no route to {HOSTS[0]}"
