"""What the log of a program says about its failure: the lines that give the reason, and whether a lock was held."""

from __future__ import annotations

from azureinit.machine import MOST_BYTES
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Machine
    from azureinit.machine.processes import Ran
    from azureinit.plan.actions import Run

PAUSE = 2.0  # seconds until a program whose lock is held is started again
MOST_LINES = 4
MOST_QUOTED = 350  # characters


def run_and_quote(machine: Machine, action: Run, *, stdin: bytes, timeout: float, begun: Callable[[int], None]) -> Ran:
    """Run the program, again while another one holds its lock. The result of a failure quotes the log."""
    deadline = machine.clock.monotonic() + timeout
    output = action.output or ""
    while True:
        before = len(_content(machine, output))
        left = deadline - machine.clock.monotonic()
        env = dict(action.env)
        ran = machine.run(action.argv, stdin=stdin, timeout=left, env=env, output=action.output, begun=begun)
        if not ran.status:
            return ran
        content = _content(machine, output)
        added = content[before:] if len(content) >= before else content  # the log was rotated
        text = added.decode("utf-8", "replace")
        held = any(words in text for words in action.busy)
        if not held or machine.clock.monotonic() + PAUSE >= deadline:
            quote = quoted(text, action.says)
            told = f"{quote}; {ran.told}" if quote else ran.told
            return replace(ran, output=None, err=told.encode())
        machine.clock.sleep(PAUSE)


def quoted(text: str, says: tuple[str, ...]) -> str:
    """The last lines that begin with one of `says`, each once; without any, the last line that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # What follows a colon at the end of a line is on the next one.
    whole = [f"{line} {after}" if line.endswith(":") else line for line, after in zip(lines, [*lines[1:], ""])]
    reasons = list(dict.fromkeys(line for line in whole if line.startswith(says))) or lines[-1:]
    return without_passwords("; ".join(reasons[-MOST_LINES:]))[:MOST_QUOTED]


def without_passwords(text: str) -> str:
    """URLs may hold a user name and a password."""
    first, *rest = text.split("://")
    parts = [first]
    for part in rest:
        host, slash, path = part.partition("/")
        parts.append(host.rpartition("@")[2] + slash + path)
    return "://".join(parts)


def _content(machine: Machine, path: str) -> bytes:
    return machine.read(path, limit=MOST_BYTES) or b"" if path else b""
