"""Events, steps, and their log lines."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
import threading
from pathlib import Path

import pytest

from azureinit.config.filters import Filter, parse_filter
from azureinit.errors import LocalError
from azureinit.machine import Machine, rfc3339
from azureinit.telemetry.events import DEBUG, ERROR, INFO, TRACE, WARN, Event, Events
from azureinit.telemetry.log import DEFAULT, file_listener, log_filter, sentence, stream_listener, wants_colour
from support.wire import Ticking


@pytest.fixture
def clock() -> Ticking:
    return Ticking()


def listening(clock: Ticking) -> tuple[Events, list[Event]]:
    heard: list[Event] = []
    return Events(clock=clock, listeners=(heard.append,)), heard


def test_a_step_has_a_start_an_end_and_a_result(clock: Ticking) -> None:
    events, heard = listening(clock)
    with events.step("hostname") as step:
        clock.at += 2.5
        step.text = "set to web-1"
    start, finish = heard
    assert (start.kind, start.name, start.level) == ("start", "hostname", INFO)
    assert (finish.kind, finish.level, finish.text, finish.failed) == ("finish", INFO, "set to web-1", False)
    assert finish.seconds == 2.5
    assert finish.at - start.at == 2.5


def test_a_step_that_fails_tells_its_cause_and_lets_it_pass(clock: Ticking) -> None:
    events, heard = listening(clock)
    with pytest.raises(LocalError), events.step("hostname"):
        raise LocalError("cannot write /etc/hostname")
    assert (heard[-1].failed, heard[-1].level, heard[-1].text) == (True, ERROR, "cannot write /etc/hostname")


def test_a_cause_without_words_is_told_by_its_name(clock: Ticking) -> None:
    events, heard = listening(clock)
    with pytest.raises(KeyboardInterrupt), events.step("hostname"):
        raise KeyboardInterrupt
    assert heard[-1].text == "KeyboardInterrupt"


def test_one_step_does_not_speak_for_the_next(clock: Ticking) -> None:
    events, heard = listening(clock)
    with events.step("first") as step:
        step.text = "done"
    with events.step("second"):
        pass
    assert heard[-1].text == ""


def test_a_listener_that_fails_stops_neither_the_run_nor_the_others(clock: Ticking) -> None:
    heard: list[Event] = []

    def broken(_event: Event) -> None:
        raise OSError("no space left on device")

    events = Events(clock=clock, listeners=(broken, heard.append))
    events.tell(WARN, "x", "y")
    assert [event.text for event in heard] == ["y"]


def test_threads_may_tell_while_steps_come_and_go(clock: Ticking) -> None:
    events, heard = listening(clock)
    failures: list[Exception] = []

    def tell() -> None:
        try:
            for number in range(3000):
                events.observe("http", attempt=number)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=tell) for _thread in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            with events.step("hostname"):
                pass
    finally:
        sys.setswitchinterval(before)
    assert failures == []
    singles = [event.id for event in heard if event.kind != "finish"]
    assert len(set(singles)) == len(singles)


def test_what_is_observed_is_for_the_curious_only(clock: Ticking) -> None:
    events, heard = listening(clock)
    events.observe("http", attempt=2, status=503)
    assert (heard[0].level, heard[0].text) == (DEBUG, "attempt=2 status=503")


# ---- in words


def event(
    text: str, *, level: int = INFO, kind: str = "event", failed: bool = False, seconds: float | None = None
) -> Event:
    if kind == "finish" and seconds is None:
        seconds = 0.0123
    return Event(at=0.0, kind=kind, level=level, name="user", text=text, seconds=seconds, failed=failed)


def asked(text: str) -> Filter:
    found = parse_filter(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("happened", "words"),
    [
        (event("made"), "made"),
        (event("", kind="start"), "user: started"),
        (event("made", kind="finish"), "made (12 ms)"),
        (event("", kind="finish"), "user (12 ms)"),
        (event("no useradd", kind="finish", failed=True), "user failed: no useradd (12 ms)"),
        (event("status=200", seconds=0.5), "status=200 (500 ms)"),
        (event("", kind="finish", seconds=0.0), "user (0 ms)"),
        (event(" "), "user:"),
    ],
)
def test_an_event_is_a_sentence(happened: Event, words: str) -> None:
    assert sentence(happened) == words


def test_a_sentence_is_one_line_whatever_a_program_said() -> None:
    told = sentence(event("first\r\n  second\n\n\x1b[31mthird\x07 \x85 \u2028fourth\n"))
    assert told == "first; second; ?[31mthird?; fourth"
    assert told.isprintable()


def test_the_name_of_a_step_has_no_power_over_a_terminal_either() -> None:
    assert sentence(Event(at=0.0, kind="start", level=INFO, name="host key\n\x1b[2J")) == "host key; ?[2J: started"


# ---- how much is told


@pytest.mark.parametrize("text", ["", "  ", ",", " , "])
def test_a_filter_that_says_nothing_leaves_ours(text: str) -> None:
    warnings: list[str] = []
    assert log_filter({"AZURE_INIT_LOG": text}, warnings) == log_filter({}, warnings) == DEFAULT
    assert warnings == []


def test_a_filter_that_is_none_is_ignored_with_a_warning() -> None:
    warnings: list[str] = []
    assert log_filter({"AZURE_INIT_LOG": "=;\x1b[2J"}, warnings) == DEFAULT
    assert warnings == ["AZURE_INIT_LOG: =;\\x1b[2J is not a filter: ignored"]


def test_a_filter_that_is_one_is_what_counts() -> None:
    warnings: list[str] = []
    found = log_filter({"AZURE_INIT_LOG": "warn,libazureinit::user=debug"}, warnings)
    assert (found.allows("user", DEBUG), found.allows("hostname", INFO), warnings) == (True, False, [])


@pytest.mark.parametrize(
    ("text", "start", "finish"),
    [
        ("info", False, True),
        ("debug", True, True),
        ("trace", True, True),
        ("warn", False, False),
        ("off", False, False),
    ],
)
def test_a_step_is_one_line_unless_somebody_is_curious(text: str, start: bool, finish: bool) -> None:
    lines: list[str] = []
    listen = stream_listener(lines.append, chosen=asked(text), colour=False)
    listen(event("", kind="start"))
    assert bool(lines) is start
    lines.clear()
    listen(event("", kind="finish"))
    assert bool(lines) is finish


# ---- standard error


def test_a_stream_gets_one_line_an_event_from_its_level_on() -> None:
    lines: list[str] = []
    listen = stream_listener(lines.append, chosen=DEFAULT, colour=False)
    for level in (TRACE, DEBUG, INFO, WARN, ERROR):
        listen(event("a\nb", level=level))
    assert lines == [
        "azure-init: a; b\n",
        "azure-init: warning: user: a; b\n",
        "azure-init: error: user failed: a; b\n",
    ]


@pytest.mark.parametrize(
    ("happened", "line"),
    [
        (event("made"), "azure-init: made\n"),
        (event("made", kind="finish"), "azure-init: made \x1b[2m(12 ms)\x1b[0m\n"),
        (event("old", level=WARN), "azure-init: \x1b[33mwarning: user: old\x1b[0m\n"),
        (
            event("no useradd", kind="finish", level=ERROR, failed=True),
            "azure-init: \x1b[31merror: user failed: no useradd\x1b[0m \x1b[2m(12 ms)\x1b[0m\n",
        ),
        (
            event("refused", kind="finish", level=WARN, failed=True),
            "azure-init: \x1b[31mwarning: user failed: refused\x1b[0m \x1b[2m(12 ms)\x1b[0m\n",
        ),
        (
            event("refused", level=DEBUG, failed=True, seconds=1.0),
            "azure-init: user failed: refused \x1b[2m(1000 ms)\x1b[0m\n",
        ),
        (event("\x1b[32mgreen"), "azure-init: ?[32mgreen\n"),
    ],
)
def test_failures_are_red_warnings_yellow_and_times_dim(happened: Event, line: str) -> None:
    lines: list[str] = []
    stream_listener(lines.append, chosen=asked("debug"), colour=True)(happened)
    assert lines == [line]


@pytest.mark.parametrize(
    ("environ", "terminal", "colour"),
    [
        ({"TERM": "xterm"}, True, True),
        ({}, True, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm"}, False, False),
    ],
)
def test_colour_is_for_terminals_that_did_not_decline(environ: dict[str, str], terminal: bool, colour: bool) -> None:
    assert wants_colour(environ, terminal=terminal) is colour


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
