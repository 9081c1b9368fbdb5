"""Records are frozen, keyword-only and slotted; secrets do not show."""

from __future__ import annotations

import json
import pickle

import pytest

from azureinit.record import Record, Secret, replace


class Point(Record):
    x: int
    y: int = 0


class Named(Point):
    name: str


def test_a_record_has_its_fields_defaults_and_nothing_else() -> None:
    point = Point(x=1)
    assert (point.x, point.y) == (1, 0)
    assert repr(point) == "Point(x=1, y=0)"
    with pytest.raises(TypeError, match="needs x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no z"):
        Point(x=1, z=2)  # type: ignore[call-arg]
    assert not hasattr(point, "__dict__")


def test_a_record_is_frozen_and_compares_by_value() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del point.x
    assert point == Point(x=1) and hash(point) == hash(Point(x=1))
    assert point != Named(x=1, name="a")
    assert replace(point, y=5) == Point(x=1, y=5)


def test_a_record_inherits_fields() -> None:
    assert Named(x=1, name="a").as_dict() == {"x": 1, "y": 0, "name": "a"}
    assert pickle.loads(pickle.dumps(Point(x=3))) == Point(x=3)


def test_a_secret_shows_nowhere() -> None:
    secret = Secret("hunter2")
    shown = [str(secret), repr(secret), f"{secret}", f"{secret:>20}", f"{secret!r}", repr({"a": secret})]
    assert all("hunter2" not in text for text in shown)
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        ",".join(["a", secret])  # type: ignore[list-item]  # noqa: FLY002
    assert secret.reveal() == b"hunter2" and secret.text() == "hunter2"
    assert secret == Secret(b"hunter2") and secret != "hunter2"
