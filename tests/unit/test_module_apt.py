"""apt: sources, keys, proxies, settings, answers for debconf."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.modules.apt import CONF_FILE, PROXY_FILE, paths_of, plan_apt
from azureinit.modules.apt_keys import BEGIN, END, NoKey, dearmoured
from azureinit.modules.apt_pieces import stem
from azureinit.plan.actions import Caution, Satisfied
from azureinit.plan.show import as_text
from azureinit.run.module_tables import modules_of
from azureinit.userdata.document import read_document
from support.apt_plans import DEB822, PARTS, found, planned, refusals, runs, written
from support.module_runs import request_of

# A key of ed25519, and as it is in a document.
KEY = base64.b64decode(
    "mDMEaRxJqxYJKwYBBAHaRw8BAQdAn2Jr0b3vUqf8m4hJ3yQ5vJrXk0kVQ4j0bq3cVfY8m0k="
)  # fmt: skip


def armoured(data: bytes, *, checksum: str = "") -> str:
    return f"{BEGIN}\nComment: a test\n\n{base64.encodebytes(data).decode()}{checksum}{END}\n"


# ---- sources


def test_a_source_with_its_variables() -> None:
    plan = planned("""
apt:
  sources:
    extra.list:
      source: "deb $MIRROR $RELEASE-extra ${SECURITY} main"
""")
    assert written(plan) == {
        f"{PARTS}/extra.list": "deb http://old.example.com/debian trixie-extra "
        "http://old.example.com/debian-security main\n"
    }
    assert [step.name for step in plan] == ["apt_configure extra.list (line 6)", "apt_configure lists (line 4)"]
    assert runs(plan)[-1].argv[-1] == "update"


OLDER = """
apt_sources:
- {source: "deb http://a $RELEASE main", filename: a.list}
- {source: "deb http://b x main"}
- {source: "deb http://c x main"}
apt_mirror: http://mirror.example.com/debian
apt_proxy: http://proxy:3128
"""
NEWER = """
apt:
  sources:
    a.list: {source: "deb http://a $RELEASE main", filename: a.list}
    b: {source: "deb http://b x main", filename: cloud_config_sources.list}
    c: {source: "deb http://c x main", filename: cloud_config_sources.list}
  primary: [{arches: [default], uri: "http://mirror.example.com/debian"}]
  proxy: http://proxy:3128
"""


def test_older_keys_are_read_as_if_they_were_below_apt() -> None:
    assert written(planned(OLDER)) == written(planned(NEWER)) != {}
    assert set(paths_of(request_of(OLDER).config)) == set(paths_of(request_of(NEWER).config))
    assert next(row for row in modules_of("config") if row.name == "apt_configure").asked(request_of(OLDER))


def test_an_older_key_beside_a_newer_one_counts_less() -> None:
    both = written(planned("apt_proxy: http://old\napt_http_proxy: http://plain\napt: {proxy: 'http://new'}\n"))
    assert both == written(planned("apt: {proxy: 'http://new', http_proxy: 'http://plain'}\n")) != {}


@pytest.mark.parametrize(
    ("name", "filename", "path"),
    [
        ("a.list", "", f"{PARTS}/a.list"),
        ("docker", "", f"{PARTS}/docker.list"),
        ("ignored", "b", f"{PARTS}/b.list"),
        ("ignored", "/srv/c.list", "/srv/c.list"),
    ],
)
def test_the_file_of_a_source(name: str, filename: str, path: str) -> None:
    extra = f", filename: {filename}" if filename else ""
    assert list(written(planned(f'apt: {{sources: {{{name}: {{source: "deb http://x y z"{extra}}}}}}}'))) == [path]


def test_a_source_in_the_newer_format_gets_a_file_that_apt_reads() -> None:
    source = "Types: deb\n        URIs: http://x\n        Suites: $RELEASE\n"
    text = f"apt:\n  sources:\n    new:\n      source: |\n        {source}"
    assert written(planned(text)) == {f"{PARTS}/new.sources": "Types: deb\nURIs: http://x\nSuites: trixie\n\n"}


def test_sources_are_added_to_a_file_once() -> None:
    text = 'apt: {sources: {a: {source: "deb x y z", filename: f}, b: {source: "deb r s t", filename: f}}}'
    assert written(planned(text)) == {f"{PARTS}/f.list": "deb x y z\ndeb r s t\n"}
    there = {f"{PARTS}/f.list": "deb x y z\ndeb r s t"}
    assert {type(item) for item in planned(text, found(there))} == {Satisfied}
    other = 'apt: {sources: {a: {source: "deb x y z", filename: f, append: false}}}'
    assert written(planned(other, found(there))) == {f"{PARTS}/f.list": "deb x y z\n"}


def test_an_unknown_variable_is_named() -> None:
    (why,) = refusals(planned('apt: {sources: {a: {source: "deb $MIROR x y"}}}'))
    assert why.startswith("$MIROR has no value here")
    (why,) = refusals(planned('apt: {sources: {a: {source: "deb [signed-by=$KEY_FILE] x y"}}}'))
    assert why.startswith("$KEY_FILE has no value here")
    (why,) = refusals(planned('apt: {sources: {a: {source: "deb $MIRROR x y"}}}', found({})))
    assert why.startswith("$MIRROR has no value here")


def test_a_name_that_apt_ignores_is_told() -> None:
    plan = planned('apt: {sources: {"my repo": {source: "deb x y z"}}}')
    assert any(isinstance(item, Caution) and "apt ignores" in item.why for item in plan)


# ---- add-apt-repository


def test_a_ppa_is_given_to_its_program() -> None:
    text = 'apt: {sources: {a: {source: "ppa:me/$RELEASE"}}}'
    assert runs(planned(text))[0].argv == ("add-apt-repository", "--yes", "--no-update", "ppa:me/trixie")
    name = "apt_configure a (line 2)"
    assert any(isinstance(item, Satisfied) for item in planned(text, done=frozenset({name})))
    assert {type(item) for item in planned(text, rooted=True)} == {Caution}


def test_programs_that_are_missing_are_installed_first() -> None:
    text = 'apt: {sources: {a: {source: "ppa:me/x"}, b: {keyid: "0xABCD1234"}}}'
    plan = planned(text, found(tools=frozenset({"apt-get"})))
    assert runs(plan)[1].argv[-3:] == ("--", "gnupg", "software-properties-common")
    assert plan[0].why == "a source needs add-apt-repository and gpg"


def test_which_sources_are_for_it_can_be_changed() -> None:
    plan = planned('apt: {add_apt_repo_match: "^x", sources: {a: {source: "ppa:me/x"}, b: {source: "xy"}}}')
    assert runs(plan)[0].argv[-1] == "xy"
    assert written(plan) == {f"{PARTS}/a.list": "ppa:me/x\n"}
    plan = planned('apt: {add_apt_repo_match: "(", sources: {a: {source: "ppa:me/x"}}}')
    assert refusals(plan) == ["add_apt_repo_match is no regular expression"]
    plan = planned('apt: {add_apt_repo_match: ".", sources: {a: {source: "https://u:secret@h/"}}}')
    assert "password" in refusals(plan)[0]


# ---- keys


@pytest.mark.parametrize("data", [KEY, bytes(range(256)) * 9])
def test_a_key_is_written_as_apt_reads_it(data: bytes) -> None:
    assert dearmoured(f"a line before\n{armoured(data)}and after\n") == data
    assert dearmoured(armoured(data) + armoured(b"second")) == data + b"second"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no armoured"),
        ("ssh-rsa AAAA", "no armoured"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nAAAA\n", "no armoured"),
        (f"{BEGIN}\n\nAAAA\n", "no END"),
        (f"{BEGIN}\n\n{END}", "is empty"),
        (f"{BEGIN}\n\nAAAAA\n{END}", "not base64"),
        (armoured(KEY, checksum="=AAAA\n"), "checksum is wrong"),
    ],
)
def test_what_is_no_key_is_told_why(text: str, why: str) -> None:
    with pytest.raises(NoKey, match=why):
        dearmoured(text)


def document_with_key(text: str, source: str) -> str:
    key = "".join(f"        {line}\n" for line in text.splitlines())
    return f"apt:\n  sources:\n    my-repo.list:\n      source: {source}\n      key: |\n{key}"


def test_the_place_of_a_key() -> None:
    plan = planned(document_with_key(armoured(KEY), '"deb [signed-by=$KEY_FILE] http://x y z"'))
    path = "/etc/apt/cloud-init.gpg.d/my-repo.gpg"
    files = written(plan)
    assert files[path].encode("utf-8", "surrogateescape") == KEY
    assert files[f"{PARTS}/my-repo.list"] == f"deb [signed-by={path}] http://x y z\n"
    plan = planned(document_with_key(armoured(KEY), '"deb http://x y z"'))
    assert "/etc/apt/trusted.gpg.d/my-repo.gpg" in written(plan)
    (why,) = refusals(planned(document_with_key("nonsense", '"deb http://x y z"')))
    assert why == "the key cannot be used: it is no armoured OpenPGP public key"


def test_a_key_by_its_number_comes_from_a_key_server() -> None:
    text = 'apt: {sources: {a: {source: "deb x y z", keyid: "B59D 5F15 97A5", keyserver: "hkp://k.example.com"}}}'
    run = runs(planned(text))[0]
    assert run.argv[-3:] == ("hkp://k.example.com", "B59D5F1597A5", "/etc/apt/trusted.gpg.d/a.gpg")
    assert any(isinstance(item, Caution) for item in planned(text, rooted=True))
    assert refusals(planned('apt: {sources: {a: {keyid: "--help"}}}')) == ["keyid is no key's number"]


def test_stems() -> None:
    assert [stem(name) for name in ("a.list", "/x/b.c.list", "plain", ".list")] == ["a", "b.c", "plain", ".list"]


# ---- settings


def test_proxies_and_settings() -> None:
    text = (
        'apt: {proxy: "http://p", http_proxy: "http://h", ftp_proxy: "ftp://f", https_proxy: "http://s", conf: "A 1;"}'
    )
    assert written(planned(text)) == {
        PROXY_FILE: 'Acquire::http::Proxy "http://p";\nAcquire::http::Proxy "http://h";\n'
        'Acquire::ftp::Proxy "ftp://f";\nAcquire::https::Proxy "http://s";\n',
        CONF_FILE: "A 1;",
    }
    assert refusals(planned("apt: {proxy: 'a\"b'}"))
    old = {PROXY_FILE: "x", CONF_FILE: "y"}
    gone = [way.actions[0].path for step in planned("apt: {}", found(old)) for way in step.ways]
    assert gone == [PROXY_FILE, CONF_FILE]


def test_answers_for_debconf_are_secret() -> None:
    text = 'apt: {debconf_selections: {b: "x x/y string secret-b", a: "dpkg z password secret-a"}}'
    plan = planned(text)
    caution, step = plan
    assert caution.why == "dpkg: installed already, and not configured again"
    run = runs(plan)[0]
    assert run.stdin is not None
    assert run.stdin.text() == "dpkg z password secret-a\nx x/y string secret-b\n"
    assert "secret-" not in as_text(tuple(plan), privileged=True) + repr(plan)
    assert {type(item) for item in planned(text, done=frozenset({step.name}))} == {Satisfied}
    assert {type(item) for item in planned(text, rooted=True)} == {Caution}


def test_no_password_of_a_source_is_shown() -> None:
    plan = planned('apt: {proxy: "http://u:geheim@p", sources: {a: {source: "deb https://u:geheim@h x y"}}}')
    assert "geheim" not in as_text(tuple(plan), privileged=True) + repr(plan)


def test_where_there_is_no_apt_nothing_is_done_and_it_is_told() -> None:
    (item,) = planned("apt: {proxy: x}", found(installed=False))
    assert isinstance(item, Caution)
    assert item.why == "not done: apt is not installed"


# ---- anything


TEXT = st.one_of(
    st.text(max_size=6), st.sampled_from(["deb $MIRROR x", "ppa:a", "/", "..", "\0", "x" * 300, "[", "${"])
)
ENTRY = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("source", "key", "keyid", "keyserver", "filename"), TEXT) | {"append": st.booleans()},
)
MIRRORS = st.lists(
    st.fixed_dictionaries(
        {"arches": st.lists(st.sampled_from(["default", "amd64"]))},
        optional={"uri": TEXT, "search": st.lists(TEXT, max_size=2), "key": TEXT, "keyid": TEXT},
    ),
    max_size=2,
)
APT = st.fixed_dictionaries(
    {},
    optional={
        "sources": st.dictionaries(TEXT, ENTRY, max_size=2),
        "primary": MIRRORS,
        "security": MIRRORS,
        "disable_suites": st.lists(TEXT, max_size=2),
        "debconf_selections": st.dictionaries(TEXT, TEXT, max_size=2),
        **dict.fromkeys(("sources_list", "conf", "proxy", "add_apt_repo_match"), TEXT),
        **{name: st.booleans() for name in ("preserve_sources_list", "generate_mirrorlists")},
    },
)


@settings(max_examples=60, deadline=None)
@given(APT, st.booleans(), st.sampled_from([None, {}, {f"{PARTS}/debian.sources": DEB822}]))
def test_no_document_ends_in_an_exception(apt: Any, rooted: bool, files: dict[str, str] | None) -> None:
    text = f"#cloud-config\napt: {json.dumps(apt)}\n"
    if read_document(text.encode()).errors:
        return
    request = request_of(text, rooted=rooted)
    assert all(path.startswith("/") for path in paths_of(request.config))
    as_text(plan_apt(request, found(files)), privileged=True)
