"""`fakeazure boot` without a whole machine: disk images, QEMU's command line, its monitor, and refusals."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import fakeazure
from fakeazure.machines import disk_image, qemu
from fakeazure.machines.console import last_lines
from fakeazure.machines.qemu_process import QemuProcess
from fakeazure.machines.qmp import NoMonitor
from fakeazure.platform.vm import Disk, Interface, Vm
from support.need import need

SOURCE = str(Path(fakeazure.__file__).parent.parent)
ID = "8e4cd4d9-4aac-4f55-bf16-3710e19a3f01"
BOOTABLE = bytes(510) + b"\x55\xaa"


def fake(*arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fakeazure", "boot", *arguments]
    environ = {**os.environ, "PYTHONPATH": SOURCE, "PATH": path}
    return subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


def written(file: Path, data: bytes) -> Path:
    file.write_bytes(data)
    return file


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (BOOTABLE + bytes(1 << 20), "raw"),
        (b"QFI\xfb\x00\x00\x00\x03" + bytes(1024), "qcow2"),
        (b"vhdxfile" + bytes(1024), "vhdx"),
        (b"KDMV" + bytes(1024), "vmdk"),
        (BOOTABLE + bytes(1024) + b"conectix" + bytes(504), "vpc"),
    ],
)
def test_a_disk_tells_its_format_itself(data: bytes, form: str, tmp_path: Path) -> None:
    assert disk_image.read_format(written(tmp_path / "disk", data), bootable=True) == form


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "too small for a disk"),
        (bytes(4096), "not bootable: it has no partition table"),
        (b"\x1f\x8b" + bytes(4096), "compressed with gzip: decompress it first"),
        (b"\xfd7zXZ\x00" + bytes(4096), "compressed with xz: decompress it first"),
    ],
)
def test_what_is_no_disk_is_refused_in_a_sentence(data: bytes, says: str, tmp_path: Path) -> None:
    need(qemu.PROGRAM)
    done = fake(str(written(tmp_path / "disk", data)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fakeazure: {tmp_path / 'disk'}: {says}") and done.stderr.count("\n") == 1


def test_a_disk_without_a_table_will_do_for_a_kernel_of_its_own(tmp_path: Path) -> None:
    assert disk_image.read_format(written(tmp_path / "disk", bytes(4096)), bootable=False) == "raw"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.img"], "missing.img: no such file or directory"),
        (["/"], "/: is a directory"),
        (["disk", "--kernel", "missing"], "--kernel missing: no such file"),
        (["disk", "--append", "quiet"], "--initrd and --append need --kernel"),
        (["disk", "--ledger", "/no/such/place"], "--ledger /no/such/place: no such directory"),
        (["disk", "no-such-scenario"], "no-such-scenario"),
    ],
)
def test_a_wrong_command_line_is_answered_in_a_sentence(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "disk", BOOTABLE)
    done = fake(*arguments)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("present", "says"),
    [
        ((), "qemu-system-x86_64 is missing: install qemu-system-x86"),
        (("qemu-system-x86_64",), "qemu-img is missing: install qemu-utils"),
    ],
)
def test_a_missing_tool_is_named_with_its_package(present: tuple[str, ...], says: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in present:
        (tools / name).symlink_to("/bin/true")
    done = fake(str(written(tmp_path / "disk", BOOTABLE)), path=str(tools))
    assert (done.returncode, done.stderr) == (2, f"fakeazure: {says}\n")


def test_missing_firmware_is_named_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(qemu.CannotBoot, match="install ovmf, or let the scenario say generation = 1"):
        qemu.find_firmware([(f"{tmp_path}/code", f"{tmp_path}/variables")])


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright", (7, 2)),
        ("QEMU emulator version 10.0.3", (10, 0)),
        ("something else", (0, 0)),
    ],
)
def test_the_emulator_tells_its_version(text: str, version: tuple[int, int]) -> None:
    assert qemu.parse_version(text) == version


def test_an_old_emulator_gets_one_core() -> None:
    assert qemu.core_count("tcg", (7, 2)) == 1
    assert qemu.core_count("tcg", (8, 2)) == qemu.core_count("tcg", (10, 0)) == qemu.core_count("kvm", (7, 2)) == 2


def test_the_probe_guest_is_heard() -> None:
    assert qemu.guest_answers(need(qemu.PROGRAM), "tcg", seconds=60)


def test_a_probe_without_an_accelerator_is_not_heard() -> None:
    assert not qemu.guest_answers(need(qemu.PROGRAM), "no-such-accelerator", seconds=60)


def hardware(tmp_path: Path) -> qemu.Hardware:
    disk = tmp_path / "disk,1"
    return qemu.Hardware(
        directory=tmp_path, disk=disk, disk_format="qcow2", console=tmp_path / "console", medium=None, tap="tap0"
    )


def words(vm: Vm, given: qemu.Hardware) -> str:
    return " ".join(qemu.command("qemu", vm, given))


def test_a_machine_of_the_first_generation_has_a_bios_and_an_ide_drive(tmp_path: Path) -> None:
    said = words(Vm(id=ID, generation=1), hardware(tmp_path))
    assert "-machine pc " in said and "ide-cd,id=cd" in said and "pflash" not in said
    assert "uuid=d9d44c8e-ac4a-554f-bf16-3710e19a3f01" in said
    assert "asset=7783-7084-3265-9085-8269-3286-77" in said
    assert "version=Hyper-V UEFI Release v4.1" in said and "-cpu max,-hypervisor" in said


def test_a_machine_of_the_second_generation_has_uefi_and_a_scsi_drive(tmp_path: Path) -> None:
    code, variables = written(tmp_path / "code", b"c"), written(tmp_path / "vars", b"v")
    medium = tmp_path / "medium"
    said = words(Vm(id=ID), replace(hardware(tmp_path), firmware=(code, variables), medium=medium))
    assert "-machine q35 " in said and f"uuid={ID}" in said
    assert f"readonly=on,file={code}" in said and f"unit=1,format=raw,file={tmp_path}/variables.fd" in said
    assert (tmp_path / "variables.fd").read_bytes() == b"v"
    assert "scsi-cd,bus=system.0,lun=2,drive=medium,id=cd" in said and f"readonly=on,file={medium}" in said


def test_disks_cards_and_clock_are_the_scenarios(tmp_path: Path) -> None:
    vm = Vm(nics=(Interface(mac="00:0d:3a:01:02:03"), Interface()), disks=(Disk(lun=5, size_gb=9),))
    at = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
    said = words(replace(vm, temporary_disk="nvme", temporary_disk_gb=2), replace(hardware(tmp_path), clock=at))
    assert "mac=00:0d:3a:01:02:03" in said and f"mac={vm.interfaces[1].mac}" in said
    assert "scsi-hd,drive=data5,bus=data.0,lun=5" in said and (tmp_path / "data5").stat().st_size == 9 << 30
    assert "nvme,drive=temporary" in said and (tmp_path / "temporary").stat().st_size == 2 << 30
    assert "-rtc base=2001-02-03T04:05:06" in said
    assert "disk,,1" in said  # a comma would end the value
    assert "temporary" not in words(replace(vm, temporary_disk="none"), hardware(tmp_path))


def table(*starts: int, kind: int = 0x83) -> bytes:
    entries = b"".join(struct.pack("<4xB3xII", kind, start, 100) for start in starts)
    return bytes(446) + entries.ljust(64, b"\0") + b"\x55\xaa"


def test_partitions_are_found_in_either_kind_of_table() -> None:
    assert list(disk_image.parse_partitions(io.BytesIO(table(2048, 4096)))) == [2048, 4096]
    head = (b"EFI PART" + bytes(64) + struct.pack("<QII", 2, 3, 128)).ljust(512, b"\0")
    entries = [b"\1" * 32 + struct.pack("<QQ", start, start + 9) + bytes(80) for start in (34, 9000)]
    disk = table(1, kind=0xEE) + head + entries[0] + bytes(128) + entries[1]
    assert list(disk_image.parse_partitions(io.BytesIO(disk))) == [34, 9000]


@given(
    st.binary(max_size=2048), st.sampled_from([b"", table(7), table(1, kind=0xEE), table(1, kind=0xEE) + b"EFI PART"])
)
def test_no_table_breaks_the_reader(data: bytes, start: bytes) -> None:
    assert all(isinstance(where, int) for where in disk_image.parse_partitions(io.BytesIO(start + data)))


@pytest.mark.parametrize("form", ["raw", "qcow2"])
def test_a_file_is_read_out_of_a_disk_that_nobody_mounts(form: str, tmp_path: Path) -> None:
    mke2fs, qemu_img = need("mke2fs"), need("qemu-img")
    need("debugfs")
    tree, raw, disk = tmp_path / "tree", tmp_path / "raw", tmp_path / "disk"
    (tree / "lib/hyperv").mkdir(parents=True)
    (tree / "lib/hyperv/pool").write_bytes(b"record")
    raw.write_bytes(table(2048))
    subprocess.run([mke2fs, "-q", "-t", "ext4", "-d", tree, "-E", f"offset={2048 * 512}", raw, "8M"], check=True)
    subprocess.run([qemu_img, "convert", "-f", "raw", "-O", form, raw, disk], check=True)
    found = [
        disk_image.read_file(disk, names, form=form, directory=tmp_path)
        for names in (("/var/lib/hyperv/pool", "/lib/hyperv/pool"), ("/lib/hyperv/none",))
    ]
    assert found == [b"record", None]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "raw", "tree"]
    with pytest.raises(disk_image.DiskInvalid, match="the disk has no ext4 file system"):
        disk_image.read_file(written(tmp_path / "other", table(8)), ("/x",), form="raw", directory=tmp_path)


def test_a_layer_takes_what_is_written(tmp_path: Path) -> None:
    need("qemu-img")
    disk, layer = written(tmp_path / "disk", BOOTABLE + bytes(1 << 20)), tmp_path / "layer"
    disk_image.make_layer(disk, layer, form="raw")
    assert disk_image.read_format(layer, bootable=True) == "qcow2"
    with pytest.raises(disk_image.DiskInvalid, match="disk"):
        disk_image.make_layer(disk, layer, form="qcow2")


def test_the_drive_follows_the_platforms_disc(tmp_path: Path) -> None:
    medium = tmp_path / "medium"
    with idle(tmp_path, medium) as guest:
        assert guest.ended() == ""
        for _ in range(2):
            written(medium, bytes(4096))
            guest.update_drive()
            assert guest.disc() == str(medium)
            medium.unlink()
            guest.update_drive()
            assert guest.disc() is None


def test_a_panic_on_the_console_is_an_end(tmp_path: Path) -> None:
    with idle(tmp_path, tmp_path / "medium") as guest:
        with (tmp_path / "console").open("ab") as console:
            console.write(b"[  1.0] \033[31mKernel panic - not ")
            console.flush()
            assert guest.ended() == ""
            console.write(b"syncing: no init\n")
        assert guest.ended() == "panicked"
        assert guest.last_lines() == ["[  1.0] Kernel panic - not syncing: no init"]
        guest.power_off()  # does not wait for the panicked kernel
        assert guest.ended() == "powered itself off"


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[!p\x1b]104\x1b\\login:",  # a terminal is reset
        "\x1b[0;1;39mlo\x1b[0mgin\x1b[?25h:\x1b[K",
        "\x1b]0;a title\x07login:\x1b(B",
        "\x1bP+q544e\x1b\\login:\x1b7",  # a query of the terminal's name
        "\x1b]0;never ended\nlogin:",
        "login:\r\n\x1b[2J\r\n\r\n",
    ],
)
def test_a_console_is_read_without_its_escape_sequences(text: str, tmp_path: Path) -> None:
    assert last_lines(written(tmp_path / "console", text.encode())) == ["login:"]


def test_a_console_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "console") == []


def test_who_is_in_a_hurry_pulls_the_plug(tmp_path: Path) -> None:
    asked = iter([False, False, True])
    with idle(tmp_path, tmp_path / "medium") as guest:
        written(tmp_path / "console", b"\033[=3h\033[2JShell>\n")
        assert guest.last_lines() == ["Shell>"]
        guest.power_off(hurried=lambda: next(asked, True))
        assert guest.ended() == "powered itself off"


def test_hardware_that_qemu_does_not_know_is_a_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(qemu.CannotBoot, match="QEMU did not start: unsupported machine type"),
        idle(tmp_path, tmp_path / "medium", "-machine", "no-such-machine"),
    ):
        pass


def test_a_directory_with_a_long_name_is_refused_with_what_to_do(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with pytest.raises(NoMonitor, match="too long for a socket: use a shorter directory, as TMPDIR="):
        idle(deep, tmp_path / "medium")


def idle(tmp_path: Path, medium: Path, *more: str) -> QemuProcess:
    """A QEMU whose CPU never starts."""
    command = [
        need(qemu.PROGRAM), *qemu.BARE, "-S", "-m", "16", "-accel", "tcg",
        "-chardev", f"socket,id=monitor,path={tmp_path}/monitor", "-mon", "chardev=monitor,mode=control",
        "-device", "ide-cd,id=cd", *more,
    ]  # fmt: skip
    return QemuProcess(command, directory=tmp_path, console=tmp_path / "console", group=0, medium=medium)
