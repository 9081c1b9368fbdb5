"""Control groups: their paths on each kind of host, creation and removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakeazure.machines import cgroups

UNIFIED = "26 23 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
36 31 0:33 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
PART = "26 23 0:22 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
SCOPE = "0::/user.slice/user-0.slice/session-3.scope\n"


@pytest.mark.parametrize(
    ("mounts", "ours", "expected"),
    [
        (UNIFIED, SCOPE, ["/sys/fs/cgroup/user.slice/user-0.slice/session-3.scope"]),
        (UNIFIED, "0::/\n", ["/sys/fs/cgroup"]),
        (
            HYBRID,
            "9:name=systemd:/a.scope\n4:memory:/m\n0::/a.scope\n",
            ["/sys/fs/cgroup/systemd/a.scope", "/sys/fs/cgroup/unified/a.scope"],
        ),
        (PART, "0::/docker/1/inner\n", ["/sys/fs/cgroup/inner"]),
        (PART, "0::/elsewhere\n", []),
        (UNIFIED, "0::/of:a/name\n", ["/sys/fs/cgroup/of:a/name"]),
        (HYBRID, "4:memory:/m\n", []),
        ("", SCOPE, []),
        (UNIFIED, "", []),
    ],
)
def test_ours_are_where_the_kernel_mounts_what_systemd_uses(mounts: str, ours: str, expected: list[str]) -> None:
    assert list(map(str, cgroups.parse_groups(mounts, ours))) == expected


def test_without_any_that_is_said() -> None:
    with pytest.raises(cgroups.NoGroups, match=r"^no control groups are mounted: mount cgroup2 on /sys/fs/cgroup$"):
        cgroups.make(())


def test_what_cannot_be_made_is_named_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(cgroups.NoGroups, match=r"machine: .*/nowhere/one: no such file or directory; run it where"):
        cgroups.make((tmp_path / "nowhere/one",))


def test_all_below_goes_too_and_what_is_not_there_is_no_harm(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    cgroups.make((one,))
    (one / "payload/system.slice/x.service").mkdir(parents=True)
    cgroups.remove((one, other))
    assert list(tmp_path.iterdir()) == []
