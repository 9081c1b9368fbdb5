"""The listener for the key-value pool, which the host reads: diagnostics and the provisioning report.

Events are buffered and written together, before every report to the platform and every few seconds of a long wait. The
number of records for each boot is limited, so that the pool does not fill up; some are reserved for failures.
"""

from __future__ import annotations

from errno import ENOENT, ENOTDIR

from azureinit.config.filters import Filter, parse_filter
from azureinit.machine.threads import allocate_lock
from azureinit.telemetry.events import DEBUG, ERROR, INFO, OUTPUT, WARN
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from azureinit.kvp.diagnostics import Diagnostic
    from azureinit.kvp.records import Pair
    from azureinit.kvp.store import Store
    from azureinit.machine import Machine
    from azureinit.telemetry.events import Event

AGENT = f"azure-init/{VERSION}"
NO_VM_ID = "00000000-0000-0000-0000-000000000000"  # the VM id before it is known
DEFAULT = Filter(level=WARN, targets={"libazureinit": INFO, "libazureinit::http": DEBUG})
PER_BOOT = 200  # the report is one of them
KEPT = 40  # of these, reserved for warnings, failures and kernel messages
KEPT_FROM_CURIOSITY = 100  # limit for requests, so that minutes of retries leave room for the steps
KEPT_FROM_KERNEL = 10  # reserved for what follows the kernel messages
MOST_PIECES = 8  # bytes of one event's text
PIECE = 1019  # bytes that fit a record in any case: a record is shortened rather than split inside a character
LONGEST_NAME = 64
EVERY_SECS = 5.0
LOCK_SECS = 2.0  # seconds, all waiting together: telemetry must not delay a run
REPORT_LOCK_SECS = 1.0


def chosen_filter(text: str | None, warn: list[str]) -> Filter:
    """The configured filter, or the default."""
    found = parse_filter(text) if text and text.strip(" \t,") else DEFAULT
    if found is None:
        warn.append(f"telemetry.kvp_filter: {text!r} is not a filter: using the default")
    return found or DEFAULT


NO_DAEMON = (
    "; Hyper-V's key-value daemon is not installed or does not run: "
    "install hyperv-daemons, or linux-cloud-tools on Ubuntu"
)


class KvpLayer:
    """`about` holds vm_id once it is known."""

    def __init__(
        self,
        machine: Machine,
        directory: str,
        *,
        chosen: Filter,
        about: Mapping[str, str],
    ) -> None:
        self.machine, self.directory, self.about = machine, directory, about
        self.chosen = chosen
        self.failure = ""  # why writing has stopped
        self.missing = False  # the machine has no pools
        self._buffered: list[Event] = []
        self._left: int | None = None  # not read yet
        self._waited = 0.0
        self._written_at = machine.clock.monotonic()
        self._lock = allocate_lock()

    def __call__(self, event: Event) -> None:
        if self.failure or event.name == OUTPUT or not self.chosen.allows(event.name, event.level):
            return
        self._buffered.append(event)
        if "vm_id" in self.about and self.machine.clock.monotonic() - self._written_at > EVERY_SECS:
            self.flush()

    def flush(self) -> None:
        """One lock, one write."""
        with self._lock:
            count = len(self._buffered)
            events = self._buffered[:count]
            del self._buffered[:count]  # a copy: another thread may append to it
            self._written_at = self.machine.clock.monotonic()
            if events and not self.failure:
                self._write(lambda store: store.append_all(self._admitted(store, events)), patience=LOCK_SECS)

    def report(self, text: str) -> None:
        """The verdict's record: exempt from filter and limit, and never split."""
        from azureinit.kvp.report import REPORT_KEY

        def work(store: Store) -> None:
            self._room(store)
            store.upsert(REPORT_KEY, text)

        with self._lock:
            self._write(work, patience=self._waited + REPORT_LOCK_SECS)

    def attach(self, name: str, data: bytes, *, event_id: str) -> None:
        """A long text, compressed; only its end if there is not enough room."""
        with self._lock:
            if not self.failure:
                self._write(
                    lambda store: store.append_all(self._packed(store, name, data, event_id)), patience=LOCK_SECS
                )

    def _write(self, work: Callable[[Store], object], *, patience: float) -> None:
        from azureinit.kvp.store import Store

        clock = self.machine.clock
        started = clock.monotonic()
        store = Store(self.machine, directory=self.directory, timeout=max(0.0, patience - self._waited))
        try:
            work(store)
        except Exception as error:  # noqa: BLE001 - the verdict must not wait for telemetry
            self.failure = str(error) or type(error).__name__
            self.missing = getattr(error, "errno", None) in (ENOENT, ENOTDIR)
            self.failure += NO_DAEMON if self.missing else ""
        self._waited += clock.monotonic() - started

    def _room(self, store: Store) -> int:
        """The number of records that this boot may still write."""
        if self._left is None:
            self._forget_earlier_boots(store)
            self._left = PER_BOOT - 1 - store.count_keys(f"DIAG|{AGENT}|")
        return self._left

    def _forget_earlier_boots(self, store: Store) -> None:
        from azureinit.errors import LocalError, LockTimeout

        try:
            store.clear_if_stale()
        except LockTimeout:
            raise
        except LocalError:
            pass  # the boot's start is unknown; other errors occur again at the next access

    def _admitted(self, store: Store, events: list[Event]) -> Iterator[Pair]:
        from azureinit.kvp.diagnostics import encode

        for event in events:
            kept = 0 if event.level >= WARN else KEPT if event.level >= INFO else KEPT_FROM_CURIOSITY
            room = min(MOST_PIECES, self._room(store) - kept)
            if room > 0:
                pairs = encode(self._diagnostic(event, pieces=room))
                assert self._left is not None
                self._left -= len(pairs)
                yield from pairs

    def _diagnostic(self, event: Event, *, pieces: int) -> Diagnostic:
        from azureinit.kvp.diagnostics import Diagnostic, timestamp
        from azureinit.kvp.records import plain_text

        result = "fail" if event.failed or event.level >= ERROR else "success"
        return Diagnostic(
            kind=event.kind,
            agent=AGENT,
            vm_id=self.about.get("vm_id", NO_VM_ID),
            name=_cut(plain_text(event.name).replace("|", "/"), LONGEST_NAME) or "?",
            event_id=uuid_of(event.id),
            timestamp=timestamp(event.at),
            result=result if event.seconds is not None or (event.kind == "event" and result == "fail") else None,
            duration=max(0.0, event.seconds) if event.seconds is not None else None,
            payload=_cut(plain_text(event.text), pieces * PIECE),
        )

    def _packed(self, store: Store, name: str, data: bytes, event_id: str) -> list[Pair]:
        from azureinit.kvp.diagnostics import Diagnostic, encode, timestamp

        room = self._room(store) - KEPT_FROM_KERNEL
        if room <= 0:
            return []
        while True:
            diagnostic = Diagnostic(
                kind="event",
                agent=AGENT,
                vm_id=self.about.get("vm_id", NO_VM_ID),
                name=name,
                event_id=uuid_of(event_id),
                timestamp=timestamp(self.machine.clock.now()),
                encoding="gz+b64",
                payload=data,
            )
            pairs = encode(diagnostic)
            if len(pairs) <= room or not data:
                break
            data = data[len(data) // 4 + 1 :]
        self._left = room + KEPT_FROM_KERNEL - len(pairs)
        return pairs


def uuid_of(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _cut(text: str, longest: int) -> str:
    """At most `size` bytes, cut between characters."""
    data = text.encode()
    return text if len(data) <= longest else data[: longest - 3].decode("utf-8", "ignore") + "..."
