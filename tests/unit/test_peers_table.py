"""bench/peers: its tables, its budget, and its options."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from peers_machine import Seen  # noqa: E402
from peers_picture import work  # noqa: E402
from peers_scales import Weight  # noqa: E402
from peers_table import UNJUDGED, Results, against, budget, later, report, status  # noqa: E402

pytestmark = pytest.mark.newer

bench = runpy.run_path(str(BENCH / "peers"))
parse, is_judged = bench["parse"], bench["is_judged"]


def agent(took: float, *, peak: int = 0, size: int = 0, calls: dict[str, int] | None = None) -> Results:
    """Who took so long from its start to Ready, and told it 2 seconds after the machine's first process."""
    return Results(
        boots=[Seen(ready=2.0, login=2.5)],
        alone=[Seen(units={"agent.service": (2.0, None)}, ready=2.0 + took)],
        weighed=[Weight(cpu_secs=took, peak_bytes=peak)] if peak else [],
        traced=Weight(calls=calls) if calls else None,
        size=size,
    )


def field(
    *, cloud_init: float = 0, waagent: float = 0, children: float = 0, peak: int = 0, failure: str = ""
) -> dict[str, Results]:
    """Ours takes 125 ms, 62.5 ms where it is matched, and 10 MB; against those others of whom anything is said."""
    ours = agent(0.125, peak=10_000_000)
    ours.matched = [Seen(worked_secs=0.0625)]
    results = {"none": Results(boots=[Seen(login=2.25)], alone=[Seen(children_secs=children or None)]), "ours": ours}
    if cloud_init or peak:
        results["cloud-init"] = agent(cloud_init or 100.0, peak=peak)
    if waagent:
        results["waagent"] = agent(waagent)
        results["waagent"].failure = failure
    return results


def with_custom_data(results: dict[str, Results], *, ends: float, sshd: float = 2.5, cpu: float = 0) -> None:
    """Ours ends its stages 3 seconds after the machine's first process; cloud-init later. sshd starts at 2.5 s."""
    for name, end, start in (("ours", 3.0, sshd), ("cloud-init", ends, 2.5)):
        units = {"agent.service": (2.0, None), "ssh.service": (start, start)}
        results[name].customised = [Seen(units=units, customised=end, stages_secs=end - 2.5)]
        results[name].carried = [Weight(cpu_secs=cpu * end)] if cpu else []


def told(results: dict[str, Results], *, judged: bool = True) -> str:
    return report(results, command="bench/peers", conditions="in the mind", judged=judged)


def cells(text: str, name: str) -> list[list[str]]:
    """The rows of an entrant, without its name."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row[1:] for row in rows if row[0] == name]


BOTH_SIDES = pytest.mark.parametrize(
    ("results", "words", "kept"),
    [
        (field(cloud_init=1.25), "start to Ready is 0.100 of cloud-init's start to Ready", True),
        (field(cloud_init=1.23), "start to Ready is 0.102 of cloud-init's start to Ready", False),
        (field(waagent=2.5), "start to Ready is 0.050 of waagent's start to Ready", True),
        (field(waagent=2.45), "start to Ready is 0.051 of waagent's start to Ready", False),
        (field(children=0.09), "start to Ready is 0.694 of the sum of the reference's own children", True),
        (field(children=0.089), "start to Ready is 0.702 of the sum of the reference's own children", False),
        (field(peak=30_000_000), "peak memory is 0.333 of cloud-init's", True),
        (field(peak=29_900_000), "peak memory is 0.334 of cloud-init's", False),
    ],
)


@BOTH_SIDES
def test_each_limit_is_kept_up_to_its_end_and_not_beyond(results: dict[str, Results], words: str, kept: bool) -> None:
    (limit,) = [limit for limit in budget(results) if limit.words.startswith(words)]
    assert limit.kept is kept
    assert f"- {'pass' if kept else 'FAIL'}: {limit.words}; at most {limit.most:.3g}\n" in told(results)
    assert [limit.kept for limit in budget(results)].count(False) == (0 if kept else 1)


@BOTH_SIDES
def test_a_limit_that_is_not_kept_is_the_races_failure_where_it_is_judged(
    results: dict[str, Results], words: str, kept: bool
) -> None:
    assert status(results, judged=True) == (0 if kept else 1)
    assert status(results, judged=False) == 0


@BOTH_SIDES
def test_what_is_not_judged_is_told_without_a_verdict(results: dict[str, Results], words: str, kept: bool) -> None:
    text = told(results, judged=False)
    assert f"\n\n{UNJUDGED}\n\n- " in text
    assert f"\n- {words}" in text
    assert not any(word in text for word in ("pass", "FAIL", "at most"))


@pytest.mark.parametrize(
    ("ends", "sshd", "words", "kept"),
    [
        (5.0, 2.5, "takes 0.200 of cloud-init's time (500 ms against 2500 ms)", True),
        (4.9, 2.5, "takes 0.208 of cloud-init's time (500 ms against 2400 ms)", False),
        (4.0, 3.1, "takes -0.067 of cloud-init's time (-100 ms against 1500 ms)", True),  # sshd starts after the end
    ],
)
def test_custom_data_takes_a_fifth_of_cloud_inits_time(ends: float, sshd: float, words: str, kept: bool) -> None:
    results = field(cloud_init=2.0)
    with_custom_data(results, ends=ends, sshd=sshd)
    line = next(line for line in told(results).splitlines() if "customData, from sshd" in line)
    assert words in line and line.startswith("- pass: " if kept else "- FAIL: ") and line.endswith("at most 0.2")
    assert status(results, judged=True) == (0 if kept else 1)


def test_custom_data_is_also_measured_from_the_boot_and_from_the_agents_start() -> None:
    results = field(cloud_init=2.0)
    with_custom_data(results, ends=6.0, cpu=0.1)
    ours, other = cells(told(results), "azure-init")[-1], cells(told(results), "cloud-init")[-1]
    assert ours == ["500 ms", "3000 ms", "1.00", "1000 ms", "1.00", "500 ms", "1.00", "0.30 s"]
    assert other == ["3500 ms", "6000 ms", "2.00", "4000 ms", "4.00", "3500 ms", "7.00", "0.60 s (x 2.0)"]


def test_a_limit_nobody_raced_against_is_not_spoken_of() -> None:
    assert list(budget(field())) == []
    assert "budget" not in told(field(), judged=False)
    assert status(field(), judged=True) == 0


def test_a_limit_is_held_against_the_median_of_the_rounds() -> None:
    results = field()
    results["ours"].alone = [seen for took in (0.125, 0.125, 7.0) for seen in agent(took).alone]
    results["waagent"] = Results(alone=agent(4.0).alone * 3)
    (limit,) = budget(results)
    assert limit.kept
    assert limit.ratio == 0.125 / 4


def test_an_entrant_that_failed_is_told_and_left_out() -> None:
    results = field(cloud_init=2.0, waagent=0.001, failure="no verdict")
    text = told(results)
    assert text.endswith("\n\nwaagent did not finish: no verdict\n")
    assert not cells(text, "waagent")
    assert cells(text, "cloud-init")
    assert "waagent's" not in text
    assert status(results, judged=True) == status(results, judged=False) == 1


def test_a_boot_is_held_against_the_login_without_an_agent() -> None:
    text = told(field(cloud_init=2.0))
    assert text.splitlines()[4].startswith(
        "| boot | Ready | first login | Ready, beyond no agent's login | login, beyond"
    )
    (nobody,), (ours, _work) = cells(text, "no agent"), cells(text, "azure-init")
    assert nobody[:4] == ["-", "2.25 s", "-", "-"]
    assert ours == ["2.00 s", "2.50 s", "-0.25 s", "+0.25 s", "1.00", "1.00"]


def test_nothing_is_beyond_a_machine_that_did_not_race() -> None:
    results = field()
    del results["none"]
    assert cells(told(results), "azure-init")[0][2:4] == ["-", "-"]
    assert later([]) == "-"


@pytest.mark.parametrize(
    ("value", "ours", "words"),
    [
        (1907, 127, " (x 15)"),
        (3.6, 3.6, " (x 1.0)"),
        (9.96, 1.0, " (x 10)"),
        (1.96, 1.0, " (x 2.0)"),
        (0.05, 0.34, " (x 0.15)"),
        (1234, 1, " (x 1200)"),
        (0, 16, " (x 0.0)"),
        (5, 0, ""),
        (5, None, ""),
        (None, 5, ""),
    ],
)
def test_a_ratio_to_ours_has_two_digits(value: float | None, ours: float | None, words: str) -> None:
    assert against(value, ours) == words


def test_all_that_was_weighed_and_counted_is_also_a_ratio_to_ours() -> None:
    counted = {"programs": 6, "files": 243, "syncs": 16}
    ours = agent(0.25, peak=13_000_000, size=3_600_000, calls=counted)
    peer = agent(1.25, peak=48_800_000, size=47_900_000, calls={"programs": 81, "files": 2270, "syncs": 23})
    text = told({"ours": ours, "cloud-init": peer})
    assert cells(text, "azure-init")[1][4:] == ["0.25 s", "13.0 MB", "6", "243", "16", "3.6 MB"]
    assert cells(text, "cloud-init")[1][4:] == [
        "1.25 s (x 5.0)", "48.8 MB (x 3.8)", "81 (x 14)", "2270 (x 9.3)", "23 (x 1.4)", "47.9 MB (x 13)"
    ]  # fmt: skip


def test_what_was_not_weighed_or_has_nothing_of_ours_beside_it_has_no_ratio() -> None:
    assert cells(told({"floor": agent(0.1, peak=1_000_000)}), "shell and curl")[1][4:] == [
        "0.10 s", "1.0 MB", "-", "-", "-", "0.0 MB"
    ]  # fmt: skip


def test_a_unit_that_is_not_up_is_drawn_to_ready_or_to_the_end() -> None:
    units = {"ssh.service": (1.0, 1.5), "early.service": (1.0, 2.0), "oneshot.service": (1.5, None)}
    seen = Seen(ready=3.0, units={**units, "late.service": (3.5, None), "never.service": (5.0, None)})
    assert dict(work(seen, until=4.0)) == {
        "early.service": (1.0, 2.0),
        "oneshot.service": (1.5, 3.0),
        "late.service": (3.5, 4.0),
    }


def test_the_budget_is_judged_with_warm_caches_and_syncs_as_they_are() -> None:
    assert is_judged(parse([]))
    assert is_judged(parse(["--rounds", "1", "--only", "none,ours", "--fsync-ms", "0"]))
    assert not is_judged(parse(["--cold"]))
    assert not is_judged(parse(["--fsync-ms", "2"]))


def test_the_reference_races_where_its_binary_is_given(tmp_path: Path) -> None:
    assert "rust" not in parse([]).names
    (tmp_path / "azure-init").touch()
    assert "rust" in parse(["--rust", str(tmp_path / "azure-init")]).names


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--only", "ours,snail"), "--only: snail: not one of none, ours, "),
        (("--only", "ours,"), "--only: : not one of none, ours, "),
        (("--only",), "--only: expected one argument"),
        (("--only", "rust"), "rust needs --rust PATH"),
        (("--only", "ours", "--rust", __file__), "--rust: rust is not among --only"),
        (("--rust", "/nowhere/azure-init"), "--rust: /nowhere/azure-init: no such file"),
        (("--rounds", "0"), "--rounds: at least 1"),
        (("--rounds", "many"), "--rounds: invalid int value: 'many'"),
        (("--cold=yes",), "--cold: ignored explicit argument 'yes'"),
        (("--cold", "3"), "unrecognized arguments: 3"),
        (("--fsync-ms", "-1"), "--fsync-ms: at least 0"),
        (("--fsync-ms", "soon"), "--fsync-ms: invalid int value: 'soon'"),
        (("--fsync-ms",), "--fsync-ms: expected one argument"),
    ],
)
def test_a_race_that_cannot_be_is_refused_in_one_sentence(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(list(arguments))
    assert refused.value.code == 2
    assert complaint in capsys.readouterr().err


def test_its_help_tells_its_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as helped:
        parse(["--help"])
    assert helped.value.code == 0
    assert "Exit status: 1 if an entrant did not finish or the budget is exceeded" in " ".join(
        capsys.readouterr().out.split()
    )
