"""Names that may become an account or a host, and names that may not."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from azureinit.errors import InvalidHostname, InvalidUsername
from azureinit.plan.names import check_hostname, check_username


@pytest.mark.parametrize("name", ["azureuser", "a", "Admin", "j.doe", "x-1", "_svc", "1st", "machine$", "a" * 32])
def test_a_name_useradd_takes_is_taken(name: str) -> None:
    assert check_username(name) == name


BEGIN_BADLY = ("", "-rf", "--help", ".", "..", ".hidden", "$", "+nis", "~", "%wheel")
HOLD_SOMETHING = ("a:b", "a\nb", "a b", "a/b", "a\0b", "a$b", "a,b", "a@b", "a\\b", "a*", "a#b", "a!", "b\u00f6b")


@pytest.mark.parametrize(
    "name", ["root", "nobody", "1000", "12$", "\u0661\u0662", "a" * 33, "x" * 300, *BEGIN_BADLY, *HOLD_SOMETHING]
)
def test_a_name_that_must_not_become_an_account_is_refused(name: str) -> None:
    with pytest.raises(InvalidUsername) as refused:
        check_username(name)
    assert refused.value.hint


def test_names_the_caller_reserves_are_refused() -> None:
    with pytest.raises(InvalidUsername, match="belongs to the system"):
        check_username("daemon", reserved=("daemon",))


@pytest.mark.parametrize(
    "name", ["vm", "vm-1", "VM", "a.example.com", "123", "1.2", "a" * 63, f"{'x' * 31}.{'y' * 32}"]
)
def test_a_host_name_is_taken(name: str) -> None:
    assert check_hostname(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "a.-b", "a..b", ".a", "a.", "a" * 64, "a" * 63 + ".b", "10.0.0.4"])
def test_a_name_of_the_wrong_form_is_refused(name: str) -> None:
    with pytest.raises(InvalidHostname):
        check_hostname(name)


@pytest.mark.parametrize("name", ["a_b", "a b", "a\n", "a/b", "a\0", "b\u00f6b", "\u0661"])
def test_a_name_that_must_not_become_the_hosts_is_refused(name: str) -> None:
    with pytest.raises(InvalidHostname):
        check_hostname(name)


@pytest.mark.parametrize("check", [check_username, check_hostname])
def test_a_mebibyte_of_name_makes_a_short_message(check: object) -> None:
    with pytest.raises((InvalidUsername, InvalidHostname)) as refused:
        check("\x1b[2J\n" * (1 << 18))  # type: ignore[operator]
    text = str(refused.value)
    assert len(text) < 300
    assert text.isprintable()


@given(st.text(max_size=70))
def test_whatever_is_accepted_is_harmless(name: str) -> None:
    try:
        check_username(name)
    except InvalidUsername as refused:
        assert str(refused).isprintable()
    else:
        assert name.isascii()
        assert name[0] not in "-+~."
        assert not set(name) & set(":/, \n\0'\"\\;&|<>%")
    try:
        check_hostname(name)
    except InvalidHostname as refused:
        assert str(refused).isprintable()
    else:
        assert len(name) <= 64
        assert name.isascii()
