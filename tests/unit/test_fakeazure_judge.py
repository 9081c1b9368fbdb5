"""The judge, on constructed ledgers; the ledger as a file; the timeline."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fakeazure import Expect, Judgement
from fakeazure.judge import judge
from fakeazure.platform.events import (
    Boot,
    Ejected,
    End,
    Event,
    Kvp,
    Lease,
    LedgerInvalid,
    Login,
    MediaMade,
    PoolRead,
    Request,
    Told,
    read_events,
    to_line,
)
from fakeazure.platform.report import parse_report, split_report
from fakeazure.show import Palette, timeline, verdict

REPORT = 'result=error|reason=failed to provision hostname|agent=x|"native=a | b ""c"""|vm_id=7'


def boot(number: int = 1, *, t: float = 0, **expect: Any) -> Boot:
    return Boot(t=t, number=number, vm_id="7", expect=asdict(Expect(**expect)))


def ready(t: float = 1, *, acknowledged: bool = True) -> Told:
    return Told(t=t, kind="ready", acknowledged=acknowledged)


def failed(t: float = 1, description: str = REPORT) -> Told:
    return Told(t=t, kind="failed", description=description)


def progress(t: float = 0.5) -> Told:
    return Told(t=t, kind="progress", description="wait")


def pool(kind: str, value: str, *, text: str = "", t: float = 1, late: bool = False, cut: bool = False) -> Kvp:
    return Kvp(t=t, key=f"key of {kind}", value=value, kind=kind, text=text or value, late=late, cut=cut)


def login(*, ok: bool, how: str = "key", text: str = "", t: float = 2) -> Login:
    return Login(t=t, how=how, user="ada", ok=ok, text=text)


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
    assert judgement.complaints == ("Ready was expected, but the platform was told no verdict",)


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
        ([boot(), failed()], "Ready was expected, but the platform was told of a failure"),
        ([boot(verdict="none"), failed()], "silence was expected, but the platform was told of a failure"),
        ([boot(verdict="failure")], "a failure was expected, but the platform was told no verdict"),
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


NO_LOGIN = "result=error|reason=the admin cannot log in|agent=x|vm_id=7"


def test_a_failure_because_no_login_is_possible_is_held_against_a_login() -> None:
    expected = boot(verdict="either")
    honest = judge([expected, failed(description=NO_LOGIN), login(ok=False, text="Permission denied")])
    assert (honest.state, honest.ok, honest.remarks) == ("failed", True, ())
    liar = judge([expected, failed(description=NO_LOGIN), login(ok=False, how="key"), login(ok=True, how="password")])
    assert liar.state == "lied"
    assert "told that no login is possible, and then let ada in with the password" in str(liar)


def test_a_credential_that_the_report_doubts_may_be_refused_where_another_works() -> None:
    doubt = "result=success|agent=x|access=the key that was given does not let azureuser in: because"
    told = [boot(), pool("report", doubt, t=0.9), ready()]
    assert judge([*told, login(ok=False, how="key"), login(ok=True, how="password")]).state == "ready"
    assert judge([*told, login(ok=False, how="key"), login(ok=False, how="password")]).state == "lied"
    assert judge([*told, login(ok=True, how="key"), login(ok=False, how="password")]).state == "lied"
    assert judge([boot(), ready(), login(ok=False, how="key"), login(ok=True, how="password")]).state == "lied"


def test_an_image_may_ask_for_key_and_password_together() -> None:
    refused = [login(ok=False, how="key"), login(ok=False, how="password")]
    together = login(ok=True, how=Login.BOTH)
    assert judge([boot(), ready(), *refused]).state == "lied"
    assert judge([boot(), ready(), *refused, together]).state == "ready"
    assert judge([boot(), failed(description=NO_LOGIN), *refused, together]).state == "lied"


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


@given(fields=st.lists(st.text(min_size=1), min_size=1))
def test_a_report_splits_where_it_was_joined(fields: list[str]) -> None:
    def quoted(field: str) -> str:
        return '"' + field.replace('"', '""') + '"' if any(c in field for c in '|"\r\n') else field

    assert split_report("|".join(map(quoted, fields))) == fields


@given(text=st.text())
def test_any_description_can_be_read(text: str) -> None:
    assert bool(parse_report(text)) == (split_report(text)[0].partition("=")[0] == "result")


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
        (to_line(boot()) + to_line(Lease(t=1, kind="x", mac="")), ":2: kind 'x' is not one of discover, request"),
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


def shown(judgement: Judgement) -> str:
    return "\n".join(verdict(judgement, Palette(colour=False)))


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


def asked(path: str, *, status: int = 200, t: float = 0.5) -> Request:
    return Request(t=t, service="imds", method="GET", target=path, path=path, status=status)


def test_either_verdict_may_be_the_truth_but_silence_is_not() -> None:
    assert judge([boot(verdict="either"), ready()]).ok
    assert judge([boot(verdict="either"), failed()]).ok
    assert judge([boot(verdict="either")]).complaints == (
        "a verdict was expected, but the platform was told no verdict",
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


def test_ready_is_a_lie_where_nobody_can_log_in() -> None:
    lied = judge([boot(), ready(), login(ok=True), login(ok=False, how="password", text="Permission denied")])
    assert lied.state == "lied"
    assert lied.complaints == ("told Ready, and then a login as ada with the password was refused (Permission denied)",)
    assert judge([boot(), ready(), login(ok=True), login(ok=True, how="password")]).ok


def test_a_login_that_works_in_the_end_works() -> None:
    assert judge([boot(), ready(), login(ok=False), login(ok=True, t=3)]).ok
    assert not judge([boot(), ready(), login(ok=True), login(ok=False, t=3)]).ok


def test_a_login_counts_in_its_own_boot() -> None:
    events = [boot(), ready(), login(ok=True), boot(2, t=10), ready(11), login(ok=False, t=12)]
    assert judge(events).complaints == ("boot 2: told Ready, and then a login as ada with the key was refused",)


def test_a_login_that_fails_without_ready_is_only_remarked() -> None:
    judgement = judge([boot(verdict="failure"), failed(), login(ok=False)])
    assert judgement.ok
    assert judgement.remarks == ("a login as ada with the key was refused, and Ready was not told",)


READ = PoolRead(t=1, path="/p", count=1)


def test_a_report_that_contradicts_the_verdict_is_a_lie() -> None:
    lied = judge([boot(), ready(), READ, pool("report", "result=error|reason=no luck")])
    assert lied.complaints == ("told Ready, but its PROVISIONING_REPORT says error: no luck",)
    lied = judge([boot(verdict="failure"), failed(), READ, pool("report", "result=success|agent=x")])
    assert lied.complaints == ("told a failure, but its PROVISIONING_REPORT says success",)
    assert lied.state == "lied"


def test_a_report_that_agrees_or_comes_too_late_is_no_lie() -> None:
    assert judge([boot(), ready(), READ, pool("report", "result=success")]).remarks == ()
    assert judge([boot(verdict="failure"), failed(), READ, pool("report", "result=error|reason=x")]).ok
    assert judge([boot(), ready(), pool("report", "result=error|reason=x", late=True)]).ok


def test_what_is_odd_about_a_pool_is_remarked() -> None:
    assert judge([boot(), ready()]).remarks == ()
    assert judge([boot(), READ]).remarks == ()
    missing = "the host found no PROVISIONING_REPORT with the verdict"
    assert judge([boot(), ready(), READ, pool("other", "x")]).remarks == (missing,)
    other = "the PROVISIONING_REPORT is about vm_id 8, this machine is 7"
    assert judge([boot(), ready(), READ, pool("report", "result=success|vm_id=8")]).remarks == (other,)
    unread = judge([boot(), ready(), PoolRead(t=1, path="/p", count=0, problem="Permission denied")])
    assert unread.ok and unread.remarks == ("the host cannot read /p: Permission denied",)
    events = [boot(), ready(), READ, pool("report", "result=success", cut=True), pool("other", "y", late=True)]
    late, cut = judge(events).remarks
    assert late == "1 record came after the verdict, when the host reads no more"
    assert cut == "1 record is longer than 254 bytes of key or 1,022 of value and reached the host cut: key of report"


def test_the_deadline_is_shown_and_whether_it_was_kept() -> None:
    def deadline(*events: Event) -> str:
        return shown(judge(events)).splitlines()[-1]

    assert deadline(boot(within_secs=5), ready(2)) == "  Deadline: a verdict within 5 s, kept"
    assert deadline(boot(within_secs=5), ready(7)) == "  Deadline: a verdict within 5 s, not kept"
    assert deadline(boot(within_secs=5)) == "  Deadline: a verdict within 5 s, and there was none"
    stopped = End(t=2.5, exit_code=0, stopped=True)
    assert deadline(boot(within_secs=5), stopped) == "  Deadline: a verdict within 5 s, but it was stopped after 2.5 s"
    assert deadline(boot(within_secs=2), stopped) == "  Deadline: a verdict within 2 s, and there was none"
    assert "Deadline" not in shown(judge([boot(verdict="none")]))
