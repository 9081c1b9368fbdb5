"""`config import-waagent`, and waagent.conf honoured at every start."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from azureinit.cli.config import main
from azureinit.cli.waagent import WRITTEN
from azureinit.config.load import check, load
from azureinit.config.model import Config
from azureinit.config.waagent import PLACES, agent_advice, overlay
from azureinit.errors import ConfigInvalid
from azureinit.machine import Machine
from support.waagent_conf import parsed, shipped

# ---- who provisions


@pytest.mark.parametrize("agent", ["auto", "waagent", "cloud-init"])
def test_an_agent_that_looks_at_the_marker_is_quiet(agent: str) -> None:
    (advice,) = agent_advice(parsed(f"Provisioning.Agent={agent}"), cloud_init=False)
    assert "neither provisions nor reports" in advice and "start after azure-init.service" in advice


@pytest.mark.parametrize("agent", ["disabled", "Auto", "none"])
def test_an_agent_that_is_disabled_reports_ready_for_us(agent: str) -> None:
    (advice,) = agent_advice(parsed(f"Provisioning.Agent={agent}"), cloud_init=False)
    assert "reports Ready at every start" in advice and "Set Provisioning.Agent=auto" in advice


def test_without_a_word_it_is_auto() -> None:
    assert agent_advice(parsed("#"), cloud_init=False)[0].startswith("Provisioning.Agent=auto:")


# ---- the command


def run(tree: Path, *argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    machine = Machine(root=str(tree), environ={})
    status = main(["import-waagent", *argv], machine=machine, config=None, groups=None, out=out, err=err)
    return status, out.getvalue(), err.getvalue()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path


@pytest.mark.parametrize("place", PLACES)
def test_it_is_found_where_the_distributions_keep_it(tree: Path, place: str) -> None:
    file = tree / place.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(shipped("debian"))
    status, out, err = run(tree)
    assert (status, err) == (0, "")
    assert out.startswith(f"# Imported from {place} by azure-init config import-waagent.\n")


def test_what_is_printed_is_a_file_of_ours_and_tells_the_rest(tree: Path) -> None:
    (tree / "mine.conf").write_text("Logs.Console=n\nOS.HomeDir=/home\nAutoUpdate.Enabled=y\nFoo=1\nHttpProxy.Port=3\n")
    status, out, err = run(tree, str(tree / "mine.conf"))
    assert (status, err) == (0, "")
    assert "[telemetry]\nconsole = false  # line 1: Logs.Console=n\n" in out
    assert "# Obsolete, without effect:\n#   line 2: OS.HomeDir: useradd's own defaults tell where homes are\n" in out
    assert "extensions:\n#   line 3: AutoUpdate.Enabled\n#   line 5: HttpProxy.Port\n" in out
    assert "# Unknown to azure-init and to WALinuxAgent:\n#   line 4: Foo\n" in out
    (tree / "made.toml").write_text(out)
    assert check(Machine(root=str(tree), environ={}), str(tree / "made.toml")) == ((), (), True)


@pytest.mark.parametrize("text", ["# A title\n\n    AZURE_INIT_LOG=debug\n", "#Logs.Console=n\n"])
def test_a_file_that_says_nothing_to_walinuxagent_is_told(tree: Path, text: str) -> None:
    (tree / "README.md").write_text(text)
    status, _, err = run(tree, str(tree / "README.md"))
    told = f"warning: {tree}/README.md: the file contains no option of WALinuxAgent; is it a waagent.conf?\n"
    assert (status, err) == (0, told)


def test_written_it_is_read_at_the_next_start(tree: Path) -> None:
    (tree / "etc/waagent.conf").write_text("Logs.Console=n\n")
    assert run(tree, "--write") == (0, f"wrote 1 settings of {tree}/etc/waagent.conf to {tree}{WRITTEN}\n", "")
    assert load(Machine(root=str(tree), environ={}), config=None, groups=None).config.telemetry.console is False
    assert run(tree, "--write")[0] == 0, "the same again is no trouble"
    (tree / "etc/waagent.conf").write_text("Logs.Console=y\n")
    status, out, err = run(tree, "--write")
    assert (status, out) == (1, "")
    assert err.startswith(f"{tree}{WRITTEN} exists already, with other contents\nhint: ")


def test_a_file_that_is_not_there_or_empty_or_a_directory_is_named(tree: Path) -> None:
    status, out, err = run(tree)
    assert (status, out) == (78, "") and err.startswith(f"there is no {tree}/etc/waagent.conf nor {tree}/")
    assert run(tree, str(tree / "none"))[2].startswith(f"there is no {tree}/none\n")
    (tree / "etc/waagent.conf").write_bytes(b"")
    assert run(tree)[2].startswith(f"{tree}/etc/waagent.conf: is empty\nhint: ")
    status, _, err = run(tree, str(tree / "etc"))
    assert status == 78 and err.startswith(f"cannot read {tree}/etc: ")


def test_cloud_init_beside_it_is_seen(tree: Path) -> None:
    (tree / "etc/waagent.conf").write_text("Provisioning.Agent=auto\n")
    wants = tree / "etc/systemd/system/cloud-init.target.wants"
    wants.mkdir(parents=True)
    (wants / "cloud-init-local.service").symlink_to("/nowhere")
    assert "cloud-init is enabled here" in run(tree)[1]
    (tree / "etc/cloud").mkdir()
    (tree / "etc/cloud/cloud-init.disabled").touch()
    assert "cloud-init is enabled here" not in run(tree)[1]


# ---- honoured live


def loaded(tree: Path, toml: str, conf: str | None, **environ: str) -> tuple[Config, dict[str, str], tuple[str, ...]]:
    (tree / "etc/azure-init.toml").write_text(toml)
    if conf is not None:
        (tree / "etc/waagent.conf").write_text(conf)
    found = load(Machine(root=str(tree), environ=environ), config=None, groups=None)
    return found.config, {key: origin.name for key, origin in found.origin.items()}, found.warnings


def test_honoured_it_says_what_nobody_else_does(tree: Path) -> None:
    config, origin, warnings = loaded(tree, "[waagent]\nhonour = true\n", "# x\nLogs.Console=n\nFoo=1\n")
    assert config.telemetry.console is False
    assert origin["telemetry.console"] == f"{tree}/etc/waagent.conf:2"
    assert warnings == ()


def test_a_file_of_ours_outvotes_it(tree: Path) -> None:
    toml = "[waagent]\nhonour = true\n[telemetry]\nconsole = true\n"
    config, origin, _ = loaded(tree, toml, "Logs.Console=n\n")
    assert config.telemetry.console is True
    assert origin["telemetry.console"] == f"{tree}/etc/azure-init.toml"
    assert overlay(parsed("Logs.Console=n"), spoken={"telemetry.console"}).taken == ()


def test_it_is_not_read_unless_asked(tree: Path) -> None:
    assert loaded(tree, "", "Logs.Console=n\n")[0] == Config()


def test_its_contradictions_are_warnings(tree: Path) -> None:
    _, _, warnings = loaded(tree, "[waagent]\nhonour = true\n", "Logs.Console=yes\n")
    assert warnings[0].startswith(f"{tree}/etc/waagent.conf: line 1: Logs.Console=yes is not y or n")


@pytest.mark.parametrize(
    ("conf", "told"),
    [(None, "waagent.honour: there is no {tree}/etc/waagent.conf nor "), ("", "{tree}/etc/waagent.conf: is empty")],
)
def test_honouring_what_is_not_there_is_an_error(tree: Path, conf: str | None, told: str) -> None:
    with pytest.raises(ConfigInvalid, match=f"^{told.format(tree=tree)}"):
        loaded(tree, "[waagent]\nhonour = true\n", conf)
