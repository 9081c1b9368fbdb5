"""Services and units: by systemctl under systemd, by rc-service under OpenRC (Alpine)."""

from __future__ import annotations

from azureinit.facts.host import OPENRC, OPENRC_TOOL, SYSTEMD
from azureinit.plan.actions import Run, Way
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.host import Host

UNIT = "{unit}"
TIMER_SECS = 10.0


class ServiceManager(Record):
    """The commands of one service manager; UNIT stands for the unit's name."""

    tool: str
    start: tuple[str, ...]
    # Without waiting: the unit may be ordered after the one that azure-init runs in.
    start_later: tuple[str, ...]
    stop: tuple[str, ...]
    # Only where it runs, and without waiting.
    reload: tuple[str, ...]


MANAGERS = {
    SYSTEMD: ServiceManager(
        tool="systemctl",
        start=("systemctl", "start", UNIT),
        start_later=("systemctl", "--no-block", "start", UNIT),
        stop=("systemctl", "stop", UNIT),
        reload=("systemctl", "--no-block", "try-reload-or-restart", UNIT),
    ),
    OPENRC: ServiceManager(
        tool=OPENRC_TOOL,
        start=(OPENRC_TOOL, UNIT, "start"),
        start_later=(OPENRC_TOOL, UNIT, "start"),  # starts the program in the background and returns
        stop=(OPENRC_TOOL, UNIT, "stop"),
        reload=(OPENRC_TOOL, "--ifstarted", UNIT, "reload"),
    ),
}


def start_unit(unit: str, *, wait: bool, init: str = SYSTEMD, timeout: float = 60.0) -> Run:
    manager = MANAGERS[init]
    return _run(manager.start if wait else manager.start_later, unit, timeout=timeout)


def start_again(target: str, *, failed: tuple[str, ...], timeout: float) -> tuple[Run, ...]:
    """Everything that belongs to a target and does not run, without waiting; `failed`: patterns of units that may have
    failed too often to be started.
    """
    return (
        Run(argv=("systemctl", "reset-failed", *failed), timeout=timeout, changes=False),
        Run(argv=("systemctl", "--no-block", "start", target), timeout=timeout, changes=False),
    )


def stop_unit(unit: str, *, init: str = SYSTEMD) -> Way:
    manager = MANAGERS[init]
    return Way(backend=manager.tool, actions=(_run(manager.stop, unit, changes=True),))


def reload_unit(unit: str | None, host: Host) -> Run | None:
    """Have a running service read its configuration again; None where no known service manager can be asked."""
    manager = MANAGERS.get(host.init)
    if unit is None or manager is None or manager.tool not in host.tools:
        return None
    return _run(manager.reload, unit)


def start_timer(unit: str, *, seconds: float) -> tuple[Run, ...]:
    """Start a unit later. A timer of an earlier run of this boot is replaced."""
    timer = f"{unit.rpartition('.')[0]}.timer"
    words = (f"--on-active={seconds:.0f}", "--timer-property=AccuracySec=1s", f"--unit={unit}")
    stop = ("systemctl", "stop", timer)
    return (Run(argv=("systemd-run", "--quiet", *words), timeout=TIMER_SECS, changes=False, cleanup=(stop,)),)


def run_program(
    argv: tuple[str, ...], *, unit: str, description: str, in_unit: bool, timeout: float, output: str
) -> Way:
    """Run a program of the user's to its end. `in_unit`: in a unit of its own, by systemd-run.

    Processes that the program leaves running stay; only the timeout ends all of them.
    """
    if not in_unit:
        return Way(backend="native", actions=(Run(argv=argv, timeout=timeout, output=output),))
    wrapper = (
        "systemd-run",
        "--quiet",
        "--wait",
        "--pipe",
        "--collect",
        f"--unit={unit}",
        f"--description={description}",
        "--property=KillMode=process",
        "--",
    )
    kill = ("systemctl", "kill", "--signal=KILL", unit)
    stop = ("systemctl", "stop", unit)
    run = Run(argv=(*wrapper, *argv), timeout=timeout, output=output, cleanup=(kill, stop))
    return Way(backend="systemd-run", actions=(run,))


def _run(command: tuple[str, ...], unit: str, *, timeout: float = 60.0, changes: bool = False) -> Run:
    return Run(argv=tuple(unit if word == UNIT else word for word in command), timeout=timeout, changes=changes)
