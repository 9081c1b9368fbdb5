"""Logins wait until azure-init.service is ready: at the verdict, or after boot.hold_logins_secs."""

from __future__ import annotations

from azureinit.machine.service import is_service, notify
from azureinit.machine.threads import allocate_lock
from azureinit.run.enact import best_effort
from azureinit.run.waiting import TELL_SECS
from azureinit.telemetry.events import DEBUG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.state import Context, Identity
    from azureinit.run.waiting import Waiting

GRACE_SECS = 5.0


class Logins:
    def __init__(self, context: Context, waiting: Waiting) -> None:
        self.context, self.waiting = context, waiting
        self._deciding = allocate_lock()
        self._plan_decides = False  # the plan writes WALinuxAgent's marker from here on
        self._released = False
        self._stays = False  # the machine waits in a pool
        self._undecided = False  # it may have to

    def hold(self, identity: Identity, *, may_stay: bool = False) -> None:
        """Neither another run nor a silent platform delays logins for longer than boot.hold_logins_secs.

        `may_stay`: the machine may be in a pool; until `decide`, the time is not limited.
        """
        machine = self.context.machine
        if not is_service(machine):
            return
        from azureinit.machine.threads import start

        held = self.context.config.boot.hold_logins_secs
        self._undecided = may_stay
        longest = max(held, self.context.deadline - machine.clock.monotonic()) if may_stay else held
        notify(machine, f"EXTEND_TIMEOUT_USEC={round((longest + GRACE_SECS) * 1e6)}")  # it can only lengthen the time
        start(lambda: self._watch(held, identity))

    def plan_decides(self) -> None:
        with self._deciding:
            self._plan_decides = True

    def decide(self) -> None:
        """The machine is not in a pool."""
        self._undecided = False

    def stay_held(self) -> None:
        """In a pool logins are held for as long as it takes. The run for the customer holds them anew."""
        with self._deciding:
            self._stays = True

    def release(self, status: str) -> None:
        """Notify systemd, so that logins and other units start: they need not wait for the platform's answer."""
        self._released = True
        notify(self.context.machine, f"READY=1\nSTATUS={status}")

    def _watch(self, held: float, identity: Identity) -> None:
        """For the rest of the run: release logins in time, and log what the run is waiting for."""
        from azureinit.machine.threads import Flag

        clock, holding = self.context.machine.clock, True
        begun = clock.monotonic()
        next_line = begun + TELL_SECS
        while True:
            end = min(next_line, begun + held) if holding and not self._undecided else next_line
            Flag().wait(end - clock.monotonic())
            now = clock.monotonic()
            if self._stays:
                return
            if holding and now >= begun + held and not self._undecided:
                holding = False
                self._give_up(identity)
            if now >= next_line:
                next_line = now + TELL_SECS
                best_effort(self.context.events, "status", self.waiting.tell, level=DEBUG)

    def _give_up(self, identity: Identity) -> None:
        with self._deciding:
            if self._stays:
                return
            if not self._plan_decides:
                from azureinit.run.waagent import quiet_waagent

                quiet_waagent(self.context, identity)  # it starts now, before the plan that would write its marker
        if not self._released:
            notify(self.context.machine, "READY=1\nSTATUS=still provisioning; logins are no longer held back")
