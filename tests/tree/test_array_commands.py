"""The commands that make arrays and volumes, in their order: LVM's and mdadm's programs are replaced."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from azureinit.backends.array import complete_volume, create_volume, md_uuid, wiped_after
from azureinit.plan.actions import Run
from support.need import SBIN

VOLUME = "0d6b5e6c-3f0a-4b60-9d3c-0123456789ab"
PATH = os.pathsep.join((os.environ.get("PATH", ""), *SBIN))


def run(action: Run, *, fails: bool = False, **more: str) -> None:
    ended = subprocess.run(
        action.argv,
        env={**os.environ, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )
    assert (ended.returncode != 0) is fails, ended.stdout


SHIM = '#!/bin/sh\necho "${0##*/} $*" >>"$LOG"\n'
CREATED = """\
pvcreate --quiet --norestorefile --uuid 0d6b5e-6c3f-0a4b-609d-3c01-2345-678900 /dev/a
pvcreate --quiet --norestorefile --uuid 0d6b5e-6c3f-0a4b-609d-3c01-2345-678901 /dev/b
vgcreate --quiet vg /dev/a /dev/b
lvcreate --quiet --yes --zero n --wipesignatures n --stripes 2 --stripesize 512k --extents 100%FREE --name data vg
"""
REMOVED = """\
pvremove --quiet --force --force --yes /dev/a
pvremove --quiet --force --force --yes /dev/b
"""


@pytest.mark.parametrize("again", [False, True])
def test_the_commands_of_a_striped_volume_in_their_order(tmp_path: Path, again: bool) -> None:
    for name in ("pvcreate", "pvremove", "vgcreate", "lvcreate"):
        (tmp_path / name).write_text(SHIM)
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"
    action = create_volume("vg", ("/dev/a", "/dev/b"), uuid=VOLUME, chunk_kib=512, again=again)
    run(action, PATH=f"{tmp_path}:{PATH}", LOG=str(log))
    assert log.read_text() == (REMOVED if again else "") + CREATED


def test_the_volume_for_swap_is_made_first(tmp_path: Path) -> None:
    for name in ("pvcreate", "pvremove", "vgcreate", "lvcreate"):
        (tmp_path / name).write_text(SHIM)
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"
    action = create_volume("vg", ("/dev/a", "/dev/b"), uuid=VOLUME, chunk_kib=512, again=False, swap_mib=40)
    run(action, PATH=f"{tmp_path}:{PATH}", LOG=str(log))
    swap = "--stripes 2 --stripesize 512k --size 40m --name swap vg"
    assert log.read_text().splitlines()[3] == f"lvcreate --quiet --yes --zero n --wipesignatures n {swap}"
    assert log.read_text().splitlines()[4:] == CREATED.splitlines()[3:]


@pytest.mark.parametrize("there", [False, True])
def test_a_group_is_completed_only_where_the_volume_is_missing(tmp_path: Path, there: bool) -> None:
    for name in ("vgchange", "lvs", "lvcreate"):
        (tmp_path / name).write_text(SHIM + ("exit 5\n" if name == "lvs" and not there else ""))
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"
    run(complete_volume("vg", count=2, chunk_kib=512), PATH=f"{tmp_path}:{PATH}", LOG=str(log))
    made = CREATED.splitlines()[3:]
    assert log.read_text().splitlines() == ["vgchange --quiet --activate y vg", "lvs vg/data", *([] if there else made)]


def test_a_physical_volume_that_cannot_be_made_ends_it(tmp_path: Path) -> None:
    for name in ("vgcreate", "lvcreate"):
        (tmp_path / name).write_text(SHIM)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "pvcreate").write_text("#!/bin/sh\nexit 5\n")
    (tmp_path / "pvcreate").chmod(0o755)
    action = create_volume("vg", ("/dev/a",), uuid=VOLUME, chunk_kib=512, again=False)
    run(action, fails=True, PATH=f"{tmp_path}:{PATH}", LOG=str(tmp_path / "log"))
    assert not (tmp_path / "log").exists()


def test_signatures_on_a_new_volume_are_removed_after_it_was_made(tmp_path: Path) -> None:
    (tmp_path / "wipefs").write_text(SHIM)
    (tmp_path / "wipefs").chmod(0o755)
    made = Run(argv=("sh", "-c", 'echo made >>"$LOG"'))
    path, log = f"{tmp_path}:{PATH}", str(tmp_path / "log")
    detail = f"#!/bin/sh\necho MD_LEVEL=raid0\necho MD_UUID={md_uuid(VOLUME)}\necho MD_NAME=any:md\n"
    (tmp_path / "mdadm").write_text(detail)
    (tmp_path / "mdadm").chmod(0o755)
    run(wiped_after(made, "vg", uuid=VOLUME, lvm=True), PATH=path, LOG=log)
    run(wiped_after(made, "md", uuid=VOLUME, lvm=False), PATH=path, LOG=log)
    run(wiped_after(made, "vg", uuid=VOLUME, lvm=True, swap=True), PATH=path, LOG=log)
    run(wiped_after(Run(argv=("false",)), "md", uuid=VOLUME, lvm=False), fails=True, PATH=path, LOG=log)
    wiped = [f"wipefs --quiet --all {device}" for device in ("/dev/vg/data", "/dev/md/md", "/dev/vg/data /dev/vg/swap")]
    assert (tmp_path / "log").read_text().splitlines() == [line for one in wiped for line in ("made", one)]


@pytest.mark.parametrize("detail", ["echo MD_UUID=00000000:00000000:00000000:00000001", "exit 1"])
def test_an_older_array_of_the_same_name_is_not_wiped(tmp_path: Path, detail: str) -> None:
    """mdadm makes the new one under another name then."""
    for name, script in (("wipefs", SHIM), ("mdadm", f"#!/bin/sh\n{detail}\n")):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    action = wiped_after(Run(argv=("true",)), "md", uuid=VOLUME, lvm=False)
    run(action, fails=True, PATH=f"{tmp_path}:{PATH}", LOG=str(tmp_path / "log"))
    assert not (tmp_path / "log").exists()
