"""The manual, the schema and the model say the same."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from azureinit.cli.config import main
from azureinit.config.docs import KEYS, SECTIONS, reference, schema, toml
from azureinit.config.load import CONFIG_VARIABLE, FILTER_VARIABLE, GROUPS_VARIABLE, PLACES
from azureinit.config.model import CHOICES, Config, checked
from azureinit.errors import ConfigInvalid
from azureinit.machine import Machine

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
    assert properties("imds")["retry_interval_secs"]["minimum"] == 0
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


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("md_name", ("a", "a-b_0", "-a", "a b", "", "a" * 32, "a" * 33, "a/b")),
        ("label", ("AzureEphmDsk", "a.b", "-a", "a b", "", "a" * 16, "a" * 17)),
        ("owner", ("", "me", "me:you", "1000:1000", "-me", "me you")),
        ("mount_point", ("/mnt", "/mnt/", "/", "mnt", "/a b", "/a/../b", "/a/./b", "/a//b", "/a/.b", "/a\\b", "/ä")),
        ("mount_options", ("defaults", "a,b=c", "", "a,", ",a", "a,,b", "a b", "a#b", 'a"b', "a\tb", "a\\b")),
        ("chunk_kib", (4, 512, 1 << 20, 0, 6, -4, 1 << 21)),
    ],
)
def test_the_schema_and_the_program_agree_on_disks(key: str, values: tuple[object, ...]) -> None:
    kind, default = ALL[f"disk.{key}"]
    told = schema()["properties"]["disk"]["properties"][key]
    for value in values:
        try:
            checked(kind, value, default=default)
        except ConfigInvalid:
            assert violations(value, told), value
        else:
            assert not violations(value, told), value


@pytest.mark.parametrize("value", ["wheel", "a-b", "-a", "a,b", "a:b", "a b", ""])
def test_the_schema_and_the_program_agree_on_group_names(value: str) -> None:
    try:
        checked("OptionalNames", [value], default=None)
        accepted = True
    except ConfigInvalid:
        accepted = False
    assert bool(re.search(properties("user")["groups"]["items"]["pattern"], value)) == accepted


def violations(value: Any, rule: Any, at: str = "") -> list[str]:
    """JSON Schema, as far as ours uses it."""
    found = []
    types: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float)}
    types["integer"] = int
    for word, said in rule.items():
        if word == "type":
            right = isinstance(value, types[said]) and (said == "boolean" or not isinstance(value, bool))
        elif word == "enum":
            right = any(value == choice and type(value) is type(choice) for choice in said)
        elif word == "pattern":
            right = re.search(said, value) is not None
        elif word in ("minLength", "maxLength"):
            right = len(value) >= said if word == "minLength" else len(value) <= said
        elif word in ("minimum", "exclusiveMinimum", "maximum"):
            right = {"minimum": value >= said, "exclusiveMinimum": value > said, "maximum": value <= said}[word]
        elif word == "multipleOf":
            right = value % said == 0
        elif word == "items":
            found += [wrong for item in value for wrong in violations(item, said, f"{at}[]")]
            continue
        elif word == "properties":
            for key in value:
                found += violations(value[key], said[key], f"{at}.{key}") if key in said else [f"{at}.{key}: unknown"]
            continue
        else:
            assert word in ("$schema", "title", "description", "default", "additionalProperties"), word
            continue
        if not right:
            found.append(f"{at}: {value!r} is against {word} {said!r}")
    return found


@pytest.mark.parametrize("text", ["", '[user]\ngroups = []\nsudo = true\n[telemetry]\notlp_endpoint = "http://h/x"\n'])
def test_what_config_show_prints_passes_the_schema(tmp_path: Path, text: str) -> None:
    tomllib = pytest.importorskip("tomllib")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/azure-init.toml").write_text(text)
    out = io.StringIO()
    machine = Machine(root=str(tmp_path), environ={})
    assert main(["show"], machine=machine, config=None, groups=None, out=out, err=out) == 0
    assert violations(tomllib.loads(out.getvalue()), schema()) == []
    assert violations(tomllib.loads(text), schema()) == []


def test_the_schema_refuses_what_the_program_refuses() -> None:
    wrong: dict[str, Any] = {
        "user": {"groups": "adm", "sudo": "maybe", "wheel": True},
        "imds": {"endpoint": "", "retry_interval_secs": -1},
        "ssh": {"regenerate_host_keys": 1},
    }
    assert len(violations(wrong, schema())) == 6
