"""Whether the admin can log in, decided from facts: real logins are tried in tests/adversary/test_policies.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Config
from azureinit.errors import LoginImpossible
from azureinit.facts.access import Start
from azureinit.plan.access import (
    questions,
)
from azureinit.plan.actions import Caution, Declined, Step
from azureinit.record import Secret, replace
from support.access_machines import ADA, MAIN, access_of, machine_facts, plan
from support.facts import parts
from support.need import need_root


def answered(config: str) -> dict[str, Any]:
    """As sshd would say it for the only address that matters here."""
    values: dict[str, tuple[str, ...]] = {"usepam": ("yes",)}
    for line in config.splitlines():
        word, *arguments = line.split()
        values.setdefault(word.lower(), tuple(arguments))
    return {"answers": (("203.0.113.9", values),)}


@pytest.fixture(autouse=True)
def needed() -> None:
    need_root()  # only root gives files to others


def test_an_ordinary_machine_is_not_worth_a_word(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, {})
    assert plan(facts) == ()
    assert questions(metadata=ADA, **parts(facts, "host", "accounts", "ssh"), config=Config()) == ()


def test_a_certain_refusal_names_file_line_and_directive(tmp_path: Path) -> None:
    text = "UsePAM yes\nAllowUsers bob\n"
    facts = machine_facts(tmp_path, {MAIN: text}, **answered("AllowUsers bob"))
    (step,) = plan(facts)
    assert isinstance(step, Step)
    assert step.failure is LoginImpossible
    (way,) = step.ways
    assert isinstance(way, Declined)
    assert "/etc/ssh/sshd_config line 2: 'AllowUsers bob' refuses ada" in way.why
    assert "access.required = false" in way.why
    (asked,) = questions(metadata=ADA, **parts(facts, "host", "accounts", "ssh"), config=Config())
    assert asked == "user=ada,host=203.0.113.9,addr=203.0.113.9,laddr=10.0.0.4,lport=22"


@pytest.mark.parametrize(("required", "kind"), [("auto", Step), ("true", Step), ("false", Caution)])
def test_what_is_certain_fails_unless_it_never_may(tmp_path: Path, required: str, kind: type) -> None:
    text = "UsePAM yes\nPubkeyAuthentication no\n"
    facts = machine_facts(tmp_path, {MAIN: text}, **answered("PubkeyAuthentication no"))
    (item,) = plan(facts, required=required)
    assert isinstance(item, kind)


@pytest.mark.parametrize(("required", "kind"), [("auto", Caution), ("true", Step), ("false", Caution)])
@pytest.mark.parametrize("doubt", ["customData", "silent sshd", "address", "command"])
def test_a_doubt_fails_only_where_a_login_is_required(tmp_path: Path, doubt: str, required: str, kind: type) -> None:
    text, metadata, access = "UsePAM yes\nAllowUsers bob\n", ADA, answered("AllowUsers bob")
    if doubt == "customData":
        metadata = replace(ADA, custom_data=Secret("#!"))
    elif doubt == "silent sshd":
        access = {"unanswered": "sshd -T did not say: no"}
    elif doubt == "address":
        text, access = "UsePAM yes\nMatch Address 10.0.0.0/8\nDenyUsers *\n", {}
    else:
        text = "UsePAM yes\nAuthorizedKeysFile none\nAuthorizedKeysCommand /bin/x\n"
        access = answered("AuthorizedKeysFile none\nAuthorizedKeysCommand /bin/x")
    (item,) = plan(machine_facts(tmp_path, {MAIN: text}, **access), metadata=metadata, required=required)
    assert isinstance(item, kind) and isinstance(item, (Step, Caution))
    assert "ada may not be able to log in" in item.why


MANY = "".join(f"AllowUsers u{number}@10.{number}.0.0/16\n" for number in range(100))


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        # One answer of sshd's is so for all addresses that no Match block tells apart.
        ("AllowUsers alice@10.0.0.0/8", Step),
        ("AllowUsers alice@10.0.0.0/8 bob@192.168.0.0/16 carol@172.16.0.0/12", Step),
        ("AllowUsers alice\nMatch LocalAddress 10.9.9.9\nX11Forwarding no", Step),
        ("AllowUsers alice\nMatch Address 10.1.0.0/16,192.0.2.0/24\nX11Forwarding no", Step),
        # There are other addresses than those that are tried first.
        ("DenyUsers *@203.* *@10.*", Caution),
        ("DenyUsers ada@203.0.113.0/24 ada@10.0.0.0/8", Caution),
        ("DenyUsers ada@0.0.0.0/0", Caution),
        (f"{MANY}AllowUsers ada@192.168.7.0/24", Caution),
    ],
)
def test_every_address_is_thought_of(tmp_path: Path, config: str, kind: type) -> None:
    facts = machine_facts(tmp_path, {MAIN: f"UsePAM yes\n{config}\n"})
    asked = questions(metadata=ADA, **parts(facts, "host", "accounts", "ssh"), config=Config())
    assert len(asked) == 1
    words = [(line.split()[0].lower(), tuple(line.split()[1:])) for line in config.split("\nMatch")[0].splitlines()]
    answer = {"usepam": ("yes",), words[0][0]: tuple(word for _, given in words for word in given)}
    (item,) = plan(replace(facts, access=replace(access_of(facts), answers=(("203.0.113.9", answer),))))
    assert isinstance(item, kind), item


def test_sshd_is_asked_once_for_all_that_its_match_blocks_do_not_tell_apart(tmp_path: Path) -> None:
    config = "AllowUsers alice\nMatch Address 10.0.0.0/8,192.168.0.0/16,172.16.0.0/12\nPasswordAuthentication yes\n"
    facts = machine_facts(tmp_path, {MAIN: f"UsePAM yes\n{config}"})
    asked = questions(metadata=ADA, **parts(facts, "host", "accounts", "ssh"), config=Config())
    assert [word for one in asked for word in one.split(",") if word.startswith("addr=")] == [
        "addr=203.0.113.9",
        "addr=10.0.0.9",
    ]
    answer = {"usepam": ("yes",), "allowusers": ("alice",)}
    answers = (("203.0.113.9", answer), ("10.0.0.9", answer))
    (item,) = plan(replace(facts, access=replace(access_of(facts), answers=answers)))
    assert isinstance(item, Step)


@pytest.mark.parametrize(
    "ports", ["Port 2222\nPort 22", "Port 2222\nListenAddress 0.0.0.0:22", "ListenAddress [::]:22"]
)
def test_a_port_that_is_open_is_a_way_in(tmp_path: Path, ports: str) -> None:
    config = f"UsePAM yes\n{ports}\nMatch LocalPort 2222\nDenyUsers *\n"
    facts = machine_facts(tmp_path, {MAIN: config})
    answer = {"usepam": ("yes",), **({"denyusers": ("*",)} if "2222\n" in ports else {})}
    found = plan(replace(facts, access=replace(access_of(facts), answers=(("203.0.113.9", answer),))))
    assert [type(item) for item in found] == ([Caution] if "2222\n" in ports else [])


@pytest.mark.parametrize(
    ("stack", "kind"),
    [
        ("account required pam_deny.so\n", Step),
        ("account optional pam_motd.so\naccount requisite pam_deny.so\n", Step),
        ("account [success=1 default=ignore] pam_unix.so\naccount requisite pam_deny.so\n", None),
        ("account sufficient pam_unix.so\naccount required pam_deny.so\n", None),
        ("account optional pam_deny.so\n", None),
        ("account required pam_unix.so\naccount sufficient pam_succeed_if.so uid < 1000 quiet\n", None),
        ("account required pam_succeed_if.so user ingroup ops\n", Caution),
        ("account required pam_exec.so /usr/local/bin/check\n", Caution),
    ],
)
def test_what_pam_lets_in(tmp_path: Path, stack: str, kind: type | None) -> None:
    found = plan(machine_facts(tmp_path, {"/etc/pam.d/sshd": stack}))
    assert [type(item) for item in found] == ([] if kind is None else [kind])


@pytest.mark.parametrize(("words", "kind"), [("", Step), (" successok", Step), (" file=/run/closed", None)])
def test_the_nologin_file_that_pam_looks_at(tmp_path: Path, words: str, kind: type | None) -> None:
    files = {"/etc/pam.d/sshd": f"account required pam_nologin.so{words}\n", "/etc/nologin": ""}
    assert [type(item) for item in plan(machine_facts(tmp_path, files))] == ([] if kind is None else [kind])


@pytest.mark.parametrize(
    ("line", "found"),
    [  # what getent of glibc 2.31, 2.35 and 2.41 finds
        ("ada:*:20000:0:99999:7:::", True),
        ("ada:*:::::::", True),
        ("ada:*:20000:0:99999", True),
        ("ada:*:20000:0:99999:", True),
        ("ada:*: 20000:0:99999:7:::", True),
        ("ada:*:20000:0:99999:7::-1:", False),
        ("ada:*:-5:0:99999:7:::", False),
        ("ada:*:", False),
        ("ada:*:20000:0:99999:7:", False),
        ("ada:*:20000:0:99999:7", False),
        ("ada:*:20000:0:99999:7::never:", False),
        ("ada:*:20000:0:99999:7:::x", False),
        ("ada:*:20000:0:99999:7::: ", False),
        ("ada:*:20000:0:99999:7:::9", True),
        ("ada:*:20000:0:99999:7::99999", True),
        ("ada:*:20000:0:99999:7::", False),
        ("ada:*:20000 :0:99999:7:::", False),
        ("ada:*:20000:0:99999:7::::::", False),
        ("ada:*:20000:0:99999:7::99999999999:", False),
        pytest.param(f"ada:*:20000:0:99999:7::{'9' * 5000}:", False, id="more digits than Python converts"),
    ],
)
def test_a_line_of_shadow_that_the_c_library_does_not_read(tmp_path: Path, line: str, found: bool) -> None:
    items = plan(machine_facts(tmp_path, {"/etc/shadow": f"{line}\n"}))
    assert [type(item) for item in items] == ([] if found else [Step])
    assert all("/etc/shadow is malformed" in item.why for item in items)


def test_sshds_own_answer_counts_more_than_our_reading(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, {MAIN: "UsePAM yes\nAllowUsers bob\n"}, **answered("AllowUsers ada"))
    assert plan(facts) == ()


def test_a_key_that_is_refused_beside_a_password_that_works_is_a_warning(tmp_path: Path) -> None:
    text = "UsePAM yes\nPubkeyAuthentication no\n"
    facts = machine_facts(tmp_path, {MAIN: text}, **answered("PubkeyAuthentication no"))
    both = replace(ADA, has_password=True, disable_password=False)
    (caution,) = plan(facts, metadata=both, required="true")
    assert isinstance(caution, Caution)
    assert caution.why.startswith("the key that was given does not let ada in: /etc/ssh/sshd_config line 2")


@pytest.mark.parametrize(
    ("methods", "noted"),
    [
        ("publickey", ["password"]),
        ("password keyboard-interactive:pam", ["key"]),
        ("publickey,password", []),
        ("publickey password", []),
        ("any", []),
    ],
)
def test_a_credential_that_no_list_of_methods_asks_for_is_a_warning(
    tmp_path: Path, methods: str, noted: list[str]
) -> None:
    config = f"UsePAM yes\nAuthenticationMethods {methods}\n"
    facts = machine_facts(tmp_path, {MAIN: config}, **answered(config))
    both = replace(ADA, has_password=True, disable_password=False)
    found = plan(facts, metadata=both)
    assert all(isinstance(item, Caution) for item in found)
    assert [item.why.split()[1] for item in found] == noted
    assert all("AuthenticationMethods" in item.why for item in found)


def test_no_sshd_and_no_credential_are_no_failure(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, {MAIN: "AllowUsers bob\n"})
    assert plan(replace(facts, ssh=replace(facts.ssh, installed=False))) == ()
    assert plan(facts, metadata=replace(ADA, keys=())) == ()


@pytest.mark.parametrize(
    ("shadow", "says"),
    [
        ("ada:*:20000:0:99999:7::100:\n", "expired"),
        ("ada:*:20000:0:99999:7::20100:\n", "expired"),
        ("ada:*:20000:0:99999:7::20101:\n", ""),
        ("ada:*:0:0:99999:7:::\n", "must change a password first"),
        ("ada:*:20000:0:50:7:10::\n", "expired and can no longer be changed"),
        ("ada:*:20000:0:50:7:::\n", "must change"),
        ("ada:*:20000:0:101:7:::\n", ""),
        ("ada:!:20000:0:99999:7:::\n", ""),
    ],
)
def test_the_account_itself(tmp_path: Path, shadow: str, says: str) -> None:
    found = plan(machine_facts(tmp_path, {"/etc/shadow": shadow}))
    assert [says in item.why for item in found] == ([True] if says else [])
    assert all(isinstance(item, Step) for item in found)


def test_another_source_of_accounts_is_a_doubt(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, {"/etc/shadow": "ada:*:20000:0:99999:7::100:\n"})
    (item,) = plan(replace(facts, accounts=replace(facts.accounts, nss_why="nsswitch.conf asks sss for passwd")))
    assert isinstance(item, Caution)


def test_a_unit_that_nothing_starts(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, {}, start=Start(why="ssh.service is disabled", certain=True))
    (item,) = plan(facts)
    assert isinstance(item, Step)
    assert "sshd does not start: ssh.service is disabled" in item.why
