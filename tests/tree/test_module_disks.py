"""The disk modules in a file tree: rows of fstab, directories, the mark of growpart; never a device."""

from __future__ import annotations

from pathlib import Path

from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.plan.actions import Caution, Satisfied
from azureinit.run.disk_modules import DISK_MODULES
from azureinit.run.maintenance import MAINTENANCE, Situation
from support.module_runs import VM_ID, apply_module, request_of

ROWS = {row.name: row for row in DISK_MODULES}
OTHERS = "# of the image\n\nUUID=1 / ext4 defaults 0 1"
TEXT = """\
disk_setup: {/dev/null-disk: {layout: true, overwrite: true}, ephemeral0: {layout: true}}
fs_setup: [{device: /dev/null-disk, filesystem: ext4}]
mounts:
- [tmpfs, /srv/deep/cache, tmpfs, "size=1m"]
- ["server:/export", /srv/share, nfs]
swap: {filename: /swap.img, size: 64M}
"""


def test_rows_are_written_once(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    fstab = tmp_path / "etc/fstab"
    fstab.write_text(OTHERS)
    apply_module(ROWS["mounts"], tmp_path, TEXT)
    rows = fstab.read_text()
    assert rows == (
        f"{OTHERS}\n"
        "tmpfs\t/srv/deep/cache\ttmpfs\tsize=1m,comment=cloudconfig\t0\t2\n"
        "server:/export\t/srv/share\tnfs\t"
        "defaults,nofail,x-systemd.after=azure-init-userdata-network.service,_netdev,comment=cloudconfig\t0\t2\n"
    )
    assert (tmp_path / "srv/deep/cache").is_dir() and (tmp_path / "srv/share").is_dir()
    assert not (tmp_path / "swap.img").exists()
    again = apply_module(ROWS["mounts"], tmp_path, TEXT)
    assert all(isinstance(item, (Satisfied, Caution)) for item in again), again
    assert fstab.read_text() == rows


def test_without_a_table_one_is_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    apply_module(ROWS["mounts"], tmp_path, "mounts: [[tmpfs, /x, tmpfs, ro]]\n")
    assert (tmp_path / "etc/fstab").read_text() == "tmpfs\t/x\ttmpfs\tro,comment=cloudconfig\t0\t2\n"


def test_devices_are_not_touched(tmp_path: Path) -> None:
    for name in ("disk_setup", "temporary_disks"):
        plan = apply_module(ROWS[name], tmp_path, TEXT)
        assert plan and all(isinstance(item, Caution) for item in plan)
    assert list(tmp_path.iterdir()) == []


def test_growpart_leaves_its_mark_for_every_boot(tmp_path: Path) -> None:
    data = tmp_path / "var/lib/azure-init"
    data.mkdir(parents=True)
    mark = data / f"{VM_ID}.d/no-grow-root"
    apply_module(ROWS["growpart"], tmp_path, "growpart: {mode: 'off'}\n")
    assert mark.read_text() == "growpart.mode is off\n" and mark.stat().st_mode & 0o777 == 0o600
    machine = Machine(root=str(tmp_path))
    instance = Instance(data_dir="/var/lib/azure-init", vm_id=VM_ID)
    request = request_of("hostname: x")
    row = next(job for job in MAINTENANCE if job.name == "root file system")
    assert row.facts(Situation(machine=machine, config=request.settings, instance=instance)) is None
    apply_module(ROWS["growpart"], tmp_path, "growpart: {mode: auto}\n")
    assert not mark.exists()
