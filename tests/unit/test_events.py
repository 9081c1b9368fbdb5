"""Events, steps, and their log lines."""

from __future__ import annotations

import sys
import threading

import pytest

from azureinit.config.filters import Filter, parse_filter
from azureinit.errors import LocalError
from azureinit.telemetry.events import DEBUG, ERROR, INFO, TRACE, WARN, Event, Events
from azureinit.telemetry.log import DEFAULT, log_filter, sentence, stream_listener, wants_colour
from support.event_runs import event
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
