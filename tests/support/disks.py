"""Disks with a Debian on them that boot by either firmware, one for each agent: made once, kept, never written to."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.container import CACHE, GENERALISE, PACKAGES
from support.need import need, need_root, unfit

SUITE = "trixie"
BASE = f"{PACKAGES},udev,kmod,initramfs-tools,lz4,e2fsprogs,eject,linux-image-cloud-amd64,systemd-boot-efi"
NEEDLESS = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
# An emulated kernel unpacks a large archive slowly.
SMALL_INITRD = """
mkdir -p "$1/etc/initramfs-tools/conf.d"
printf 'MODULES=list\\nCOMPRESS=lz4\\n' > "$1/etc/initramfs-tools/conf.d/small"
printf '%s\\n' virtio_pci virtio_scsi sd_mod ext4 > "$1/etc/initramfs-tools/modules"
"""
SETTINGS = f"""{GENERALISE}
echo 'LABEL=root / ext4 defaults 0 1' > "$1/etc/fstab"
"""
NETWORKD = """
chroot "$1" systemctl --quiet enable systemd-networkd.service
"""
# As in gallery images, the drive's driver is loaded first: the host name is on the disc and is needed before DHCP.
DRIVE = """
printf '%s\\n' ata_piix sr_mod >> "$1/etc/initramfs-tools/modules"
chroot "$1" update-initramfs -u
"""
# Units that no test needs, and that take long under emulation.
NO_MATTER = """
chroot "$1" systemctl --quiet mask e2scrub_reap.service ldconfig.service systemd-journal-catalog-update.service \\
    systemd-binfmt.service proc-sys-fs-binfmt_misc.automount dev-hugepages.mount dev-mqueue.mount \\
    sys-kernel-debug.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount \\
    modprobe@drm.service modprobe@efi_pstore.service modprobe@fuse.service getty@tty1.service
printf 'blacklist %s\\n' kvm_amd kvm aesni_intel ghash_clmulni_intel sha512_ssse3 sha256_ssse3 sha1_ssse3 \\
    vmw_vsock_vmci_transport vsock_loopback efi_pstore qemu_fw_cfg serio_raw sg >"$1/etc/modprobe.d/no-matter.conf"
"""
# cloud-init configures the network itself, and reports to the host only if the image configures that. The daemon that
# brings the directory cannot run without Hyper-V.
CLOUD_INIT = """
mkdir "$1/var/lib/hyperv"
echo 'reporting: {logging: {type: log}, telemetry: {type: hyperv}}' > "$1/etc/cloud/cloud.cfg.d/10-azure-kvp.cfg"
"""
# Debian's waagent leaves provisioning to cloud-init by default; an image without cloud-init changes that. It supports
# ifupdown only. It starts after sshd, which needs host keys to start: the image has some, and waagent replaces them.
WAAGENT = """
chroot "$1" ssh-keygen -A
sed -i 's/^Provisioning.Agent=.*/Provisioning.Agent=waagent/' "$1/etc/waagent.conf"
printf 'auto lo\\niface lo inet loopback\\nallow-hotplug eth0\\niface eth0 inet dhcp\\n' > "$1/etc/network/interfaces"
"""
# GRUB in the format of a kernel: QEMU starts it directly, and it boots from the menu on the disk.
GRUB = """
mkdir "$1/boot/grub"
cp "$1/usr/share/grub/default/grub" "$1/etc/default/grub"
chroot "$1" grub-mkimage -O i386-pc -o /tmp/core.img -p '(hd0,gpt2)/boot/grub' biosdisk part_gpt ext2 normal linux \
    search search_fs_uuid echo test configfile minicmd serial terminal loadenv gzio all_video gfxterm
cat "$1/usr/lib/grub/i386-pc/lnxboot.img" "$1/tmp/core.img" >"$1/boot/grub/grub.lnx"
"""
# Labels by the image's own policy. The kernel of the building host needs no SELinux for that.
SELINUX = """
sed -i 's/^SELINUX=.*/SELINUX=enforcing/' "$1/etc/selinux/config"
setfiles -F -r "$1" "$1/etc/selinux/default/contexts/files/file_contexts" "$1"
"""
AGENTS = {  # what is installed, and what is set
    "plain": (",fdisk", NETWORKD + DRIVE + NO_MATTER),
    "selinux": (",selinux-policy-default,policycoreutils,selinux-utils", NETWORKD + DRIVE + NO_MATTER + SELINUX),
    "grub": (",grub-pc-bin,grub2-common", GRUB),
    "cloud-init": (",cloud-init,cloud-guest-utils", NETWORKD + CLOUD_INIT),
    "waagent": (",waagent,fdisk,parted,ifupdown,isc-dhcp-client", WAAGENT),
}
# On a busy host an emulated timer looks broken to the kernel.
KERNEL_OPTIONS = "root=LABEL=root rw console=ttyS0 net.ifnames=0 no_timer_check"
LOADER = f"title Debian\nlinux /vmlinuz\ninitrd /initrd\noptions {KERNEL_OPTIONS}\n"
SYSLINUX = f"DEFAULT debian\nPROMPT 0\nLABEL debian\n  LINUX /vmlinuz\n  INITRD /initrd\n  APPEND {KERNEL_OPTIONS}\n"
GPTMBR = Path("/usr/lib/SYSLINUX/gptmbr.bin")
EFI_LOADER = "usr/lib/systemd/boot/efi/systemd-bootx64.efi"

MEGABYTE = 1 << 20
SECTOR = 512
BOOT_START, BOOT_SIZE, DISK_SIZE = 1 * MEGABYTE, 96 * MEGABYTE, 2048 * MEGABYTE
ROOT_START = BOOT_START + BOOT_SIZE
ROOT_SIZE = DISK_SIZE - ROOT_START - MEGABYTE  # the table's second copy is at the end
PARTITIONS = (
    f"label: gpt\n"
    f"start={BOOT_START // SECTOR}, size={BOOT_SIZE // SECTOR}, type=uefi, attrs=LegacyBIOSBootable\n"
    f"start={ROOT_START // SECTOR}, size={ROOT_SIZE // SECTOR}, type=linux\n"
)
BUILD_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class Disk:
    """`image` boots by firmware; `kernel` and `initrd` start the same system faster, without firmware."""

    image: Path
    kernel: Path
    initrd: Path

    @property
    def direct(self) -> list[str]:
        return ["--kernel", str(self.kernel), "--initrd", str(self.initrd), "--append", KERNEL_OPTIONS]


def debian_disk(agent: str) -> Disk:
    """A generalised disk, like an image in a gallery; `plain` has no agent."""
    need_root()
    for tool in ("mmdebstrap", "mke2fs", "sfdisk", "mkfs.vfat", "mcopy", "syslinux"):
        need(tool)
    packages, settings = BASE + AGENTS[agent][0], SETTINGS + AGENTS[agent][1]
    recipe = (SUITE, packages, settings, SMALL_INITRD, LOADER, SYSLINUX, PARTITIONS)
    directory = CACHE / f"disk-{agent}-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"disk-{agent}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            with tempfile.TemporaryDirectory(dir=CACHE, prefix="unfinished-") as work:
                build(Path(work), packages=packages, settings=settings)
                (Path(work) / "disk").rename(directory)
    return Disk(image=directory / "disk.img", kernel=directory / "vmlinuz", initrd=directory / "initrd")


def build(work: Path, *, packages: str, settings: str) -> None:
    root, made = work / "root", work / "disk"
    made.mkdir()
    run(
        need("mmdebstrap"),
        "--quiet",
        "--variant=minbase",
        f"--include={packages}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in NEEDLESS),
        f"--essential-hook={SMALL_INITRD}",
        f"--customize-hook={settings}",
        SUITE,
        str(root),
    )
    for name in ("vmlinuz", "initrd"):
        (piece,) = (root / "boot").glob(f"{name}[.-]*")
        shutil.copy(piece, made / name)
    boot = boot_partition(work, root=root, pieces=made)
    image = made / "disk.img"
    with image.open("wb") as file:
        file.truncate(DISK_SIZE)
    run(need("sfdisk"), "--quiet", str(image), text=PARTITIONS)
    with image.open("r+b") as file:
        file.write(GPTMBR.read_bytes()[:440])
        file.seek(BOOT_START)
        file.write(boot.read_bytes())
    options = ("-q", "-F", "-t", "ext4", "-L", "root", "-d", str(root), "-E", f"offset={ROOT_START}")
    run(need("mke2fs"), *options, str(image), f"{ROOT_SIZE // 1024}k")


def boot_partition(work: Path, *, root: Path, pieces: Path) -> Path:
    """The boot partition: a FAT file system with a loader for BIOS and one for UEFI."""
    image = work / "boot.img"
    hidden = str(BOOT_START // SECTOR)
    run(need("mkfs.vfat"), "-F", "32", "-n", "BOOT", "-h", hidden, "-C", str(image), str(BOOT_SIZE // 1024))
    run(need("mmd"), "-i", str(image), "::/EFI", "::/EFI/BOOT", "::/loader", "::/loader/entries")
    files: dict[str, bytes | Path] = {
        "EFI/BOOT/BOOTX64.EFI": root / EFI_LOADER,
        "loader/loader.conf": b"timeout 0\n",
        "loader/entries/debian.conf": LOADER.encode(),
        "syslinux.cfg": SYSLINUX.encode(),
        "vmlinuz": pieces / "vmlinuz",
        "initrd": pieces / "initrd",
    }
    for inside, content in files.items():
        source = content if isinstance(content, Path) else work / "piece"
        if isinstance(content, bytes):
            source.write_bytes(content)
        run(need("mcopy"), "-o", "-i", str(image), str(source), f"::/{inside}")
    run(need("syslinux"), "--install", str(image))
    return image


@contextmanager
def with_tree(disk: Disk, tree: Path, directory: Path) -> Iterator[Path]:
    """A copy of the disk, to which a tree's files and links are added."""
    copy, script = directory / "disk.img", directory / "orders"
    run("cp", "--sparse=always", str(disk.image), str(copy))
    script.write_text("".join(f"{order}\n" for order in orders(tree)))
    run(need("debugfs"), "-w", "-f", str(script), f"{copy}?offset={ROOT_START}")
    try:
        yield copy
    finally:
        copy.unlink()


def orders(tree: Path) -> Iterator[str]:
    """Commands for debugfs. It prints an error for an existing directory or a missing file, and continues."""
    for path in sorted(tree.rglob("*")):
        inside = f"/{path.relative_to(tree)}"
        if path.is_symlink():
            yield f"symlink {inside} {path.readlink()}"
        elif path.is_dir():
            yield f"mkdir {inside}"
        else:
            yield f"rm {inside}"
            yield f"write {path} {inside}"
            yield f"set_inode_field {inside} mode 0{path.stat().st_mode:o}"


def run(*command: str, text: str = "") -> None:
    ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=BUILD_SECONDS)
    if ran.returncode:
        unfit(f"no disk could be made: {Path(command[0]).name}: {(ran.stderr or ran.stdout).strip()[-500:]}")
