"""The scenarios that are shipped: one file each, named for what happens."""

from __future__ import annotations

import difflib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from fakeazure.spec import Scenario, parse_scenario, read_scenario

NAMING = "a name from `fakeazure scenarios`, or a file; default: ordinary"


class NoSuchScenario(Exception):
    """Neither a file nor a name that we know."""


def shelf() -> Traversable:
    return resources.files("fakeazure").joinpath("scenarios")


def names() -> list[str]:
    return sorted(file.name.removesuffix(".toml") for file in shelf().iterdir() if file.name.endswith(".toml"))


def scenario_text(name: str) -> str:
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]}?" if near else "`fakeazure scenarios` lists them"
        raise NoSuchScenario(f"no scenario is called {name}; {hint}")
    return shelf().joinpath(f"{name}.toml").read_text(encoding="utf-8")


def find_scenario(name: str) -> Scenario:
    """By name; what looks like a path, or is a file and no name, is read as one."""
    if "/" in name or name.endswith(".toml") or (name not in names() and Path(name).is_file()):
        return read_scenario(Path(name))
    return parse_scenario(scenario_text(name).encode(), name=name)
