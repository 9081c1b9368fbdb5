"""Events, steps, and what people read of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from wire import Ticking

from azureinit.errors import LocalError
from azureinit.machine import Machine, rfc3339
from azureinit.telemetry.events import DEBUG, ERROR, INFO, WARN, Event, Events
from azureinit.telemetry.log import SILENT, chosen_level, file_listener, sentence, stream_listener


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
    assert (start.kind, start.name, start.level) == ("start", "hostname", DEBUG)
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


def test_what_is_observed_is_for_the_curious_only(clock: Ticking) -> None:
    events, heard = listening(clock)
    events.observe("http", attempt=2, status=503)
    assert (heard[0].level, heard[0].text) == (DEBUG, "attempt=2 status=503")


# ---- in words


def event(text: str, *, level: int = INFO, kind: str = "event", failed: bool = False) -> Event:
    return Event(at=0.0, kind=kind, level=level, name="user", text=text, seconds=0.0123, failed=failed)


@pytest.mark.parametrize(
    ("happened", "words"),
    [
        (event("made"), "user: made"),
        (event("", kind="start"), "user: started"),
        (event("made", kind="finish"), "user: made (12 ms)"),
        (event("", kind="finish"), "user (12 ms)"),
        (event("no useradd", kind="finish", failed=True), "user failed: no useradd (12 ms)"),
    ],
)
def test_an_event_is_a_sentence(happened: Event, words: str) -> None:
    assert sentence(happened) == words


def test_a_sentence_is_one_line_whatever_a_program_said() -> None:
    told = sentence(event("first\r\n  second\n\n\x1b[31mthird\x07 \x85 \u2028fourth\n"))
    assert told == "user: first; second; ?[31mthird?; fourth"
    assert told.isprintable()


def test_a_stream_gets_one_line_an_event_from_its_level_on() -> None:
    lines: list[str] = []
    listen = stream_listener(lines.append, level=INFO)
    for level in (DEBUG, INFO, WARN, ERROR):
        listen(event("a\nb", level=level))
    assert lines == [
        "azure-init: user: a; b\n",
        "azure-init: warning: user: a; b\n",
        "azure-init: error: user: a; b\n",
    ]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("", INFO),
        ("debug", DEBUG),
        ("TRACE", DEBUG),
        (" warn ", WARN),
        ("azure_init=debug,error", ERROR),
        ("azure_init=debug", INFO),
        ("off", SILENT),
        ("nonsense", INFO),
    ],
)
def test_the_level_is_the_bare_one_of_the_directives(text: str, level: int) -> None:
    assert chosen_level(text, INFO) == level


def test_silence_is_above_every_level() -> None:
    assert max(DEBUG, INFO, WARN, ERROR) < SILENT


# ---- the log file


def test_the_log_file_is_private_dated_and_appended_to(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path), environ={})
    for _ in range(2):
        file_listener(machine, "/log", level=INFO)(event("made \udcff"))
    log = tmp_path / "log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_bytes() == b"1970-01-01T00:00:00.000000+00:00 info    user: made ?\n" * 2


def test_a_log_file_that_cannot_be_opened_is_given_up_at_once(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path), environ={})
    listen = file_listener(machine, "/missing/log", level=INFO)
    listen(event("one"))
    (tmp_path / "missing").mkdir()
    listen(event("two"))
    assert list(tmp_path.iterdir()) == [tmp_path / "missing"]
    assert not list((tmp_path / "missing").iterdir())


def test_what_is_below_the_level_makes_no_log_file(tmp_path: Path) -> None:
    file_listener(Machine(root=str(tmp_path), environ={}), "/log", level=INFO)(event("x", level=DEBUG))
    assert not list(tmp_path.iterdir())


def test_a_moment_is_written_in_utc_with_its_microseconds() -> None:
    assert rfc3339(1_700_000_000.25) == "2023-11-14T22:13:20.250000+00:00"
    assert rfc3339(0.9999999) == "1970-01-01T00:00:00.999999+00:00"
