"""Instance data of this machine, and its files in /run.

/run/azure-init/instance-data.json             0644, without what is sensitive
/run/azure-init/instance-data-sensitive.json   0600, with it
"""

from __future__ import annotations

import sys

from azureinit.errors import LocalError
from azureinit.facts.distros import read_release
from azureinit.jsontext import dumps, loads
from azureinit.userdata.instance_data import System, instance_data, redacted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.record import Secret
    from azureinit.sources.metadata import Metadata

PLACE = "/run/azure-init"
PUBLIC, SENSITIVE = "instance-data.json", "instance-data-sensitive.json"
MOST_BYTES = 64 << 20


def system_of(machine: Machine) -> System:
    from azureinit.machine.kernel import architecture

    return System(
        release=read_release(machine),
        kernel=machine.kernel_release(),
        architecture=architecture(),
        python=".".join(map(str, sys.version_info[:3])),
        hostname=machine.hostname(),
    )


def make_instance_data(
    machine: Machine,
    metadata: Metadata,
    *,
    vm_id: str,
    imds: Mapping[str, Any] | None = None,
    image_config: Mapping[str, Any] | None = None,
    userdata: Secret | None = None,
) -> dict[str, Any]:
    """`imds`: the whole document, where it is known. `image_config`: as plain values."""
    return instance_data(
        metadata, system_of(machine), vm_id=vm_id, imds=imds, image_config=image_config, userdata=userdata
    )


def write_instance_data(machine: Machine, data: Mapping[str, Any], *, place: str = PLACE) -> None:
    """The directory is opened for others: they may read the public file by its name, and nothing else in there."""
    machine.make_dirs(place, mode=0o711)
    machine.make_dir(place, mode=0o711)
    machine.write(f"{place}/{SENSITIVE}", _encoded(data), mode=0o600, sync=False)
    machine.write(f"{place}/{PUBLIC}", _encoded(redacted(data)), mode=0o644, sync=False)


def read_instance_data(machine: Machine, *, place: str = PLACE) -> dict[str, Any] | None:
    """All of it for root, what everybody may read for others; None where there is none."""
    names = (SENSITIVE, PUBLIC) if machine.privileged else (PUBLIC,)
    for name in names:
        data = machine.read(f"{place}/{name}", limit=MOST_BYTES)
        if data is None:
            continue
        try:
            values = loads(data.decode())
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise LocalError(f"{machine.shown(f'{place}/{name}')} is damaged: it is not a JSON object")
        return values
    return None


def _encoded(data: Mapping[str, Any]) -> bytes:
    return dumps(data).encode() + b"\n"
