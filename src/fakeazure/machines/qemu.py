"""QEMU as an Azure VM: the accelerator, the firmware, and the command line."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fakeazure.platform.pool import SAVABLE
from fakeazure.platform.vm import Vm

PROGRAM = "qemu-system-x86_64"
BARE = ("-nodefaults", "-no-user-config", "-display", "none")
ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"  # agents detect Azure by this tag
RELEASE = "Hyper-V UEFI Release v4.1"  # systemd detects Hyper-V by this string
CD_DRIVE = "cd"
PORT = "plug"  # of the network card that the platform exchanges
PROBE_SECS = 2.0
PROBE_WORD = b"alive"
DEBUG_PORT, EXIT_PORT = 0xE9, 0xF4
SAFE_ON_TWO_CORES = (8, 2)  # older emulators make newer kernels panic on two cores

# Code and variables; the variables are copied for each machine.
FIRMWARE = (
    ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
    ("/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
    ("/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"),
    ("/usr/share/qemu/ovmf-x86_64-code.bin", "/usr/share/qemu/ovmf-x86_64-vars.bin"),
)


class CannotBoot(Exception):
    """Something is missing, or QEMU failed; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """A kernel that is started without a boot loader."""

    kernel: Path
    initrd: Path | None = None
    append: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Devices and files beside those of the scenario. `directory`: for sockets and temporary files."""

    directory: Path
    disk: Path
    disk_format: str
    console: Path
    medium: Path | None  # inserted at power on
    tap: str  # stem of the tap devices' names: tap0, tap1; tapvf0
    memory_mb: int = 2048
    accelerator: str = "tcg"
    cores: int = 1
    clock: datetime | None = None  # the time at power on; None: the host's
    firmware: tuple[Path, Path] | None = None
    direct: Direct | None = None


def find_program() -> str:
    found = shutil.which(PROGRAM)
    if found is None:
        raise CannotBoot(f"{PROGRAM} is missing: install qemu-system-x86")
    return found


def find_firmware(pairs: Sequence[tuple[str, str]] = FIRMWARE) -> tuple[Path, Path]:
    for code, variables in pairs:
        if Path(code).is_file() and Path(variables).is_file():
            return Path(code), Path(variables)
    raise CannotBoot("a generation 2 machine needs UEFI firmware: install ovmf, or let the scenario say generation = 1")


def parse_version(text: str) -> tuple[int, int]:
    """(0, 0) if the text has no version, which is treated as the oldest."""
    found = re.search(r"version (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def read_version(program: str) -> tuple[int, int]:
    ran = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return parse_version(ran.stdout)


def core_count(accelerator: str, version: tuple[int, int]) -> int:
    return 2 if accelerator == "kvm" or version >= SAFE_ON_TWO_CORES else 1


def choose_accelerator(wanted: str, program: str) -> str:
    if wanted != "auto":
        return wanted
    return "kvm" if Path("/dev/kvm").exists() and guest_answers(program, "kvm", seconds=PROBE_SECS) else "tcg"


def guest_answers(program: str, accelerator: str, *, seconds: float) -> bool:
    """Whether a guest of one sector runs. On some hosts /dev/kvm opens, but a guest never runs."""
    with tempfile.TemporaryDirectory(prefix="fakeazure-") as place:
        sector, heard = Path(place, "probe"), Path(place, "heard")
        sector.write_bytes(boot_sector(PROBE_WORD))
        command = [
            *dies_with_parent(), program, *BARE, "-machine", "pc", "-accel", accelerator, "-cpu", "max", "-m", "16",
            "-drive", f"file={escape(sector)},format=raw,if=floppy", "-boot", "a",
            "-debugcon", f"file:{heard}", "-device", f"isa-debug-exit,iobase={EXIT_PORT:#x},iosize=4",
        ]  # fmt: skip
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return False
        return heard.is_file() and PROBE_WORD in heard.read_bytes()


def boot_sector(word: bytes) -> bytes:
    """Writes the word to the debug port, then exits: `mov al, letter; out port, al` for each."""
    say = b"".join(bytes((0xB0, letter, 0xE6, DEBUG_PORT)) for letter in word)
    leave = bytes((0xB0, 0x00, 0xE6, EXIT_PORT, 0xFA, 0xF4))  # if that fails: cli; hlt
    return (say + leave).ljust(510, b"\0") + b"\x55\xaa"


def dies_with_parent() -> list[str]:
    """A prefix of a command: the kernel kills it when this process ends."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def command(program: str, vm: Vm, hardware: Hardware) -> list[str]:
    return [
        program, *BARE,
        "-name", "fakeazure",
        "-machine", "pc" if vm.generation == 1 else "q35",
        "-accel", hardware.accelerator,
        "-cpu", "max,-hypervisor",  # systemd reads the firmware only if the CPU shows no hypervisor
        "-smp", str(hardware.cores), "-m", str(hardware.memory_mb),
        "-chardev", f"socket,id=monitor,path={escape(hardware.directory / 'monitor')}",
        "-mon", "chardev=monitor,mode=control",
        "-chardev", f"file,id=console,path={escape(hardware.console)},append=on", "-serial", "chardev:console",
        *clock(hardware),
        *firmware(vm, hardware),
        *tables(vm),
        *network(vm, hardware),
        *disks(vm, hardware),
        *optical_drive(vm, hardware),
    ]  # fmt: skip


def clock(hardware: Hardware) -> Iterator[str]:
    if hardware.clock:
        yield from ("-rtc", f"base={hardware.clock:%Y-%m-%dT%H:%M:%S}")


def firmware(vm: Vm, hardware: Hardware) -> Iterator[str]:
    if hardware.firmware:
        code, variables = hardware.firmware
        own = hardware.directory / "variables.fd"
        yield from ("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={escape(code)}")
        shutil.copyfile(variables, own)
        yield from ("-drive", f"if=pflash,unit=1,format=raw,file={escape(own)}")
    if direct := hardware.direct:
        yield from ("-kernel", str(direct.kernel))
        if direct.initrd:
            yield from ("-initrd", str(direct.initrd))
        if direct.append:
            yield from ("-append", direct.append)


def tables(vm: Vm) -> Iterator[str]:
    """The SMBIOS tables."""
    maker = "manufacturer=Microsoft Corporation"
    uefi = "" if vm.generation == 1 else ",uefi=on"
    yield from ("-smbios", f"type=0,vendor=Microsoft Corporation,version={RELEASE}{uefi}")
    yield from ("-smbios", f"type=1,{maker},product=Virtual Machine,version={RELEASE},uuid={vm.dmi_uuid}")
    yield from ("-smbios", f"type=2,{maker},product=Virtual Machine,version={RELEASE}")
    yield from ("-smbios", f"type=3,{maker},version={RELEASE},asset={ASSET_TAG}")


def network(vm: Vm, hardware: Hardware) -> Iterator[str]:
    """Each network card with a tap device of its own; and each VF, which has the same MAC address."""
    if vm.pps_type == SAVABLE and vm.generation == 2:  # q35 has no other place where a card can be plugged in
        yield from ("-device", f"pcie-root-port,id={PORT},chassis=1,slot=1")
    for n, card in enumerate(vm.interfaces):
        yield from ("-netdev", f"tap,id=net{n},ifname={hardware.tap}{n},script=no,downscript=no")
        yield from ("-device", ",".join(f"{name}={value}" for name, value in network_card(vm, n).items()))
        if card.vf:
            yield from ("-netdev", f"tap,id=vfnet{n},ifname={hardware.tap}vf{n},script=no,downscript=no")
            yield from ("-device", f"e1000e,id=vf{n},netdev=vfnet{n},mac={card.mac},romfile=")


def network_card(vm: Vm, n: int) -> dict[str, str]:
    """The properties of a network card, for the command line and for the monitor."""
    properties = {"driver": "virtio-net-pci", "id": f"nic{n}", "netdev": f"net{n}", "mac": vm.interfaces[n].mac}
    if n == 0 and vm.pps_type == SAVABLE and vm.generation == 2:
        properties["bus"] = PORT
    return {**properties, "romfile": ""}


def disks(vm: Vm, hardware: Hardware) -> Iterator[str]:
    """As on Azure: OS disk and temporary disk on one controller, data disks by LUN on another."""
    yield from ("-device", "virtio-scsi-pci,id=system")
    yield from drive("os", hardware.disk, form=hardware.disk_format)
    yield from ("-device", "scsi-hd,drive=os,bus=system.0,lun=0,bootindex=1")
    if vm.temporary_disk != "none":
        yield from drive("temporary", empty(hardware.directory / "temporary", gigabytes=vm.temporary_disk_gb))
    if vm.temporary_disk == "scsi":
        yield from ("-device", "scsi-hd,drive=temporary,bus=system.0,lun=1")
    if vm.temporary_disk == "nvme":
        yield from ("-device", "nvme,drive=temporary,serial=temporary")
    if vm.disks:
        yield from ("-device", "virtio-scsi-pci,id=data")
    for disk in vm.disks:
        name = f"data{disk.lun}"
        yield from drive(name, empty(hardware.directory / name, gigabytes=disk.size_gb))
        yield from ("-device", f"scsi-hd,drive={name},bus=data.0,lun={disk.lun}")


def drive(name: str, file: Path, *, form: str = "raw") -> tuple[str, str]:
    # cache=unsafe: the guest is shut down before QEMU ends, and a crash of the host loses nothing of value.
    return "-drive", f"if=none,id={name},format={form},cache=unsafe,discard=unmap,file={escape(file)}"


def empty(file: Path, *, gigabytes: int) -> Path:
    with file.open("wb") as disk:
        disk.truncate(gigabytes << 30)  # sparse
    return file


def optical_drive(vm: Vm, hardware: Hardware) -> Iterator[str]:
    device = "ide-cd" if vm.generation == 1 else "scsi-cd,bus=system.0,lun=2"
    if hardware.medium:
        yield from ("-drive", f"if=none,id=medium,format=raw,readonly=on,file={escape(hardware.medium)}")
        device += ",drive=medium"
    yield from ("-device", f"{device},id={CD_DRIVE}")


def escape(path: Path) -> str:
    """Doubles commas: a single one ends an option's value."""
    return str(path).replace(",", ",,")
