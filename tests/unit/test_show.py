"""The plan as text and as JSON: without secrets, and without control characters for a terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from azureinit.plan.actions import (
    Caution,
    Declined,
    EditLine,
    Link,
    Locked,
    MakeDir,
    OnDevices,
    Remove,
    Run,
    Satisfied,
    SetHostname,
    Step,
    Untouched,
    Way,
    Write,
)
from azureinit.plan.show import as_json, as_text
from azureinit.record import Secret

if TYPE_CHECKING:
    from azureinit.plan.actions import Action, Plan

HIDDEN = "hunter2-$6$salt$hash"
SECRET = Secret(HIDDEN)
WITH_SECRETS: list[Action] = [
    Run(argv=("chpasswd", "-e"), stdin=SECRET),
    Write(path="/f", data=SECRET),
    Write(path="/f", data=SECRET, was=SECRET),
    Write(path="/f", data=b"new", was=SECRET),
    Write(path="/f", data=SECRET, was=b"old", check=Run(argv=("true",), stdin=SECRET)),
    Locked(edits=(EditLine(path="/etc/shadow", key="ada", line=SECRET),)),
    Locked(edits=(EditLine(path="/etc/shadow", key="ada", fields=((1, SECRET), (2, "20000"))),)),
]


def plan_of(*actions: Action) -> Plan:
    return (Step(name="thing", why="because", ways=(Way(backend="native", actions=actions),)),)


def text(*actions: Action, privileged: bool = True) -> list[str]:
    """What is said of the actions themselves."""
    lines = as_text(plan_of(*actions), privileged=privileged).splitlines()
    assert lines[:2] == ["+ thing: because", "    native:"] and lines[-1] == "1 to do, 0 as asked"
    return [line[6:] for line in lines[2:-1]]


def data(*actions: Action) -> list[dict[str, Any]]:
    (step,) = json.loads(as_json(plan_of(*actions)))
    return list(step["ways"][0]["actions"])


@pytest.mark.parametrize("action", WITH_SECRETS, ids=repr)
def test_a_secret_is_never_shown(action: Action) -> None:
    for shown in (as_text(plan_of(action), privileged=True), as_json(plan_of(action)), repr(plan_of(action))):
        assert HIDDEN not in shown
        assert "hunter2" not in shown


def test_that_there_is_a_secret_is_shown() -> None:
    assert text(*WITH_SECRETS[:1]) == ["run chpasswd -e (with a secret on its standard input)"]
    assert text(WITH_SECRETS[1]) == ["write /f", "  (contents not shown)"]
    assert text(WITH_SECRETS[3]) == ["write /f", "  (contents not shown)"]
    assert text(WITH_SECRETS[5])[1] == "  /etc/shadow: + ada:<secret>"
    assert text(WITH_SECRETS[6])[1] == "  /etc/shadow: ada: field 1 = <secret>, field 2 = 20000"
    assert data(WITH_SECRETS[0])[0]["stdin"] == "<secret>"


@given(st.binary(min_size=8, max_size=40), st.sampled_from(range(7)))
def test_no_secret_of_any_kind_is_shown(value: bytes, which: int) -> None:
    secret = Secret(b"\xff" + value)
    actions: list[Action] = [
        Run(argv=("x",), stdin=secret),
        Write(path="/f", data=secret),
        Write(path="/f", data=b"y", was=secret),
        Locked(edits=(EditLine(path="/f", key="k", line=secret),)),
        Locked(edits=(EditLine(path="/f", key="k", fields=((1, secret),)),)),
        Write(path="/f", data=b"y", check=Run(argv=("x",), stdin=secret)),
        Run(argv=("x",), stdin=Secret(b"")),
    ]
    plan = plan_of(actions[which])
    without = plan_of(*(act for act in [_without(actions[which], secret)]))
    assert as_text(plan, privileged=True) == as_text(without, privileged=True)
    assert as_json(plan) == as_json(without)


def _without(action: Action, secret: Secret) -> Action:
    """The same with another secret: what is shown cannot depend on it."""
    other = Secret("another")
    if isinstance(action, Run):
        return Run(argv=action.argv, stdin=other if action.stdin else action.stdin)
    if isinstance(action, Write):
        return Write(
            path=action.path,
            data=other if isinstance(action.data, Secret) else action.data,
            was=other if isinstance(action.was, Secret) else action.was,
            check=Run(argv=("x",), stdin=other) if action.check else None,
        )
    assert isinstance(action, Locked)
    (edit,) = action.edits
    line = other if edit.line is not None else None
    fields = tuple((at, other) for at, _ in edit.fields)
    return Locked(edits=(EditLine(path=edit.path, key=edit.key, line=line, fields=fields),))


# ---- differences


def test_a_new_file_is_shown_whole() -> None:
    write = Write(path="/etc/hostname", data=b"web-1\n", mode=0o644)
    assert text(write) == ["write /etc/hostname mode 0644", "  +web-1"]


def test_a_changed_file_is_shown_by_what_changes() -> None:
    write = Write(path="/etc/hosts", data=b"a\nb\nNEW\nc\nd\n", was=b"a\nb\nold\nc\nd\n")
    assert text(write) == ["write /etc/hosts", "   b", "  -old", "  +NEW", "   c"]


@pytest.mark.parametrize(
    ("was", "new", "shown"),
    [
        (b"a", b"a\n", ["  -a (no newline at the end)", "  +a"]),
        (b"a\r\n", b"a\n", ["  -a\\r", "  +a"]),
        (b"caf\xe9\n", b"caf\xc3\xa9\n", ["  -caf\\xe9", "  +caf\u00e9"]),
        (b"a\x0cb\n", b"a\nb\n", ["  -a\\x0cb", "  +a", "  +b"]),
        (b"@@ x\n", b"-- y\n", ["  -@@ x", "  +-- y"]),
        (b"a\n", b"", ["  -a"]),
        (b"a\n", b"a\n", ["  (contents stay)"]),
        (b"", b"", ["  (contents stay)"]),
        (None, b"", []),
    ],
)
def test_every_difference_shows(was: bytes | None, new: bytes, shown: list[str]) -> None:
    assert text(Write(path="/f", data=new, was=was)) == ["write /f", *shown]


@given(st.one_of(st.none(), st.binary(max_size=60)), st.binary(max_size=60))
def test_no_content_breaks_the_page(was: bytes | None, new: bytes) -> None:
    page = as_text(plan_of(Write(path="/f", data=new, was=was)), privileged=True)
    assert all(line.replace("\t", "").isprintable() for line in page.split("\n"))
    page.encode()  # nothing in it that cannot be printed
    json.loads(as_json(plan_of(Write(path="/f", data=new, was=was))))


def test_names_and_reasons_have_no_power_over_a_terminal() -> None:
    nasty = "\x1b[2J\nfake: done\udcff"
    plan = (
        Step(
            name=nasty,
            why=nasty,
            ways=(Declined(backend="x", why=nasty), Way(backend="y", actions=(SetHostname(name=nasty),))),
        ),
        Caution(name=nasty, why=nasty),
    )
    page = as_text(plan, privileged=True)
    assert "\x1b" not in page and "\nfake" not in page
    assert len(page.splitlines()) == 6
    page.encode()


# ---- who will own it


def test_owners_are_shown_and_unprivileged_that_they_are_not_set() -> None:
    actions: tuple[Action, ...] = (
        Write(path="/w", data=b"", owner="ada"),
        MakeDir(path="/d", mode=0o700, owner="1000:1000"),
        Link(path="/l", target="t", owner="ada"),
        MakeDir(path="/e", mode=0o755),
    )
    assert text(*actions) == [
        "write /w owner ada",
        "directory /d mode 0700 owner 1000:1000",
        "link /l -> t owner ada",
        "directory /e mode 0755",
    ]
    assert text(*actions, privileged=False) == [
        "write /w (owner ada not set: not root)",
        "directory /d mode 0700 (owner 1000:1000 not set: not root)",
        "link /l -> t (owner ada not set: not root)",
        "directory /e mode 0755",
    ]


def test_every_action_has_words() -> None:
    lines = text(
        Run(argv=("useradd", "--comment", "a b", "ada")),
        Write(path="/s", data=b"x\n", mode=0o440, check=Run(argv=("visudo", "-c", "-f", "/s"))),
        Remove(path="/r"),
        SetHostname(name="web-1"),
        Locked(
            edits=(
                EditLine(path="/etc/passwd", key="ada", line="ada:x:1000:1000::/home/ada:/bin/sh", unique=2),
                EditLine(path="/etc/group", key="adm", member="ada"),
            )
        ),
    )
    assert lines == [
        "run useradd --comment 'a b' ada",
        "write /s mode 0440",
        "  +x",
        "then check with visudo -c -f /s",
        "remove /r",
        "set the kernel's host name to web-1",
        "under the account locks:",
        "  /etc/passwd: + ada:x:1000:1000::/home/ada:/bin/sh",
        "  /etc/group: adm gains member ada",
    ]


# ---- the whole page


def test_the_page_counts_what_is_left_and_tells_what_is_not_possible() -> None:
    plan: Plan = (
        Satisfied(name="hostname", why="is web-1"),
        Step(name="password ada", why="was given", ways=(Declined(backend="chpasswd", why="not here"),), once=True),
        Step(
            name="host keys",
            why="are missing",
            ways=(Declined(backend="a", why="not here"), Way(backend="b", actions=(Remove(path="/r"),))),
        ),
        Caution(name="sudo", why="is not installed"),
    )
    assert as_text(plan, privileged=True).splitlines() == [
        "= hostname: is web-1",
        "! password ada: was given (once)",
        "    chpasswd declines: not here",
        "+ host keys: are missing",
        "    a declines: not here",
        "    b:",
        "      remove /r",
        "! sudo: is not installed",
        "1 to do, 1 as asked, 2 not possible",
    ]


def test_an_empty_plan_says_so() -> None:
    assert as_text((), privileged=True) == "nothing is asked for\n"
    assert as_json(()) == "[]\n"


def test_programs_get_the_same_as_data() -> None:
    write = Write(path="/f", data=b"caf\xe9\n", mode=0o440, owner="0:0", was=b"old", check=Run(argv=("true",)))
    plan: Plan = (
        *plan_of(write),
        Step(name="other", why="too", ways=(Declined(backend="x", why="no"),), once=True),
        Satisfied(name="s", why="fine"),
        Caution(name="c", why="not here"),
    )
    assert json.loads(as_json(plan)) == [
        {
            "kind": "step",
            "name": "thing",
            "why": "because",
            "once": False,
            "ways": [
                {
                    "backend": "native",
                    "actions": [
                        {
                            "action": "Write",
                            "path": "/f",
                            "data": "caf\ufffd\n",
                            "mode": "0440",
                            "owner": "0:0",
                            "check": {"action": "Run", "argv": ["true"], "timeout": 60.0},
                        }
                    ],
                }
            ],
        },
        {"kind": "step", "name": "other", "why": "too", "once": True, "ways": [{"backend": "x", "declined": "no"}]},
        {"kind": "satisfied", "name": "s", "why": "fine"},
        {"kind": "caution", "name": "c", "why": "not here"},
    ]


def test_a_program_on_devices_names_them_and_their_sizes() -> None:
    disks = tuple(
        Untouched(path=path, size=size, regions=((0, 4096),), digest="00")
        for path, size in (("/dev/a", 1 << 40), ("/dev/b", 1920383410176), ("/dev/a", 1 << 40), ("/dev/c", 700))
    )
    made = OnDevices(devices=disks, run=Run(argv=("mkfs", "/dev/a")), mark=Write(path="/sets", data=b"begun\n"))
    assert text(made) == [
        "only if still as seen, and not in use: /dev/a (1 TiB), /dev/b (1.7 TiB), /dev/c (700 bytes)",
        "  write /sets",
        "    +begun",
        "  run mkfs /dev/a",
    ]
    (shown,) = data(made)
    assert shown["devices"][0] == {
        "action": "Untouched",
        "path": "/dev/a",
        "size": 1 << 40,
        "digest": "00",
        "sequence": 0,
    }


def test_records_in_json_are_shortened_and_other_lines_are_not() -> None:
    record, key = b'{"purpose":"data"' + b"," * 200, b"ssh-rsa " + b"A" * 200
    made = Write(path="/sets", data=record + b"\n" + key + b"\n" + b'{"short":1}\n')
    _, first, second, third = text(made)
    assert first == '  +{"purpose":"data"' + "," * 62 + "... (138 more characters)"
    assert second == f"  +{key.decode()}" and third == '  +{"short":1}'
    (shown,) = data(made)
    assert record.decode() in shown["data"]
