"""The situations in which azure-vm-utils' authors try their service by hand, and more: what is prepared and expected.

In scripts, D0, D1, ... are the local NVMe disks, R is the SCSI resource disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OPTION = "AZURE_EPHEMERAL_DISK_SETUP_"
SCSI = f"{OPTION}SCSI_RESOURCE=true\n"
LINE = "LABEL=AzureEphmDsk /mnt ext4 defaults,nofail,comment=azure-ephemeral-disk-setup 0 2"
CLOUD_INIT = "/dev/disk/cloud/azure_resource-part1 /mnt auto defaults,nofail,comment=cloudconfig 0 2"
# As the platform ships it: a DOS table, one partition.
NTFS = """
echo 'start=2048, type=7' | sfdisk --quiet "$R"; udevadm settle
mkntfs --quick --quiet --label "${LABEL:-Temporary Storage}" "${R}1"
echo "a notice" >/run/notice; ntfscp --force --quiet "${R}1" /run/notice DATALOSS_WARNING_README.txt
"""
NTFS_MOUNTED = NTFS + 'mkdir -p /media; mount -t ntfs3 "${R}1" /media\n'
REBOOT = "!umount /mnt; udevadm settle"
REBOOT_ARRAY = """!umount /mnt; mdadm --stop /dev/md127
for d in "$D0" "$D1"; do mdadm --incremental "$d" || :; done; udevadm settle"""
REBOOT_CUT_ARRAY = f"!swapoff --all\n{REBOOT_ARRAY[1:]}"
REBOOT_VOLUMES = "!swapoff --all; umount /mnt; vgchange --quiet -an; udevadm settle"
KEPT = "grep -q precious /mnt/file"
USED = ("disk setup", "!echo precious >/mnt/file")
AGAIN, AGAIN_ARRAY = (*USED, REBOOT, "disk setup"), (*USED, REBOOT_ARRAY, "disk setup")
FIXED = "chattr +i /etc/fstab"
HANGS = """cat >"$BIN/systemctl" <<'END'
#!/bin/sh
[ "$1" = start ] && exit 1
exec /srv/real/systemctl "$@"
END
chmod +x "$BIN/systemctl"
"""
NO_MOUNT = """cat >"$BIN/mount" <<'END'
#!/bin/sh
echo "mount: refused by the test" >&2
exit 32
END
chmod +x "$BIN/mount"
"""
NO_NTFS_DRIVER = """cat >"$BIN/mount" <<'END'
#!/bin/sh
case "$*" in *ntfs*) exit 32 ;; esac
exec /srv/real/mount "$@"
END
chmod +x "$BIN/mount"
"""
SWAP = "swap_mib = 40\n"
SWAP_FILE = "[ $(stat -c %s:%a /mnt/swapfile) = 41943040:600 ]"
NO_MKFS = 'cp /bin/false "$BIN/mkfs.ext4"\n'
GPT, SWAP_AREA = 'table = "gpt"\n', 'swap = "partition"\nswap_mib = 40\n'
LVM = 'aggregation = "lvm"\n'
SWAP_BYTES = "[ $(swapon --show=SIZE --bytes --noheadings) = 41938944 ]"  # one page less than 40 MiB
ON_ARRAY = "grep -q '^/dev/md127p1 /mnt ext4' /proc/mounts; "
BESIDE_SWAP = "grep -q '^/dev/md127p2 /mnt ext4' /proc/mounts; "
# Arrays of another machine, with what would show through on new ones of the same shape.
OLD_ARRAY = """
mdadm --create /dev/md127 --run --level=0 --chunk=512 --raid-devices=2 "$D0" "$D1" 2>&1
printf 'label: gpt\\nsize=40MiB, type=swap\\n,\\n' | sfdisk --quiet /dev/md127; udevadm settle
mkfs.ext4 -q /dev/md127p2; mkswap -q /dev/md127p1; mdadm --stop /dev/md127; udevadm settle
"""
OLD_ARRAY_BTRFS = """
mdadm --create /dev/md127 --run --level=0 --chunk=512 --raid-devices=2 "$D0" "$D1" 2>&1
printf 'label: gpt\\n,\\n' | sfdisk --quiet /dev/md127; udevadm settle
mkfs.btrfs --quiet /dev/md127p1; mdadm --stop /dev/md127; udevadm settle
"""
OLD_VOLUMES = """
pvcreate -q "$D0" "$D1"; vgcreate -q old "$D0" "$D1"
lvcreate -q -y -Zn -Wn --stripes 2 --stripesize 512k --size 40m --name swap old
lvcreate -q -y -Zn -Wn --stripes 2 --stripesize 512k --extents 100%FREE --name data old
mkfs.ext4 -q /dev/old/data; mkfs.ext4 -q /dev/old/swap; vgchange -q -an; udevadm settle
"""
# On GPT, with copies of its superblock that no tool finds when the first one is gone.
OLD_BTRFS = """
for d in "$D0" "$D1"; do printf 'label: gpt\\n,\\n' | sfdisk --quiet "$d"; done; udevadm settle
mkfs.btrfs --quiet "${D0}p1"; mkfs.btrfs --quiet "${D1}p1"; udevadm settle
"""
# Each disk has GPT's partition for LVM, and the volumes are striped over these.
ON_PARTITIONS = """
for d in "$D0" "$D1"; do
    [ "$(blkid -p -s PART_ENTRY_TYPE -o value "${d}p1")" = e6d6d379-f507-44c2-a23c-238f2a3df928 ]
    [ "$(blkid -p -s TYPE -o value "${d}p1")" = LVM2_member ]
    pvs --noheadings -o pv_name,vg_name | grep -Eq "^ *${d}p1 +azure-ephemeral-md *$"
done
[ $(pvs --noheadings | wc -l) = ${PVS:-2} ]
[ $(blkid -s PARTUUID -o value "${D0}p1" "${D1}p1" | sort -u | wc -l) = 2 ]
lvs --noheadings -o stripes,segtype azure-ephemeral-md/data | grep -Eq "^ *${PVS:-2} +striped *$"
"""
BLANK_AGAIN = """!swapoff --all; umount /mnt; vgchange --quiet -an
for d in "$D0" "$D1"; do dd if=/dev/zero of="$d" bs=1M count=40 oflag=direct status=none; blockdev --rereadpt "$d"; done
udevadm settle; [ ! -e "${D0}p1" ]"""
TWO_PARTITIONS = 'printf "label: gpt\\nsize=20MiB\\nsize=10MiB\\n" | sfdisk --quiet "$DISK"; udevadm settle\n'
ONE_PARTITION = 'printf "label: gpt\\nsize=20MiB\\n" | sfdisk --quiet "$DISK"; udevadm settle\n'


@dataclass(frozen=True, kw_only=True)
class Row:
    """`mounted`: mount point and type of every file system on temporary disks afterwards. `changed`: whether a disk was
    written to. `says`: words of the last run's output. `hide`: tools that are not installed. Sizes are MiB."""

    name: str
    nvme: int = 1
    size: int = 40
    sector: int = 512
    resource: bool = False
    disk: str = ""
    conf: str = ""
    before: str = ""
    runs: tuple[str, ...] = ("disk setup",)
    after: str = ""
    hide: tuple[str, ...] = ()
    status: int = 0
    says: tuple[str, ...] = ()
    mounted: tuple[tuple[str, str], ...] = ()
    changed: bool = False
    swaps: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()


def done(name: str, point: str = "/mnt", kind: str = "ext4", **given: Any) -> Row:
    values = {"mounted": ((point, kind),), "changed": True, **given}
    return Row(name=name, **values)


def left(name: str, *says: str, status: int = 1, **given: Any) -> Row:
    return Row(name=name, says=says, status=status, **given)


def wrong(option: str, value: str) -> Row:
    return left(f"configuration: {option}={value}", option, conf=f"{OPTION}{option}={value}\n")


AGGREGATE = 'mdadm --detail /dev/md127 | grep -q "raid0"; '
ROWS = (
    # configuration
    done("configuration: comments, spaces, quotes, unknown keys", conf=(
        f"# a comment\n  {OPTION}MDADM_NAME = 'foo'\n{OPTION}MOUNT_POINT=\"/mnt/a\"\nIGNORED1\nIGNORED2=\n"
        f"{OPTION}FS_TYPE=xfs\n{OPTION}FS_TYPE=ext4\n"), point="/mnt/a"),
    wrong("AGGREGATION", "invalid"),
    wrong("FS_TYPE", "ntfs"),
    wrong("MDADM_CHUNK", "100Q"),
    wrong("MDADM_CHUNK", "100"),
    wrong("MDADM_NAME", "invalid name"),
    wrong("MOUNT_POINT", "relative/path"),
    wrong("MOUNT_POINT", "/mnt/spaced out"),
    wrong("MOUNT_POINT", "/mnt/semi;colon"),
    wrong("SCSI_RESOURCE", "invalid"),
    wrong("SYSTEMD_UNIT_TIMEOUT_SECS", "-1"),
    wrong("SYSTEMD_UNIT_TIMEOUT_SECS", "invalid"),
    wrong("UDEVADM_SETTLE_TIMEOUT_SECS", "0"),
    done("configuration: other waits", conf=(
        f"{OPTION}UDEVADM_SETTLE_TIMEOUT_SECS=90\n{OPTION}SYSTEMD_UNIT_TIMEOUT_SECS=5\n")),
    # no disks
    left("no disks, resource disk wanted", nvme=0, conf=SCSI, status=0),
    left("no disks", nvme=0, status=0),
    left("resource disk not wanted", "scsi is off", nvme=0, resource=True, before=NTFS, status=0),
    # tools
    left("mkfs.xfs is missing", "mkfs.xfs", conf=f"{OPTION}FS_TYPE=xfs\n", hide=("mkfs.xfs",)),
    left("mdadm asked for and missing", "mdadm", nvme=2, conf=f"{OPTION}AGGREGATION=mdadm\n", hide=("mdadm",)),
    done("mdadm and LVM missing, aggregation auto", nvme=2, hide=("mdadm", "vgcreate", "lvcreate", "pvcreate")),
    done("aggregation none without mdadm", nvme=2, conf=f"{OPTION}AGGREGATION=none\n", hide=("mdadm",)),
    left("mkfs fails", "mkfs.ext4", before=NO_MKFS, runs=("disk setup",)),
    left("mkfs of the resource disk fails", "mkfs.ext4", nvme=0, resource=True, conf=SCSI, before=NO_MKFS),
    left("mkfs of an array fails", "mkfs.ext4", nvme=2, before=NO_MKFS, changed=True),
    # one disk
    done("one disk", after='[ "$(blkid -s LABEL -o value "$D0")" = AzureEphmDsk ]; grep -Fx '
         f"'{LINE}' /etc/fstab; [ -s /mnt/DATALOSS_WARNING_README.txt ]"),
    done("one disk and a resource disk that is wanted too", resource=True, conf=SCSI, before=NTFS),
    done("one disk and a resource disk that is not wanted", resource=True, before=NTFS),
    done("a second run", runs=("disk setup", "disk setup"), says=("in use",)),
    done("sectors of 4096 bytes", sector=4096),
    done("a deep mount point", point="/mnt/foo/BAR/custom_0", conf=f"{OPTION}MOUNT_POINT=/mnt/foo/BAR/custom_0\n"),
    done("xfs", kind="xfs", size=320, conf=f"{OPTION}FS_TYPE=xfs\n"),
    done("btrfs", kind="btrfs", size=128, disk='filesystem = "btrfs"\n'),
    done("GPT", disk='table = "gpt"\n', after='[ -b "${D0}p1" ]; grep -q "^${D0}p1 /mnt ext4" /proc/mounts'),
    done("swap file", size=128, disk=SWAP, swaps=("/mnt/swapfile",),
         after=SWAP_FILE),
    done("swap file on btrfs", kind="btrfs", size=256, disk='filesystem = "btrfs"\n' + SWAP,
         swaps=("/mnt/swapfile",), after=SWAP_FILE),
    done("swap partition", size=128, disk='table = "gpt"\nswap = "partition"\nswap_mib = 40\n', swaps=("nvme",),
         after='[ "$(blkid -s TYPE -o value "${D0}p2" "${D0}p1" | sort | tr "\n" " ")" = "ext4 swap " ]'),
    done("swap file after a reboot", size=128, disk=SWAP, swaps=("/mnt/swapfile",),
         runs=("disk setup", "!swapoff --all", REBOOT, "disk setup")),
    left("a swap file that is too large", "not made: 400 MiB are asked for", size=128, disk="swap_mib = 400\n",
         mounted=(("/mnt", "ext4"),), changed=True),
    Row(name="a whole disk for swap", disk='nvme = "swap"\n', changed=True, swaps=("nvme",)),
    done("swap on the resource disk, data on the other", resource=True, before=NTFS, disk='scsi = "swap"\n',
         swaps=("sd",)),
    Row(name="data on both", resource=True, disk='scsi = "data"\nmount_point = "/mnt/local"\n', changed=True,
        mounted=(("/mnt/local", "ext4"), ("/mnt/resource", "ext4"))),
    done("owner", disk='owner = "nobody:nogroup"\n', after='[ "$(stat -c %U:%G /mnt)" = nobody:nogroup ]'),
    # several
    done("two disks", nvme=2, after=AGGREGATE),
    done("two disks and a resource disk", nvme=2, resource=True, conf=SCSI, before=NTFS, after=AGGREGATE),
    done("four disks", nvme=4, conf=SCSI, after=AGGREGATE + 'grep -q "\\[4/4\\]\\|raid0" /proc/mdstat'),
    done("four disks and a resource disk", nvme=4, resource=True, conf=SCSI, before=NTFS, after=AGGREGATE),
    done("aggregation none", nvme=2, conf=f"{OPTION}AGGREGATION=none\n", says=("aggregation is none",)),
    done("another chunk size", nvme=2, conf=f"{OPTION}MDADM_CHUNK=1024K\n",
         after=AGGREGATE + "grep -q '1024k chunks' /proc/mdstat"),
    done("another array name", nvme=2, conf=f"{OPTION}MDADM_NAME=my_RAID-0\n", after="ls /dev/md/my_RAID-0*"),
    done("xfs on two disks", nvme=2, size=320, kind="xfs", conf=f"{OPTION}FS_TYPE=xfs\n"),
    done("LVM", nvme=2, disk=LVM, after="lvs --noheadings"),
    done("GPT on an array", nvme=2, disk=GPT, after=AGGREGATE + ON_ARRAY),
    done("GPT on an array of disks with sectors of 4096 bytes", nvme=2, sector=4096, disk=GPT, after=ON_ARRAY),
    done("swap partition on an array", nvme=2, size=128, disk=GPT + SWAP_AREA, swaps=("md127p1",),
         after=AGGREGATE + BESIDE_SWAP + SWAP_BYTES),
    Row(name="an array for swap, in a partition", nvme=2, disk='nvme = "swap"\n' + GPT, changed=True,
        swaps=("md127p1",)),
    done("LVM with a swap volume", nvme=3, size=128, disk=LVM + SWAP_AREA, swaps=("dm-",), after=SWAP_BYTES),
    done("LVM and GPT", nvme=2, disk=LVM + GPT, after=ON_PARTITIONS),
    done("LVM and GPT, status", nvme=2, disk=LVM + GPT, runs=("disk setup", "disk status"), after=ON_PARTITIONS,
         says=("partition 1 of nvme", "lvm2", "LVM volume of nvme", "AzureEphmDsk")),
    done("LVM and GPT, planned and run again", nvme=2, disk=LVM + GPT, after=ON_PARTITIONS, says=("in use",),
         runs=("disk plan", "disk setup", "disk setup")),
    done("LVM and GPT with sectors of 4096 bytes", nvme=2, sector=4096, disk=LVM + GPT, after=ON_PARTITIONS),
    done("LVM and GPT, xfs", nvme=2, size=320, kind="xfs", disk=LVM + GPT + 'filesystem = "xfs"\n',
         after=ON_PARTITIONS),
    done("LVM and GPT with a swap volume", nvme=3, size=128, disk=LVM + GPT + SWAP_AREA, swaps=("dm-",),
         after=SWAP_BYTES + "\nPVS=3" + ON_PARTITIONS),
    Row(name="LVM and GPT for swap", nvme=2, disk='nvme = "swap"\n' + LVM + GPT, changed=True, swaps=("dm-",),
        after=ON_PARTITIONS),
    done("LVM and GPT of one disk", disk=LVM + GPT, after='grep -q "^${D0}p1 /mnt ext4" /proc/mounts'),
    done("LVM and GPT, where there were other volumes", nvme=2, size=128, disk=LVM + GPT + SWAP_AREA, swaps=("dm-",),
         before=OLD_VOLUMES, runs=("disk setup --recreate",), after=SWAP_BYTES + ON_PARTITIONS),
    done("LVM and GPT, where there were other tables", nvme=2, size=128, disk=LVM + GPT, before=OLD_BTRFS,
         runs=("disk setup --recreate",), after=ON_PARTITIONS),
    done("LVM and GPT, made again", nvme=2, disk=LVM + GPT, after="[ ! -e /mnt/file ]" + ON_PARTITIONS,
         runs=(*USED, REBOOT_VOLUMES + "; rm /var/lib/azure-init/*.disks", "disk setup --recreate")),
    left("LVM and GPT, and one of two disks holds data", "not every disk is blank", nvme=2, disk=LVM + GPT,
         before='mkfs.ext4 -q "$D1"'),
    done("GPT and swap on an array, where there was another", nvme=2, size=128, disk=GPT + SWAP_AREA, before=OLD_ARRAY,
         runs=("disk setup --recreate",), swaps=("md127p1",), after=BESIDE_SWAP + SWAP_BYTES),
    done("GPT on an array of three disks, where two had another", nvme=3, size=128, disk=GPT, before=OLD_ARRAY,
         runs=("disk setup --recreate",), after=ON_ARRAY),
    done("one disk with btrfs", size=128, before='mkfs.btrfs --quiet "$D0"', runs=("disk setup --recreate",)),
    done("an array with btrfs, made again", nvme=2, size=128, disk=GPT, before=OLD_ARRAY_BTRFS, after=ON_ARRAY,
         runs=("disk setup --recreate",)),
    done("one disk with a boot sector", size=128, before='printf "\\125\\252" | dd of="$D0" bs=1 seek=510 status=none; '
         'printf "\\125" | dd of="$D0" bs=1 seek=446 status=none', runs=("disk setup --recreate",)),
    done("LVM with a swap volume, where there was another", nvme=2, size=128, disk=LVM + SWAP_AREA, before=OLD_VOLUMES,
         runs=("disk setup --recreate",), swaps=("dm-",), after=SWAP_BYTES),
    left("a swap volume that does not fit", "a swap volume of 400 MiB", nvme=2, size=128,
         disk=LVM + 'swap = "partition"\nswap_mib = 400\n'),
    # the mount point
    left("the mount point is a file", "not a directory", conf=f"{OPTION}MOUNT_POINT=/mnt/file\n",
         before="touch /mnt/file"),
    left("the mount point is a link", "symbolic link", conf=f"{OPTION}MOUNT_POINT=/mnt/link\n",
         before="mkdir /mnt/there; ln -s /mnt/there /mnt/link"),
    left("the mount point is not empty", "not empty", before="touch /mnt/file"),
    left("something is mounted at the mount point", "mounted", before="mount -t tmpfs tmpfs /mnt"),
    # what is on the disk
    left("formatted", "ext4", before='mkfs.ext4 -q "$D0"'),
    left("mounted elsewhere", "in use", before='mkfs.ext4 -q "$D0"; mkdir -p /media; mount -o ro "$D0" /media',
         mounted=(("/media", "ext4"),)),
    left("two partitions", "partitions", before=TWO_PARTITIONS.replace("DISK", "D0")),
    left("two partitions with file systems", "partitions",
         before=TWO_PARTITIONS.replace("DISK", "D0") + 'mkfs.ext4 -q "${D0}p1"; mkfs.ext4 -q "${D0}p2"'),
    left("one partition", "partition", before=ONE_PARTITION.replace("DISK", "D0")),
    left("one partition with a file system", "ext4",
         before=ONE_PARTITION.replace("DISK", "D0") + 'mkfs.ext4 -q "${D0}p1"'),
    left("one byte in the middle", "data at byte",
         before='printf x | dd of="$D0" bs=1 seek=20971521 conv=notrunc status=none'),
    left("one byte at the end", "data at byte",
         before='printf x | dd of="$D0" bs=1 seek=41943039 conv=notrunc status=none'),
    left("an array's superblock at the end", "md",
         before='mdadm --create /dev/md127 --run --level=1 --raid-devices=1 --force --metadata=1.0 "$D0" 2>&1;'
         " mdadm --stop /dev/md127; udevadm settle; mdadm --stop /dev/md127 2>/dev/null || :"),
    left("LVM of another", "lvm2", before='pvcreate -q "$D0"'),
    left("swap of another", "swap", before='mkswap -q "$D0"'),
    left("swap in use", "in use", before='mkswap -q "$D0"; swapon "$D0"', swaps=("nvme",)),
    left("open for writing", "open for writing", before='sleep 600 >"$D0" 2>/dev/null & echo $! >/run/writer',
         runs=("disk setup", "!kill $(cat /run/writer)")),
    left("one of two disks holds data", "not every disk is blank", nvme=2, before='mkfs.ext4 -q "$D1"'),
    # the resource disk
    done("resource disk as shipped", nvme=0, resource=True, conf=SCSI, before=NTFS),
    done("resource disk without drivers for NTFS", nvme=0, resource=True, conf=SCSI,
         before=NTFS + NO_NTFS_DRIVER),
    done("blank resource disk", nvme=0, resource=True, conf=SCSI),
    done("resource disk at another mount point", nvme=0, resource=True, point="/mnt/custom-MOUNT_0",
         conf=SCSI + f"{OPTION}MOUNT_POINT=/mnt/custom-MOUNT_0\n", before=NTFS),
    left("NTFS with another label", "NTFS", nvme=0, resource=True, conf=SCSI,
         before="LABEL=NotTemporaryStorage" + NTFS),
    left("NTFS with another file", "NTFS", nvme=0, resource=True, conf=SCSI,
         before=NTFS + 'ntfscp --force --quiet "${R}1" /run/notice badfile.txt'),
    left("NTFS with another directory", "NTFS", nvme=0, resource=True, conf=SCSI,
         before=NTFS_MOUNTED + "mkdir /media/baddir; umount /media"),
    left("NTFS mounted elsewhere", "in use", nvme=0, resource=True, conf=SCSI, before=NTFS_MOUNTED,
         mounted=(("/media", "ntfs3"),)),
    left("NTFS without a partition", "ntfs", nvme=0, resource=True, conf=SCSI,
         before='mkntfs --quick --quiet --force --label "Temporary Storage" "$R"'),
    left("ext4 in the partition", "ext4", nvme=0, resource=True, conf=SCSI, before=NTFS + 'mkfs.ext4 -q -F "${R}1"'),
    left("resource disk formatted and mounted", "in use", nvme=0, resource=True, conf=SCSI,
         before='mkfs.ext4 -q "$R"; mkdir -p /media; mount -o ro "$R" /media', mounted=(("/media", "ext4"),)),
    left("resource disk with two partitions", "partitions", nvme=0, resource=True, conf=SCSI,
         before=TWO_PARTITIONS.replace("DISK", "R")),
    left("the resource link leads nowhere", nvme=0, resource=True, conf=SCSI, status=0,
         before="ln -sfn /dev/nonexistent /dev/disk/azure/resource"),
    # others who set up disks
    left("cloud-init's entry, resource disk not wanted", "cloud-init", resource=True, status=0,
         before=NTFS + f"echo '{CLOUD_INIT}' >>/etc/fstab"),
    left("cloud-init's entry, resource disk wanted", "cloud-init", nvme=0, resource=True, conf=SCSI,
         before=NTFS + f"echo '{CLOUD_INIT}' >>/etc/fstab"),
    left("cloud-init's entry, both kinds of disks wanted", "cloud-init", resource=True, conf=SCSI,
         before=NTFS + f"echo '{CLOUD_INIT}' >>/etc/fstab"),
    left("cloud-init's entry, mounted, resource disk not wanted", "cloud-init", resource=True, status=0,
         before=NTFS + f"mkfs.ext4 -q -F ${{R}}1; mount -o ro ${{R}}1 /mnt; echo '{CLOUD_INIT}' >>/etc/fstab",
         mounted=(("/mnt", "ext4"),)),
    left("cloud-init's entry, mounted, resource disk wanted", "cloud-init", nvme=0, resource=True, conf=SCSI,
         before=NTFS + f"mkfs.ext4 -q -F ${{R}}1; mount -o ro ${{R}}1 /mnt; echo '{CLOUD_INIT}' >>/etc/fstab",
         mounted=(("/mnt", "ext4"),)),
    left("WALinuxAgent formats", "ResourceDisk.Format", nvme=0, resource=True, conf=SCSI,
         before=NTFS + "echo 'ResourceDisk.Format  =  y' >/etc/waagent.conf; printf '#!/bin/sh\\n' >/usr/sbin/waagent; "
         "chmod +x /usr/sbin/waagent"),
    left("another entry in fstab", "/dev/fake",
         before="echo '/dev/fake /mnt xfs defaults,comment=otherservice 0 2' >>/etc/fstab"),
    # reboots
    done("reboot", runs=AGAIN, after=KEPT),
    done("reboot of an array", nvme=2, runs=AGAIN_ARRAY,
         after=KEPT),
    done("reboot of an array with GPT", nvme=2, disk=GPT, runs=AGAIN_ARRAY, after=KEPT + "; " + ON_ARRAY),
    done("reboot of an array with a swap partition", nvme=2, size=128, disk=GPT + SWAP_AREA, swaps=("md127p1",),
         runs=(*USED, REBOOT_CUT_ARRAY, "disk setup"), after=KEPT),
    done("reboot, and the array with a swap partition is not started", nvme=2, size=128, disk=GPT + SWAP_AREA,
         runs=(*USED, "!swapoff --all; umount /mnt; mdadm --stop /dev/md127; udevadm settle", "disk setup"),
         swaps=("md127p1",), after=KEPT),
    done("reboot of LVM with a swap volume", nvme=2, size=128, disk=LVM + SWAP_AREA, swaps=("dm-",),
         runs=(*USED, REBOOT_VOLUMES, "disk setup"), after=KEPT),
    done("reboot, and only the swap volume is active", nvme=2, size=128, disk=LVM + SWAP_AREA, swaps=("dm-",),
         runs=(*USED, REBOOT_VOLUMES + "; lvchange -q -ay azure-ephemeral-md/swap", "disk setup"), after=KEPT),
    done("reboot, and only the data volume is active", nvme=2, size=128, disk=LVM + SWAP_AREA, swaps=("dm-",),
         runs=(*USED, REBOOT_VOLUMES + "; lvchange -q -ay azure-ephemeral-md/data", "disk setup"), after=KEPT),
    done("reboot of LVM and GPT", nvme=2, disk=LVM + GPT, runs=(*USED, REBOOT_VOLUMES, "disk setup"),
         after=KEPT + ON_PARTITIONS),
    done("reboot of LVM and GPT with a swap volume, of which only that is active", nvme=2, size=128,
         disk=LVM + GPT + SWAP_AREA, swaps=("dm-",), after=KEPT + ON_PARTITIONS,
         runs=(*USED, REBOOT_VOLUMES + "; lvchange -q -ay azure-ephemeral-md/swap", "disk setup")),
    done("redeployment of LVM and GPT", nvme=2, disk=LVM + GPT, runs=(*USED, BLANK_AGAIN, "disk setup"),
         after="[ ! -e /mnt/file ]" + ON_PARTITIONS),
    done("reboot of a resource disk", nvme=0, resource=True, conf=SCSI, before=NTFS,
         runs=AGAIN, after=KEPT),
    done("reboot, and systemd does not mount", runs=(*USED, REBOOT, "!" + HANGS, "disk setup"),
         after=KEPT),
    done("reboot of an array, and systemd does not mount", nvme=2, after=KEPT,
         runs=(*USED, REBOOT_ARRAY, "!" + HANGS, "disk setup")),
    done("reboot of a resource disk, and systemd does not mount", nvme=0, resource=True, conf=SCSI, before=NTFS,
         runs=(*USED, REBOOT, "!" + HANGS, "disk setup"), after=KEPT),
    done("entry in fstab and a file system, not mounted", changed=True,
         before=f"mkfs.ext4 -q -L AzureEphmDsk $D0; echo '{LINE}' >>/etc/fstab"),
    done("entry in fstab, new disk", before=f"echo '{LINE}' >>/etc/fstab"),
    done("entry in fstab, new disk, and systemd does not mount", before=f"echo '{LINE}' >>/etc/fstab\n" + HANGS),
    done("entry in fstab and a file system, and systemd does not mount",
         before=f"mkfs.ext4 -q -L AzureEphmDsk $D0; echo '{LINE}' >>/etc/fstab\n" + HANGS),
    left("entry in fstab and a file system that cannot be mounted", "mount", before=(
        f"mkfs.ext4 -q -L AzureEphmDsk $D0; echo '{LINE}' >>/etc/fstab\n" + HANGS + NO_MOUNT)),
    # /etc/fstab cannot be written
    done("fixed fstab", before=FIXED, after="! grep -q Ephm /etc/fstab"),
    done("fixed fstab, second run", before=FIXED, runs=("disk setup", "disk setup")),
    done("fixed fstab, reboot", before=FIXED, runs=AGAIN,
         after=KEPT),
    done("fixed fstab, two disks, reboot", nvme=2, before=FIXED,
         runs=AGAIN_ARRAY, after=KEPT),
    done("fixed fstab, two disks, second run", nvme=2, before=FIXED, runs=("disk setup", "disk setup")),
    done("fixed fstab, then another mount point", before=FIXED, status=1, says=("/mnt",),
         runs=("disk setup", f"!echo {OPTION}MOUNT_POINT=/media >/etc/azure-ephemeral-disk-setup.conf", "disk setup")),
)  # fmt: skip
