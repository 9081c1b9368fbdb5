"""Whether systemd starts sshd where the usual links are missing: other targets, presets, generators."""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.facts.access import FORBIDDING, MASKED, UNIT_DIR, Start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.machine import Machine

PLACES = (
    UNIT_DIR,
    "/run/systemd/system",
    "/run/systemd/generator",
    "/run/systemd/generator.early",
    "/run/systemd/generator.late",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
PULLS = (".wants", ".requires", ".upholds")
SERVICES = ("ssh.service", "sshd.service")
SOCKETS = ("ssh.socket", "sshd.socket")
SERVERS = ("sshd", "dropbear", "tinysshd")
STARTERS = ("systemctl", "service", "invoke-rc.d")
STARTED = (*SERVICES, *SOCKETS, "ssh", "sshd")
NEEDS = ("Wants", "Requires", "Upholds", "BindsTo", "Requisite")
MOST_UNITS = 4000
LONGEST_UNIT = 64 * 1024
SEPARATORS = str.maketrans("'\";&|()", "       ")


def read_start(machine: Machine) -> Start | None:
    there = [unit for unit in (*SERVICES, *SOCKETS) if _file(machine, unit) is not None]
    if not there:
        return Start(why="no systemd unit starts sshd", certain=False)
    services = [unit for unit in there if unit in SERVICES]
    masked = [unit for unit in there if _file(machine, unit) == MASKED]
    pulled = list(_pulled(machine))
    enabled = [unit for unit in pulled if unit in there and unit not in masked]
    others = (unit for unit in dict.fromkeys(("default.target", *pulled)) if unit not in there)
    other = next((unit for unit in others if _starts_a_server(machine, _lines(machine, unit))), "")
    other = other or next((path for path in _additions(machine) if _starts_a_server(machine, _text(machine, path))), "")
    why = ""
    alone = any(unit in SOCKETS and _accepts(machine, unit) for unit in enabled)
    if masked and (not enabled or (all(unit in masked for unit in services) and not alone)):
        why = f"{masked[0]} is masked (systemctl unmask {masked[0]})"
    elif not enabled:
        why = f"{there[0]} is disabled (systemctl enable {there[0]})"
    elif machine.stat(FORBIDDING) is not None and any(_forbids(machine, unit) for unit in services):
        why = f"{FORBIDDING} exists"
    if not why:
        return None
    return Start(why=f"{why}, but {other} may start one" if other else why, certain=not other)


def _accepts(machine: Machine, unit: str) -> bool:
    words = [line.replace(" ", "").lower() for line in _lines(machine, unit)]
    return any(line in ("accept=yes", "accept=true", "accept=on", "accept=1") for line in words)


def _file(machine: Machine, unit: str) -> str | None:
    """The file of a unit; MASKED for a masked one."""
    for place in PLACES:
        path = f"{place}/{unit}"
        if machine.read_link(path) == MASKED:
            return MASKED
        if machine.is_file(path):
            return path
    return None


def _pulled(machine: Machine) -> Iterator[str]:
    """The names of all units that a .wants, .requires or .upholds link pulls in."""
    for place in PLACES:
        for name in _names(machine, place):
            if name.endswith(PULLS):
                yield from _names(machine, f"{place}/{name}")


def _names(machine: Machine, path: str) -> tuple[str, ...]:
    try:
        return (machine.names(path) or ())[:MOST_UNITS]
    except LocalError:
        return ()


def _additions(machine: Machine) -> Iterator[str]:
    """The drop-ins of all units except sshd's."""
    for place in PLACES:
        for name in _names(machine, place):
            if name.endswith(".d") and name[:-2] not in (*SERVICES, *SOCKETS):
                yield from (f"{place}/{name}/{part}" for part in _names(machine, f"{place}/{name}"))


def _starts_a_server(machine: Machine, lines: list[str]) -> bool:
    """Whether a unit runs an SSH server or pulls in sshd's unit. An ordering (After=) starts nothing."""
    for line in lines:
        key, _, value = line.partition("=")
        if key.startswith("Exec"):
            scripts = [word for word in _words(value) if word.startswith("/")]
            if _runs_a_server(value) or any(_is_script_for_one(machine, path) for path in scripts):
                return True
        if key.strip() in NEEDS and any(word in (*SERVICES, *SOCKETS) for word in value.split()):
            return True
    return False


def _words(line: str) -> list[str]:
    return [word.lstrip("-@+!:") for word in line.translate(SEPARATORS).split()]


def _runs_a_server(line: str) -> bool:
    """Directly, or through its unit."""
    names = {word.rpartition("/")[2] for word in _words(line)}
    return not names.isdisjoint(SERVERS) or not (names.isdisjoint(STARTERS) or names.isdisjoint(STARTED))


def _is_script_for_one(machine: Machine, path: str) -> bool:
    lines = _text(machine, path)
    return lines[0].startswith("#!") and any(_runs_a_server(line) for line in lines if not line.startswith("#"))


def _forbids(machine: Machine, unit: str) -> bool:
    return any(FORBIDDING in line for line in _lines(machine, unit) if line.startswith("Condition"))


def _lines(machine: Machine, unit: str) -> list[str]:
    path = _file(machine, unit)
    return _text(machine, path) if path not in (None, MASKED) else []


def _text(machine: Machine, path: str) -> list[str]:
    try:
        data = machine.read(path, limit=LONGEST_UNIT)
    except LocalError:
        data = None
    return (data or b"").decode("utf-8", "replace").split("\n")
