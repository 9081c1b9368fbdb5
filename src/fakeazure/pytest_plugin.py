"""The pytest plugin: a platform for each test that asks for one, and the conversation in the report when it fails."""

# pytest loads this in every run on a machine where we are installed, on any Python: nothing else is imported until a
# test asks for it.
from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from fakeazure.fabric import Fabric
    from fakeazure.faults import Script
    from fakeazure.spec import Scenario
    from fakeazure.vm import Vm

MARKER = "fakeazure(scenario=, vm=, media=, imds=, wireserver=, faults=, expect=, eject=): the platform of this test"
OPTIONS = ("scenario", "vm", "media", "imds", "wireserver", "faults", "expect", "eject")
TITLE = "fakeazure: the conversation"
FABRIC = pytest.StashKey["Fabric"]()
MARKED = pytest.StashKey[bool]()  # whether the machine that the markers describe was asked for
TWO_MACHINES = """\
{what} of the fakeazure marker and an override of the fixture fakeazure_vm each describe the machine, and only one of \
them can be it: drop one, or let the override build on the other:
    @pytest.fixture
    def fakeazure_vm(fakeazure_vm): return dataclasses.replace(fakeazure_vm, name="web")"""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def fakeazure_vm(request: pytest.FixtureRequest) -> Vm:
    """The machine that was asked for. Override it, or say `@pytest.mark.fakeazure(vm=Vm(name="web"))`."""
    options = options_of(request)
    request.node.stash[MARKED] = True
    vm: Vm = options.get("vm") or scenario_of(options).vm
    return vm


@pytest.fixture
def fakeazure(request: pytest.FixtureRequest, fakeazure_vm: Vm, tmp_path: Path) -> Iterator[Fabric]:
    """A platform for `fakeazure_vm`: `.environment` leads a command to it, `.judge()` says what it believes."""
    options = options_of(request)
    scenario = scenario_of(options)
    check_one_machine(request, options, scenario)
    from fakeazure.fabric import Fabric

    pools = tmp_path / "fakeazure-kvp"
    pools.mkdir()
    fabric = Fabric(
        vm=fakeazure_vm,
        media=options.get("media", scenario.media),
        imds=options.get("imds", scenario.imds),
        wireserver=options.get("wireserver", scenario.wireserver),
        faults=faults_of(options) if "faults" in options else scenario.faults,
        expect=options.get("expect", scenario.expect),
        azure_init=scenario.azure_init,
        eject=options.get("eject", False),
        ledger=tmp_path / "fakeazure.jsonl",
        directory=tmp_path / "fakeazure",
        pools=pools,
    )
    request.node.stash[FABRIC] = fabric
    with fabric:
        yield fabric


def options_of(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the markers say, the nearest to the test last."""
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
    from fakeazure.catalogue import NoSuchScenario, find_scenario
    from fakeazure.spec import Scenario, SpecInvalid

    try:
        return find_scenario(str(options["scenario"])) if "scenario" in options else Scenario()
    except (NoSuchScenario, SpecInvalid) as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)


def check_one_machine(request: pytest.FixtureRequest, options: dict[str, Any], scenario: Scenario) -> None:
    """Refuses a marker whose machine an override would silently replace."""
    if MARKED in request.node.stash:
        return
    if "vm" in options:
        pytest.fail(TWO_MACHINES.format(what="vm="), pytrace=False)
    if scenario.own_vm:
        pytest.fail(TWO_MACHINES.format(what=f"scenario={options['scenario']!r}"), pytrace=False)


def faults_of(options: dict[str, Any]) -> tuple[Script, ...]:
    from fakeazure.faults import BadFault, parse_script

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
