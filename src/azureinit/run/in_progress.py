"""The report that provisioning has begun, sent in a thread. Nothing depends on it."""

from __future__ import annotations

from azureinit.run.enact import best_effort
from azureinit.telemetry.events import DEBUG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine.threads import Flag
    from azureinit.run.platform import Platform
    from azureinit.run.state import Context


class InProgress:
    """Sent once, as soon as the VM's id is known. The verdict waits for its end, so that it never arrives later."""

    def __init__(self, context: Context, platform: Platform) -> None:
        self.context, self.platform = context, platform
        self._ended: Flag | None = None

    def start(self, vm_id: str | None) -> None:
        if vm_id is None or self._ended is not None:
            return
        from azureinit.machine.threads import start

        events = self.context.events
        events.flush()
        self._ended = start(lambda: best_effort(events, "in progress", lambda: self._send(vm_id), level=DEBUG))

    def wait(self) -> None:
        if self._ended is not None:
            self._ended.wait()

    def _send(self, vm_id: str) -> None:
        from azureinit.report.protocol import send_progress

        context, platform = self.context, self.platform
        platform.wait(until=context.work_deadline)
        send_progress(
            platform.config,
            vm_id,
            protocol=platform.config.report.protocol,
            fetch=platform.goal_state,
            clock=context.machine.clock,
            deadline=context.deadline,
            observe=context.events.observe,
        )
