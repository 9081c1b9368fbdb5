"""The ledger as a file, and judgement and timeline as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakeazure.judge import judge
from fakeazure.platform.events import (
    Ejected,
    End,
    Event,
    Lease,
    LedgerInvalid,
    MediaMade,
    PoolRead,
    Request,
    read_events,
    to_line,
)
from fakeazure.show import Palette, timeline
from support.judged_events import asked, boot, failed, login, pool, progress, ready, shown, stray

EVENTS: list[Event] = [
    boot(),
    MediaMade(t=0.1, path="/x", format="udf", size=5),
    Request(
        t=0.2, service="imds", method="GET", target="/a?b", path="/a", headers={"x": "ü"}, status=None, fault="reset"
    ),
    stray(),
    progress(),
    failed(),
    ready(acknowledged=False),
    Ejected(t=1, path="/x"),
    PoolRead(t=1, path="/p", count=3),
    pool("report", "result=error|reason=no luck"),
    pool("diagnostic", "x", text="azure-init: user succeeded"),
    pool("diagnostic", "x", text="azure-init: disk failed after 2 s"),
    PoolRead(t=2, path="/p", count=1, late=True),
    PoolRead(t=2.5, path="/p", count=0, problem="Permission denied"),
    Lease(t=3, kind="discover", mac="00:0d:3a:00:00:01", address="10.0.0.4", hostname="fake-vm"),
    Lease(t=3, kind="request", mac="00:0d:3a:00:00:01", address="10.0.0.4"),
    Lease(t=3, kind="inform", mac="00:0d:3a:00:00:01"),
    Lease(t=3, kind="release", mac="00:0d:3a:00:00:01"),
    login(ok=True),
    login(ok=False, how="password", text="Permission denied"),
    End(t=9, exit_code=None),
    End(t=9, exit_code=0, of="machine", stopped=True),
]


def test_a_ledger_file_holds_every_event(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    file.write_text("".join(map(to_line, EVENTS)), encoding="utf-8")
    assert [to_line(event) for event in read_events(file)] == [to_line(event) for event in EVENTS]
    assert judge(read_events(file)) == judge(EVENTS)


def test_a_line_cut_short_by_a_kill_does_not_spoil_the_ledger(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    file.write_text(to_line(boot()) + to_line(ready()) + '{"event": "to')
    assert judge(read_events(file)).ok


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "does not begin with a boot"),
        (to_line(ready()), "does not begin with a boot"),
        (to_line(boot()) + "nonsense\n", ":2: not a line of a ledger"),
        (to_line(boot()) + "[]\n", ":2: not a line of a ledger"),
        (to_line(boot()) + '{"event": "flood"}\n', ":2: not a line of a ledger"),
        (to_line(boot()) + '{"event": "end", "t": 1, "exit_code": 0, "why": 1}\n', ":2: unknown why"),
        (to_line(boot()) + '{"event": "end", "t": "x", "exit_code": 0}\n', ":2: t is not a number"),
        (to_line(boot()) + '{"event": "told", "t": 1, "kind": "fine"}\n', ":2: kind 'fine' is not one of ready,"),
        (to_line(boot()) + '{"event": "told", "t": 1, "kind": []}\n', ":2: kind is not a text"),
        (to_line(boot()) + to_line(login(ok=True, how="key")).replace("true", "1"), ":2: ok is not true or false"),
        (to_line(boot()) + to_line(login(ok=True, how="luck")), ":2: how 'luck' is not one of key, password"),
        (to_line(boot()) + to_line(Lease(t=1, kind="x", mac="")), ":2: kind 'x' is not one of discover, solicit"),
        (to_line(boot()) + to_line(pool("x", "")), ":2: kind 'x' is not one of report, diagnostic"),
        (to_line(boot()) + to_line(End(t=1, exit_code=0, of="dog")), ":2: of 'dog' is not one of command, machine"),
        (to_line(boot()) + to_line(stray()).replace("{}", "[]"), ":2: headers is not a table"),
        ('{"event": "boot", "t": 1, "number": 1, "vm_id": "", "expect": {"x": 1}}\n', ":1: expect is not a valid"),
        (
            '{"event": "boot", "t": 1, "number": 1, "vm_id": "", "expect": {"verdict": "x"}}\n',
            ":1: expect is not a valid",
        ),
        (
            '{"event": "boot", "t": 1, "number": 1, "vm_id": "", "expect": {"within_secs": "x"}}\n',
            ":1: expect is not a valid",
        ),
        ('{"event": "boot", "t": 1, "number": 1, "vm_id": "", "expect": {"asks": [1]}}\n', ":1: expect is not a valid"),
    ],
)
def test_what_is_no_ledger_is_refused_with_its_line(content: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    file.write_text(content)
    with pytest.raises(LedgerInvalid) as caught:
        read_events(file)
    assert says in str(caught.value) and str(file) in str(caught.value)


def test_a_missing_ledger_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(LedgerInvalid, match="No such file"):
        read_events(tmp_path / "none")


def test_the_verdict_reads_as_a_sentence() -> None:
    assert shown(judge([boot(), ready()])).splitlines() == [
        "Verdict: Ready after 1.000 s (as expected)",
        "  Deadline: a verdict within 600 s, kept",
    ]
    assert shown(judge([boot(), failed()])).splitlines() == [
        "Verdict: failed after 1.000 s: failed to provision hostname",
        "  Wrong: Ready was expected, but the platform was told of a failure",
        "  Deadline: a verdict within 600 s, kept",
    ]
    assert shown(judge([boot(), ready(), failed()])).splitlines()[0] == "Verdict: the machine lied"


def test_the_timeline_shows_every_event_and_no_control_characters() -> None:
    hostile = failed(description="result=error|reason=\033[2J|x=\033]0;title\a")
    lines = timeline([*EVENTS, hostile, boot(2, t=20)], Palette(colour=False))
    text = "\n".join(lines)
    for part in ("UDF disc", "GET  /a?b", "scripted: reset", "no answer left", "in progress: wait", "native: a | b",
                 "the machine got no answer", "at the deadline", "boot 2", "ejects the disc",
                 "the host reads 3 records from the key-value pool", "result=error|reason=no luck",
                 "disk failed after 2 s", "1 record from the key-value pool  (after the verdict",
                 "cannot read the key-value pool: Permission denied",
                 "offered 10.0.0.4, with the host name 'fake-vm'", "DHCP request: gets 10.0.0.4", "DHCP inform: has",
                 "DHCP release: returns its address", "logs in as ada with the key: it works",
                 "logs in as ada with the password: refused  (Permission denied)"):  # fmt: skip
        assert part in text
    assert "user succeeded" not in text, "what went well is in the ledger"
    assert "\033" not in text and "\a" not in text


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (End(t=1, exit_code=7), "the command ends with status 7"),
        (End(t=1, exit_code=None), "the command is stopped at the deadline"),
        (End(t=1, exit_code=-15, stopped=True), "the command is stopped: fakeazure got a signal"),
        (End(t=1, exit_code=0, of="machine"), "the machine is off"),
        (End(t=1, exit_code=1, of="machine"), "the machine ends with status 1"),
        (End(t=1, exit_code=None, of="machine"), "the machine is stopped at the deadline"),
        (End(t=1, exit_code=0, of="machine", stopped=True), "the machine is stopped: fakeazure got a signal"),
    ],
)
def test_an_end_says_whose_it_is_and_why(end: End, says: str) -> None:
    assert timeline([boot(), end], Palette(colour=False))[1] == f"   1.000 s  {says}"


def test_a_machine_that_never_asked_for_an_address_is_remarked_on() -> None:
    silent = "the machine sent no DHCP request: does it have a network configuration?"
    off = End(t=9, exit_code=None, of="machine")
    assert judge([boot(), off]).remarks == (silent,)
    assert judge([boot(), Lease(t=1, kind="discover", mac="00:0d:3a:00:00:01"), off]).remarks == ()
    assert judge([boot(), asked("/metadata/instance"), off]).remarks == ()
    assert judge([boot(), End(t=9, exit_code=None)]).remarks == ()  # DHCP does not apply to a command


def test_an_empty_timeline_says_so() -> None:
    assert "no request reached the platform" in timeline([boot()], Palette(colour=False))[-1]
