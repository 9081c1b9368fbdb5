"""waagent.conf, parsed as WALinuxAgent does, and translated to azure-init's configuration."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.cli.config import main
from azureinit.cli.waagent import WRITTEN, as_toml
from azureinit.config.load import check, load
from azureinit.config.model import CHOICES, Config
from azureinit.config.waagent import PLACES, Conf, agent_advice, overlay, parse_waagent_conf, translate
from azureinit.config.waagent_options import BY_NAME, OPTIONS
from azureinit.errors import ConfigInvalid
from azureinit.machine import Machine

ALL_TYPES = CHOICES["HostKeyTypes"]
# As shipped: root's password deleted, keys made anew, their type, the name watched, customData decoded and executed,
# the temporary disk formatted, with what, where, with which options, swap and its size.
SHIPPED = {
    "generic": ("y", "y", "rsa", "y", "n", "n", "y", "ext4", "/mnt/resource", "None", "n", 0),
    "ubuntu": ("y", "n", "rsa", "n", "n", "n", "n", "ext4", "/mnt", "None", "n", 0),
    "debian": ("y", "y", "auto", "y", "n", "n", "y", "ext4", "/mnt/resource", "None", "n", 0),
    "suse": ("y", "y", "rsa", "y", "n", "n", "y", "btrfs", "/mnt/resource", "compress=lzo", "n", 0),
    "flatcar": ("n", "n", "ed25519", "y", "n", "n", "y", "ext4", "/mnt/resource", "None", "n", 0),
    "alpine": ("y", "y", "rsa", "n", "y", "y", "y", "ext4", "/mnt/resource", "None", "n", 0),
    "azurelinux": ("y", "y", "rsa", "y", "y", "n", "n", "ext4", "/mnt/resource", "None", "n", 0),
    "photon": ("y", "y", "rsa", "y", "y", "n", "n", "ext4", "/mnt/resource", "None", "n", 0),
    "arch": ("n", "y", "rsa", "y", "n", "n", "y", "ext4", "/mnt/resource", "None", "n", 0),
    "clear": ("y", "y", "rsa", "y", "y", "n", "y", "ext4", "/mnt/resource", "None", "n", 0),
    "chainguard": ("y", "y", "auto", "y", "n", "n", "y", "ext4", "/mnt/resource", "None", "n", 0),
    "freebsd": ("y", "y", "rsa", "y", "n", "n", "y", "ufs", "/mnt/resource", "None", "y", 16384),
    "openbsd": ("y", "y", "auto", "y", "n", "n", "y", "ufs2", "/mnt/resource", "None", "y", 65536),
}
NAMES = (
    "Provisioning.DeleteRootPassword", "Provisioning.RegenerateSshHostKeyPair", "Provisioning.SshHostKeyPairType",
    "Provisioning.MonitorHostName", "Provisioning.DecodeCustomData", "Provisioning.ExecuteCustomData",
    "ResourceDisk.Format", "ResourceDisk.Filesystem", "ResourceDisk.MountPoint", "ResourceDisk.MountOptions",
    "ResourceDisk.EnableSwap", "ResourceDisk.SwapSizeMB",
)  # fmt: skip


def shipped(distro: str) -> bytes:
    lines = [
        "#",
        "# Microsoft Azure Linux Agent Configuration",
        "#",
        "",
        "Extensions.Enabled=y",
        "Provisioning.Agent=auto",
    ]
    for name, value in zip(NAMES, SHIPPED[distro]):
        lines += [f"# What {name} is for", f"{name}={value}", ""]
    lines += ["OS.RootDeviceScsiTimeout=300", "OS.OpensslPath=None", "Logs.Verbose=n", "HttpProxy.Host=None"]
    if distro in ("azurelinux", "photon"):
        lines.append("Provisioning.UseCloudInit=n")
    return "\n".join([*lines, ""]).encode()


def parsed(text: str) -> Conf:
    return parse_waagent_conf(text.encode())


def taken(text: str) -> dict[str, object]:
    return {one.key: one.value for one in translate(parsed(text)).taken}


def names(rows: object) -> list[str]:
    return [row.option for row in rows]  # type: ignore[attr-defined]


# ---- the parser


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A.B=x", "x"),
        ("  A.B  =  x  ", "x"),
        ('A.B="x y"', "x y"),
        ("A.B='x'", "'x'"),
        ("A.B=x # and why", "x"),
        ("A.B=x#y", "x"),
        ("A.B=a=b", "a=b"),
        ('A.B=" x "', "x"),
        ("A.B=\tx\t", "x"),
        ("A.B=", ""),
        ('A.B=""', ""),
        ("A.B=x\r", "x"),
        ('A.B="x"\r', 'x"'),
        ("A.B=none", "none"),
    ],
)
def test_a_value_is_what_walinuxagent_makes_of_it(line: str, value: str) -> None:
    assert parsed(line).text("A.B", "default") == value


@pytest.mark.parametrize("line", ["#A.B=x", "A.B", "A.B=None", 'A.B="None"', "A.B=None # why", "a.b=x", "# A.B = x"])
def test_what_says_nothing_leaves_the_default(line: str) -> None:
    assert parsed(line).text("A.B", "default") == "default"


def test_a_comment_must_begin_its_line() -> None:
    assert list(parsed(" # A.B=x").said) == ["# A.B"]


def test_the_last_of_equal_names_counts_and_the_other_is_told() -> None:
    conf = parsed("Logs.Console=y\nLogs.Console=n\n")
    assert conf.switch("Logs.Console", True) is False
    assert translate(conf).warnings == ("line 1: Logs.Console is set again in line 2, which overrides it",)


@pytest.mark.parametrize(("text", "on"), [("y", True), ("Y", True), ("n", False), ("N", False)])
def test_a_switch_is_y_or_n(text: str, on: bool) -> None:
    assert parsed(f"S={text}").switch("S", not on) is on


def test_the_guest_agent_s_own_options_are_known_with_their_defaults() -> None:
    conf = parsed("Autoupdate.Frequency=60\nAutoUpdate.Enabled=n\nPolicy.PolicyFilePath=/etc/policy.json")
    imported = translate(conf)
    assert [left.option for left in imported.theirs] == [
        "Autoupdate.Frequency", "AutoUpdate.Enabled", "Policy.PolicyFilePath",
    ]  # fmt: skip
    assert (imported.unknown, imported.warnings) == ((), ())
    assert conf.value(BY_NAME["Autoupdate.Frequency"]) == 60
    nothing = parsed("Foo=1")
    assert nothing.value(BY_NAME["Autoupdate.Frequency"]) == 3600
    assert nothing.value(BY_NAME["Policy.PolicyFilePath"]) == "/etc/waagent_policy.json"


@pytest.mark.parametrize("text", ["yes", "true", "1", "", "no", "None"])
@pytest.mark.parametrize("default", [True, False])
def test_a_switch_that_is_neither_is_its_default(text: str, default: bool) -> None:
    assert parsed(f"S={text}").switch("S", default) is default


@pytest.mark.parametrize(("text", "number"), [("7", 7), (" 7 ", 7), ("-1", -1), ("7s", 30), ("", 30), ("None", 30)])
def test_a_number_that_is_none_is_its_default(text: str, number: int) -> None:
    assert parsed(f"N={text}").number("N", 30) == number


def test_an_empty_file_is_refused_as_walinuxagent_refuses_it() -> None:
    with pytest.raises(ConfigInvalid, match="is empty"):
        parse_waagent_conf(b"")


@given(st.binary(min_size=1))
def test_any_bytes_are_a_file_and_what_is_made_of_them_is_one_of_ours(data: bytes) -> None:
    conf = parse_waagent_conf(data)
    imported = translate(conf)
    assert all(not line or line[0] in "#[" or " = " in line for line in as_toml("x", imported, ()))
    assert all(line.isprintable() for line in as_toml("x", imported, agent_advice(conf, cloud_init=False)))


@given(st.lists(st.tuples(st.sampled_from(sorted(BY_NAME)), st.text(max_size=20))))
def test_whatever_the_options_say_what_is_made_of_them_is_right(
    tmp_path_factory: object, rows: list[tuple[str, str]]
) -> None:
    data = "".join(f"{name}={value}\n" for name, value in rows).encode("utf-8", "surrogatepass")
    imported = translate(parse_waagent_conf(data + b"#"))
    text = "\n".join(as_toml("waagent.conf", imported, ()))
    directory = tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    (directory / "made.toml").write_text(text, encoding="utf-8")
    assert check(Machine(root=str(directory), environ={}), str(directory / "made.toml")) == ((), (), True)


# ---- what becomes of it


@pytest.mark.parametrize("distro", SHIPPED)
def test_every_shipped_file_is_understood_whole(distro: str) -> None:
    conf = parse_waagent_conf(shipped(distro))
    for name, value in zip(NAMES, SHIPPED[distro]):
        told = {"y": True, "n": False, "None": None}.get(str(value), value)
        assert conf.value(BY_NAME[name]) == told, name
    imported = translate(conf)
    assert imported.unknown == ()
    said = [*names(imported.taken), *names(imported.undone), *names(imported.gone), *names(imported.theirs)]
    unsaid = {"Provisioning.SshHostKeyPairType"} if distro in ("ubuntu", "flatcar") else set()
    expected = {name for name, one in conf.said.items() if one.value is not None} - unsaid
    assert set(said) == expected and len(said) == len(set(said))


@pytest.mark.parametrize("distro", SHIPPED)
def test_the_host_keys_of_every_shipped_file(distro: str) -> None:
    _, anew, kind, *_ = SHIPPED[distro]
    values = taken(shipped(distro).decode())
    wanted = None if anew == "n" else ALL_TYPES if kind == "auto" else (kind,)
    assert values.get("ssh.host_key_types") == wanted


@pytest.mark.parametrize("distro", SHIPPED)
def test_what_is_taken_of_every_shipped_file(distro: str) -> None:
    root, anew, kind, watched, decoded, executed, *disk = SHIPPED[distro]
    wanted: dict[str, object] = {
        "user.lock_root": root == "y",
        "ssh.regenerate_host_keys": "always" if anew == "y" else "auto",
        "hostname.monitor": watched == "y",
        "custom_data.decode": "y" in (decoded, executed),
        "custom_data.execute": executed == "y",
        "kernel.scsi_timeout_secs": 300,
    }
    if anew == "y":
        wanted["ssh.host_key_types"] = ALL_TYPES if kind == "auto" else (kind,)
    assert taken(shipped(distro).decode()) == wanted
    undone = {row.option for row in translate(parse_waagent_conf(shipped(distro))).undone}
    asked = {name for name, value in zip(NAMES[6:], disk) if value not in ("n", "None")}
    assert undone == asked, "the temporary disk is all that is left"


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("Provisioning.DeleteRootPassword=y", "user.lock_root", True),
        ("Provisioning.RegenerateSshHostKeyPair=y", "ssh.regenerate_host_keys", "always"),
        ("Provisioning.MonitorHostName=y", "hostname.monitor", True),
        ("Provisioning.DecodeCustomData=y", "custom_data.decode", True),
        ("Provisioning.ExecuteCustomData=y", "custom_data.execute", True),
        ("Provisioning.AllowResetSysUser=Y", "user.allow_system_user", True),
        ("Provisioning.PasswordCryptId=6", "user.password_crypt_id", "6"),
        ("Provisioning.PasswordCryptId=2a", "user.password_crypt_id", "2a"),
        ('Provisioning.PasswordCryptId="y"', "user.password_crypt_id", "y"),
        ("Provisioning.PasswordCryptSaltLength=10", "user.password_salt_length", 10),
        ("OS.RootDeviceScsiTimeout=300", "kernel.scsi_timeout_secs", 300),
        ("OS.SshClientAliveInterval=180", "ssh.client_alive_interval", 180),
        ("Protocol.EndpointDiscovery=static", "wireserver.discovery", "static"),
        ("Protocol.EndpointDiscovery=dhcp", "wireserver.discovery", "dhcp"),
        ("Logs.Console=n", "telemetry.console", False),
        ("Lib.Dir=/srv/waagent", "waagent.lib_dir", "/srv/waagent"),
    ],
)
def test_every_option_that_has_a_key_here_is_taken(line: str, key: str, value: object) -> None:
    assert taken(line) == {key: value}


def test_every_option_but_those_of_the_temporary_disk_has_a_key_here() -> None:
    keys = {f"{section}.{key}" for section, record in Config.defaults_.items() for key in type(record).fields_}
    without = {option.name for option in OPTIONS if option.ours and option.ours not in keys}
    assert without == {option.name for option in OPTIONS if option.ours.startswith("resource_disk.")}


def test_a_period_is_taken_where_the_name_is_watched() -> None:
    period = "Provisioning.MonitorHostNamePeriod=45\n"
    assert taken(f"Provisioning.MonitorHostName=y\n{period}") == {"hostname.monitor": True, "hostname.monitor_secs": 45}
    assert "hostname.monitor_secs" not in taken(period)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Provisioning.PasswordCryptId=2x", 'user.password_crypt_id must be one of "auto", "y"'),
        ("Provisioning.PasswordCryptId=sha512", 'not the string "sha512"'),
        ("Provisioning.PasswordCryptId=", 'not the string ""'),
        ("Provisioning.PasswordCryptSaltLength=-1", "user.password_salt_length must be a whole number from 0 on"),
        ("OS.SshClientAliveInterval=-5", "ssh.client_alive_interval must be a whole number from 0 on"),
    ],
)
def test_a_value_that_walinuxagent_takes_and_we_do_not_is_told_and_not_taken(line: str, told: str) -> None:
    imported = translate(parsed(line))
    assert imported.taken == ()
    (warning,) = imported.warnings
    assert warning.startswith(f"line 1: {line.partition('=')[0]}=") and "is not used: " in warning and told in warning


@pytest.mark.parametrize("line", ["Provisioning.PasswordCryptSaltLength=ten", "OS.SshClientAliveInterval=3m"])
def test_a_number_that_is_none_keeps_our_own(line: str) -> None:
    imported = translate(parsed(line))
    assert imported.taken == ()
    assert "is not a whole number, so WALinuxAgent uses its default; azure-init's is kept" in imported.warnings[0]


@pytest.mark.parametrize("distro", ["azurelinux", "photon"])
def test_a_dead_option_is_told_as_one(distro: str) -> None:
    gone = {row.option: row.why for row in translate(parse_waagent_conf(shipped(distro))).gone}
    assert gone["Provisioning.UseCloudInit"].startswith("WALinuxAgent itself no longer reads it")


def test_a_type_that_nobody_makes_any_more_is_not_taken() -> None:
    imported = translate(parsed("Provisioning.RegenerateSshHostKeyPair=y\nProvisioning.SshHostKeyPairType=dsa\n"))
    assert "ssh.host_key_types" not in {one.key for one in imported.taken}
    assert any("SshHostKeyPairType=dsa is not used: ssh.host_key_types must be" in told for told in imported.warnings)


def test_a_value_that_is_no_switch_is_told_and_not_taken() -> None:
    imported = translate(parsed("Logs.Console=yes\n"))
    assert imported.taken == ()
    assert imported.warnings[0].startswith("line 1: Logs.Console=yes is not y or n, so WALinuxAgent uses its default")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Provisioning.ExecuteCustomData=y\nProvisioning.DecodeCustomData=n\n",
            "means Provisioning.DecodeCustomData=y",
        ),
        ("Provisioning.SshHostKeyPairType=rsa\n", "has no effect if Provisioning.RegenerateSshHostKeyPair is n"),
        ("ResourceDisk.EnableSwap=y\n", "has no effect if ResourceDisk.Format is n"),
        ("ResourceDisk.Format=y\nResourceDisk.EnableSwap=y\n", "there would be no swap"),
        ("HttpProxy.Host=proxy\n", "has no effect in WALinuxAgent without HttpProxy.Port"),
        ("logs.console=y\n", "logs.console is not Logs.Console: capitals count"),
    ],
)
def test_what_contradicts_itself_is_told(text: str, told: str) -> None:
    assert any(told in warning for warning in translate(parsed(text)).warnings)


def test_what_azure_init_has_no_setting_for_is_told_only_where_something_is_asked() -> None:
    imported = translate(parsed("ResourceDisk.Format=y\nResourceDisk.EnableSwap=n\n"))
    for row in (*imported.undone, *imported.gone):
        assert (row.why == "azure-init does not do it anyway") == (row.option == "ResourceDisk.EnableSwap")


def test_no_option_has_two_rows_and_every_one_has_one_owner() -> None:
    assert len(BY_NAME) == len(OPTIONS)
    assert not [option.name for option in OPTIONS if option.ours and option.gone]
    assert len({option.ours for option in OPTIONS if option.ours}) == sum(bool(option.ours) for option in OPTIONS)


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
    assert run(tree, "--write") == (0, f"wrote 1 settings of /etc/waagent.conf to {WRITTEN}\n", "")
    assert load(Machine(root=str(tree), environ={}), config=None, groups=None).config.telemetry.console is False
    assert run(tree, "--write")[0] == 0, "the same again is no trouble"
    (tree / "etc/waagent.conf").write_text("Logs.Console=y\n")
    status, out, err = run(tree, "--write")
    assert (status, out) == (1, "")
    assert err.startswith(f"{WRITTEN} exists already, with other contents\nhint: ")


def test_a_file_that_is_not_there_or_empty_or_a_directory_is_named(tree: Path) -> None:
    status, out, err = run(tree)
    assert (status, out) == (78, "") and err.startswith("there is no /etc/waagent.conf nor ")
    assert run(tree, str(tree / "none"))[2].startswith(f"there is no {tree}/none\n")
    (tree / "etc/waagent.conf").write_bytes(b"")
    assert run(tree)[2].startswith("/etc/waagent.conf: is empty\nhint: ")
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
    assert origin["telemetry.console"] == "/etc/waagent.conf:2"
    assert warnings == ()


def test_a_file_of_ours_outvotes_it(tree: Path) -> None:
    toml = "[waagent]\nhonour = true\n[telemetry]\nconsole = true\n"
    config, origin, _ = loaded(tree, toml, "Logs.Console=n\n")
    assert config.telemetry.console is True
    assert origin["telemetry.console"] == "/etc/azure-init.toml"
    assert overlay(parsed("Logs.Console=n"), spoken={"telemetry.console"}).taken == ()


def test_it_is_not_read_unless_asked(tree: Path) -> None:
    assert loaded(tree, "", "Logs.Console=n\n")[0] == Config()


def test_its_contradictions_are_warnings(tree: Path) -> None:
    _, _, warnings = loaded(tree, "[waagent]\nhonour = true\n", "Logs.Console=yes\n")
    assert warnings[0].startswith("/etc/waagent.conf: line 1: Logs.Console=yes is not y or n")


@pytest.mark.parametrize(("conf", "told"), [(None, "waagent.honour: there is no /etc/waagent.conf"), ("", "is empty")])
def test_honouring_what_is_not_there_is_an_error(tree: Path, conf: str | None, told: str) -> None:
    with pytest.raises(ConfigInvalid, match=told):
        loaded(tree, "[waagent]\nhonour = true\n", conf)
