"""The guest proxy agent: with the metadata security protocol, IMDS refuses requests that the agent did not sign.

Its state matters in two cases: IMDS refuses (401, 403), or the media ask for the agent (`ProvisionGuestProxyAgent`).
"""

from __future__ import annotations

from azureinit.errors import AzureInitError, ProxyAgentFailed, ProxyAgentMissing
from azureinit.machine.threads import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.machine import Machine

NAME = "azure-proxy-agent"
MOST_TEXT = 500
TO_END = 10.0  # seconds that the agent may exceed its given waiting time


class ProxyAgent:
    """Waits for the agent once in a run, for any number of threads."""

    def __init__(self, machine: Machine, config: Config, *, deadline: float) -> None:
        self.machine, self.config, self.deadline = machine, config, deadline
        self._lock = allocate_lock()
        self._outcome: str | ProxyAgentFailed | None = None

    def wait(self, *, demanded: bool) -> str:
        """The agent's output once it is ready; "" if it is not needed. A failure is raised on every call.

        If it is neither installed nor requested, a refusal of IMDS may have another cause: not a failure.
        """
        if not self.config.azure_proxy_agent.enable:
            return "azure_proxy_agent.enable is false"
        if self.machine.find(NAME) is None:
            if demanded:
                raise ProxyAgentMissing(f"{NAME} is requested by the platform but not installed")
            return f"{NAME} is neither installed nor requested"
        with self._lock:
            if self._outcome is None:
                self._outcome = self._status()
        if isinstance(self._outcome, ProxyAgentFailed):
            raise self._outcome
        return self._outcome

    def _status(self) -> str | ProxyAgentFailed:
        seconds = self.config.azure_proxy_agent.wait_secs
        timeout = min(seconds + TO_END, self.deadline - self.machine.clock.monotonic())
        try:
            ran = self.machine.run((NAME, "--status", "--wait", f"{seconds:.0f}"), timeout=timeout)
        except AzureInitError as error:
            return ProxyAgentFailed(str(error))
        told = b": ".join(filter(None, (ran.err.strip(), ran.out.strip()))).decode("utf-8", "replace")[:MOST_TEXT]
        told = f"({ran.ending}): {told or 'no output'}"
        if ran.status != 0:
            return ProxyAgentFailed(f"{NAME} is not ready {told}", exit_status=ran.ending)
        return f"{NAME} was ready {told}"
