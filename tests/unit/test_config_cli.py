"""`azure-init config show`, `check` and `schema`, as an operator sees them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from azureinit.cli.config import main
from azureinit.config.load import load
from azureinit.config.model import Config
from azureinit.machine import Machine


def run(tree: Path, *argv: str, groups: tuple[str, ...] | None = None, **environ: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    computer = Machine(root=str(tree), environ=environ)
    return (
        main(list(argv), machine=computer, config=None, groups=groups, out=out, err=err),
        out.getvalue(),
        err.getvalue(),
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path


def test_show_names_the_origin_of_every_value(tree: Path) -> None:
    (tree / "etc/azure-init.toml").write_text('\n[imds]\nretry_interval_secs = 0.5\n[user]\ngroups = ["x"]\n')
    status, out, err = run(tree, "show", groups=("wheel",), AZURE_INIT_KVP_FILTER="debug")
    assert (status, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert f"retry_interval_secs = 0.5 # {tree}/etc/azure-init.toml:3" in lines
    assert 'groups = ["wheel"] # flag --groups' in lines
    assert 'kvp_filter = "debug" # environment AZURE_INIT_KVP_FILTER' in lines
    assert 'authorized_keys_path = ".ssh/authorized_keys" # default' in lines
    for name in ("[ssh]", "authorized_keys_path", "[imds]", "[wireserver]", "[telemetry]"):
        assert name in out


def test_show_says_what_is_unset(tree: Path) -> None:
    _, out, _ = run(tree, "show")
    assert "# kvp_filter is unset # default" in [" ".join(line.split()) for line in out.splitlines()]


def test_what_show_prints_asks_for_the_same(tree: Path) -> None:
    text = '[ssh]\nauthorized_keys_path = "/k\\u00e9\\\\ \\"%u\\" # \\U0001F600"\n[sources]\ngrace_secs = 1e-7\n'
    (tree / "etc/azure-init.toml").write_text(text)
    computer = Machine(root=str(tree), environ={})
    before = load(computer, config=None, groups=("a", "b"))
    _, out, _ = run(tree, "show", groups=("a", "b"))
    (tree / "etc/azure-init.toml").write_text(out, encoding="utf-8")
    after = load(computer, config=None, groups=None)
    assert after.config == before.config != Config()
    assert after.warnings == ()


def test_show_aligns_its_comments(tree: Path) -> None:
    _, out, _ = run(tree, "show")
    columns = {line.rindex("# default") for line in out.splitlines() if line.endswith("# default")}
    assert len(columns) == 1


def test_show_json_tells_values_layers_and_origins(tree: Path) -> None:
    (tree / "etc/azure-init.toml").write_text("imds.retry_interval_secs = 7\n")
    status, out, _ = run(tree, "show", "--json", AZURE_INIT_USER_GROUPS="a,b")
    told = json.loads(out)
    assert status == 0
    assert told["imds"]["retry_interval_secs"] == {
        "value": 7,
        "layer": "file",
        "origin": f"{tree}/etc/azure-init.toml:1",
    }
    assert told["user"]["groups"] == {
        "value": ["a", "b"],
        "layer": "env",
        "origin": "environment AZURE_INIT_USER_GROUPS",
    }
    assert told["telemetry"]["kvp_filter"] == {"value": None, "layer": "default", "origin": "default"}


def test_show_puts_warnings_on_stderr(tree: Path) -> None:
    (tree / "etc/azure-init.toml").write_text("[imds]\nretry_intervall_secs = 7\n")
    status, out, err = run(tree, "show")
    assert status == 0
    assert err.startswith(f"warning: {tree}/etc/azure-init.toml:2: imds.retry_intervall_secs: unknown key")
    assert "warning" not in out


def test_show_of_a_broken_configuration_tells_every_problem_and_exits_78(tree: Path) -> None:
    (tree / "etc/azure-init.toml").write_text("[imds]\nretry_interval_secs = -1\nendpoint = 3\n")
    status, out, err = run(tree, "show")
    assert (status, out) == (78, "")
    assert f"{tree}/etc/azure-init.toml:2: imds.retry_interval_secs" in err
    assert f"{tree}/etc/azure-init.toml:3: imds.endpoint" in err
    assert "hint: " in err


def test_check_tells_each_file_and_exits_78_if_one_is_wrong(tree: Path) -> None:
    good, bad = tree / "good.toml", tree / "bad.toml"
    good.write_text("[run]\ndeadline_secs = 10\n[nope]\n")
    bad.write_text("[run]\ndeadline_secs = 'x'\n")
    assert run(tree, "check", str(good))[:2] == (0, f"{good}: ok\n")
    assert run(tree, "check", str(good))[2].startswith(f"warning: {good}:3: nope: unknown")
    status, out, _ = run(tree, "check", str(bad), str(good), str(tree / "none"))
    assert status == 78
    assert out.splitlines() == [
        f'{bad}:2: run.deadline_secs: must be a number of seconds, not the string "x"',
        f"{good}: ok",
        f"{tree}/none: no such file or directory",
    ]


def test_check_of_a_directory_without_a_file_for_us_says_so(tree: Path) -> None:
    there = tree / "there.d"
    there.mkdir()
    (there / "README").touch()
    assert run(tree, "check", str(there)) == (
        0,
        f"{there}: nothing to check: the directory contains no *.toml file\n",
        "",
    )
    (there / "empty.toml").touch()
    assert run(tree, "check", str(there)) == (0, f"{there}: ok\n", "")


def test_check_without_a_file_tries_the_whole_configuration(tree: Path) -> None:
    assert run(tree, "check") == (0, "configuration: ok\n", "")
    assert run(tree, "check", AZURE_INIT_CONFIG="/no/such")[0] == 78


def test_schema_prints_json(tree: Path) -> None:
    (tree / "etc/azure-init.toml").write_text("broken")
    status, out, _ = run(tree, "schema")
    assert status == 0
    assert json.loads(out)["title"] == "azure-init configuration"


@pytest.mark.parametrize("argv", [(), ("frobnicate",), ("show", "--yaml"), ("schema", "extra")])
def test_a_wrong_command_line_is_a_usage_error(tree: Path, argv: tuple[str, ...]) -> None:
    status, out, err = run(tree, *argv)
    assert (status, out) == (2, "")
    assert err.startswith("azure-init config")
    assert "hint: see azure-init config" in err


def test_help_goes_where_output_goes(tree: Path) -> None:
    status, out, err = run(tree, "--help")
    assert (status, err) == (0, "")
    assert "show" in out and "check" in out and "schema" in out
