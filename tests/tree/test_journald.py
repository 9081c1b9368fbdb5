"""The messages to journald, on a test socket; tests/boot/test_journald_boot.py uses a real journald."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.config.filters import Filter, parse_filter
from azureinit.machine import Machine
from azureinit.machine.outlets import Datagrams, stderr_is_journal
from azureinit.telemetry.events import DEBUG, ERROR, INFO, TRACE, WARN, Event, Events
from azureinit.telemetry.journald import JournalListener, encode, entry, field_name, lines, read_unit
from azureinit.telemetry.log import DEFAULT

ALL_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
VM_ID = "11111111-2222-4333-8444-555555555555"


def parse(data: bytes) -> dict[str, str]:
    """As journald reads it."""
    fields: dict[str, str] = {}
    while data:
        first, _, rest = data.partition(b"\n")
        name, equals, value = first.partition(b"=")
        if not equals:
            length = int.from_bytes(rest[:8], "little")
            value, rest = rest[8 : 8 + length], rest[8 + length :]
            assert rest[:1] == b"\n"
            rest = rest[1:]
        assert name.decode() not in fields
        fields[name.decode()] = value.decode()
        data = rest
    return fields


class Daemon:
    """Stands where journald does."""

    def __init__(self, directory: str) -> None:
        self.address = f"{directory}/socket"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address)
        self.socket.setblocking(False)
        self.open: list[Datagrams] = []  # to it

    def close(self) -> None:
        for one in self.open:
            one.close()
        self.socket.close()

    def heard(self) -> list[bytes]:
        told: list[bytes] = []
        while True:
            try:
                data, carried, _flags, _from = self.socket.recvmsg(1 << 20, socket.CMSG_SPACE(4))
            except BlockingIOError:
                return told
            for _level, _kind, numbers in carried:
                (file,) = array.array("i", numbers)
                with os.fdopen(file, "rb") as memory:
                    assert fcntl.fcntl(memory, fcntl.F_GET_SEALS) & ALL_SEALS == ALL_SEALS
                    memory.seek(0)
                    data += memory.read()
            told.append(data)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as directory:  # a socket's path is short
        one = Daemon(directory)
        yield one
        one.close()


class Listening:
    def __init__(
        self, daemon: Daemon, *, chosen: Filter = DEFAULT, about: Mapping[str, str] | None = None, cgroup: str = ""
    ) -> None:
        self.otherwise: list[Event] = []
        kernel = Path(daemon.address).parent / "kernel"
        (kernel / "proc/self").mkdir(parents=True)
        (kernel / "proc/self/cgroup").write_text(cgroup)
        self.listen = JournalListener(
            Machine(kernel=str(kernel), environ={}),
            chosen=chosen,
            about={} if about is None else about,
            otherwise=self.otherwise.append,
            address=daemon.address,
        )
        daemon.open.append(self.listen.journal)


def happened(text: str = "made", *, name: str = "user", level: int = INFO, **fields: str) -> Event:
    return Event(at=0.0, kind="event", level=level, name=name, text=text, fields=fields)


# ---- an event's fields


def test_a_step_is_told_with_all_that_is_known_of_it(daemon: Daemon) -> None:
    about: dict[str, str] = {}
    told = Listening(daemon, about=about, cgroup="0::/system.slice/azure-init.service\n")
    about["vm_id"] = VM_ID
    told.listen(
        Event(
            at=0.0,
            kind="finish",
            level=ERROR,
            name="user",
            text="no useradd",
            seconds=0.0123,
            failed=True,
            id="ab" * 16,
            parent="cd" * 16,
        )
    )
    (data,) = daemon.heard()
    assert (
        data
        == (
            "MESSAGE=user failed: no useradd (12 ms)\nPRIORITY=3\nSYSLOG_IDENTIFIER=azure-init\n"
            "OBJECT_SYSTEMD_UNIT=azure-init.service\nAZURE_INIT_STEP=user\nAZURE_INIT_KIND=finish\nAZURE_INIT_RESULT=failed\n"
            f"AZURE_INIT_SECONDS=0.012300\nAZURE_INIT_ID={'ab' * 16}\nAZURE_INIT_PARENT={'cd' * 16}\n"
            f"AZURE_INIT_VM_ID={VM_ID}\n"
        ).encode()
    )
    assert told.otherwise == []


def test_what_is_not_known_is_not_told() -> None:
    assert entry(happened()) == {
        "MESSAGE": "made",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "azure-init",
        "AZURE_INIT_STEP": "user",
        "AZURE_INIT_KIND": "event",
    }


@pytest.mark.parametrize(("level", "number"), [(ERROR, "3"), (WARN, "4"), (INFO, "6"), (DEBUG, "7"), (TRACE, "7")])
def test_a_level_is_one_of_syslogs(level: int, number: str) -> None:
    assert entry(happened(level=level))["PRIORITY"] == number


def test_a_result_is_told_of_whatever_had_one() -> None:
    done = Event(at=0.0, kind="event", level=DEBUG, name="http", seconds=0.0)
    assert entry(done)["AZURE_INIT_RESULT"] == "success"
    assert entry(Event(at=0.0, kind="event", level=DEBUG, name="http", failed=True))["AZURE_INIT_RESULT"] == "failed"
    assert "AZURE_INIT_RESULT" not in entry(Event(at=0.0, kind="start", level=INFO, name="user"))


def test_the_fields_of_an_event_are_fields_of_the_entry_but_never_in_our_own_place() -> None:
    told = entry(happened(url="http://x/y", attempt="2", id="forged", step="forged", kind="forged"), vm_id=VM_ID)
    assert (told["AZURE_INIT_URL"], told["AZURE_INIT_ATTEMPT"]) == ("http://x/y", "2")
    assert (told["AZURE_INIT_STEP"], told["AZURE_INIT_KIND"]) == ("user", "event")


def test_a_message_keeps_its_lines_and_loses_its_power_over_terminals() -> None:
    told = entry(happened("first\r\n\tsecond \x1b[31m\x00\n"))["MESSAGE"]
    assert told == "first\n\tsecond ?[31m?"


@given(st.text())
def test_a_field_has_a_name_that_journald_takes(name: str) -> None:
    made = field_name(name)
    assert made.startswith("AZURE_INIT_") and len(made) <= 64
    assert set(made) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


@given(st.dictionaries(st.from_regex("[A-Z]{1,9}", fullmatch=True), st.text()))
def test_whatever_is_told_is_read_back_the_same(fields: dict[str, str]) -> None:
    assert parse(encode(fields)) == {name: value.encode("utf-8", "replace").decode() for name, value in fields.items()}


@given(st.text())
def test_a_message_has_nothing_in_it_that_journalctl_would_hide(text: str) -> None:
    assert all(one.isprintable() or one in "\n\t" for one in lines(text))


# ---- the unit


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/azure-init.service\n", "azure-init.service"),
        ("0::/system.slice/azure-init.service/payload\n", "azure-init.service"),
        ("12:cpu:/x.service\n1:name=systemd:/system.slice/azure-init.service\n0::/\n", "azure-init.service"),
        ("0::/user.slice/user-0.slice/session-1.scope\n", ""),
        ("0::/user.slice/user@1000.service/app.slice/foot.service\n", "foot.service"),
        ("nonsense\n:::\n", ""),
        ("", ""),
    ],
)
def test_the_unit_is_the_control_groups(tmp_path: Path, cgroup: str, unit: str) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(cgroup)
    assert read_unit(Machine(kernel=str(tmp_path), environ={})) == unit


def test_no_control_group_is_no_unit(tmp_path: Path) -> None:
    assert read_unit(Machine(kernel=str(tmp_path), environ={})) == ""
    (tmp_path / "proc/self/cgroup").mkdir(parents=True)
    assert read_unit(Machine(kernel=str(tmp_path), environ={})) == ""


# ---- on the wire


def test_what_is_filtered_out_is_told_nowhere(daemon: Daemon) -> None:
    told = Listening(daemon)
    told.listen(happened(level=DEBUG))
    told.listen(Event(at=0.0, kind="start", level=INFO, name="user"))
    assert (daemon.heard(), told.otherwise) == ([], [])


def test_the_curious_hear_of_beginnings_too(daemon: Daemon) -> None:
    curious = parse_filter("debug")
    assert curious is not None
    Listening(daemon, chosen=curious).listen(Event(at=0.0, kind="start", level=INFO, name="user"))
    (data,) = daemon.heard()
    assert parse(data)["MESSAGE"] == "user: started"


def test_a_message_larger_than_any_datagram_goes_as_a_sealed_file(daemon: Daemon) -> None:
    told = Listening(daemon)
    told.listen(happened("x" * 5_000_000))
    (data,) = daemon.heard()
    assert parse(data)["MESSAGE"] == "x" * 5_000_000
    told.listen(happened("small again"))
    (data,) = daemon.heard()
    assert parse(data)["MESSAGE"] == "small again"


def test_no_file_stays_open_of_what_was_too_large(daemon: Daemon) -> None:
    told = Listening(daemon)
    told.listen(happened())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        told.listen(happened("x" * 1_000_000))
    daemon.heard()
    assert len(os.listdir("/proc/self/fd")) == before


def test_where_there_is_no_journald_somebody_else_hears_it(daemon: Daemon) -> None:
    told = Listening(daemon)
    os.unlink(daemon.address)
    told.listen(happened("one"))
    assert [event.text for event in told.otherwise] == ["one"]


def test_a_journald_that_comes_back_is_spoken_to_again(daemon: Daemon) -> None:
    told = Listening(daemon)
    told.listen(happened("one"))
    daemon.socket.close()
    told.listen(happened("two"))
    os.unlink(daemon.address)
    again = Daemon(str(Path(daemon.address).parent))
    told.listen(happened("three"))
    assert [event.text for event in told.otherwise] == ["two"]
    assert [parse(data)["MESSAGE"] for data in again.heard()] == ["three"]
    again.socket.close()


def test_a_journald_that_takes_nothing_is_waited_for_once(daemon: Daemon) -> None:
    journal = Datagrams(daemon.address, patience=0.3)
    daemon.open.append(journal)
    for _ in range(50_000):  # waited for every time, this would take hours
        assert journal.send(b"MESSAGE=x\n" * 100)
    assert journal.patience == 0.0
    assert 0 < len(daemon.heard()) < 50_000
    journal.send(b"MESSAGE=after\n")
    assert daemon.heard() == [b"MESSAGE=after\n"]


def test_events_reach_it_with_their_ids(daemon: Daemon) -> None:
    told = Listening(daemon)
    events = Events(clock=Machine(environ={}).clock, listeners=(told.listen,), seed="0" * 32)
    with events.step("metadata"):
        events.tell(WARN, "imds", "slow", url="http://169.254.169.254/")
    slow, finish = (parse(data) for data in daemon.heard())
    assert slow["AZURE_INIT_PARENT"] == finish["AZURE_INIT_ID"] == "0" * 31 + "1"
    assert slow["AZURE_INIT_URL"] == "http://169.254.169.254/"
    assert (finish["AZURE_INIT_KIND"], finish["AZURE_INIT_RESULT"]) == ("finish", "success")
    assert float(finish["AZURE_INIT_SECONDS"]) >= 0


# ---- whether it is ours to speak to


def test_standard_error_is_the_journal_only_if_it_is_the_file_systemd_names() -> None:
    status = os.fstat(2)
    same = f"{status.st_dev}:{status.st_ino}"
    assert stderr_is_journal(Machine(environ={"JOURNAL_STREAM": same}))
    for told in ("", "8:1", f"{same}0", f"{status.st_dev}", ":", "x:y"):
        assert not stderr_is_journal(Machine(environ={"JOURNAL_STREAM": told}))
    assert not stderr_is_journal(Machine(environ={}))
