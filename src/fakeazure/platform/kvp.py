"""The host's end of the pool: the records a machine left there, as Hyper-V takes them and as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fakeazure.platform import kvp_cloud_init, kvp_diagnostics
from fakeazure.platform.events import Event, Kvp, PoolRead
from fakeazure.platform.report import parse_report

GUEST_POOL = ".kvp_pool_1"  # what a guest writes and its host reads
KEY_FIELD, VALUE_FIELD = 512, 2048
RECORD = KEY_FIELD + VALUE_FIELD
HOST_KEY, HOST_VALUE = 254, 1022  # what is longer reaches the host without its end
REPORT = "PROVISIONING_REPORT"
SENTENCE = 500  # characters


@dataclass(frozen=True, slots=True)
class Record:
    key: str
    value: str
    cut: bool = False


class Host:
    """Reads a machine's pool again and again, and remembers what it has read."""

    def __init__(self, pools: Path) -> None:
        self.pools = pools
        self._read: set[tuple[str, str]] = set()

    def read(self, *, t: float, late: bool = False) -> tuple[Event, ...]:
        """What is new: first that we read, then each thing that was said. No pool, and nothing is read."""
        file = self.pools / GUEST_POOL
        try:
            said, problem = events_of(read_pool(file), t=t, late=late), ""
        except FileNotFoundError:
            return ()
        except OSError as error:
            said, problem = (), error.strerror or str(error)
        new = tuple(one for one in said if (one.key, one.value) not in self._read)
        self._read |= {(one.key, one.value) for one in new}
        if late and not new:
            return ()
        return (PoolRead(t=t, path=str(file), count=len(new), late=late, problem=problem), *new)


def read_pool(file: Path) -> tuple[Record, ...]:
    """Without a lock: a machine that keeps its own for ever must not halt the platform."""
    return parse_pool(file.read_bytes())


def parse_pool(data: bytes) -> tuple[Record, ...]:
    """Whole records only, and of those with one key the last, where it stands."""
    starts = range(0, len(data) - RECORD + 1, RECORD)
    latest: dict[str, Record] = {}
    for record in (parse_record(data[start : start + RECORD]) for start in starts):
        latest.pop(record.key, None)
        latest[record.key] = record
    return tuple(record for record in latest.values() if record.key)


def parse_record(data: bytes) -> Record:
    key, value = (field.partition(b"\0")[0] for field in (data[:KEY_FIELD], data[KEY_FIELD:]))
    cut = len(key) > HOST_KEY or len(value) > HOST_VALUE
    return Record(key[:HOST_KEY].decode(errors="replace"), value[:HOST_VALUE].decode(errors="replace"), cut)


def events_of(records: Iterable[Record], *, t: float, late: bool = False) -> tuple[Kvp, ...]:
    """One event for each thing that was said; what came in several records is put together again."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault(kind_and_key(record.key), []).append(record)
    return tuple(event_of(kind, key, group, t=t, late=late) for (kind, key), group in groups.items())


def kind_and_key(key: str) -> tuple[str, str]:
    """What sort of thing a record says, and the key that all its parts have in common."""
    if whole := kvp_diagnostics.group(key):
        return "diagnostic", whole
    if whole := kvp_cloud_init.group(key):
        return "cloud-init", whole
    if kvp_diagnostics.is_old(key):
        return "diagnostic", key
    return "report" if key == REPORT else "other", key


def event_of(kind: str, key: str, group: Sequence[Record], *, t: float, late: bool) -> Kvp:
    pairs = [(record.key, record.value) for record in group]
    value = pairs[-1][1]
    if kvp_diagnostics.is_old(key):
        text = kvp_diagnostics.old_sentence(key, value)
    elif kind == "diagnostic":
        value, text = kvp_diagnostics.sentence(key, pairs)
    elif kind == "cloud-init":
        value, text = kvp_cloud_init.sentence(key, pairs)
    else:
        text = report_sentence(value) if kind == "report" else f"{key} = {value}"
    brief = text if len(text) <= SENTENCE else text[:SENTENCE] + "..."  # the whole of it is in the value
    return Kvp(t=t, key=key, value=value, kind=kind, text=brief, late=late, cut=any(record.cut for record in group))


def report_sentence(value: str) -> str:
    report = parse_report(value)
    if not report:
        return f"a report that is none: {value}"
    why = f": {report.get('reason', 'no reason given')}" if report["result"] == "error" else ""
    by = f" (by {report['agent']})" if report.get("agent") else ""
    return f"the report says {report['result']}{why}{by}"
