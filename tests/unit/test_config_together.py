"""Keys that exclude each other, and durations that have an upper limit: refused with the line of the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.load import MOST_SECS, check, load
from azureinit.config.model import Config
from azureinit.errors import ConfigInvalid
from azureinit.machine import Machine


def loaded(tree: Path, text: str) -> Config:
    (tree / "etc").mkdir(exist_ok=True)
    (tree / "etc/azure-init.toml").write_text(text)
    return load(Machine(root=str(tree), environ={}), config=None, groups=None).config


def test_a_program_and_the_stages_cannot_both_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"azure-init\.toml:4: userdata\.enabled: .* custom_data\.execute"):
        loaded(tmp_path, "[custom_data]\nexecute = true\n[userdata]\nenabled = true\n")
    assert loaded(tmp_path, "[custom_data]\nexecute = true\n").custom_data.execute, "one that is not set gives way"
    assert not loaded(tmp_path, "[custom_data]\nexecute = true\n[userdata]\nenabled = false\n").userdata.enabled


@pytest.mark.parametrize(("name", "most"), MOST_SECS.items())
def test_a_duration_has_an_upper_limit(tmp_path: Path, name: str, most: int) -> None:
    section, _, key = name.partition(".")
    assert getattr(getattr(Config(), section), key) <= most
    assert getattr(getattr(loaded(tmp_path, f"[{section}]\n{key} = {most}\n"), section), key) == most
    with pytest.raises(ConfigInvalid, match=f"{name}: must be at most {most}"):
        loaded(tmp_path, f"[{section}]\n{key} = {most + 1}\n")


def test_config_check_finds_it_too(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text("[readiness]\ndeadline_secs = 2101\n")
    problems, _warnings, _read = check(Machine(root=str(tmp_path), environ={}), str(file))
    assert len(problems) == 1 and "at most 2100" in problems[0]
