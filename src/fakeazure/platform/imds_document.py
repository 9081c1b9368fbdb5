"""The instance metadata document: its content by API version, and access by path."""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv6Interface
from typing import Any

from fakeazure.platform.vm import Disk, Imds, Interface, Vm, as_bytes

# Path -> the first API version that has it; other paths exist in all versions.
SINCE = {
    "compute.azEnvironment": "2018-10-01",
    "compute.additionalCapabilities": "2021-11-01",
    "compute.customData": "2019-02-01",
    "compute.evictionPolicy": "2020-12-01",
    "compute.extendedLocation": "2021-03-01",
    "compute.host": "2021-11-15",
    "compute.hostGroup": "2021-11-15",
    "compute.isHostCompatibilityLayerVm": "2020-06-01",
    "compute.isVmInStandbyPool": "2023-11-15",
    "compute.licenseType": "2020-09-01",
    "compute.osProfile": "2020-07-15",
    "compute.osProfile.disablePasswordAuthentication": "2020-10-01",
    "compute.physicalZone": "2023-11-15",
    "compute.placementGroupId": "2017-08-01",
    "compute.plan": "2018-04-02",
    "compute.platformSubFaultDomain": "2021-10-01",
    "compute.priority": "2020-12-01",
    "compute.provider": "2018-10-01",
    "compute.publicKeys": "2018-04-02",
    "compute.resourceGroupName": "2017-08-01",
    "compute.resourceId": "2019-03-11",
    "compute.securityProfile": "2020-06-01",
    "compute.securityProfile.encryptionAtHost": "2021-11-01",
    "compute.securityProfile.securityType": "2021-12-13",
    "compute.storageProfile": "2019-06-01",
    "compute.storageProfile.dataDisks.bytesPerSecondThrottle": "2021-05-01",
    "compute.storageProfile.dataDisks.diskCapacityBytes": "2021-05-01",
    "compute.storageProfile.dataDisks.isSharedDisk": "2021-05-01",
    "compute.storageProfile.dataDisks.isUltraDisk": "2021-05-01",
    "compute.storageProfile.dataDisks.opsPerSecondThrottle": "2021-05-01",
    "compute.storageProfile.imageReference.communityGalleryImageId": "2023-07-01",
    "compute.storageProfile.imageReference.exactVersion": "2023-07-01",
    "compute.storageProfile.imageReference.sharedGalleryImageId": "2023-07-01",
    "compute.storageProfile.osDisk.encryptionSettings.diskEncryptionKey": "2021-11-01",
    "compute.storageProfile.osDisk.encryptionSettings.keyEncryptionKey": "2021-11-01",
    "compute.storageProfile.resourceDisk": "2021-02-01",
    "compute.subscriptionId": "2017-08-01",
    "compute.tags": "2017-08-01",
    "compute.tagsList": "2019-06-04",
    "compute.userData": "2021-01-01",
    "compute.virtualMachineScaleSet": "2021-03-01",
    "compute.vmScaleSetName": "2017-12-01",
    "compute.zone": "2017-12-01",
    "extended": "2021-08-01",
    "network": "2017-04-02",
}
SUBSCRIPTION = "8d10da13-8125-4ba9-a717-bf7490507b3d"
GROUP = "fakeazure"
# Temporary disk -> a VM size that has it.
SIZES = {"scsi": "Standard_D2ds_v5", "nvme": "Standard_D2ds_v6", "none": "Standard_D2s_v5"}


def document(vm: Vm, imds: Imds, *, version: str, extended: bool, boot: int = 1) -> dict[str, Any]:
    whole: dict[str, Any] = {"compute": compute(vm), "network": network(vm, imds, boot=boot)}
    if extended:
        whole["extended"] = {"compute": {"hasCustomData": bool(vm.custom_data), "ppsType": vm.pps_type}}
    for path, since in SINCE.items():
        if version < since:
            remove_path(whole, path)
    overlay(whole, imds.set)
    overlay(whole, json.loads(imds.set_json or "{}"))
    for path in imds.remove:
        remove_path(whole, path)
    return whole


def compute(vm: Vm) -> dict[str, Any]:
    provider = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute"
    disk = f"{vm.name}_OsDisk_1"
    return {
        "additionalCapabilities": {"hibernationEnabled": "false"},
        "azEnvironment": "AzurePublicCloud",
        "customData": "",  # part of the schema, but always empty
        "evictionPolicy": "",
        "extendedLocation": {"name": "", "type": ""},
        "host": {"id": ""},
        "hostGroup": {"id": ""},
        "isHostCompatibilityLayerVm": "false",
        "isVmInStandbyPool": "",
        "licenseType": "",
        "location": vm.location,
        "name": vm.name,
        "offer": "debian-13",
        "osProfile": os_profile(vm),
        "osType": "Linux",
        "physicalZone": "",
        "placementGroupId": "",
        "plan": {"name": "", "product": "", "publisher": ""},
        "platformFaultDomain": "0",
        "platformSubFaultDomain": "",
        "platformUpdateDomain": "0",
        "priority": "",
        "provider": "Microsoft.Compute",
        "publicKeys": [
            {"keyData": key.data, "path": key.path} for key in vm.public_keys if key.data and not vm.specialised
        ],
        "publisher": "Debian",
        "resourceGroupName": GROUP,
        "resourceId": f"{provider}/virtualMachines/{vm.name}",
        "securityProfile": {
            "encryptionAtHost": "false",
            "secureBootEnabled": "false",
            "securityType": "",
            "virtualTpmEnabled": "false",
        },
        "sku": "13" if vm.generation == 1 else "13-gen2",
        "storageProfile": {
            "dataDisks": [data_disk(vm, disk, provider=provider) for disk in vm.disks],
            "imageReference": {
                "communityGalleryImageId": "",
                "exactVersion": "0.20250814.2204",
                "id": "",
                "offer": "debian-13",
                "publisher": "Debian",
                "sharedGalleryImageId": "",
                "sku": "13" if vm.generation == 1 else "13-gen2",
                "version": "latest",
            },
            "osDisk": {
                "caching": "ReadWrite",
                "createOption": "FromImage",
                "diffDiskSettings": {"option": ""},
                "diskSizeGB": "30",
                "encryptionSettings": {"enabled": "false", "diskEncryptionKey": {}, "keyEncryptionKey": {}},
                "image": {"uri": ""},
                "managedDisk": {"id": f"{provider}/disks/{disk}", "storageAccountType": "Premium_LRS"},
                "name": disk,
                "osType": "Linux",
                "vhd": {"uri": ""},
                "writeAcceleratorEnabled": "false",
            },
            # In MB; a temporary disk on NVMe is not in the metadata.
            "resourceDisk": {"size": str(vm.temporary_disk_gb * 1024 if vm.temporary_disk == "scsi" else 0)},
        },
        "subscriptionId": SUBSCRIPTION,
        "tags": ";".join(f"{name}:{value}" for name, value in vm.tags.items()),
        "tagsList": [{"name": name, "value": value} for name, value in vm.tags.items()],
        "userData": base64.b64encode(as_bytes(vm.user_data or b"")).decode(),
        "version": "0.20250814.2204",
        "virtualMachineScaleSet": {"id": ""},
        "vmId": vm.id,
        "vmScaleSetName": "",
        "vmSize": SIZES[vm.temporary_disk],
        "zone": "",
    }


def os_profile(vm: Vm) -> dict[str, str]:
    if vm.specialised:
        return {"adminUsername": "", "computerName": "", "disablePasswordAuthentication": ""}
    return {
        "adminUsername": vm.username,
        "computerName": vm.name,
        "disablePasswordAuthentication": "true" if vm.password_disabled else "false",  # a string, as in Azure
    }


def data_disk(vm: Vm, disk: Disk, *, provider: str) -> dict[str, Any]:
    name = disk.name or f"{vm.name}_DataDisk_{disk.lun}"
    return {
        "bytesPerSecondThrottle": "26214400",
        "caching": disk.caching,
        "createOption": "Empty",
        "diskCapacityBytes": str(disk.size_gb * 1024**3),
        "diskSizeGB": str(disk.size_gb),
        "image": {"uri": ""},
        "isSharedDisk": "false",
        "isUltraDisk": "false",
        "lun": str(disk.lun),
        "managedDisk": {"id": f"{provider}/disks/{name}", "storageAccountType": "Premium_LRS"},
        "name": name,
        "opsPerSecondThrottle": "120",
        "vhd": {"uri": ""},
        "writeAcceleratorEnabled": "false",
    }


def network(vm: Vm, imds: Imds, *, boot: int) -> dict[str, Any]:
    """The order of the interfaces says nothing: Azure does not guarantee it, and it changes over reboots."""
    nics = list(vm.interfaces)
    if imds.secondary is not None:
        given = dict(enumerate(imds.secondary))
        nics = [replace(nic, secondary=given.get(n, ())) for n, nic in enumerate(nics)]
    listed = [nic for n, nic in enumerate(nics) if imds.listed is None or n in imds.listed]
    if imds.nic_order == "reversed":
        listed.reverse()
    if imds.nic_order == "random":
        random.Random(f"{vm.id}/{boot}").shuffle(listed)
    return {"interface": [interface(one) for one in listed]}


def interface(one: Interface) -> dict[str, Any]:
    first = {"privateIpAddress": one.address, "publicIpAddress": one.public_address}
    further = [{"privateIpAddress": address, "publicIpAddress": ""} for address in one.secondary]
    ipv6: dict[str, Any] = {"ipAddress": [{"privateIpAddress": address} for address in one.ipv6]}
    if one.ipv6 and one.ipv6_prefix:
        subnet = IPv6Interface(f"{one.ipv6[0]}/{one.ipv6_prefix}").network.network_address
        ipv6["subnet"] = [{"address": str(subnet), "prefix": str(one.ipv6_prefix)}]
    return {
        "ipv4": {
            "ipAddress": [first, *further],
            "subnet": [{"address": one.subnet, "prefix": str(one.prefix)}],
        },
        "ipv6": ipv6,
        "macAddress": one.mac.replace(":", "").upper(),
    }


def overlay(whole: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, change in changes.items():
        if isinstance(change, Mapping) and isinstance(whole.get(name), dict):
            overlay(whole[name], change)
        else:
            whole[name] = copy.deepcopy(change)


def remove_path(whole: Any, path: str) -> None:
    """Removes a path from an object, or from each item of a list."""
    if isinstance(whole, list):
        for one in whole:
            remove_path(one, path)
    elif isinstance(whole, dict):
        parent, _, rest = path.partition(".")
        if rest:
            remove_path(whole.get(parent), rest)
        else:
            whole.pop(parent, None)


class NoSuchElement(LookupError):
    """The document has no such path."""


def element(whole: Any, path: Sequence[str]) -> Any:
    """The value at `compute/publicKeys/0`: case-insensitive names, and indexes of lists."""
    for part in path:
        if isinstance(whole, dict):
            names = {name.lower(): name for name in whole}
            if part.lower() not in names:
                raise NoSuchElement(part)
            whole = whole[names[part.lower()]]
        elif isinstance(whole, list) and part.isascii() and part.isdigit() and int(part) < len(whole):
            whole = whole[int(part)]
        else:
            raise NoSuchElement(part)
    return whole


def as_text(value: Any) -> str:
    """A leaf as text; of an object or list, the names or indexes, one per line, with a slash if it is no leaf."""
    if isinstance(value, dict):
        return "\n".join(name + ("/" if isinstance(inner, dict | list) else "") for name, inner in value.items())
    if isinstance(value, list):
        return "\n".join(f"{n}/" if isinstance(inner, dict | list) else str(n) for n, inner in enumerate(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
