"""Every scenario that fakeazure ships, as a boot: a Debian with the package installed, and the scenario's own verdict.

The boots run side by side, ahead of the tests that look at them: a boot waits more than it works. A scenario may
shorten the budgets of the agent; `scripts/test --all` also boots those that end in a failure with the default budgets.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from fakeazure.judge import judge
from fakeazure.platform.events import Request, read_events
from fakeazure.scenarios.catalogue import find_scenario, names, scenario_text
from support.bounds import ALL
from support.installed import SOURCE, Images
from support.shipped import played_names

pytestmark = pytest.mark.newer

AT_ONCE = 12
SILENCE_SECS = 45  # for a machine that must not be heard; it has told all it can after a few
BUDGETS = re.compile(r"^\[azure-init\]\n(?:[^\[\n].*\n)*", re.MULTILINE)
OWN_LIMIT = re.compile(r"^within_secs = .*\n", re.MULTILINE)  # for a computer with less to do
UNHURRIED = "+default-budgets"
BOOT = """
mount -t overlay -o "lowerdir=$1" overlay "$2/machine" || exit 1
shift 2
exec "$@"
"""
Results = dict[str, "Future[subprocess.CompletedProcess[str]]"]


def verdict(name: str) -> str:
    expect = find_scenario(name).expect
    return expect.verdict if expect else "ready"


def text_of(test: str) -> str:
    """The scenario's file, changed as the test's name says; silence is not waited for longer than it takes."""
    name = test.removesuffix(UNHURRIED)
    text = scenario_text(name)
    if name != test:
        text, count = BUDGETS.subn("", text)
        assert count == 1
    text = OWN_LIMIT.sub("", text)
    seconds = SILENCE_SECS if verdict(name) == "none" else 600
    return text.replace("[expect]\n", f"[expect]\nwithin_secs = {seconds}\n")


TESTS = played_names(6)
if ALL:
    TESTS += [f"{name}{UNHURRIED}" for name in names() if verdict(name) == "failure" and find_scenario(name).azure_init]


def boot(image: tuple[Path, ...], place: Path, test: str) -> subprocess.CompletedProcess[str]:
    """In a directory of its own. The image is not changed."""
    place = place / test
    for part in ("machine", "tmp"):
        (place / part).mkdir(parents=True)
    scenario = place / "scenario.toml"
    scenario.write_text(text_of(test))
    return subprocess.run(
        (
            *("unshare", "--mount", "sh", "-c", BOOT, "sh", ":".join(map(str, image)), str(place)),
            *(sys.executable, "-B", "-m", "fakeazure", "container", str(place / "machine"), str(scenario)),
            *("--ledger", str(place / "ledger.jsonl"), "--console", str(place / "console")),
        ),
        env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(place / "tmp")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("scenarios")
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def booted(images: Images, place: Path, request: pytest.FixtureRequest) -> Iterator[Results]:
    """All that were selected, those that wait longest first."""
    image = images("trixie", "openssl")
    selected = [test for test in TESTS if any(f"[{test}]" in item.name for item in request.session.items)]
    selected.sort(key=lambda test: (UNHURRIED not in test, verdict(test.removesuffix(UNHURRIED)) == "ready"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {test: pool.submit(boot, image, place, test) for test in selected}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("test", TESTS)
def test_a_boot_ends_as_its_scenario_says(booted: Results, place: Path, test: str) -> None:
    ran = booted[test].result()
    console = (place / test / "console").read_text(errors="replace")
    assert "Traceback" not in ran.stderr + console, ran.stderr + console
    assert ran.returncode == 0, ran.stdout + ran.stderr + console[-2000:]
    events = read_events(place / test / "ledger.jsonl")
    assert judge(events).ok
    asked = [event.path for event in events if isinstance(event, Request)]
    served = find_scenario(test.removesuffix(UNHURRIED)).imds.enable
    assert "/metadata/instance" in asked or not served, "it came as far as the network"
    assert list((place / test / "tmp").iterdir()) == []
