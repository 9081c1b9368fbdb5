"""A test in this directory that starts a process or opens a socket fails: such tests belong to tests/tree."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from support.confined import GUARD

HERE = Path(__file__).parent


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    """Around the whole test, the fixtures of its module included. pytest calls this for tests of every directory."""
    if HERE in item.path.parents:
        with GUARD.confined():
            yield
    else:
        yield


@pytest.fixture(autouse=True)
def confined() -> Iterator[None]:
    """An attempt whose exception was caught fails the test too."""
    yield
    assert GUARD.attempts == []
