"""A Debian with systemd and udev under QEMU, in which temporary disks look like Azure's.

One boot under emulation takes about half a minute, so a whole table of scenarios shares it. Disks with Azure's model
and serial come from the kernel's NVMe target, connected to itself (`nvme-loop`): facts find them by the same files as
on Azure. Their content is a sparse file in the guest's memory, or a disk of QEMU's, which survives a reset.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import disks
from support.azure_nvme import Controller, qemu_options, start_with_ids
from support.container import CACHE, GENERALISE, lay_agent
from support.disk_rows import Row
from support.need import need, need_root
from support.qemu import BOOT_SECONDS, CALL_SECONDS, Guest, Line

MIB = 1 << 20
INSIDE = Path(__file__).with_name("disk_inside.py")
SCENARIO_SECONDS = 300.0
VM_ID = "c0ffee00-1111-2222-3333-444444444444"
CONFIG = f"""\
[platform]
require_azure = false
vm_id = "{VM_ID}"
[telemetry]
console = false
[disk]
grow_root = false
setup = "auto"
"""
V1, V2 = "Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2"
RESOURCE, DATA = "AZRESOURCE", "AZDATA"  # products of QEMU's SCSI disks; test rules make Azure's links of them
PACKAGES = (
    "systemd,systemd-sysv,dbus,udev,python3,passwd,kmod,initramfs-tools,lz4,linux-image-amd64,systemd-boot-efi,"
    "e2fsprogs,xfsprogs,btrfs-progs,ntfs-3g,mdadm,lvm2,fdisk,parted,strace,psmisc"
)
# Links as Azure's rules make them from VMBus ids, which QEMU does not have.
RULES = f"""\
KERNEL=="loop*", ENV{{UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG}}="1"
KERNEL=="nvme*n1", ATTRS{{model}}=="QEMU NVMe Ctrl*", ENV{{UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG}}="1"
KERNEL=="nvme*n1", ATTRS{{model}}=="QEMU NVMe Ctrl*", SYMLINK+="%s{{serial}}"
TEST=="/run/no-resource", GOTO="end"
SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", ATTRS{{model}}=="{RESOURCE}*", SYMLINK+="disk/azure/resource"
SUBSYSTEM=="block", ENV{{DEVTYPE}}=="partition", ATTRS{{model}}=="{RESOURCE}*", SYMLINK+="disk/azure/resource-part%n"
LABEL="end"
"""
# The same content is visible on the device behind a disk: nothing may look there.
LVM = 'devices {\n  global_filter = ["r|^/dev/loop|", "r|^/dev/PLAIN|"]\n}\n'
UNIT = """\
[Unit]
Description=Answer the host of the tests
After=local-fs.target systemd-udev-trigger.service
DefaultDependencies=no
[Service]
ExecStart=/usr/bin/python3 -I /usr/lib/guest.py
StandardInput=null
KillMode=process
Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
"""
SETTINGS = f"""{GENERALISE}
echo 'LABEL=root / ext4 defaults 0 1' > "$1/etc/fstab"
chroot "$1" systemctl --quiet mask e2scrub_all.timer e2scrub_reap.service ldconfig.service \\
    systemd-journal-catalog-update.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount \\
    dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount \\
    sys-fs-fuse-connections.mount modprobe@drm.service modprobe@efi_pstore.service modprobe@fuse.service \\
    getty@tty1.service serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \\
    fstrim.timer mdcheck_start.timer mdcheck_continue.timer mdmonitor-oneshot.timer systemd-hwdb-update.service \\
    systemd-random-seed.service systemd-update-done.service systemd-sysusers.service mdmonitor.service \\
    systemd-timesyncd.service systemd-networkd.service systemd-logind.service systemd-machine-id-commit.service
printf 'blacklist %s\\n' kvm_amd kvm aesni_intel ghash_clmulni_intel sha512_ssse3 sha256_ssse3 sha1_ssse3 \\
    vmw_vsock_vmci_transport vsock_loopback efi_pstore qemu_fw_cfg serio_raw sg drm floppy parport_pc ppdev \\
    i2c_piix4 pcspkr psmouse joydev button >"$1/etc/modprobe.d/no-matter.conf"
mkdir -p "$1/etc/systemd/system/multi-user.target.wants"
ln -s /usr/lib/systemd/system/guest.service "$1/etc/systemd/system/multi-user.target.wants/guest.service"
rm -f "$1"/etc/mdadm/mdadm.conf
mkdir -p "$1/etc/systemd/system-generators"
for path in "$1"/usr/lib/systemd/system-generators/*; do  # each runs at every reload
    case $path in *fstab-generator) ;; *) ln -s /dev/null "$1/etc/systemd/system-generators/${{path##*/}}" ;; esac
done
"""
# On a busy host an emulated timer looks broken to the kernel. Without multipath, a disk belongs to its controller, as
# on Azure.
KERNEL_OPTIONS = (
    "root=LABEL=root rw console=ttyS0 quiet no_timer_check net.ifnames=0 nvme_core.multipath=N"
    " systemd.show_status=no random.trust_cpu=on mitigations=off audit=0"
)
# Receives functions as source over the serial line, one per line, runs them, and sends back their results.
AGENT = """\
import json, os, sys, traceback, tty
sys.path.insert(0, "/usr/lib/azure-init")
wire = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
tty.setraw(wire)
# Not by systemd-udev-settle.service: no unit of the boot would start before udev's queue is empty.
os.system("udevadm settle")
def send(**answer):
    data = json.dumps(answer).encode() + b"\\n"
    while data:
        data = data[os.write(wire, data):]
send(returned=os.uname().release)
waiting = b""
while True:
    waiting += os.read(wire, 65536)
    while b"\\n" in waiting:
        line, _, waiting = waiting.partition(b"\\n")
        asked = json.loads(line)
        try:
            names = {"send": send}
            exec(asked["source"], names)
            send(returned=names[asked["name"]](**asked["values"]))
        except BaseException:
            send(raised=traceback.format_exc())
"""


# The disk's root is mounted where only this process sees it.
INSTALL = f"""
mkdir "$2/mounted"
mount -o loop,offset={disks.ROOT_START} "$1" "$2/mounted"
mount -t proc proc "$2/mounted/proc"
mount --bind "$3" "$2/mounted/mnt"
chroot "$2/mounted" sh -ec 'export PATH=/usr/sbin:/usr/bin; cd /mnt
    dpkg --force-unsafe-io -i azure-init_*.deb azure-init-disks_*.deb'
umount "$2/mounted/mnt" "$2/mounted/proc" "$2/mounted"
"""


@dataclass(frozen=True, kw_only=True)
class Ran:
    status: int
    out: str


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a scenario left. `told`: the last run's output; `changed`: serials of the disks whose content differs."""

    statuses: tuple[int, ...]
    status: int
    told: str
    after: Ran
    changed: tuple[str, ...]
    mounted: tuple[tuple[str, str], ...]
    swaps: tuple[str, ...]
    fstab: str
    spent: Mapping[str, float]


class DiskGuest(Guest):
    """`plain`: QEMU's NVMe disks, in their order."""

    plain: Sequence[Path] = ()

    def sh(self, script: str, *, seconds: float = CALL_SECONDS, **environment: str) -> Ran:
        """Standard output and standard error together; the status is -9 for a script that was killed."""
        answer = self.call(inside_shell, seconds=seconds, script=script, environment=environment)
        return Ran(status=answer[0], out=answer[1])

    def do(self, script: str, *, seconds: float = CALL_SECONDS) -> str:
        ran = self.sh("set -e\n" + script, seconds=seconds)
        assert ran.status == 0, f"{script}\nended with {ran.status}: {ran.out}"
        return ran.out.strip()

    def connect(self, name: str, *, size: int = 0, path: str = "", model: str = V2, sector: int = 512) -> str:
        """A temporary disk with that serial; of `size` bytes of zeros in memory, or the content of `path`. Its name."""
        found = self.call(inside_connect, name=name, size=size, path=path, model=model, sector=sector)
        assert isinstance(found, str)
        return found

    def disconnect(self, *names: str) -> None:
        """All, if none is named. What is in a file in memory remains until the disk is connected anew with a size."""
        self.call(inside_disconnect, names=list(names))

    def scenario(self, row: Row) -> Seen:
        answer = self.call(
            inside_scenario,
            seconds=SCENARIO_SECONDS,
            nvme=row.nvme,
            size=row.size,
            sector=row.sector,
            resource_disk=row.resource,
            config=CONFIG + row.disk,
            conf=row.conf,
            before=row.before,
            runs=list(row.runs),
            after=row.after,
            hide=list(row.hide),
        )
        status, told = answer["runs"][-1]
        return Seen(
            statuses=tuple(status for status, _ in answer["runs"]),
            status=status,
            told=told,
            after=Ran(status=answer["after"][0], out=answer["after"][1]),
            changed=tuple(answer["changed"]),
            mounted=tuple(sorted((point, kind) for _, point, kind, _ in answer["mounts"])),
            swaps=tuple(answer["swaps"]),
            fstab=answer["fstab"],
            spent=answer["spent"],
        )

    def tidy(self) -> None:
        """Nothing is set up any more, and no temporary disk is connected."""
        self.call(inside_tidy)

    def cut_power(self, script: str) -> None:
        """Runs a script that ends in a restart without any sync, and waits until the machine has booted again."""
        self.begin(inside_shell, script=script, environment={})
        answer = self.finish(seconds=BOOT_SECONDS)
        assert isinstance(answer, str), f"the machine did not restart: {answer}"  # the kernel's release, at the start

    def reboot(self) -> None:
        """As an operator does it: systemd stops the units, unmounts and restarts. Waits until udev's queue is empty."""
        self.begin(inside_shell, script="systemctl reboot; exec sleep infinity", environment={})
        while not isinstance(self.finish(seconds=BOOT_SECONDS), str):  # the kernel's release
            pass  # the script was killed before this side of the line


def inside_shell(script: str, environment: dict[str, str]) -> Any:
    from support import disk_inside

    return disk_inside.shell(script, environment)


def inside_connect(name: str, size: int, path: str, model: str, sector: int) -> Any:
    from support import disk_inside

    return disk_inside.connect(name, size=size, path=path, model=model, sector=sector)


def inside_disconnect(names: list[str]) -> None:
    from support import disk_inside

    disk_inside.disconnect(*names)


def inside_tidy() -> None:
    from support import disk_inside

    disk_inside.clean()
    disk_inside.disconnect()


def inside_scenario(**given: Any) -> Any:
    from support import disk_inside

    return disk_inside.scenario(**given)


def debian() -> disks.Disk:
    """The system's disk, without the agent; made once."""
    need_root()
    for tool in ("mmdebstrap", "mke2fs", "sfdisk", "mkfs.vfat", "mcopy", "syslinux"):
        need(tool)
    recipe = (disks.SUITE, PACKAGES, SETTINGS, disks.SMALL_INITRD, disks.LOADER, disks.SYSLINUX, disks.PARTITIONS)
    directory = CACHE / f"disk-guest-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "disk-guest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            with tempfile.TemporaryDirectory(dir=CACHE, prefix="unfinished-") as work:
                disks.build(Path(work), packages=PACKAGES, settings=SETTINGS)
                (Path(work) / "disk").rename(directory)
    return disks.Disk(image=directory / "disk.img", kernel=directory / "vmlinuz", initrd=directory / "initrd")


@contextmanager
def booted(
    directory: Path,
    *,
    files: Mapping[str, str] | None = None,
    plain: Sequence[int] = (),
    resource: int = 0,
    data: int = 0,
    packages: Path | None = None,
    controllers: Sequence[Controller] = (),
    options: Sequence[str] = (),
) -> Iterator[DiskGuest]:
    """A running machine with the agent in it. `plain`: sizes of QEMU's NVMe disks; `resource`, `data`: of SCSI's.

    `packages`: a directory with debs, which are installed in place of the bare agent. `controllers`: NVMe disks with
    Azure's ids. `options`: of QEMU.
    """
    need_root()
    qemu = need("qemu-system-x86_64")
    need("debugfs")
    disk, tree = debian(), directory / "tree"
    if packages is None:
        lay_agent(tree / "usr/lib/azure-init", disks.SUITE)
    laid = {
        "usr/lib/guest.py": AGENT,
        "usr/lib/azure-init/support/disk_inside.py": INSIDE.read_text(),
        "usr/lib/systemd/system/guest.service": UNIT,
        "etc/udev/rules.d/50-test-azure.rules": RULES,
        "etc/lvm/lvm.conf": LVM,
        **(files or {}),
    }
    for name, text in laid.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if packages is None:
        command_path = tree / "usr/bin/azure-init"
        command_path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(__file__).parents[2] / "packaging/azure-init", command_path)
    with disks.with_tree(disk, tree, directory) as image:
        if packages is not None:
            disks.run("unshare", "--mount", "sh", "-ec", INSTALL, "sh", str(image), str(directory), str(packages))
        command = [
            need("setpriv"), "--pdeathsig", "KILL",  # QEMU is killed when this process ends
            qemu, "-nodefaults", "-no-user-config", "-display", "none",
            "-machine", "pc", "-accel", "tcg,tb-size=512", "-cpu", "max", "-m", "2560",
            "-kernel", str(disk.kernel), "-initrd", str(disk.initrd), "-append", KERNEL_OPTIONS,
            "-serial", f"file:{directory}/console", "-serial", "chardev:wire",
            "-chardev", f"socket,id=wire,path={directory}/wire",
            "-chardev", f"socket,id=monitor,path={directory}/monitor", "-mon", "chardev=monitor,mode=control",
            "-device", "virtio-scsi-pci,id=bus",
            "-drive", f"file={image},if=none,id=root,format=raw,cache=unsafe",
            "-device", "scsi-hd,drive=root,bus=bus.0",
        ]  # fmt: skip
        paths = []
        for number, size in enumerate(plain):
            paths.append(sparse(directory / f"nvme{number}.img", size))
            command += drive(f"nvme{number}", paths[-1])
            command += ["-device", f"nvme,id=plain{number},serial=PLAIN{number},drive=nvme{number}"]
        for product, size in ((RESOURCE, resource), (DATA, data)):
            if size:
                command += drive(product, sparse(directory / f"{product}.img", size))
                command += [
                    "-device",
                    f"scsi-hd,id=disk{product},bus=bus.0,drive={product},vendor=Msft,product={product}",
                ]
        command += options
        monitor, wire = Line(directory / "monitor"), Line(directory / "wire")
        if controllers:
            ids = directory / "ids"
            process = start_with_ids([*command, *qemu_options(controllers, monitor=ids)], controllers, monitor=ids)
        else:
            with (directory / "qemu.log").open("wb") as log:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        guest = DiskGuest(directory, process, monitor=monitor, wire=wire)
        guest.plain = paths
        try:
            for line in (wire, monitor):
                line.connect(seconds=CALL_SECONDS)
            guest.receive(monitor, seconds=CALL_SECONDS)
            guest.ask_monitor("qmp_capabilities")
            guest.finish(seconds=BOOT_SECONDS)
            yield guest
        finally:
            guest.stop()


def drive(name: str, image: Path) -> list[str]:
    return ["-drive", f"file={image},if=none,id={name},format=raw,cache=writeback,discard=unmap"]


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path
