"""Mounting a temporary disk: by systemd's mount unit, or by mount."""

from __future__ import annotations

from azureinit.plan.actions import Declined, MakeDir, Remove, Run, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Action

UNIT_DIRS = ("/etc/systemd/system", "/run/systemd/system")
WAIT = 60.0  # seconds, until udev has seen the new file system
# Options that only fstab's readers understand.
FSTAB_ONLY = ("defaults", "nofail", "auto", "noauto", "_netdev")
PRIVATE = ("comment=", "x-")
PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_."
CHECK = """found=
while read -r source point rest; do
    if [ "$point" = "$2" ]; then found=$source; fi
done </proc/self/mounts
[ "$found" -ef "$1" ] && exit
echo "${found:-nothing} is mounted at $2, not $1: nothing is written to it" >&2
exit 1
"""
UNIT = """\
# Written by azure-init, because /etc/fstab cannot be changed. azure-init-disk.service starts it at every boot.
[Unit]
Description=Temporary disk at {point}

[Mount]
What=/dev/disk/by-uuid/{uuid}
Where={point}
Type={filesystem}
Options={options}
"""


def mount(
    device: str, point: str, *, filesystem: str, options: str, uuid: str, systemd: bool, listed: bool
) -> tuple[Way | Declined, ...]:
    """`listed`: /etc/fstab has the entry, so systemd has its unit."""
    ready = MakeDir(path=point, mode=0o755, kept=True)
    plain = Way(backend="mount", actions=(ready, _mount(device, point, filesystem=filesystem, options=options)))
    if not systemd:
        return (Declined(backend="systemd", why="systemd does not run here"), plain)
    if listed:
        return (Way(backend="systemd", actions=(ready, start_mount(point))), plain)
    text = UNIT.format(point=point, uuid=uuid, filesystem=filesystem, options=options)
    units = tuple(_by_unit(ready, path, text, point) for path in unit_paths(point))
    return (*units, plain)


def unit_paths(point: str) -> tuple[str, ...]:
    """Where the unit is written, if /etc/fstab cannot be changed."""
    return tuple(f"{place}/{mount_unit(point)}" for place in UNIT_DIRS)


def remove_units(paths: tuple[str, ...]) -> Way:
    return Way(backend="native", actions=(*(Remove(path=path) for path in paths), reload_units()))


def _by_unit(ready: Action, path: str, text: str, point: str) -> Way:
    write = Write(path=path, data=text.encode(), mode=0o644)
    return Way(backend=path.rpartition("/")[0], actions=(ready, write, reload_units(), start_mount(point)))


def reload_units() -> Run:
    return Run(argv=("systemctl", "daemon-reload"), changes=False)


def start_mount(point: str) -> Run:
    return Run(argv=("systemctl", "start", mount_unit(point)), timeout=WAIT, changes=False)


def _mount(device: str, point: str, *, filesystem: str, options: str) -> Run:
    words = [word for word in options.split(",") if word and word not in FSTAB_ONLY and not word.startswith(PRIVATE)]
    return Run(
        argv=("mount", "-t", filesystem, *(("-o", ",".join(words)) if words else ()), device, point), changes=False
    )


def check_mount(device: str, point: str) -> Run:
    """Fails if the topmost mount at `point` is another device."""
    return Run(argv=("sh", "-c", CHECK, "mount", device, point), changes=False)


def set_owner(point: str, owner: str) -> Run:
    """Of the directory itself: a link in its place is not followed."""
    return Run(argv=("chown", "-h", "--", owner, point))


def restore_label(point: str) -> Run:
    """A new file system's root has no SELinux label."""
    return Run(argv=("restorecon", point))


def mount_unit(point: str) -> str:
    """As `systemd-escape --path --suffix=mount` writes it."""
    name = "-".join("".join(map(_escaped, part)) for part in point.split("/") if part)
    return ("\\x2e" + name[1:] if name.startswith(".") else name) + ".mount"


def _escaped(letter: str) -> str:
    return (
        letter if letter in PLAIN else "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
    )
