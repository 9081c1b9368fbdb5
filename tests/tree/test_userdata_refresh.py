"""userdata.refresh: a userData that has changed since the first boot is for what runs at every boot."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureinit.config.model import Config, Imds, Platform, ProvisioningMedia, Userdata
from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.modules import read_marks
from azureinit.memory.userdata import SavedUserdata, write_userdata
from azureinit.plan.actions import Caution
from azureinit.record import Secret, replace
from azureinit.run.dispatch import run_stage
from azureinit.run.maintenance import MAINTENANCE, Situation
from azureinit.run.serving import is_due
from azureinit.run.state import Context
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import ERROR, WARN, Event, Events
from support.imds_answers import changed
from support.trees import make_tree
from support.wire import Server, answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

ID = "c0ffee00-1111-2222-3333-444444444444"
VM = Instance(data_dir="/var/lib/azure-init", vm_id=ID)
FIRST = b"#cloud-config\nwrite_files:\n- {path: /first, content: x}\n"
NEWER = b"#cloud-config\nmanage_etc_hosts: localhost\nwrite_files:\n- {path: /newer, content: x}\n"
CUSTOM = b"#cloud-config\nhostname: custom\n"


class Tree(Machine):
    def hold(self, path: str, *, timeout: float, note: bytes = b"") -> bytes:
        return b""


class World:
    def __init__(self, directory: Path, imds: Server) -> None:
        self.root, self.kernel, self.imds = make_tree(directory / "root"), directory / "kernel", imds
        self.config = Config(
            imds=Imds(endpoint=imds.url, total_retry_timeout_secs=0.5, retry_interval_secs=0.1),
            provisioning_media=ProvisioningMedia(enable=False),
            platform=Platform(require_azure=False, vm_id=ID),
            userdata=Userdata(refresh=True),
        )
        self.heard: list[Event] = []
        self.number = 0
        (self.kernel / "proc/sys/kernel/random").mkdir(parents=True)

    def saves(self, data: bytes, *, source: str = "userData", metadata: Metadata | None = None) -> None:
        machine = self.machine()
        machine.make_dirs(VM.data_dir, mode=0o700)
        known = metadata or Metadata(username="ada", hostname="web-1")
        write_userdata(machine, VM, SavedUserdata(source=source, data=Secret(data), metadata=known))

    def machine(self) -> Machine:
        return Tree(root=str(self.root), kernel=str(self.kernel), environ={})

    def says(self, user_data: bytes | None) -> None:
        said = b64encode(user_data).decode() if user_data is not None else ""
        self.imds.answers[:] = [answer(200, changed(userData=said))]

    def boot(self) -> list[int]:
        self.number += 1
        self.heard.clear()
        (self.kernel / "proc/sys/kernel/random/boot_id").write_text(f"boot-{self.number}\n")
        return [self.stage(name) for name in ("network", "config", "final")]

    def stage(self, name: str) -> int:
        machine = self.machine()
        events = Events(clock=machine.clock, listeners=(self.heard.append,))
        started = machine.clock.monotonic()
        return run_stage(name, Context(machine=machine, config=self.config, events=events, started=started))

    def hosts(self) -> str:
        return (self.root / "etc/hosts").read_text() if (self.root / "etc/hosts").exists() else ""

    def told(self, level: int) -> list[str]:
        return [event.text for event in self.heard if event.kind == "event" and event.level >= level]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Server(answer(200, changed())) as imds:
        yield World(tmp_path, imds)


def test_a_later_boot_uses_it_for_what_runs_at_every_boot(world: World) -> None:
    world.saves(FIRST)
    assert world.boot() == [0, 0, 0] and world.imds.requests == [], "the first boot has asked already"
    before = world.hosts()
    world.says(NEWER)
    assert world.boot() == [0, 0, 0]
    assert len(world.imds.requests) == 1, "one stage asks, once"
    assert world.hosts() != before and "web-1" in world.hosts()
    assert not (world.root / "newer").exists(), "what runs once for each VM stays with the first document"
    kept = world.root / VM.path("d")[1:] / "refreshed/userdata"
    assert kept.stat().st_mode & 0o777 == 0o600
    (world.root / "etc/hosts").write_text("other\n")
    world.imds.answers[:] = [answer(500)]
    assert world.boot() == [0, 0, 0]
    assert "web-1" in world.hosts() and any("not refreshed" in text for text in world.told(WARN))
    world.says(FIRST)
    (world.root / "etc/hosts").write_text("other\n")
    assert world.boot() == [0, 0, 0]
    assert world.hosts() == "other\n" and not kept.exists()


def test_nothing_is_asked_where_it_is_off_or_custom_data_alone_counts(world: World) -> None:
    world.says(NEWER)
    world.saves(FIRST, source="customData", metadata=Metadata(custom_data=Secret(FIRST), hostname="web-1"))
    assert world.boot() == [0, 0, 0] and world.boot() == [0, 0, 0]
    world.saves(FIRST)
    world.config = replace(world.config, userdata=Userdata())
    assert world.boot() == [0, 0, 0]
    assert world.imds.requests == []


def test_both_are_merged_again(world: World) -> None:
    world.config = replace(world.config, userdata=Userdata(refresh=True, use="both"))
    metadata = Metadata(custom_data=Secret(CUSTOM), username="ada", hostname="web-1")
    world.saves(CUSTOM, source="customData", metadata=metadata)
    assert world.boot() == [0, 0, 0]
    world.says(NEWER)
    assert world.boot() == [0, 0, 0]
    assert "custom" in world.hosts(), "the name is customData's, the hosts file userData's"


def test_a_mistake_in_it_is_told_and_the_first_document_goes_on(world: World) -> None:
    world.saves(FIRST)
    assert world.boot() == [0, 0, 0]
    world.says(b"#cloud-config\nruncmd:\n- fine\n- not: fine\n")
    assert world.boot()[0] == 1
    assert any("line 4, column 3" in text for text in world.told(ERROR))
    assert not read_marks(world.machine(), VM.path("modules")).failures, "no mark: the next boot asks again"
    world.says(FIRST)
    assert world.boot() == [0, 0, 0]


def changes(world: World, **more: object) -> Plan:
    (row,) = (job for job in MAINTENANCE if job.name == "userData")
    at = replace(Situation(machine=world.machine(), config=world.config, instance=VM), **more)
    found = row.facts(at) if row.wanted(world.config) else None
    return () if found is None else row.planner(at, found)


def test_without_it_a_later_boot_tells_that_userdata_has_changed(world: World) -> None:
    world.config = replace(world.config, userdata=Userdata())
    world.saves(FIRST)
    world.says(FIRST)
    assert changes(world) == () and len(world.imds.requests) == 1
    for newer in (NEWER, None):
        world.says(newer)
        (told,) = changes(world)
        assert isinstance(told, Caution) and told.name == "userData" and "has changed" in told.why
        assert "newer" not in told.why, "no content is told"


def test_nothing_is_compared_where_no_userdata_was_used_or_the_run_has_asked(world: World) -> None:
    world.says(NEWER)
    assert changes(world) == (), "refresh does that itself"
    world.config = replace(world.config, userdata=Userdata())
    assert changes(world) == (), "no customData"
    world.saves(FIRST, source="customData")
    assert changes(world) == ()
    world.saves(FIRST)
    assert changes(world, facts=object()) == ()
    world.config = replace(world.config, userdata=Userdata(enabled=False))
    assert changes(world) == ()
    assert world.imds.requests == []


def test_the_stages_are_due_at_every_boot(world: World) -> None:
    world.saves(FIRST)
    world.boot()
    assert is_due(world.machine(), world.config, VM)
    assert not is_due(world.machine(), Config(), VM)
