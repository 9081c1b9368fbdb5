"""Devices as a real kernel shows them: optical drives, discs that come and go, firmware; then the whole agent.

Functions called `inside_...` run in the guest: what they use they import, what they return is JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from azureinit.sources.udf import MOST_NAMES
from fakeazure import Fabric, Media, Vm
from fakeazure.platform import media as discs
from support.container import lay_agent
from support.need import need, need_root
from support.qemu import SUITE, Guest, GuestFailed, running

HOUSE = Path(__file__).parents[2]
ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
IMDS, WIRESERVER = "169.254.169.254", "168.63.129.16"
DRIVES = ("ide", "scsi")
FORMATS = {"udf": ("udf",), "iso": ("iso9660",), "bridge": ("udf", "iso9660")}  # and what the kernel can mount
SOON, LONG = 1.0, 45.0
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
    files = {
        "/usr/lib/azure-init/azureinit": lay_agent(tmp_path_factory.mktemp("agent"), SUITE),
        "/usr/bin/azure-init": HOUSE / "packaging/azure-init",
    }
    with running(tmp_path_factory.mktemp("guest"), files=files, smbios=smbios, doors=doors) as guest:
        guest.call(inside_modules, load=["virtio_pci", "virtio_scsi", "ata_piix", "virtio_net"], unload=[])
        yield guest


@pytest.fixture
def guest(booted: Guest) -> Guest:
    """Drives empty and known to the kernel, no file system of theirs loaded."""
    for drive in DRIVES:
        booted.empty(drive)
    booted.call(inside_forbid, modules=[])
    booted.call(inside_modules, load=["sr_mod"], unload=["udf", "isofs"])
    return booted


def test_the_kernel_mounts_every_kind_of_disc_we_make(guest: Guest, fabric: Fabric, tmp_path: Path) -> None:
    device = guest.call(inside_devices)["scsi"]
    for form, kinds in FORMATS.items():
        guest.insert("scsi", written(tmp_path / form, fabric.vm, form))
        files = discs.files(fabric.vm, Media(format=form))
        for kind in kinds:
            found = guest.call(inside_mount, device=device, kind=kind)
            assert found["files"] == {name: sha256(data).hexdigest() for name, data in files.items()}, (form, kind)
            assert found["complaints"] == [], (form, kind)
            assert found["label"] == discs.LABEL, (form, kind)


def test_discs_are_read_from_either_drive_where_the_kernel_cannot(guest: Guest, fabric: Fabric, tmp_path: Path) -> None:
    guest.call(inside_forbid, modules=["udf", "isofs"])
    devices = guest.call(inside_devices)
    for form, kinds in FORMATS.items():
        disc = written(tmp_path / form, fabric.vm, form)
        for drive in DRIVES:
            guest.insert(drive, disc)
            found = guest.call(inside_read_media, wait=LONG)
            assert found == {"hostname": fabric.vm.name, "device": devices[drive], "how": kinds[0]}, (form, drive)
            guest.empty(drive)
    assert guest.call(inside_left) == {"filesystems": [], "mounts": []}
    guest.insert("scsi", tmp_path / "udf")
    with pytest.raises(GuestFailed, match="unknown filesystem type"):
        guest.call(inside_mount, device=devices["scsi"], kind="udf")


def test_empty_drives_are_no_medium_and_end_with_the_wait(guest: Guest) -> None:
    found = guest.call(inside_read_media, wait=SOON)
    assert found["error"] == "MediaAbsent"
    assert "sr0 (no medium), sr1 (no medium)" in found["text"]


def test_a_disc_that_comes_while_we_wait_is_read(guest: Guest, fabric: Fabric, tmp_path: Path) -> None:
    disc = written(tmp_path / "disc", fabric.vm, "udf")
    for drive in DRIVES:
        guest.begin(inside_read_media, wait=LONG, knock=True)
        assert guest.finish() == "looking"
        guest.insert(drive, disc)
        assert guest.finish()["hostname"] == fabric.vm.name, drive
        guest.empty(drive)


def test_a_drive_whose_driver_comes_while_we_wait_is_read(guest: Guest, fabric: Fabric, tmp_path: Path) -> None:
    guest.call(inside_modules, load=[], unload=["sr_mod"])
    guest.insert("scsi", written(tmp_path / "disc", fabric.vm, "udf"))
    found = guest.call(inside_read_media, wait=SOON)
    assert found["error"] == "MediaAbsent" and "no device yet" in found["text"]
    assert guest.call(inside_read_media, wait=LONG, load="sr_mod")["hostname"] == fabric.vm.name


def test_a_strange_disc_in_one_drive_does_not_hide_ours_in_the_other(
    guest: Guest, fabric: Fabric, tmp_path: Path
) -> None:
    ours, strange = written(tmp_path / "ours", fabric.vm, "udf"), tmp_path / "strange"
    made = datetime(2024, 5, 6, tzinfo=UTC)
    strange.write_bytes(discs.disc({"README.TXT": b"drivers"}, form="iso", made=made))
    for drive, other in (DRIVES, DRIVES[::-1]):
        guest.insert(drive, ours)
        guest.insert(other, strange)
        found = guest.call(inside_read_media, wait=LONG)
        assert (found["hostname"], found["device"]) == (fabric.vm.name, guest.call(inside_devices)[drive])


def test_a_hard_disk_that_looks_like_the_medium_does_not_win_against_a_disc_that_is_late(
    guest: Guest, fabric: Fabric, tmp_path: Path
) -> None:
    ours = written(tmp_path / "ours", fabric.vm, "udf")
    rogue = written(tmp_path / "rogue", Vm(name="rogue"), "udf")
    guest.call(inside_modules, load=["sd_mod"], unload=[])
    with guest.disk(rogue):
        guest.until(lambda: bool(guest.call(inside_disks)))
        guest.begin(inside_read_media, wait=LONG, knock=True)
        assert guest.finish() == "looking"
        guest.insert("scsi", ours)
        found = guest.finish()
        assert (found["hostname"], found["device"]) == (fabric.vm.name, guest.call(inside_devices)["scsi"])
        guest.empty("scsi")
        found = guest.call(inside_read_media, wait=SOON)
        assert (found["hostname"], found["device"]) == ("rogue", None), "where no drive has it in its time"
    guest.until(lambda: not guest.call(inside_disks))


def test_a_disc_that_somebody_else_has_mounted_is_read(guest: Guest, fabric: Fabric, tmp_path: Path) -> None:
    guest.insert("scsi", written(tmp_path / "disc", fabric.vm, "udf"))
    device = guest.call(inside_devices)["scsi"]
    found = guest.call(inside_read_media, wait=LONG, mounted=device)
    assert found == {"hostname": fabric.vm.name, "device": device, "how": "udf"}


def test_a_disc_with_an_unreadable_sector_is_there_and_broken(guest: Guest, fabric: Fabric, tmp_path: Path) -> None:
    disc = written(tmp_path / "disc", fabric.vm, "udf")
    guest.insert_broken("scsi", disc, sector=disc.read_bytes().index(b"<?xml") // 2048)
    found = guest.call(inside_read_media, wait=SOON)
    assert found["error"] == "MediaUnreadable" and "Input/output error" in found["text"]


def test_eject_opens_the_drive(guest: Guest, fabric: Fabric, tmp_path: Path) -> None:
    disc = written(tmp_path / "disc", fabric.vm, "udf")
    for drive in DRIVES:
        guest.insert(drive, disc)
        device = guest.call(inside_read_media, wait=LONG)["device"]
        assert not guest.drive(drive)["tray_open"]
        guest.call(inside_eject, device=device)
        assert guest.drive(drive)["tray_open"]
        found = guest.call(inside_read_media, wait=SOON)
        assert found["error"] == "MediaAbsent" and found["text"].count("no medium") == len(DRIVES)


def test_a_mount_for_reading_leaves_nothing_mounted(guest: Guest, fabric: Fabric, tmp_path: Path) -> None:
    device = guest.call(inside_devices)["ide"]
    for form in FORMATS:
        guest.insert("ide", written(tmp_path / form, fabric.vm, form))
        guest.call(inside_read_media, wait=LONG)  # a drive just filled fails its first reads: wait until it is ready
        found = guest.call(inside_mount_and_read, device=device)
        assert found == discs.ovf_env(fabric.vm, Media(format=form)).decode(), form
        assert guest.call(inside_left)["mounts"] == []
        guest.call(inside_eject, device=device)


def test_a_disc_that_only_the_kernel_can_read_is_read_by_it(guest: Guest, fabric: Fabric, tmp_path: Path) -> None:
    many = {f"driver-{number}": b"" for number in range(MOST_NAMES)}
    disc = tmp_path / "disc"
    disc.write_bytes(discs.disc({**many, **discs.files(fabric.vm, Media())}, form="udf", made=datetime.now(UTC)))
    guest.insert("scsi", disc)
    found = guest.call(inside_read_media, wait=LONG)
    assert (found["hostname"], found["how"]) == (fabric.vm.name, "mounted")
    assert guest.call(inside_left)["mounts"] == []


def test_a_disc_that_contradicts_itself_is_refused_though_the_kernel_reads_it(
    guest: Guest, fabric: Fabric, tmp_path: Path
) -> None:
    disc = written(tmp_path / "disc", fabric.vm, "udf")
    disc.write_bytes(with_wrong_checksum(disc.read_bytes()))
    guest.insert("scsi", disc)
    found = guest.call(inside_read_media, wait=LONG)
    assert found["error"] == "MediaUnreadable"
    assert guest.call(inside_left) == {"filesystems": [], "mounts": []}
    mounted = guest.call(inside_mount, device=guest.call(inside_devices)["scsi"], kind="udf")
    assert "ovf-env.xml" in mounted["files"]


def test_the_firmware_tells_the_vm_id(guest: Guest, fabric: Fabric) -> None:
    assert guest.call(inside_identity) == {"azure": True, "vm_id": fabric.vm.id, "firmware": fabric.vm.dmi_uuid}


def test_the_whole_agent_provisions_the_machine_it_runs_on(guest: Guest, fabric: Fabric, tmp_path: Path) -> None:
    guest.insert("ide", written(tmp_path / "disc", fabric.vm, "udf"))
    for number, address in enumerate((IMDS, WIRESERVER)):
        guest.call(inside_network, card=f"eth{number}", address=address.rpartition(".")[0] + ".10/24")
    first = guest.call(inside_agent)
    assert first["status"] == 0, first["told"]
    assert fabric.judge().ok, fabric.judge()
    assert guest.drive("ide")["tray_open"]
    assert first["hostname"] == fabric.vm.name
    assert first["account"].startswith(f"{fabric.vm.username}:")
    assert first["keys"] == fabric.vm.public_keys[0].data + "\n"
    second = guest.call(inside_agent)
    assert second["status"] == 0 and "already provisioned" in second["told"]


def written(path: Path, vm: Vm, form: str) -> Path:
    path.write_bytes(discs.image(vm, Media(format=form)))
    return path


def with_wrong_checksum(disc: bytes) -> bytes:
    """The directory's entry for ovf-env.xml, spoilt where no kernel looks."""
    start = disc.index(b"\x08ovf-env.xml") - 38
    tag = bytearray(disc[start : start + 16])
    tag[8] ^= 0xFF
    tag[4] = (sum(tag) - tag[4]) & 0xFF
    return disc[:start] + bytes(tag) + disc[start + 16 :]


def inside_modules(load: list[str], unload: list[str]) -> None:
    import subprocess

    for option, modules in (("-ra", unload), ("-a", load)):
        if modules:
            subprocess.run(["modprobe", option, *modules], check=True)


def inside_forbid(modules: list[str]) -> None:
    """As hardened images do."""
    with open("/etc/modprobe.d/hardened.conf", "w") as file:
        file.writelines(f"install {module} /bin/false\n" for module in modules)


def inside_devices() -> dict[str, str]:
    import os

    drives = [name for name in os.listdir("/sys/block") if name.startswith("sr")]
    return {"ide" if "/ata" in os.path.realpath(f"/sys/block/{name}") else "scsi": f"/dev/{name}" for name in drives}


def inside_disks() -> list[str]:
    import os

    return [name for name in os.listdir("/sys/block") if name.startswith("sd") and os.path.exists(f"/dev/{name}")]


def inside_mount(device: str, kind: str) -> dict[str, Any]:
    import hashlib
    import os
    import subprocess

    def run(*command: str) -> str:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if ran.returncode:
            raise RuntimeError(f"{command[0]}: {ran.stdout}")
        return ran.stdout.strip()

    run("dmesg", "--clear")
    run("mount", "-t", kind, "-o", "ro", device, "/mnt")
    try:
        files = {}
        for name in os.listdir("/mnt"):
            with open(f"/mnt/{name}", "rb") as file:
                files[name] = hashlib.sha256(file.read()).hexdigest()
    finally:
        run("umount", "/mnt")
    complaints = run("dmesg", "--level", "emerg,alert,crit,err,warn").splitlines()
    return {"files": files, "complaints": complaints, "label": run("blkid", "-p", "-ovalue", "-sLABEL", device)}


def inside_read_media(wait: float, load: str = "", knock: bool = False, mounted: str = "") -> dict[str, Any]:
    """`load`: a module that comes while we wait. `knock`: say when the first look is over. `mounted`: by another."""
    import subprocess
    import threading

    from azureinit.errors import AzureInitError
    from azureinit.machine import Clock, Machine
    from azureinit.sources.media import read_media

    class Knocking(Clock):
        def sleep(self, seconds: float) -> None:
            nonlocal load, knock
            if knock:
                knock = False
                send(returned="looking")  # type: ignore[name-defined]  # noqa: F821 - the guest's own
            if load:
                threading.Thread(target=subprocess.run, args=(["modprobe", load],)).start()
                load = ""
            super().sleep(seconds)

    machine = Machine(clock=Knocking())
    if mounted:
        subprocess.run(["mount", "-o", "ro", mounted, "/mnt"], check=True)
    try:
        medium = read_media(machine, path="", deadline=machine.clock.monotonic() + wait)
    except AzureInitError as error:
        return {"error": type(error).__name__, "text": str(error)}
    finally:
        if mounted:
            subprocess.run(["umount", "/mnt"], check=True)
    return {"hostname": medium.ovf.hostname, "device": medium.device, "how": medium.how}


def inside_left() -> dict[str, list[str]]:
    """What a medium's reading may have left behind in the kernel."""
    with open("/proc/filesystems") as file:
        filesystems = [line.split()[-1] for line in file]
    with open("/proc/self/mounts") as file:
        mounts = [line for line in file if "/dev/" in line]
    return {"filesystems": [kind for kind in filesystems if kind in ("udf", "iso9660")], "mounts": mounts}


def inside_eject(device: str) -> None:
    from azureinit.machine import Machine

    Machine().eject(device, timeout=10)


def inside_mount_and_read(device: str) -> str:
    from azureinit.machine import Machine

    data = Machine().mount_and_read(device, "ovf-env.xml", limit=1 << 20)
    return "" if data is None else data.decode()


def inside_identity() -> dict[str, Any]:
    from azureinit.machine import Machine
    from azureinit.sources.identity import is_azure, read_vm_id

    with open("/sys/class/dmi/id/product_uuid") as file:
        firmware = file.read().strip()
    return {"azure": is_azure(Machine()), "vm_id": read_vm_id(Machine(), ""), "firmware": firmware}


def inside_network(card: str, address: str) -> None:
    import subprocess

    subprocess.run(["ip", "address", "add", address, "dev", card], check=True)
    subprocess.run(["ip", "link", "set", card, "up"], check=True)


def inside_agent() -> dict[str, Any]:
    import os
    import subprocess

    ran = subprocess.run(["azure-init"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=80)
    answer = {"status": ran.returncode, "told": ran.stdout}
    if ran.returncode == 0:
        with open("/etc/passwd") as passwd, open("/home/azureuser/.ssh/authorized_keys") as keys:
            answer |= {"hostname": os.uname().nodename, "account": passwd.readlines()[-1], "keys": keys.read()}
    return answer
