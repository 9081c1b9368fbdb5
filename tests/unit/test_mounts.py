"""Whether a path lies below a mount point that is not mounted yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.facts.mounts import UNITS, missing_mount
from azureinit.machine import Machine

DATA = "/var/lib/azure-init"
ROOT = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
GENERATED = "run/systemd/generator"


def computer(place: Path, *units: str, mounted: str = "") -> Machine:
    """With those units, by their paths, and a mount table."""
    for name in ("proc/self", "etc"):
        (place / name).mkdir(parents=True, exist_ok=True)
    for unit in units:
        path = place / unit
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[Mount]\n")
    (place / "proc/self/mountinfo").write_text(ROOT + mounted)
    return Machine(root=str(place), kernel=str(place))


def line(point: str, kind: str = "ext4") -> str:
    return f"30 22 8:17 / {point} rw,relatime shared:1 - {kind} /dev/sdb1 rw\n"


def test_without_units_nothing_is_missing(tmp_path: Path) -> None:
    assert missing_mount(computer(tmp_path), DATA) is None


@pytest.mark.parametrize("directory", UNITS)
def test_a_unit_counts_wherever_systemd_finds_it(tmp_path: Path, directory: str) -> None:
    assert missing_mount(computer(tmp_path, f"{directory[1:]}/var.mount"), DATA) == "/var"


@pytest.mark.parametrize(
    ("unit", "point"),
    [
        ("var.mount", "/var"),
        ("var-lib.mount", "/var/lib"),
        ("var-lib-azure\\x2dinit.mount", DATA),
        ("var-log.mount", None),
        ("var-lib-azure.mount", None),
        ("home.mount", None),
    ],
)
def test_only_the_mount_points_above_a_path_count(tmp_path: Path, unit: str, point: str | None) -> None:
    assert missing_mount(computer(tmp_path, f"{GENERATED}/{unit}"), DATA) == point


def test_what_is_mounted_is_not_missing_and_what_lies_in_it_may_be(tmp_path: Path) -> None:
    units = (f"{GENERATED}/var.mount", f"{GENERATED}/var-lib.mount")
    assert missing_mount(computer(tmp_path, *units, mounted=line("/var")), DATA) == "/var/lib"
    both = line("/var") + line("/var/lib")
    assert missing_mount(computer(tmp_path, *units, mounted=both), DATA) is None


def test_an_automount_point_that_waits_for_its_first_use_is_missing(tmp_path: Path) -> None:
    waiting = line("/var", "autofs")
    assert missing_mount(computer(tmp_path, f"{GENERATED}/var.mount", mounted=waiting), DATA) == "/var"
    used = waiting + line("/var")
    assert missing_mount(computer(tmp_path, f"{GENERATED}/var.mount", mounted=used), DATA) is None


def test_a_directory_that_is_mounted_over_itself_is_no_mount(tmp_path: Path) -> None:
    """As systemd does in a service's own namespace, for ProtectHome= and its like."""
    unit = f"{GENERATED}/home.mount"
    itself = "30 22 8:1 /home /home ro,relatime - ext4 /dev/sda1 rw\n"
    assert missing_mount(computer(tmp_path, unit, mounted=itself), "/home") == "/home"
    above = "29 22 8:17 /@var /var rw - btrfs /dev/sdb1 rw\n31 29 8:17 /@var/lib /var/lib ro - btrfs /dev/sdb1 rw\n"
    assert missing_mount(computer(tmp_path, f"{GENERATED}/var-lib.mount", mounted=above), DATA) == "/var/lib"
    another = "30 22 8:1 /srv/home /home rw,relatime - ext4 /dev/sda1 rw\n"
    assert missing_mount(computer(tmp_path, unit, mounted=another), "/home") is None


def test_a_masked_unit_mounts_nothing(tmp_path: Path) -> None:
    machine = computer(tmp_path, f"{GENERATED}/var.mount")
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/system/var.mount").symlink_to("/dev/null")
    assert missing_mount(machine, DATA) is None


@pytest.mark.parametrize("target", ["/data/state", "../../data/state", "../../data/./state"])
def test_a_link_on_the_way_is_followed(tmp_path: Path, target: str) -> None:
    machine = computer(tmp_path, f"{GENERATED}/data.mount")
    (tmp_path / "var/lib").mkdir(parents=True)
    (tmp_path / "var/lib/azure-init").symlink_to(target)
    assert missing_mount(machine, DATA) == "/data"


def test_links_that_lead_to_each_other_end(tmp_path: Path) -> None:
    machine = computer(tmp_path)
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    assert missing_mount(machine, "/one/state") is None


def test_a_mount_point_with_a_space_is_found_in_the_kernels_table(tmp_path: Path) -> None:
    unit = f"{GENERATED}/my\\x20data.mount"
    assert missing_mount(computer(tmp_path, unit), "/my data/x") == "/my data"
    assert missing_mount(computer(tmp_path, unit, mounted=line("/my\\040data")), "/my data/x") is None
