"""The disk modules of a cloud-config on a real kernel: data disk, temporary disk, swap, a second run, a reboot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.disk_guest import CONFIG, DATA, MIB, RESOURCE, DiskGuest, booted

pytestmark = pytest.mark.newer

SIZE = 256 * MIB
RUNNER = Path(__file__).parents[1] / "support/disk_documents.py"
RUN = "PYTHONPATH=/usr/lib/azure-init:/usr/lib/python3/dist-packages python3 /srv/disk_documents.py /srv/document"
DOCUMENT = """\
#cloud-config
device_aliases: {{data0: {data}}}
disk_setup:
  data0: {{table_type: gpt, layout: [60, [40, 82]]}}
  ephemeral0: {{table_type: gpt, layout: [100], overwrite: true}}
fs_setup:
- {{device: data0.1, filesystem: ext4, label: data, extra_opts: [-m, "0"]}}
- {{device: data0.2, filesystem: swap, label: swap0}}
- {{device: ephemeral0.1, filesystem: ext4}}
mounts:
- [LABEL=data, /data, ext4]
- [LABEL=swap0, none, swap, "sw,nofail", "0", "0"]
- [tmpfs, /data/inner, tmpfs, "size=1m,nofail"]
- [ephemeral0.1, /scratch]
- [/dev/sdz9, /never]
swap: {{filename: /extra.swap, size: 8M}}
growpart: {{mode: "off"}}
"""
OTHER = """\
#cloud-config
disk_setup:
  {data}: {{table_type: mbr, layout: [30, 30, 40], overwrite: true}}
  {root}: {{table_type: gpt, layout: [100], overwrite: true}}
fs_setup:
- {{device: {root}, partition: none, filesystem: ext4, overwrite: true}}
- {{device: "{data}.1", filesystem: ext3, label: new, overwrite: true}}
"""
FIND = "for d in /sys/block/sd*; do grep -q {} $d/device/model && echo /dev/${{d##*/}}; done; true"
RESTART = "sync; echo 1 >/proc/sys/kernel/sysrq; echo b >/proc/sysrq-trigger"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskGuest]:
    place = "usr/lib/python3/dist-packages/yaml"
    files = {f"{place}/{one.name}": one.read_text() for one in Path(yaml.__file__).parent.glob("*.py")}
    files |= {"srv/disk_documents.py": RUNNER.read_text(), "etc/azure-init/azure-init.toml": CONFIG}
    with booted(tmp_path_factory.mktemp("guest"), files=files, resource=SIZE, data=SIZE) as running:
        yield running


def run(guest: DiskGuest, text: str) -> str:
    guest.do(f"cat >/srv/document <<'END'\n{text}END")
    return guest.do(RUN, seconds=240)


def test_a_document_with_disks(guest: DiskGuest) -> None:
    data, resource = (guest.do(FIND.format(model)) for model in (DATA, RESOURCE))
    assert data and resource
    text = DOCUMENT.format(data=data)
    first = run(guest, text)
    assert "failed" not in first, first
    seen = guest.do(
        f"findmnt -no SOURCE,FSTYPE /data; findmnt -no FSTYPE /scratch; swapon --show=NAME --noheadings;"
        f"lsblk -nro NAME,SIZE,FSTYPE,LABEL {data}; cat /etc/fstab; test -d /never;"
        "cat /var/lib/azure-init/*.d/no-grow-root; sfdisk --dump " + data
    )
    assert f"{data}1 ext4" in seen and f"{data}2" in seen and "/extra.swap" in seen, seen
    assert "/extra.swap\tnone\tswap\tsw\t0\t0" in seen
    assert "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F" in seen
    assert "growpart.mode is off" in seen
    guest.do("echo precious >/data/file; echo scratch >/scratch/file")

    again = run(guest, text)
    assert again.endswith("steps: 0"), again

    guest.cut_power(RESTART)
    guest.do("for n in $(seq 60); do findmnt /data >/dev/null && findmnt /scratch >/dev/null && break; sleep 1; done")
    data = guest.do(FIND.format(DATA))
    after = run(guest, DOCUMENT.format(data=data))
    assert after.endswith("steps: 0") or "made " not in after, after
    assert guest.do("cat /data/file /scratch/file").split() == ["precious", "scratch"]

    root = guest.do("findmnt -no SOURCE /").rstrip("0123456789")
    refused = run(guest, OTHER.format(root=root, data=data))
    assert "in use: it is mounted at" in refused and "partitioned" not in refused, refused
    assert guest.do("cat /data/file") == "precious"

    guest.do("swapoff /extra.swap; swapoff LABEL=swap0; umount /data/inner; umount /data")
    destroyed = run(guest, OTHER.format(root=root, data=data))
    assert "operating system's disk" in destroyed
    assert guest.do(f"lsblk -nro NAME,FSTYPE,LABEL {data}").split("\n")[1].endswith("1 ext3 new"), destroyed
    assert "label: dos" in guest.do(f"sfdisk --dump {data}")
