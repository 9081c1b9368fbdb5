"""The race as Markdown: medians, ratios to ours with their quartiles, and the budget, kept or not."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from peers_machine import Seen
from peers_roots import ENTRANTS
from peers_scales import Weight

OURS, NOBODY = "ours", "none"
NOTHING = "-"


@dataclass(kw_only=True)
class Results:
    """Of one entrant: a value for each round, in the rounds' order."""

    boots: list[Seen] = field(default_factory=list)
    alone: list[Seen] = field(default_factory=list)
    matched: list[Seen] = field(default_factory=list)
    weighed: list[Weight] = field(default_factory=list)
    traced: Weight | None = None
    size: int = 0
    failure: str = ""


Field = Mapping[str, Results]
Pick = Callable[[Seen], "float | None"]


def start_to_ready(seen: Seen) -> float | None:
    return seen.ready - seen.agent_start if seen.ready is not None and seen.agent_start is not None else None


def start_to_done(seen: Seen) -> float | None:
    return seen.done - seen.agent_start if seen.done is not None and seen.agent_start is not None else None


def values(seen: Iterable[Seen], pick: Pick) -> list[float]:
    return [value for one in seen if (value := pick(one)) is not None]


def median(numbers: Iterable[float]) -> float | None:
    found = list(numbers)
    return statistics.median(found) if found else None


def beyond(of: Results, nobody: Results, pick: Pick, base: Pick) -> list[float]:
    """Of each round, by how much it is later than the machine without an agent."""
    pairs = zip(of.boots, nobody.boots)
    both = [(pick(one), base(other)) for one, other in pairs]
    return [value - less for value, less in both if value is not None and less is not None]


def ratios(numbers: list[float], ours: list[float]) -> list[float]:
    return [one / other for one, other in zip(numbers, ours) if other > 0]


def secs(numbers: list[float]) -> str:
    middle = median(numbers)
    return NOTHING if middle is None else f"{middle:.2f} s"


def millis(numbers: list[float]) -> str:
    middle = median(numbers)
    return NOTHING if middle is None else f"{middle * 1000:.0f} ms"


def times(numbers: list[float]) -> str:
    """The median of the pairs' ratios, and its quartiles."""
    if not numbers:
        return NOTHING
    if len(numbers) < 3:
        return f"{statistics.median(numbers):.2f}"
    low, middle, high = statistics.quantiles(numbers, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' if not at else '--:' for at, _ in enumerate(head))} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def boot_table(results: Field) -> Iterator[str]:
    head = ["boot", "Ready", "first login", "login, beyond no agent", "login x ours", "Ready x ours"]
    ours, nobody = results.get(OURS, Results()), results.get(NOBODY, Results())
    rows = []
    for name, of in results.items():
        ready, login = values(of.boots, lambda seen: seen.ready), values(of.boots, lambda seen: seen.login)
        later = [] if name == NOBODY else beyond(of, nobody, lambda seen: seen.login, lambda seen: seen.login)
        against = ratios(login, values(ours.boots, lambda seen: seen.login))
        told = ratios(ready, values(ours.boots, lambda seen: seen.ready))
        rows.append([ENTRANTS[name].title, secs(ready), secs(login), secs(later), times(against), times(told)])
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
        if name == NOBODY:
            continue
        took = values(of.alone, start_to_ready)
        calls = of.traced.calls if of.traced else {}
        rows.append(
            [
                ENTRANTS[name].title,
                millis(took),
                times(ratios(took, ours)),
                millis(whole := values(of.alone, start_to_done)),
                times(ratios(whole, ours_whole)),
                secs(cpu(of)),
                f"{peak / 1e6:.1f} MB" if (peak := memory(of)) else NOTHING,
                *(str(calls.get(kind, NOTHING)) for kind in ("programs", "files", "syncs")),
                f"{of.size / 1e6:.1f} MB",
            ]
        )
    yield from table(head, rows)


def cpu(of: Results) -> list[float]:
    return [weight.cpu_secs for weight in of.weighed if weight.cpu_secs is not None]


def memory(of: Results) -> float | None:
    return median(weight.peak_bytes for weight in of.weighed if weight.peak_bytes is not None)


def budget(results: Field) -> Iterator[tuple[bool, str]]:
    """Each limit there are numbers for: whether it is kept, and in words."""
    ours = alone(results, OURS)
    children = values(results[NOBODY].alone, lambda seen: seen.children_secs) if NOBODY in results else []
    limits: list[tuple[str, list[float], list[float], float]] = [
        ("cloud-init's start to Ready", ours, alone(results, "cloud-init"), 1 / 10),
        ("waagent's start to Ready", ours, alone(results, "waagent"), 1 / 20),
        ("the sum of the reference's own children", matched(results), children, 0.7),
    ]
    for what, mine, other, limit in limits:
        against = [one / base for one, base in zip(mine, other)]
        if (middle := median(against)) is not None:
            fastest = f"(fastest against fastest: {min(mine) / min(other):.3f})"
            yield middle <= limit, f"start to Ready is {middle:.3f} of {what} {fastest}; at most {limit:.3g}"
    if OURS in results and "cloud-init" in results:
        peak, theirs = memory(results[OURS]), memory(results["cloud-init"])
        if peak and theirs:
            yield peak <= theirs / 3, f"peak memory is {peak / theirs:.3f} of cloud-init's; at most 0.333"


def matched(results: Field) -> list[float]:
    return values(results[OURS].matched, lambda seen: seen.worked_secs) if OURS in results else []


def alone(results: Field, name: str, pick: Pick = start_to_ready) -> list[float]:
    return values(results[name].alone, pick) if name in results else []


def report(results: Field, *, command: str, conditions: str, judged: bool = True) -> str:
    ran = {name: of for name, of in results.items() if not of.failure}
    lines = [f"    {command}", "", conditions, "", *boot_table(ran)]
    if any(of.alone for of in ran.values()):
        lines += ["", *work_table(ran)]
        kept = [f"- {'pass' if ok else 'FAIL'}: {words}" for ok, words in budget(ran) if judged]
        lines += ["", *kept] if kept else []
    lines += [f"\n{ENTRANTS[name].title} did not finish: {of.failure}" for name, of in results.items() if of.failure]
    return "\n".join(lines) + "\n"
