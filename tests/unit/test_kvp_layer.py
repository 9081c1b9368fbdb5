"""The listener for the key-value pool: what it writes, when, how much, and its behaviour when it cannot write."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from azureinit.config.filters import parse_filter
from azureinit.kvp.diagnostics import Diagnostic
from azureinit.kvp.entries import parse_entries
from azureinit.kvp.report import REPORT_KEY
from azureinit.kvp.store import Store
from azureinit.machine import Machine
from azureinit.telemetry.events import ERROR, INFO, WARN, Events
from azureinit.telemetry.kvp import AGENT, DEFAULT, KEPT, MOST_PIECES, NO_VM_ID, PER_BOOT, KvpLayer
from support.wire import Ticking

VM_ID = "11111111-2222-4333-8444-555555555555"
SEED = "0123456789abcdef" * 2


class Pool:
    def __init__(self, directory: Path, *, filter: str = "", vm_id: str = VM_ID, kernel: str = "/") -> None:  # noqa: A002
        self.clock = Ticking()
        self.machine = Machine(root=str(directory), kernel=kernel, clock=self.clock, environ={})
        self.file = directory / "pools/.kvp_pool_1"
        about = {"vm_id": vm_id} if vm_id else {}
        chosen = parse_filter(filter) if filter else DEFAULT
        assert chosen is not None
        self.layer = KvpLayer(self.machine, "/pools", chosen=chosen, about=about)
        self.events = Events(clock=self.clock, listeners=(self.layer,), seed=SEED, about=about)

    def pairs(self) -> list[tuple[str, str]]:
        return Store(self.machine, directory="/pools", timeout=1).pairs()

    def diagnostics(self) -> list[Diagnostic]:
        entries = parse_entries(self.pairs())
        return [entry for entry in entries if isinstance(entry, Diagnostic)]


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    (tmp_path / "pools").mkdir()
    return Pool(tmp_path)


def test_a_step_is_a_start_and_a_finish_of_one_id(pool: Pool) -> None:
    with pool.events.step("hostname") as step:
        pool.clock.at += 1.5
        step.text = "done by native"
    assert not pool.file.exists()
    pool.events.flush()
    start, finish = pool.diagnostics()
    assert (start.kind, start.name, start.result, start.duration) == ("start", "hostname", None, None)
    assert (finish.kind, finish.result, finish.duration, finish.payload) == ("finish", "success", 1.5, "done by native")
    assert start.event_id == finish.event_id == "01234567-89ab-cdef-0123-456789abcdf0"
    assert {one.agent for one in (start, finish)} == {AGENT} and {one.vm_id for one in (start, finish)} == {VM_ID}
    assert pool.file.stat().st_mode & 0o777 == 0o600


def test_a_step_that_fails_tells_its_cause(pool: Pool) -> None:
    with pytest.raises(ValueError), pool.events.step("user"):
        raise ValueError("no useradd | here\0")
    pool.events.flush()
    assert (pool.diagnostics()[-1].result, pool.diagnostics()[-1].payload) == ("fail", "no useradd | here?")


def test_an_attempt_is_one_event_with_its_result_and_time(pool: Pool) -> None:
    pool.events.observe("http", method="GET", attempt=2, seconds=0.25, failure="status 503")
    pool.events.observe("http", method="GET", attempt=3, seconds=0.5, status=200)
    pool.events.flush()
    failed, done = pool.diagnostics()
    assert (failed.result, failed.duration, failed.payload) == ("fail", 0.25, "method=GET attempt=2: status 503")
    assert (done.result, done.duration, done.payload) == ("success", 0.5, "method=GET attempt=3 status=200")


def test_a_batch_is_one_write(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    pool.events.tell(INFO, "first", "so that the pool is known")
    pool.events.flush()
    writes: list[int] = []
    real = os.pwrite

    def counted(file: int, data: bytes, at: int) -> int:
        writes.append(len(data))
        return real(file, data, at)

    monkeypatch.setattr(os, "pwrite", counted)
    for number in range(60):
        pool.events.tell(INFO, "one", f"of {number}")
    pool.events.flush()
    assert writes == [60 * 2560]


def test_a_long_wait_is_told_while_it_lasts(pool: Pool) -> None:
    pool.events.tell(INFO, "first", "x")
    assert not pool.file.exists()
    pool.clock.at += 6
    pool.events.tell(INFO, "second", "y")
    assert [one.name for one in pool.diagnostics()] == ["first", "second"]


def test_who_is_nobody_yet_is_written_as_nobody_and_only_when_it_must(tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    pool = Pool(tmp_path, vm_id="")
    pool.clock.at += 6
    pool.events.tell(INFO, "first", "x")
    assert not pool.file.exists()
    pool.events.flush()
    assert pool.diagnostics()[0].vm_id == NO_VM_ID
    pool.events.about["vm_id"] = VM_ID
    pool.events.tell(INFO, "second", "x")
    pool.events.flush()
    assert pool.diagnostics()[1].vm_id == VM_ID


def test_a_boot_writes_so_many_records_and_keeps_the_last_for_what_goes_wrong(pool: Pool) -> None:
    for number in range(2 * PER_BOOT):
        pool.events.tell(INFO, "one", f"{number}")
        if number % 50 == 0:
            pool.events.flush()
    pool.events.flush()
    assert len(pool.pairs()) == PER_BOOT - 1 - KEPT
    for number in range(2 * PER_BOOT):
        pool.events.tell(WARN, "wrong", f"{number}")
    pool.events.flush()
    pool.layer.attach("dmesg", b"usb 1: new device", event_id=SEED)
    pool.layer.report("result=success")
    assert len(pool.pairs()) == PER_BOOT
    assert pool.pairs()[-1] == (REPORT_KEY, "result=success")


def test_requests_that_go_on_for_hours_leave_room_for_the_steps(pool: Pool) -> None:
    for attempt in range(2 * PER_BOOT):
        pool.events.observe("http", method="GET", attempt=attempt, seconds=0.1, failure="no answer")
    with pool.events.step("hostname"):
        pass
    pool.events.flush()
    assert [one.name for one in pool.diagnostics()][-2:] == ["hostname", "hostname"]


def test_kernel_messages_leave_room_for_what_comes_after_them(pool: Pool) -> None:
    pool.layer.attach("dmesg", os.urandom(1 << 19), event_id=SEED)
    pool.events.tell(WARN, "network", "no default route")
    pool.events.flush()
    assert [one.name for one in pool.diagnostics()] == ["dmesg", "network"]
    assert len(pool.pairs()) < PER_BOOT


def test_a_text_of_any_length_is_cut_and_takes_nothing_else_with_it(pool: Pool) -> None:
    pool.events.tell(WARN, "endless", "\U0001f426" * (1 << 20))
    pool.events.tell(WARN, "network", "no default route")
    pool.events.flush()
    endless, network = pool.diagnostics()
    assert isinstance(endless.payload, str) and endless.payload.endswith("\U0001f426...")
    assert len(pool.pairs()) == MOST_PIECES + 1 and network.payload == "no default route"
    assert max(len(value.encode()) for _key, value in pool.pairs()) <= 1022


def test_the_last_place_gets_as_much_of_a_text_as_fits(pool: Pool) -> None:
    for number in range(PER_BOOT - 2):
        pool.events.tell(WARN, "one", f"{number}")
    pool.events.tell(WARN, "last", "x" * 5000)
    pool.events.flush()
    assert pool.diagnostics()[-1].name == "last" and len(pool.pairs()) == PER_BOOT - 1


def test_an_error_is_a_failure_also_where_it_took_no_time(pool: Pool) -> None:
    pool.events.tell(ERROR, "provision", "invalid username")
    pool.events.tell(WARN, "media", "no medium")
    pool.events.flush()
    assert [(one.result, one.duration) for one in pool.diagnostics()] == [("fail", None), (None, None)]


def test_a_machine_that_does_not_know_when_it_booted_tells_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    (tmp_path / "kernel/proc").mkdir(parents=True)
    (tmp_path / "kernel/proc/stat").write_text("cpu 1 2 3\n")
    pool = Pool(tmp_path, kernel=str(tmp_path / "kernel"))
    pool.file.write_bytes(bytes(2560))
    pool.events.tell(INFO, "one", "x")
    pool.events.flush()
    pool.layer.report("result=success")
    assert [key.split("|")[0] for key, _value in pool.pairs()] == ["", "DIAG", REPORT_KEY]
    assert not pool.layer.failure


def test_the_report_alone_empties_an_earlier_boots_pool_too(tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    pool = Pool(tmp_path, filter="off")
    Store(pool.machine, directory="/pools", timeout=1).append("OLD", "of an earlier boot")
    os.utime(pool.file, (0, 0))
    pool.layer.report("result=success")
    assert pool.pairs() == [(REPORT_KEY, "result=success")]


def test_threads_that_tell_while_it_is_written_lose_nothing(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("azureinit.telemetry.kvp.PER_BOOT", 10_000)

    def tell() -> None:
        for number in range(500):
            pool.events.tell(WARN, "one", f"{number}")

    threads = [threading.Thread(target=tell) for _thread in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        pool.events.flush()
    pool.events.flush()
    assert len({one.event_id for one in pool.diagnostics()}) == 2000


def test_a_second_run_of_the_same_boot_goes_on_counting(tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    pool = Pool(tmp_path)
    for run in range(3):
        pool = Pool(tmp_path) if run else pool
        for number in range(100):
            pool.events.tell(INFO, "one", f"{number}")
        pool.events.flush()
    assert len(pool.pairs()) == PER_BOOT - 1 - KEPT


def test_an_earlier_boots_pool_is_emptied_first(pool: Pool) -> None:
    Store(pool.machine, directory="/pools", timeout=1).append("OLD", "of an earlier boot")
    os.utime(pool.file, (0, 0))
    pool.events.tell(INFO, "one", "x")
    pool.events.flush()
    assert [key.split("|")[0] for key, _value in pool.pairs()] == ["DIAG"]


def test_others_of_this_boot_stay(pool: Pool) -> None:
    Store(pool.machine, directory="/pools", timeout=1).append("CLOUD_INIT|x", "y")
    pool.events.tell(INFO, "one", "x")
    pool.events.flush()
    assert pool.pairs()[0] == ("CLOUD_INIT|x", "y")


def test_the_report_is_one_record_that_a_new_one_replaces_whatever_the_filter(tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    pool = Pool(tmp_path, filter="off")
    pool.events.tell(WARN, "x", "y")
    pool.events.flush()
    for text in ("result=error|reason=x", "result=success"):
        pool.layer.report(text)
    assert pool.pairs() == [(REPORT_KEY, "result=success")]


def test_something_long_is_compressed_and_cut_to_the_room_there_is(pool: Pool) -> None:
    lines = b"".join(
        b"[%5d.%06d] usb %d: new device\n" % (number, number * 7919 % 1000000, number) for number in range(9000)
    )
    pool.layer.attach("dmesg", lines, event_id=SEED)
    (found,) = pool.diagnostics()
    assert isinstance(found.payload, bytes) and lines.endswith(found.payload) and len(found.payload) > 10_000
    assert len(pool.pairs()) <= PER_BOOT
    assert (found.name, found.encoding) == ("dmesg", "gz+b64")


def test_values_are_split_between_characters(pool: Pool) -> None:
    text = "é" * 1500
    pool.events.tell(INFO, "long", text)
    pool.events.flush()
    assert len(pool.pairs()) == 3
    assert pool.diagnostics()[0].payload == text


def test_a_name_of_any_kind_can_be_written(pool: Pool) -> None:
    pool.events.tell(INFO, "a|b\0\udcff" + "é" * 100, "x")
    pool.events.flush()
    assert pool.diagnostics()[0].name.startswith("a/b??é")


@pytest.mark.parametrize("broken", ["missing", "file", "torn", "link"])
def test_a_pool_that_cannot_be_written_is_given_up_and_not_made_worse(tmp_path: Path, broken: str) -> None:
    pools = tmp_path / "pools"
    if broken == "file":
        pools.write_text("not a directory")
    elif broken != "missing":
        pools.mkdir()
        if broken == "torn":
            (pools / ".kvp_pool_1").write_bytes(b"x" * 100)
        else:
            (pools / ".kvp_pool_1").mkdir()
    before = [(path, path.read_bytes() if path.is_file() else b"") for path in sorted(tmp_path.rglob("*"))]
    pool = Pool(tmp_path)
    pool.events.tell(INFO, "one", "x")
    pool.events.flush()
    pool.layer.report("result=success")
    pool.layer.attach("dmesg", b"x", event_id=SEED)
    assert pool.layer.failure
    assert pool.layer.missing == (broken in ("missing", "file"))
    assert [(path, path.read_bytes() if path.is_file() else b"") for path in sorted(tmp_path.rglob("*"))] == before


def test_a_pool_that_somebody_holds_is_waited_for_only_so_long(tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    pool = Pool(tmp_path)
    pool.file.touch()
    with pool.file.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        began = pool.clock.at
        for number in range(5):
            pool.events.tell(INFO, "one", f"{number}")
            pool.events.flush()
        pool.layer.report("result=success")
        assert pool.clock.at - began < 5
    assert "has held it" in pool.layer.failure
    assert pool.file.stat().st_size == 0
