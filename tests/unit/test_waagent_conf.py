"""waagent.conf, parsed as WALinuxAgent does, and translated to azure-init's configuration."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from azureinit.cli.waagent import as_toml
from azureinit.config.load import check
from azureinit.config.model import CHOICES, Config
from azureinit.config.waagent import agent_advice, overlay, parse_waagent_conf, translate
from azureinit.config.waagent_options import BY_NAME, OPTIONS
from azureinit.errors import ConfigInvalid
from azureinit.machine import Machine
from support.waagent_conf import NAMES, SHIPPED, parsed, shipped

ALL_TYPES = CHOICES["HostKeyTypes"]


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
    said = {*names(imported.taken), *names(imported.gone), *names(imported.theirs)}
    unsaid = {"Provisioning.SshHostKeyPairType"} if distro in ("ubuntu", "flatcar") else set()
    unsaid |= set(NAMES[7:]) if not conf.switch("ResourceDisk.Format") else set()
    unsaid |= (
        {"ResourceDisk.EnableSwap", "ResourceDisk.SwapSizeMB"} if not conf.switch("ResourceDisk.EnableSwap") else set()
    )
    unsaid |= {"ResourceDisk.Filesystem"} if distro in ("freebsd", "openbsd") else set()
    assert said == {name for name, one in conf.said.items() if one.value is not None} - unsaid


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
    formats, filesystem, point, options, swap, size = disk
    if formats == "y":
        wanted |= {"disk.setup": "auto", "disk.nvme": "off", "disk.scsi": "data", "disk.scsi_mount_point": point}
        if filesystem in ("ext4", "btrfs"):
            wanted["disk.filesystem"] = filesystem
        if options != "None":
            wanted["disk.mount_options"] = f"{options},nofail,comment=azure-ephemeral-disk-setup"
        if swap == "y":
            wanted |= {"disk.swap": "file", "disk.swap_mib": size}
    else:
        wanted["disk.scsi"] = "off"
    assert taken(shipped(distro).decode()) == wanted


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


def test_every_option_of_ours_has_a_key_here() -> None:
    keys = {f"{section}.{key}" for section, record in Config.defaults_.items() for key in type(record).fields_}
    assert {option.ours for option in OPTIONS if option.ours} <= keys


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


DISK = "ResourceDisk.Format=y\nResourceDisk.EnableSwap=y\nResourceDisk.SwapSizeMB=2048\n"


def test_the_resource_disk_is_taken_only_if_walinuxagent_would_format_it() -> None:
    rest = "ResourceDisk.Filesystem=xfs\nResourceDisk.MountPoint=/data\nResourceDisk.MountOptions=noatime\n"
    assert taken(DISK + rest) == {
        "disk.setup": "auto",
        "disk.nvme": "off",
        "disk.scsi": "data",
        "disk.filesystem": "xfs",
        "disk.scsi_mount_point": "/data",
        "disk.mount_options": "noatime,nofail,comment=azure-ephemeral-disk-setup",
        "disk.swap": "file",
        "disk.swap_mib": 2048,
    }
    assert taken(DISK.replace("Format=y", "Format=n") + rest) == {"disk.scsi": "off"}


def test_ext3_becomes_ext4_and_that_is_told() -> None:
    imported = translate(parsed("ResourceDisk.Format=y\nResourceDisk.Filesystem=ext3\n"))
    assert {one.key: one.value for one in imported.taken}["disk.filesystem"] == "ext4"
    assert imported.warnings == ("ResourceDisk.Filesystem=ext3: ext4 is used instead",)


def test_a_layer_that_sets_up_disks_keeps_its_local_disks() -> None:
    assert "disk.nvme" in {one.key for one in overlay(parsed(DISK), spoken=()).taken}
    left = {one.key for one in overlay(parsed(DISK), spoken=("disk.setup",)).taken}
    assert left == {"disk.scsi", "disk.swap", "disk.swap_mib"}


def test_no_option_has_two_rows_and_every_one_has_one_owner() -> None:
    assert len(BY_NAME) == len(OPTIONS)
    assert not [option.name for option in OPTIONS if option.ours and option.gone]
    assert len({option.ours for option in OPTIONS if option.ours}) == sum(bool(option.ours) for option in OPTIONS)
