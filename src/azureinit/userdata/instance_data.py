"""Instance data: what templates and `azure-init query` know about the VM, by cloud-init's names. Pure.

Without the sensitive parts everybody on the VM may read them. Of IMDS's document there is what Metadata keeps, or the
whole where it is given.
"""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.record import Secret
    from azureinit.sources.metadata import Metadata

REDACTED = "redacted for non-root user"
# Names of keys, or paths, whose values only root may read. In lower case.
SENSITIVE = (
    "combined_cloud_config",
    "merged_cfg",
    "merged_system_cfg",
    "security-credentials",
    "userdata",
    "user-data",
    "user_data",
    "vendordata",
    "vendor-data",
    "ds/vendor_data",
    "random_seed",
    "customdata",
)
CLOUD = "azure"
IN_CHINA = "china"  # regions whose names begin with this are a cloud of their own
UNKNOWN = "unknown"


class System(Record):
    """What the machine itself says."""

    release: Mapping[str, str] = {}  # /etc/os-release
    kernel: str = ""
    architecture: str = ""
    python: str = ""
    hostname: str = ""


def instance_data(
    metadata: Metadata,
    system: System,
    *,
    vm_id: str,
    imds: Mapping[str, Any] | None = None,
    image_config: Mapping[str, Any] | None = None,
    userdata: Secret | None = None,
) -> dict[str, Any]:
    """With everything that is sensitive, and the list of it."""
    document = dict(imds) if imds is not None else _imds(metadata, vm_id)
    compute = document.get("compute") if isinstance(document.get("compute"), dict) else {}
    made: dict[str, Any] = {
        "ds": {
            "_doc": "The names below ds may change between versions.",
            "meta_data": {
                "imds": document,
                "instance-id": vm_id,
                "local-hostname": metadata.hostname or system.hostname,
                "public-keys": [key.data for key in metadata.keys],
            },
        },
        "merged_cfg": dict(image_config or {}),
        "merged_system_cfg": dict(image_config or {}),
        "sys_info": _sys_info(system),
        "v1": _standard(metadata, system, vm_id, compute or {}),
    }
    if userdata is not None:
        made["userdata"] = userdata.reveal().decode("utf-8", "replace")
    made["base64_encoded_keys"] = []
    made["sensitive_keys"] = sorted(_sensitive(made))
    return made


def cloud_id(region: str) -> str:
    return f"{CLOUD}-{IN_CHINA}" if region.startswith(IN_CHINA) else CLOUD


def redacted(data: Mapping[str, Any]) -> dict[str, Any]:
    """What everybody may read."""

    def copied(value: Any, path: str) -> Any:
        if path in hidden:
            return REDACTED
        if isinstance(value, dict):
            return {key: copied(inner, f"{path}/{key}" if path else str(key)) for key, inner in value.items()}
        return value

    hidden = frozenset(data.get("sensitive_keys", ()))
    made: dict[str, Any] = copied(dict(data), "")
    return made


def _standard(metadata: Metadata, system: System, vm_id: str, compute: Mapping[str, Any]) -> dict[str, Any]:
    region = _text(compute.get("location"))
    zone = _text(compute.get("platformFaultDomain")) or None
    name = metadata.hostname or system.hostname
    distro, version, codename = _distro(system)
    return {
        "_beta_keys": ["subplatform"],
        "availability-zone": zone,
        "availability_zone": zone,
        "cloud-name": CLOUD,
        "cloud_id": cloud_id(region),
        "cloud_name": CLOUD,
        "distro": distro,
        "distro_release": codename,
        "distro_version": version,
        "instance-id": vm_id,
        "instance_id": vm_id,
        "kernel_release": system.kernel,
        "local-hostname": name,
        "local_hostname": name,
        "machine": system.architecture,
        "platform": CLOUD,
        "public_ssh_keys": [key.data for key in metadata.keys],
        "python_version": system.python,
        "region": region or None,
        "subplatform": "imds (imds)",
        "system_platform": f"Linux-{system.kernel}-{system.architecture}",
        "variant": distro,
    }


def _sys_info(system: System) -> dict[str, Any]:
    return {
        "dist": list(_distro(system)),
        "platform": f"Linux-{system.kernel}-{system.architecture}",
        "python": system.python,
        "release": system.kernel,
        "system": "Linux",
        "uname": ["Linux", system.hostname, system.kernel, "", system.architecture, ""],
        "variant": _distro(system)[0],
    }


def _distro(system: System) -> tuple[str, str, str]:
    release = system.release
    return release.get("ID", UNKNOWN), release.get("VERSION_ID", ""), release.get("VERSION_CODENAME", "")


def _imds(metadata: Metadata, vm_id: str) -> dict[str, Any]:
    profile = {"adminUsername": metadata.username, "computerName": metadata.hostname}
    if metadata.disable_password is not None:
        profile["disablePasswordAuthentication"] = str(metadata.disable_password).lower()
    keys = [{"keyData": key.data, "path": key.path} for key in metadata.keys]
    return {"compute": {**metadata.about, "osProfile": profile, "publicKeys": keys, "vmId": vm_id}}


def _sensitive(data: Mapping[str, Any], above: str = "") -> list[str]:
    found: list[str] = []
    for key, value in data.items():
        path = f"{above}/{key}" if above else str(key)
        if str(key).lower() in SENSITIVE or path.lower() in SENSITIVE:
            found.append(path)
        elif isinstance(value, dict):
            found += _sensitive(value, path)
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
