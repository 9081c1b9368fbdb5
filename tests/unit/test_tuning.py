"""The [kernel] settings for disks, udev and random numbers: facts, plan and result."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.apply.executor import apply_step
from azureinit.config.model import Kernel
from azureinit.errors import LocalError, PlanStale
from azureinit.facts.kernel import (
    FED,
    GENERATED,
    GENERATOR,
    HEADER,
    NOTED,
    RULES,
    TIMEOUT_RULES,
    Entropy,
    Rules,
    Timeout,
    parse_release,
    read_entropy,
    read_persistent_net,
    read_timeout_rules,
    read_timeouts,
)
from azureinit.machine import Machine
from azureinit.machine.kernel import write_in_place
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import Caution, Link, MakeDir, Satisfied, Step, Way, Write
from azureinit.plan.kernel import arguments, plan_entropy, plan_persistent_net, plan_timeouts
from azureinit.plan.show import as_json, as_text
from azureinit.record import Secret


def put(root: Path, name: str, content: str | bytes) -> None:
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def actions(item: object) -> tuple[object, ...]:
    assert isinstance(item, Step)
    (way,) = item.ways
    assert isinstance(way, Way)
    return way.actions


def carry_out(machine: Machine, plan: tuple[object, ...]) -> None:
    for item in plan:
        if isinstance(item, Step):
            apply_step(machine, item, journal=MemoryJournal(), deadline=float("inf"))


# ---- disks


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """The kernel's files about disks of every kind."""
    put(tmp_path, "sys/block/sda/device/timeout", "30\n")
    put(tmp_path, "sys/block/sdb/device/timeout", "300\n")
    put(tmp_path, "sys/block/sdc/size", "no timeout: it is just leaving\n")
    put(tmp_path, "sys/block/nvme0n1/queue/io_timeout", "30000\n")
    put(tmp_path, "sys/block/nvme1n1/queue/rotational", "a head of several paths has no timeout\n")
    put(tmp_path, "sys/block/sr0/device/timeout", "30\n")
    put(tmp_path, "sys/block/loop0/queue/io_timeout", "30000\n")
    return tmp_path


def test_the_disks_that_have_a_timeout_are_seen_and_drives_are_not(disks: Path) -> None:
    found = {one.path: (one.value, one.scale) for one in read_timeouts(Machine(kernel=str(disks)))}
    assert found == {
        "/sys/block/sda/device/timeout": (b"30\n", 1),
        "/sys/block/sdb/device/timeout": (b"300\n", 1),
        "/sys/block/nvme0n1/queue/io_timeout": (b"30000\n", 1000),
    }


def test_under_another_root_only_the_rule_is_written(disks: Path, tmp_path: Path) -> None:
    assert read_timeouts(Machine(root=str(tmp_path / "tree"), kernel=str(disks))) == ()


def test_the_disks_that_are_here_are_told_in_place_and_those_to_come_by_a_rule(disks: Path, tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / RULES.lstrip("/")).mkdir(parents=True)
    machine, running = Machine(root=str(root), kernel=str(disks)), Machine(kernel=str(disks))
    before = (disks / "sys/block/sda/device/timeout").stat().st_ino
    plan = plan_timeouts(seconds=300, rules=read_timeout_rules(machine), timeouts=read_timeouts(running))
    assert [item.name for item in plan] == ["disk timeout rule", "disk timeout"]
    assert {action.path for action in actions(plan[1]) if isinstance(action, Write)} == {
        "/sys/block/sda/device/timeout",
        "/sys/block/nvme0n1/queue/io_timeout",
    }
    carry_out(machine, plan)
    assert (disks / "sys/block/sda/device/timeout").read_text() == "300\n"
    assert (disks / "sys/block/sda/device/timeout").stat().st_ino == before
    assert (disks / "sys/block/nvme0n1/queue/io_timeout").read_text() == "300000\n"
    assert (root / TIMEOUT_RULES.lstrip("/")).read_bytes() == HEADER + (
        b'ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNEL=="sd*", TEST=="device/timeout", '
        b'ATTR{device/timeout}="300"\n'
        b'ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNEL=="nvme*", TEST=="queue/io_timeout", '
        b'ATTR{queue/io_timeout}="300000"\n'
    )
    again = plan_timeouts(seconds=300, rules=read_timeout_rules(machine), timeouts=read_timeouts(running))
    assert again == (Satisfied(name="disk timeout", why="is 300 s"),)


def test_a_timeout_that_somebody_changed_meanwhile_is_a_stale_plan(disks: Path, tmp_path: Path) -> None:
    timeout = Timeout(path="/sys/block/sda/device/timeout", value=b"60\n", scale=1)
    (_rule, now) = plan_timeouts(seconds=300, rules=None, timeouts=(timeout,))
    with pytest.raises(PlanStale, match="sda/device/timeout changed"):
        carry_out(Machine(root=str(tmp_path / "tree"), kernel=str(disks)), (now,))


def test_a_timeout_that_no_kernel_counts_to_is_refused() -> None:
    (item,) = plan_timeouts(seconds=1 << 31, rules=None, timeouts=())
    assert isinstance(item, Caution) and "more than a day" in item.why


def test_a_file_of_the_kernel_is_never_made(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=f"cannot write {tmp_path}/sys/block/sdz/device/timeout: No such file"):
        write_in_place(Machine(kernel=str(tmp_path)), "/sys/block/sdz/device/timeout", b"1\n")


# ---- udev's rules


def rules(tmp_path: Path) -> tuple[Rules, ...]:
    return read_persistent_net(Machine(root=str(tmp_path)))


def test_where_there_are_no_such_rules_nothing_is_masked(tmp_path: Path) -> None:
    assert plan_persistent_net(rules(tmp_path)) == (Satisfied(name="persistent net rules", why="there are none"),)


@pytest.mark.parametrize("place", ["usr/lib/udev/rules.d", "lib/udev/rules.d"])
def test_a_packaged_generator_is_masked_and_not_touched(tmp_path: Path, place: str) -> None:
    put(tmp_path, f"{place}/{GENERATOR}", "packaged")
    (tmp_path / "etc/udev").mkdir(parents=True)
    carry_out(Machine(root=str(tmp_path)), plan_persistent_net(rules(tmp_path)))
    assert (tmp_path / "etc/udev/rules.d" / GENERATOR).readlink() == Path("/dev/null")
    assert (tmp_path / place / GENERATOR).read_text() == "packaged"
    (again,) = plan_persistent_net(rules(tmp_path))
    assert again == Satisfied(name=f"mask {GENERATOR}", why="is masked")


def test_what_the_generator_wrote_is_masked_and_kept_beside(tmp_path: Path) -> None:
    put(tmp_path, f"{RULES}/{GENERATED}", 'ATTR{address}=="00:0d:3a:01:02:03", NAME="eth0"\n')
    (item,) = plan_persistent_net(rules(tmp_path))
    assert [type(action) for action in actions(item)] == [MakeDir, Write, Link]
    carry_out(Machine(root=str(tmp_path)), (item,))
    place = tmp_path / RULES.lstrip("/")
    assert (place / GENERATED).readlink() == Path("/dev/null")
    kept = (place / (GENERATED + NOTED)).read_text()
    assert kept.startswith(HEADER.decode()) and kept.endswith('00:0d:3a:01:02:03", NAME="eth0"\n')
    assert not (GENERATED + NOTED).endswith(".rules")  # udev reads nothing else


def test_a_run_that_died_between_the_note_and_the_link_is_taken_up_and_loses_nothing(tmp_path: Path) -> None:
    put(tmp_path, f"{RULES}/{GENERATED}{NOTED}", "what was kept")
    carry_out(Machine(root=str(tmp_path)), plan_persistent_net(rules(tmp_path)))
    place = tmp_path / RULES.lstrip("/")
    assert (place / GENERATED).readlink() == Path("/dev/null")
    assert (place / (GENERATED + NOTED)).read_text() == "what was kept"


def test_what_is_masked_already_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "etc/udev/rules.d").mkdir(parents=True)
    (tmp_path / "etc/udev/rules.d" / GENERATOR).symlink_to("/dev/null")
    found = rules(tmp_path)
    assert plan_persistent_net(found) == (Satisfied(name=f"mask {GENERATOR}", why="is masked"),)
    assert not found[0].noted


def test_an_administrator_s_own_rules_are_left_alone(tmp_path: Path) -> None:
    put(tmp_path, f"{RULES}/{GENERATOR}", "my own")
    (tmp_path / RULES.lstrip("/") / GENERATED).symlink_to("/opt/rules")
    plan = plan_persistent_net(rules(tmp_path))
    assert [type(item) for item in plan] == [Caution, Caution]
    assert all("is the administrator's: not changed" in item.why for item in plan)


# ---- random numbers

TABLE = Secret(bytes(range(7, 71)))


@pytest.mark.parametrize(
    ("release", "numbers"),
    [
        ("6.1.0-25-amd64", (6, 1, 0)),
        ("5.14.0-503.el9.x86_64", (5, 14, 0)),
        ("6.9-rc1", (6, 9)),
        ("6.10.3", (6, 10, 3)),
        ("2.6.32-754.el6.x86_64", (2, 6, 32)),
        ("", ()),
        ("next", ()),
    ],
)
def test_a_release_is_read_as_numbers(release: str, numbers: tuple[int, ...]) -> None:
    assert parse_release(release) == numbers


@given(st.text())
def test_no_release_is_too_strange(release: str) -> None:
    assert all(number >= 0 for number in parse_release(release))


@pytest.mark.parametrize(
    ("entropy", "why"),
    [
        (Entropy(release=(6, 9, 0)), "the kernel reads it itself"),
        (Entropy(release=(6, 10)), "the kernel reads it itself"),
        (Entropy(release=(6, 8, 12)), "the host offers none"),
        (Entropy(release=(6, 1), table=TABLE, fed=True), "was fed in this boot"),
    ],
)
def test_the_kernel_is_fed_only_what_it_lacks(entropy: Entropy, why: str) -> None:
    assert plan_entropy(entropy) == (Satisfied(name="entropy", why=why),)


def test_a_boot_feeds_the_table_to_the_kernel_once_and_shows_it_to_nobody(tmp_path: Path) -> None:
    root, kernel = tmp_path / "root", tmp_path / "kernel"
    put(kernel, "dev/random", "")
    (root / "run").mkdir(parents=True)
    machine = Machine(root=str(root), kernel=str(kernel))
    plan = plan_entropy(Entropy(release=(5, 15), table=TABLE))
    assert [type(action) for action in actions(plan[0])] == [Write, MakeDir, Write]
    shown = as_text(plan, privileged=True) + as_json(plan)
    assert "the host offers 64 bytes" in shown and TABLE.text()[:8] not in shown
    carry_out(machine, plan)
    assert (kernel / "dev/random").read_bytes() == TABLE.reveal()
    assert (root / FED.lstrip("/")).exists()


def test_a_machine_that_does_not_run_is_not_fed(tmp_path: Path) -> None:
    put(tmp_path, "kernel/sys/firmware/acpi/tables/OEM0", b"entropy")
    assert read_entropy(Machine(root=str(tmp_path / "root"), kernel=str(tmp_path / "kernel"))).table is None


# ---- the command line


def test_the_words_are_those_of_the_machine_s_own_serial_line() -> None:
    assert arguments(Kernel(numa_off=True), arm=False) == ("numa=off",)
    assert arguments(Kernel(serial_console=True), arm=False) == ("console=ttyS0", "earlyprintk=ttyS0")
    assert arguments(Kernel(serial_console=True, numa_off=True), arm=True) == (
        "numa=off",
        "console=ttyAMA0",
        "earlycon=pl011,0xeffec000",
    )
    assert arguments(Kernel(), arm=False) == ()
