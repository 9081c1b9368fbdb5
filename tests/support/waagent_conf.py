"""What the tests of waagent.conf share."""

from __future__ import annotations

from azureinit.config.waagent import Conf, parse_waagent_conf

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
