"""The pytest plugin: a platform for each test that uses the fixture, and its timeline in the report of a failure."""

# pytest loads this module in every run where the package is installed, on any Python: nothing else is imported until
# a test uses a fixture.
from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from fakeazure.platform.fabric import Fabric
    from fakeazure.platform.faults import Script
    from fakeazure.platform.scenario import Scenario
    from fakeazure.platform.vm import Vm

MARKER = (
    "fakeazure(scenario=, vm=, media=, imds=, pool=, wireserver=, faults=, expect=, eject=): the platform of this test"
)
OPTIONS = ("scenario", "vm", "media", "imds", "pool", "wireserver", "faults", "expect", "eject")
TITLE = "fakeazure: the conversation"
FABRIC = pytest.StashKey["Fabric"]()
MARKED = pytest.StashKey[bool]()  # set once the fixture of the marked machine was used
TWO_MACHINES = """\
{what} of the fakeazure marker and an override of the fixture fakeazure_vm each describe the machine: remove one, or \
let the override build on the marked machine:
    @pytest.fixture
    def fakeazure_vm(fakeazure_vm): return dataclasses.replace(fakeazure_vm, name="web")"""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def fakeazure_vm(request: pytest.FixtureRequest) -> Vm:
    """The VM of the test. Override it, or use `@pytest.mark.fakeazure(vm=Vm(name="web"))`."""
    options = options_of(request)
    request.node.stash[MARKED] = True
    vm: Vm = options.get("vm") or scenario_of(options).vm
    return vm


@pytest.fixture
def fakeazure(request: pytest.FixtureRequest, fakeazure_vm: Vm, tmp_path: Path) -> Iterator[Fabric]:
    """A platform for `fakeazure_vm`: `.environment` points a command to it, `.judge()` gives the verdict."""
    options = options_of(request)
    scenario = scenario_of(options)
    check_one_machine(request, options, scenario)
    from dataclasses import replace

    from fakeazure.platform.fabric import Fabric

    pools = tmp_path / "fakeazure-kvp"
    pools.mkdir()
    fabric = Fabric.of(
        replace(scenario, vm=fakeazure_vm, **marked_parts(options)),
        eject=options.get("eject", False),
        ledger=tmp_path / "fakeazure.jsonl",
        directory=tmp_path / "fakeazure",
        pools=pools,
    )
    request.node.stash[FABRIC] = fabric
    with fabric:
        yield fabric


def options_of(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options of all markers; the one nearest to the test wins."""
    if sys.version_info < (3, 11):  # noqa: UP036
        pytest.fail("fakeazure needs Python 3.11 or newer", pytrace=False)
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("fakeazure"))):
        unknown = [repr(value) for value in marker.args] + [name for name in marker.kwargs if name not in OPTIONS]
        if unknown:
            pytest.fail(f"the fakeazure marker has no {', '.join(unknown)}; it has {', '.join(OPTIONS)}", pytrace=False)
        options |= marker.kwargs
    return options


def scenario_of(options: dict[str, Any]) -> Scenario:
    from fakeazure.platform.scenario import Scenario
    from fakeazure.scenarios.catalogue import NoSuchScenario, find_scenario
    from fakeazure.scenarios.spec import SpecInvalid

    try:
        return find_scenario(str(options["scenario"])) if "scenario" in options else Scenario()
    except (NoSuchScenario, SpecInvalid) as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)


def check_one_machine(request: pytest.FixtureRequest, options: dict[str, Any], scenario: Scenario) -> None:
    """Fails if an override of `fakeazure_vm` would silently replace the marked machine."""
    if MARKED in request.node.stash:
        return
    if "vm" in options:
        pytest.fail(TWO_MACHINES.format(what="vm="), pytrace=False)
    if scenario.own_vm:
        pytest.fail(TWO_MACHINES.format(what=f"scenario={options['scenario']!r}"), pytrace=False)


def marked_parts(options: dict[str, Any]) -> dict[str, Any]:
    """The parts of the scenario that a marker replaces."""
    from fakeazure.platform.vm import Wireserver

    parts: dict[str, Any] = {name: options[name] for name in ("media", "imds", "pool", "expect") if name in options}
    if "wireserver" in options:
        wireserver = options["wireserver"]
        parts["wireserver"] = Wireserver(enable=wireserver) if isinstance(wireserver, bool) else wireserver
    if "faults" in options:
        parts["faults"] = faults_of(options)
    return parts


def faults_of(options: dict[str, Any]) -> tuple[Script, ...]:
    from fakeazure.platform.faults import BadFault, parse_script

    try:
        return tuple(map(parse_script, options["faults"]))
    except BadFault as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    fabric = item.stash.get(FABRIC, None)
    if report.failed and fabric is not None:
        from fakeazure import show

        paint = show.Palette(colour=False)
        lines = [*show.timeline(fabric.ledger.events, paint), "", *show.verdict(fabric.judge(), paint)]
        report.sections.append((TITLE, "\n".join(lines)))
