"""The console, which boot diagnostics show: a run's start, its waits, its verdict, the host keys."""

from __future__ import annotations

import os
import pty
import select
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.errors import LocalError, VerdictUndelivered
from azureinit.machine import Machine
from azureinit.telemetry.console import ConsoleListener, fingerprint
from azureinit.telemetry.events import DEBUG, ERROR, INFO, WARN, Event, Events
from azureinit.version import VERSION
from support.wire import Ticking

STARTED = f"azure-init: version {VERSION} started\n"
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
ED25519_TOLD = "256 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


class Booting:
    """A machine whose console is a file."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "dev").mkdir()
        (place / "etc/ssh").mkdir(parents=True)
        self.console = place / "dev/console"
        self.console.touch()
        self.machine = Machine(root=str(place), kernel=str(place), clock=Ticking(), environ={})
        self.events = Events(clock=self.machine.clock, listeners=(ConsoleListener(self.machine),))

    def key(self, name: str, text: str) -> None:
        (self.place / f"etc/ssh/ssh_host_{name}_key.pub").write_text(text)

    @property
    def shown(self) -> str:
        return self.console.read_text()


@pytest.fixture
def booting(tmp_path: Path) -> Booting:
    return Booting(tmp_path)


# ---- a run


def test_a_good_run_is_its_start_its_verdict_and_the_host_keys(booting: Booting) -> None:
    events = booting.events
    events.tell(INFO, "lock", "another azure-init is running: waiting for its end")
    with events.step("metadata") as step:
        events.observe("http", attempt=1, status=200)
        step.text = "from imds"
    events.tell(WARN, "imds", "slow")
    booting.key("ed25519", f"{ED25519} root@web-1\n")
    with events.step("report Ready") as step:
        assert booting.shown == STARTED
        step.text = "reported Ready: the platform accepted it"
    assert booting.shown == (
        f"{STARTED}azure-init: provisioned; reported Ready: the platform accepted it\n"
        f"azure-init: host key {ED25519_TOLD} root@web-1 (ED25519)\n"
    )


def test_a_key_made_after_ready_is_told_when_it_is_there_and_none_twice(booting: Booting) -> None:
    booting.key("ed25519", ED25519)
    with booting.events.step("report Ready"):
        pass
    before = booting.shown
    with booting.events.step("host key rsa"):
        booting.key("rsa", f"{ED25519} another\n")
    assert booting.shown == f"{before}azure-init: host key {ED25519_TOLD} another (ED25519)\n"
    with booting.events.step("something else"):
        pass
    assert booting.shown.count("SHA256:") == 2


def test_a_failed_run_tells_its_cause_and_whether_the_platform_knows(booting: Booting) -> None:
    booting.key("ed25519", ED25519)
    with pytest.raises(LocalError), booting.events.step("hostname"):
        raise LocalError("cannot write /etc/hostname")
    booting.events.tell(ERROR, "provision", "local_error: cannot write\n/etc/hostname \x1b[2J")
    with booting.events.step("report failure") as step:
        step.text = "reported the failure: the platform accepted it"
    assert booting.shown == (
        f"{STARTED}azure-init: provisioning failed: local_error: cannot write; /etc/hostname ?[2J\n"
        "azure-init: reported the failure: the platform accepted it\n"
    )


def test_what_is_waited_for_is_told_whenever_it_is_said(booting: Booting) -> None:
    events = booting.events
    with events.step("metadata"):
        events.tell(INFO, "waiting", "waiting for the network (10 s so far): eth0 is down\x1b[2J")
        events.tell(DEBUG, "waiting", "waiting for the network (20 s so far): eth0 is down")
        events.tell(WARN, "network", "not for the console")
    told = "azure-init: waiting for the network ({} s so far): eth0 is down{}\n"
    assert booting.shown == STARTED + told.format(10, "?[2J") + told.format(20, "")


def test_a_configuration_that_cannot_be_used_is_a_run_too(booting: Booting) -> None:
    booting.events.tell(ERROR, "provision", "config_invalid: no")
    with pytest.raises(VerdictUndelivered), booting.events.step("report failure"):
        raise VerdictUndelivered("POST failed")
    assert booting.shown == (
        f"{STARTED}azure-init: provisioning failed: config_invalid: no\n"
        "azure-init: the failure was not reported: POST failed\n"
    )


def test_a_ready_that_did_not_arrive_is_told_with_its_cause_and_the_keys(booting: Booting) -> None:
    booting.key("ed25519", ED25519)
    with pytest.raises(VerdictUndelivered), booting.events.step("report Ready"):
        raise VerdictUndelivered("POST failed")
    assert booting.shown == (
        f"{STARTED}azure-init: provisioned, but Ready was not delivered: POST failed\n"
        f"azure-init: host key {ED25519_TOLD} no comment (ED25519)\n"
    )


def test_a_machine_that_is_provisioned_already_says_nothing(booting: Booting) -> None:
    booting.events.tell(WARN, "config", "unknown key")
    booting.events.tell(INFO, "provision", "VM x is already provisioned: nothing to do")
    assert booting.shown == ""


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"ssh-ed25519", b"x" * 100_000])
def test_a_broken_host_key_is_left_out(booting: Booting, content: bytes) -> None:
    (booting.place / "etc/ssh/ssh_host_ecdsa_key.pub").write_bytes(content)
    (booting.place / "etc/ssh/ssh_host_dsa_key.pub").mkdir()
    booting.key("ed25519", ED25519)
    with booting.events.step("report Ready"):
        pass
    assert booting.shown.count("host key") == 1


def test_private_keys_are_not_even_looked_at(booting: Booting) -> None:
    (booting.place / "etc/ssh/ssh_host_ed25519_key").write_text(ED25519)
    (booting.place / "etc/ssh/ssh_host_ed25519_key-cert.pub").write_text(ED25519)
    with booting.events.step("report Ready"):
        pass
    assert "host key" not in booting.shown


# ---- fingerprints


@given(st.text())
def test_what_is_no_key_has_no_fingerprint(text: str) -> None:
    assert fingerprint(text) is None
    assert fingerprint(f"ssh-rsa {text}") is None


@given(st.integers(0, 67), st.booleans())
def test_a_torn_key_has_none_either(length: int, padded: bool) -> None:
    kind, encoded = ED25519.split()
    assert fingerprint(f"{kind} {encoded[:length]}{'==' if padded else ''}") is None


def test_a_key_of_another_kind_than_it_says_has_none() -> None:
    assert fingerprint(ED25519.replace("ssh-ed25519", "ssh-rsa")) is None


def test_a_comment_has_no_power_over_the_console() -> None:
    assert fingerprint(f"{ED25519} \x1b[2Jx") == f"{ED25519_TOLD} ?[2Jx (ED25519)"


# ---- the console itself


def test_a_machine_without_a_console_goes_on(booting: Booting) -> None:
    booting.console.unlink()
    with booting.events.step("report Ready"):
        pass
    assert not booting.console.exists()
    booting.console.mkdir()
    with booting.events.step("report Ready"):
        pass


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    both = pty.openpty()
    yield both
    for end in both:
        os.close(end)


def test_a_real_terminal_shows_it(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    listener = ConsoleListener(Machine(environ={}), path=os.ttyname(theirs))
    listener(Event(at=0.0, kind="start", level=INFO, name="metadata"))
    assert os.read(ours, 1000) == STARTED.replace("\n", "\r\n").encode()


def test_a_console_that_takes_nothing_holds_nobody_up(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    termios.tcflow(theirs, termios.TCOOFF)
    listener = ConsoleListener(Machine(environ={}), path=os.ttyname(theirs))
    for _ in range(200):
        listener(Event(at=0.0, kind="event", level=ERROR, name="provision", text="x" * 1000))
    ready, _, _ = select.select([ours], [], [], 0)
    assert ready == [], "a stopped terminal passes nothing on"


def test_a_console_that_was_hung_up_is_opened_anew(booting: Booting) -> None:
    listener = ConsoleListener(booting.machine)
    reader, writer = os.pipe()
    os.close(reader)
    listener.console._file = writer  # writes to it fail, as those to a line that was hung up do
    listener(Event(at=0.0, kind="start", level=DEBUG, name="metadata"))
    assert booting.shown == STARTED
