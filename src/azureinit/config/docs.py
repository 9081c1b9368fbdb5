"""A sentence for every configuration key, for the manual and for editors. Not on the boot path.

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
    "user_provisioners": "How the account is created.",
    "password_provisioners": "How the account's password is set or locked.",
    "imds": "The instance metadata service.",
    "provisioning_media": "The DVD that carries ovf-env.xml.",
    "azure_proxy_agent": "The guest proxy agent, if the platform asks for one.",
    "wireserver": "The endpoint that receives the health report.",
    "report": "How the verdict is reported.",
    "telemetry": "Diagnostics besides the verdict.",
    "azure_init_data_dir": "The directory of markers and the journal.",
    "azure_init_log_path": "The log file.",
    "platform": "How this machine is identified.",
    "sources": "How long the run waits for several sources.",
    "user": "The account.",
    "run": "The time limits of a run.",
    "boot": "The time limits of a run that is a service of the boot.",
    "disk": "The machine's disks.",
    "waagent": "WALinuxAgent, if it was the provisioning agent before.",
    "hostname": "The host name, after the machine is provisioned.",
    "custom_data": "The customData of the VM.",
    "kernel": "The kernel, its devices and its boot loader; `azure-init deprovision` undoes each of these settings.",
}

KEYS: dict[str, str] = {
    "ssh.authorized_keys_path": "The authorized keys file, relative to the home directory unless absolute; "
    "`%h`, `%u` and `%%` as in sshd_config.",
    "ssh.query_sshd_config": "Ask sshd which authorized keys file it reads, and use that one if sshd answers.",
    "ssh.configure_sshd_password_authentication": "Turn sshd's password authentication on or off "
    "as the platform asks; false leaves sshd's setting unchanged.",
    "ssh.host_key_types": "The types of host keys to make if they are missing, in this order.",
    "ssh.regenerate_host_keys": "Whether host keys that the image contains are replaced when the VM is "
    "provisioned, once for each VM id. `auto`: those at sshd's default paths, unless cloud-init or WALinuxAgent has "
    "provisioned this VM before. `always`: also those at other `HostKey` paths, whatever the records say.",
    "ssh.client_alive_interval": "Seconds without traffic after which sshd checks whether a client is still there "
    "(`ClientAliveInterval`); 0 leaves sshd's setting unchanged.",
    "access.required": "Whether provisioning fails if the admin cannot log in over SSH. `auto`: if that is "
    "certain. true: also if it is in doubt. false: never. The run always logs a warning.",
    "hostname_provisioners.backends": "Tried in order until one succeeds; `native` sets the name without a program.",
    "user_provisioners.backends": "Tried in order until one succeeds; `files` edits the account files itself, and "
    "declines in favour of `useradd` if accounts depend on more than these files (directory services, SELinux, "
    "caches, auditing, programs that `useradd` runs, `login.defs.d`).",
    "password_provisioners.backends": "Tried in order until one succeeds; `passwd`, accepted for older files, "
    "locks the password if none was given.",
    "imds.endpoint": "Base URL of the service; the path is appended to it.",
    "imds.connection_timeout_secs": "Longest wait for one connection.",
    "imds.request_timeout_secs": "Longest wait for one answer.",
    "imds.retry_interval_secs": "First delay between two tries; later delays grow.",
    "imds.total_retry_timeout_secs": "Longest time for all tries together.",
    "imds.final_after_secs": "How long IMDS must repeat the same refusal (a status that is not retried) or unusable "
    "answer, at least five times, before it is final.",
    "provisioning_media.enable": "Whether the run looks for provisioning media.",
    "provisioning_media.path": "A device, an image file or a directory to read; empty means find the device.",
    "provisioning_media.eject": "Eject the media before Ready is reported; not if Ignition may read them again.",
    "provisioning_media.wait_secs": "How long the run waits for media if no other source gives what they carry.",
    "azure_proxy_agent.enable": "Wait for azure-proxy-agent if it guards the access to the platform.",
    "azure_proxy_agent.wait_secs": "How long azure-proxy-agent may take to become ready.",
    "wireserver.connection_timeout_secs": "Longest wait for one connection.",
    "wireserver.read_timeout_secs": "Longest wait for one answer.",
    "wireserver.retry_interval_secs": "First delay between two tries; later delays grow.",
    "wireserver.total_retry_timeout_secs": "Longest time for all tries together.",
    "wireserver.health_endpoint": "The URL to which the verdict is sent.",
    "wireserver.discovery": "`dhcp` reads the wireserver's address from DHCP leases if `wireserver.health_endpoint` "
    "names the usual address; `static` uses the usual address without asking.",
    "report.protocol": "`json` is the platform's newer endpoint, `xml` the older one with its goal state; `auto` "
    "changes to the older one after the newer one has refused three times.",
    "report.host_key_fingerprint": "Report to the platform, after Ready, the fingerprint of the first existing key of "
    "`ssh.host_key_types`.",
    "telemetry.kvp_diagnostics": "Write diagnostics to the Hyper-V key-value pool for the host to read.",
    "telemetry.kvp_filter": "Which events go to the pool, as `level` or `target=level`, comma separated; "
    "unset means the built-in filter.",
    "telemetry.kvp_directory": "The directory of the key-value pools.",
    "telemetry.otlp_endpoint": "Base URL of an OpenTelemetry collector that accepts OTLP/HTTP, such as "
    "`http://10.0.0.9:4318`; empty means none.",
    "telemetry.otlp_budget_secs": "Longest time for sending to the collector, after the verdict.",
    "telemetry.console": "Write start, verdict and host key fingerprints to the console, for boot diagnostics.",
    "telemetry.trace": "Write a trace of every run to the data directory, one JSON object a line.",
    "telemetry.log_bytes": "Size at which the log file is rotated to `.1`; 0 means never.",
    "azure_init_data_dir.path": "The directory.",
    "azure_init_log_path.path": "The file.",
    "platform.require_azure": "Do nothing on a machine that is not on Azure; false provisions on any machine.",
    "platform.vm_id": "The VM's id, instead of the one from firmware or metadata; empty means use those.",
    "platform.changed_vm_id": "What happens to a VM that was provisioned under another id. `provision`: it is "
    "provisioned again if a source gives something to provision. `keep`: it stays as it is, the state that belonged "
    "to the other VM is removed, and Ready is reported.",
    "sources.grace_secs": "How long the run waits for the other source after one has given enough.",
    "user.groups": "Supplementary groups of the account; groups that do not exist are skipped. Unset: a new account "
    'joins those of `adm`, `sudo` and `wheel` that exist (with `user.sudo = "none"`: `adm`), and an existing '
    "account gets none. `[]`: none.",
    "user.sudo": "Sudo for the account, by a file in /etc/sudoers.d. `auto`: sudo asks for a password only "
    "if the account was given one. `nopasswd`: never asks. `password`: always asks. `none`: no such file.",
    "user.lock_root": "Remove root's password, also at `azure-init deprovision`; no copy of the hash is kept.",
    "user.allow_system_user": "Allow the platform to name a system account as the admin, even root; never "
    "the account `nobody`.",
    "user.password_crypt_id": "How the password is hashed, by the prefix of such hashes (`y` is yescrypt, `6` "
    "SHA-512); `auto` uses yescrypt if this system's libcrypt has it, else, and in FIPS mode, SHA-512.",
    "user.password_salt_length": "Length of the salt in characters; 0 means the usual length. A length that the method "
    "does not support becomes the nearest supported one.",
    "run.deadline_secs": "Longest time for a whole run.",
    "run.verdict_reserve_secs": "The part of it that is reserved for reporting a failure.",
    "boot.hold_logins_secs": "How long sshd and logins wait for the run; the run continues afterwards.",
    "boot.network_secs": "How long a boot waits for a route to IMDS before it applies the media alone; a quarter of it "
    "if no link is up.",
    "boot.sources_secs": "How long a boot asks sources that do not answer, from the start of the service; "
    "`imds.total_retry_timeout_secs`, if that is longer.",
    "boot.deadline_secs": "Longest time from the machine's start to the verdict, in addition to `run.deadline_secs`; "
    "a service that starts late has a third of it.",
    "disk.grow_root": "Grow the root partition and its file system at every boot if there is free space behind it.",
    "waagent.honour": "Use the values of waagent.conf for settings that no configuration file of azure-init, variable "
    "or flag gives; `azure-init config import-waagent` shows them.",
    "waagent.lib_dir": "The directory where WALinuxAgent keeps its state.",
    "hostname.monitor": "Announce later changes of the host name to the platform's DNS, while the machine "
    "runs: `azure-init-hostname.service`.",
    "hostname.monitor_secs": "Longest time between two checks of the name; most changes are seen at once.",
    "custom_data.save": "Save customData as the file `CustomData` in `waagent.lib_dir`, in base64 as it was given.",
    "custom_data.decode": "Decode customData from base64 before it is saved.",
    "custom_data.execute": "Run customData as a program before Ready, until it has succeeded once; implies the other "
    "two. If the program fails, provisioning fails.",
    "custom_data.execute_timeout_secs": "Longest time for that program; never longer than the run has left.",
    "kernel.scsi_timeout_secs": "How long the kernel waits for a disk (SCSI or NVMe) to answer; 0 leaves the "
    "kernel's setting unchanged.",
    "kernel.mask_persistent_net": "Mask udev's rules that bind a network interface's name to its address.",
    "kernel.entropy": "Feed the kernel's random number generator from the table that Hyper-V provides, on kernels "
    "before 6.9.",
    "kernel.numa_off": "Boot with `numa=off`; useful only for kernels up to 2.6.37.",
    "kernel.serial_console": "Boot with `console=ttyS0 earlyprintk=ttyS0`; on arm64 with `console=ttyAMA0 "
    "earlycon=pl011,0xeffec000`.",
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
            described, default = kind_name(kind), getattr(record, key)
            shown = "unset" if default is None else f"`{toml(default)}`"
            rows.append(f"| `{section}.{key}` | {described} | {shown} | {KEYS[f'{section}.{key}']} |")
        blocks.append("\n".join(rows) + "\n")
    return "\n".join(blocks)


def kind_name(kind: str) -> str:
    if kind in CHOICES:
        return "list out of " + ", ".join(f"`{choice}`" for choice in CHOICES[kind])
    if kind in CHOICE:
        described = "one of " + ", ".join(f"`{choice}`" for choice in CHOICE[kind])
        return described + ("; true means `{1}`, false `{0}`".format(*SWITCH[kind]) if kind in SWITCH else "")
    return KIND_NAMES[kind]


def toml(value: object) -> str:
    """A configuration value as TOML. Text without control characters is the same in TOML and JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(plain(value), ensure_ascii=False)


def plain(value: object) -> object:
    """A configuration value as JSON; whole numbers without `.0`."""
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
    described: dict[str, Any] = {"description": description, **_kind_schema(kind)}
    if default is not None:
        described["default"] = plain(default)
    if kind == "Path" and default:
        described["minLength"] = 1
    if kind == "Url" and not default:
        described["pattern"] = f"^$|{described['pattern']}"
    return described


def _kind_schema(kind: str) -> dict[str, Any]:
    if kind in CHOICES:
        return {"type": "array", "items": {"enum": list(CHOICES[kind])}}
    if kind in CHOICE:
        return {"enum": [*CHOICE[kind], *((True, False) if kind in SWITCH else ())]}
    text = {"type": "string", "maxLength": LONGEST_TEXT, "pattern": "^[^\\u0000-\\u001f\\u007f]*$"}
    kinds: dict[str, dict[str, Any]] = {
        "bool": {"type": "boolean"},
        "Count": {"type": "integer", "minimum": 0},
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
