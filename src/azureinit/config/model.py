"""The schema: a class is a section, a field is a key, its annotation is the key's kind, its value the default.

`checked` alone decides what a kind accepts. docs.py documents the same for people and editors.
"""

from __future__ import annotations

from azureinit.addresses import IMDS, WIRESERVER, host_of
from azureinit.errors import ConfigInvalid
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Seconds = float  # zero means at once
    Timeout = float  # never zero
    Path = str  # empty only where the default is
    Place = str  # an absolute path, independent of the working directory
    VmId = str  # a UUID, or empty
    OptionalText = str | None
    Url = str  # empty only where the default is
    Count = int
    HostnameBackends = tuple[str, ...]
    UserBackends = tuple[str, ...]
    PasswordBackends = tuple[str, ...]
    HostKeyTypes = tuple[str, ...]
    Protocol = str
    CryptId = str
    Discovery = str
    ChangedId = str
    Regenerate = str
    Sudo = str
    Required = str
    OptionalNames = tuple[str, ...] | None
    DiskSetup = str
    NvmeUse = str
    ScsiUse = str
    Aggregation = str
    Filesystem = str
    Table = str
    SwapKind = str

CHOICES = {
    "HostnameBackends": ("native", "hostnamectl"),
    "UserBackends": ("useradd", "files"),
    "PasswordBackends": ("chpasswd", "files", "passwd"),
    "HostKeyTypes": ("ed25519", "ecdsa", "rsa"),
}
CHOICE = {
    "Protocol": ("auto", "json", "xml"),
    "CryptId": ("auto", "y", "gy", "6", "5", "2b", "2a", "1"),
    "Discovery": ("dhcp", "static"),
    "ChangedId": ("provision", "keep"),
    "Regenerate": ("auto", "always", "never"),
    "Sudo": ("auto", "nopasswd", "password", "none"),
    "Required": ("auto", "true", "false"),
    "DiskSetup": ("off", "auto"),
    "NvmeUse": ("data", "swap", "off"),
    "ScsiUse": ("off", "fallback", "data", "swap"),
    "Aggregation": ("auto", "mdadm", "lvm", "none"),
    "Filesystem": ("ext4", "xfs", "btrfs"),
    "Table": ("none", "gpt"),
    "SwapKind": ("file", "partition"),
}
# The meaning of false and true for choices that were booleans before.
SWITCH = {"Regenerate": ("never", "always"), "Sudo": ("none", "auto"), "Required": ("false", "true")}
LONGEST_SECONDS = 86400  # longer values are reduced to this: no run lasts a day
LONGEST_TEXT = 4096
# WALinuxAgent's file, by distribution; the first existing one counts.
WAAGENT_CONF = (
    "/etc/waagent.conf",
    "/usr/share/waagent/waagent.conf",
    "/usr/share/oem/waagent.conf",
    "/usr/share/defaults/waagent/waagent.conf",
)


class Ssh(Record):
    authorized_keys_path: Path = ".ssh/authorized_keys"
    query_sshd_config: bool = True
    configure_sshd_password_authentication: bool = True
    host_key_types: HostKeyTypes = ("ed25519", "ecdsa", "rsa")
    regenerate_host_keys: Regenerate = "auto"
    client_alive_interval: Count = 0


class Access(Record):
    required: Required = "auto"


class HostnameProvisioners(Record):
    backends: HostnameBackends = ("native", "hostnamectl")


class UserProvisioners(Record):
    backends: UserBackends = ("files", "useradd")


class PasswordProvisioners(Record):
    backends: PasswordBackends = ("chpasswd", "files")


class Imds(Record):
    endpoint: Url = f"http://{IMDS}"
    connection_timeout_secs: Timeout = 30.0
    request_timeout_secs: Timeout = 60.0
    retry_interval_secs: Seconds = 2.0
    total_retry_timeout_secs: Seconds = 300.0
    final_after_secs: Seconds = 30.0


class ProvisioningMedia(Record):
    enable: bool = True
    path: Path = ""
    eject: bool = True
    wait_secs: Seconds = 60.0


class AzureProxyAgent(Record):
    enable: bool = True
    wait_secs: Seconds = 120.0


class Wireserver(Record):
    connection_timeout_secs: Timeout = 60.0
    read_timeout_secs: Timeout = 60.0
    retry_interval_secs: Seconds = 2.0
    total_retry_timeout_secs: Seconds = 1200.0
    health_endpoint: Url = f"http://{WIRESERVER}/provisioning/health"
    discovery: Discovery = "dhcp"


class Report(Record):
    protocol: Protocol = "auto"
    host_key_fingerprint: bool = True


class Telemetry(Record):
    kvp_diagnostics: bool = True
    kvp_filter: OptionalText = None
    kvp_directory: Path = "/var/lib/hyperv"
    otlp_endpoint: Url = ""
    otlp_budget_secs: Seconds = 2.0
    console: bool = True
    trace: bool = True
    log_bytes: Count = 1048576


class DataDir(Record):
    path: Path = "/var/lib/azure-init/"


class LogPath(Record):
    path: Path = "/var/log/azure-init.log"


class Platform(Record):
    require_azure: bool = True
    vm_id: VmId = ""
    changed_vm_id: ChangedId = "provision"


class Sources(Record):
    grace_secs: Seconds = 3.0


class User(Record):
    groups: OptionalNames = None
    sudo: Sudo = "auto"
    lock_root: bool = False
    allow_system_user: bool = False
    password_crypt_id: CryptId = "auto"
    password_salt_length: Count = 0


class Run(Record):
    deadline_secs: Timeout = 1200.0
    verdict_reserve_secs: Seconds = 60.0


class Boot(Record):
    hold_logins_secs: Seconds = 120.0
    network_secs: Timeout = 60.0
    sources_secs: Timeout = 360.0
    deadline_secs: Timeout = 900.0


class Waagent(Record):
    honour: bool = False
    lib_dir: Place = "/var/lib/waagent"


class Hostname(Record):
    monitor: bool = False
    monitor_secs: Timeout = 30.0


class CustomData(Record):
    save: bool = True
    decode: bool = False
    execute: bool = False
    execute_timeout_secs: Timeout = 600.0


class Kernel(Record):
    scsi_timeout_secs: Count = 0
    mask_persistent_net: bool = False
    entropy: bool = False
    numa_off: bool = False
    serial_console: bool = False


class Disk(Record):
    """`nvme`, `scsi`: what the local NVMe disks and the SCSI resource disk are for.

    `fallback`: data, where there is no local NVMe disk."""

    grow_root: bool = True
    setup: DiskSetup = "off"
    nvme: NvmeUse = "data"
    scsi: ScsiUse = "off"
    aggregation: Aggregation = "auto"
    chunk_kib: Count = 512
    md_name: Path = "azure-ephemeral-md"
    table: Table = "none"
    filesystem: Filesystem = "ext4"
    label: Path = "AzureEphmDsk"
    mount_point: Place = "/mnt"
    scsi_mount_point: Place = "/mnt/resource"
    mount_options: Path = "defaults,nofail,comment=azure-ephemeral-disk-setup"
    owner: Path = ""
    swap: SwapKind = "file"
    swap_mib: Count = 0
    notice: bool = True
    trust_unreadable_ntfs: bool = False


class Config(Record):
    ssh: Ssh = Ssh()
    access: Access = Access()
    hostname_provisioners: HostnameProvisioners = HostnameProvisioners()
    user_provisioners: UserProvisioners = UserProvisioners()
    password_provisioners: PasswordProvisioners = PasswordProvisioners()
    imds: Imds = Imds()
    provisioning_media: ProvisioningMedia = ProvisioningMedia()
    azure_proxy_agent: AzureProxyAgent = AzureProxyAgent()
    wireserver: Wireserver = Wireserver()
    report: Report = Report()
    telemetry: Telemetry = Telemetry()
    azure_init_data_dir: DataDir = DataDir()
    azure_init_log_path: LogPath = LogPath()
    platform: Platform = Platform()
    sources: Sources = Sources()
    user: User = User()
    run: Run = Run()
    boot: Boot = Boot()
    disk: Disk = Disk()
    waagent: Waagent = Waagent()
    hostname: Hostname = Hostname()
    custom_data: CustomData = CustomData()
    kernel: Kernel = Kernel()


def checked(kind: str, value: object, *, default: object) -> object:
    """The checked and converted value. ConfigInvalid says what is expected, without naming the key."""
    if kind in CHOICES:
        return _choices(value, CHOICES[kind])
    if kind in SWITCH and isinstance(value, bool):
        return SWITCH[kind][value]
    if kind in CHOICE:
        return _choice(value, CHOICE[kind])
    if kind in ("Path", "Place", "VmId", "OptionalText", "Url"):
        return _text(kind, value, default)
    return KINDS[kind](value)


def named(value: object) -> str:
    """A value as messages show it, shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # Python refuses to convert an int of more than 4300 digits.
        return str(value) if abs(value) < 10**15 else "a number of that size"
    if isinstance(value, float):
        return str(value)
    if isinstance(value, str):
        return f'the string "{shown(value)}"'
    return "a list" if isinstance(value, (list, tuple)) else "a table" if isinstance(value, dict) else "a date or time"


def shown(text: str, *, longest: int = 60) -> str:
    """Foreign text on one line, without control characters, shortened."""
    start = text[:longest]
    return (start if start.isprintable() else ascii(start)[1:-1]) + ("..." if len(text) > longest else "")


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigInvalid(f"must be true or false, not {named(value)}")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigInvalid(f"must be a number of seconds, not {named(value)}")
    if not value >= 0:  # also refuses NaN
        raise ConfigInvalid(f"must be 0 seconds or more, not {named(value)}")
    return float(min(value, LONGEST_SECONDS))


def _timeout(value: object) -> float:
    seconds = _seconds(value)
    if not seconds:
        raise ConfigInvalid("must be more than 0 seconds")
    return seconds


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
        raise ConfigInvalid(f"must be a whole number from 0 on, not {named(value)}")
    return value


def _text(kind: str, value: object, default: object) -> str | None:
    if not isinstance(value, str):
        raise ConfigInvalid(f"must be a string, not {named(value)}")
    if len(value) > LONGEST_TEXT:
        raise ConfigInvalid(f"must be at most {LONGEST_TEXT} characters, not {len(value)}")
    if any(letter < " " or letter == "\x7f" for letter in value):
        raise ConfigInvalid(f"must have no control characters: {named(value)}")
    if kind == "OptionalText":
        return value.strip() or None
    if kind == "Path" and not value and default:
        raise ConfigInvalid("must not be empty")
    if kind == "Place" and (value[:1] != "/" or ".." in value.split("/")):
        raise ConfigInvalid(f"must be an absolute path without .. in it, not {named(value)}")
    if kind == "Url" and (value or default):
        value = _url(value)
    if kind == "VmId" and value:
        _check_vm_id(value)
    return value


def _check_vm_id(value: str) -> None:
    """Accepts only a UUID, since the id becomes part of file names."""
    letters = set(value.lower())
    lengths = [len(group) for group in value.split("-")]
    # All zeros or all f: the firmware has no id.
    if lengths != [8, 4, 4, 4, 12] or letters - set("0123456789abcdef-") or len(letters) == 2:
        raise ConfigInvalid(f"must be a VM's UUID, not {named(value)}")


def _url(value: str) -> str:
    """The URL with a lower-case scheme."""
    if value[: len("http://")].lower() != "http://":
        raise ConfigInvalid(f"must start with http://, not {named(value)}")
    url = "http://" + value[len("http://") :]
    if not host_of(url) or set(url) & set('"<>\\^`{|}#'):
        port = "with a port from 1 to 65535 if it names one"
        raise ConfigInvalid(f"must be a plain http:// URL with a host, and {port}, not {named(value)}")
    return url


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise ConfigInvalid(f"must be a list of strings, not {named(value)}")
    for item in value:
        if not isinstance(item, str):
            raise ConfigInvalid(f"must be a list of strings, but holds {named(item)}")
    return tuple(value)


def _names(value: object) -> tuple[str, ...]:
    names = _strings(value)
    for name in names:
        if not name or not name.isprintable() or name[0] == "-" or len(name) > 255 or set(name) & set(" ,:"):
            raise ConfigInvalid(f"must be a list of group names, but holds {named(name)}")
    return names


def _choice(value: object, allowed: tuple[str, ...]) -> object:
    if value not in allowed:
        told = ", ".join(f'"{name}"' for name in allowed)
        raise ConfigInvalid(f"must be one of {told}, not {named(value)}")
    return value


def _choices(value: object, allowed: tuple[str, ...]) -> tuple[str, ...]:
    chosen = _strings(value)
    for choice in chosen:
        if choice not in allowed:
            told = ", ".join(f'"{name}"' for name in allowed)
            raise ConfigInvalid(f"must be a list out of {told}, but holds {named(choice)}")
    return chosen


KINDS: dict[str, Callable[[object], object]] = {
    "bool": _bool,
    "Seconds": _seconds,
    "Timeout": _timeout,
    "OptionalNames": _names,
    "Count": _count,
}
