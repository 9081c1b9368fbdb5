"""Control groups for one container. Containers that share a control group disturb each other under systemd-nspawn."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

# systemd uses the unified hierarchy (v2), the named one (v1), or both.
UNIFIED, NAMED = "", "name=systemd"
# Joins all the groups, then executes the command.
JOIN = 'while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"'
GONE_SECS = 5.0
PAUSE = 0.01


class NoGroups(Exception):
    """Control groups cannot be created; the text says why and what to do."""


def below_ours(name: str) -> tuple[Path, ...]:
    """The path of a group of that name below this process's, in each hierarchy that systemd uses."""
    try:
        mounts, ours = (Path("/proc/self", file).read_text() for file in ("mountinfo", "cgroup"))
    except OSError:
        return ()
    return tuple(group / name for group in parse_groups(mounts, ours))


def parse_groups(mounts: str, ours: str) -> Iterator[Path]:
    """This process's groups as directories, from /proc/self/mountinfo and /proc/self/cgroup."""
    places = dict(parse_mounts(mounts))
    for line in ours.splitlines():
        _number, controllers, group = line.split(":", 2)
        if controllers not in places:
            continue
        top, mounted = places[controllers]
        with contextlib.suppress(ValueError):  # the group is not below the mounted one
            yield mounted / PurePosixPath(group).relative_to(top)


def parse_mounts(mounts: str) -> Iterator[tuple[str, tuple[str, Path]]]:
    """Hierarchy -> the mounted group, and its mount point."""
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
        raise NoGroups("no control groups are mounted: mount cgroup2 on /sys/fs/cgroup")
    for group in groups:
        try:
            group.mkdir()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise NoGroups(
                f"cannot create a control group for the machine: {group}: {why}; run it where root may create one"
            ) from None


def joining(groups: Iterable[Path]) -> tuple[str, ...]:
    """The prefix of a command that is to run in these groups."""
    return ("sh", "-c", JOIN, "sh", *map(str, groups), "--")


def remove(groups: Iterable[Path]) -> None:
    """Removes the groups and all below. Retries: the kernel needs a moment after their processes were killed."""
    until = time.monotonic() + GONE_SECS
    for group in groups:
        while group.is_dir() and time.monotonic() < until:
            for directory, _names, _files in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(directory)
            if group.is_dir():
                time.sleep(PAUSE)
