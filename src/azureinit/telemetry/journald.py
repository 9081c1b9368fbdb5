"""The listener for journald's native protocol, which makes every field of an event searchable."""

from __future__ import annotations

from azureinit.machine.outlets import Datagrams
from azureinit.telemetry.events import ERROR, INFO, WARN
from azureinit.telemetry.log import statement, took, wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.config.filters import Filter
    from azureinit.machine import Machine
    from azureinit.telemetry.events import Event, Listener

SOCKET = "/run/systemd/journal/socket"
IDENTIFIER = "azure-init"
OURS = "AZURE_INIT_"
LONGEST_NAME = 64
PATIENCE = 1.0  # seconds, once a run, for a daemon whose queue is full


class JournalListener:
    """`about` holds vm_id once it is known. `otherwise` gets the events if journald is not running."""

    def __init__(
        self,
        machine: Machine,
        *,
        chosen: Filter,
        about: Mapping[str, str],
        otherwise: Listener,
        address: str = SOCKET,
    ) -> None:
        self.chosen, self.about, self.otherwise = chosen, about, otherwise
        self.journal = Datagrams(address, patience=PATIENCE)
        self.unit = read_unit(machine)

    def __call__(self, event: Event) -> None:
        if not wanted(event, self.chosen):
            return
        if not self.journal.send(encode(entry(event, unit=self.unit, vm_id=self.about.get("vm_id", "")))):
            self.otherwise(event)


def entry(event: Event, *, unit: str = "", vm_id: str = "") -> dict[str, str]:
    result = "failed" if event.failed else "success" if event.seconds is not None else ""
    own = {
        "MESSAGE": f"{statement(event, text=lines(event.text))} {took(event)}".rstrip(),
        "PRIORITY": priority(event.level),
        "SYSLOG_IDENTIFIER": IDENTIFIER,
        # journald asks the kernel for the unit, perhaps after this process has ended; `journalctl -u` uses this field,
        # too.
        "OBJECT_SYSTEMD_UNIT": unit,
        f"{OURS}STEP": event.name,
        f"{OURS}KIND": event.kind,
        f"{OURS}RESULT": result,
        f"{OURS}SECONDS": "" if event.seconds is None else f"{event.seconds:.6f}",
        f"{OURS}ID": event.id,
        f"{OURS}PARENT": event.parent,
        f"{OURS}VM_ID": vm_id,
    }
    told = {field_name(name): value for name, value in event.fields.items()}
    return {**told, **{name: value for name, value in own.items() if value}}


def priority(level: int) -> str:
    """The syslog priority: err, warning, info or debug."""
    return "3" if level >= ERROR else "4" if level >= WARN else "6" if level >= INFO else "7"


def field_name(name: str) -> str:
    """A valid field name: journald drops fields with other letters in their name."""
    letters = "".join(one if one.isascii() and one.isalnum() else "_" for one in name.upper())
    return f"{OURS}{letters}"[:LONGEST_NAME]


def lines(text: str) -> str:
    """All lines, without control characters: journalctl shows no text that has any."""
    if text.isprintable():
        return text
    kept = "\n".join(text.splitlines())
    return "".join(one if one.isprintable() or one in "\n\t" else "?" for one in kept)


def encode(fields: Mapping[str, str]) -> bytes:
    """One field. A value with line ends is preceded by its length."""
    told = bytearray()
    for name, value in fields.items():
        data = value.encode("utf-8", "replace")
        if b"\n" in data:
            told += b"%s\n%s%s\n" % (name.encode(), len(data).to_bytes(8, "little"), data)
        else:
            told += b"%s=%s\n" % (name.encode(), data)
    return bytes(told)


def read_unit(machine: Machine) -> str:
    """The systemd unit of this process; empty for none."""
    from azureinit.errors import AzureInitError

    try:
        groups = (machine.read("/proc/self/cgroup") or b"").decode("utf-8", "replace").split("\n")
    except AzureInitError:
        return ""
    for group in groups:
        number, _, rest = group.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "name=systemd" or (number == "0" and not controllers):
            return next((name for name in reversed(path.split("/")) if name.endswith(".service")), "")
    return ""
