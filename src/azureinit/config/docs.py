"""The meaning of every key, in a sentence: for the manual and for editors. Never loaded by a boot.

`python3 -m azureinit.config.docs` prints the reference block of docs/configuration.md; a test compares the two.
"""

from __future__ import annotations

import json

from azureinit.config.model import CHOICE, CHOICES, LONGEST_TEXT, SWITCH, Config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECTIONS: dict[str, str] = {
    "ssh": "Keys and the SSH server.",
    "access": "Whether the admin must be able to log in before Ready is reported.",
    "hostname_provisioners": "How the host name is set.",
    "user_provisioners": "How the account is made.",
    "password_provisioners": "How the account's password is set or locked.",
    "imds": "The instance metadata service.",
    "provisioning_media": "The DVD that carries ovf-env.xml.",
    "azure_proxy_agent": "The guest proxy agent, where the platform asks for one.",
    "wireserver": "The platform's side of the health report.",
    "report": "How the verdict is reported.",
    "telemetry": "Diagnostics besides the verdict.",
    "azure_init_data_dir": "The directory of markers and the journal.",
    "azure_init_log_path": "The log file.",
    "platform": "Which machine this is.",
    "sources": "How the answers of several sources are awaited.",
    "user": "The account.",
    "run": "Time limits of a run.",
    "boot": "A run as a service at boot.",
    "disk": "The machine's disks.",
    "waagent": "WALinuxAgent, where it was the provisioning agent before.",
    "hostname": "The host name, once the machine is provisioned.",
    "custom_data": "The VM's customData.",
    "kernel": "The kernel, its devices and its boot loader; each is undone by `azure-init deprovision`.",
    "userdata": "customData in cloud-init's formats: [userdata.md](userdata.md).",
    "readiness": "When Ready is reported to the platform.",
    "network": "NICs and addresses beyond the first, as IMDS lists them: [network.md](network.md).",
}

KEYS: dict[str, str] = {
    "ssh.authorized_keys_path": "The authorized keys file, relative to the home directory unless absolute; "
    "`%h`, `%u` and `%%` as in sshd.",
    "ssh.query_sshd_config": "Ask sshd which authorized keys file it reads, and use that one if it answers.",
    "ssh.configure_sshd_password_authentication": "Switch sshd's password authentication on or off "
    "as the platform asks; false leaves sshd alone.",
    "ssh.host_key_types": "The host keys that are made if they are missing, in this order.",
    "ssh.regenerate_host_keys": "Whether host keys that the image carries are removed and made anew when the VM is "
    "provisioned, once for each VM id. `auto`: those at sshd's default paths, unless cloud-init or WALinuxAgent has "
    "provisioned this VM before. `always`: those at other `HostKey` paths too, whatever the records say.",
    "ssh.client_alive_interval": "Seconds of silence after which sshd probes a client; 0 leaves sshd's setting alone.",
    "access.required": "Whether provisioning fails where the admin cannot log in over SSH: `auto` where that is "
    "certain, true also where it is in doubt, false never; a warning is always given.",
    "hostname_provisioners.backends": "Tried in order until one succeeds; `native` sets the name without a program.",
    "user_provisioners.backends": "Tried in order until one succeeds; `files` edits the account files itself, and "
    "leaves it to `useradd` wherever they are not all there is (directory services, SELinux, caches, auditing, "
    "programs that `useradd` runs, `login.defs.d`).",
    "password_provisioners.backends": "Tried in order until one succeeds; `passwd`, known from older files, "
    "locks the password if none was given.",
    "imds.endpoint": "Base URL of the service; the path is added to it.",
    "imds.connection_timeout_secs": "Longest wait for one connection.",
    "imds.request_timeout_secs": "Longest wait for one answer.",
    "imds.retry_interval_secs": "First delay between two attempts; later ones grow.",
    "imds.total_retry_timeout_secs": "Longest time for all attempts together.",
    "imds.final_after_secs": "How long the same refusal (a status that is not retried) or unusable answer must have "
    "come, five times at least, before it is final.",
    "provisioning_media.enable": "Look for provisioning media at all.",
    "provisioning_media.path": "A device, an image file or a directory to read; empty means find the device.",
    "provisioning_media.eject": "Eject the media before Ready is reported; not where Ignition may read them again.",
    "provisioning_media.wait_secs": "How long to wait for media when no other source has what they carry.",
    "azure_proxy_agent.enable": "Wait for azure-proxy-agent when the platform requires it.",
    "azure_proxy_agent.wait_secs": "How long azure-proxy-agent may take to be ready.",
    "wireserver.connection_timeout_secs": "Longest wait for one connection.",
    "wireserver.read_timeout_secs": "Longest wait for one answer.",
    "wireserver.retry_interval_secs": "First delay between two attempts; later ones grow.",
    "wireserver.total_retry_timeout_secs": "Longest time for all attempts together.",
    "wireserver.health_endpoint": "Where the verdict is sent.",
    "wireserver.discovery": "`dhcp` looks for the wireserver's address in DHCP leases if "
    "`wireserver.health_endpoint` names the usual one; `static` uses the configured one.",
    "report.protocol": "`json` is the platform's newer endpoint, `xml` the older one with its goal state; `auto` "
    "switches to the older after three refusals of the newer.",
    "report.host_key_fingerprint": "Send the platform, after Ready, the fingerprint of the first existing "
    "host key of `ssh.host_key_types`.",
    "telemetry.kvp_diagnostics": "Write diagnostics to the Hyper-V key-value pool for the host to read.",
    "telemetry.kvp_filter": "Which events go to the pool, as `level` or `target=level`, comma separated; "
    "unset means the default.",
    "telemetry.kvp_directory": "The directory of the key-value pools.",
    "telemetry.otlp_endpoint": "Base URL of an OpenTelemetry collector that takes OTLP/HTTP, such as "
    "`http://10.0.0.9:4318`; empty means none.",
    "telemetry.otlp_budget_secs": "Longest time for sending to the collector, after the verdict.",
    "telemetry.console": "Write start, verdict and host key fingerprints to the console, for boot diagnostics.",
    "telemetry.trace": "Keep a trace of every run, one JSON object a line, in the data directory.",
    "telemetry.log_bytes": "Size at which the log file is rotated to `.1`; 0 means no limit.",
    "azure_init_data_dir.path": "The directory.",
    "azure_init_log_path.path": "The file.",
    "platform.require_azure": "Do nothing on a machine that is not on Azure; false provisions anywhere.",
    "platform.vm_id": "The VM's id; empty means that of firmware or metadata.",
    "platform.changed_vm_id": "What to do on a VM that was provisioned under another id: `provision` provisions it "
    "again if a source asks for anything, `keep` leaves it as it is, removes the other VM's state, and reports Ready.",
    "sources.grace_secs": "How long to wait for the other source once one is sufficient.",
    "user.groups": "Supplementary groups of the account; groups that do not exist are skipped. Unset: an account that "
    'is created joins those of `adm`, `sudo` and `wheel` that exist (with `user.sudo = "none"`: `adm`), and one '
    "that exists gains none. `[]`: none.",
    "user.sudo": "Sudo for the account, by a file in /etc/sudoers.d. `auto`: without being asked for a password only "
    "if the account was given none. `nopasswd`: never asked. `password`: always asked. `none`: no such file.",
    "user.lock_root": "Remove root's password, at `azure-init deprovision` too; no copy is kept.",
    "user.allow_system_user": "Accept a system account as the admin, even `root`; never `nobody`.",
    "user.password_crypt_id": "The password's hash method, by its crypt(5) id (`y` is yescrypt, `6` SHA-512); `auto` "
    "is yescrypt if libcrypt supports it, else, and in FIPS mode, SHA-512.",
    "user.password_salt_length": "Length of the salt in characters; 0 means the method's default. An unsupported "
    "length becomes the nearest supported one.",
    "run.deadline_secs": "Longest time for a whole run.",
    "run.verdict_reserve_secs": "The part of it that is reserved for reporting a failure.",
    "boot.hold_logins_secs": "How long the boot waits for the run before sshd may start; the run continues after it.",
    "boot.network_secs": "How long a boot waits for a route to IMDS before it applies the media alone; a quarter of it "
    "where no link is up.",
    "boot.sources_secs": "How long a boot retries sources that do not answer, from the start of the service; "
    "`imds.total_retry_timeout_secs` if that is longer.",
    "boot.deadline_secs": "Longest time from the machine's start to the verdict; applies besides `run.deadline_secs`; "
    "a late start has a third of it.",
    "boot.pool_poll_secs": "How often a VM that waits in a pool asks for its customer's data while nothing announces a "
    "move; at least 1.",
    "disk.grow_root": "Grow the root partition and its file system at every boot if there is free space after it.",
    "disk.setup": "`auto`: `azure-init-disk.service` sets up the VM's temporary disks (local NVMe disks, SCSI resource "
    "disk) in every boot. The package `azure-init-disks` sets `auto`.",
    "disk.nvme": "What the local NVMe disks are for: `data`, one file system over all of them; `swap`; `off`, nothing.",
    "disk.scsi": "What the SCSI resource disk is for: `data`, a file system at `disk.scsi_mount_point`; `swap`; "
    "`fallback`, a file system at `disk.mount_point` if there is no local NVMe disk; `off`, nothing.",
    "disk.aggregation": "How several disks become one: `mdadm` (RAID 0), `lvm` (a striped volume), `none` (only the "
    "first disk is used). `auto`: mdadm, else LVM, else none, by what is installed.",
    "disk.chunk_kib": "Size of a stripe on one disk, in KiB.",
    "disk.md_name": "The name of the RAID array, or of the LVM volume group.",
    "disk.table": "Partition table: `none` uses the whole disk or array, `gpt` makes one partition on it; with LVM "
    "on each disk, for its physical volume.",
    "disk.filesystem": "The file system that is made.",
    "disk.label": "The label of the file system; XFS allows 12 characters.",
    "disk.mount_point": "Where the data file system is mounted. A path with a link in it, a directory that is not "
    "empty, or a mount point of another file system is refused.",
    "disk.scsi_mount_point": 'Where the file system of the resource disk is mounted with `disk.scsi = "data"`.',
    "disk.mount_options": "The options in /etc/fstab.",
    "disk.owner": "Owner of the new file system's top directory: USER, USER:GROUP or numeric ids. Empty: root.",
    "disk.swap": "Whether swap is a file on the data file system, or a partition (needs `disk.table`; with LVM it is a "
    "logical volume and needs none).",
    "disk.swap_mib": "Size of the swap beside data, in MiB; 0 means none.",
    "disk.notice": "Put a file into the file system that says that its data can be lost at any time.",
    "disk.trust_unreadable_ntfs": "Format a resource disk with the platform's NTFS label also if the content of its "
    "file system cannot be read and checked.",
    "waagent.honour": "Use the values of waagent.conf for keys that no azure-init file, variable or flag sets; "
    "`azure-init config import-waagent` shows them.",
    "waagent.lib_dir": "The directory where WALinuxAgent keeps its state.",
    "hostname.monitor": "Publish every change of the host name to the platform's DNS while the machine runs: "
    "`azure-init-hostname.service`.",
    "hostname.monitor_secs": "Longest time between two checks of the name; most changes are noticed at once.",
    "custom_data.save": "Keep customData as the file `CustomData` in `waagent.lib_dir`, base64 as received.",
    "custom_data.decode": "Decode it from base64 before it is saved.",
    "custom_data.execute": "Run it as a program before Ready, until it has succeeded once; implies the other two. A "
    "program that fails is a failure of the provisioning.",
    "custom_data.execute_timeout_secs": "Longest time that program may take; never longer than the run has left.",
    "kernel.scsi_timeout_secs": "Time that the kernel waits for an answer of a disk (SCSI or NVMe); 0 leaves it alone.",
    "kernel.mask_persistent_net": "Mask udev's rules that tie a network interface's name to its address.",
    "kernel.entropy": "Feed the kernel's random numbers from the table Hyper-V provides, on kernels before 6.9.",
    "kernel.numa_off": "Boot with `numa=off`; useful only for kernels up to 2.6.37.",
    "kernel.serial_console": "Boot with `console=ttyS0 earlyprintk=ttyS0`; on arm64 with `console=ttyAMA0 "
    "earlycon=pl011,0xeffec000`.",
    "userdata.enabled": "Carry out customData in cloud-init's formats. False where `custom_data.execute` is true; both "
    "set to true is an error.",
    "userdata.use": "`customdata-first`: IMDS's userData only where there is no customData. `both`: customData is "
    "merged over userData.",
    "userdata.cloud_init_compat": "Do as cloud-init does where the two differ: read `/etc/cloud/cloud.cfg` and "
    "`cloud.cfg.d`, write the files in `/run/cloud-init` and `/var/lib/cloud` that other programs read, run "
    "cloud-init's script directories, go on after a failed command.",
    "userdata.refresh": "At each later boot, ask IMDS once for userData (at most 10 s, before logins), and use one "
    "that has changed for what runs at every boot. False: a change is only logged; a person who may change it would be "
    "root on this VM.",
    "userdata.unknown": "What happens with data of an unknown format: a warning, or a failure.",
    "userdata.allow_http": "Fetch the URLs of include documents and files without TLS, too.",
    "userdata.jinja_sensitive": "Let templates read instance data that only root may read.",
    "userdata.runcmd_errors": "`stop`: a command of `runcmd` that fails ends it. `ignore`: the next one runs. `auto`: "
    "`ignore` with `userdata.cloud_init_compat`, otherwise `stop`.",
    "userdata.interrupted": "Work that a reboot or a crash interrupted: run again, or a failure.",
    "userdata.after_failure": "Whether the stages after a failed one run.",
    "userdata.network_secs": "Longest time of the stage before logins; logins wait for it.",
    "userdata.config_secs": "Longest time of the config stage.",
    "userdata.final_secs": "Longest time of the final stage.",
    "readiness.at": "`access`: the admin can log in. `config`, `final`: that stage of customData has succeeded, too.",
    "readiness.deadline_secs": "With `config` or `final`: seconds after the start of the machine when a failure is "
    "reported that names the command that is still running. At most 2100.",
    "network.configure": "Configure what IMDS lists beyond one NIC with one address; false changes nothing and leaves "
    "files of an earlier run as they are.",
    "network.secondary_addresses": "Secondary addresses of NICs.",
    "network.secondary_nics": "NICs other than the primary: their route metrics, DNS and policy routing.",
    "network.watch": "Follow changes while the machine runs: `azure-init-network.service`.",
    "network.watch_secs": "Longest time between two requests of that service to IMDS, while IMDS answers; up to a "
    "quarter of it is left off at random.",
}

KIND_NAMES = {
    "bool": "true or false",
    "Seconds": "seconds",
    "Timeout": "seconds, not 0",
    "Path": "path",
    "Place": "absolute path",
    "VmId": "UUID",
    "OptionalText": "string",
    "Url": "http:// URL",
    "OptionalNames": "list of names",
    "Count": "whole number",
    "Chunk": "whole number, a multiple of 4",
    "ArrayName": "name",
    "Label": "label",
    "Owner": "owner",
    "MountPoint": "absolute path",
    "MountOptions": "mount options",
}


def reference() -> str:
    """The reference part of the manual: one table for each section."""
    blocks = []
    for section, record in Config.defaults_.items():
        rows = [
            f"### `[{section}]`",
            "",
            SECTIONS[section],
            "",
            "| key | kind | default | meaning |",
            "|---|---|---|---|",
        ]
        for key, kind in type(record).fields_.items():
            told, default = kind_name(kind), getattr(record, key)
            shown = "unset" if default is None else f"`{toml(default)}`"
            rows.append(f"| `{section}.{key}` | {told} | {shown} | {KEYS[f'{section}.{key}']} |")
        blocks.append("\n".join(rows) + "\n")
    return "\n".join(blocks)


def kind_name(kind: str) -> str:
    if kind in CHOICES:
        return "list out of " + ", ".join(f"`{choice}`" for choice in CHOICES[kind])
    if kind in CHOICE:
        told = "one of " + ", ".join(f"`{choice}`" for choice in CHOICE[kind])
        return told + ("; true means `{1}`, false `{0}`".format(*SWITCH[kind]) if kind in SWITCH else "")
    return KIND_NAMES[kind]


def toml(value: object) -> str:
    """A value as TOML. Text without control characters is the same in TOML and JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(plain(value), ensure_ascii=False)


def plain(value: object) -> object:
    """A value as JSON; whole numbers without the trailing .0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return list(value) if isinstance(value, tuple) else value


def schema() -> dict[str, Any]:
    """JSON Schema of a configuration file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "azure-init configuration",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            section: {
                "type": "object",
                "description": SECTIONS[section],
                "additionalProperties": False,
                "properties": {
                    key: _key_schema(kind, getattr(record, key), KEYS[f"{section}.{key}"])
                    for key, kind in type(record).fields_.items()
                },
            }
            for section, record in Config.defaults_.items()
        },
    }


def _key_schema(kind: str, default: object, description: str) -> dict[str, Any]:
    told: dict[str, Any] = {"description": description, **_kind_schema(kind)}
    if default is not None:
        told["default"] = plain(default)
    if kind in ("Path", "ArrayName", "Label") and default:
        told["minLength"] = 1
    if kind == "Url" and not default:
        told["pattern"] = f"^$|{told['pattern']}"
    return told


def _kind_schema(kind: str) -> dict[str, Any]:
    if kind in CHOICES:
        return {"type": "array", "items": {"enum": list(CHOICES[kind])}}
    if kind in CHOICE:
        return {"enum": [*CHOICE[kind], *((True, False) if kind in SWITCH else ())]}
    text = {"type": "string", "maxLength": LONGEST_TEXT, "pattern": "^[^\\u0000-\\u001f\\u007f]*$"}
    kinds: dict[str, dict[str, Any]] = {
        "bool": {"type": "boolean"},
        "Count": {"type": "integer", "minimum": 0},
        "Chunk": {"type": "integer", "minimum": 4, "maximum": 1 << 20, "multipleOf": 4},
        "ArrayName": {"type": "string", "maxLength": 32, "pattern": "^([A-Za-z0-9_][A-Za-z0-9_-]*)?$"},
        "Label": {"type": "string", "maxLength": 16, "pattern": "^([A-Za-z0-9_.][A-Za-z0-9_.-]*)?$"},
        "Owner": {"type": "string", "maxLength": 255, "pattern": "^([A-Za-z0-9_.:][A-Za-z0-9_.:-]*)?$"},
        "MountPoint": {
            "type": "string",
            "maxLength": LONGEST_TEXT,
            "pattern": "^(/(?!\\.{1,2}(/|$))[A-Za-z0-9_.-]+)+/*$",
        },
        "MountOptions": {**text, "pattern": '^[^\\s,#"\\\\]+(,[^\\s,#"\\\\]+)*$'},
        "Seconds": {"type": "number", "minimum": 0},
        "Timeout": {"type": "number", "exclusiveMinimum": 0},
        "Path": text,
        "Place": {**text, "pattern": "^/(?!([^/]*/)*\\.\\.(/|$))[^\\u0000-\\u001f\\u007f]*$"},
        "VmId": {"type": "string", "pattern": "^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})?$"},
        "OptionalText": text,
        "Url": {"type": "string", "maxLength": LONGEST_TEXT, "pattern": "^http://[^\\s/]+(/\\S*)?$"},
        "OptionalNames": {
            "type": "array",
            "items": {"type": "string", "maxLength": 255, "pattern": "^[^-\\s,:][^\\s,:]*$"},
        },
    }
    return kinds[kind]


if __name__ == "__main__":
    print(reference())
