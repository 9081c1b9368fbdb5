"""Questions to block devices that only an ioctl answers."""

from __future__ import annotations

import fcntl
import os
from array import array
from sys import byteorder

from azureinit.machine.files import local_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

# ---- NVMe

NVME_ID, NVME_ADMIN_COMMAND = 0x4E40, 0xC0484E41
IDENTIFY, IDENTIFY_LENGTH = 0x06, 4096


def identify_namespace(machine: Machine, path: str) -> bytes:
    """The answer of Identify Namespace, 4096 bytes. `path` is a namespace or a partition on one; needs root."""
    answer = array("B", bytes(IDENTIFY_LENGTH))
    try:
        device = os.open(machine.real(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            nsid = fcntl.ioctl(device, NVME_ID)
            fcntl.ioctl(device, NVME_ADMIN_COMMAND, _identify_command(nsid, answer.buffer_info()[0]))
        finally:
            os.close(device)
    except OSError as error:
        raise local_error(error, "identify", machine.shown(path)) from error
    return answer.tobytes()


def _identify_command(nsid: int, address: int) -> bytes:
    """The kernel's `struct nvme_passthru_cmd`, 72 bytes; fields that are not set are zero."""
    command = bytearray(72)
    command[0] = IDENTIFY
    command[4:8] = nsid.to_bytes(4, byteorder)
    command[24:32] = address.to_bytes(8, byteorder)
    command[36:40] = IDENTIFY_LENGTH.to_bytes(4, byteorder)
    return bytes(command)
