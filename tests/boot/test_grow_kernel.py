"""The root file system on a real kernel: the disk is enlarged while the machine is off, and grown in the next boot."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.container import lay_agent
from support.disks import DISK_SIZE, KERNEL_OPTIONS, MEGABYTE, ROOT_START, SUITE, Disk, debian_disk, with_tree
from support.need import need, need_root

pytestmark = pytest.mark.newer

LARGER = DISK_SIZE + 1024 * MEGABYTE
BOOT_SECONDS = 300.0
# The first process of the machine: nothing else runs in it.
INIT = """\
#!/usr/bin/python3 -I
import ctypes, json, os, sys, time, traceback
sys.path.insert(0, "/usr/lib/azure-init")
os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
def look(disk):
    size = os.statvfs("/")
    return {"room": disk.room, "slack": disk.slack, "size": disk.size, "device": disk.device, "disk": disk.disk,
            "not_ours": disk.not_ours, "files": size.f_blocks * size.f_frsize}
try:
    from azureinit.apply.executor import apply_step
    from azureinit.memory.journal import MemoryJournal
    from azureinit.facts.disks import read_root_disk
    from azureinit.machine import Machine
    from azureinit.plan.actions import Step
    from azureinit.plan.grow import plan_grow
    machine = Machine()
    before = read_root_disk(machine)
    seen = look(before)
    did = [apply_step(machine, item, journal=MemoryJournal(), deadline=float("inf"))
           for item in plan_grow(before) if isinstance(item, Step)]
    told = {"before": seen, "did": did, "after": look(read_root_disk(machine))}
except BaseException:
    told = {"raised": traceback.format_exc()}
with open("/dev/ttyS1", "w") as wire:
    wire.write(json.dumps(told) + "\\n")
os.sync()
time.sleep(0.5)
ctypes.CDLL(None).reboot(0x4321FEDC)
"""


@pytest.fixture(autouse=True)
def needed() -> None:
    need_root()
    for tool in ("qemu-system-x86_64", "debugfs"):
        need(tool)


def booted(disk: Disk, image: Path, place: Path) -> dict[str, Any]:
    """What the machine says of itself before it switches itself off."""
    console, wire = place / "console", place / "wire"
    command = (
        need("setpriv"), "--pdeathsig", "KILL",
        need("qemu-system-x86_64"), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-machine", "pc", "-accel", "tcg", "-cpu", "max", "-m", "1024",
        "-kernel", str(disk.kernel), "-initrd", str(disk.initrd), "-append", f"{KERNEL_OPTIONS} init=/init-grow",
        "-serial", f"file:{console}", "-serial", f"file:{wire}",
        "-drive", f"file={image},if=none,id=root,format=raw",
        "-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=root",
    )  # fmt: skip
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=BOOT_SECONDS)
    said = wire.read_text()
    assert said.strip(), console.read_text(errors="replace")[-3000:]
    told: dict[str, Any] = json.loads(said)
    assert "raised" not in told, told["raised"]
    return told


@pytest.mark.parametrize(("agent", "tool"), [("waagent", "sfdisk"), ("cloud-init", "growpart")])
def test_a_root_grows_in_its_first_boot_and_finds_nothing_to_do_in_the_next(
    tmp_path: Path, agent: str, tool: str
) -> None:
    tree = tmp_path / "tree"
    lay_agent(tree / "usr/lib/azure-init", SUITE)
    (tree / "init-grow").write_text(INIT)
    (tree / "init-grow").chmod(0o755)
    disk = debian_disk(agent)
    with with_tree(disk, tree, tmp_path) as image:
        with image.open("r+b") as file:
            file.truncate(LARGER)
        first = booted(disk, image, tmp_path)
        assert (first["before"]["device"], first["before"]["disk"]) == ("/dev/sda2", "/dev/sda")
        assert first["before"]["room"] > 1000 * MEGABYTE
        assert first["did"] == [tool, "resize2fs"]
        assert first["after"]["files"] > first["before"]["files"] + 900 * MEGABYTE
        assert (first["after"]["room"], first["after"]["slack"] < MEGABYTE) == (0, True)
        second = booted(disk, image, tmp_path)
        assert second["did"] == []
        assert second["before"] == second["after"]
        assert second["before"]["size"] > LARGER - ROOT_START - MEGABYTE
        assert second["before"]["files"] == first["after"]["files"]
        check = subprocess.run(("sfdisk", "--verify", str(image)), capture_output=True, text=True, check=True)
        assert "No errors detected" in check.stdout
