"""The host's side of the key-value pool: its records, as Hyper-V reads them, and as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fakeazure.platform import kvp_cloud_init, kvp_diagnostics
from fakeazure.platform.events import Event, Kvp, PoolRead
from fakeazure.platform.report import parse_report

GUEST_POOL = ".kvp_pool_1"  # written by the guest, read by the host
KEY_FIELD, VALUE_FIELD = 512, 2048
RECORD = KEY_FIELD + VALUE_FIELD
HOST_KEY, HOST_VALUE = 254, 1022  # longer ones reach the host truncated
REPORT = "PROVISIONING_REPORT"
SENTENCE = 500  # characters


@dataclass(frozen=True, slots=True)
class Record:
    key: str
    value: str
    cut: bool = False


class Host:
    """Reads a machine's pool repeatedly, and returns what is new."""

    def __init__(self, pools: Path) -> None:
        self.pools = pools
        self._read: set[tuple[str, str]] = set()

    def read(self, *, t: float, late: bool = False) -> tuple[Event, ...]:
        """A PoolRead, then one event for each new message; nothing if there is no pool."""
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
    """Without a lock: a machine that holds it must not block the platform."""
    return parse_pool(file.read_bytes())


def parse_pool(data: bytes) -> tuple[Record, ...]:
    """Complete records; of several with the same key, the last."""
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
    """One event for each message; messages of several records are joined."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault(kind_and_key(record.key), []).append(record)
    return tuple(event_of(kind, key, group, t=t, late=late) for (kind, key), group in groups.items())


def kind_and_key(key: str) -> tuple[str, str]:
    """The kind of a record, and the key that all parts of its message share."""
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
    brief = text if len(text) <= SENTENCE else text[:SENTENCE] + "..."  # the value is complete
    return Kvp(t=t, key=key, value=value, kind=kind, text=brief, late=late, cut=any(record.cut for record in group))


def report_sentence(value: str) -> str:
    report = parse_report(value)
    if not report:
        return f"not a valid report: {value}"
    why = f": {report.get('reason', 'no reason given')}" if report["result"] == "error" else ""
    by = f" (by {report['agent']})" if report.get("agent") else ""
    return f"the report says {report['result']}{why}{by}"
