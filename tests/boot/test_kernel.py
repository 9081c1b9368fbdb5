"""Devices as a real kernel shows them: optical drives, discs that come and go, firmware, and the whole agent.

Functions with a leading `inside_` run in the guest: what they use they import, what they return is JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fakeazure import Fabric, Media, Vm
from fakeazure import media as discs
from need import need, need_root
from qemu import Guest, running

SRC = Path(__file__).parents[2] / "src"
ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
IMDS, WIRESERVER = "169.254.169.254", "168.63.129.16"
FORMATS = {"udf": ("udf",), "iso": ("iso9660",), "bridge": ("udf", "iso9660")}
WAIT = 2.0
CUSTOM_DATA = bytes(range(256)) * 300


@pytest.fixture(scope="module")
def fabric() -> Iterator[Fabric]:
    need_root()
    with Fabric(vm=Vm(name="real-kernel", generation=1, custom_data=CUSTOM_DATA)) as fabric:
        yield fabric


@pytest.fixture(scope="module")
def booted(fabric: Fabric, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    for tool in ("qemu-system-x86_64", "mmdebstrap"):
        need(tool)
    doors = {IMDS: urlsplit(fabric.imds).port or 0, WIRESERVER: urlsplit(fabric.wireserver).port or 0}
    smbios = [f"type=1,uuid={fabric.vm.dmi_uuid}", f"type=3,asset={ASSET_TAG}"]
    trees = {"/src/azureinit": SRC / "azureinit"}
    with running(tmp_path_factory.mktemp("guest"), trees=trees, smbios=smbios, doors=doors) as guest:
        guest.call(inside_modules, load=["virtio_pci", "virtio_scsi", "ata_piix", "virtio_net"], unload=[])
        guest.call(inside_forbid, modules=[])
        yield guest


@pytest.fixture
def guest(booted: Guest) -> Guest:
    """Both drives empty, no file system's module loaded."""
    for drive in ("ide", "scsi"):
        booted.empty(drive)
    booted.call(inside_forbid, modules=[])
    booted.call(inside_modules, load=["sr_mod"], unload=["udf", "isofs"])
    return booted


def write_disc(path: Path, vm: Vm, form: str) -> Path:
    path.write_bytes(discs.image(vm, Media(format=form)))
    return path


def inside_modules(load: list[str], unload: list[str]) -> list[str]:
    import subprocess

    for module in unload:
        subprocess.run(["modprobe", "-r", module], check=True, capture_output=True)
    for module in load:
        subprocess.run(["modprobe", module], check=True, capture_output=True)
    with open("/proc/modules") as file:
        return [line.split()[0] for line in file]


def inside_forbid(modules: list[str]) -> None:
    """As hardened images do."""
    with open("/etc/modprobe.d/hardened.conf", "w") as file:
        file.writelines(f"install {module} /bin/false\n" for module in modules)


def inside_mount(device: str, kind: str) -> dict[str, Any]:
    import hashlib
    import os
    import subprocess

    subprocess.run(["dmesg", "-C"], check=True)
    subprocess.run(["mount", "-t", kind, "-o", "ro", device, "/mnt"], check=True, capture_output=True)
    try:
        files = {}
        for name in os.listdir("/mnt"):
            with open(f"/mnt/{name}", "rb") as file:
                files[name] = hashlib.sha256(file.read()).hexdigest()
    finally:
        subprocess.run(["umount", "/mnt"], check=True)
    told = subprocess.run(["dmesg"], check=True, capture_output=True, text=True).stdout
    label = subprocess.run(["blkid", "-p", "-o", "value", "-s", "LABEL", device], capture_output=True, text=True).stdout
    return {"files": files, "label": label.strip(), "told": told}


def inside_read_media(wait: float, load: str = "") -> dict[str, Any]:
    """`load`: a module that comes while we wait."""
    import subprocess
    import threading
    import time

    from azureinit.errors import AzureInitError
    from azureinit.machine import Machine
    from azureinit.sources.media import read_media

    machine = Machine()
    if load:
        threading.Timer(0.5, subprocess.run, args=(["modprobe", load],)).start()
    started = time.monotonic()
    try:
        medium = read_media(machine, path="", deadline=started + wait)
    except AzureInitError as error:
        answer = {"error": type(error).__name__, "text": str(error)}
    else:
        answer = {"hostname": medium.ovf.hostname, "device": medium.device, "how": medium.how}
    answer["seconds"] = round(time.monotonic() - started, 2)
    with open("/proc/filesystems") as file:
        answer["filesystems"] = file.read().split()
    with open("/proc/self/mounts") as file:
        answer["mounts"] = file.read()
    return answer
