"""The [kernel] settings on real kernels: entropy from the firmware's table, disk timeouts, and GRUB's command line.

Functions called `inside_...` run in the guest: what they use they import, what they return is JSON.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import qemu
from support.container import lay_agent
from support.disks import KERNEL_OPTIONS, ROOT_START, SUITE, debian_disk, with_tree
from support.need import need, need_root
from support.qemu import running

pytestmark = pytest.mark.newer

HOUSE = Path(__file__).parents[2]
VM_ID = "c0ffee00-1111-2222-3333-444444444444"
BOOT_SECONDS = 300.0
# A machine that is provisioned, so that the run does no more than every boot does.
CONFIG = f"""\
[platform]
require_azure = false
vm_id = "{VM_ID}"
[disk]
grow_root = false
[telemetry]
console = false
[kernel]
"""
WORDS = ["numa=off", "console=ttyS0", "earlyprintk=ttyS0"]


@pytest.fixture(autouse=True)
def needed() -> None:
    need_root()
    for tool in ("qemu-system-x86_64", "debugfs", "mmdebstrap"):
        need(tool)


def test_the_table_that_the_host_offers_reaches_an_older_kernel_once_a_boot(tmp_path: Path) -> None:
    table, config, marker = tmp_path / "entropy", tmp_path / "azure-init.toml", tmp_path / "marker"
    table.write_bytes(bytes(range(64)))
    config.write_text(CONFIG + "entropy = true\n")
    marker.touch()
    files = {
        "/usr/lib/azure-init/azureinit": lay_agent(tmp_path / "agent", qemu.SUITE),
        "/usr/bin/azure-init": HOUSE / "packaging/azure-init",
        "/etc/azure-init/azure-init.toml": config,
        f"/var/lib/azure-init/{VM_ID}.provisioned": marker,
    }
    with running(tmp_path, files=files, acpi=[f"sig=OEM0,data={table}"]) as guest:
        found = guest.call(inside_entropy)
    assert found["release"].startswith("6.1.")
    assert found["length"] == 36 + 64  # a header of ACPI's before it
    assert found["first"]["status"] == 0, found
    assert "fed 100 bytes of the host's entropy to the kernel" in found["first"]["told"]
    assert found["first"]["writes"] == 1
    assert (found["second"]["status"], found["second"]["writes"]) == (0, 0)


def inside_entropy() -> dict[str, Any]:
    import os
    import subprocess

    trace = "/sys/kernel/tracing"
    if not os.path.exists(f"{trace}/trace"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", trace], check=True)

    def put(name: str, text: str) -> None:
        with open(f"{trace}/{name}", "w") as file:
            file.write(text)

    def run() -> dict[str, Any]:
        """How often somebody wrote to the kernel's random numbers meanwhile, by the kernel's own account."""
        put("trace", "")
        ran = subprocess.run(["azure-init"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        with open(f"{trace}/trace") as file:
            lines = [line for line in file if "random_write_iter" in line and not line.startswith("#")]
        return {"status": ran.returncode, "told": ran.stdout, "writes": len(lines)}

    put("set_ftrace_filter", "random_write_iter")
    put("current_tracer", "function")
    with open("/sys/firmware/acpi/tables/OEM0", "rb") as file:
        length = len(file.read())
    return {"release": os.uname().release, "length": length, "first": run(), "second": run()}


# The first process of the machine: nothing else runs in it.
INIT = """\
#!/usr/bin/python3 -I
import ctypes, glob, json, os, subprocess, time, traceback
os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", PYTHONPATH="/usr/lib/azure-init", LC_ALL="C")
MENU = "/boot/grub/grub.cfg"
def run(*words):
    ran = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return [ran.returncode, ran.stdout]
def read(path):
    with open(path) as file:
        return file.read()
try:
    told = {"cmdline": read("/proc/cmdline").split(), "patience": read("/sys/block/sda/device/timeout").strip()}
    if not os.path.exists(MENU):
        told["menu"] = run("update-grub")
        told["before"] = read(MENU)
        told["ran"] = run("python3", "-m", "azureinit")
        told["patience now"] = read("/sys/block/sda/device/timeout").strip()
    else:
        told["again"] = run("python3", "-m", "azureinit")
        told["deprovision"] = run("python3", "-m", "azureinit", "deprovision", "--force")
    told["after"] = read(MENU)
except BaseException:
    told = {"raised": traceback.format_exc()}
with open("/dev/ttyS1", "w") as wire:
    wire.write(json.dumps(told) + "\\n")
os.sync()
time.sleep(0.5)
ctypes.CDLL(None).reboot(0x4321FEDC)
"""


def test_a_machine_boots_from_the_menu_with_our_words_in_it(tmp_path: Path) -> None:
    disk, tree = debian_disk("grub"), tmp_path / "tree"
    lay_agent(tree / "usr/lib/azure-init", SUITE)
    files = {
        "init-grub": INIT,
        "etc/azure-init/azure-init.toml": CONFIG + "scsi_timeout_secs = 300\nnuma_off = true\nserial_console = true\n",
        f"var/lib/azure-init/{VM_ID}.provisioned": "",
        "etc/default/grub.d/10-test.cfg": 'GRUB_TIMEOUT=0\nGRUB_TERMINAL=serial\nGRUB_CMDLINE_LINUX_DEFAULT=""\n'
        'GRUB_CMDLINE_LINUX="rw no_timer_check init=/init-grub"\n',
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (tree / "init-grub").chmod(0o755)
    with with_tree(disk, tree, tmp_path) as image:
        direct = ("-kernel", str(disk.kernel), "-initrd", str(disk.initrd))
        first = booted(image, tmp_path, *direct, "-append", f"{KERNEL_OPTIONS} init=/init-grub")
        assert first["ran"][0] == 0 and first["before"] != first["after"], first
        assert (first["patience"], first["patience now"]) == ("30", "300")
        loader = tmp_path / "grub.lnx"
        dump = ("debugfs", "-R", f"dump /boot/grub/grub.lnx {loader}", f"{image}?offset={ROOT_START}")
        subprocess.run(dump, check=True, capture_output=True)
        second = booted(image, tmp_path, "-kernel", str(loader))
        assert second["cmdline"][-3:] == WORDS and "init=/init-grub" in second["cmdline"]
        assert second["again"][0] == 0 and "kernel command line" not in second["again"][1]
        assert second["deprovision"][0] == 0, second["deprovision"][1]
        assert second["after"] == first["before"]


def booted(image: Path, place: Path, *start: str) -> dict[str, Any]:
    """What the machine says of itself before it switches itself off."""
    console, wire = place / "console", place / "wire"
    command = (
        need("setpriv"), "--pdeathsig", "KILL",
        need("qemu-system-x86_64"), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-machine", "pc", "-accel", "tcg", "-cpu", "max", "-m", "1024", *start,
        "-serial", f"file:{console}", "-serial", f"file:{wire}",
        "-drive", f"file={image},if=none,id=root,format=raw",
        "-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=root,bootindex=1",
    )  # fmt: skip
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=BOOT_SECONDS)
    said = wire.read_text()
    assert said.strip(), console.read_text(errors="replace")[-3000:]
    told: dict[str, Any] = json.loads(said.splitlines()[-1])
    assert "raised" not in told, told["raised"]
    return told
