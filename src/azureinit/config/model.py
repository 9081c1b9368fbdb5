"""The schema: a class is a section, a field is a key, its annotation is the key's kind, its value the default.

`checked`, in values.py, alone decides what a kind accepts. docs.py documents the same for people and editors.
"""

from __future__ import annotations

from azureinit.addresses import IMDS, WIRESERVER
from azureinit.config.values import (
    CHOICE as CHOICE,
    CHOICES as CHOICES,
    LONGEST_TEXT as LONGEST_TEXT,
    SWITCH as SWITCH,
    checked as checked,
    named as named,
    shown as shown,
)
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    Chunk = int
    ArrayName = str
    Label = str
    MountPoint = str
    MountOptions = str
    Owner = str
    UserdataUse = str
    Unknown = str
    Interrupted = str
    CommandErrors = str
    AfterFailure = str
    ReadyAt = str

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
    pool_poll_secs: Timeout = 60.0


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
    chunk_kib: Chunk = 512
    md_name: ArrayName = "azure-ephemeral-md"
    table: Table = "none"
    filesystem: Filesystem = "ext4"
    label: Label = "AzureEphmDsk"
    mount_point: MountPoint = "/mnt"
    scsi_mount_point: MountPoint = "/mnt/resource"
    mount_options: MountOptions = "defaults,nofail,comment=azure-ephemeral-disk-setup"
    owner: Owner = ""
    swap: SwapKind = "file"
    swap_mib: Count = 0
    notice: bool = True
    trust_unreadable_ntfs: bool = False


class Userdata(Record):
    """customData in cloud-init's formats."""

    enabled: bool = True
    use: UserdataUse = "customdata-first"
    cloud_init_compat: bool = False
    refresh: bool = False
    unknown: Unknown = "caution"
    allow_http: bool = False
    jinja_sensitive: bool = False
    runcmd_errors: CommandErrors = "auto"
    interrupted: Interrupted = "rerun"
    after_failure: AfterFailure = "continue"
    network_secs: Timeout = 300.0
    config_secs: Timeout = 1200.0
    final_secs: Timeout = 3600.0


class Readiness(Record):
    at: ReadyAt = "access"
    deadline_secs: Timeout = 900.0


class Network(Record):
    """NICs and addresses beyond the first, as IMDS lists them."""

    configure: bool = True
    secondary_addresses: bool = True
    secondary_nics: bool = True
    watch: bool = False
    watch_secs: Timeout = 60.0


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
    userdata: Userdata = Userdata()
    readiness: Readiness = Readiness()
    network: Network = Network()
