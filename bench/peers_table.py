"""The results as Markdown: medians, ratios to azure-init, and whether the budget is kept."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from peers_machine import Seen
from peers_roots import ENTRANTS
from peers_scales import Weight

OURS, NO_AGENT = "ours", "none"
NOTHING = "-"
UNJUDGED = "Not checked against the budget, which is for warm caches and normal syncs:"


@dataclass(kw_only=True)
class Results:
    """The results of one entrant: a value for each round, in order."""

    boots: list[Seen] = field(default_factory=list)
    alone: list[Seen] = field(default_factory=list)
    matched: list[Seen] = field(default_factory=list)
    customised: list[Seen] = field(default_factory=list)
    carried: list[Weight] = field(default_factory=list)  # what boots with customData cost
    weighed: list[Weight] = field(default_factory=list)
    traced: Weight | None = None
    size: int = 0
    failure: str = ""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """`words` describes the ratio; the budget is kept up to `most`."""

    words: str
    ratio: float
    most: float

    @property
    def kept(self) -> bool:
        return self.ratio <= self.most


Field = Mapping[str, Results]
Pick = Callable[[Seen], "float | None"]


def start_to_ready(seen: Seen) -> float | None:
    return seen.ready - seen.agent_start if seen.ready is not None and seen.agent_start is not None else None


def start_to_done(seen: Seen) -> float | None:
    return seen.done - seen.agent_start if seen.done is not None and seen.agent_start is not None else None


def sshd_to_customised(seen: Seen) -> float | None:
    sshd = seen.units.get("ssh.service")
    return seen.customised - sshd[0] if seen.customised is not None and sshd is not None else None


def start_to_customised(seen: Seen) -> float | None:
    end, start = seen.customised, seen.agent_start
    return end - start if end is not None and start is not None else None


def values(seen: Iterable[Seen], pick: Pick) -> list[float]:
    return [value for one in seen if (value := pick(one)) is not None]


def median(numbers: Iterable[float]) -> float | None:
    found = list(numbers)
    return statistics.median(found) if found else None


def beyond(of: Results, no_agent: Results, pick: Pick) -> list[float]:
    """For each round, how much later it is than the first login without an agent, which reports no Ready."""
    both = [(pick(one), other.login) for one, other in zip(of.boots, no_agent.boots)]
    return [value - less for value, less in both if value is not None and less is not None]


def ratios(numbers: list[float], ours: list[float]) -> list[float]:
    return [one / other for one, other in zip(numbers, ours) if other > 0]


def secs(numbers: list[float]) -> str:
    middle = median(numbers)
    return NOTHING if middle is None else f"{middle:.2f} s"


def later(numbers: list[float]) -> str:
    """With its sign: negative means earlier."""
    middle = median(numbers)
    return NOTHING if middle is None else f"{middle:+.2f} s"


def millis(numbers: list[float]) -> str:
    middle = median(numbers)
    return NOTHING if middle is None else f"{middle * 1000:.0f} ms"


def times(numbers: list[float]) -> str:
    """The median of the ratios of the pairs, and the quartiles."""
    if not numbers:
        return NOTHING
    if len(numbers) < 3:
        return f"{statistics.median(numbers):.2f}"
    low, middle, high = statistics.quantiles(numbers, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def against(value: float | None, ours: float | None) -> str:
    """The ratio to azure-init, to append to the value of another agent: two significant digits."""
    if value is None or not ours:
        return ""
    two = float(f"{value / ours:.2g}")
    return f" (x {two:.0f})" if two >= 10 else f" (x {two:#.2g})"


def table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' if not at else '--:' for at, _ in enumerate(head))} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def boot_table(results: Field) -> Iterator[str]:
    head = [
        "boot",
        "Ready",
        "first login",
        "Ready, beyond no agent's login",
        "login, beyond no agent's",
        "Ready x ours",
        "login x ours",
    ]
    ours, no_agent = results.get(OURS, Results()), results.get(NO_AGENT, Results())
    rows = []
    for name, of in results.items():
        ready, login = values(of.boots, lambda seen: seen.ready), values(of.boots, lambda seen: seen.login)
        ready_later = beyond(of, no_agent, lambda seen: seen.ready)
        login_later = [] if name == NO_AGENT else beyond(of, no_agent, lambda seen: seen.login)
        ready_ratios = ratios(ready, values(ours.boots, lambda seen: seen.ready))
        login_ratios = ratios(login, values(ours.boots, lambda seen: seen.login))
        row = [
            secs(ready),
            secs(login),
            later(ready_later),
            later(login_later),
            times(ready_ratios),
            times(login_ratios),
        ]
        rows.append([ENTRANTS[name].title, *row])
    yield from table(head, rows)


def work_table(results: Field) -> Iterator[str]:
    head = [
        "the agent alone",
        "start to Ready",
        "x ours",
        "to Ready and the keys",
        "both x ours",
        "CPU",
        "peak memory",
        "programs",
        "files opened",
        "syncs",
        "on disk",
    ]
    ours, ours_whole = alone(results, OURS), alone(results, OURS, start_to_done)
    rows = []
    for name, of in results.items():
        if name == NO_AGENT:
            continue
        took = values(of.alone, start_to_ready)
        rows.append(
            [
                ENTRANTS[name].title,
                millis(took),
                times(ratios(took, ours)),
                millis(whole := values(of.alone, start_to_done)),
                times(ratios(whole, ours_whole)),
                *costs(of, ours=None if name == OURS else results.get(OURS)),
            ]
        )
    yield from table(head, rows)


def customised_table(results: Field) -> Iterator[str]:
    head = [
        "with customData",
        "sshd to its end",
        "boot to its end",
        "x ours",
        "the agent's start to its end",
        "x ours",
        "its stages",
        "x ours",
        "CPU of all units",
    ]
    picks: list[Pick] = [lambda seen: seen.customised, start_to_customised, lambda seen: seen.stages_secs]
    ours = results.get(OURS, Results())
    rows = []
    for name, of in results.items():
        if not of.customised:
            continue
        cells = [ENTRANTS[name].title, millis(values(of.customised, sshd_to_customised))]
        for pick in picks:
            took = values(of.customised, pick)
            cells += [millis(took), times(ratios(took, values(ours.customised, pick)))]
        used = carried_cpu(of)
        more = against(used, carried_cpu(ours)) if name != OURS else ""
        rows.append([*cells, NOTHING if used is None else f"{used:.2f} s{more}"])
    yield from table(head, rows)


def costs(of: Results, *, ours: Results | None) -> Iterator[str]:
    """The measured costs, for other agents with the ratio to azure-init."""
    amounts: list[tuple[Callable[[Results], float | None], Callable[[float], str]]] = [
        (cpu, lambda secs: f"{secs:.2f} s"),
        (memory, megabytes),
        (lambda of: calls(of, "programs"), str),
        (lambda of: calls(of, "files"), str),
        (lambda of: calls(of, "syncs"), str),
        (lambda of: of.size, megabytes),
    ]
    for amount, words in amounts:
        value = amount(of)
        yield NOTHING if value is None else words(value) + against(value, amount(ours) if ours else None)


def megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


def cpu(of: Results) -> float | None:
    return median(weight.cpu_secs for weight in of.weighed if weight.cpu_secs is not None)


def carried_cpu(of: Results) -> float | None:
    return median(weight.cpu_secs for weight in of.carried if weight.cpu_secs is not None)


def memory(of: Results) -> float | None:
    return median(weight.peak_bytes for weight in of.weighed if weight.peak_bytes is not None)


def calls(of: Results, kind: str) -> int | None:
    return of.traced.calls.get(kind) if of.traced else None


def budget(results: Field) -> Iterator[Limit]:
    """The limits for which there are measurements."""
    ours = alone(results, OURS)
    children = values(results[NO_AGENT].alone, lambda seen: seen.children_secs) if NO_AGENT in results else []
    limits: list[tuple[str, list[float], list[float], float]] = [
        ("cloud-init's start to Ready", ours, alone(results, "cloud-init"), 1 / 10),
        ("waagent's start to Ready", ours, alone(results, "waagent"), 1 / 20),
        ("the sum of the reference's own children", matched(results), children, 0.7),
    ]
    custom = [values(results[name].customised, sshd_to_customised) for name in (OURS, "cloud-init") if name in results]
    if len(custom) == 2 and (middle := median(ratios(*custom))) is not None:
        words = f"customData, from sshd to the end of the last stage, takes {middle:.3f} of cloud-init's time"
        shown = f"({millis(custom[0])} against {millis(custom[1])})"
        spent = [values(results[name].customised, lambda seen: seen.stages_secs) for name in (OURS, "cloud-init")]
        own = f"the stages themselves take {millis(spent[0])} against {millis(spent[1])}"
        yield Limit(words=f"{words} {shown}; {own}", ratio=middle, most=1 / 5)
    for what, mine, other, most in limits:
        if (middle := median(ratios(mine, other))) is not None:
            fastest = f"(fastest against fastest: {min(mine) / min(other):.3f})"
            yield Limit(words=f"start to Ready is {middle:.3f} of {what} {fastest}", ratio=middle, most=most)
    if OURS in results and "cloud-init" in results:
        peak, theirs = memory(results[OURS]), memory(results["cloud-init"])
        if peak and theirs:
            ratio = peak / theirs
            yield Limit(words=f"peak memory is {ratio:.3f} of cloud-init's", ratio=ratio, most=1 / 3)


def matched(results: Field) -> list[float]:
    return values(results[OURS].matched, lambda seen: seen.worked_secs) if OURS in results else []


def alone(results: Field, name: str, pick: Pick = start_to_ready) -> list[float]:
    return values(results[name].alone, pick) if name in results else []


def finished(results: Field) -> Field:
    return {name: of for name, of in results.items() if not of.failure}


def status(results: Field, *, judged: bool) -> int:
    """1: an entrant did not finish, or a checked limit is exceeded."""
    broken = judged and not all(limit.kept for limit in budget(finished(results)))
    return 1 if broken or any(of.failure for of in results.values()) else 0


def verdicts(results: Field, *, judged: bool) -> Iterator[str]:
    if not judged:
        yield from (UNJUDGED, "")
    for limit in budget(results):
        verdict = "pass" if limit.kept else "FAIL"
        yield f"- {verdict}: {limit.words}; at most {limit.most:.3g}" if judged else f"- {limit.words}"


def report(results: Field, *, command: str, conditions: str, judged: bool = True) -> str:
    ran = finished(results)
    lines = [f"    {command}", "", conditions, "", *boot_table(ran)]
    if any(of.alone for of in ran.values()):
        lines += ["", *work_table(ran)]
    if any(of.customised for of in ran.values()):
        lines += ["", *customised_table(ran)]
    if any(budget(ran)):
        lines += ["", *verdicts(ran, judged=judged)]
    lines += [f"\n{ENTRANTS[name].title} did not finish: {of.failure}" for name, of in results.items() if of.failure]
    return "\n".join(lines) + "\n"
