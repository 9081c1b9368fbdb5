"""The shipped scenarios: each describes a different platform, and has a description."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from fakeazure.scenarios.catalogue import NoSuchScenario, find_scenario, names, scenario_text
from fakeazure.scenarios.spec import SpecInvalid


def platform(name: str) -> str:
    """The parts that a machine can observe: not the settings of azure-init, nor the expectation."""
    content = tomllib.loads(scenario_text(name))
    return repr({key: content[key] for key in sorted(content.keys() - {"description", "expect", "azure-init"})})


def test_there_are_many_and_no_two_hold_the_same_conversation() -> None:
    platforms = {name: platform(name) for name in names()}
    assert len(platforms) >= 30
    assert len(set(platforms.values())) == len(platforms)


def test_the_readme_has_their_number() -> None:
    readme = Path(__file__).parents[2].joinpath("README.md").read_text()
    assert re.findall(r"# (\d+) scenarios", readme) == [str(len(names()))]


@pytest.mark.parametrize("name", names())
def test_each_is_valid_and_says_what_it_is(name: str) -> None:
    scenario = find_scenario(name)
    assert re.fullmatch(r"[a-z0-9-]+", name)
    assert 10 < len(scenario.description) <= 100 and not scenario.description.endswith(".")
    assert scenario.description[0].islower()


def test_every_verdict_occurs() -> None:
    found = [find_scenario(name).expect for name in names()]
    assert {expect.verdict if expect else "ready" for expect in found} == {"ready", "failure", "none"}


def test_a_name_and_a_file_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text('description = "my own machine"\n')
    Path("ordinary").write_text("not a scenario")
    assert find_scenario("mine").description == "my own machine"
    assert find_scenario("ordinary").description == "one key, both sources, no faults"
    with pytest.raises(SpecInvalid):
        find_scenario("./ordinary")
    with pytest.raises(SpecInvalid, match="No such file"):
        find_scenario("ordinary.toml")
    with pytest.raises(NoSuchScenario, match="did you mean ordinary?"):
        find_scenario("ordinry")
    with pytest.raises(NoSuchScenario, match="`fakeazure scenarios` lists them"):
        find_scenario("xyzzy")
