"""A whole run on a tree, with a minimal platform and a clock that the test controls.

A listener is how a test reaches into a run: it hears every step begin and end, and may then move the clock or a file.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Config, Imds, Platform, ProvisioningMedia, Report, Run, Wireserver
from azureinit.errors import AzureInitError, ConfigInvalid, NoNetwork, ReadOnly
from azureinit.facts.gather import read_facts
from azureinit.machine import Machine
from azureinit.memory.sealed import seal, unseal
from azureinit.record import replace
from azureinit.run import provision, reject
from azureinit.run.converge import MOST_STALE
from azureinit.run.gather import accept
from azureinit.run.identify import identify
from azureinit.run.platform import Platform as Reached
from azureinit.run.recall import recall
from azureinit.run.state import Asked, Context, Knowing, Known
from azureinit.sources.gather import Gathered
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import Event, Events
from support.need import need
from support.ssh_trees import ed25519
from support.trees import changed, listing, make_tree
from support.wire import Answer, Server, Ticking, answer

ID = "c0ffee00-1111-2222-3333-444444444444"
PROFILE = {"adminUsername": "ada", "computerName": "web-1", "disablePasswordAuthentication": "true"}
KEYS = [{"keyData": ed25519(), "path": "/home/ada/.ssh/authorized_keys"}]
ASKED = {"compute": {"vmId": ID, "osProfile": PROFILE, "publicKeys": KEYS}}
NOTHING = {"adminUsername": "", "computerName": "", "disablePasswordAuthentication": ""}
SPECIALISED = {"compute": {"vmId": ID, "osProfile": NOTHING}}
DEADLINE, RESERVE = 1200.0, 60.0


class World:
    """One machine and its platform; `told` is every health report as it came."""

    def __init__(self, directory: Path, imds: Server, health: Server) -> None:
        self.tree = make_tree(directory / "root")
        (directory / "kernel").mkdir()
        self.kernel = directory / "kernel"
        self.clock = Ticking()
        self.machine = Machine(root=str(self.tree), kernel=str(self.kernel), clock=self.clock, environ={})
        self.imds, self.health = imds, health
        self.config = Config(
            imds=Imds(endpoint=imds.url),
            wireserver=Wireserver(health_endpoint=f"{health.url}/provisioning/health"),
            provisioning_media=ProvisioningMedia(enable=False),
            platform=Platform(require_azure=False, vm_id=ID),
            report=Report(protocol="json"),
            run=Run(deadline_secs=DEADLINE, verdict_reserve_secs=RESERVE),
        )
        self.heard: list[Event] = []
        self.interruptions: list[Callable[[Event], None]] = []

    def on(self, kind: str, name: str, act: Callable[[], object], *, times: int = 1) -> None:
        left = [times]

        def interrupt(event: Event) -> None:
            if (event.kind, event.name) == (kind, name) and left[0]:
                left[0] -= 1
                act()

        self.interruptions.append(interrupt)

    def context(self) -> Context:
        def listen(event: Event) -> None:
            self.heard.append(event)
            for interrupt in self.interruptions:
                interrupt(event)

        events = Events(clock=self.clock, listeners=(listen,))
        return Context(machine=self.machine, config=self.config, events=events, started=self.clock.monotonic())

    def provision(self) -> int:
        return provision(self.context())

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in self.health.requests]

    @property
    def verdicts(self) -> list[str]:
        """Ready, or the failure's report."""
        told = [(body["state"], body.get("details", {})) for body in self.told]
        return [
            state if state == "Ready" else details["description"]
            for state, details in told
            if details.get("subStatus") != "Provisioning"
        ]

    @property
    def said(self) -> str:
        return "\n".join(f"{event.name}: {event.text}" for event in self.heard)

    def state(self, kind: str) -> Path:
        return self.tree / f"var/lib/azure-init/{ID}.{kind}"

    def read(self, name: str) -> str:
        return (self.tree / name).read_text()


Worlds = Callable[..., World]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Worlds]:
    servers: list[Server] = []

    def make(*, imds: object = ASKED, health: tuple[Answer, ...] = (answer(200),)) -> World:
        servers.extend(
            (Server(answer(200, json.dumps(imds).encode())).__enter__(), Server(*health).__enter__()),
        )
        return World(tmp_path, *servers[-2:])

    yield make
    for server in servers:
        server.__exit__()


def field(report: str, name: str) -> str:
    """Of a report without quoting."""
    return dict(part.strip('"').split("=", 1) for part in report.split("|"))[name]


# ---- the way through


def test_a_machine_is_made_and_the_platform_told_once(world: Worlds) -> None:
    one = world()
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]
    assert [body["state"] for body in one.told] == ["NotReady", "Ready"], "in progress, then the verdict"
    assert one.read("etc/hostname") == "web-1\n"
    assert one.state("provisioned").exists()


def test_a_provisioned_machine_asks_and_tells_nothing(world: Worlds) -> None:
    one = world()
    one.state("provisioned").parent.mkdir()
    one.state("provisioned").touch()
    before = listing(one.tree)
    assert one.provision() == 0
    assert (one.imds.requests, one.health.requests) == ([], [])
    assert changed(before, listing(one.tree)) == set()


def test_not_on_azure_nothing_is_asked_told_or_touched(world: Worlds) -> None:
    one = world()
    one.config = replace(one.config, platform=Platform(require_azure=True))
    before = listing(one.tree)
    assert one.provision() == 0
    assert (one.imds.requests, one.health.requests) == ([], [])
    assert changed(before, listing(one.tree)) == set()


def test_a_specialised_machine_is_ready_and_untouched(world: Worlds) -> None:
    one = world(imds=SPECIALISED)
    before = listing(one.tree)
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]
    assert {name.split("/")[0] for name in changed(before, listing(one.tree))} == {"var"}
    assert not one.state("saved").exists(), "there is nothing to save"


def test_the_vm_id_comes_from_imds_where_the_firmware_has_none(world: Worlds) -> None:
    one = world()
    one.config = replace(one.config, platform=Platform(require_azure=False))
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]
    assert one.state("provisioned").exists()
    assert len(one.told) == 2, "in progress is told once it is known of whom"


def test_a_marker_found_by_the_id_from_imds_is_honoured(world: Worlds) -> None:
    one = world(imds={"compute": {"vmId": ID, "osProfile": {"adminUsername": "ada"}}})
    one.config = replace(one.config, platform=Platform(require_azure=False))
    one.state("provisioned").parent.mkdir()
    one.state("provisioned").touch()
    before = listing(one.tree)
    assert one.provision() == 0
    assert one.verdicts == [], "what is missing in the answer is no matter any more"
    assert changed(before, listing(one.tree)) <= {"var/lib/azure-init", "var/lib/azure-init/lock"}


def test_no_vm_id_at_all_is_a_failure_that_says_so(world: Worlds) -> None:
    one = world(imds={"compute": {"vmId": "", "osProfile": PROFILE, "publicKeys": KEYS}})
    one.config = replace(one.config, platform=Platform(require_azure=False))
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "failed to identify the VM ID"
    assert field(report, "vm_id") == "unknown"


def test_in_progress_is_over_before_the_verdict_begins(world: Worlds) -> None:
    order: list[str] = []

    def slowly(connection: Any) -> None:
        time.sleep(0.3)
        order.append("in progress answered")
        connection.sendall(answer(200))

    one = world(health=(slowly, answer(200)))
    one.on("start", "report Ready", lambda: order.append("verdict begins"))
    assert one.provision() == 0
    assert order == ["in progress answered", "verdict begins"]


@pytest.mark.parametrize("first", [answer(503), answer(400), lambda connection: None])
def test_in_progress_that_is_refused_is_no_matter(world: Worlds, first: Answer) -> None:
    one = world(health=(first, answer(200)))
    assert one.provision() == 0
    assert [body["state"] for body in one.told] == ["NotReady", "Ready"]


# ---- time


def test_a_step_is_not_begun_after_the_work_deadline_and_the_reserve_carries_the_verdict(world: Worlds) -> None:
    one = world()
    one.on("finish", "hostname", lambda: setattr(one.clock, "at", one.clock.at + DEADLINE - RESERVE))
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "provisioning deadline exceeded"
    assert field(report, "step") == "hosts"
    assert one.read("etc/hostname") == "web-1\n", "what was done stays done"
    assert "web-1" not in one.read("etc/hosts")
    assert not one.state("provisioned").exists()
    assert not one.state("pending").exists()


def test_just_before_the_work_deadline_there_is_still_time(world: Worlds) -> None:
    one = world()
    one.on("finish", "metadata", lambda: setattr(one.clock, "at", one.clock.at + DEADLINE - RESERVE - 1))
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]


def test_a_verdict_that_keeps_failing_ends_with_the_run_and_is_kept(world: Worlds) -> None:
    one = world(health=(answer(503),))
    started = one.clock.monotonic()
    assert one.provision() == 75
    assert DEADLINE / 2 < one.clock.monotonic() - started <= DEADLINE
    assert unseal(one.state("pending").read_bytes()) == {"verdict": "ready", "failure": ""}
    assert not one.state("provisioned").exists()


def test_after_the_whole_deadline_not_even_a_failure_is_told_but_it_is_kept(world: Worlds) -> None:
    one = world()
    one.on("finish", "metadata", lambda: setattr(one.clock, "at", one.clock.at + 2 * DEADLINE))
    assert one.provision() == 1
    assert one.verdicts == []
    assert json.loads(one.state("pending").read_text())["failure"] == "provisioning deadline exceeded"


@pytest.mark.parametrize(
    ("deadline", "reserve", "work"), [(1200.0, 60.0, 1140.0), (60.0, 60.0, 30.0), (10.0, 0.0, 10.0), (10.0, 4.0, 6.0)]
)
def test_the_reserve_never_takes_more_than_half(world: Worlds, deadline: float, reserve: float, work: float) -> None:
    one = world()
    one.config = replace(one.config, run=Run(deadline_secs=deadline, verdict_reserve_secs=reserve))
    context = one.context()
    assert (context.deadline - context.started, context.work_deadline - context.started) == (deadline, work)


def test_a_boot_s_time_is_counted_from_the_machine_s_start(world: Worlds) -> None:
    one = world()
    given: dict[str, Any] = {
        "machine": one.machine,
        "config": Config(),
        "events": Events(clock=one.clock, listeners=()),
    }
    boot = Context(**given, started=150.0, booted=100.0)
    assert (boot.deadline, boot.work_deadline) == (1000.0, 940.0)
    late = replace(boot, started=1030.0)
    assert late.deadline == 1330.0, "a start that comes late has a third of it"
    by_hand = Context(**given, started=150.0)
    assert by_hand.deadline == 150.0 + Config().run.deadline_secs


def test_a_boot_asks_silent_sources_for_so_long_and_no_longer(world: Worlds) -> None:
    one = world()
    given: dict[str, Any] = {"machine": one.machine, "events": Events(clock=one.clock, listeners=())}
    boot = Context(**given, config=Config(), started=150.0, booted=100.0)
    assert boot.sources_deadline == 150.0 + 360.0
    patient = Config(imds=Imds(total_retry_timeout_secs=500.0))
    assert replace(boot, config=patient).sources_deadline == 650.0, "that key keeps its meaning"
    assert replace(boot, config=Config(imds=Imds(total_retry_timeout_secs=5000.0))).sources_deadline == 940.0
    assert replace(boot, booted=None).sources_deadline == boot.started + 1140.0


@pytest.mark.parametrize(("comes", "verdict"), [(300.0, "Ready"), (2000.0, "http error 503 querying IMDS")])
def test_a_platform_that_comes_minutes_after_the_start_finds_a_machine_that_waits(
    world: Worlds, comes: float, verdict: str
) -> None:
    """And one that is silent for the whole budget hears of it before ten minutes are over."""
    one = world()
    booted = one.clock.at - 10.0
    told: list[float] = []

    def imds(connection: Any) -> None:
        there = one.clock.at - booted >= comes
        connection.sendall(answer(200, json.dumps(ASKED).encode()) if there else answer(503))

    def health(connection: Any) -> None:
        told.append(one.clock.at - booted)
        connection.sendall(answer(200))

    one.imds.answers[:], one.health.answers[:] = [imds], [health]
    one.config = replace(one.config, run=Run())
    context = replace(one.context(), booted=booted)
    assert provision(context) == (0 if verdict == "Ready" else 1)
    (report,) = one.verdicts
    assert report == verdict or field(report, "reason") == verdict
    assert (comes <= told[-1] < comes + 60) if verdict == "Ready" else (350 < told[-1] < 400)


@pytest.mark.parametrize("refusal", [answer(403), answer(200, b"<html>"), answer(200, b'{"compute": "nothing"}')])
def test_a_refusal_is_told_after_half_a_minute_where_no_medium_can_come(world: Worlds, refusal: bytes) -> None:
    one = world()
    started = one.clock.at
    told: list[float] = []

    def health(connection: Any) -> None:
        told.append(one.clock.at - started)
        connection.sendall(answer(200))

    one.imds.answers[:], one.health.answers[:] = [refusal], [health]
    off = ProvisioningMedia(enable=False)
    one.config = replace(one.config, run=Run(), provisioning_media=off, imds=Imds(endpoint=one.imds.url))
    assert provision(replace(one.context(), booted=started)) == 1
    assert 30 <= told[-1] < 60


@pytest.mark.newer
def test_certificates_that_do_not_come_are_told_before_ten_minutes_are_over(world: Worlds, tmp_path: Path) -> None:
    from fakeazure import KeyPair, Media, Vm
    from fakeazure.platform.media import ovf_env

    need("openssl")
    one = world()
    booted = one.clock.at - 10.0
    told: list[float] = []

    def wireserver(connection: Any) -> None:
        health = one.health.requests[-1].startswith(b"POST")
        told.extend([one.clock.at - booted] * health)
        connection.sendall(answer(200 if health else 503))

    one.health.answers[:] = [wireserver]
    (tmp_path / "media").mkdir()
    vm = Vm(id=ID, name="web-1", username="ada", key_pairs=(KeyPair(path="/home/ada/id", fingerprint="00" * 20),))
    (tmp_path / "media/ovf-env.xml").write_bytes(ovf_env(vm, Media()))
    media = ProvisioningMedia(path=str(tmp_path / "media"))
    one.config = replace(one.config, run=Run(), provisioning_media=media)
    assert provision(replace(one.context(), booted=booted)) == 1
    assert b"reason=failed to retrieve the goal state" in one.health.requests[-1]
    assert 300 < told[-1] < 400


# ---- somebody else at work


def scribble(one: World) -> Callable[[], None]:
    """Somebody else writes the file we are about to write, another thing every time."""
    counted = iter(range(100))

    def write() -> None:
        (one.tree / "etc/hostname").write_text(f"other-{next(counted)}\n")

    return write


@pytest.mark.parametrize("times", [1, 2])
def test_a_file_that_changes_under_the_plan_is_planned_for_again(world: Worlds, times: int) -> None:
    one = world()
    one.on("start", "hostname", scribble(one), times=times)
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]
    assert one.read("etc/hostname") == "web-1\n"
    assert len([event for event in one.heard if (event.kind, event.name) == ("start", "hostname")]) == times + 1


def test_a_file_that_keeps_changing_is_somebody_elses_fight(world: Worlds) -> None:
    one = world()
    one.on("start", "hostname", scribble(one), times=100)
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "file changed while provisioning"
    assert field(report, "path").endswith("/root/etc/hostname"), "with the root"
    assert len([event for event in one.heard if (event.kind, event.name) == ("start", "hostname")]) == MOST_STALE
    assert one.read("etc/hostname") == f"other-{MOST_STALE - 1}\n"


@pytest.mark.parametrize("times", [1, 2])
def test_work_that_somebody_undoes_is_done_again(world: Worlds, times: int) -> None:
    one = world()
    one.on("finish", "hostname", scribble(one), times=times)
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]
    assert one.read("etc/hostname") == "web-1\n"


def test_work_that_somebody_undoes_every_time_is_named(world: Worlds) -> None:
    one = world()
    one.on("finish", "hostname", scribble(one), times=100)
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "work left after provisioning"
    assert "hostname (other-2 -> web-1)" in field(report, "error")
    assert not one.state("provisioned").exists()


def test_while_another_of_us_is_at_work_no_verdict_is_ours(world: Worlds) -> None:
    one = world()
    (one.tree / "var/lib/azure-init").mkdir()
    lock = os.open(one.tree / "var/lib/azure-init/lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = listing(one.tree)
        assert one.provision() == 1
        assert one.verdicts == []
        assert "another azure-init" in one.said
        assert changed(before, listing(one.tree)) == set()
    finally:
        os.close(lock)


# ---- what must not happen


class Broken(Machine):
    """A bug of ours, where a file is read or written."""

    bad_read = ""
    bad_write = ""

    def read(self, path: str, **options: Any) -> bytes | None:
        if path == self.bad_read:
            raise ZeroDivisionError("a bug")
        return super().read(path, **options)

    def write(self, path: str, data: bytes, **options: Any) -> None:
        if self.bad_write and path.endswith(self.bad_write):
            raise ReadOnly(f"cannot write {path}: Read-only file system", path=path)
        super().write(path, data, **options)


def broken(one: World) -> Broken:
    one.machine = Broken(root=str(one.tree), kernel=str(one.kernel), clock=one.clock, environ={})
    return one.machine


def test_a_bug_of_ours_is_one_verdict_with_its_line(world: Worlds) -> None:
    one = world()
    broken(one).bad_read = "/etc/hosts"
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "unhandled error"
    assert "ZeroDivisionError: a bug at test_engine.py:" in field(report, "error")
    assert "Traceback" not in one.said
    assert not one.state("provisioned").exists()


def test_a_marker_that_cannot_be_written_does_not_undo_ready(world: Worlds) -> None:
    one = world()
    broken(one).bad_write = ".provisioned"
    one.provision()
    assert one.verdicts == ["Ready"], "and no second verdict"
    assert "Read-only file system" in one.said


def test_a_marker_that_cannot_be_looked_for_is_a_verdict_too(world: Worlds) -> None:
    one = world()
    (one.tree / "var/lib/azure-init").symlink_to("azure-init")
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "I/O error"


def test_a_pending_verdict_that_cannot_be_written_is_told_and_lost(world: Worlds) -> None:
    one = world(health=(answer(503),))
    broken(one).bad_write = ".pending"
    assert one.provision() == 75
    assert "Read-only file system" in one.said


def test_a_failure_names_the_one_before_it(world: Worlds) -> None:
    one = world(imds={"compute": {"vmId": ID, "osProfile": PROFILE}})
    one.state("pending").parent.mkdir()
    one.state("pending").write_text('{"verdict": "failure", "failure": "no space left on device"}')
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "no usable credential"
    assert field(report, "previous") == "no space left on device"
    assert not one.state("pending").exists()


# ---- a configuration that cannot be used


def test_a_wrong_configuration_is_a_verdict(world: Worlds) -> None:
    one = world()
    before = listing(one.tree)
    assert reject(one.context(), ConfigInvalid("a.toml:3: imds.endpoint: must start with http://")) == 78
    (report,) = one.verdicts
    assert field(report, "reason") == "invalid configuration"
    assert field(report, "vm_id") == ID
    assert one.imds.requests == []
    assert changed(before, listing(one.tree)) == set()


def test_a_wrong_configuration_elsewhere_than_on_azure_is_told_to_whoever_asked(world: Worlds) -> None:
    one = world()
    one.config = replace(one.config, platform=Platform(require_azure=True))
    with pytest.raises(ConfigInvalid):
        reject(one.context(), ConfigInvalid("wrong"))
    assert one.told == []


def test_a_vm_id_that_is_none_is_a_verdict_and_not_ours_to_guess(world: Worlds) -> None:
    one = world()
    one.config = replace(one.config, platform=Platform(require_azure=False, vm_id="../../etc/passwd"))
    assert one.provision() == 78
    (report,) = one.verdicts
    assert field(report, "reason") == "invalid configuration"
    assert field(report, "vm_id") == "unknown"
    assert "platform.vm_id" in field(report, "error")


def test_media_that_were_taken_for_want_of_a_network_wait_for_imds_though_a_route_has_come_since(world: Worlds) -> None:
    one = world()
    context = replace(one.context(), booted=one.clock.monotonic())
    identity = identify(context)
    facts = read_facts(one.machine, one.config)
    asked = Asked(identity=identity, memory=recall(context, identity), facts=facts)
    media = Metadata(username="ada", hostname="web-1", keys=(PublicKey(data=ed25519()),))
    failures: dict[str, AzureInitError] = {"imds": NoNetwork("eth0 has no IPv4 address: no DHCP lease")}
    gathered = Gathered(answers={"media": media}, failures=failures, device=None)
    accepted = accept(context, asked, gathered, Knowing(Known()), platform=Reached(context))
    assert accepted.unconfirmed is not None


def test_that_imds_has_still_to_agree_is_on_the_disk_before_the_media_alone_change_anything(world: Worlds) -> None:
    """On another file system than the accounts, the record could otherwise be lost where the account is not."""
    one = world()
    (one.kernel / "proc/net").mkdir(parents=True)
    (one.kernel / "proc/net/route").write_text("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n")
    one.config = replace(one.config, imds=Imds(endpoint="http://0.0.0.1", total_retry_timeout_secs=1.0))
    one.state("saved").parent.mkdir(parents=True)
    saved = {"username": "ada", "hostname": "web-1", "keys": [[ed25519(), None]]}
    one.state("saved").write_bytes(seal(saved))
    one.state("pending").write_bytes(seal({"verdict": "unfinished", "failure": "", "sources": "media alone"}))
    unsynced: list[set[str]] = []
    one.on("start", "hostname", lambda: unsynced.append(set(one.machine.unsynced.directories)))
    assert one.provision() == 75, one.said
    assert unsynced and str(one.tree / "var/lib/azure-init") not in unsynced[0]
