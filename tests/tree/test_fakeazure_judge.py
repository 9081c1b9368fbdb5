"""The expected verdict of platforms that listen."""

from __future__ import annotations

from typing import Any

import pytest

from fakeazure import Fabric, Media, Vm
from fakeazure.platform.vm import Imds


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "ready"),
        ({"vm": Vm(specialised=True)}, "ready"),
        ({"imds": Imds(enable=False)}, "ready"),
        ({"imds": Imds(enable=False), "media": Media(enable=False)}, "failure"),
        ({"wireserver": False}, "none"),
    ],
)
def test_what_is_expected_follows_from_what_is_possible(settings: dict[str, Any], expected: str) -> None:
    with Fabric(**settings) as fabric:
        assert fabric.judge().expected.verdict == expected
