"""The judge, on ledgers made up for it; and the ledger as a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeazure import Expect, Fabric, Judgement, Media, Vm
from fakeazure.events import Boot, End, Event, LedgerInvalid, MediaMade, Request, Told, read_events, to_line
from fakeazure.judge import judge, parse_report, split_report
from fakeazure.show import Palette, timeline, verdict
from fakeazure.vm import Imds

REPORT = 'result=error|reason=failed to provision hostname|agent=x|"native=a | b ""c"""|vm_id=7'


def boot(number: int = 1, *, t: float = 0, **expect: Any) -> Boot:
    return Boot(t=t, number=number, vm_id="7", expect=asdict(Expect(**expect)))


def ready(t: float = 1, *, acknowledged: bool = True) -> Told:
    return Told(t=t, kind="ready", acknowledged=acknowledged)


def failed(t: float = 1, description: str = REPORT) -> Told:
    return Told(t=t, kind="failed", description=description)


def progress(t: float = 0.5) -> Told:
    return Told(t=t, kind="progress", description="wait")


def stray(t: float = 0.5) -> Request:
    return Request(t=t, service="imds", method="GET", target="/x", path="/x", status=409, off_script=True)


def test_ready_is_believed() -> None:
    judgement = judge([boot(), progress(), ready(2.5), End(t=3, exit_code=0)])
    assert (judgement.state, judgement.ok, judgement.at) == ("ready", True, 2.5)


def test_the_commands_own_exit_status_does_not_count() -> None:
    assert judge([boot(), ready(), End(t=3, exit_code=1)]).ok


def test_silence_is_waiting() -> None:
    judgement = judge([boot(), progress(), End(t=3, exit_code=0)])
    assert (judgement.state, judgement.ok) == ("waiting", False)
    assert judgement.complaints == ("Ready was expected, and the platform was told no verdict",)


def test_silence_may_be_expected() -> None:
    assert judge([boot(verdict="none"), progress()]).ok


def test_a_failure_is_read_out_of_its_report() -> None:
    judgement = judge([boot(verdict="failure", reason="provision hostname", says=('native=a | b "c"',)), failed()])
    assert (judgement.state, judgement.ok, judgement.reason) == ("failed", True, "failed to provision hostname")
    assert judgement.report["native"] == 'a | b "c"'


def test_a_failure_in_plain_words_is_its_own_reason() -> None:
    judgement = judge([boot(verdict="failure"), failed(description="it broke")])
    assert (judgement.reason, judgement.report) == ("it broke", {})


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([boot(), failed()], "Ready was expected, and the platform was told of a failure"),
        ([boot(verdict="none"), failed()], "silence was expected, and the platform was told of a failure"),
        ([boot(verdict="failure")], "a failure was expected, and the platform was told no verdict"),
        ([boot(within_secs=5), ready(5.5)], "the verdict came after 5.5 s, later than 5 s"),
        ([boot(verdict="failure", reason="disk"), failed()],
         "the reason is 'failed to provision hostname', where 'disk' was expected"),
        ([boot(verdict="failure", says=("native", "hostnamectl")), failed()], "the report does not say 'hostnamectl'"),
    ],
)  # fmt: skip
def test_an_honest_verdict_may_still_be_the_wrong_one(events: list[Event], says: str) -> None:
    judgement = judge(events)
    assert judgement.complaints == (says,)
    assert judgement.state in ("ready", "failed", "waiting")


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([boot(), ready(), failed(2)], "told Ready, and then a failure, in one boot"),
        ([boot(verdict="failure"), failed(), ready(2)], "told a failure, and then Ready, in one boot"),
        ([boot(), ready(), ready(2)], "told Ready twice in one boot"),
        ([boot(verdict="failure"), failed(), failed(2)], "told a failure twice in one boot"),
        ([boot(), ready(), progress(2)], "told Ready, and then that it was still in progress"),
        ([boot(verdict="failure"), ready()], "told Ready where the truth is a failure"),
        ([boot(verdict="none"), ready()], "told Ready where the truth is silence"),
        ([boot(), ready(acknowledged=False), failed(2)], "told Ready, and then a failure, in one boot"),
    ],
)
def test_a_lie_is_called_one(events: list[Event], says: str) -> None:
    judgement = judge(events)
    assert (judgement.state, judgement.ok) == ("lied", False)
    assert says in judgement.complaints


def test_a_repetition_is_honest_where_the_answer_was_lost() -> None:
    assert judge([boot(), ready(acknowledged=False), ready(2)]).ok


def test_leaving_the_script_leaves_nothing_to_conclude() -> None:
    judgement = judge([boot(), stray(), ready()])
    assert (judgement.state, judgement.ok) == ("off-script", False)


def test_a_lie_weighs_more_than_leaving_the_script() -> None:
    judgement = judge([boot(), stray(), ready(), failed()])
    assert judgement.state == "lied" and len(judgement.complaints) == 2


def test_each_boot_may_tell_its_verdict() -> None:
    judgement = judge([boot(), ready(), boot(2, t=10), ready(11.5)])
    assert (judgement.ok, judgement.boot, judgement.at) == (True, 2, 1.5)


def test_a_silent_second_boot_leaves_the_platform_believing_the_first() -> None:
    judgement = judge([boot(), ready(), boot(2, t=10)])
    assert (judgement.state, judgement.ok, judgement.boot) == ("ready", True, 1)


def test_a_failure_may_become_ready_after_a_reboot() -> None:
    assert judge([boot(), failed(), boot(2, t=10), ready(11)]).ok


def test_a_lie_is_not_forgotten_by_rebooting() -> None:
    judgement = judge([boot(), ready(), failed(), boot(2, t=10), ready(11)])
    assert judgement.complaints == ("boot 1: told Ready, and then a failure, in one boot",)


def test_a_report_about_another_machine_is_remarked_on() -> None:
    judgement = judge([boot(), failed(description="result=error|reason=x|vm_id=8")])
    assert judgement.remarks == ("the report is about vm_id 8, this machine is 7",)


def test_nothing_can_be_judged_without_a_boot() -> None:
    with pytest.raises(ValueError, match="no boot"):
        judge([ready()])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "ready"),
        ({"vm": Vm(specialised=True)}, "ready"),
        ({"imds": Imds(enable=False)}, "ready"),
        ({"imds": Imds(enable=False), "media": Media(enable=False)}, "failure"),
        ({"wireserver": False}, "none"),
    ],
)
def test_what_is_expected_follows_from_what_is_possible(settings: dict[str, Any], expected: str) -> None:
    with Fabric(**settings) as fabric:
        assert fabric.judge().expected.verdict == expected


@given(fields=st.lists(st.text(min_size=1), min_size=1))
def test_a_report_splits_where_it_was_joined(fields: list[str]) -> None:
    def quoted(field: str) -> str:
        return '"' + field.replace('"', '""') + '"' if any(c in field for c in '|"\r\n') else field

    assert split_report("|".join(map(quoted, fields))) == fields


@given(text=st.text())
def test_any_description_can_be_read(text: str) -> None:
    parse_report(text)


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
    End(t=9, exit_code=None),
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
        (to_line(boot()) + '{"event": "told", "t": 1, "kind": "fine"}\n', ":2: 'fine' is nothing that a machine tells"),
        ('{"event": "boot", "t": 1, "number": 1, "vm_id": "", "expect": {"x": 1}}\n', ":1: expect is nothing"),
        ('{"event": "boot", "t": 1, "number": 1, "vm_id": "", "expect": {"verdict": "x"}}\n', ":1: expect is nothing"),
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


def shown(judgement: Judgement) -> str:
    return "\n".join(verdict(judgement, Palette(colour=False)))


def test_the_verdict_reads_as_a_sentence() -> None:
    assert shown(judge([boot(), ready()])) == "Verdict: Ready after 1.000 s (as expected)"
    assert shown(judge([boot(), failed()])).splitlines() == [
        "Verdict: failed after 1.000 s: failed to provision hostname",
        "  Wrong: Ready was expected, and the platform was told of a failure",
    ]
    assert shown(judge([boot(), ready(), failed()])).splitlines()[0] == "Verdict: the machine lied"


def test_the_timeline_shows_every_event_and_no_control_characters() -> None:
    hostile = failed(description="result=error|reason=\033[2J|x=\033]0;title\a")
    lines = timeline([*EVENTS, hostile, boot(2, t=20)], Palette(colour=False))
    text = "\n".join(lines)
    for part in ("UDF disc", "GET  /a?b", "scripted: reset", "no answer left", "in progress: wait", "native: a | b",
                 "the machine cannot know", "time is up", "boot 2"):  # fmt: skip
        assert part in text
    assert "\033" not in text and "\a" not in text


def test_an_empty_timeline_says_so() -> None:
    assert "no request reached the platform" in timeline([boot()], Palette(colour=False))[-1]


def asked(path: str, *, status: int = 200, t: float = 0.5) -> Request:
    return Request(t=t, service="imds", method="GET", target=path, path=path, status=status)


def test_either_verdict_may_be_the_truth_but_silence_is_not() -> None:
    assert judge([boot(verdict="either"), ready()]).ok
    assert judge([boot(verdict="either"), failed()]).ok
    assert judge([boot(verdict="either")]).complaints == (
        "a verdict was expected, and the platform was told no verdict",
    )


def test_ready_is_a_lie_without_what_it_must_rest_on() -> None:
    wants: dict[str, Any] = {"verdict": "either", "asks": ("/metadata/reprovisiondata",)}
    assert judge([boot(**wants), failed()]).ok
    lied = judge([boot(**wants), asked("/metadata/reprovisiondata", status=404), ready()])
    assert lied.complaints == ("told Ready without ever having had an answer from /metadata/reprovisiondata",)
    assert judge([boot(**wants), asked("/metadata/reprovisiondata"), ready()]).ok


def test_a_pre_provisioned_machine_says_ready_once_more_when_it_has_an_owner() -> None:
    again = [boot(), ready(1), asked("/metadata/reprovisiondata", t=2), progress(3), ready(4)]
    assert judge(again).ok and judge(again).at == 4
    assert judge([boot(), ready(1), asked("/metadata/reprovisiondata", status=404, t=2), ready(4)]).state == "lied"
