"""The listeners of a run: terminal or journal, console, log file, key-value pool, trace, collector."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.machine.outlets import stderr_is_journal, stderr_is_terminal
from azureinit.record import Record
from azureinit.telemetry.events import WARN, Events
from azureinit.telemetry.log import file_listener, log_filter, peer_listener, stream_listener, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.config.filters import Filter
    from azureinit.config.model import Config
    from azureinit.machine import Machine
    from azureinit.telemetry.events import Listener
    from azureinit.telemetry.kvp import KvpLayer
    from azureinit.telemetry.otlp import Otlp

    Write = Callable[[str], object]


class Listening(Record):
    events: Events
    kvp: KvpLayer | None = None
    otlp: Otlp | None = None


def listen(
    machine: Machine,
    config: Config,
    *,
    write: Write,
    ours: bool,
    verdict: bool = True,
    to_host: bool = False,
    trace: bool = True,
    log: bool = True,
) -> Listening:
    """`write`: standard error. `ours`: whether this machine may be written to; if not, only standard error is used.

    `verdict`: False for stages without a verdict, which write nothing to the console, and nothing to the host unless
    `to_host` is set. `trace`, `log`: False if the directory of that file is not mounted yet.
    """
    warnings: list[str] = []
    chosen = log_filter(machine.environ, warnings)
    seed, about = _seed(machine), {}  # type: tuple[str, dict[str, str]]
    kvp = _pool(machine, config, about, warnings) if ours and (verdict or to_host) else None
    otlp = _collector(machine, config, seed, about) if ours else None
    listeners = [_for_people(machine, write, chosen, about)]
    if ours:
        if log:
            path, most = config.azure_init_log_path.path, config.telemetry.log_bytes
            listeners.append(file_listener(machine, path, chosen=chosen, limit_bytes=most))
            if config.userdata.cloud_init_compat:
                listeners.append(peer_listener(machine, chosen=chosen, limit_bytes=most))
        console = verdict and config.telemetry.console
        listeners += _kept(machine, config, seed, about, console=console, trace=trace)
    listeners += [one for one in (kvp, otlp) if one is not None]
    events = Events(clock=machine.clock, listeners=tuple(listeners), seed=seed, about=about)
    for warning in warnings:
        events.tell(WARN, "telemetry", warning)
    return Listening(events=events, kvp=kvp, otlp=otlp)


def _for_people(machine: Machine, write: Write, chosen: Filter, about: dict[str, str]) -> Listener:
    colour = wants_colour(machine.environ, terminal=stderr_is_terminal())
    stream = stream_listener(write, chosen=chosen, colour=colour)
    if not stderr_is_journal(machine):
        return stream
    from azureinit.telemetry.journald import JournalListener

    return JournalListener(machine, chosen=chosen, about=about, otherwise=stream)


def _kept(
    machine: Machine, config: Config, seed: str, about: dict[str, str], *, console: bool, trace: bool
) -> list[Listener]:
    found: list[Listener] = []
    if console and not machine.rooted and not stderr_is_terminal():
        from azureinit.telemetry.console import ConsoleListener

        found.append(ConsoleListener(machine))
    if trace and config.telemetry.trace:
        from azureinit.telemetry.trace import Trace

        path = f"{config.azure_init_data_dir.path.rstrip('/')}/trace.jsonl"
        found.append(Trace(machine, path, seed=seed, about=about))
    return found


def _pool(machine: Machine, config: Config, about: dict[str, str], warnings: list[str]) -> KvpLayer | None:
    if not config.telemetry.kvp_diagnostics:
        return None
    from azureinit.telemetry.kvp import KvpLayer, chosen_filter

    chosen = chosen_filter(config.telemetry.kvp_filter, warnings)
    return KvpLayer(machine, config.telemetry.kvp_directory, chosen=chosen, about=about)


def _collector(machine: Machine, config: Config, seed: str, about: dict[str, str]) -> Otlp | None:
    from azureinit.telemetry.trace import collector_wanted

    if not collector_wanted(config, machine.environ):
        return None
    from azureinit.telemetry.otlp import Otlp

    return Otlp(machine, config, machine.environ, seed=seed, about=about)


def _seed(machine: Machine) -> str:
    """Random digits from the kernel; if they cannot be read, time and PID."""
    try:
        told = (machine.read("/proc/sys/kernel/random/uuid") or b"").decode("ascii", "replace").strip().replace("-", "")
    except AzureInitError:
        told = ""
    if len(told) == 32 and all(digit in "0123456789abcdef" for digit in told):
        return told
    return f"{int(machine.clock.now() * 1e6) & (1 << 64) - 1:016x}{machine.pid & 0xFFFFFFFF:08x}00000000"
