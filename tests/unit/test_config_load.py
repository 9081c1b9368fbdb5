"""The configuration's layers, precedence and origins; every kind of mistake, with its line number."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.load import Origin, load
from azureinit.config.model import Config
from azureinit.errors import ConfigInvalid
from support.config_trees import ETC, config, machine, write


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path


def test_no_file_gives_every_default(tree: Path) -> None:
    loaded = load(machine(tree), config=None, groups=None)
    assert loaded.config == Config()
    assert set(loaded.origin.values()) == {Origin(layer="default", name="")}
    assert loaded.warnings == ()


def test_an_empty_file_gives_every_default(tree: Path) -> None:
    write(tree, ETC, "")
    assert config(tree) == Config()


def test_a_full_override_leaves_what_it_does_not_say(tree: Path) -> None:
    write(
        tree,
        ETC,
        """
        [ssh]
        authorized_keys_path = ".ssh/keys"
        query_sshd_config = false
        [hostname_provisioners]
        backends = ["hostnamectl"]
        [user_provisioners]
        backends = ["useradd"]
        [password_provisioners]
        backends = ["passwd"]
        [imds]
        connection_timeout_secs = 5.0
        request_timeout_secs = 120
        [provisioning_media]
        enable = false
        [azure_proxy_agent]
        enable = false
        [wireserver]
        health_endpoint = "http://127.0.0.1:8080/health"
        [telemetry]
        kvp_diagnostics = false
        kvp_filter = " info "
        """,
    )
    got = config(tree)
    assert (got.ssh.authorized_keys_path, got.ssh.query_sshd_config) == (".ssh/keys", False)
    assert got.ssh.configure_sshd_password_authentication is True
    assert got.hostname_provisioners.backends == ("hostnamectl",)
    assert got.user_provisioners.backends == ("useradd",)
    assert got.password_provisioners.backends == ("passwd",)
    assert (got.imds.connection_timeout_secs, got.imds.request_timeout_secs) == (5.0, 120.0)
    assert type(got.imds.request_timeout_secs) is float
    assert got.imds.total_retry_timeout_secs == 300.0
    assert (got.provisioning_media.enable, got.azure_proxy_agent.enable) == (False, False)
    assert got.wireserver.health_endpoint == "http://127.0.0.1:8080/health"
    assert (got.telemetry.kvp_diagnostics, got.telemetry.kvp_filter) == (False, "info")


def test_the_last_drop_in_wins_key_by_key(tree: Path) -> None:
    write(tree, ETC, "[imds]\nconnection_timeout_secs = 1\nrequest_timeout_secs = 1\nretry_interval_secs = 1\n")
    write(tree, "etc/azure-init.d/20-b.toml", "[imds]\nconnection_timeout_secs = 3\n")
    write(tree, "etc/azure-init.d/10-a.toml", "[imds]\nconnection_timeout_secs = 2\nrequest_timeout_secs = 2\n")
    got = config(tree).imds
    assert (got.connection_timeout_secs, got.request_timeout_secs, got.retry_interval_secs) == (3, 2, 1)


def test_each_place_beats_the_one_before_it(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    places = [
        "etc/azure-init.toml",
        "etc/azure-init.d/x.toml",
        "etc/azure-init/azure-init.toml",
        "etc/azure-init/azure-init.toml.d/x.toml",
    ]
    for number, place in enumerate(places, start=1):
        write(tree, place, f"[sources]\ngrace_secs = {number}\n")
        loaded = load(machine(tree), config=None, groups=None)
        assert loaded.config.sources.grace_secs == number
        assert loaded.origin["sources.grace_secs"] == Origin(layer="file", name=f"{tree}/{place}")
    outside = tmp_path_factory.mktemp("outside")
    by_env = write(outside, "env.toml", "[sources]\ngrace_secs = 5\n")
    by_flag = write(outside, "flag.toml", "[sources]\ngrace_secs = 6\n")
    computer = machine(tree, AZURE_INIT_CONFIG=str(by_env))
    assert load(computer, config=None, groups=None).config.sources.grace_secs == 5
    loaded = load(computer, config=str(by_flag), groups=None)
    assert loaded.config.sources.grace_secs == 6
    assert loaded.origin["sources.grace_secs"] == Origin(layer="file", name=str(by_flag))


def test_the_config_flag_silences_the_config_variable(tree: Path) -> None:
    good = write(tree, "good.toml", "[sources]\ngrace_secs = 2\n")
    got = load(machine(tree, AZURE_INIT_CONFIG="/no/such/file"), config=str(good), groups=None)
    assert got.config.sources.grace_secs == 2


def test_an_empty_config_variable_is_unset(tree: Path) -> None:
    assert config(tree, AZURE_INIT_CONFIG="", AZURE_INIT_USER_GROUPS="") == Config()


def test_a_config_directory_means_its_own_toml_files_sorted(tree: Path) -> None:
    write(tree, "extra/b.toml", "[sources]\ngrace_secs = 2\n")
    write(tree, "extra/a.toml", "[sources]\ngrace_secs = 1\n[run]\ndeadline_secs = 7\n")
    write(tree, "extra/deeper/z.toml", "[sources]\ngrace_secs = 9\n")
    write(tree, "extra/.hidden.toml", "[sources]\ngrace_secs = 9\n[boot]\nhold_logins_secs = 3\n")
    write(tree, "extra/z.toml.bak", "not toml at all")
    got = load(machine(tree), config=str(tree / "extra"), groups=None).config
    assert (got.sources.grace_secs, got.run.deadline_secs, got.boot.hold_logins_secs) == (2, 7, 3)


def test_a_relative_config_path_is_relative_to_the_working_directory(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, "here/lab.toml", "[sources]\ngrace_secs = 2\n")
    monkeypatch.chdir(tree / "here")
    assert load(machine(tree), config="lab.toml", groups=None).config.sources.grace_secs == 2
    (tree / "here" / "below").mkdir()
    monkeypatch.chdir(tree / "here" / "below")
    with pytest.raises(ConfigInvalid, match="lab.toml: no such file"):
        load(machine(tree), config="lab.toml", groups=None)


def test_groups_come_from_file_then_variable_then_flag(tree: Path) -> None:
    assert config(tree).user.groups is None
    write(tree, ETC, "[user]\ngroups = []\n")
    assert config(tree).user.groups == ()
    write(tree, ETC, '[user]\ngroups = ["from-file"]\n')
    assert config(tree).user.groups == ("from-file",)
    computer = machine(tree, AZURE_INIT_USER_GROUPS="one, two,,three")
    loaded = load(computer, config=None, groups=None)
    assert loaded.config.user.groups == ("one", "two", "three")
    assert loaded.origin["user.groups"] == Origin(layer="env", name="AZURE_INIT_USER_GROUPS")
    loaded = load(computer, config=None, groups=("four,five", "six"))
    assert loaded.config.user.groups == ("four", "five", "six")
    assert loaded.origin["user.groups"] == Origin(layer="flag", name="--groups")
    assert load(computer, config=None, groups=("",)).config.user.groups == ()


@pytest.mark.parametrize(
    ("key", "true", "false"), [("user.sudo", "auto", "none"), ("ssh.regenerate_host_keys", "always", "never")]
)
def test_what_was_a_switch_is_a_choice_and_takes_both(tree: Path, key: str, true: str, false: str) -> None:
    section, name = key.split(".")
    for said, held in (("true", true), ("false", false), ('"auto"', "auto")):
        write(tree, ETC, f"[{section}]\n{name} = {said}\n")
        assert getattr(getattr(config(tree), section), name) == held
    for wrong in ("1", '"yes"', "[]", '"true"'):
        write(tree, ETC, f"[{section}]\n{name} = {wrong}\n")
        with pytest.raises(ConfigInvalid, match=f"{key}: must be one of"):
            config(tree)


def test_the_filter_variable_beats_the_files(tree: Path) -> None:
    write(tree, ETC, '[telemetry]\nkvp_filter = "warn"\n')
    assert config(tree, AZURE_INIT_KVP_FILTER="debug").telemetry.kvp_filter == "debug"
    assert config(tree, AZURE_INIT_KVP_FILTER="").telemetry.kvp_filter == "warn"


def test_an_empty_filter_is_no_filter(tree: Path) -> None:
    write(tree, ETC, '[telemetry]\nkvp_filter = "  "\n')
    assert config(tree).telemetry.kvp_filter is None


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tree: Path) -> None:
    write(tree, ETC, b"\xef\xbb\xbf[sources]\r\ngrace_secs = 4\r\n")
    assert config(tree).sources.grace_secs == 4


def test_an_empty_list_of_backends_is_taken_at_its_word(tree: Path) -> None:
    write(tree, ETC, "[user_provisioners]\nbackends = []\n")
    assert config(tree).user_provisioners.backends == ()
