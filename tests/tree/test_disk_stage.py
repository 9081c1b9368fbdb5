"""The disk stage on made-up machines: rounds of look and steps, the result, and every reason to stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from azureinit.cli.disk import plan, status
from azureinit.cli.provision import make_context
from azureinit.config.load import EPHEMERAL_SETUP
from azureinit.config.model import Config, Disk, Platform, Telemetry
from azureinit.errors import ConfigInvalid, LocalError, LockTimeout, NotConverged, StepFailed, VmIdUnknown
from azureinit.facts.temporary_disks import DiskFacts
from azureinit.memory.pool import OFFERED, REUSED, WAITING, Marker, write_marker
from azureinit.plan.actions import Caution, Satisfied, Step, Way, Write
from azureinit.record import replace
from azureinit.run.disks import LOCK, LOOKS, MOST_ROUNDS, RESULT, Look, converge, disks, set_up
from azureinit.run.dispatch import RUN, run_stage
from azureinit.run.identify import identify
from azureinit.run.state import Context
from azureinit.telemetry.events import WARN, Event, Events
from support.disk_trees import DiskTree, TreeMachine

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

ID = "c0ffee00-1111-2222-3333-444444444444"


class World:
    def __init__(self, tree: DiskTree, *, vm_id: str = ID, machine: TreeMachine | None = None) -> None:
        self.tree, self.machine = tree, machine or tree.machine()
        self.heard: list[Event] = []
        config = Config(platform=Platform(require_azure=False, vm_id=vm_id), disk=Disk(setup="auto"))
        self.context = Context(
            machine=self.machine,
            config=config,
            events=Events(clock=self.machine.clock, listeners=(self.heard.append,)),
            started=self.machine.clock.monotonic(),
        )

    def set_up(self) -> int:
        return set_up(self.context, identify(self.context, end_if_done=False))

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.tree.place / RESULT.lstrip("/")).read_text())
        return found

    def warned(self) -> list[str]:
        return [event.text for event in self.heard if event.level >= WARN]

    def converge(self, *plans: Plan) -> tuple[Look, int]:
        """The plans of one look after the other; the last one is repeated."""
        count = [0]

        def read() -> Look:
            count[0] += 1
            return Look(facts=DiskFacts(), sets=(), plan=plans[min(count[0], len(plans)) - 1])

        return converge(self.context, read, deadline=float("inf")), count[0]


@pytest.fixture
def tree(tmp_path: Path) -> DiskTree:
    made = DiskTree(tmp_path)
    made.gen2(resource=False)
    return made


def step(name: str, path: str, **values: Any) -> Step:
    return Step(name=name, why="a test", ways=(Way(backend="files", actions=(Write(path=path, data=b"x", **values),)),))


# ---- rounds


def test_a_plan_without_steps_ends_the_rounds_at_once(tree: DiskTree) -> None:
    last, looks = World(tree).converge((Satisfied(name="data", why="mounted"),))
    assert looks == 1 and last.plan == (Satisfied(name="data", why="mounted"),)


def test_later_rounds_may_have_other_and_more_steps(tree: DiskTree) -> None:
    first, second = (step("array", "/etc/one"),), (step("mkfs", "/etc/two"), step("mount", "/etc/three"))
    _last, looks = World(tree).converge(first, second, ())
    assert looks == 3
    assert all((tree.place / f"etc/{name}").exists() for name in ("one", "two", "three"))


def test_the_same_steps_twice_are_a_failure_that_names_them(tree: DiskTree) -> None:
    with pytest.raises(NotConverged, match=r"still something to do: array \(a test\)"):
        World(tree).converge((step("array", "/etc/one"),))


def test_the_number_of_rounds_is_limited(tree: DiskTree) -> None:
    plans = [(step(f"step {number}", "/etc/one"),) for number in range(MOST_ROUNDS + 3)]
    with pytest.raises(NotConverged, match=f"step {MOST_ROUNDS - 1} "):
        World(tree).converge(*plans)


def test_a_plan_that_was_stale_is_made_again(tree: DiskTree) -> None:
    stale = (step("fstab", "/etc/fstab", was=b"something else"),)
    world = World(tree)
    _last, looks = world.converge(stale, (step("fstab", "/etc/fstab"),), ())
    assert looks == 3 and (tree.place / "etc/fstab").read_bytes() == b"x"


def test_what_is_refused_after_a_step_is_looked_at_again(tree: DiskTree) -> None:
    """udev may be reading the partitions of a device that the step has written to."""
    refusal = Caution(name="refused: local NVMe disks", why="in use")
    world = World(tree)
    last, looks = world.converge((step("table", "/etc/one"),), (refusal,), (step("mkfs", "/etc/two"),), ())
    assert (looks, last.plan, world.warned()) == (4, (), [])
    last, looks = world.converge((step("table", "/etc/one"),), (refusal,))
    assert (looks, last.plan, world.warned()) == (2 + LOOKS, (refusal,), ["in use"])
    assert World(tree).converge((refusal,))[1] == 1


def test_a_caution_is_told_once_and_as_a_warning(tree: DiskTree) -> None:
    world = World(tree)
    caution = Caution(name="nvme1n1", why="left alone: it holds xfs")
    world.converge((caution, step("one", "/etc/one")), (caution, step("two", "/etc/two")), (caution,))
    assert world.warned() == ["left alone: it holds xfs"]


def test_a_step_that_fails_ends_the_rounds(tree: DiskTree) -> None:
    with pytest.raises(StepFailed, match="one: files: "):
        World(tree).converge((step("one", "/nowhere/at/all"), step("two", "/etc/two")))
    assert not (tree.place / "etc/two").exists()


# ---- the stage


def test_where_nothing_is_temporary_nothing_is_said_and_nothing_changes(tree: DiskTree) -> None:
    world = World(tree)
    before = (tree.place / "etc/fstab").read_bytes()
    assert world.set_up() == 0
    assert world.heard == []
    assert (tree.place / "etc/fstab").read_bytes() == before
    result = world.result()
    assert result["state"] == "done" and [row["name"] for row in result["disks"]] == ["sda"]
    assert result["disks"][0]["temporary"] is False


class Witness(TreeMachine):
    """Notes whether the result existed when the disks were listed."""

    there: list[bool]

    def names(self, path: str) -> tuple[str, ...] | None:
        if path.startswith("/sys/"):
            self.there.append(self.stat(RESULT) is not None)
        return super().names(path)


def test_the_result_exists_before_the_disks_are_listed(tree: DiskTree) -> None:
    """A disk that appears after the list was read starts the unit for late disks, whose condition is this file."""
    place = str(tree.place)
    machine = Witness(root=place, kernel=place, search=())
    machine.claimed, machine.described, machine.there = {}, {}, []
    World(tree, machine=machine).set_up()
    assert machine.there and all(machine.there)


@pytest.mark.parametrize(("boot", "code", "state"), [(False, 1, "refused"), (True, 0, "done")])
def test_data_of_the_user_fail_an_operators_setup_and_no_boot(
    tree: DiskTree, boot: bool, code: int, state: str
) -> None:
    tree.local_nvme("S1")
    with (tree.place / "dev/nvme0n1").open("r+b") as file:
        file.write(b"mine")
    world = World(tree)
    identity = identify(world.context, end_if_done=False)
    assert set_up(world.context, identity, boot=boot) == code
    assert world.result()["state"] == state


def test_without_a_vm_id_nothing_is_done(tree: DiskTree) -> None:
    world = World(tree, vm_id="")
    with pytest.raises(VmIdUnknown, match="temporary disks are left alone: the firmware gives no VM id"):
        world.set_up()
    assert not (tree.place / RESULT.lstrip("/")).exists()


def test_the_log_of_a_stage_says_what_to_do(tree: DiskTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUN, "disk", set_up)  # as on the running system, which a tree is not
    world = World(tree, vm_id="")
    assert run_stage("disk", world.context) == VmIdUnknown.exit_code
    assert world.warned() == ["temporary disks are left alone: the firmware gives no VM id; set platform.vm_id"]


def test_without_the_data_directorys_mount_nothing_is_done(tree: DiskTree) -> None:
    world = World(tree)
    world.context = replace(world.context, unmounted="/var")
    with pytest.raises(LocalError, match="left alone: /var is not mounted"):
        world.set_up()


def test_a_mistake_in_the_file_of_azure_vm_utils_stops_the_setup(tree: DiskTree) -> None:
    tree.write(EPHEMERAL_SETUP.lstrip("/"), "AZURE_EPHEMERAL_DISK_SETUP_FS_TYPE=zfs\n")
    world = World(tree)
    with pytest.raises(ConfigInvalid, match="left alone: .*FS_TYPE must be one of ext4, xfs, not zfs"):
        world.set_up()
    assert not (tree.place / RESULT.lstrip("/")).exists()
    with pytest.raises(ConfigInvalid, match="FS_TYPE must be one of"):
        plan(world.context, in_json=False)


def test_the_result_is_not_that_of_an_earlier_run(tree: DiskTree) -> None:
    world = World(tree)
    assert world.set_up() == 0 and world.result()["state"] == "done"
    tree.write(EPHEMERAL_SETUP.lstrip("/"), "AZURE_EPHEMERAL_DISK_SETUP_FS_TYPE=zfs\n")
    with pytest.raises(ConfigInvalid):
        world.set_up()
    assert world.result()["state"] == "failed" and "FS_TYPE" in world.result()["failure"]


def test_status_and_plan_say_what_a_boot_does(tree: DiskTree, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(tree)
    assert plan(world.context, in_json=False) == 0
    assert capsys.readouterr().out == "There is no temporary disk.\n"
    tree.local_nvme("SERIAL0", size=40)
    off = replace(world.context, config=replace(world.context.config, disk=Disk()))
    for command in (status, plan):
        command(world.context, in_json=False)
        assert "boot" not in capsys.readouterr().out
        command(off, in_json=False)
        assert "\ndisk.setup is off: a boot sets up no temporary disk." in capsys.readouterr().out
        command(off, in_json=True)
        json.loads(capsys.readouterr().out)
    unit = "etc/systemd/system/multi-user.target.wants/azure-ephemeral-disk-setup.service"
    tree.write(unit, "")
    tree.write("usr/lib/systemd/system/azure-ephemeral-disk-setup.service", "")
    for command in (status, plan):
        command(world.context, in_json=False)
        assert f"to azure-vm-utils, whose service is enabled:\n/{unit}\n" in capsys.readouterr().out


def test_two_runs_do_not_work_at_the_same_time(tree: DiskTree) -> None:
    world, other = World(tree), tree.machine()
    other.make_dirs("/run/azure-init", mode=0o700)
    other.hold(LOCK, timeout=0)
    world.context = replace(world.context, ends=world.machine.clock.monotonic() + 0.2)
    with pytest.raises(LockTimeout):
        world.set_up()


def test_off_and_a_tree_that_does_not_run_are_told_and_left_alone(tree: DiskTree) -> None:
    world = World(tree)
    identity = identify(world.context, end_if_done=False)
    assert disks(world.context, identity) == 0
    off = replace(world.context, config=replace(world.context.config, disk=Disk()))
    assert disks(off, identity) == 0
    told = [event.text.partition(": ")[2] for event in world.heard]
    assert told == ["this tree is not the running system", "disk.setup is off"]
    assert not (tree.place / RESULT.lstrip("/")).exists()


def test_a_failure_is_in_the_result(tree: DiskTree) -> None:
    """Facts cannot be read: /etc/fstab is a directory."""
    fstab = tree.place / "etc/fstab"
    fstab.unlink()
    fstab.mkdir()
    world = World(tree)
    with pytest.raises(LocalError, match="fstab"):
        world.set_up()
    assert world.result()["state"] == "failed" and "fstab" in world.result()["failure"]


def test_a_disk_with_data_is_left_alone_and_the_host_learns_why(tree: DiskTree) -> None:
    """Exit code 1, as azure-vm-utils: the setup was asked for, and refused."""
    name = tree.local_nvme("SERIAL1", size=64)
    with (tree.place / f"dev/{name}").open("r+b") as disk:
        disk.write(b"precious")
    before = (tree.place / f"dev/{name}").read_bytes()
    tree.install("mkfs.ext4", "mount")
    for place in ("var/lib/hyperv", "var/log"):
        (tree.place / place).mkdir(parents=True)
    world = World(tree)
    config = replace(world.context.config, telemetry=Telemetry(trace=False, console=False))
    world.context = make_context(tree.machine(), config, started=world.context.started, stage="disk")
    assert world.set_up() == 1
    world.context.events.flush()
    assert (tree.place / f"dev/{name}").read_bytes() == before
    pool = (tree.place / "var/lib/hyperv/.kvp_pool_1").read_bytes()
    assert b"left alone: it is not blank: there is data at byte 0" in pool
    log = (tree.place / "var/log/azure-init.log").read_text()
    assert f"/dev/{name}: left alone: it is not blank" in log
    result = world.result()
    (row,) = (row for row in result["disks"] if row["name"] == name)
    assert (result["state"], row["state"], row["why"]) == (
        "refused",
        "left alone",
        "it is not blank: there is data at byte 0",
    )


@pytest.mark.parametrize(("state", "left"), [(OFFERED, True), (WAITING, True), (REUSED, False)])
def test_in_a_pool_nothing_is_made_on_a_temporary_disk(tree: DiskTree, state: str, left: bool) -> None:
    """The unit starts there if the run has died. It fails, and so the customer's run starts it again."""
    world = World(tree)
    world.machine.make_dirs("/var/lib/azure-init", mode=0o700)
    write_marker(world.machine, "/var/lib/azure-init", Marker(state=state, type="Running", firmware_id=ID))
    if left:
        with pytest.raises(LocalError, match="waits in a pool"):
            world.set_up()
    else:
        assert world.set_up() == 0
    assert (world.machine.stat(RESULT) is None) is left
