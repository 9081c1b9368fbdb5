"""The options of waagent.conf as rows: type, default, and the agent that now implements each."""

from __future__ import annotations

from azureinit.record import Record

SWITCH, NUMBER, TEXT = "y or n", "a whole number", "text"


class Option(Record):
    """`ours`: azure-init's equivalent key. `gone`: why it has no effect any more. Neither: WALinuxAgent reads it."""

    name: str
    kind: str
    default: bool | int | str | None = None
    ours: str = ""
    gone: str = ""


def _ours(name: str, kind: str, default: bool | int | str | None, ours: str) -> Option:
    return Option(name=name, kind=kind, default=default, ours=ours)


def _gone(name: str, kind: str, default: bool | int | str | None, why: str) -> Option:
    return Option(name=name, kind=kind, default=default, gone=why)


def _theirs(name: str, kind: str, default: bool | int | str | None = None) -> Option:
    return Option(name=name, kind=kind, default=default)


NO_EFFECT = "WALinuxAgent itself no longer reads it"
NO_RUSH = "it was a pause between two looks; nothing looks again and again here"

OPTIONS = (
    _ours("Provisioning.DeleteRootPassword", SWITCH, False, "user.lock_root"),
    _ours("Provisioning.RegenerateSshHostKeyPair", SWITCH, False, "ssh.regenerate_host_keys"),
    _ours("Provisioning.SshHostKeyPairType", TEXT, "rsa", "ssh.host_key_types"),
    _ours("Provisioning.MonitorHostName", SWITCH, False, "hostname.monitor"),
    _ours("Provisioning.MonitorHostNamePeriod", NUMBER, 30, "hostname.monitor_secs"),
    _ours("Provisioning.DecodeCustomData", SWITCH, False, "custom_data.decode"),
    _ours("Provisioning.ExecuteCustomData", SWITCH, False, "custom_data.execute"),
    _ours("Provisioning.AllowResetSysUser", SWITCH, False, "user.allow_system_user"),
    _ours("Provisioning.PasswordCryptId", TEXT, "6", "user.password_crypt_id"),
    _ours("Provisioning.PasswordCryptSaltLength", NUMBER, 10, "user.password_salt_length"),
    _ours("ResourceDisk.Format", SWITCH, False, "disk.setup"),
    _ours("ResourceDisk.Filesystem", TEXT, "ext3", "disk.filesystem"),
    _ours("ResourceDisk.MountPoint", TEXT, "/mnt/resource", "disk.scsi_mount_point"),
    _ours("ResourceDisk.MountOptions", TEXT, None, "disk.mount_options"),
    _ours("ResourceDisk.EnableSwap", SWITCH, False, "disk.swap"),
    _ours("ResourceDisk.SwapSizeMB", NUMBER, 0, "disk.swap_mib"),
    _ours("OS.RootDeviceScsiTimeout", NUMBER, None, "kernel.scsi_timeout_secs"),
    _ours("OS.SshClientAliveInterval", NUMBER, 180, "ssh.client_alive_interval"),
    _ours("Protocol.EndpointDiscovery", TEXT, "dhcp", "wireserver.discovery"),
    _ours("Logs.Console", SWITCH, True, "telemetry.console"),
    # ---- options without effect
    _gone("ResourceDisk.EnableSwapEncryption", SWITCH, False, "it meant FreeBSD alone"),
    _gone("OS.RootDeviceScsiTimeoutPeriod", NUMBER, 30, NO_RUSH),
    _gone("OS.RemovePersistentNetRulesPeriod", NUMBER, 30, NO_RUSH),
    _gone("OS.MonitorDhcpClientRestartPeriod", NUMBER, 30, NO_RUSH),
    _gone("OS.OpensslPath", TEXT, "/usr/bin/openssl", "openssl is looked for on the search path"),
    _gone("OS.SshDir", TEXT, "/etc/ssh", "sshd is asked where its keys and its configuration lie"),
    _gone("OS.HomeDir", TEXT, "/home", "useradd's own defaults tell where homes are"),
    _gone("OS.PasswordPath", TEXT, "/etc/shadow", "passwords lie in /etc/shadow"),
    _gone("OS.SudoersDir", TEXT, "/etc/sudoers.d", "sudo reads /etc/sudoers.d"),
    _gone("OS.EnableFIPS", SWITCH, False, "the kernel is asked whether it is in FIPS mode"),
    _gone("OS.AllowHTTP", SWITCH, False, "the platform's own addresses are always asked over plain HTTP"),
    _gone("DVD.MountPoint", TEXT, "/mnt/cdrom/secure", "the media are read without being mounted"),
    _gone("DetectScvmmEnv", SWITCH, False, "SCVMM is not looked for"),
    _gone("Provisioning.Enabled", SWITCH, None, NO_EFFECT),
    _gone("Provisioning.UseCloudInit", SWITCH, None, f"{NO_EFFECT}: Provisioning.Agent took its place"),
    *(
        _gone(name, TEXT, None, NO_EFFECT)
        for name in (
            "Role.StateConsumer",
            "Role.ConfigurationConsumer",
            "Role.TopologyConsumer",
            "LBProbeResponder",
            "Network.Interface",
            "OS.SshdConfigPath",
            "Home.Dir",
            "Logs.File",
            "OS.PersistentNetNames",
            "CGroups.EnforceLimits",
            "CGroups.Excluded",
            "RSA.KeyLength",
        )
    ),
    # ---- options that WALinuxAgent still reads
    _theirs("Provisioning.Agent", TEXT, "auto"),
    _ours("Lib.Dir", TEXT, "/var/lib/waagent", "waagent.lib_dir"),
    _theirs("Pid.File", TEXT, "/var/run/waagent.pid"),
    _theirs("Extension.LogDir", TEXT, "/var/log/azure"),
    _theirs("HttpProxy.Host", TEXT),
    _theirs("HttpProxy.Port", NUMBER),
    _theirs("OS.EnableFirewall", SWITCH, False),
    _theirs("OS.EnableFirewallPeriod", NUMBER, 300),
    _theirs("OS.EnableRDMA", SWITCH, False),
    _theirs("OS.UpdateRdmaDriver", SWITCH, False),
    _theirs("OS.CheckRdmaDriver", SWITCH, False),
    _theirs("Logs.Verbose", SWITCH, False),
    _theirs("Extensions.Enabled", SWITCH, True),
    _theirs("Extensions.GoalStatePeriod", NUMBER, 6),
    _theirs("Extensions.InitialGoalStatePeriod", NUMBER, 6),
    _theirs("Extensions.WaitForCloudInit", SWITCH, False),
    _theirs("Extensions.WaitForCloudInitTimeout", NUMBER, 3600),
    _theirs("EnableOverProvisioning", SWITCH, True),
    _theirs("Policy.PolicyFilePath", TEXT, "/etc/waagent_policy.json"),
    _theirs("Autoupdate.Frequency", NUMBER, 3600),  # spelt so, unlike AutoUpdate.Enabled
    _theirs("CGroups.Enabled", SWITCH, True),
    _theirs("Monitor.NetworkConfigurationChanges", SWITCH, False),
)
BY_NAME = {option.name: option for option in OPTIONS}
# Families of options that only the guest agent reads.
THEIRS = ("AutoUpdate.", "Logs.Collect", "Debug.", "Extensions.", "Extension.", "Policy.", "CGroups.", "HttpProxy.")
