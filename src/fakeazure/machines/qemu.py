"""QEMU as an Azure machine: which accelerator works here, which firmware is here, and the command line."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fakeazure.platform.vm import Vm

PROGRAM = "qemu-system-x86_64"
BARE = ("-nodefaults", "-no-user-config", "-display", "none")
ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"  # by this agents know Azure
RELEASE = "Hyper-V UEFI Release v4.1"  # by this systemd knows Hyper-V, where the processor does not say otherwise
CD_DRIVE = "cd"
PROBE_SECS = 2.0
PROBE_WORD = b"alive"
DEBUG_PORT, EXIT_PORT = 0xE9, 0xF4
SAFE_ON_TWO_CORES = (8, 2)  # an older emulator panics a newer kernel there

# Code and variables: a fresh machine's variables are its own, so they are copied.
FIRMWARE = (
    ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
    ("/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
    ("/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"),
    ("/usr/share/qemu/ovmf-x86_64-code.bin", "/usr/share/qemu/ovmf-x86_64-vars.bin"),
)


class CannotBoot(Exception):
    """Something that a machine needs is not here; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """A kernel started without firmware and loader."""

    kernel: Path
    initrd: Path | None = None
    append: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What is around the machine that the scenario describes. `directory` takes what it writes and its sockets."""

    directory: Path
    disk: Path
    disk_format: str
    console: Path
    medium: Path | None  # in the drive when the machine starts
    tap: str
    memory_mb: int = 2048
    accelerator: str = "tcg"
    cores: int = 1
    clock: datetime | None = None  # what it reads at the start, where that is not the time
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
    """(0, 0) for a text that says none: the oldest, so to be treated with most care."""
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
    """Whether a guest that only says a word is heard. There are hosts whose /dev/kvm opens and then runs nothing."""
    with tempfile.TemporaryDirectory(prefix="fakeazure-") as place:
        sector, heard = Path(place, "probe"), Path(place, "heard")
        sector.write_bytes(boot_sector(PROBE_WORD))
        command = [
            *tied_to_us(), program, *BARE, "-machine", "pc", "-accel", accelerator, "-cpu", "max", "-m", "16",
            "-drive", f"file={escape(sector)},format=raw,if=floppy", "-boot", "a",
            "-debugcon", f"file:{heard}", "-device", f"isa-debug-exit,iobase={EXIT_PORT:#x},iosize=4",
        ]  # fmt: skip
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return False
        return heard.is_file() and PROBE_WORD in heard.read_bytes()


def boot_sector(word: bytes) -> bytes:
    """Writes the word to the debug port, then leaves: `mov al, letter; out port, al` for each."""
    say = b"".join(bytes((0xB0, letter, 0xE6, DEBUG_PORT)) for letter in word)
    leave = bytes((0xB0, 0x00, 0xE6, EXIT_PORT, 0xFA, 0xF4))  # and where that fails: cli; hlt
    return (say + leave).ljust(510, b"\0") + b"\x55\xaa"


def tied_to_us() -> list[str]:
    """Before a command: the kernel ends it with us, however we end."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def command(program: str, vm: Vm, hardware: Hardware) -> list[str]:
    return [
        program, *BARE,
        "-name", "fakeazure",
        "-machine", "pc" if vm.generation == 1 else "q35",
        "-accel", hardware.accelerator,
        "-cpu", "max,-hypervisor",  # what the firmware says is believed only where the processor says nothing
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
    """What the firmware tells of the machine."""
    maker = "manufacturer=Microsoft Corporation"
    uefi = "" if vm.generation == 1 else ",uefi=on"
    yield from ("-smbios", f"type=0,vendor=Microsoft Corporation,version={RELEASE}{uefi}")
    yield from ("-smbios", f"type=1,{maker},product=Virtual Machine,version={RELEASE},uuid={vm.dmi_uuid}")
    yield from ("-smbios", f"type=2,{maker},product=Virtual Machine,version={RELEASE}")
    yield from ("-smbios", f"type=3,{maker},version={RELEASE},asset={ASSET_TAG}")


def network(vm: Vm, hardware: Hardware) -> Iterator[str]:
    """All its cards on one cable, at whose other end the platform is."""
    yield from ("-netdev", f"tap,id=cable,ifname={hardware.tap},script=no,downscript=no")
    yield from ("-netdev", "hubport,id=hub,hubid=0,netdev=cable")
    for n, card in enumerate(vm.interfaces):
        yield from ("-netdev", f"hubport,id=net{n},hubid=0")
        yield from ("-device", f"virtio-net-pci,netdev=net{n},mac={card.mac},romfile=")


def disks(vm: Vm, hardware: Hardware) -> Iterator[str]:
    """As on Azure: the system and the temporary disk on one controller, the data disks by LUN on another."""
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
    # Nothing on these disks has to survive the power going off here, where the guest has been halted before.
    return "-drive", f"if=none,id={name},format={form},cache=unsafe,discard=unmap,file={escape(file)}"


def empty(file: Path, *, gigabytes: int) -> Path:
    with file.open("wb") as disk:
        disk.truncate(gigabytes << 30)  # takes no room until something is written
    return file


def optical_drive(vm: Vm, hardware: Hardware) -> Iterator[str]:
    device = "ide-cd" if vm.generation == 1 else "scsi-cd,bus=system.0,lun=2"
    if hardware.medium:
        yield from ("-drive", f"if=none,id=medium,format=raw,readonly=on,file={escape(hardware.medium)}")
        device += ",drive=medium"
    yield from ("-device", f"{device},id={CD_DRIVE}")


def escape(path: Path) -> str:
    """A comma ends an option's value, and two are one comma in it."""
    return str(path).replace(",", ",,")
