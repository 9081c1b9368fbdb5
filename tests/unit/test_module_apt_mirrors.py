"""apt: the distribution's own archives, and the text of sources."""

from __future__ import annotations

from hypothesis import given, strategies as st

from azureinit.facts.apt import SOURCES_LIST
from azureinit.modules.apt import hosts_of
from azureinit.modules.apt_sources import (
    Mirror,
    UnknownVariable,
    disabled_suites,
    is_deb822,
    mirrors_in,
    render,
    stanzas,
    with_mirrors,
    without_suites,
)
from azureinit.plan.actions import Caution, Remove, Satisfied, Step
from support.apt_plans import DEB822, ONE_LINE, PARTS, found, planned, refusals, written
from support.module_runs import request_of


def test_the_image_s_mirrors() -> None:
    expected = {"PRIMARY": "http://old.example.com/debian", "SECURITY": "http://old.example.com/debian-security"}
    assert mirrors_in([DEB822], "trixie") == expected
    assert mirrors_in([ONE_LINE], "trixie") == expected
    assert mirrors_in([DEB822, ONE_LINE], "sid") == {}


def test_other_mirrors_for_the_distribution_and_no_other_source() -> None:
    mirrors = {"PRIMARY": Mirror(uri="http://p"), "SECURITY": Mirror(uri="http://s", key="/k.gpg")}
    new = with_mirrors(DEB822, "trixie", mirrors)
    assert new == DEB822.replace("http://old.example.com/debian-security", "http://s").replace(
        "http://old.example.com/debian", "http://p"
    ).replace("trixie-security\nComponents: main\n", "trixie-security\nComponents: main\nSigned-By: /k.gpg\n")
    lines = with_mirrors(ONE_LINE, "trixie", mirrors).splitlines()
    assert lines[0] == "deb http://p trixie main"
    assert lines[1].startswith("deb [arch=amd64 signed-by=/k.gpg] http://s trixie-security main contrib")
    assert lines[2:] == ONE_LINE.splitlines()[2:]


def test_suites_that_are_switched_off() -> None:
    off = disabled_suites(("backports", "$RELEASE-security", "x"), "trixie")
    assert off == {"trixie-backports", "trixie-security", "x"}
    new = without_suites(DEB822, off)
    assert "Suites: trixie trixie-updates\nComponents" in new
    assert "Suites: trixie-security\nComponents: main\nEnabled: no\n" in new
    assert without_suites(ONE_LINE, off).splitlines()[1].startswith("# suite disabled by azure-init: deb [arch=amd64]")


def test_primary_and_security_for_this_architecture() -> None:
    text = """
apt:
  primary:
    - {arches: [arm64], uri: "http://arm"}
    - {arches: [default], uri: "http://rest"}
    - {arches: [i386, amd64], uri: "http://intel/debian"}
  disable_suites: [security]
"""
    new = written(planned(text))[SOURCES_LIST].splitlines()
    assert new[0] == "deb http://intel/debian trixie main"
    assert new[1].startswith("# suite disabled by azure-init: deb [arch=amd64] http://intel/debian trixie-security")
    assert "http://rest" in written(planned(text, found(architecture="riscv64")))[SOURCES_LIST]
    again = planned(text, found({SOURCES_LIST: written(planned(text))[SOURCES_LIST]}))
    assert {type(item) for item in again} == {Satisfied}
    assert planned(f"{text}  preserve_sources_list: true\n") == []


def test_a_list_of_mirrors_is_changed_in_its_own_file() -> None:
    sources = DEB822.replace("http://old.example.com/debian\n", "mirror+file:///etc/apt/mirrors/debian.list\n")
    files = {f"{PARTS}/debian.sources": sources, "/etc/apt/mirrors/debian.list": "http://first\nhttp://second\n"}
    text = 'apt: {primary: [{arches: [default], uri: "http://new"}], sources: {a: {source: "deb $MIRROR x"}}}'
    new = written(planned(text, found(files)))
    assert new["/etc/apt/mirrors/debian.list"] == "http://new\n"
    assert "mirror+file:///etc/apt/mirrors/debian.list" in new[f"{PARTS}/debian.sources"]
    assert new[f"{PARTS}/a.list"] == "deb http://new x\n"
    only = 'apt: {sources: {a: {source: "deb $MIRROR x"}}}'
    assert written(planned(only, found(files))) == {f"{PARTS}/a.list": "deb http://first x\n"}
    lists = 'apt: {generate_mirrorlists: true, primary: [{arches: [default], uri: "http://new"}]}'
    assert written(planned(lists)) == {
        "/etc/apt/mirrors/debian.list": "http://new\n",
        "/etc/apt/mirrors/debian-security.list": "http://new\n",
    }


def test_the_first_mirror_that_has_an_address() -> None:
    text = 'apt: {primary: [{arches: [default], search: ["http://a/d", "http://u@b:80/d"]}]}'
    assert hosts_of(request_of(text).config) == ("a", "b")
    assert "http://u@b:80/d" in written(planned(text, found(resolved=frozenset({"b"}))))[SOURCES_LIST]
    assert [type(item) for item in planned(text)] == [Caution]


def test_mirrors_for_an_image_without_sources_are_refused() -> None:
    (why,) = refusals(planned('apt: {primary: [{arches: [default], uri: "http://p"}]}', found({})))
    assert why.endswith("use sources_list")


def test_sources_of_the_document() -> None:
    plan = planned('apt: {sources_list: "deb $PRIMARY $RELEASE main\\n", disable_suites: [updates]}')
    assert written(plan) == {SOURCES_LIST: "deb http://old.example.com/debian trixie main\n"}
    text = "apt:\n  sources_list: |\n    Types: deb\n    URIs: $MIRROR\n    Suites: $RELEASE\n"
    plan = planned(text)
    assert list(written(plan)) == [f"{PARTS}/debian.sources"]
    assert any(isinstance(action, Remove) for way in plan[0].ways for action in way.actions)
    beside = planned('apt: {sources_list: "deb x y z"}', found({f"{PARTS}/debian.sources": DEB822}))
    assert [type(item) for item in beside] == [Caution, Step]
    assert "jinja" in refusals(planned('apt: {sources_list: "## template:jinja\\n{{mirror}}"}'))[0]


@given(st.text(alphabet="deb Types:SuitURIsComponents\n #[]=-x", max_size=80))
def test_edits_that_change_nothing_keep_every_byte(text: str) -> None:
    assert "".join(stanzas(text)) == text or not is_deb822(text)
    assert without_suites(text, frozenset()) == text
    assert with_mirrors(text, "trixie", {}) == text


@given(st.text())
def test_rendering_ends_in_text_or_an_unknown_name(text: str) -> None:
    try:
        render(text, {"A": "1"})
    except UnknownVariable as error:
        assert str(error) in text
