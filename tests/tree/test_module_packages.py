"""Package sources in a file tree, and package managers as programs on the search path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from azureinit.errors import CustomDataFailed
from azureinit.facts.packages import APT, DNF, ZYPPER, find_managers, read_packages, read_reboot_marker
from azureinit.machine import Clock, Machine
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.run.enact import enact
from azureinit.run.module_tables import modules_of
from azureinit.run.modules import Module
from azureinit.telemetry.events import Events
from support.module_runs import apply_module, plan_module, request_of

SOURCES = "deb http://old.example.com/debian trixie main\n"


def module(name: str) -> Module:
    (found,) = [one for stage in ("config", "final") for one in modules_of(stage) if one.name == name]
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name in ("etc/apt/sources.list.d", "etc/yum.repos.d", "etc/zypp", "var/lib/dpkg", "usr/bin"):
        (root / name).mkdir(parents=True)
    (root / "etc/os-release").write_text("ID=debian\nVERSION_CODENAME=trixie\n")
    (root / "etc/apt/sources.list").write_text(SOURCES)
    status = "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n"
    (root / "var/lib/dpkg/status").write_text(status)
    (root / "usr/bin/apt-get").touch()
    return root


def kinds(plan: Any) -> list[type]:
    return [type(item) for item in plan]


def test_sources_of_apt_in_a_tree(tree: Path) -> None:
    document = """
apt:
  primary: [{arches: [amd64], uri: "http://new/debian"}]
  proxy: "http://proxy"
  sources:
    extra: {source: "deb $MIRROR $RELEASE extra"}
"""
    plan = apply_module(module("apt_configure"), tree, document)
    assert kinds(plan) == [Step, Step, Step, Caution]  # the lists are read on the running system
    assert (tree / "etc/apt/sources.list").read_text() == "deb http://new/debian trixie main\n"
    extra = tree / "etc/apt/sources.list.d/extra.list"
    assert extra.read_text() == "deb http://new/debian trixie extra\n"
    assert extra.stat().st_mode & 0o777 == 0o644
    proxy = (tree / "etc/apt/apt.conf.d/90cloud-init-aptproxy").read_text()
    assert proxy == 'Acquire::http::Proxy "http://proxy";\n'
    assert kinds(apply_module(module("apt_configure"), tree, document)) == [Satisfied] * 3


def test_sources_of_yum_and_zypper_in_a_tree(tree: Path) -> None:
    document = 'yum_repos: {a: {baseurl: "http://x"}}\nzypper: {repos: [{id: b, baseurl: "http://y"}]}\n'
    for name, path in (("yum_add_repo", "etc/yum.repos.d/a.repo"), ("zypper_add_repo", "etc/zypp/repos.d/b.repo")):
        assert kinds(apply_module(module(name), tree, document)) == [Step]
        before = (tree / path).read_text()
        assert "http://" in before
        assert kinds(apply_module(module(name), tree, document)) == [Satisfied]
        assert (tree / path).read_text() == before


def test_packages_of_a_tree(tree: Path) -> None:
    assert kinds(apply_module(module("packages"), tree, "packages: [dpkg, nginx]")) == [Satisfied, Caution]


def shim(place: Path, name: str, script: str) -> None:
    place.mkdir(exist_ok=True)
    (place / name).write_text(f"#!/bin/sh\n{script}\n")
    (place / name).chmod(0o755)


@pytest.mark.parametrize(
    ("release", "tools", "expected"),
    [
        ("ID=debian", ("apt-get", "dnf", "zypper"), (APT, DNF, ZYPPER)),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"', ("dnf", "zypper"), (ZYPPER, DNF)),
        ("ID=fedora", ("apt-get", "dnf"), (DNF, APT)),
        ("ID=mine", (), ()),
    ],
)
def test_the_system_s_own_manager_comes_first(
    tmp_path: Path, release: str, tools: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(release)
    for tool in tools:
        (tmp_path / "usr/bin" / tool).touch()
    assert find_managers(Machine(root=str(tmp_path))) == expected


class Impatient(Clock):
    def sleep(self, seconds: float) -> None:
        pass


class Running(Machine):
    """A tree that passes for the running system, with its own programs."""

    @property
    def rooted(self) -> bool:
        return False


def running(tree: Path, **scripts: str) -> Running:
    place = tree / "shims"
    for name, script in scripts.items():
        shim(place, name.replace("_", "-"), script)
    return Running(root=str(tree), search=(str(place), "/usr/bin", "/bin"), clock=Impatient())


def test_rpm_is_asked_once_for_all_names(tree: Path) -> None:
    told = tree / "asked"
    answer = 'echo bash-5.2-1.x86_64; echo "package nginx is not installed"; exit 1'
    machine = running(tree, dnf="exit 0", rpm=f'echo "$@" >{told}; {answer}')
    (tree / "etc/os-release").write_text("ID=fedora\n")
    found = read_packages(machine, ("bash", "nginx", "@group", "https://x/y.rpm"))
    assert found.managers[0] == DNF
    assert found.known_to_rpm == {"bash"}
    assert told.read_text() == "--query bash nginx\n"
    assert read_packages(running(tree, rpm="echo error: x >&2; exit 0"), ("bash",)).known_to_rpm == frozenset()


def test_a_lock_is_waited_for_and_a_failure_quotes_the_log(tree: Path) -> None:
    """The first attempt finds the lock held; the next one fails for another reason."""
    script = (
        f'echo "$DEBIAN_FRONTEND $@" >>{tree}/calls; case "$*" in *update*) exit 0;; esac; '
        f"if [ ! -e {tree}/second ]; then touch {tree}/second; "
        'echo "E: Could not get lock /var/lib/dpkg/lock" >&2; exit 100; fi; '
        'echo "E: Unable to locate package nginx" >&2; exit 100'
    )
    machine = running(tree, apt_get=script)
    plan = plan_module(module("packages"), machine, request_of("packages: [nginx]", rooted=False, directory="/var/vm"))
    assert kinds(plan) == [Step, Step]
    with pytest.raises(CustomDataFailed) as caught:
        enact(machine, plan, events=Events(clock=machine.clock), deadline=machine.clock.monotonic() + 30)
    text = str(caught.value)
    assert "packages nginx (line 2)" in text
    assert "E: Unable to locate package nginx; its output is in " in text
    assert "lock" not in text
    calls = (tree / "calls").read_text().splitlines()
    assert len(calls) == 3
    assert all(line.startswith("noninteractive ") for line in calls)
    assert (tree / "var/vm/packages.log").stat().st_mode & 0o777 == 0o600


def test_the_marker_for_a_reboot(tree: Path) -> None:
    machine = Machine(root=str(tree))
    assert read_reboot_marker(machine) == ""
    (tree / "run").mkdir()
    (tree / "run/reboot-needed").touch()
    assert read_reboot_marker(machine) == "/run/reboot-needed"
