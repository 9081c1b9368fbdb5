"""The shipped scenarios: one file each, in this directory."""

from __future__ import annotations

import difflib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from fakeazure.platform.scenario import Scenario
from fakeazure.scenarios.spec import parse_scenario, read_scenario


class NoSuchScenario(Exception):
    """Neither a scenario file nor the name of a shipped scenario."""


def directory() -> Traversable:
    return resources.files("fakeazure.scenarios")


def names() -> list[str]:
    return sorted(file.name.removesuffix(".toml") for file in directory().iterdir() if file.name.endswith(".toml"))


def scenario_text(name: str) -> str:
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]}?" if near else "`fakeazure scenarios` lists them"
        raise NoSuchScenario(f"there is no scenario {name}; {hint}")
    return directory().joinpath(f"{name}.toml").read_text(encoding="utf-8")


def find_scenario(name: str) -> Scenario:
    """A shipped scenario by its name, or a scenario file by its path."""
    if "/" in name or name.endswith(".toml") or (name not in names() and Path(name).is_file()):
        return read_scenario(Path(name))
    return parse_scenario(scenario_text(name).encode(), name=name)


def template() -> str:
    """A scenario file with every setting explained."""
    return directory().joinpath("new.toml.in").read_text(encoding="utf-8")
