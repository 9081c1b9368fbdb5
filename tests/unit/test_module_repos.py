"""yum_repos and zypper: the files of package sources."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.facts.repo_files import RepoFiles
from azureinit.facts.system_files import Target
from azureinit.modules import yum_repos, zypper
from azureinit.modules.yum_repos import plan_yum_repos
from azureinit.modules.zypper import CONFIGURATION, plan_zypper
from azureinit.plan.actions import Caution, Declined, Satisfied, Step, Way, Write
from azureinit.plan.show import as_text
from azureinit.record import Secret, replace
from azureinit.userdata.document import read_document
from support.module_runs import request_of

HERE = RepoFiles(supported=True, existing=frozenset())


def written(plan: Any) -> dict[str, str]:
    ways = [way for step in plan if isinstance(step, Step) for way in step.ways if isinstance(way, Way)]
    writes = [action for way in ways for action in way.actions if isinstance(action, Write)]
    return {one.path: one.data.text() for one in writes if isinstance(one.data, Secret)}


def with_places(facts: RepoFiles, paths: tuple[str, ...]) -> RepoFiles:
    return replace(facts, targets={path: Target(path=path) for path in paths})


def yum(text: str, facts: RepoFiles = HERE) -> list[Any]:
    request = request_of(text)
    return list(plan_yum_repos(request, with_places(facts, yum_repos.paths_of(request.config))))


def zypp(text: str, facts: RepoFiles = HERE) -> list[Any]:
    request = request_of(text)
    return list(plan_zypper(request, with_places(facts, zypper.paths_of(request.config))))


EPEL = """
yum_repos:
  my epel:
    name: Extra Packages
    baseurl: https://u:geheim@example.com/$basearch%20
    enabled: false
    gpg-check: true
    Priority: 10
    includepkgs: [a, b]
    nothing:
"""


def test_the_file_of_a_source_of_yum() -> None:
    assert written(yum(EPEL)) == {
        "/etc/yum.repos.d/my-epel.repo": "# Created by azure-init\n[my-epel]\nname = Extra Packages\n"
        "baseurl = https://u:geheim@example.com/$basearch%20\nenabled = 0\ngpg_check = 1\npriority = 10\n"
        "includepkgs = a\n\tb\n\n"
    }
    assert "geheim" not in as_text(tuple(yum(EPEL)), privileged=True)
    assert list(written(yum(f"yum_repo_dir: /srv/repos/\n{EPEL}"))) == ["/srv/repos/my-epel.repo"]


def test_an_existing_file_is_kept_and_a_name_is_used_once() -> None:
    there = RepoFiles(supported=True, existing=frozenset({"/etc/yum.repos.d/my-epel.repo"}))
    assert [type(item) for item in yum(EPEL, there)] == [Satisfied]
    twice = 'yum_repos: {"a b": {baseurl: x}, a-b: {baseurl: y}}'
    assert [type(item) for item in yum(twice)] == [Step, Caution]


@pytest.mark.parametrize("name", ["../x", "a]b", "", "a\\u0000", ".."])
def test_a_name_that_cannot_be_a_file(name: str) -> None:
    (step,) = yum(f'yum_repos: {{"{name}": {{baseurl: x}}}}')
    assert isinstance(step.ways[0], Declined)
    (step,) = zypp(f'zypper: {{repos: [{{id: "{name}", baseurl: x}}]}}')
    assert isinstance(step.ways[0], Declined)


def test_a_source_without_an_address_is_refused() -> None:
    (step,) = yum('yum_repos: {a: {baseurl: ""}}')
    assert step.ways[0].why == "it has none of baseurl, metalink, mirrorlist"


def test_where_the_manager_is_missing_it_is_told() -> None:
    nowhere = RepoFiles(supported=False, existing=frozenset())
    assert [item.why for item in (*yum(EPEL, nowhere), *zypp("zypper: {repos: []}", nowhere))] == [
        "not done: neither yum nor dnf is installed",
        "not done: zypper is not installed",
    ]


def test_sources_of_zypper() -> None:
    text = "zypper: {repos: [{id: my oss, baseurl: 'http://x', name: OSS, enabled: true}, {id: b, baseurl: y}]}"
    assert written(zypp(text)) == {
        "/etc/zypp/repos.d/my_oss.repo": "[my oss]\nbaseurl = http://x\nname = OSS\nenabled = 1\nautorefresh = 1",
        "/etc/zypp/repos.d/b.repo": "[b]\nbaseurl = y\nenabled = 1\nautorefresh = 1",
    }


def test_settings_of_zypper_are_added_once() -> None:
    text = "zypper: {config: {download.use_deltarpm: true, reposdir: /srv/r, configdir: /x}, repos: []}"
    first = RepoFiles(supported=True, existing=frozenset(), configuration=Secret("[main]\nreposdir=/srv/r"))
    plan = zypp(text, first)
    new = written(plan)[CONFIGURATION]
    assert new == "[main]\nreposdir=/srv/r\n# Added by azure-init\ndownload.use_deltarpm=1\n"
    assert [type(item) for item in plan] == [Caution, Step]
    again = RepoFiles(supported=True, existing=frozenset(), configuration=Secret(new))
    assert [type(item) for item in zypp(text, again)] == [Caution, Satisfied]


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)),
    max_leaves=3,
)
REPO = st.dictionaries(st.sampled_from(["baseurl", "id", "name", "enabled", "A-b", ""]), VALUES, max_size=4)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=4), REPO, max_size=2), st.lists(REPO, max_size=2), REPO)
def test_no_document_ends_in_an_exception(repos: Any, listed: Any, config: Any) -> None:
    both = {"yum_repos": repos, "zypper": {"repos": listed, "config": config}}
    for name, value in both.items():
        text = f"#cloud-config\n{name}: {json.dumps(value)}\n"
        if read_document(text.encode()).errors:
            continue
        request = request_of(text)
        plan = (*plan_yum_repos(request, HERE), *plan_zypper(request, HERE))
        as_text(plan, privileged=True)
        assert all(path.startswith("/") for path in (*yum_repos.paths_of(request.config), *written(plan)))
        assert all(path.startswith("/") for path in zypper.paths_of(request.config))
