"""What a verdict tells at each point of failure, and the order of what follows Ready: on a tree, with a clock that only
sleeping moves.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Config, Imds, Kernel, Platform, ProvisioningMedia, Report, Run, Ssh, Wireserver
from azureinit.errors import ConfigInvalid, LocalError, LockTimeout, MediaRefused
from azureinit.machine import Machine
from azureinit.machine.processes import Ran
from azureinit.memory.pool import Marker, write_marker
from azureinit.record import replace
from azureinit.run import provision, reject
from azureinit.run.channels import open_channels
from azureinit.run.dispatch import run_stage
from azureinit.run.early import Early, begin_early
from azureinit.run.gather import gather
from azureinit.run.identify import identify
from azureinit.run.maintenance import START, Situation, maintain
from azureinit.run.pool import _restore_image
from azureinit.run.recall import recall
from azureinit.run.resend import start_resending
from azureinit.run.state import Context, Identity, Known, Outcome, Stopped, declared, known_to
from azureinit.run.termination import REPORT_SECS, bound, is_silent
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import DEBUG, Event, Events
from support.ssh_trees import ed25519
from support.trees import make_tree
from support.wire import Server, Ticking, answer

ID = "c0ffee00-1111-2222-3333-444444444444"
PROFILE = {"adminUsername": "ada", "computerName": "web-1", "disablePasswordAuthentication": "true"}
ASKED = {"compute": {"vmId": ID, "osProfile": PROFILE, "publicKeys": [{"keyData": ed25519(), "path": ""}]}}

WHOLE = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"


class Tree(Machine):
    """A tree on which files can have defects, and where programs are recorded instead of run."""

    defects: dict[str, BaseException]
    ran: list[tuple[str, ...]]

    def read(self, path: str, **options: Any) -> bytes | None:
        for ending, error in self.defects.items():
            if path.endswith(ending):
                raise error
        return super().read(path, **options)

    def run(self, argv: tuple[str, ...], **_options: Any) -> Ran:
        self.ran.append(argv)
        return Ran(argv=argv, status=0, out=b"", err=b"")


class Unreadable(Machine):
    def kernel_release(self) -> str:
        raise LocalError("not permitted")


class World:
    def __init__(self, directory: Path, imds: Server, health: Server) -> None:
        self.tree, self.health, self.clock = make_tree(directory / "root"), health, Ticking()
        (directory / "kernel").mkdir()
        self.machine = Tree(root=str(self.tree), kernel=str(directory / "kernel"), clock=self.clock, environ={})
        self.machine.defects, self.machine.ran = {}, []
        self.config = Config(
            imds=Imds(endpoint=imds.url),
            wireserver=Wireserver(health_endpoint=f"{health.url}/provisioning/health"),
            provisioning_media=ProvisioningMedia(enable=False),
            platform=Platform(require_azure=False, vm_id=ID),
            report=Report(protocol="json"),
            run=Run(deadline_secs=1200.0, verdict_reserve_secs=60.0),
        )
        self.heard: list[Event] = []
        self.flushed: Callable[[], object] = list
        self.stop_at = ""  # SIGTERM arrives at the event of this name

    def __call__(self, event: Event) -> None:
        self.heard.append(event)
        if event.name == self.stop_at:
            self.stop_at = ""
            raise Stopped(self.clock.monotonic())

    def flush(self) -> None:
        self.flushed()

    def context(self, **given: Any) -> Context:
        events = Events(clock=self.clock, listeners=(self,))
        values = {"started": self.clock.monotonic(), **given}
        return Context(machine=self.machine, config=self.config, events=events, **values)

    def failure(self) -> dict[str, str]:
        """The fields of the only failure that was reported."""
        told = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in self.health.requests]
        (report,) = [body["details"]["description"] for body in told if body["details"]["subStatus"] != "Provisioning"]
        return dict(part.strip('"').split("=", 1) for part in report.split("|"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Server(answer(200, json.dumps(ASKED).encode())) as imds, Server(answer(200)) as health:
        yield World(tmp_path, imds, health)


def id_from_imds(one: World) -> None:
    one.config = replace(one.config, platform=replace(one.config.platform, vm_id=None))


# ---- what a failure report tells


def test_a_marker_that_cannot_be_examined_is_reported_with_the_vm_id(world: World) -> None:
    (world.tree / "var/lib/azure-init").symlink_to("azure-init")
    assert provision(world.context()) == 1
    assert world.failure()["vm_id"] == ID


def test_a_rejected_configuration_is_reported_with_the_vm_id_where_the_marker_cannot_be_examined(world: World) -> None:
    (world.tree / "var/lib/azure-init").symlink_to("azure-init")
    assert reject(world.context(), ConfigInvalid("wrong", key="x")) != 0
    assert world.failure()["vm_id"] == ID


def test_a_journal_that_cannot_be_read_is_reported_with_the_vm_id_that_imds_told(world: World) -> None:
    id_from_imds(world)
    world.machine.defects[".journal"] = ZeroDivisionError("a defect")
    assert provision(world.context()) == 1
    assert world.failure()["vm_id"] == ID


def test_a_run_that_is_stopped_between_two_phases_reports_the_vm_id_that_imds_told(world: World) -> None:
    id_from_imds(world)
    left = [Stopped(world.clock.monotonic())]

    def stop() -> None:
        if left:
            raise left.pop()

    world.flushed = stop  # first called before the report that provisioning has begun, after the sources answered
    assert provision(world.context()) != 0
    assert world.failure()["vm_id"] == ID


def test_media_that_imds_contradicts_are_reported_with_their_pps_type(world: World) -> None:
    context = world.context()
    identity, channels = identify(context), open_channels(context)
    memory = replace(recall(context, identity), unconfirmed=Metadata(username="bob", pps_type="Savable"))
    with pytest.raises(MediaRefused) as caught:
        gather(context, identity, memory, Early(), platform=channels.platform, waiting=channels.waiting)
    known = known_to(caught.value)
    assert known.metadata is not None and known.metadata.pps_type == "Savable" and known.unconfirmed


def test_media_that_were_applied_alone_are_refused_where_imds_puts_the_vm_into_a_pool(tmp_path: Path) -> None:
    pooled = {"compute": ASKED["compute"], "extended": {"compute": {"ppsType": "Running"}}}
    with Server(answer(200, json.dumps(pooled).encode())) as imds, Server(answer(200)) as health:
        context = World(tmp_path, imds, health).context()
        identity, channels = identify(context), open_channels(context)
        memory = replace(recall(context, identity), unconfirmed=Metadata(username="ada"))
        with pytest.raises(MediaRefused, match="waits in a pool"):
            gather(context, identity, memory, Early(), platform=channels.platform, waiting=channels.waiting)


def test_in_a_pool_host_keys_of_an_earlier_boot_are_removed_too(world: World) -> None:
    """Its power failed after the keys were begun, and before IMDS told of the pool."""
    context, key = world.context(), "/etc/ssh/ssh_host_ed25519_key"
    identity = identify(context)
    world.machine.make_dirs("/etc/ssh", mode=0o755)
    world.machine.make_dirs("/var/lib/azure-init", mode=0o700)
    for path in (key, f"{key}.pub", "/etc/ssh/ssh_host_rsa_key"):
        world.machine.write(path, WHOLE.encode(), mode=0o600)
    recall(context, identity).journal.record_own_keys(world.machine, (key,))
    own = recall(context, identity).journal.own_keys
    assert not _restore_image(context, identity, own)
    assert [name for name in world.machine.names("/etc/ssh") or () if "key" in name] == ["ssh_host_rsa_key"]
    assert recall(context, identity).journal.own_keys == frozenset()


@pytest.mark.parametrize(("found", "begun"), [(None, True), ("offered", False), ("waiting", False), ("reused", True)])
def test_host_keys_are_begun_early_except_where_the_vm_may_be_in_a_pool(
    world: World, found: str | None, *, begun: bool
) -> None:
    context = replace(world.context(), booted=world.clock.monotonic())
    for path in ("/etc/ssh/sshd_config", "/usr/sbin/sshd", "/usr/bin/ssh-keygen"):
        world.machine.make_dirs(path.rpartition("/")[0], mode=0o755)
        world.machine.write(path, b"", mode=0o755)
    world.machine.make_dirs("/var/lib/azure-init", mode=0o700)
    if found is not None:
        write_marker(world.machine, "/var/lib/azure-init", Marker(state=found, type="Running", firmware_id=ID))
    early = begin_early(context, recall(context, identify(context)))
    early.wait()
    assert bool(early.keys) == begun and bool(early.own_keys) == begun


# ---- SIGTERM


def test_a_run_that_is_stopped_while_it_waits_for_another_run_leaves_the_verdict_to_that(world: World) -> None:
    (world.tree / "var/lib/azure-init").mkdir()
    with (world.tree / "var/lib/azure-init/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        world.stop_at = "lock"
        assert provision(world.context()) == LockTimeout.exit_code
    assert world.health.requests == []
    assert "that run will report" in world.heard[-1].text


@pytest.mark.parametrize(("of", "silent"), [(ID, True), ("another-vm", False)])
def test_a_run_that_is_stopped_is_silent_only_with_its_own_marker_of_a_pool(
    world: World, of: str, silent: bool
) -> None:
    """An image may have captured the marker of another VM."""
    context, signal = world.context(), Stopped(world.clock.monotonic())
    world.machine.make_dirs("/var/lib/azure-init", mode=0o700)
    write_marker(world.machine, "/var/lib/azure-init", Marker(state="waiting", type="Running", firmware_id=of))
    known = Known(identity=Identity(vm_id=ID))
    assert is_silent(context, Outcome(known=known, failure=declared(signal), stopped=signal.at)) is silent


def test_the_time_to_report_counts_from_the_signal(world: World) -> None:
    """TimeoutStopSec does, too: ending what the run was doing takes some of it."""
    context, signal = world.context(), world.clock.monotonic()
    world.clock.at += 5
    outcome = Outcome(known=known_to(Stopped(signal)), failure=declared(Stopped(signal)), stopped=signal)
    limited, _channels = bound(context, open_channels(context), outcome)
    assert limited.deadline == signal + REPORT_SECS


def test_the_unit_gives_two_seconds_more_than_the_report_takes() -> None:
    unit = (Path(__file__).parents[2] / "systemd/azure-init.service").read_text()
    assert f"\nTimeoutStopSec={REPORT_SECS + 2:.0f}\n" in unit


# ---- after the verdict


def test_the_unit_that_resends_is_started_also_after_the_deadline(world: World) -> None:
    """Ready is sent until the deadline: that is when the unit is needed."""
    context = world.context(booted=world.clock.monotonic())
    world.clock.at = context.deadline + 1
    start_resending(context)
    assert world.machine.ran == [("systemctl", "--no-block", "start", "azure-init-resend.service")], world.heard


def test_the_fingerprint_is_reported_before_jobs_that_take_long(world: World) -> None:
    (world.tree / "etc/ssh").mkdir()
    (world.tree / "etc/ssh/sshd_config").write_text("")
    for name, text in (("", WHOLE), (".pub", ed25519() + "\n")):
        (world.tree / f"etc/ssh/ssh_host_ed25519_key{name}").write_text(text)
        (world.tree / f"etc/ssh/ssh_host_ed25519_key{name}").chmod(0o600)
    ssh = Ssh(regenerate_host_keys="never", host_key_types=("ed25519",))
    world.config = replace(world.config, ssh=ssh, kernel=Kernel(scsi_timeout_secs=300))
    assert provision(world.context()) == 0, "\n".join(event.text for event in world.heard)
    names = [event.name for event in world.heard]
    assert "host key fingerprint" in names and "disk timeout rule" in names, names
    assert names.index("host key fingerprint") < names.index("disk timeout rule")


def test_entropy_that_cannot_be_read_is_no_warning(world: World) -> None:
    world.config = replace(world.config, kernel=Kernel(entropy=True))
    running = Unreadable(clock=world.clock, environ={})
    assert maintain(world.context(), (START,), Situation(machine=running, config=world.config)) == {START}
    assert [event.level for event in world.heard] == [DEBUG]


def test_a_defect_of_the_local_stage_is_logged_and_left_to_the_run(world: World) -> None:
    world.config = replace(world.config, platform=replace(world.config.platform, changed_vm_id="keep"))
    world.config = replace(world.config, provisioning_media=ProvisioningMedia(enable=True))
    world.machine.defects[".journal"] = ZeroDivisionError("a defect")
    assert run_stage("local", world.context()) == 0
    assert any("ZeroDivisionError: a defect" in event.text for event in world.heard)
