"""The manual, the schema and the model say the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.docs import KEYS, SECTIONS, reference, schema, toml
from azureinit.config.load import CONFIG_VARIABLE, FILTER_VARIABLE, GROUPS_VARIABLE, PLACES
from azureinit.config.model import CHOICES, Config, checked
from azureinit.errors import ConfigInvalid

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
ALL = {
    f"{section}.{key}": (kind, getattr(record, key))
    for section, record in Config.defaults_.items()
    for key, kind in type(record).fields_.items()
}


def test_every_key_has_a_sentence_and_every_sentence_a_key() -> None:
    assert list(KEYS) == list(ALL)
    assert list(SECTIONS) == list(Config.fields_)
    assert all(text.endswith(".") for text in [*KEYS.values(), *SECTIONS.values()])


def test_the_manual_holds_the_reference_as_it_is_generated() -> None:
    manual = MANUAL.read_text(encoding="utf-8")
    block = re.search(r"<!-- reference: begin [^\n]*-->\n\n(.*)\n<!-- reference: end -->", manual, re.DOTALL)
    assert block, "docs/configuration.md has lost its reference markers"
    assert block[1] == reference(), "run python3 -m azureinit.config.docs and put what it prints between the markers"


def test_the_reference_has_every_key_with_its_default_and_no_other() -> None:
    rows = [line.split(" | ") for line in reference().splitlines() if line.startswith("| `")]
    defaults = {row[0].strip("|` "): row[2].strip("`") for row in rows}
    assert defaults == {key: "unset" if value is None else toml(value) for key, (_, value) in ALL.items()}


def test_the_manual_names_every_place_and_variable() -> None:
    manual = MANUAL.read_text(encoding="utf-8")
    for name in (*PLACES, CONFIG_VARIABLE, GROUPS_VARIABLE, FILTER_VARIABLE, "--config", "--groups"):
        assert name in manual


def test_every_toml_example_of_the_manual_is_valid(tmp_path: Path) -> None:
    from azureinit.config.load import check
    from azureinit.machine import Machine

    examples = re.findall(r"```toml\n(.*?)```", MANUAL.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 4
    for text in examples:
        (tmp_path / "example.toml").write_text(text, encoding="utf-8")
        assert check(Machine(root=str(tmp_path), environ={}), str(tmp_path / "example.toml")) == ((), (), True)


@pytest.mark.parametrize("key", ALL)
def test_every_default_is_a_value_its_own_kind_accepts(key: str) -> None:
    kind, default = ALL[key]
    if default is not None:
        assert checked(kind, default, default=default) == default


def properties(section: str) -> dict[str, Any]:
    found: dict[str, Any] = schema()["properties"][section]["properties"]
    return found


def test_the_schema_has_every_key_and_allows_no_other() -> None:
    told = schema()
    assert told["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert told["additionalProperties"] is False
    assert [f"{s}.{k}" for s in told["properties"] for k in properties(s)] == list(ALL)
    assert all(section["additionalProperties"] is False for section in told["properties"].values())


def test_the_schema_tells_types_choices_defaults_and_meanings() -> None:
    assert properties("ssh")["query_sshd_config"] == {
        "description": KEYS["ssh.query_sshd_config"],
        "type": "boolean",
        "default": True,
    }
    assert properties("imds")["retry_interval_secs"]["default"] == 2
    assert properties("imds")["retry_interval_secs"]["maximum"] == 86400
    assert properties("user_provisioners")["backends"]["items"] == {"enum": list(CHOICES["UserBackends"])}
    assert "default" not in properties("telemetry")["kvp_filter"]


@pytest.mark.parametrize("value", ["http://h", "http://[::1]:8/x", "https://h", "http://", "http:///x", "http://a b"])
def test_the_schema_and_the_program_agree_on_urls(value: str) -> None:
    try:
        checked("Url", value, default="")
        accepted = True
    except ConfigInvalid:
        accepted = False
    assert bool(re.search(properties("imds")["endpoint"]["pattern"], value)) == accepted


@pytest.mark.parametrize("value", ["/", "/srv/a..b", "/a/.../b", "", "srv", "./a", "/..", "/a/..", "/a/../b"])
def test_the_schema_and_the_program_agree_on_places(value: str) -> None:
    try:
        checked("Place", value, default="/var/lib/waagent")
        accepted = True
    except ConfigInvalid:
        accepted = False
    assert accepted == (value in ("/", "/srv/a..b", "/a/.../b"))
    assert bool(re.search(properties("waagent")["lib_dir"]["pattern"], value)) == accepted


@pytest.mark.parametrize("value", ["wheel", "a-b", "-a", "a,b", "a:b", "a b", ""])
def test_the_schema_and_the_program_agree_on_group_names(value: str) -> None:
    try:
        checked("Names", [value], default=())
        accepted = True
    except ConfigInvalid:
        accepted = False
    assert bool(re.search(properties("user")["groups"]["items"]["pattern"], value)) == accepted
