"""Whether a path lies below a mount point that systemd has a mount unit for and that is not mounted yet.

systemd's generators turn every line of /etc/fstab into a unit, so looking for units is enough.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

# systemd's unit directories: a unit in an earlier one hides a unit of the same name in a later one.
UNITS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
)
MASKED = "/dev/null"
MOST_LINKS = 40
TABLE = "/proc/self/mountinfo"
SPECIAL = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}  # in the kernel's table


def missing_mount(machine: Machine, path: str) -> str | None:
    """The first mount point above `path` that is not mounted, or None. A waiting automount point counts as not mounted.

    Nothing below it is accessed: on an automount point that would block until the mount is there.
    """
    done, left, links = "", _parts(path), 0
    while left:
        part = left.pop(0)
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        point = f"{done}/{part}"
        if _has_unit(machine, point) and not _is_mounted(machine, point):
            return point
        target = machine.read_link(point) if links < MOST_LINKS else None
        if target is None:
            done = point
        else:
            links += 1
            done, left = "" if target.startswith("/") else done, _parts(target) + left
    return None


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def unit_name(point: str) -> str:
    """As `systemd-escape --path --suffix=mount` writes it."""
    name = "-".join("".join(map(_escaped, part)) for part in _parts(point))
    return ("\\x2e" + name[1:] if name.startswith(".") else name) + ".mount"


def _escaped(letter: str) -> str:
    if letter.isascii() and (letter.isalnum() or letter in ":_."):
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))


def _has_unit(machine: Machine, point: str) -> bool:
    name = unit_name(point)
    for directory in UNITS:
        if machine.stat(f"{directory}/{name}", follow=False) is not None:
            return machine.read_link(f"{directory}/{name}") != MASKED
    return False


def _is_mounted(machine: Machine, point: str) -> bool:
    point = "".join(SPECIAL.get(letter, letter) for letter in point)
    found = above = None
    table = (machine.read(TABLE, limit=16 << 20) or b"").decode("utf-8", "surrogateescape")
    for line in reversed(table.split("\n")):
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 6 or not f"{point}/".startswith(f"{fields[4].rstrip('/')}/"):
            continue
        # Device, and the directory of its file system that is mounted.
        shown = fields[2], fields[3].rstrip("/")
        if fields[4] == point and found is None:
            if after.startswith("autofs "):
                return False
            found = shown
        elif fields[4] != point and (above is None or len(fields[4]) > len(above[2])):
            above = *shown, fields[4].rstrip("/")
    # A bind mount of a directory onto itself, as systemd makes for ProtectHome=, changes nothing.
    return found is not None and (above is None or found != (above[0], above[1] + point[len(above[2]) :]))
