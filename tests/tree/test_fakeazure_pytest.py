"""The pytest plugin, in a nested pytest run as in another project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fakeazure import Fabric, Imds, Vm
from support.plugins import UNKNOWN_TO_PYTEST

SRC = Path(__file__).parents[2] / "src"
# An agent of another project: it finds the platform through its environment.
AGENT = """
import os, urllib.request
def ask(url, data=None):
    request = urllib.request.Request(url, data, {"Metadata": "true"})
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).read()
ask(os.environ["FAKEAZURE_IMDS"] + "/metadata/instance?api-version=2023-11-15")
ask(os.environ["FAKEAZURE_WIRESERVER"] + "/provisioning/health", b'{"state":"Ready"}')
"""
THREE_LINES = """
def test_my_agent(fakeazure):
    fakeazure.run("./my-agent")
    assert fakeazure.judge().ok
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    agent = pytester.path / "my-agent"
    agent.write_text(f"#!{sys.executable}\n{AGENT}")
    agent.chmod(0o755)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    plugin = [word for name in UNKNOWN_TO_PYTEST for word in ("-p", name)]
    strict = ["--strict-markers", "-W", "error", "-p", "no:cacheprovider"]
    return project.runpytest_subprocess(*plugin, *strict, *arguments)


def test_a_test_of_another_project_has_three_lines(project: pytest.Pytester) -> None:
    project.makepyfile(THREE_LINES)
    run(project).assert_outcomes(passed=1)


def test_a_failure_shows_the_conversation(project: pytest.Pytester) -> None:
    project.makepyfile("import pytest\n@pytest.mark.fakeazure(scenario='key-line-feed')" + THREE_LINES)
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- fakeazure: the conversation -*",
            "What the machine asked and told",
            "*GET  /metadata/instance?api-version=2023-11-15  200 OK",
            "*POST /provisioning/health *201 Created*",
            "*tells: Ready",
            "Verdict: the machine lied",
            "  Wrong: told Ready where the truth is a failure",
        ]
    )


def test_what_passes_or_is_skipped_shows_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(THREE_LINES + "    import pytest; pytest.skip('enough')\n")
    result = run(project, "-rA")
    result.assert_outcomes(skipped=1)
    result.stdout.no_fnmatch_line("*the conversation*")


def test_the_machine_can_be_overridden_and_marked(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest
        from fakeazure import Expect, Vm

        @pytest.fixture
        def fakeazure_vm():
            return Vm(name="mine")

        def test_overridden(fakeazure):
            assert fakeazure.vm.name == "mine"

        @pytest.mark.fakeazure(scenario="imds-html", expect=Expect(verdict="failure"))
        class TestMarked:
            pytestmark = []

            def test_the_override_stays(self, fakeazure):
                assert fakeazure.vm.name == "mine" and fakeazure.scripts and fakeazure.expect.verdict == "failure"

            @pytest.mark.fakeazure(faults=[])
            def test_the_nearest_marker_wins(self, fakeazure):
                assert not fakeazure.scripts and fakeazure.expect.verdict == "failure"
    """)
    run(project).assert_outcomes(passed=3)


OVERRIDE = """
import dataclasses, pytest
from fakeazure import Vm

@pytest.fixture
def fakeazure_vm({asked}):
    return {vm}

@pytest.mark.fakeazure({marker})
def test_it(fakeazure):
    assert (fakeazure.vm.name, fakeazure.vm.username) == ("mine", "root")
"""


@pytest.mark.parametrize(
    ("marker", "what"), [("vm=Vm(name='yours')", "vm="), ("scenario='user-root'", "scenario='user-root'")]
)
def test_a_marked_machine_is_not_silently_replaced_by_an_override(
    project: pytest.Pytester, marker: str, what: str
) -> None:
    project.makepyfile(OVERRIDE.format(asked="", vm="Vm(name='mine')", marker=marker))
    result = run(project)
    result.assert_outcomes(errors=1)
    says = f"{what} of the fakeazure marker and an override of the fixture fakeazure_vm each describe the machine"
    assert says in result.stdout.str()
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


@pytest.mark.parametrize("marker", ["vm=Vm(username='root')", "scenario='user-root'"])
def test_an_override_may_build_on_the_marked_machine(project: pytest.Pytester, marker: str) -> None:
    vm = "dataclasses.replace(fakeazure_vm, name='mine')"
    project.makepyfile(OVERRIDE.format(asked="fakeazure_vm", vm=vm, marker=marker))
    run(project).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("scenario='imds-htm'", "there is no scenario imds-htm; did you mean imds-html?"),
        ("scenario='none.toml'", "none.toml: No such file or directory"),
        ("faults=[{'path': '/', 'answers': [99]}]", "99 is not an HTTP status from 200 to 599"),
        ("faults=[{'path': '/'}]", "a script has no answers: {'path': '/'}"),
        ("machine=1", "the fakeazure marker has no machine; it has scenario, vm, *"),
        ("'imds-html'", "the fakeazure marker has no 'imds-html'; it has scenario, vm, *"),
    ],
)
def test_a_marker_that_cannot_be_meant_is_one_sentence(project: pytest.Pytester, marker: str, says: str) -> None:
    project.makepyfile(f"import pytest\n@pytest.mark.fakeazure({marker})" + THREE_LINES)
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{says}"])
    for unwanted in ("*Traceback*", "During handling*", "*pytest_plugin.py*"):
        result.stdout.no_fnmatch_line(unwanted)


def test_the_plugin_costs_nothing_where_nobody_asks_for_it(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import sys
        def test_nothing_of_the_platform_is_loaded():
            ours = {name for name in sys.modules if name.startswith("fakeazure")}
            assert ours <= {"fakeazure", "fakeazure.pytest_plugin"}
    """)
    run(project).assert_outcomes(passed=1)


def test_the_marker_is_listed(project: pytest.Pytester) -> None:
    run(project, "--markers").stdout.fnmatch_lines(
        ["@pytest.mark.fakeazure(scenario=, vm=, *): the platform of this test"]
    )


@pytest.mark.fakeazure(vm=Vm(name="marked"), faults=[{"path": "/metadata/instance", "answers": [503, "ok*"]}])
def test_our_own_suite_has_it_too(fakeazure: Fabric, fakeazure_vm: Vm) -> None:
    assert fakeazure.vm is fakeazure_vm and fakeazure.vm.name == "marked"
    assert list(fakeazure.scripts) == ["/metadata/instance"]


@pytest.mark.fakeazure(imds=Imds(protected=True))
def test_the_environment_leads_to_the_platform(fakeazure: Fabric) -> None:
    found = fakeazure.environment
    assert found["FAKEAZURE_IMDS"] == fakeazure.imds and found["FAKEAZURE_HOSTPLUGIN"] == fakeazure.host_plugin
    assert Path(found["FAKEAZURE_MEDIA"]).stat().st_size > 0
    assert Path(found["FAKEAZURE_LEDGER"]).read_text().startswith('{"event": "boot"')
    assert found["FAKEAZURE_CONFIG"] == found["AZURE_INIT_CONFIG"]
    assert f'endpoint = "{fakeazure.imds}"' in Path(found["AZURE_INIT_CONFIG"]).read_text()
    subprocess.run(["azure-proxy-agent", "--status"], env=found, check=True, stdout=subprocess.DEVNULL)
    assert fakeazure.standing.latched
    assert fakeazure.environment == found
