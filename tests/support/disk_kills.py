"""Runs that are killed at some point, and the run after them: it ends with what a run without interruption makes."""

from __future__ import annotations

from typing import Any

from support.disk_rows import GPT, LVM, ON_PARTITIONS, SWAP, SWAP_AREA, Row, done

WRITES = "write,pwrite64,fsync"
XFS, BTRFS = 'filesystem = "xfs"\n', 'filesystem = "btrfs"\n'
SWAP_FILE = ("/mnt/swapfile",)
STOP_ARRAY, STOP_VOLUMES = "mdadm --stop /dev/md127", "vgchange --quiet -an"
# As if mdadm was killed between two superblocks: udev begins an array with one member, which keeps the disk in use.
ONE_MEMBER = (
    'mdadm --stop /dev/md127; mdadm --zero-superblock "$D1"; udevadm settle; mdadm --incremental "$D0" || true; '
    "grep -q ': inactive ' /proc/mdstat"
)
# The agent's own writes become effective in these calls, so many of each in one run with two disks.
OWN = {"rename": 6, "fsync": 9, "syncfs": 3, "renameat": 1}


def killed(tool: str, where: str, *, start: int = 1) -> str:
    """That start of the tool kills the agent and its children: before it ran, after, or at its Nth write."""
    traced = f"strace -qq -o /dev/null -e trace={WRITES} -e inject={WRITES}:signal=KILL:when={where} "
    first = {"before": "", "after": f'/srv/real/{tool} "$@"; '}.get(where, f'{traced}/srv/real/{tool} "$@"; ')
    return (
        f"cat >\"$BIN/{tool}\" <<'END'\n#!/bin/sh\n"
        f"[ -e /run/killed ] || echo >>/run/starts\n"
        f'[ ! -e /run/killed ] && [ $(wc -l </run/starts) = {start} ] || exec /srv/real/{tool} "$@"\n'
        f'touch /run/killed\n{first}kill -9 $(cat /run/agent.pid) 0\nEND\nchmod +x "$BIN/{tool}"\n'
    )


def stopped(tool: str, *places: str, on: str = "", restart: str = "", start: int = 1, **given: Any) -> list[Row]:
    """`restart`: a script between the two runs; what was set up is not running after a reboot."""
    again = (f"!{restart}; udevadm settle",) if restart else ()
    return [
        done(
            f"killed: {tool}{f' {start}' if start > 1 else ''}{on}, {where}{', restarted' if restart else ''}",
            before=killed(tool, where, start=start),
            runs=("disk setup", *again, "disk setup"),
            statuses=(-9, 0),
            **given,
        )
        for where in places
    ]


def stopped_itself(call: str, number: int, *, on: str = "", **given: Any) -> Row:
    traced = f"strace -qq -o /dev/null -e trace={call} -e inject={call}:signal=KILL:when={number}"
    runs = (f"!{traced} azure-init disk setup || echo $? >/run/killed", "disk setup")
    after = "[ $(cat /run/killed) = 137 ]" + given.pop("after", "")
    return done(f"killed: the agent itself{on}, {call} {number}", nvme=2, runs=runs, after=after, **given)


CUT: dict[str, Any] = {"on": " on an array with GPT", "nvme": 2, "disk": GPT}
BESIDE: dict[str, Any] = {
    "on": " on an array with swap",
    "nvme": 2,
    "size": 128,
    "disk": GPT + SWAP_AREA,
    "swaps": ("md127p1",),
}
VOLUMES: dict[str, Any] = {
    "on": " on LVM with swap",
    "nvme": 2,
    "size": 128,
    "disk": LVM + SWAP_AREA,
    "swaps": ("dm-",),
}
TABLES: dict[str, Any] = {"on": " on LVM with GPT", "nvme": 2, "disk": LVM + GPT, "after": ON_PARTITIONS}
SWAP_VOLUMES: dict[str, Any] = {
    **VOLUMES,
    "on": " on LVM with GPT and swap",
    "disk": LVM + GPT + SWAP_AREA,
    "after": ON_PARTITIONS,
}
OWN_TABLES = {"rename": 8, "fsync": 11, "syncfs": 5, "renameat": 1}
KILLS = (
    *stopped("mkfs.ext4", "before", "1", "2", "4", "8", "16", "after"),
    *stopped("mdadm", "before", "1", "2", "3", "after", nvme=2),
    *stopped("mdadm", "after", on=", one superblock", restart=ONE_MEMBER, nvme=2),
    *stopped("systemctl", "before", "after"),
    *stopped("sfdisk", "before", "1", "3", "after", disk=GPT),
    *stopped("pvcreate", "before", "3", "after", nvme=2, disk=LVM),
    *stopped("vgcreate", "before", "3", "after", nvme=2, disk=LVM),
    *stopped("lvcreate", "before", "3", "after", nvme=2, disk=LVM),
    *stopped("mkfs.xfs", "1", "4", "12", "after", size=320, kind="xfs", disk=XFS),
    *stopped("mkfs.btrfs", "1", "4", "12", "after", size=128, kind="btrfs", disk=BTRFS),
    *stopped("mkswap", "before", "1", "after", size=128, disk=SWAP, swaps=SWAP_FILE),
    *stopped("swapon", "before", "after", size=128, disk=SWAP, swaps=SWAP_FILE),
    *stopped("mdadm", "1", "after", **CUT),
    *stopped("sfdisk", "before", "1", "3", "after", **CUT),
    *stopped("sfdisk", "before", "1", "after", restart=STOP_ARRAY, **CUT),
    *stopped("mkfs.ext4", "before", "1", "4", "after", **CUT),
    *stopped("sfdisk", "1", "3", "after", **BESIDE),
    *stopped("mkswap", "before", "1", "after", **BESIDE),
    *stopped("mkswap", "after", restart=STOP_ARRAY, **BESIDE),
    *stopped("mkfs.ext4", "before", "4", "after", **BESIDE),
    *stopped("mkfs.ext4", "before", "4", "after", restart=STOP_ARRAY, **BESIDE),
    *stopped("swapon", "before", "after", **BESIDE),
    *stopped("vgcreate", "after", **VOLUMES),
    *stopped("lvcreate", "before", "3", "6", "after", **VOLUMES),
    *stopped("lvcreate", "after", restart=STOP_VOLUMES, **VOLUMES),
    *stopped("mkswap", "before", "1", "after", **VOLUMES),
    *stopped("mkswap", "after", restart=STOP_VOLUMES, **VOLUMES),
    *stopped("mkfs.ext4", "before", "4", "after", **VOLUMES),
    *stopped("mkfs.ext4", "4", restart=STOP_VOLUMES, **VOLUMES),
    *stopped("swapon", "before", "after", **VOLUMES),
    *stopped("sfdisk", "before", "1", "2", "3", "4", "6", "after", **TABLES),
    *stopped("sfdisk", "before", "1", "2", "3", "4", "6", "after", start=2, **TABLES),
    *stopped("pvcreate", "before", "1", "3", "after", **TABLES),
    *stopped("pvcreate", "before", "1", "3", "after", start=2, **TABLES),
    *stopped("vgcreate", "before", "3", "after", **TABLES),
    *stopped("lvcreate", "before", "3", "after", **TABLES),
    *stopped("lvcreate", "after", restart=STOP_VOLUMES, **TABLES),
    *stopped("mkfs.ext4", "before", "1", "4", "after", **TABLES),
    *stopped("mkfs.ext4", "4", "after", restart=STOP_VOLUMES, **TABLES),
    *stopped("sfdisk", "4", start=2, **SWAP_VOLUMES),
    *stopped("lvcreate", "before", "3", "6", "after", **SWAP_VOLUMES),
    *stopped("lvcreate", "after", restart=STOP_VOLUMES, **SWAP_VOLUMES),
    *stopped("mkswap", "before", "1", "after", **SWAP_VOLUMES),
    *stopped("mkswap", "after", restart=STOP_VOLUMES, **SWAP_VOLUMES),
    *stopped("mkfs.ext4", "before", "4", "after", **SWAP_VOLUMES),
    *stopped("mkfs.ext4", "4", restart=STOP_VOLUMES, **SWAP_VOLUMES),
    *stopped("swapon", "before", "after", **SWAP_VOLUMES),
    *(
        stopped_itself(call, number + 1, on=" on LVM with GPT", disk=LVM + GPT, after=ON_PARTITIONS)
        for call, count in OWN_TABLES.items()
        for number in range(count)
    ),
    *(stopped_itself(call, number + 1) for call, count in OWN.items() for number in range(count)),
)
