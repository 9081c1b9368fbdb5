"""apt's facts for planners, and what their plans write and run."""

from __future__ import annotations

from typing import Any

from azureinit.facts.apt import SOURCES_LIST, AptFacts
from azureinit.modules.apt import plan_apt
from azureinit.plan.actions import Declined, Run, Step, Way, Write
from azureinit.record import Secret
from support.module_runs import request_of

DEB822 = """# The image's sources.
Types: deb deb-src
URIs: http://old.example.com/debian
Suites: trixie trixie-updates
 trixie-backports
Components: main contrib
Signed-By: /usr/share/keyrings/x.gpg

Types: deb
URIs: http://old.example.com/debian-security
Suites: trixie-security
Components: main

Types: deb
URIs: https://third.example.com/debian
Suites: trixie
Components: stable
"""
ONE_LINE = """deb http://old.example.com/debian trixie main
deb [arch=amd64] http://old.example.com/debian-security trixie-security main contrib # all of it
# deb http://old.example.com/debian trixie-backports main
deb https://third.example.com/debian trixie stable
"""
PARTS = "/etc/apt/sources.list.d"


def found(files: dict[str, str] | None = None, **fields: Any) -> AptFacts:
    listed = {SOURCES_LIST: ONE_LINE} if files is None else files
    values: dict[str, Any] = {
        "installed": True,
        "distro": "debian",
        "codename": "trixie",
        "architecture": "amd64",
        "tools": frozenset({"apt-get", "gpg", "add-apt-repository", "debconf-set-selections"}),
        "packages": frozenset({"dpkg"}),
        "files": tuple((path, Secret(text)) for path, text in listed.items()),
        **fields,
    }
    return AptFacts(**values)


def planned(text: str, facts: AptFacts | None = None, **fields: Any) -> list[Any]:
    return list(plan_apt(request_of(text, **{"rooted": False, **fields}), facts or found()))


def written(plan: list[Any]) -> dict[str, str]:
    files = {}
    for step in plan:
        for way in step.ways if isinstance(step, Step) else ():
            for action in way.actions if isinstance(way, Way) else ():
                if isinstance(action, Write):
                    assert isinstance(action.data, Secret)
                    files[action.path] = action.data.text()
    return files


def runs(plan: list[Any]) -> list[Run]:
    ways = [way for step in plan if isinstance(step, Step) for way in step.ways if isinstance(way, Way)]
    return [action for way in ways for action in way.actions if isinstance(action, Run)]


def refusals(plan: list[Any]) -> list[str]:
    ways = [way for step in plan if isinstance(step, Step) for way in step.ways]
    return [way.why for way in ways if isinstance(way, Declined)]
