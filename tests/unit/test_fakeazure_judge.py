"""The judge, on constructed ledgers; the ledger as a file; the timeline."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from fakeazure.judge import judge
from fakeazure.platform.events import (
    End,
    Event,
    Login,
    PoolRead,
)
from fakeazure.platform.report import parse_report, split_report
from support.judged_events import asked, boot, failed, login, pool, progress, ready, shown, stray


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
