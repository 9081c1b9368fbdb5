"""A cloud-config against the table of keys, and whole documents through `validate`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from azureinit.cli.userdata import as_text
from azureinit.userdata.json_schema import key_table, of, other_keys, schema
from azureinit.userdata.keys import ALL, BY_NAME, CONFIG, FINAL, KEYS, NETWORK
from azureinit.userdata.kinds import Keys, ListOf, Named, OneOf, said
from azureinit.userdata.validate import Report, validate
from azureinit.userdata.values import (
    MOST_BYTES,
    MOST_DEPTH,
    MOST_FINDINGS,
    MOST_PARTS,
    MOST_URLS,
    MOST_YAML_BYTES,
    MOST_YAML_DEPTH,
    MOST_YAML_NODES,
)


def findings(text: str) -> list[str]:
    return [f"{one.line}:{one.column} {one.level} {one.message}" for one in validated(text).findings]


def validated(text: str) -> Report:
    return validate(b"#cloud-config\n" + text.encode())


ENCODINGS = ("text/plain", "b64", "base64", "gz", "gzip", "gz+b64", "gz+base64", "gzip+b64", "gzip+base64")
# Line 1 is the header.
RIGHT = [
    "write_files: [{path: /a, content: !!binary aGk=, permissions: '0o600'}]\n",
    "runcmd:\n  - echo a\n  - [ls, -l, 5]\n  -\nbootcmd: [[a]]\n",
    "write_files:\n  - {path: /a, content: x, permissions: '0644', owner: 'a:b', encoding: gz+b64, append: true}\n",
    "write_files:\n  - path: /a\n    source: {uri: 'https://a/', headers: {X: y}}\n",
    "users:\n  - default\n  - name: a\n    groups: [x, y]\n    sudo: ['ALL=(ALL) NOPASSWD:ALL']\n    uid: 1000\n",
    "users:\n  - {name: a, ssh_authorized_keys: [k], expiredate: 2030-01-01}\n",
    "users: [{name: a, sudo: false, lock_passwd: true, groups: 'a, b'}]\ngroups: [a, {b: [c, d]}]\nuser: {name: x}\n",
    "packages: [a, [b, 1.0], {apt: [c], snap: [[d, --edge]]}]\npackage_update: true\n",
    (
        "disk_setup: {ephemeral0: {table_type: gpt, layout: [66, [33, 82]], overwrite: true}}\n"
        "fs_setup: [{device: ephemeral0, partition: 1, filesystem: ext4, extra_opts: [-L, x]}]\n"
        "mounts: [[ephemeral0.1, /mnt, auto, auto, '0', 2], [x, null]]\nswap: {filename: /s, size: 2G, maxsize: 10}\n"
    ),
    "groups: [docker]\nsystem_info: {default_user: {groups: [docker]}}\n",
    "chpasswd: {expire: false, users: [{name: a, password: b, type: text}]}\nssh_pwauth: true\npassword: x\n",
    "apt: {sources: {a.list: {source: 'deb x', keyid: k}}, primary: [{arches: [default], uri: 'http://a'}]}\n",
    "ntp:\nlocale: false\nkeyboard: {layout: de}\ngrowpart: {mode: off}\n",
    "resize_rootfs: noblock\nmanage_etc_hosts: localhost\n",
    "power_state: {mode: reboot, delay: '+5', condition: [test, -f, /x], timeout: 30}\n",
    "phone_home: {url: 'http://a', post: all}\n",
    "yum_repos: {a: {baseurl: 'https://x', gpgcheck: true}}\n",
    "rsyslog: {configs: ['*.* @@a', {content: x, filename: y}]}\n",
    "yum_repos: {a: {baseurl: ['https://x', 'https://y'], name: 9}}\nswap: {size: 2GB, maxsize: 1.5GiB}\n",
    "merge_how: 'list(append)+dict(recurse_list)'\n",
    "merge_how: [{name: list, settings: [append]}, {name: dict, settings: [recurse_list]}]\n",
    "hostname: &a x\nfqdn: *a\n",
    'runcmd:\n- "a\n  - b"\n- c - d\n- |\n  - e\n- >\n  f\n  - g\n- h\n  i - j\n',
]


@pytest.mark.parametrize("text", RIGHT)
def test_what_people_write_has_no_finding(text: str) -> None:
    assert findings(text) == []


WRONG = [
    ("runcm: [a]\n", "2:1 error unknown key runcm", "did you mean runcmd?"),
    ("write-files: []\n", "2:1 error unknown key write-files", "did you mean write_files?"),
    ("qqqq: 1\n", "2:1 error unknown key qqqq", ""),
    ("x-mine: &a {b: c}\n", "2:1 warning x-mine is a key of your own: nothing is done for it", ""),
    (
        "runcmd:\n- touch /a\n - touch /b\n",
        "4:2 error this line begins with a hyphen, and is still a part of the item above it",
        "give both items the same indentation, or put the text in quotation marks",
    ),
    (
        "packages:\n  - a\n    - b\n    - c\n  - d\n",
        "4:5 error this line begins with a hyphen, and is still a part of the item above it",
        "give both items the same indentation, or put the text in quotation marks",
    ),
    (
        "manage_etc_hosts: 'true'\n",
        "2:19 warning manage_etc_hosts should be true or false",
        "remove the quotation marks",
    ),
    (
        "users: [{name: a, ssh_import_id: , groups: b}]\n",
        "2:34 warning users[0].ssh_import_id has no value, and nothing is done for it",
        "",
    ),
    (
        "write_files: [{path: , content: x}]\n",
        "2:22 error write_files[0].path must be an absolute path, and is empty",
        "",
    ),
    (
        "runcmd: a\n",
        "2:9 error runcmd must be a list of text, lists or empty, and is text",
        "begin each item with a hyphen",
    ),
    (
        "runcmd:\n  - echo a: b\n",
        "3:5 error runcmd[0] must be text, a list of simple values or empty, and is a mapping",
        "a colon and a space make it a mapping: put the whole text in quotation marks",
    ),
    ("runcmd:\n  - [a, [b]]\n", "3:9 error runcmd[0][1] must be text or a number, and is a list", ""),
    ("packages:\n", "2:10 warning packages has no value, and nothing is done for it", ""),
    (
        "packages: nginx\n",
        "2:11 error packages must be a list of text, lists or mappings, and is text",
        "begin each item with a hyphen",
    ),
    ("package_update: 'yes'\n", "2:17 warning package_update should be true or false", "remove the quotation marks"),
    ("package_update: sure\n", "2:17 error package_update must be true or false, and is text", ""),
    ("apt_update: true\n", "2:1 warning apt_update is an older name", "use package_update"),
    (
        "system_info: {default_user: {groups: [a]}, distro: x}\n",
        "2:44 warning system_info.distro is accepted, but azure-init does not do it",
        "",
    ),
    ("rpi: {}\n", "2:1 warning rpi is accepted, but azure-init does not do it", ""),
    ("rsyslog: ['*.* @@a', {content: x}]\n", "2:10 warning rsyslog as a list is an older form", "use rsyslog.configs"),
    ("rsyslog_dir: /etc/x\n", "2:1 warning rsyslog_dir is an older name", "use rsyslog.config_dir"),
    (
        "ssh_genkeytypes: [rsa, dsa]\n",
        "2:24 warning ssh_genkeytypes[1] is dsa, which is out of use, and nothing is done for it",
        "",
    ),
    (
        "ssh_keys: {dsa_private: x}\n",
        "2:12 warning ssh_keys.dsa_private is out of use, and nothing is done for it",
        "",
    ),
    (
        "phone_home: {url: 'http://a', post: [pub_key_dsa, fqdn]}\n",
        "2:38 warning phone_home.post[0] is pub_key_dsa, which is out of use, and nothing is done for it",
        "",
    ),
    ("snap: {}\n", "2:1 warning snap is accepted, but azure-init does not do it", ""),
    ("hostname: 12\n", "2:11 error hostname must be text, and is a number", "put it in quotation marks"),
    ("hostname: on\n", "2:11 error hostname must be text, and is true or false", "put it in quotation marks"),
    (
        "write_files:\n  - path: /a\n    content: x\n  - owner: root\n",
        "5:5 error write_files[1] lacks the key path",
        "if it belongs to the item before or after it, join the two: one hyphen for each item",
    ),
    ("write_files:\n  - content: x\n", "3:5 error write_files[0] lacks the key path", ""),
    (
        "write_files:\n  - owner: a:b\n  - path: /a\n",
        "3:5 error write_files[0] lacks the key path",
        "if it belongs to the item before or after it, join the two: one hyphen for each item",
    ),
    ("write_files: [{path: a}]\n", "2:22 error write_files[0].path must be an absolute path", ""),
    (
        "write_files:\n  - path: /a\n    permissions: 0644\n",
        "4:18 warning write_files[0].permissions should be in quotation marks",
        "write '0644'",
    ),
    (
        "write_files:\n  - path: /a\n    permissions: 644\n",
        "4:18 error write_files[0].permissions is a decimal number, and not the octal mode that it seems",
        "write '0644'",
    ),
    (
        "write_files:\n  - path: /a\n    permissions: rw\n",
        "4:18 error write_files[0].permissions must be an octal mode in quotation marks, such as '0644'",
        "",
    ),
    (
        "write_files:\n  - path: /a\n    pemissions: '0644'\n",
        "4:5 error unknown key pemissions in write_files[0]",
        "did you mean permissions?",
    ),
    (
        "write_files: [{path: /a, encoding: base65}]\n",
        f"2:36 error write_files[0].encoding must be one of {', '.join(ENCODINGS)}",
        "did you mean base64?",
    ),
    (
        "users: [{name: a, lock-passwd: true}]\n",
        "2:19 warning users[0].lock-passwd is an older name",
        "use lock_passwd",
    ),
    (
        "power_state: {mode: rebot}\n",
        "2:21 error power_state.mode must be one of poweroff, reboot, halt",
        "did you mean reboot?",
    ),
    ("power_state: {delay: now}\n", "2:14 error power_state lacks the key mode", ""),
    (
        "power_state: {mode: halt, delay: -5}\n",
        "2:34 error power_state.delay must be now, or minutes such as +5",
        "",
    ),
    ("swap: {size: -1}\n", "2:14 error swap.size must be a size such as 512M or 2G", ""),
    ("mounts: [[]]\n", "2:10 error mounts[0] must have 1 to 6 items, and has 0", ""),
    ("swap: {size: big}\n", "2:14 error swap.size must be a size such as 512M or 2G", ""),
    ("yum_repos: {a: {name: x}}\n", "2:16 error yum_repos.a lacks one of the keys baseurl, metalink, mirrorlist", ""),
    (
        "hostname: a\nhostname: b\n",
        "3:1 error the key hostname is given twice: first in line 2",
        "only the last one would count: join the two",
    ),
    ("runcmd:\n\t- a\n", "3:1 error invalid YAML: a tab where only spaces are allowed", "indent with spaces"),
    (
        "- a\n",
        "2:1 error a cloud-config must be a mapping of keys to values, and this is a list",
        "write key: value lines below #cloud-config",
    ),
    ("", "1:1 warning the cloud-config is empty", ""),
    (
        "merge_how: nonsense\n",
        "2:12 error cannot merge: a merger must have the form name(option,option), as in list(append)",
        "",
    ),
    ("merge_how: tuple(append)\n", "2:12 error cannot merge: a merger must be dict, list or str", ""),
    (
        "merge_how: list(append)\n",
        "2:12 error no merger for dict is named, and so nothing of this document is used",
        "add dict(replace) or dict(recurse_list) to merge_how",
    ),
]


@pytest.mark.parametrize(("text", "expected", "hint"), WRONG, ids=[one[1] for one in WRONG])
def test_a_mistake_is_told_with_its_place_and_a_suggestion(text: str, expected: str, hint: str) -> None:
    assert expected in findings(text)
    (found,) = [one for one in validated(text).findings if expected.endswith(f"{one.level} {one.message}")]
    assert found.hint == hint


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"hostname: a\npassword: p\xe4ss\n", (3, 12, "the text is not UTF-8: byte 0xe4")),
        (b"hostname: a\n\xc3\xa4: \xff\n", (3, 4, "the text is not UTF-8: byte 0xff")),
        (b"a: \xed\xa0\x80\n", (2, 4, "the text is not UTF-8: byte 0xed")),
        (b"a: \0\n", (2, 4, "invalid YAML: a control character")),
    ],
)
def test_bytes_that_are_not_text_have_a_place(data: bytes, expected: tuple[int, int, str]) -> None:
    (found,) = validate(b"#cloud-config\n" + data).findings
    assert (found.line, found.column, found.message) == expected


def test_no_finding_contains_a_value() -> None:
    values = {name: {"S3cret": ["S3cret", {"S3cret": "S3cret"}]} for name in BY_NAME}
    for value in ("S3cret", ["S3cret"], [["S3cret"]], 5, True, None):
        text = yaml.safe_dump({name: value for name in BY_NAME if name not in ("merge_how", "merge_type")})
        assert not any("S3cret" in one for one in findings(text))
    assert any("S3cret" in one for one in findings(yaml.safe_dump(values)))  # as the name of a key


def test_a_key_that_a_later_part_replaces_is_told() -> None:
    part = b"--X\nContent-Type: text/cloud-config\n%s\n#cloud-config\nruncmd: [a]\n"
    head = b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n"
    (found,) = validate(head + part % b"" + part % b"" + b"--X--\n").findings
    assert (found.line, found.column, found.message) == (13, 1, "runcmd replaces the one in line 8")
    assert (
        validate(head + part % b"" + part % b"Merge-Type: list(append)+dict(recurse_list)\n" + b"--X--\n").findings
        == ()
    )


def test_numbers_of_findings_and_values_are_bounded() -> None:
    many = validated("".join(f"q{number}: 1\n" for number in range(5000)))
    assert len(many.findings) == MOST_FINDINGS
    part = b"--X\nContent-Type: text/cloud-config\n\nruncmd: [" + b"a," * (MOST_YAML_NODES // 2) + b"]\n"
    head = b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n"
    told = [one.message for one in validate(head + part * 3 + b"--X--\n").findings]
    assert f"the cloud-configs have more than {MOST_YAML_NODES} values together" in told


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=100), st.sampled_from(["#cloud-config\n", "#cloud-config-archive\n- ", ""]), st.booleans())
def test_any_bytes_are_validated(data: bytes, header: str, encoded: bool) -> None:
    whole = header.encode() + data
    report = validate(base64.b64encode(whole) if encoded else whole)
    assert all(one.line >= 1 and one.column >= 1 for one in report.findings)


VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-9, 999), st.floats(allow_nan=False), st.text(max_size=3), st.dates()
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "path", "mode", "users", "apt", "x", "content"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([*BY_NAME]), VALUES, min_size=1, max_size=4))
def test_any_value_of_any_key_is_checked(document: dict[str, Any]) -> None:
    for one in validated(yaml.safe_dump(document)).findings:
        assert one.message and one.line >= 2


# ---- the table


def test_the_table_is_complete() -> None:
    assert len(BY_NAME) == len(KEYS)
    for row in KEYS:
        assert bool(row.module) == bool(row.stage) and row.stage in ("", NETWORK, CONFIG, FINAL, ALL)
        use, _, inner = row.use.partition(".")
        assert not use or BY_NAME[use].kind == row.kind or f"'{inner}'" in str(of(BY_NAME[use].kind))
        assert row.about and not row.about.endswith(".")


def test_the_schema_has_every_row() -> None:
    properties = schema()["properties"]
    assert list(properties) == [row.name for row in KEYS]
    assert properties["apt_update"]["deprecated"] is True
    assert properties["snap"]["description"] == "Accepted, and not done: snap."
    assert properties["swap"]["properties"]["filename"] == {"type": "string", "pattern": "^/"}
    assert properties["write_files"]["items"]["required"] == ["path"]
    assert all(f"`{row.name}`" in (key_table() if row.module else other_keys()) for row in KEYS)


def test_every_kind_can_be_said() -> None:
    left: list[Any] = [row.kind for row in KEYS]
    while left:
        kind = left.pop()
        assert said(kind)
        if isinstance(kind, OneOf):
            left += kind.kinds
        elif isinstance(kind, ListOf):
            left.append(kind.item)
        elif isinstance(kind, Keys):
            left += [field.kind for field in kind.fields]
        elif isinstance(kind, Named):
            left.append(kind.value)


# ---- docs/userdata.md

PAGE = (Path(__file__).parents[2] / "docs/userdata.md").read_text()
EXAMPLE = """\
runcmd:
  - systemctl restart nginx
  - echo status: ready
write_files:
  - path: /etc/motd
    content: hello
    permissions: 644
package: [nginx]
"""


def test_the_manual_has_the_table_of_keys_and_nothing_else() -> None:
    assert f"\n{key_table()}\n" in PAGE
    told = PAGE.partition("accepted, and reported as not done: ")[2]
    assert " ".join(told.split()) == f"{other_keys()}."


def test_the_manual_shows_what_the_command_prints() -> None:
    shown = PAGE.partition("```text\n")[2].partition("```")[0].splitlines()
    report = validated(EXAMPLE)
    assert shown[1:] == as_text(report, "web.yaml").splitlines()


def test_the_manual_names_the_limits() -> None:
    for told in (
        f"| all parts together, decompressed | {MOST_BYTES >> 20} MiB |",
        f"| containers (gzip, base64, MIME, archives) in each other | {MOST_DEPTH} |",
        f"| parts | {MOST_PARTS} |",
        f"| URLs of an include document | {MOST_URLS} |",
        f"| a YAML document | {MOST_YAML_BYTES >> 20} MiB, {MOST_YAML_DEPTH} levels |",
        f"| values of all cloud-configs, aliases expanded | {MOST_YAML_NODES} |",
    ):
        assert told in PAGE
