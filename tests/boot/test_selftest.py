"""azure-vm-utils' own self-test, unmodified, on a booted machine that has the package azure-init-disks instead.

The machine's NVMe disks have Azure's ids (support.azure_nvme) and the sizes of a VM size that the self-test knows. Its
network checks find nothing to check, since no interface here is one of Hyper-V's. Debian's version of the self-test
does not look at the mount point yet; what later versions expect there is stated here a second time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.azure_nvme import ACCELERATOR, DIRECT_V1, DIRECT_V2, Controller, Namespace
from support.bounds import ALL
from support.disk_guest import MIB, VM_ID, DiskGuest, booted, sparse
from support.need import need, need_root
from support.package_disks import build_debs
from support.selftest import selftest

pytestmark = pytest.mark.newer

GIB = 1 << 30
CHASSIS = "7783-7084-3265-9085-8269-3286-77"
SELFTEST, METADATA = "srv/selftest.py", "srv/metadata.json"
OPTIONS = "defaults,nofail,comment=azure-ephemeral-disk-setup"
THEIRS, OURS = "azure-ephemeral-disk-setup.service", "azure-init-disk.service"
CONFIG = f'[platform]\nvm_id = "{VM_ID}"\n[telemetry]\nconsole = false\n'
# As udev names the resource disk of a VM of generation 2.
BY_PATH = "disk/by-path/acpi-VMBUS:00-vmbus-f8b3781a1e824818a1c363d806ec15bb-lun-1"
RULE = f'SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", ATTRS{{model}}=="AZRESOURCE*", SYMLINK+="{BY_PATH}"\n'
# Answers every request as IMDS answers the one of the self-test; the address is the loopback interface's.
IMDS = """\
import fcntl, http.server, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
    address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton("169.254.169.254"))
    fcntl.ioctl(wire, 0x8916, address)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = open("/srv/metadata.json", "rb").read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("169.254.169.254", 80), Answer).serve_forever()
"""
IMDS_UNIT = "[Service]\nExecStart=/usr/bin/python3 -I /srv/imds.py\n"


@dataclass(frozen=True, kw_only=True)
class Size:
    """Of a VM: the temporary disks that it has, in GiB."""

    name: str
    local: int = 0
    each: int = 0
    model: str = DIRECT_V2
    resource: int = 0


SIZES = (
    Size(name="Standard_D2ads_v6", local=1, each=110),
    Size(name="Standard_D2s_v6"),
    Size(name="Standard_D16ads_v6", local=2, each=440),
    Size(name="Standard_D32ads_v6", local=4, each=440),
    Size(name="Standard_L8s_v3", local=1, each=1788, model=DIRECT_V1, resource=80),
    Size(name="Standard_D2ds_v5", resource=75),
)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_root()
    need("dpkg-deb")
    return build_debs(tmp_path_factory.mktemp("packages"))


@contextmanager
def machine(size: Size, packages: Path, place: Path) -> Iterator[DiskGuest]:
    disks: list[Controller] = []
    if "v6" in size.name:  # their managed disks are NVMe disks too
        remote = sparse(place / "os", 64 * MIB), sparse(place / "data", GIB)
        spaces = [Namespace(image=image) for image in remote]
        disks.append(Controller(model=ACCELERATOR, serial="SN: 00001", namespaces=spaces))
    for number in range(1, size.local + 1):
        image = sparse(place / f"local{number}", size.each * GIB + number * MIB)
        says = f"type=local,index={number},name=nvme-{size.each}G-{number}" if size.model == DIRECT_V2 else ""
        spaces = [Namespace(image=image, vendor_specific=says)]
        disks.append(Controller(model=size.model, serial=f"local-{number}", namespaces=spaces))
    data = [{"lun": "0", "diskSizeGB": "1"}] if "v6" in size.name else []
    about = {"compute": {"vmSize": size.name, "storageProfile": {"dataDisks": data}}}
    files = {
        "etc/azure-init/azure-init.toml.d/test.toml": CONFIG,
        f"var/lib/azure-init/{VM_ID}.provisioned": "",
        "etc/udev/rules.d/51-test-resource.rules": RULE,
        METADATA: json.dumps(about),
        SELFTEST: selftest().read_text(),
        "srv/imds.py": IMDS,
        "usr/lib/systemd/system/imds.service": IMDS_UNIT,
    }
    options = ("-smbios", f"type=3,asset={CHASSIS}", "-smbios", f"type=1,uuid={VM_ID}")
    resource = size.resource * GIB
    with booted(
        place, files=files, packages=packages, controllers=disks, options=options, resource=resource
    ) as running:
        if "v6" not in size.name:  # on a SCSI disk, which only a VMBus tells
            running.do("mkdir -p /dev/disk/azure; ln -s $(findmnt -no SOURCE /) /dev/disk/azure/os")
        yield running


def run_selftest(guest: DiskGuest) -> tuple[int, str]:
    ran = guest.sh("systemctl start imds.service; exec python3 /srv/selftest.py --debug", seconds=180)
    return ran.status, ran.out


def is_mounted(guest: DiskGuest) -> None:
    """As later versions of the self-test look at it."""
    found = json.loads(guest.do("findmnt --json --fstab /mnt"))["filesystems"][0]
    assert (found["source"], found["options"]) == ("LABEL=AzureEphmDsk", OPTIONS)
    kernel = json.loads(guest.do("findmnt --json --kernel /mnt"))["filesystems"][0]
    assert "rw" in kernel["options"].split(",")


@pytest.mark.parametrize("size", SIZES if ALL else SIZES[:1], ids=lambda size: size.name)
def test_the_self_test_of_azure_vm_utils_succeeds(size: Size, packages: Path, tmp_path: Path) -> None:
    with machine(size, packages, tmp_path) as guest:
        guest.do(f"systemctl start {THEIRS}", seconds=180)
        assert guest.do(f"systemctl show --value -p Id {THEIRS}") == OURS
        status, said = run_selftest(guest)
        assert status == 0, said
        assert said.splitlines()[-1].endswith("success!")
        assert f"'vmSize': '{size.name}'" in said and "validate_sku_config OK" in said
        assert guest.do(f"systemctl is-active {THEIRS}") == "active"
        assert guest.sh(f"systemctl is-failed {THEIRS}").out.strip() == "active"
        if size.local:
            is_mounted(guest)
        else:
            assert guest.sh("findmnt --kernel /mnt").status == 1
            assert guest.sh("findmnt --fstab /mnt").status == 1
        # The control: without one link it fails, and says which.
        guest.do("rm /dev/disk/azure/os")
        status, said = run_selftest(guest)
        assert status == 1
        assert "missing /dev/disk/azure/os" in said.splitlines()[-1]
