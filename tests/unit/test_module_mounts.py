"""mounts and swap: the rows of fstab as cloud-init writes them, and what is done with them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from azureinit.facts.fstab import parse_fstab
from azureinit.facts.mount_rows import NOTHING, OTHER, SWAP, UNFINISHED, Found, MountFacts, SwapFile, parse_memory
from azureinit.modules.mounts import edited, is_asked, named_devices, plan_mounts
from azureinit.modules.swap import parse_size, suggested
from azureinit.plan.actions import Caution, Declined, MakeDir, Run, Satisfied, Step, Way, Write
from support.module_runs import request_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

GIB, MIB = 1 << 30, 1 << 20
OTHERS = b"# kept\n\nUUID=0a1b / ext4 defaults 0 1\n"
TOOLS = frozenset({"fallocate", "mkswap", "swapon", "mount", "chattr"})
OPTIONS = "defaults,nofail,x-systemd.after=azure-init-userdata-network.service,_netdev,comment=cloudconfig"


def facts(*devices: Found, fstab: bytes = OTHERS, **more: Any) -> MountFacts:
    values = {"tools": TOOLS, "systemd": True, **more}
    return MountFacts(fstab=fstab, entries=parse_fstab(fstab), devices=devices, **values)


def found(name: str, path: str = "", kernel: str = "", partition: str = "") -> Found:
    return Found(name=name, partition=partition, path=path or name, kernel=kernel or path or name)


def planned(text: str, known: MountFacts, *, rooted: bool = False) -> Plan:
    return plan_mounts(request_of(text, rooted=rooted), known)


def written(plan: Plan) -> list[str]:
    """The lines that the plan adds to fstab."""
    for item in plan:
        for way in item.ways if isinstance(item, Step) else ():
            for action in way.actions if isinstance(way, Way) else ():
                if isinstance(action, Write):
                    assert isinstance(action.data, bytes)
                    assert action.data.startswith(OTHERS)
                    return action.data[len(OTHERS) :].decode().splitlines()
    return []


def ran(plan: Plan) -> list[str]:
    ways = [way for item in plan if isinstance(item, Step) for way in item.ways[:1] if isinstance(way, Way)]
    return [" ".join(action.argv) for way in ways for action in way.actions if isinstance(action, Run)]


@pytest.mark.parametrize(
    ("row", "device", "line"),
    [
        ("[sdc, /data]", found("/dev/sdc", "/dev/sdc1"), f"/dev/sdc1\t/data\tauto\t{OPTIONS}\t0\t2"),
        ("[/dev/sdc2, /data, xfs, noatime, 0, 0]", found("/dev/sdc2"),
         "/dev/sdc2\t/data\txfs\tnoatime,comment=cloudconfig\t0\t0"),
        ("[sdc.2, /data, null, 'defaults']", found("/dev/sdc", "/dev/sdc2", partition="2"),
         "/dev/sdc2\t/data\tauto\tdefaults,comment=cloudconfig\t0\t2"),
        ("['LABEL=data', /data]", Found(name="LABEL=data", partition="", kernel="/dev/sdc1"),
         f"LABEL=data\t/data\tauto\t{OPTIONS}\t0\t2"),
        ("['server:/share', /data, nfs]", found("x"), f"server:/share\t/data\tnfs\t{OPTIONS}\t0\t2"),
        ("[tmpfs, /data, tmpfs, 'size=1G']", found("x"), "tmpfs\t/data\ttmpfs\tsize=1G,comment=cloudconfig\t0\t2"),
        ("[/dev/sdc, '/my data']", found("/dev/sdc"), f"/dev/sdc\t/my\\040data\tauto\t{OPTIONS}\t0\t2"),
    ],
)  # fmt: skip
def test_rows_are_those_of_cloud_init(row: str, device: Found, line: str) -> None:
    plan = planned(f"mounts:\n- {row}\n", facts(device))
    assert written(plan) == [line]
    assert ran(plan) == ["systemctl daemon-reload", f"mount {'/my data' if 'my' in line else '/data'}"]


AFTER = "x-systemd.after=azure-init-userdata-network.service"


@pytest.mark.parametrize(
    ("options", "written_as"),
    [
        ("defaults,nofail,x-systemd.requires=cloud-init.service", f"defaults,nofail,{AFTER}"),
        ("x-systemd.requires=cloud-init.service,_netdev", f"{AFTER},_netdev"),
        ("nofail,x-systemd.after=cloud-init-network.service,x-systemd.requires=cloud-init.service", f"nofail,{AFTER}"),
        # Before basic.target, which the stage waits for: ordered after it, neither would start.
        ("defaults,x-systemd.requires=cloud-init.service", "defaults"),
        ("x-systemd.requires=cloud-init.service", "defaults"),
        ("nofail,x-systemd.before=cloud-final.service,ro", "nofail,ro"),
        ("nofail,x-systemd.requires=my.service,x-systemd.device-timeout=2",
         "nofail,x-systemd.requires=my.service,x-systemd.device-timeout=2"),
    ],
)  # fmt: skip
def test_units_of_cloud_init_are_not_required(options: str, written_as: str) -> None:
    """systemd mounts nothing that requires a unit which is not there."""
    plan = planned(f"mounts: [[/dev/sdc1, /data, ext4, '{options}']]\n", facts(found("/dev/sdc1")))
    assert written(plan) == [f"/dev/sdc1\t/data\text4\t{written_as},comment=cloudconfig\t0\t2"]


def test_default_fields_of_the_document() -> None:
    text = "mount_default_fields: [null, null, ext4, 'defaults,noatime', '0', '0']\nmounts: [[sdc, /data]]\n"
    assert written(planned(text, facts(found("/dev/sdc")))) == [
        "/dev/sdc\t/data\text4\tdefaults,noatime,comment=cloudconfig\t0\t0"
    ]


def test_null_removes_the_rows_before_it() -> None:
    text = "mounts:\n- [/dev/sdc, /a]\n- [/dev/sdd, /b]\n- [/dev/sdc, null]\n"
    plan = planned(text, facts(found("/dev/sdc"), found("/dev/sdd")))
    assert [line.split("\t")[0] for line in written(plan)] == ["/dev/sdd"]


def test_our_rows_are_written_anew_and_those_of_others_stay() -> None:
    old = OTHERS + b"/dev/sdq\t/old\tauto\tdefaults,comment=cloudconfig\t0\t2\n"
    text = "mounts: [[/dev/sdc, /data]]\n"
    first = planned(text, facts(found("/dev/sdc"), fstab=old))
    assert written(first) == [f"/dev/sdc\t/data\tauto\t{OPTIONS}\t0\t2"]
    after = edited(old, written(first))
    again = planned(text, facts(found("/dev/sdc"), fstab=after, mounted=("/data",)))
    assert all(isinstance(item, Satisfied) for item in again), again


def test_a_swap_file_beside_rows_is_stable() -> None:
    text = "mounts: [[/dev/sdc, /data]]\nswap: {size: 1G}\n"
    first = planned(text, facts(found("/dev/sdc"), swap=swap_file()))
    assert [line.split("\t")[0] for line in written(first)] == ["/dev/sdc", "/swap.img"]
    after = edited(OTHERS, written(first))
    known = facts(found("/dev/sdc"), fstab=after, mounted=("/data",), swap=swap_file(state=SWAP, active=True))
    assert all(isinstance(item, Satisfied) for item in planned(text, known))


def test_a_last_line_without_a_newline_is_kept_whole() -> None:
    assert edited(b"a b c d 0 0", ["x"]) == b"a b c d 0 0\nx\n"


def test_a_mount_point_of_others_is_left_alone() -> None:
    kept = OTHERS + b"LABEL=home /home ext4 defaults 0 2\n"
    plan = planned("mounts: [[/dev/sdc, /home/]]\n", facts(found("/dev/sdc"), fstab=kept))
    assert [type(item) for item in plan] == [Caution]


def test_a_device_that_is_not_there() -> None:
    plan = planned("mounts: [[/dev/sdc, /data], [ebs1, /x]]\n", facts(Found(name="/dev/sdc", partition="")))
    assert written(plan) == [f"/dev/sdc\t/data\tauto\t{OPTIONS}\t0\t2"]
    assert ran(plan) == ["systemctl daemon-reload"]
    assert [item.name for item in plan if isinstance(item, Caution)] == [
        "mounts /dev/sdc (line 2)",
        "mounts ebs1 (line 2)",
    ]
    made = [way for item in plan if isinstance(item, Step) for way in item.ways if isinstance(way, Way)]
    assert MakeDir(path="/data", mode=0o755, kept=True) in [action for way in made for action in way.actions]


def test_swap_rows_and_rows_that_are_not_mounted_now() -> None:
    text = "mounts:\n- [/dev/sdc1, none, swap, sw, '0', '0']\n- [/dev/sdd, /later, auto, noauto]\n"
    known = (found("/dev/sdc1"), found("/dev/sdd"))
    assert ran(planned(text, facts(*known))) == ["systemctl daemon-reload", "swapon /dev/sdc1"]
    assert "swapon /dev/sdc1" not in ran(planned(text, facts(*known, active_swaps=("/dev/sdc1",))))


def test_temporary_disks_are_not_in_its_rows() -> None:
    request = request_of("mounts: [[ephemeral0, /mnt], [ephemeral0.1, /x]]\n", rooted=False)
    assert not written(plan_mounts(request, facts())) and not named_devices(request)


def test_a_tree_gets_the_rows_and_the_directories() -> None:
    plan = planned("mounts: [[/dev/sdc, /data]]\n", facts(found("/dev/sdc"), systemd=False), rooted=True)
    assert len(written(plan)) == 1 and not ran(plan)
    assert [item.name for item in plan if isinstance(item, Caution)] == ["mounts /data (line 2)"]


# ---- swap


def swap_file(**more: Any) -> SwapFile:
    values = {"path": "/swap.img", "free": 20 * GIB, "filesystem": "ext4", "memory": 2 * GIB, **more}
    return SwapFile(**values)


def test_a_swap_file() -> None:
    plan = planned("swap: {size: 512M}\n", facts(swap=swap_file()))
    assert written(plan) == ["/swap.img\tnone\tswap\tsw\t0\t0"]
    commands = ran(plan)
    assert commands[0].endswith(f"swapfile /swap.img {512 * MIB}") and "fallocate" in commands[0]
    assert commands[1:] == ["swapon /swap.img", "systemctl daemon-reload"]


def test_a_swap_file_that_is_there() -> None:
    fstab = OTHERS + b"/swap.img\tnone\tswap\tsw\t0\t0\n"
    done = planned("swap: {size: 1G}\n", facts(fstab=fstab, swap=swap_file(state=SWAP, size=GIB, active=True)))
    assert all(isinstance(item, Satisfied) for item in done), done
    unused = planned("swap: {size: 1G}\n", facts(fstab=fstab, swap=swap_file(state=SWAP, size=GIB)))
    assert ran(unused) == ["swapon /swap.img"]
    begun = planned("swap: {size: 1G}\n", facts(swap=swap_file(state=UNFINISHED)))
    assert len(written(begun)) == 1
    other = planned("swap: {size: 1G}\n", facts(swap=swap_file(state=OTHER)))
    assert [type(item) for item in other] == [Caution]


def test_a_swap_file_that_does_not_fit() -> None:
    (step,) = planned("swap: {size: 30G}\n", facts(swap=swap_file(state=NOTHING)))
    assert isinstance(step, Step) and isinstance(step.ways[0], Declined)
    assert "20480 MiB" in step.ways[0].why


def test_a_swap_file_in_a_mount_waits_for_it() -> None:
    text = "mounts: [[/dev/sdc, /data]]\nswap: {filename: /data/swap, size: 1G}\n"
    first = planned(text, facts(found("/dev/sdc"), swap=swap_file(path="/data/swap")))
    assert not any("swapon" in command for command in ran(first)) and len(written(first)) == 1
    after = edited(OTHERS, written(first))
    known = facts(found("/dev/sdc"), fstab=after, mounted=("/data",), swap=swap_file(path="/data/swap"))
    second = planned(text, known)
    assert any("swapon /data/swap" in command for command in ran(second))
    assert not written(second) and any("_netdev" in item.why for item in second if isinstance(item, Caution))
    local = text.replace("/data]", "/data, ext4, nofail]")
    after = edited(OTHERS, written(planned(local, facts(found("/dev/sdc"), swap=swap_file(path="/data/swap")))))
    known = facts(found("/dev/sdc"), fstab=after, mounted=("/data",), swap=swap_file(path="/data/swap"))
    assert written(planned(local, known))[-1] == "/data/swap\tnone\tswap\tsw\t0\t0"


@pytest.mark.parametrize("text", ["swap: {size: 0}", "swap: {filename: /x}", "swap: {size: 0M}"])
def test_no_swap_is_asked_for(text: str) -> None:
    assert not is_asked(request_of(text))


@pytest.mark.parametrize(
    ("text", "size"),
    [("1024", 1024), ("1K", 1024), ("1KB", 1024), ("1MiB", MIB), ("1.5G", 3 * GIB // 2), (".5M", MIB // 2),
     ("2T", 2 << 40), ("auto", None), ("", None), ("-1", None), ("inf", None), ("nan", None), ("1X", None)],
)  # fmt: skip
def test_sizes(text: str, size: int | None) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("memory", "free", "most", "size"),
    [
        (2 * GIB, 100 * GIB, None, 2 * GIB),
        (2 * GIB, 4 * GIB, None, GIB),
        (8 * GIB, 100 * GIB, None, 4 * GIB),
        (64 * GIB, 100 * GIB, None, 8 * GIB),
        (64 * GIB, 100 * GIB, GIB, GIB),
        (8 * GIB, 2 * GIB, 4 * GIB, 2 * GIB * 9 // 10),
    ],
)
def test_the_automatic_size(memory: int, free: int, most: int | None, size: int) -> None:
    assert suggested(memory=memory, free=free, most=most) == size


def test_memory() -> None:
    assert parse_memory(b"MemTotal:        2048 kB\nMemFree: 1 kB\n") == 2 * MIB
    assert parse_memory(b"") is None


def test_random_rows_keep_every_line_of_others() -> None:
    seed = random.Random(15)
    values = ["/dev/sdc", "sdc", "LABEL=x", "null", "/data", "auto", "'a b'", "none", "swap", "1", "true", "1.5", "''",
              "ephemeral0", "'#x'", "\"a\\nb\"", "tmpfs", "'é'", "host:/x", "/swap.img", "data.1"]  # fmt: skip
    for _ in range(150):
        count = range(seed.randint(1, 4))
        rows = [f"- [{', '.join(seed.choice(values) for _ in range(seed.randint(1, 6)))}]" for _ in count]
        text = "mounts:\n" + "\n".join(rows) + "\nswap: {size: auto}\n"
        names = named_devices(request_of(text))
        devices = [Found(name=name, partition=number, kernel=seed.choice(["", "/dev/sdc"])) for name, number in names]
        lines = written(planned(text, facts(*devices, swap=swap_file()), rooted=seed.random() < 0.5))
        for line in lines:
            assert len(line.split("\t")) == 6 and len(line.split(" ")) == 1
