"""Log filters: which events they allow, and which filter applies: the environment's or the file's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.config.filters import LEVELS, parse_filter
from azureinit.config.load import load
from azureinit.machine import Machine
from azureinit.telemetry.events import DEBUG, ERROR, INFO, TRACE, WARN
from azureinit.telemetry.kvp import DEFAULT, chosen_filter

ALL = (TRACE, DEBUG, INFO, WARN, ERROR)


def let(text: str, name: str = "hostname") -> tuple[int, ...]:
    found = parse_filter(text)
    assert found is not None
    return tuple(level for level in ALL if found.allows(name, level))


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("off", ()),
        ("error", (ERROR,)),
        ("WARN", (WARN, ERROR)),
        ("warning", (WARN, ERROR)),
        ("libazureinit::hostname=warning", (WARN, ERROR)),
        ("info", (INFO, WARN, ERROR)),
        ("3", (INFO, WARN, ERROR)),
        ("debug", (DEBUG, INFO, WARN, ERROR)),
        ("trace", ALL),
        ("", (ERROR,)),
        ("hyper=trace", (ERROR,)),
        ("libazureinit=info", (INFO, WARN, ERROR)),
        ("azure_init=info", (INFO, WARN, ERROR)),
        ("azureinit::hostname=debug,off", (DEBUG, INFO, WARN, ERROR)),
        ("libazureinit::host=debug", (DEBUG, INFO, WARN, ERROR)),
        ("libazureinit::http=debug,warn", (WARN, ERROR)),
        ("libazureinit=error,libazureinit::hostname=debug,trace", (DEBUG, INFO, WARN, ERROR)),
        ("libazureinit::hostname", ALL),
        ("libazureinit", ALL),
        ("azure_init", ALL),
        ("azureinit", ALL),
        ("hyper::client", (ERROR,)),
        ("warn,hyper", (WARN, ERROR)),
        (" info , , libazureinit::http=off ", (INFO, WARN, ERROR)),
    ],
)
def test_the_most_particular_directive_counts(text: str, levels: tuple[int, ...]) -> None:
    assert let(text) == levels


def test_a_name_of_two_words_is_one_target() -> None:
    assert let("off,libazureinit::report_ready=info", "report Ready") == (INFO, WARN, ERROR)


@pytest.mark.parametrize(
    "text", ["app=not_a_valid_level", "=info", "info=", "a b", "libazureinit=7", "[span]=debug", "é", "verbose", "6"]
)
def test_what_is_no_directive_is_no_filter(text: str) -> None:
    assert parse_filter(text) is None


@given(st.text())
def test_any_text_is_a_filter_or_none(text: str) -> None:
    found = parse_filter(text)
    assert found is None or all(level in LEVELS.values() for level in (found.level, *found.targets.values()))


def test_by_default_the_pool_gets_our_steps_and_every_request() -> None:
    assert DEFAULT.allows("hostname", INFO) and not DEFAULT.allows("hostname", DEBUG)
    assert DEFAULT.allows("http", DEBUG) and DEFAULT.allows("network", WARN)


@pytest.mark.parametrize(
    ("environ", "file", "told", "warnings"),
    [
        ("warn", "debug", (WARN, ERROR), 0),  # the environment beats the file
        ("", "debug", (DEBUG, INFO, WARN, ERROR), 0),
        ("app=not_a_valid_level", "debug", (DEBUG, INFO, WARN, ERROR), 1),  # invalid: the file's
        ("app=not_a_valid_level", "x=y", (INFO, WARN, ERROR), 2),  # both invalid: the built-in choice
        ("app=not_a_valid_level", "", (INFO, WARN, ERROR), 1),
        ("", "x=y", (INFO, WARN, ERROR), 1),
        ("", "", (INFO, WARN, ERROR), 0),
        ("", " , ", (INFO, WARN, ERROR), 0),  # says nothing either
    ],
)
def test_environment_then_file_then_the_built_in_choice(
    tmp_path: Path, environ: str, file: str, told: tuple[int, ...], warnings: int
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[telemetry]\nkvp_filter = "{file}"\n')
    machine = Machine(root=str(tmp_path), environ={"AZURE_INIT_KVP_FILTER": environ})
    loaded = load(machine, config=str(config), groups=None)
    warned = list(loaded.warnings)
    found = chosen_filter(loaded.config.telemetry.kvp_filter, warned)
    assert tuple(level for level in ALL if found.allows("hostname", level)) == told
    assert len(warned) == warnings, warned
