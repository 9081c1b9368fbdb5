"""The configuration's layers, precedence and origins; every kind of mistake, with its line number."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.config.load import Layers, Origin, load, load_usable
from azureinit.config.model import Config
from azureinit.errors import ConfigInvalid
from azureinit.machine import Machine

ETC = "etc/azure-init.toml"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path


def write(tree: Path, name: str, text: str | bytes) -> Path:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def machine(tree: Path, **environ: str) -> Machine:
    return Machine(root=str(tree), environ=environ)


def config(tree: Path, **environ: str) -> Config:
    return load(machine(tree, **environ), config=None, groups=None).config


def refused(tree: Path, text: str | bytes) -> str:
    """What is said about a file with this text in it."""
    write(tree, ETC, text)
    with pytest.raises(ConfigInvalid) as caught:
        config(tree)
    return str(caught.value)


# ---- layers


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
        assert loaded.origin["sources.grace_secs"] == Origin(layer="file", name="/" + place)
    outside = tmp_path_factory.mktemp("outside")
    by_env = write(outside, "env.toml", "[sources]\ngrace_secs = 5\n")
    by_flag = write(outside, "flag.toml", "[sources]\ngrace_secs = 6\n")
    computer = machine(tree, AZURE_INIT_CONFIG=str(by_env))
    assert load(computer, config=None, groups=None).config.sources.grace_secs == 5
    loaded = load(computer, config=str(by_flag), groups=None)
    assert loaded.config.sources.grace_secs == 6
    assert loaded.origin["sources.grace_secs"] == Origin(layer="file", name=str(by_flag), outside=True)


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


# ---- mistakes


@pytest.mark.parametrize(
    ("section", "line", "what"),
    [
        ("ssh", 'query_sshd_config = "true"', 'must be true or false, not the string "true"'),
        ("ssh", "query_sshd_config = 1", "must be true or false, not 1"),
        ("ssh", "authorized_keys_path = 3", "must be a string, not 3"),
        ("ssh", 'authorized_keys_path = ""', "must not be empty"),
        ("ssh", 'authorized_keys_path = "a\\nb"', "must have no control characters"),
        ("ssh", 'host_key_types = ["dsa"]', 'must be a list out of "ed25519", "ecdsa", "rsa"'),
        ("hostname_provisioners", 'backends = ["magic"]', 'but holds the string "magic"'),
        ("user_provisioners", 'backends = ["adduser"]', 'must be a list out of "useradd", "files"'),
        ("password_provisioners", 'backends = ["magic"]', 'out of "chpasswd", "files", "passwd"'),
        ("password_provisioners", 'backends = "passwd"', "must be a list of strings, not the string"),
        ("user_provisioners", "backends = [1]", "must be a list of strings, but holds 1"),
        ("user", 'groups = ["a,b"]', 'must be a list of group names, but holds the string "a,b"'),
        ("user", 'groups = ["-G"]', "must be a list of group names"),
        ("user", 'groups = [""]', "must be a list of group names"),
        ("imds", "retry_interval_secs = -1", "must be 0 seconds or more, not -1"),
        ("imds", "retry_interval_secs = nan", "must be 0 seconds or more, not nan"),
        ("imds", "retry_interval_secs = -inf", "must be 0 seconds or more, not -inf"),
        ("imds", f"retry_interval_secs = -{'9' * 4000}", "not a number of that size"),
        ("imds", "retry_interval_secs = true", "must be a number of seconds, not true"),
        ("imds", 'retry_interval_secs = "2"', 'must be a number of seconds, not the string "2"'),
        ("imds", "retry_interval_secs = 1979-05-27", "must be a number of seconds, not a date or time"),
        ("imds", "retry_interval_secs = {a = 1}", "must be a number of seconds, not a table"),
        ("imds", "connection_timeout_secs = 0", "must be more than 0 seconds"),
        ("imds", 'endpoint = "https://169.254.169.254"', "must start with http://"),
        ("imds", 'endpoint = "http://"', "must be a plain http:// URL with a host"),
        ("imds", 'endpoint = "http:///metadata"', "must be a plain http:// URL with a host"),
        ("imds", 'endpoint = "http://a b"', "must be a plain http:// URL with a host"),
        ("imds", 'endpoint = "http://user:word@host"', "must"),
        ("imds", 'endpoint = "http://host:99999"', "must have a port from 1 to 65535"),
        ("imds", 'endpoint = "http://host:"', "must have a port from 1 to 65535"),
        ("azure_init_data_dir", f'path = "/{"a" * 5000}"', "must be at most 4096 characters, not 5001"),
    ],
)
def test_a_wrong_value_is_told_with_file_line_and_key(tree: Path, section: str, line: str, what: str) -> None:
    told = refused(tree, f"# first\n[{section}]\n# third\n{line}\n")
    assert told.startswith(f"/etc/azure-init.toml:4: {section}.{line.split(' =')[0]}: must")
    assert what in told
    assert "\n" not in told
    assert len(told) < 400


@pytest.mark.parametrize("told", ["86401", "1e9", "1e300", "inf", "9223372036854775807", f"0x{'f' * 5000}"])
def test_more_than_a_day_is_a_day(tree: Path, told: str) -> None:
    write(tree, ETC, f"[wireserver]\ntotal_retry_timeout_secs = {told}\nread_timeout_secs = {told}\n")
    found = config(tree).wireserver
    assert (found.total_retry_timeout_secs, found.read_timeout_secs) == (86400.0, 86400.0)


@pytest.mark.parametrize("scheme", ["HTTP", "Http", "hTtP"])
def test_a_scheme_may_be_written_in_capitals(tree: Path, scheme: str) -> None:
    write(tree, ETC, f'[wireserver]\nhealth_endpoint = "{scheme}://Host/Path"\n')
    assert config(tree).wireserver.health_endpoint == "http://Host/Path"


@pytest.mark.parametrize("url", ["http://h", "http://[::1]", "http://[::1]:80/x", "http://h:8080/a/b?c=d"])
def test_plain_urls_are_accepted(tree: Path, url: str) -> None:
    write(tree, ETC, f'[imds]\nendpoint = "{url}"\n')
    assert config(tree).imds.endpoint == url


@pytest.mark.parametrize("text", ["ssh = 1\n", "[[ssh]]\n"])
def test_a_section_that_is_no_table_is_refused(tree: Path, text: str) -> None:
    assert refused(tree, "\n" + text).startswith("/etc/azure-init.toml:2: ssh: must be a table, not ")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[ssh]\nquery_sshd_config\n", 2),
        ("[ssh]\nhost_key_types = [\n", 2),
        ("[ssh]\na = 1\na = 2\n", 3),
        ("= 1", 1),
        ('a = "\x00"', 1),
    ],
)
def test_broken_toml_is_told_with_its_line(tree: Path, text: str, line: int) -> None:
    assert refused(tree, text).startswith(f"/etc/azure-init.toml:{line}: not valid TOML: ")


@pytest.mark.parametrize("text", ["a = " + "[" * 20000, f"a = {'1' * 5000}"])
def test_toml_that_overwhelms_the_parser_is_refused(tree: Path, text: str) -> None:
    assert refused(tree, text).startswith("/etc/azure-init.toml")


def test_a_file_that_is_not_utf_8_is_told_with_its_line(tree: Path) -> None:
    told = refused(tree, b"[ssh]\n# caf\xe9\n")
    assert told == "/etc/azure-init.toml:2: not valid TOML: byte 0xe9 is not UTF-8"


def test_a_file_may_be_large(tree: Path) -> None:
    write(tree, ETC, "#" * (1 << 23) + "\n[sources]\ngrace_secs = 9\n")
    assert config(tree).sources.grace_secs == 9
    with (tree / ETC).open("ab") as file:
        file.truncate((1 << 26) + 1)
    with pytest.raises(
        ConfigInvalid, match=f"^{tree}/etc/azure-init.toml: cannot read: it is larger than 67108864 bytes$"
    ):
        config(tree)


def test_what_is_no_file_is_ignored_with_a_warning(tree: Path) -> None:
    """As the Rust agent ignores it, which says nothing."""
    (tree / ETC).mkdir()
    (tree / "etc/azure-init.d/1.toml").mkdir(parents=True)
    (tree / "etc/azure-init.d/2.toml").symlink_to("/nowhere")
    write(tree, "etc/azure-init.d/3.toml", "[sources]\ngrace_secs = 9\n")
    write(tree, "etc/azure-init.d/.toml", "not TOML")
    loaded = load(Machine(root=str(tree), environ={}), config=None, groups=None)
    assert loaded.config.sources.grace_secs == 9
    assert loaded.warnings == (
        "/etc/azure-init.toml: ignored: it is not a file",
        "/etc/azure-init.d/1.toml: ignored: it is not a file",
        "/etc/azure-init.d/2.toml: ignored: it is a link to nothing",
    )


def test_a_path_that_leads_in_circles_is_refused(tree: Path) -> None:
    (tree / "circle").symlink_to("circle")
    with pytest.raises(ConfigInvalid, match="/circle: cannot list: Too many levels of symbolic links$"):
        load(machine(tree), config=str(tree / "circle"), groups=None)


def test_an_unreadable_directory_is_refused() -> None:
    euid = os.geteuid()
    with tempfile.TemporaryDirectory() as place:  # not pytest's own: only its owner may enter that
        os.chmod(place, 0o755)
        Path(place, "etc").mkdir(mode=0o755)
        Path(place, "etc/azure-init.d").mkdir(mode=0)
        if euid == 0:  # whom no mode stops
            os.seteuid(65534)
        try:
            with pytest.raises(ConfigInvalid, match=f"^{place}/etc/azure-init.d: cannot list: Permission denied$"):
                config(Path(place))
        finally:
            os.seteuid(euid)


@pytest.mark.parametrize("named", ["/no/such/file.toml", "no-such-dir/", ""])
def test_a_missing_config_path_is_refused(tree: Path, named: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load(machine(tree), config=named, groups=None)
    assert str(caught.value) == f"{named}: no such file or directory, though --config names it"


def test_a_missing_path_in_the_variable_is_refused(tree: Path) -> None:
    with pytest.raises(ConfigInvalid, match="though AZURE_INIT_CONFIG names it"):
        config(tree, AZURE_INIT_CONFIG="/no/such/file.toml")


def test_a_group_no_tool_would_take_is_told_with_the_flag_or_variable(tree: Path) -> None:
    with pytest.raises(ConfigInvalid, match="^--groups: user.groups: must be a list of group names"):
        load(machine(tree), config=None, groups=("a:b",))
    with pytest.raises(ConfigInvalid, match="^AZURE_INIT_USER_GROUPS: user.groups: must be a list of group names"):
        config(tree, AZURE_INIT_USER_GROUPS="wheel,bad\udcffname")


def test_all_mistakes_of_all_layers_are_told_at_once(tree: Path) -> None:
    write(tree, ETC, '[ssh]\nquery_sshd_config = "no"\n[sources]\ngrace_secs = -1\n')
    write(tree, "etc/azure-init.d/a.toml", "[sources\n")
    write(tree, "etc/azure-init.d/b.toml", "[sources]\ngrace_secs = 1\n")
    computer = machine(tree, AZURE_INIT_USER_GROUPS="a:b")
    with pytest.raises(ConfigInvalid) as caught:
        load(computer, config="/no/such", groups=None)
    starts = [line.split(": ")[0] for line in str(caught.value).splitlines()]
    assert starts == [
        "/etc/azure-init.toml:2",
        "/etc/azure-init.toml:4",
        "/etc/azure-init.d/a.toml:1",
        "/no/such",
        "AZURE_INIT_USER_GROUPS",
    ]
    assert caught.value.exit_code == 78
    assert caught.value.data["details"] == str(caught.value).splitlines()[0]
    assert caught.value.hint


def test_a_refused_configuration_still_says_where_to_report_it(tree: Path) -> None:
    write(tree, ETC, '[wireserver]\nhealth_endpoint = "http://127.0.0.1:1/h"\nread_timeout_secs = "x"\n[ssh]\n')
    write(tree, "etc/azure-init.d/a.toml", "garbage")
    usable = load_usable(machine(tree), config="/no/such", groups=("a:b",))
    assert usable.wireserver.health_endpoint == "http://127.0.0.1:1/h"
    assert usable.wireserver.read_timeout_secs == 60.0


def test_a_file_named_twice_is_complained_about_once(tree: Path) -> None:
    path = write(tree, "x.toml", "[ssh]\nnonsense = 1\nquery_sshd_config = 1\n")
    layers = Layers(machine(tree))
    layers.read_named(str(path), by="")
    layers.read_named(str(path), by="")
    assert (len(layers.problems), len(layers.warnings)) == (1, 1)


# ---- unknown keys


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "[ssh]\nquery_sshd_confg = true\n",
            "2: ssh.query_sshd_confg: unknown key, ignored; the nearest known key is ssh.query_sshd_config",
        ),
        (
            '[imds]\nhealth_endpoint = "x"\n',
            "2: imds.health_endpoint: unknown key, ignored; the nearest known key is wireserver.health_endpoint",
        ),
        (
            "\n[wire_server]\na = 1\n",
            "2: wire_server: unknown section or key, ignored; the nearest known section is [wireserver]",
        ),
        ("groups = []\n", "1: groups: unknown section or key, ignored; the nearest known key is user.groups"),
        ("[imds]\n[imds.endpoints]\nx = 1\n", "2: imds.endpoints: unknown key, ignored; the nearest known key is"),
        ("[zzzz]\n", "1: zzzz: unknown section or key, ignored; the known sections are ssh, "),
        ('["new\\nline"]\n', ": new\\nline: unknown section or key, ignored; "),
    ],
)
def test_an_unknown_key_is_a_warning_with_the_nearest_known_one(tree: Path, text: str, warning: str) -> None:
    write(tree, ETC, text)
    loaded = load(machine(tree), config=None, groups=None)
    assert loaded.config == Config()
    (told,) = loaded.warnings
    assert warning in told
    assert told.startswith("/etc/azure-init.toml:")
    assert "\n" not in told


def test_a_file_of_something_else_entirely_gives_few_warnings(tree: Path) -> None:
    write(tree, ETC, "".join(f"key{number} = 1\n" for number in range(500)))
    warnings = load(machine(tree), config=None, groups=None).warnings
    assert len(warnings) == 21
    assert warnings[-1] == "/etc/azure-init.toml: 480 more unknown keys, ignored"


# ---- any text at all

PIECES = st.sampled_from(
    ["[", "]", "[[", "]]", "{", "}", "=", " = ", ",", ".", "\n", '"', '"""', "'''", "#", "\\", "\r", "\x00", "é"]
    + ["ssh", "imds", "user", "groups", "endpoint", "wait_secs", "query_sshd_config", "true", "-1", "nan", "1e999"]
    + ["[ssh]\n", "[imds]\n", "endpoint = ", "query_sshd_config = true\n", '"http://x"\n', "[1, [2]]\n", "{a = 1}\n"]
)


@given(st.one_of(st.lists(PIECES).map(lambda pieces: "".join(pieces).encode()), st.binary(max_size=200)))
@settings(max_examples=300, deadline=None)
def test_any_file_is_loaded_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    tree = tmp_path_factory.getbasetemp() / "any-file"
    write(tree, ETC, data)
    try:
        loaded = load(machine(tree), config=None, groups=None)
    except ConfigInvalid as error:
        assert all(line.startswith("/etc/azure-init.toml") for line in str(error).splitlines())
        assert isinstance(load_usable(machine(tree), config=None, groups=None), Config)
    else:
        assert set(loaded.origin) == {f"{s}.{k}" for s, r in Config.defaults_.items() for k in type(r).fields_}
