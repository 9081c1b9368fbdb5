"""The instance metadata service: what it says of a machine, in which version, and whom it turns away."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from typing import Any

from fakeazure.http import HttpRequest, Response, json_response
from fakeazure.vm import Imds, Vm, as_bytes

SERVER = "IMDS/150.870.65.1475"
VERSIONS = (
    "2017-03-01", "2017-04-02", "2017-08-01", "2017-12-01", "2018-02-01", "2018-04-02", "2018-10-01", "2019-02-01",
    "2019-03-11", "2019-04-30", "2019-06-01", "2019-06-04", "2019-08-01", "2019-08-15", "2019-11-01", "2020-06-01",
    "2020-07-15", "2020-09-01", "2020-10-01", "2020-12-01", "2021-01-01", "2021-02-01", "2021-03-01", "2021-05-01",
    "2021-08-01", "2021-10-01", "2021-11-01", "2021-11-15", "2021-12-13", "2023-07-01", "2023-11-15", "2024-03-15",
    "2024-07-17", "2025-04-07",
)  # fmt: skip

# When a value appeared; what is not listed has always been there.
SINCE = {
    "compute.azEnvironment": "2018-10-01",
    "compute.additionalCapabilities": "2021-03-01",
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
    "compute.priority": "2020-12-01",
    "compute.provider": "2018-10-01",
    "compute.publicKeys": "2018-04-02",
    "compute.resourceGroupName": "2017-08-01",
    "compute.resourceId": "2019-03-11",
    "compute.securityProfile": "2020-06-01",
    "compute.storageProfile": "2019-06-01",
    "compute.subscriptionId": "2017-08-01",
    "compute.tags": "2017-08-01",
    "compute.tagsList": "2019-06-04",
    "compute.userData": "2021-01-01",
    "compute.virtualMachineScaleSet": "2021-11-15",
    "compute.vmScaleSetName": "2017-12-01",
    "compute.zone": "2017-12-01",
    "extended": "2021-08-01",
}
SUBSCRIPTION = "8d10da13-8125-4ba9-a717-bf7490507b3d"
GROUP = "fakeazure"


def answer(request: HttpRequest, vm: Vm, imds: Imds) -> Response:
    if request.path != "/metadata/instance":
        return json_response(404, {"error": "Not found"})
    if request.method != "GET":
        return json_response(405, {"error": "The requested resource does not support http method"})
    if request.headers.get("metadata", "").lower() != "true":
        return json_response(400, {"error": "Bad request. Required metadata header not specified"})
    if "x-forwarded-for" in request.headers:
        return json_response(400, {"error": "Bad request. X-Forwarded-For header is not allowed"})
    supported = imds.api_versions if imds.api_versions is not None else VERSIONS
    version = request.query.get("api-version")
    if version not in supported:
        problem = "was not specified in the request"
        if version is not None:
            problem = "is invalid or " + problem
        return json_response(400, {
            "error": f"Bad request. api-version {problem}. For more information refer to aka.ms/azureimds",
            "newest-versions": sorted(supported, reverse=True)[:3],
        })  # fmt: skip
    extended = request.query.get("extended", "").lower() == "true"
    return json_response(200, document(vm, imds, version=version, extended=extended))


def document(vm: Vm, imds: Imds, *, version: str, extended: bool) -> dict[str, Any]:
    whole: dict[str, Any] = {"compute": compute(vm), "network": network()}
    if extended:
        whole["extended"] = {"compute": {"hasCustomData": vm.custom_data is not None, "ppsType": vm.pps_type}}
    for path, since in SINCE.items():
        if version < since:
            take_out(whole, path)
    overlay(whole, imds.set)
    for path in imds.remove:
        take_out(whole, path)
    return whole


def compute(vm: Vm) -> dict[str, Any]:
    provider = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute"
    disk = f"{vm.name}_OsDisk_1"
    return {
        "additionalCapabilities": {"hibernationEnabled": "false"},
        "azEnvironment": "AzurePublicCloud",
        "customData": "",  # in the document's shape and never filled
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
        "publicKeys": [] if vm.specialised else [{"keyData": key.data, "path": key.path} for key in vm.public_keys],
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
            "dataDisks": [],
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
            "resourceDisk": {"size": "16384"},
        },
        "subscriptionId": SUBSCRIPTION,
        "tags": ";".join(f"{name}:{value}" for name, value in vm.tags.items()),
        "tagsList": [{"name": name, "value": value} for name, value in vm.tags.items()],
        "userData": base64.b64encode(as_bytes(vm.user_data or b"")).decode(),
        "version": "0.20250814.2204",
        "virtualMachineScaleSet": {"id": ""},
        "vmId": vm.id,
        "vmScaleSetName": "",
        "vmSize": "Standard_D2ds_v5",
        "zone": "",
    }


def os_profile(vm: Vm) -> dict[str, str]:
    if vm.specialised:
        return {"adminUsername": "", "computerName": "", "disablePasswordAuthentication": ""}
    return {
        "adminUsername": vm.username,
        "computerName": vm.name,
        "disablePasswordAuthentication": "true" if vm.password_disabled else "false",  # a string, truly
    }


def network() -> dict[str, Any]:
    address = {"privateIpAddress": "10.0.0.4", "publicIpAddress": ""}
    subnet = {"address": "10.0.0.0", "prefix": "24"}
    interface = {
        "ipv4": {"ipAddress": [address], "subnet": [subnet]},
        "ipv6": {"ipAddress": []},
        "macAddress": "000D3A123456",
    }
    return {"interface": [interface]}


def overlay(whole: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, change in changes.items():
        if isinstance(change, Mapping) and isinstance(whole.get(name), dict):
            overlay(whole[name], change)
        else:
            whole[name] = copy.deepcopy(change)


def take_out(whole: dict[str, Any], path: str) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        whole = whole.get(parent, {})
    whole.pop(name, None)
