"""packages, package_update, package_upgrade: what would be installed, and by which package manager."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.apply.output import quoted, without_passwords
from azureinit.backends.packages import MANAGERS, log_path
from azureinit.errors import CustomDataFailed
from azureinit.facts.packages import (
    APK,
    APT,
    DNF,
    SYSTEM,
    TOOLS,
    ZYPPER,
    Installed,
    Packages,
    parse_apk_installed,
    parse_dpkg_status,
    parse_rpm_answer,
)
from azureinit.modules.packages import asked_of_rpm, plan_package_reboot, plan_packages, wanted_packages
from azureinit.plan.actions import Caution, Declined, Run, Satisfied, Step, Way
from azureinit.plan.show import as_text
from azureinit.userdata.document import read_document
from support.module_runs import request_of

STATUS = b"""Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.22

Package: git
Status: install ok installed
Architecture: amd64
Version: 1:2.47-1
Description: a thing
 Status: not a field

Package: libc6
Status: install ok installed
Architecture: i386
Version: 2.41

Package: kept
Status: hold ok installed
Architecture: all
Version: 1

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 3
"""


def found(*managers: str, **fields: Any) -> Packages:
    installed, unfinished = parse_dpkg_status(STATUS)
    values: dict[str, Any] = {
        "managers": managers or (APT,),
        "snap": False,
        "installed": installed,
        "unfinished": unfinished,
        "native": "amd64",
        **fields,
    }
    return Packages(**values)


def planned(text: str, facts: Packages | None = None, **fields: Any) -> list[Any]:
    return list(plan_packages(request_of(text, **{"rooted": False, **fields}), facts or found()))


def steps(plan: list[Any]) -> list[Step]:
    return [item for item in plan if isinstance(item, Step)]


def run_of(step: Step, way: int = 0) -> Run:
    chosen = step.ways[way]
    assert isinstance(chosen, Way)
    run = chosen.actions[-1]
    assert isinstance(run, Run)
    return run


# ---- what is installed


def test_dpkg_s_database() -> None:
    installed, unfinished = parse_dpkg_status(STATUS)
    assert [one.name for one in installed] == ["dpkg", "git", "libc6", "kept"]
    assert installed[1] == Installed(name="git", version="1:2.47-1", architecture="amd64")
    assert not unfinished
    assert parse_dpkg_status(STATUS.replace(b"deinstall ok config-files", b"install ok half-configured"))[1]


def test_apk_s_database_and_rpm_s_answer() -> None:
    assert parse_apk_installed(b"C:x=\nP:musl\nV:1.2.5-r0\nF:lib\n\nP:zlib\nV:1\n") == (
        Installed(name="musl", version="1.2.5-r0"),
        Installed(name="zlib", version="1"),
    )
    answer = b"bash-5.2-1.el9.x86_64\npackage nginx is not installed\nkernel-5\nkernel-6\n"
    assert parse_rpm_answer(("bash", "nginx", "kernel"), answer) == {"bash", "kernel"}


@given(st.binary())
def test_no_database_ends_in_an_exception(data: bytes) -> None:
    assert all(one.name for one in parse_dpkg_status(data)[0])
    assert len(parse_apk_installed(data)) <= data.count(b"P:")
    assert parse_rpm_answer(("a",), data) <= {"a"}


# ---- the plan


def test_what_is_installed_already_is_left_alone() -> None:
    plan = planned('packages: [git, kept, "git=1:2.47-1", [git, "1:2.47-1"], "git:amd64"]')
    assert all(isinstance(item, Satisfied) for item in plan)
    assert [item.name for item in plan][:2] == ["packages git (line 2)", "packages kept (line 2)"]


@pytest.mark.parametrize("item", ["gone", "libc6", "git=9", '[git, "9"]', "git:arm64", "git/sid", "git-"])
def test_another_version_or_architecture_is_not_installed(item: str) -> None:
    lists, install = steps(planned(f"packages: [{item}]"))
    assert lists.name == "packages lists (line 2)"
    assert install.failure is CustomDataFailed


def test_apt_is_asked_for_all_at_once_and_never_asks_itself() -> None:
    lists, install = steps(planned('packages:\n  - nginx\n  - [curl, "8.1"]\n  - git\n'))
    assert run_of(lists).argv[-1] == "update"
    run = run_of(install)
    assert run.argv[-4:] == ("install", "--", "nginx", "curl=8.1")
    assert "--option=Dpkg::Options::=--force-confold" in run.argv
    assert ("DEBIAN_FRONTEND", "noninteractive") in run.env
    assert run.output == log_path("/var/lib/azure-init/5c1f3c8c-6a2e-4d0a-9d5e-0a4b0c9d1e2f.d")
    assert install.name == "packages nginx, curl (line 3)"
    # The second way names each with its line, for a failure.
    assert run_of(install, 1).argv[-4:] == ("nginx", "nginx (line 3)", "curl=8.1", "curl (line 4)")


def test_one_package_has_no_second_way() -> None:
    install = steps(planned("packages: [nginx]"))[-1]
    assert len(install.ways) == 1


@pytest.mark.parametrize(
    ("manager", "words"),
    [(DNF, "nginx-1.2"), (ZYPPER, "nginx=1.2"), (APK, "nginx=1.2"), ("tdnf", "nginx-1.2"), ("yum", "nginx-1.2")],
)
def test_each_manager_has_its_own_words(manager: str, words: str) -> None:
    plan = steps(planned('package_upgrade: true\npackages: [[nginx, "1.2"]]', found(manager, installed=())))
    assert [step.name for step in plan] == [
        "packages lists (line 2)",
        "packages upgrade (line 2)",
        "packages nginx (line 3)",
    ]
    assert run_of(plan[2]).argv[-1] == words
    assert TOOLS[manager] in " ".join(run_of(plan[2]).argv)


def test_rpm_is_asked_and_dnf_reads_its_lists_itself() -> None:
    request = request_of('packages: [git, [bash, "5"], nginx]')
    assert asked_of_rpm(request.config) == ("git", "bash-5", "nginx")
    plan = planned('packages: [git, [bash, "5"], nginx]', found(DNF, known_to_rpm=frozenset({"git", "bash-5"})))
    (install,) = steps(plan)
    assert run_of(install).argv == ("dnf", "-y", "install", "nginx")


def test_a_manager_by_name() -> None:
    plan = planned("packages:\n  - apt: [nginx, [curl, '8']]\n  - snap: [hello, [code, --classic]]\n", found(snap=True))
    named = {step.name: step for step in steps(plan)}
    assert run_of(named["packages nginx, curl (line 3)"]).argv[-2:] == ("nginx", "curl=8")
    assert run_of(named["packages snap code (line 4)"]).argv == ("snap", "install", "code", "--classic")
    there = planned("packages: [snap: [hello]]", found(snap=True, snaps=frozenset({"hello"})))
    assert [type(item) for item in there] == [Satisfied]


@pytest.mark.parametrize(("manager", "tool"), [("snap", "snap"), ("dnf", "dnf"), ("zypper", "zypper")])
def test_a_manager_that_is_not_here_is_a_failure_that_names_it(manager: str, tool: str) -> None:
    (step,) = steps(planned(f"packages: [{{{manager}: [nginx]}}]"))
    assert step.ways == (Declined(backend=manager, why=f"{tool} is not installed"),)


def test_without_any_package_manager_the_known_ones_are_named() -> None:
    facts = Packages(managers=(), snap=False, installed=())
    for step in steps(planned("package_update: true\npackage_upgrade: yes\npackages: [a]", facts)):
        (way,) = step.ways
        assert isinstance(way, Declined)
        assert all(TOOLS[name] in way.why for name in SYSTEM)


@pytest.mark.parametrize("item", ['"-o=Dir=/x"', "[--purge, '1']", '"a b"', '"a\\nb"'])
def test_an_option_is_no_package(item: str) -> None:
    step = steps(planned(f"packages: [nginx, {item}]"))[-1]
    (way,) = step.ways
    assert isinstance(way, Declined)
    assert way.why.endswith("(line 2): not a package's name")


def test_old_names_and_false() -> None:
    assert [step.name for step in steps(planned("apt_update: true"))] == ["packages lists (line 2)"]
    assert [step.name for step in steps(planned("apt_upgrade: true"))] == [
        "packages lists (line 2)",
        "packages upgrade (line 2)",
    ]
    assert planned("package_update: false\npackage_upgrade: false\npackages: []") == []


def test_an_interrupted_dpkg_is_finished_first() -> None:
    first = steps(planned("packages: [nginx]", found(unfinished=True)))[0]
    assert run_of(first).argv == ("dpkg", "--force-confold", "--configure", "--pending")


def test_nothing_is_installed_into_a_tree() -> None:
    plan = planned("package_update: true\npackages: [git, nginx]", rooted=True)
    assert [type(item) for item in plan] == [Satisfied, Caution, Caution]


def test_every_manager_that_facts_find_has_a_row() -> None:
    assert set(MANAGERS) == set(SYSTEM)


# ---- reboots

WAY = Way(backend="shutdown", actions=())


@pytest.mark.parametrize(
    ("text", "marker", "expected"),
    [
        ("packages: [a]", "/run/reboot-needed", []),
        ("package_reboot_if_required: true", "/run/reboot-needed", []),  # nothing was installed
        ("package_reboot_if_required: true\npackages: [a]", "", [Satisfied]),
        ("package_reboot_if_required: true\npackages: [a]", "/run/reboot-needed", [Step]),
        ("apt_reboot_if_required: true\npackage_upgrade: true", "/run/reboot-needed", [Step]),
    ],
)
def test_a_reboot_only_where_it_is_asked_for_and_needed(text: str, marker: str, expected: list[type]) -> None:
    plan = plan_package_reboot(request_of(text, rooted=False), marker, (WAY,))
    assert [type(item) for item in plan] == expected
    assert all(item.name == "power_state reboot (line 2)" for item in plan)


# ---- what a failure quotes


def test_the_reasons_are_quoted_each_once() -> None:
    log = "Reading...\nE: one\nnoise\nE: one\nE: two:\n three\n"
    assert quoted(log, ("E: ",)) == "E: one; E: two: three"
    assert quoted("a\nb\n\n", ("E: ",)) == "b"
    assert quoted("", ("E: ",)) == ""


def test_no_password_of_a_url_is_quoted() -> None:
    text = "E: Failed to fetch https://me:secret@example.com/x and http://u:p@h:80"
    assert without_passwords(text) == "E: Failed to fetch https://example.com/x and http://h:80"
    assert "secret" not in quoted(text, ("E: ",))


# ---- anything that passes the checks

ITEMS = st.recursive(
    st.one_of(st.text(max_size=5), st.sampled_from(["git", "a=1", "-x", ""])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["apt", "snap", "dnf"]), st.lists(inner, max_size=2)),
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ITEMS, max_size=4), st.sampled_from(["true", "'yes'", "1", "no", ""]), st.booleans())
def test_no_document_ends_in_an_exception(items: list[Any], flag: str, rooted: bool) -> None:
    import json

    text = f"#cloud-config\npackages: {json.dumps(items)}\npackage_update: {flag}\n"
    if read_document(text.encode()).errors:
        return
    request = request_of(text, rooted=rooted)
    as_text(plan_packages(request, found()), privileged=True)
    as_text(plan_packages(request, Packages(managers=(), snap=False, installed=())), privileged=True)
    assert len(wanted_packages(request.config)) <= sum(1 for _ in text)
