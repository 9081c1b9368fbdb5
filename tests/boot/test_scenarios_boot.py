"""Every scenario that fakeazure ships, as a boot: a Debian with the package installed, and the scenario's own verdict.

The boots run side by side, ahead of the tests that look at them: a boot waits more than it works. Where an honest agent
gives up, the image shortens its budgets, except in two scenarios of `scripts/test --all`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from fakeazure.catalogue import find_scenario, names, scenario_text
from fakeazure.events import Request, read_events
from fakeazure.judge import judge
from support.bounds import ALL
from support.installed import SOURCE, Images

pytestmark = pytest.mark.newer

AT_ONCE = 12
SILENCE_SECS = 45  # for a machine that must not be heard; it has told all it can after a few
QUICK = """
[boot]
deadline_secs = 60
[run]
verdict_reserve_secs = 10
"""
DEFAULT_BUDGET = ("no-sources", "imds-html-for-good")
BOOT = """
mount -t overlay -o "lowerdir=$1" overlay "$2/machine" || exit 1
shift 2
exec "$@"
"""
Results = dict[str, "Future[subprocess.CompletedProcess[str]]"]


class Boots:
    """One boot a scenario, each in a directory of its own. No boot changes the image."""

    def __init__(self, image: tuple[Path, ...], place: Path) -> None:
        self.image, self.place = image, place
        quick = place / "quick/etc/azure-init/azure-init.toml.d/50-quick.toml"
        quick.parent.mkdir(parents=True)
        quick.write_text(QUICK)

    def __call__(self, name: str) -> subprocess.CompletedProcess[str]:
        place = self.place / name
        for part in ("machine", "tmp"):
            (place / part).mkdir(parents=True)
        layers = (
            self.image if verdict(name) == "ready" or has_default_budget(name) else (self.place / "quick", *self.image)
        )
        scenario = place / f"{name}.toml"
        scenario.write_text(scenario_text(name).replace("[expect]\n", f"[expect]\nwithin_secs = {within(name)}\n"))
        return subprocess.run(
            (
                *("unshare", "--mount", "sh", "-c", BOOT, "sh", ":".join(map(str, layers)), str(place)),
                *(sys.executable, "-B", "-m", "fakeazure", "container", str(place / "machine"), str(scenario)),
                *("--ledger", str(place / "ledger.jsonl"), "--console", str(place / "console")),
            ),
            env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(place / "tmp")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
        )


def verdict(name: str) -> str:
    expect = find_scenario(name).expect
    return expect.verdict if expect else "ready"


def has_default_budget(name: str) -> bool:
    return ALL and name in DEFAULT_BUDGET


def within(name: str) -> int:
    return SILENCE_SECS if verdict(name) == "none" else 600


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("scenarios")
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def booted(images: Images, place: Path, request: pytest.FixtureRequest) -> Iterator[Results]:
    """All that were selected, those that wait longest first."""
    boots = Boots(images("trixie", "openssl"), place)
    selected = [name for name in names() if any(f"[{name}]" in item.name for item in request.session.items)]
    selected.sort(key=lambda name: verdict(name) == "ready")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(boots, name) for name in selected}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", names())
def test_a_boot_ends_as_its_scenario_says(booted: Results, place: Path, name: str) -> None:
    ran = booted[name].result()
    console = (place / name / "console").read_text(errors="replace")
    assert "Traceback" not in ran.stderr + console, ran.stderr + console
    assert ran.returncode == 0, ran.stdout + ran.stderr + console[-2000:]
    events = read_events(place / name / "ledger.jsonl")
    assert judge(events).ok
    asked = [event.path for event in events if isinstance(event, Request)]
    assert "/metadata/instance" in asked or not find_scenario(name).imds.enable, "it came as far as the network"
    assert list((place / name / "tmp").iterdir()) == []
