"""A wrong clock: the parser of `offset`, and a command with libfaketime."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from fakeazure.machines import faketime as library
from fakeazure.machines.faketime import NoFaketime, faketime
from fakeazure.platform.clock import Clock, parse_clock

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("-3 years", datetime(2023, 1, 3, 3, 4, 5, tzinfo=UTC)),  # with a leap day in between
        ("+10y", datetime(2035, 12, 31, 3, 4, 5, tzinfo=UTC)),
        ("+10m", NOW + timedelta(minutes=10)),
        ("-1 week", NOW - timedelta(weeks=1)),
        ("+ 90 secs", NOW + timedelta(seconds=90)),
        ("+2 hours", NOW + timedelta(hours=2)),
        ("2001-02-03", datetime(2001, 2, 3, tzinfo=UTC)),
        ("2001-02-03T04:05:06", datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ("2001-02-03 04:05:06+02:00", datetime(2001, 2, 3, 2, 5, 6, tzinfo=UTC)),
    ],
)
def test_an_amount_or_a_date_is_understood(text: str, reads: datetime) -> None:
    found = parse_clock(text, now=NOW)
    assert found.wrong and found.reads(NOW) == reads


@pytest.mark.parametrize(
    "text", ["", "3 years", "+3", "+3 moons", "tomorrow", "+1.5 hours", "2001-13-01", "+\u0663 days"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither an amount such as -3 years"):
        parse_clock(text, now=NOW)


@pytest.mark.parametrize(
    "text", ["-57 years", "+90 years", "+9999999999 years", "1969-01-01", "2100-01-01", "0001-01-01"]
)
def test_what_no_clock_can_say_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="1970 to 2099"):
        parse_clock(text, now=NOW)


@given(text=st.text(st.sampled_from("+-0123456789 :TZysecaw"), max_size=20))
def test_no_text_breaks_the_clock(text: str) -> None:
    try:
        parse_clock(text, now=NOW)
    except ValueError as error:
        assert repr(text) in str(error)


def test_a_clock_is_right_unless_it_is_said_otherwise() -> None:
    assert not Clock().wrong and Clock().reads(NOW) == NOW


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LIBRARIES", ("no/such/libfaketime.so.1",))
    with pytest.raises(NoFaketime, match="install the package faketime"):
        faketime(Clock(offset=timedelta(days=1)), now=NOW, directory=tmp_path)
