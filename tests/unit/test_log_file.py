"""The log file and its rotation."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
from pathlib import Path

import pytest

from azureinit.machine import Machine, rfc3339
from azureinit.telemetry.events import DEBUG, Event
from azureinit.telemetry.log import DEFAULT, file_listener
from support.event_runs import event

# ---- the log file


LINE = b"1970-01-01T00:00:00.000000+00:00 info    made\n"


def write_log(root: Path, *events: Event, path: str = "/log", limit: int = 0) -> None:
    listen = file_listener(Machine(root=str(root), environ={}), path, chosen=DEFAULT, limit_bytes=limit)
    for one in events:
        listen(one)


def test_the_log_file_is_private_dated_and_appended_to(tmp_path: Path) -> None:
    for _ in range(2):
        write_log(tmp_path, event("made \udcff"))
    log = tmp_path / "log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_bytes() == b"1970-01-01T00:00:00.000000+00:00 info    made ?\n" * 2


def test_a_log_file_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    log.chmod(0o644)
    write_log(tmp_path, event("made"))
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_bytes() == b"before\n" + LINE


def test_a_log_file_that_cannot_be_opened_is_given_up_at_once(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path), environ={})
    listen = file_listener(machine, "/missing/log", chosen=DEFAULT, limit_bytes=0)
    listen(event("one"))
    (tmp_path / "missing").mkdir()
    listen(event("two"))
    assert list(tmp_path.iterdir()) == [tmp_path / "missing"]
    assert not list((tmp_path / "missing").iterdir())


def test_what_is_below_the_level_makes_no_log_file(tmp_path: Path) -> None:
    write_log(tmp_path, event("x", level=DEBUG), event("", kind="start"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rooted", [True, False])
def test_no_link_is_followed_to_the_log(tmp_path: Path, rooted: bool) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("precious\n")
    theirs.chmod(0o644)
    (tmp_path / "log").symlink_to("theirs")
    (tmp_path / "dangling").symlink_to("made")
    os.link(theirs, tmp_path / "second")
    for name in ("log", "dangling", "second"):
        path = f"/{name}" if rooted else str(tmp_path / name)
        write_log(tmp_path if rooted else Path("/"), event("made"), path=path)
    assert (theirs.read_text(), theirs.stat().st_mode & 0o777) == ("precious\n", 0o644)
    assert not (tmp_path / "made").exists()


def test_what_is_no_file_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for path in ("/pipe", "/directory", "/loop", "/loop/log", "/directory/", "/\0"):
        write_log(tmp_path, event("made"), path=path)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_log(tmp_path, event("made"), path="/pipe")
        assert os.read(reader, 100) == b""
    finally:
        os.close(reader)
    assert not list((tmp_path / "directory").iterdir())


def test_a_full_disk_loses_lines_and_nothing_else(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    machine = Machine(root=str(tmp_path), environ={})
    listen = file_listener(machine, "/log", chosen=DEFAULT, limit_bytes=0)
    listen(event("made"))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(LINE), before[1]))
    try:
        listen(event("lost"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    listen(event("made"))
    assert (tmp_path / "log").read_bytes() == LINE * 2


# ---- its rotation


def test_a_log_is_put_aside_before_a_line_would_outgrow_it(tmp_path: Path) -> None:
    log, aside = tmp_path / "log", tmp_path / "log.1"
    write_log(tmp_path, *[event("made")] * 2, limit=2 * len(LINE))
    assert not aside.exists()
    write_log(tmp_path, event("made"), limit=2 * len(LINE))
    assert (log.read_bytes(), aside.read_bytes()) == (LINE, LINE * 2)
    assert log.stat().st_mode & 0o777 == aside.stat().st_mode & 0o777 == 0o600
    write_log(tmp_path, event("next"), event("last"), limit=2 * len(LINE))
    assert (log.read_bytes(), aside.read_bytes()) == (
        LINE.replace(b"made", b"last"),
        LINE + LINE.replace(b"made", b"next"),
    )
    assert {path.name for path in tmp_path.iterdir()} == {"log", "log.1"}


def test_a_line_longer_than_the_limit_is_written_all_the_same(tmp_path: Path) -> None:
    write_log(tmp_path, event("made"), event("made"), limit=10)
    assert (tmp_path / "log").read_bytes() == (tmp_path / "log.1").read_bytes() == LINE


def test_without_a_limit_a_log_grows(tmp_path: Path) -> None:
    write_log(tmp_path, *[event("made")] * 100, limit=0)
    assert (tmp_path / "log").read_bytes() == LINE * 100


def test_a_log_that_cannot_be_put_aside_grows(tmp_path: Path) -> None:
    (tmp_path / "log.1").mkdir()
    write_log(tmp_path, *[event("made")] * 5, limit=len(LINE))
    assert (tmp_path / "log").read_bytes() == LINE * 5


def test_a_link_in_the_place_of_the_older_log_is_replaced_and_not_followed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("precious\n")
    (tmp_path / "log.1").symlink_to("theirs")
    write_log(tmp_path, event("made"), event("made"), limit=len(LINE))
    assert theirs.read_text() == "precious\n"
    assert not (tmp_path / "log.1").is_symlink()


def test_a_log_that_was_removed_is_begun_anew(tmp_path: Path) -> None:
    listen = file_listener(Machine(root=str(tmp_path), environ={}), "/log", chosen=DEFAULT, limit_bytes=1 << 20)
    listen(event("made"))
    (tmp_path / "log").unlink()
    listen(event("made"))
    assert (tmp_path / "log").read_bytes() == LINE


def test_a_log_that_another_put_aside_is_followed_at_its_end(tmp_path: Path) -> None:
    limit = 2 * len(LINE)
    first = file_listener(Machine(root=str(tmp_path), environ={}), "/log", chosen=DEFAULT, limit_bytes=limit)
    first(event("made"))
    write_log(tmp_path, event("made"), event("made"), limit=limit)
    first(event("made"))  # what it has open is full and has another name by now
    assert (tmp_path / "log.1").read_bytes() == (tmp_path / "log").read_bytes() == LINE * 2


def test_whoever_finds_another_putting_it_aside_does_not_wait(tmp_path: Path) -> None:
    write_log(tmp_path, event("made"), limit=len(LINE))
    with (tmp_path / "log").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_log(tmp_path, event("made"), limit=len(LINE))
    assert (tmp_path / "log").read_bytes() == LINE * 2


def test_a_moment_is_written_in_utc_with_its_microseconds() -> None:
    assert rfc3339(1_700_000_000.25) == "2023-11-14T22:13:20.250000+00:00"
    assert rfc3339(0.9999999) == "1970-01-01T00:00:00.999999+00:00"
