"""The marker of a VM that waits in a pool, or that a customer has got from one: `machine.pool` in the data directory.

offered   the pool's Ready is about to be sent: the next boot asks IMDS whether the VM is still in the pool
waiting   the platform has accepted the pool's Ready: no boot reports that again, each waits for the customer's data
reused    the customer's data have arrived: no later boot of this disk enters the pool, also after a failure

It names the VM, in the pool and afterwards, by the firmware's id and by IMDS's. The marker of another VM was captured
with an image and does not count. Sealed and 0600, as other records.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.memory.instance import POOL_FILE, read_sealed
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

MOMENT = "/run/azure-init/reused"
OFFERED, WAITING, REUSED = "offered", "waiting", "reused"
TEXTS = ("type", "firmware_id", "imds_id", "mac", "boot", "new_firmware_id", "new_imds_id")


class Marker(Record):
    """`index`, `mac`: of the link to the platform. `boot`: the boot that wrote the marker. Unknown texts are ""."""

    state: str
    type: str
    firmware_id: str = ""  # configured, or read from the firmware
    imds_id: str = ""
    index: int = 0
    mac: str = ""
    boot: str = ""
    new_firmware_id: str = ""  # after the customer's data arrived
    new_imds_id: str = ""

    @property
    def ids(self) -> frozenset[str]:
        told = (self.firmware_id, self.imds_id, self.new_firmware_id, self.new_imds_id)
        return frozenset(one for one in told if one)

    def is_of(self, vm_id: str | None) -> bool:
        """Where this boot does not know its id, a marker that was written without one counts."""
        return vm_id in self.ids if vm_id is not None else not self.firmware_id


def path_of(data_dir: str) -> str:
    return f"{data_dir.rstrip('/')}/{POOL_FILE}"


def read_marker(machine: Machine, data_dir: str) -> Marker | None:
    """None where there is none, or a damaged one: the platform then says whether the VM is in a pool."""
    values = read_sealed(machine, path_of(data_dir))
    if values is None or values.get("state") not in (OFFERED, WAITING, REUSED):
        return None
    texts = {name: value for name in TEXTS if isinstance(value := values.get(name), str)}
    index = values.get("index")
    return Marker(
        state=str(values["state"]),
        **{"type": "Unknown", **texts},
        index=index if type(index) is int else 0,
    )


def write_marker(machine: Machine, data_dir: str, marker: Marker) -> None:
    """On the disk when this returns, with its directory."""
    from azureinit.machine.durable import make_durable
    from azureinit.memory.sealed import seal

    machine.write(path_of(data_dir), seal(marker.as_dict()), mode=0o600)
    make_durable(machine, data_dir)


def write_moment(machine: Machine, moment: float) -> None:
    """When the customer got the VM, on the monotonic clock: deadlines of this boot count from then on."""
    machine.make_dirs(MOMENT.rpartition("/")[0], mode=0o700)
    machine.write(MOMENT, f"{moment:.3f}".encode(), mode=0o600, sync=False)


def read_moment(machine: Machine) -> float:
    """0 where no customer got the VM in this boot."""
    try:
        return float(machine.read(MOMENT) or 0)
    except (AzureInitError, ValueError):
        return 0.0


def begun_moment(machine: Machine) -> float:
    """When this boot began, or when a customer got the VM from a pool."""
    from azureinit.machine.service import boot_moment

    return max(boot_moment(machine), read_moment(machine))


def remove_marker(machine: Machine, data_dir: str) -> None:
    machine.remove(path_of(data_dir))


def customers_id(machine: Machine, data_dir: str, vm_id: str) -> str:
    """The id under which the customer's VM is known, where the platform gave the VM another one when it left the pool.

    The firmware shows the pool's id until the next boot, or for ever.
    """
    marker = read_marker(machine, data_dir)
    if marker is None or marker.state != REUSED or not marker.is_of(vm_id):
        return vm_id
    return renamed_id(marker) or vm_id


def renamed_id(marker: Marker) -> str:
    """IMDS's id, if it changed with the customer; else ""."""
    before = marker.imds_id or marker.firmware_id
    return marker.new_imds_id if before and marker.new_imds_id not in ("", before) else ""
