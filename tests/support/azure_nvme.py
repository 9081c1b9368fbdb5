"""NVMe disks with Azure's ids on a real kernel: QEMU's own, with the ids edited before the guest starts.

QEMU has no option for the vendor, the model or the vendor-specific data of an NVMe disk. It keeps them in its memory:
started with `-S`, it waits, and root may write there through /proc/PID/mem. `qemu_options` gives the disks, `edit_ids`
edits the waiting process, `resume` lets it run.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

ACCELERATOR = "MSFT NVMe Accelerator v1.0"
DIRECT_V1, DIRECT_V2 = "Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2"
MICROSOFT, DEVICE = 0x1414, 0x00A9
QEMU_MODEL = b"QEMU NVMe Ctrl".ljust(40)
QEMU_PCI = re.compile(rb"\x36\x1b\x10\x00.{5}\x02\x08\x01", re.DOTALL)  # vendor, device, ..., class: NVMe
VENDOR_SPECIFIC = 384
BLOCK = 512
SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """`image`: a raw file whose size no other namespace of the machine has. `nsid`: counted from 1 if it is 0."""

    image: Path
    vendor_specific: str = ""
    nsid: int = 0


@dataclass(frozen=True, kw_only=True)
class Controller:
    model: str
    serial: str
    namespaces: Sequence[Namespace]


def qemu_options(controllers: Sequence[Controller], *, monitor: Path) -> Iterator[str]:
    """QEMU waits for `resume`."""
    yield from ("-S", "-qmp", f"unix:{monitor},server=on,wait=off")
    for number, controller in enumerate(controllers):
        yield from ("-device", f"nvme,id=nvme{number},serial={controller.serial}")
        for place, namespace in enumerate(controller.namespaces, 1):
            name = f"nvme{number}-{place}"
            nsid = namespace.nsid or place
            yield from ("-drive", f"file={namespace.image},if=none,id={name},format=raw")
            yield from ("-device", f"nvme-ns,drive={name},bus=nvme{number},nsid={nsid}")


def edit_ids(pid: int, controllers: Sequence[Controller]) -> None:
    """Of a QEMU that waits. Fails if it does not find exactly one place for each id."""
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        heap, begin = read_heap(pid)

        def write(offset: int, data: bytes) -> None:
            memory.seek(begin + offset)
            memory.write(data)

        found = [match.start() for match in QEMU_PCI.finditer(heap)]
        assert len(found) == len(controllers), f"{len(found)} NVMe devices in QEMU's memory"
        for offset in found:
            write(offset, struct.pack("<HH", MICROSOFT, DEVICE))
        for controller in controllers:
            serial = controller.serial.encode().ljust(20)
            offset = only(heap, serial + QEMU_MODEL)
            write(offset - 4, struct.pack("<HH", MICROSOFT, MICROSOFT))
            write(offset + len(serial), controller.model.encode().ljust(len(QEMU_MODEL)))
            for namespace in controller.namespaces:
                blocks = namespace.image.stat().st_size // BLOCK
                offset = only(heap, struct.pack("<QQQ", blocks, blocks, blocks))
                write(offset + VENDOR_SPECIFIC, namespace.vendor_specific.encode() + b"\0")


def read_heap(pid: int) -> tuple[bytes, int]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith("[heap]"):
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(begin)
                return memory.read(end - begin), begin
    raise AssertionError("QEMU has no heap")


def only(heap: bytes, pattern: bytes) -> int:
    assert heap.count(pattern) == 1, f"{heap.count(pattern)} places in QEMU's memory for {pattern!r}"
    return heap.index(pattern)


def start_with_ids(
    command: Sequence[str], controllers: Sequence[Controller], *, monitor: Path
) -> subprocess.Popen[bytes]:
    """`command`: QEMU, with `qemu_options` among its options. The guest runs when this returns."""
    log = monitor.with_name("qemu.log")
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        with socket.socket(socket.AF_UNIX) as wire:
            connect(wire, monitor, process)
            with wire.makefile("rw") as lines:
                lines.readline()  # the greeting: the devices exist
                ask(lines, "qmp_capabilities")
                edit_ids(process.pid, controllers)
                ask(lines, "cont")
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def connect(wire: socket.socket, monitor: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + SECONDS
    while True:
        try:
            return wire.connect(str(monitor))
        except OSError:
            assert process.poll() is None, monitor.with_name("qemu.log").read_text(errors="replace")
            assert time.monotonic() < until, "QEMU does not answer"
            time.sleep(0.05)


def ask(lines: TextIO, command: str) -> None:
    lines.write(json.dumps({"execute": command}) + "\n")
    lines.flush()
    while True:
        answer = json.loads(lines.readline())
        assert "error" not in answer, answer
        if "return" in answer:  # and not an event
            return
