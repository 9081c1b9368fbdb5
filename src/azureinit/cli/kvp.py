"""`azure-init kvp` and `libazureinit-kvp`: read, change and explain a Hyper-V key-value pool, and report through it.

Exit codes: 0 done; 1 no such key, or not stale; 2 the command line or its input is wrong; 3 the pool cannot be used.
"""

from __future__ import annotations

import json
import sys

from azureinit.cli.help import command_help
from azureinit.cli.kvp_options import KVP, PROG
from azureinit.cli.parser import parse
from azureinit.errors import AzureInitError, LocalError, UsageError
from azureinit.kvp.diagnostics import Diagnostic, encode, timestamp
from azureinit.kvp.entries import entry_as_json, entry_as_text, parse_entries
from azureinit.kvp.explain import explain
from azureinit.kvp.records import KvpInvalid
from azureinit.kvp.report import REPORT_KEY, Report, encoded
from azureinit.kvp.store import DIRECTORY, Store
from azureinit.machine.clock import rfc3339_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace
    from typing import Any, BinaryIO, NoReturn, TextIO

    from azureinit.kvp.records import Pair
    from azureinit.machine import Machine

NOT_FOUND, WRONG, UNUSABLE = 1, 2, 3
LOCK_TIMEOUT = 30.0  # seconds to wait for the locks of other processes
POLL_INTERVAL = 0.25  # seconds between two reads of `watch`
MAX_INPUT = 1 << 32  # bytes of input lines; larger input could not fit into a pool, and would exhaust memory
CLEARED = "(the pool was cleared)"


class Session:
    """One command: its arguments, its pool and its streams."""

    def __init__(
        self, asked: SimpleNamespace, machine: Machine, out: TextIO, err: TextIO, stdin: BinaryIO | None
    ) -> None:
        self.asked, self.machine, self.out, self.err, self.stdin = asked, machine, out, err, stdin
        self.store = Store(
            machine, pool=asked.pool, directory=asked.dir, unsafe=asked.unsafe, timeout=LOCK_TIMEOUT, largest=None
        )

    def write(self, text: str, as_json: Any) -> None:
        """Writes one of both. `text` contains its line ends, and may be empty."""
        self.out.write(f"{compact(as_json)}\n" if self.asked.json else text)

    def input_pairs(self) -> list[Pair]:
        data: bytes | None
        if self.asked.file is None:
            data = self._standard_input()
            if len(data) > MAX_INPUT:
                raise LocalError(f"cannot read standard input: it is larger than {MAX_INPUT} bytes")
        else:
            data = self.machine.read_host(self.asked.file, limit=MAX_INPUT)
            if data is None:
                raise LocalError(f"cannot read {self.asked.file}: No such file or directory")
        try:
            return parse_lines(data.decode())
        except UnicodeDecodeError:
            raise LocalError("stream did not contain valid UTF-8") from None

    def _standard_input(self) -> bytes:
        stream = self.stdin if self.stdin is not None or sys.stdin is None else sys.stdin.buffer
        try:
            return b"" if stream is None else stream.read(MAX_INPUT + 1)
        except OSError as error:
            raise LocalError(f"cannot read standard input: {error.strerror or error}") from error

    def vm_id(self) -> str:
        from azureinit.sources.identity import read_vm_id

        found: str | None = self.asked.vm_id if self.asked.vm_id is not None else read_vm_id(self.machine, "")
        if found is None:
            raise UsageError("unable to determine the current VM ID automatically; pass --vm-id explicitly")
        return found


def main(
    argv: list[str],
    *,
    machine: Machine,
    out: TextIO,
    err: TextIO,
    prog: str = PROG,
    stdin: BinaryIO | None = None,
) -> int:
    try:
        asked = parse(KVP, argv, prog=prog, out=out)
        if asked is None:
            return 0
        if asked.command is None:
            err.write(command_help(KVP, prog=prog))
            return WRONG
        if asked.json and asked.text:
            raise UsageError("the argument '--json' cannot be used with '--text'")
        session = Session(asked, machine, out, err, stdin)
        if asked.dir != DIRECTORY and machine.stat(asked.dir) is None:
            err.write(f"warning: --dir {asked.dir}: there is no such directory\n")
        return VERBS[asked.command](session) or 0
    except KvpInvalid as error:
        err.write(f"{error}\n")
        return WRONG
    except (LocalError, UsageError) as error:
        err.write(f"{error}{'; ' + error.hint if error.hint else ''}\n")
        return UNUSABLE if isinstance(error, LocalError) else WRONG


def command() -> NoReturn:
    """The installed `libazureinit-kvp` calls this."""
    from azureinit.machine import Machine
    from azureinit.machine.this_process import leave, open_streams

    open_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # pools hold UTF-8, whatever the locale is
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        status = main(sys.argv[1:], machine=Machine(), out=sys.stdout, err=sys.stderr)
        sys.stdout.flush()
    except BrokenPipeError:
        status = 0  # the reader of the output has closed it, as `head` does
    except AzureInitError as error:
        sys.stderr.write(f"{error}\n")
        status = UNUSABLE
    except OSError as error:
        sys.stderr.write(f"cannot write: {error.strerror or error}\n")
        status = UNUSABLE
    except KeyboardInterrupt:
        status = 130
    leave(status)


# ---- commands that read


def info(session: Session) -> None:
    store = session.store
    count = store.count()
    told = {
        "pool": store.pool,
        "path": store.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "mode": "unsafe" if session.asked.unsafe else "safe",
        "records": count,
        "empty": count == 0,
        "stale": store.is_stale(),
        "max_key_size": store.limits.key,
        "max_value_size": store.limits.value,
    }
    session.write("".join(f"{key}={_word(value)}\n" for key, value in told.items()), told)


def dump(session: Session) -> None:
    asked = session.asked
    pairs = session.store.pairs()
    if not asked.parse:
        if asked.name is not None or asked.kind is not None:
            raise UsageError("--name and --kind need --parse")
        session.write(_lines(pairs), [{"key": key, "value": value} for key, value in pairs])
        return
    entries = [
        entry
        for entry in parse_entries(pairs)
        if not isinstance(entry, Diagnostic)
        or ((asked.name is None or asked.name in entry.name) and asked.kind in (None, entry.kind))
    ]
    session.write(
        "".join(f"{entry_as_text(entry)}\n" for entry in entries), [entry_as_json(entry) for entry in entries]
    )


def entries(session: Session) -> None:
    found = session.store.entries()
    session.write(_lines(sorted(found.items(), key=lambda pair: pair[0].encode())), found)


def read(session: Session) -> int:
    value = session.store.read(session.asked.key)
    if value is None:
        return NOT_FOUND
    session.write(f"{value}\n", {"key": session.asked.key, "value": value})
    return 0


def is_stale(session: Session) -> int:
    stale = session.store.is_stale()
    session.write(f"{_word(stale)}\n", {"stale": stale})
    return 0 if stale else NOT_FOUND


def explained(session: Session) -> None:
    sentences = explain(session.store.readable_pairs())
    session.write("".join(f"{sentence}\n" for sentence in sentences), sentences)


def watch(session: Session) -> None:
    """Explains the records, then each new one, until the time is over or the user interrupts."""
    clock = session.machine.clock
    until = None if session.asked.seconds is None else clock.monotonic() + session.asked.seconds
    seen: list[Pair] = []
    last_stamp: object = None
    complaint = ""
    try:
        while True:
            try:
                stamp = session.store.stamp()
                if stamp != last_stamp:
                    now = session.store.readable_pairs()
                    if seen and not now:
                        session.write(f"{CLEARED}\n", CLEARED)
                    for sentence in explain(_added(seen, now)):
                        session.write(f"{sentence}\n", sentence)
                    seen, last_stamp, complaint = now, stamp, ""
                    session.out.flush()
            except LocalError as error:
                if str(error) != complaint:  # the error may go away while `watch` runs: print it once
                    complaint = str(error)
                    session.err.write(f"{complaint}\n")
            if until is not None and clock.monotonic() >= until:
                return
            clock.sleep(POLL_INTERVAL)
    except KeyboardInterrupt:
        return


# ---- commands that change


def write(session: Session) -> None:
    change = session.store.append if session.asked.append else session.store.upsert
    change(session.asked.key, session.asked.value)


def load(session: Session) -> None:
    session.store.load(session.input_pairs())


def append_multiple(session: Session) -> None:
    session.store.append_all(session.input_pairs())


def delete(session: Session) -> None:
    removed = session.store.delete(session.asked.key) > 0
    session.write(f"{_word(removed)}\n", {"removed": removed})


def delete_multiple(session: Session) -> None:
    removed = session.store.delete(*session.asked.key)
    session.write(f"{removed}\n", {"removed": removed})


def clear(session: Session) -> None:
    if session.asked.if_stale:
        session.store.clear_if_stale()
    else:
        session.store.clear()


def emit(session: Session) -> None:
    from uuid import uuid4

    asked = session.asked
    event = Diagnostic(
        kind="event",
        agent=asked.agent,
        vm_id=session.vm_id(),
        name=asked.name,
        event_id=str(uuid4()),
        timestamp=timestamp(session.machine.clock.now()),
        payload=asked.message,
    )
    session.store.append_all(encode(event))


def report(session: Session) -> None:
    asked = session.asked
    told = Report(
        result=asked.result,
        agent=asked.agent,
        vm_id=session.vm_id(),
        timestamp=rfc3339_ns(session.machine.clock.now_ns()),
        reason=asked.reason,
        documentation_url=asked.documentation_url,
        supporting=tuple(pair for pairs in asked.supporting_data for pair in pairs),
    )
    session.store.upsert(REPORT_KEY, encoded(told))


# ---- text


def parse_lines(text: str) -> list[Pair]:
    """A line ends with LF or CR LF; any other CR is part of the value."""
    pairs = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        line = line[:-1] if line.endswith("\r") and number < len(lines) else line
        key, equals, value = line.partition("=")
        if equals:
            pairs.append((key, value))
        elif line:
            raise UsageError(f"line {number} must be in key=value format")
    return pairs


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _lines(pairs: list[Pair]) -> str:
    return "".join(f"{key}={value}\n" for key, value in pairs)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _added(before: list[Pair], now: list[Pair]) -> list[Pair]:
    """The pairs that `now` contains more often than `before`."""
    counts: dict[Pair, int] = {}
    for pair in before:
        counts[pair] = counts.get(pair, 0) + 1
    added = []
    for pair in now:
        counts[pair] = counts.get(pair, 0) - 1
        if counts[pair] < 0:
            added.append(pair)
    return added


VERBS: dict[str, Callable[[Session], int | None]] = {
    "info": info,
    "dump": dump,
    "entries": entries,
    "read": read,
    "write": write,
    "emit": emit,
    "load": load,
    "append-multiple": append_multiple,
    "delete": delete,
    "delete-multiple": delete_multiple,
    "clear": clear,
    "is-stale": is_stale,
    "report-success": report,
    "report-failure": report,
    "explain": explained,
    "watch": watch,
}
