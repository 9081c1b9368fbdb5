"""The marks of the modules of customData: what a later boot reads out of them, also after a crash or damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.machine import Machine
from azureinit.memory.instance import Instance, clean, mark_provisioned
from azureinit.memory.modules import ALWAYS, DOCUMENT, INSTANCE, ONCE, Failure, Marks, once_path, read_marks
from azureinit.memory.pending import AWAITS, Pending, read_pending, write_pending
from azureinit.record import replace

VM = Instance(data_dir="/data", vm_id="5c1f3c8c-6a2e-4d0a-9d5e-0a4b0c9d1e2f")
PATH = VM.path("modules")
ASKED = {"network": {"bootcmd": ALWAYS, "users_groups": INSTANCE}, "config": {}, "final": {"scripts_user": INSTANCE}}
WORDS = ["started", "finished", "failed", "asked", "boot", "stage", "errors", "step"]
LEAVES = st.none() | st.integers() | st.text(max_size=4)
LISTS = st.lists(LEAVES | st.lists(LEAVES, max_size=3), max_size=3)
VALUES = LEAVES | LISTS | st.dictionaries(st.text(max_size=3), LEAVES | st.dictionaries(st.text(max_size=3), LEAVES))


class Boots:
    """A tree on which several boots follow each other."""

    def __init__(self, directory: Path) -> None:
        self.root, self.kernel = directory / "root", directory / "kernel"
        (self.root / "data").mkdir(parents=True)
        self.number = 0
        self.boot()

    def boot(self) -> Machine:
        self.number += 1
        place = self.kernel / "proc/sys/kernel/random"
        place.mkdir(parents=True, exist_ok=True)
        (place / "boot_id").write_text(f"boot-{self.number}\n")
        self.machine = Machine(root=str(self.root), kernel=str(self.kernel))
        return self.machine

    def marks(self) -> Marks:
        return read_marks(self.machine, PATH)


@pytest.fixture
def boots(tmp_path: Path) -> Boots:
    return Boots(tmp_path)


def failure(module: str = "runcmd", **values: str) -> Failure:
    fields = {"module": module, "stage": "final", "boot": "boot-1", "step": f"{module} (line 3)", **values}
    return Failure(**fields, errors=(("sh", "sh failed (exit status: 3)", "exit status: 3"),))


def test_what_is_marked_is_read_again(boots: Boots) -> None:
    marks = boots.marks()
    marks.record_asked(ASKED)
    marks.record_started("bootcmd", stage="network")
    marks.record_finished("bootcmd")
    marks.record_failed(failure())
    marks.record_done("password ada", backend="chpasswd")
    for found in (marks, boots.marks()):
        assert found.asked == ASKED
        assert found.finished == {"bootcmd"}
        assert found.failures == {"runcmd": failure()}
        assert found.done == {"password ada"}
        assert found.interrupted == ()
    assert oct((boots.root / "data" / PATH.rpartition("/")[2]).stat().st_mode)[-3:] == "600"


def test_a_module_is_interrupted_until_it_ends_and_each_boot_counts_once(boots: Boots) -> None:
    for boot in (1, 2):
        boots.marks().record_started("runcmd", stage="final")
        boots.marks().record_started("runcmd", stage="final")
        assert boots.marks().attempts("runcmd") == boot and boots.marks().interrupted == ("runcmd",)
        boots.boot()
    boots.marks().record_finished("runcmd")
    assert boots.marks().attempts("runcmd") == 0 and boots.marks().interrupted == ()


def test_a_boot_has_work_until_everything_ended_that_is_not_for_every_boot(boots: Boots) -> None:
    marks = boots.marks()
    assert marks.has_work() and marks.has_work("config"), "the document was not read yet"
    marks.record_asked({**ASKED, "config": {"scripts_per_once": ONCE}})
    assert [marks.has_work(stage) for stage in ("network", "config", "final")] == [True, True, True]
    for name in ("bootcmd", "users_groups"):
        marks.record_finished(name)
    marks.record_failed(failure("scripts_user"))
    assert not marks.has_work("final"), "a module that failed is not tried again"
    assert marks.has_work("network"), "bootcmd is for every boot"
    assert not marks.has_work("config", once=frozenset(("scripts_per_once",)))
    marks.record_failed(failure(DOCUMENT))
    assert not marks.has_work()


def test_a_torn_line_is_ignored_and_the_next_one_does_not_continue_it(boots: Boots) -> None:
    boots.marks().record_finished("bootcmd")
    path = boots.root / "data" / PATH.rpartition("/")[2]
    path.write_bytes(path.read_bytes() + b'{"finished":"users_gr')
    assert boots.marks().finished == {"bootcmd"}
    boots.marks().record_finished("ssh")
    assert boots.marks().finished == {"bootcmd", "ssh"}


@settings(max_examples=30)
@given(st.lists(st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=5), max_size=4))
def test_lines_of_another_shape_are_no_failure(entries: list[dict[str, object]]) -> None:
    marks = Marks(Machine(root="/nowhere"), PATH, entries)
    marks.has_work("network")
    assert all(replace(one, module="x").text == one.text for one in marks.failures.values())


def test_what_ran_once_outlives_the_vm_and_clean_forgets_everything(boots: Boots) -> None:
    machine, other = boots.machine, Instance(data_dir="/data", vm_id=VM.vm_id[:-1] + "0")
    for instance in (VM, other):
        read_marks(machine, instance.path("modules")).record_finished("x")
        machine.make_dirs(instance.path("d") + "/scripts", mode=0o700)
        machine.write(instance.path("d") + "/scripts/one", b"", mode=0o700)
    read_marks(machine, once_path(VM)).record_finished("scripts_per_once")
    (boots.root / "data/mine.d").mkdir()
    mark_provisioned(machine, VM, unfinished=False)
    left = set(machine.names("/data") or ())
    assert left == {f"{VM.vm_id}.{kind}" for kind in ("modules", "provisioned", "d")} | {"once.modules", "mine.d"}
    assert set(clean(machine, "/data")) == left - {"mine.d"}
    assert set(machine.names("/data") or ()) == {"mine.d"}


def test_a_pending_verdict_keeps_its_deadline(boots: Boots) -> None:
    pending = Pending(verdict=AWAITS, failure="before", until=1234.5)
    write_pending(boots.machine, VM, pending)
    assert read_pending(boots.machine, VM) == pending
