"""The judge: the verdict that the platform has after all reports, and whether it is true.

ready      Ready was reported, and nothing contradicts it
failed     ProvisioningFailed was reported, with a reason
waiting    no verdict was reported
lied       two verdicts in one boot, a verdict taken back, Ready where the scenario expects another verdict, Ready
           where a login that must work is refused, a failure "no login" where a login works, a verdict that
           contradicts the PROVISIONING_REPORT, or a request from a secondary address or interface; of a VM from a pool
           also: two Ready in the pool, or none, a failure there, anything provisioned before its customer had it, or
           kept of the pool's VM
off-script more requests than the scenario has answers for, so that nothing can be concluded
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fakeazure.platform.events import Boot, End, Event, Kvp, Lease, Login, PoolRead, Request, Told
from fakeazure.platform.report import parse_report, split_report
from fakeazure.platform.vm import Expect
from fakeazure.pool_judge import by_owner, in_order, pool_lies

STATES_FOR = {"ready": ("ready",), "failure": ("failed",), "none": ("waiting",), "either": ("ready", "failed")}
EXPECTED = {"ready": "Ready", "failure": "a failure", "none": "silence", "either": "a verdict"}
REPORTED = {"ready": "was told Ready", "failed": "was told of a failure", "waiting": "was told no verdict"}
NO_LOGIN = "the admin cannot log in"  # azure-init's reason if sshd would accept no credential
DOUBTS = "access"  # the report's field for credentials that may not work
RESULTS_AGAINST = {"ready": "error", "failed": "success"}
NO_NETWORK = "does it have a network configuration?"
SAYS = {"ready": "Ready", "failed": "a failure", "progress": "in progress"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    state: str
    expected: Expect
    boot: int  # the boot of the verdict
    at: float | None = None  # seconds from that boot's start to its verdict
    stopped_at: float | None = None  # the same, to a stop signal
    reason: str = ""
    report: dict[str, str] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()  # why the verdict is not true, in sentences
    remarks: tuple[str, ...] = ()  # notes that do not change the judgement

    @property
    def ok(self) -> bool:
        return not self.complaints

    def __str__(self) -> str:
        when = "" if self.at is None else f" after {self.at:.3f} s"
        return {
            "ready": f"Ready{when}",
            "failed": f"failed{when}: {self.reason or 'no reason given'}",
            "waiting": "still waiting: no verdict was told",
            "lied": f"lied: {'; '.join(self.complaints)}",
            "off-script": f"off script: {'; '.join(self.complaints)}",
        }[self.state]


@dataclass(slots=True)
class BootEvents:
    """The events of one boot."""

    boot: Boot
    events: list[Event] = field(default_factory=list)
    start: float = 0.0  # of the boot, or of the customer's part of it


def judge(events: Sequence[Event]) -> Judgement:
    events = in_order(events)
    whole = by_boot(events)
    chapters = [customers_part(chapter) for chapter in whole]
    expected = chapters[-1].boot.expected
    lies = pool_lies(events) + [
        lie
        for n, chapter in enumerate(chapters)
        for lie in named([*lies_of(chapter), *later_refusals(chapter, chapters[:n])], chapter, chapters)
    ]
    strays = [stray for chapter in chapters for stray in named(strays_of(chapter), chapter, chapters)]
    # After a reboot, Ready need not be reported again: the last verdict stays valid.
    chapter = next((chapter for chapter in reversed(chapters) if verdicts(chapter)), chapters[-1])
    final = verdicts(chapter)[-1] if verdicts(chapter) else None
    state = "lied" if lies else "off-script" if strays else final.kind if final else "waiting"
    report = parse_report(final.description) if final else {}
    reason = (report.get("reason") or final.description) if final and final.kind == "failed" else ""
    at = round(final.t - chapter.start, 6) if final else None
    failures = [] if lies or strays else unmet(expected, state=state, at=at, reason=reason, final=final)
    return Judgement(
        state=state,
        expected=expected,
        boot=chapter.boot.number,
        at=at,
        stopped_at=stopped_at(chapter),
        reason=reason,
        report=report,
        complaints=(*lies, *strays, *failures),
        remarks=tuple(remarks(chapter, report, whole[chapters.index(chapter)])),
    )


def by_boot(events: Sequence[Event]) -> list[BootEvents]:
    chapters: list[BootEvents] = []
    for event in events:
        if isinstance(event, Boot):
            chapters.append(BootEvents(event, start=event.t))
        elif chapters:
            chapters[-1].events.append(event)
    if not chapters:
        raise ValueError("nothing to judge: no boot in the ledger")
    return chapters


def customers_part(chapter: BootEvents) -> BootEvents:
    """The boot without its time in the pool, which has rules of its own."""
    _, events, start = by_owner(chapter.boot, chapter.events)
    return BootEvents(chapter.boot, events, start)


def told(chapter: BootEvents) -> list[Told]:
    return [event for event in chapter.events if isinstance(event, Told)]


def verdicts(chapter: BootEvents) -> list[Told]:
    return [one for one in told(chapter) if one.kind != "progress"]


def stopped_at(chapter: BootEvents) -> float | None:
    ends = (one.t for one in chapter.events if isinstance(one, End) and one.stopped)
    return next((round(t - chapter.boot.t, 6) for t in ends), None)


def lies_of(chapter: BootEvents) -> list[str]:
    lies: list[str] = []
    earlier: Told | None = None
    for one in told(chapter):
        if earlier and one.kind == "progress":
            lies.append(f"told {SAYS[earlier.kind]}, and then that it was still in progress")
        elif earlier and one.kind != earlier.kind:
            lies.append(f"told {SAYS[earlier.kind]}, and then {SAYS[one.kind]}, in one boot")
        elif earlier and earlier.acknowledged:  # reporting again is right only if the answer was lost
            lies.append(f"told {SAYS[one.kind]} twice in one boot")
        if one.kind != "progress":
            earlier = one
    truth = chapter.boot.expected.verdict
    ready = [one for one in told(chapter) if one.kind == "ready"]
    if ready and truth in ("failure", "none"):
        lies.append(f"told Ready where the truth is {EXPECTED[truth]}")
    if ready:
        lies += [f"told Ready, and then a login as {login}" for login in refused_logins(chapter)]
    if any(map(says_no_login, told(chapter))):
        let_in = (one for one in logins(chapter) if one.ok)
        lies += [f"told that no login is possible, and then let {one.user} in with the {one.how}" for one in let_in]
    lies += contradictions(chapter)
    lies += wrong_senders(chapter)
    unasked = [path for path in chapter.boot.expected.asks if ready and not given(chapter, path)]
    return lies + [f"told Ready without ever having had an answer from {path}" for path in unasked]


def later_refusals(chapter: BootEvents, earlier: Sequence[BootEvents]) -> list[str]:
    """Logins that are refused in a later boot of a machine that reported Ready."""
    before = [one for chapter in earlier for one in verdicts(chapter)]
    if verdicts(chapter) or not before or before[-1].kind != "ready":
        return []
    return [f"was Ready, and now a login as {login}" for login in refused_logins(chapter, earlier)]


def says_no_login(one: Told) -> bool:
    return one.kind == "failed" and parse_report(one.description).get("reason") == NO_LOGIN


def refused_logins(chapter: BootEvents, earlier: Sequence[BootEvents] = ()) -> list[str]:
    """Refused logins. Not those that the machine's report announced, if another credential works."""
    tried = logins(chapter)
    if any(one.ok and one.how == Login.BOTH for one in tried):
        return []  # an image may require both
    records = (one for chapter in (*earlier, chapter) for one in chapter.events if isinstance(one, Kvp))
    reports = (parse_report(one.value) for one in records if one.kind == "report")
    doubts = " ".join(report.get(DOUBTS, "") for report in reports)
    works = any(one.ok for one in tried)
    return [refused(one) for one in tried if not one.ok and not (works and f"the {one.how} that was given" in doubts)]


def logins(chapter: BootEvents) -> list[Login]:
    """The last attempt of each kind. Those with credentials of the pool's VM do not belong here."""
    tried = (one for one in chapter.events if isinstance(one, Login) and not one.of_pool)
    return list({(one.how, one.user): one for one in tried}.values())


def refused(login: Login) -> str:
    why = f" ({login.text})" if login.text else ""
    return "" if login.ok else f"{login.user} with the {login.how} was refused{why}"


def contradictions(chapter: BootEvents) -> list[str]:
    """A verdict must agree with the PROVISIONING_REPORT that the host read with it."""
    found = []
    verdict: Told | None = None
    for one in chapter.events:
        if isinstance(one, Told) and one.kind != "progress":
            verdict = one
        if verdict and isinstance(one, Kvp) and one.kind == "report" and not one.late:
            report = parse_report(one.value)
            if report.get("result") == RESULTS_AGAINST[verdict.kind]:
                why = f": {report['reason']}" if "reason" in report else ""
                found.append(f"told {SAYS[verdict.kind]}, but its PROVISIONING_REPORT says {report['result']}{why}")
    return found


def wrong_senders(chapter: BootEvents) -> list[str]:
    """Azure accepts reports, and answers questions, only from the primary address of the primary interface."""
    sent: dict[str, None] = {}  # ordered, without repetitions
    for one in chapter.events:
        if isinstance(one, Request) and one.secondary and one.status is not None and one.status < 300:
            sent[f"sent {one.method} {one.path} from {one.address}, a secondary address (interface {one.nic})"] = None
    return list(sent)


def given(chapter: BootEvents, path: str) -> bool:
    answers = [one for one in chapter.events if isinstance(one, Request) and one.path == path]
    return any(one.status is not None and one.status < 300 for one in answers)


def strays_of(chapter: BootEvents) -> list[str]:
    counts: dict[str, int] = {}
    for event in chapter.events:
        if isinstance(event, Request) and event.off_script:
            counts[event.path] = counts.get(event.path, 0) + 1
    return [
        f"{path} was requested {count} more time{'s' if count > 1 else ''} than its script has answers"
        for path, count in counts.items()
    ]


def named(texts: Iterable[str], chapter: BootEvents, chapters: list[BootEvents]) -> list[str]:
    return [text if len(chapters) == 1 else f"boot {chapter.boot.number}: {text}" for text in texts]


def unmet(expected: Expect, *, state: str, at: float | None, reason: str, final: Told | None) -> list[str]:
    if state not in STATES_FOR[expected.verdict]:
        return [f"{EXPECTED[expected.verdict]} was expected, but the platform {REPORTED[state]}"]
    complaints = []
    if at is not None and at > expected.within_secs:
        complaints.append(f"the verdict came after {at:.1f} s, later than {expected.within_secs:g} s")
    if final and final.kind == "failed":
        if expected.reason and expected.reason not in reason:
            complaints.append(f"the reason is {reason!r}, where {expected.reason!r} was expected")
        whole = "|".join(split_report(final.description))
        complaints += [f"the report does not say {text!r}" for text in expected.says if text not in whole]
    return complaints


def remarks(chapter: BootEvents, report: dict[str, str], whole: BootEvents) -> Iterable[str]:
    if "vm_id" in report and report["vm_id"] != chapter.boot.vm_id:
        yield f"the report is about vm_id {report['vm_id']}, this machine is {chapter.boot.vm_id}"
    if not any(one.kind == "ready" or says_no_login(one) for one in told(chapter)):
        yield from (f"a login as {login}, and Ready was not told" for login in map(refused, logins(chapter)) if login)
    machine = any(isinstance(one, End) and one.of == "machine" for one in chapter.events)
    if machine and is_silent(whole.events):
        yield f"the machine sent no DHCP request: {NO_NETWORK}"
    yield from pool_remarks(chapter)


def is_silent(boot: Sequence[Event]) -> bool:
    return not any(isinstance(one, Lease | Request) for one in boot)


def pool_remarks(chapter: BootEvents) -> Iterable[str]:
    reads = [one for one in chapter.events if isinstance(one, PoolRead) and not one.late]
    records = [one for one in chapter.events if isinstance(one, Kvp)]
    unread = next((one for one in reads if one.problem), None)
    if unread:
        yield f"the host cannot read {unread.path}: {unread.problem}"
    elif reads and verdicts(chapter) and not any(one.kind == "report" and not one.late for one in records):
        yield "the host found no PROVISIONING_REPORT with the verdict"
    yield from (
        f"the PROVISIONING_REPORT is about vm_id {about}, this machine is {chapter.boot.vm_id}"
        for about in (parse_report(one.value).get("vm_id") for one in records if one.kind == "report" and not one.late)
        if about and about != chapter.boot.vm_id
    )
    if late := [one for one in records if one.late]:
        yield f"{counted(len(late), 'record')} came after the verdict, when the host reads no more"
    if cut := [one for one in records if one.cut]:
        number = f"{counted(len(cut), 'record')} {'is' if len(cut) == 1 else 'are'}"
        first = cut[0].key + (" and others" if len(cut) > 1 else "")
        yield f"{number} longer than 254 bytes of key or 1,022 of value and reached the host cut: {first}"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
