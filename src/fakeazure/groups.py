"""Control groups of a machine's own: of all that it starts in one place, systemd-nspawn would make one machine."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

# Of the hierarchies that there are, systemd lives in the unified one, in the older one of its name, or in both.
UNIFIED, NAMED = "", "name=systemd"
# A process that joins them all and then becomes the command.
JOIN = 'while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"'
GONE_SECS = 5.0
PAUSE = 0.01


class NoGroups(Exception):
    """A machine cannot have control groups here; the text says why and what to do."""


def below_ours(name: str) -> tuple[Path, ...]:
    """Where the groups of that name would be: one in each hierarchy that systemd uses here."""
    try:
        mounts, ours = (Path("/proc/self", file).read_text() for file in ("mountinfo", "cgroup"))
    except OSError:
        return ()
    return tuple(group / name for group in parse_groups(mounts, ours))


def parse_groups(mounts: str, ours: str) -> Iterator[Path]:
    """The directories of our own groups, of what the kernel says of our mounts and of our groups."""
    places = dict(parse_mounts(mounts))
    for line in ours.splitlines():
        _number, controllers, group = line.split(":", 2)
        if controllers not in places:
            continue
        top, mounted = places[controllers]
        with contextlib.suppress(ValueError):  # ours is outside of what is mounted here
            yield mounted / PurePosixPath(group).relative_to(top)


def parse_mounts(mounts: str) -> Iterator[tuple[str, tuple[str, Path]]]:
    """By hierarchy: which group of it is mounted, and where."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        top, place = before.split()[3:5]
        kind, options = after.split()[0], after.split()[-1].split(",")
        if kind == "cgroup2":
            yield UNIFIED, (top, Path(place))
        elif kind == "cgroup" and NAMED in options:
            yield NAMED, (top, Path(place))


def make(groups: Sequence[Path]) -> None:
    if not groups:
        raise NoGroups("no control groups are mounted here: mount cgroup2 on /sys/fs/cgroup")
    for group in groups:
        try:
            group.mkdir()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise NoGroups(
                f"cannot make a control group for the machine: {group}: {why}; run it where root may do so"
            ) from None


def joining(groups: Iterable[Path]) -> tuple[str, ...]:
    """What comes before a command, so that it runs in these groups."""
    return ("sh", "-c", JOIN, "sh", *map(str, groups), "--")


def remove(groups: Iterable[Path]) -> None:
    """With all below them. Whoever was in them was ended a moment ago, and the kernel takes its time to forget them."""
    until = time.monotonic() + GONE_SECS
    for group in groups:
        while group.is_dir() and time.monotonic() < until:
            for directory, _names, _files in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(directory)
            if group.is_dir():
                time.sleep(PAUSE)
