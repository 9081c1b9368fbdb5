"""sshd's rules for Match, Allow and Deny lines: OpenSSH's own, case by case and for random input."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given, strategies as st

from azureinit.facts.sshd_config import Walk
from azureinit.plan.sshd_match import (
    Client,
    applies,
    clients,
    in_force,
    match_addresses,
    match_list,
    match_pattern,
    match_user,
    refusing_line,
)

ADA = Client(user="ada", groups=frozenset(("ada", "sudo")), address="10.0.0.9", host="10.0.0.9")


def walk(text: str) -> Walk:
    return Walk("/s", read=lambda path: text.encode() if path == "/s" else None, expand=lambda _: (), aliases={})


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_a_pattern_is_one_of_stars_and_question_marks(pattern: str, text: str) -> None:
    assert match_pattern(text, pattern) == fnmatch.fnmatchcase(text, pattern)


@pytest.mark.parametrize(
    ("text", "patterns", "found"),
    [
        ("ada", "ada", 1),
        ("ada", "a*,!ada", -1),
        ("ada", "!ada,a*", -1),
        ("ada", "!bob", 0),
        ("ada", "bob,?da", 1),
        ("ada", "[a]da", 0),
    ],
)
def test_a_list_of_patterns(text: str, patterns: str, found: int) -> None:
    assert match_list(text, patterns) == found


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ("10.0.0.0/8", 1),
        ("!10.0.0.0/8,*", -1),
        ("*,!10.0.0.9", -1),
        ("192.0.2.0/24", 0),
        ("10.0.0.?", 1),
        ("::/0", 0),
        ("10.0.0.9/8", -2),
        ("10.0.0.0/255.0.0.0", 0),
        ("", -2),
        ("10.0.0.9,", -2),
    ],
)
def test_a_list_of_addresses(patterns: str, found: int) -> None:
    assert match_addresses("10.0.0.9", patterns) == found


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("ada", True),
        ("!ada", False),
        ("a*", True),
        ("ada@10.0.0.0/8", True),
        ("ada@*", True),
        ("bob@*", False),
        ("ada@!10.0.0.9,*", False),
        ("ada@*.example.org", False),
    ],
)
def test_a_user_at_a_host(pattern: str, found: bool) -> None:
    assert match_user(ADA, pattern) is found


def test_what_dns_decides_is_neither_yes_nor_no() -> None:
    unknown = Client(**{**ADA.as_dict(), "host": None})
    assert match_user(unknown, "ada@*.example.org") is None
    assert match_user(unknown, "ada@10.0.0.0/8") is True
    assert match_user(unknown, "ada@*") is True


@pytest.mark.parametrize(
    ("criteria", "found"),
    [
        ("User ada", True),
        ("user=ada", True),
        ("User bob", False),
        ("User ada Group nobody", False),
        ("User ada Group su*", True),
        ("Group *,!sudo", False),
        ("Address 10.0.0.0/8 LocalPort 22", True),
        ("LocalPort 2222", False),
        ("LocalAddress 10.0.0.4", None),
        ("User bob LocalAddress 10.0.0.4", False),
        ("Invalid-User", False),
        ("all", True),
        ("User", False),
    ],
)
def test_a_match_line(criteria: str, found: bool | None) -> None:
    (said,) = walk(f"Match {criteria}\nX11Forwarding no\n").directives
    assert applies(said.block, ADA) is found


def test_match_blocks_replace_what_is_said_for_everyone_and_the_first_of_each_counts() -> None:
    text = (
        "AllowUsers a b\nAllowUsers c\nPubkeyAuthentication yes\nPubkeyAuthentication no\n"
        "Match User ada\nAllowUsers d\nStrictModes no\nMatch Group sudo\nAllowUsers e\nStrictModes yes\n"
    )
    values = in_force(walk(text).directives, ADA)
    assert [value.arguments for value in values["allowusers"]] == [("d",), ("e",)]
    assert values["strictmodes"][0].arguments == ("no",)
    assert values["pubkeyauthentication"][0].arguments == ("yes",)
    other = in_force(walk(text).directives, Client(**{**ADA.as_dict(), "user": "x", "groups": frozenset()}))
    assert [value.arguments[0] for value in other["allowusers"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("AllowUsers bob\n", 1),
        ("AllowUsers ada\nDenyUsers a*\n", 2),
        ("AllowGroups wheel\n", 1),
        ("DenyGroups x\nDenyGroups sudo\n", 2),
        ("AllowUsers ada\nAllowGroups sudo\nDenyUsers bob\nDenyGroups wheel\n", None),
        ("AllowGroups !sudo ad*\n", None),
    ],
)
def test_the_line_that_keeps_a_user_out_is_named(text: str, line: int | None) -> None:
    found = refusing_line(in_force(walk(text).directives, ADA), ADA)
    assert (found[0].directive.number if found and found[0].directive else None) == line


def test_clients_come_from_everywhere_that_the_configuration_tells_apart() -> None:
    def addresses(text: str) -> list[str]:
        return [client.address for client in clients(walk(text).directives, user="ada", groups=frozenset())]

    assert addresses("AllowUsers bob\n") == ["203.0.113.9"]
    found = addresses("Match Address 192.0.2.0/24,!192.0.2.7\nDenyUsers *\n")
    assert {"203.0.113.9", "10.0.0.9", "192.0.2.7"} < set(found)
    assert any(address.startswith("192.0.2.") and address != "192.0.2.7" for address in found)
    assert "198.51.100.1" in addresses("DenyUsers ada@198.51.100.*\n")
    # A line that cannot be decided here is taken both ways.
    doubled = clients(walk("Match LocalAddress 10.0.0.4\nDenyUsers *\n").directives, user="ada", groups=frozenset())
    assert [client.benefit for client in doubled] == [False, True]


@given(
    st.lists(
        st.sampled_from(
            ["AllowUsers", "DenyGroups", "Match User", "Match Address", "Match", "Include", "AuthorizedKeysFile"]
        ).flatmap(lambda word: st.text("adu*?!,@./0:=% \"'#", max_size=12).map(lambda text: f"{word} {text}")),
        max_size=6,
    )
)
def test_no_configuration_is_too_odd(lines: list[str]) -> None:
    directives = walk("\n".join(lines)).directives
    for client in clients(directives, user="ada", groups=frozenset(("ada",))):
        found = refusing_line(in_force(directives, client), client)
        assert found is None or found[0] in [line for lines in in_force(directives, client).values() for line in lines]
