"""HostGAPlugin, the host's plugin for guest agents on port 32526."""

from __future__ import annotations

from fakeazure.platform.goal_state import BLOB_TYPE, container_id, status_blob
from fakeazure.platform.http import HttpRequest, Response, json_response
from fakeazure.platform.imds_document import GROUP, SIZES, SUBSCRIPTION
from fakeazure.platform.vm import Vm

SERVER = "HostGAPlugin/1.0.8.179"
API_VERSIONS = ("2015-09-01",)
ETAG = '"1"'

METHODS = {
    "/health": ("GET", "POST", "PUT"),
    "/versions": ("GET",),
    "/vmSettings": ("GET",),
    "/status": ("PUT",),
    "/vmAgentLog": ("PUT",),
}


def answer(request: HttpRequest, vm: Vm) -> Response:
    if request.path not in METHODS:
        return json_response(404, {"error": "Not found"})
    if request.method not in METHODS[request.path]:
        return json_response(405, {"error": "Method not allowed"})
    if request.path == "/versions":
        return json_response(200, list(API_VERSIONS))
    return vm_settings(request, vm) if request.path == "/vmSettings" else Response(status=200)


def vm_settings(request: HttpRequest, vm: Vm) -> Response:
    if "x-ms-containerid" not in request.headers:
        return json_response(400, {"error": "x-ms-containerid is missing"})
    if request.headers["x-ms-containerid"] != container_id(vm):
        return json_response(400, {"error": "InvalidContainerConfiguration"})
    if request.headers.get("if-none-match") == ETAG:
        return Response(status=304, headers={"ETag": ETAG})
    settings = {
        "hostGAPluginVersion": SERVER.partition("/")[2],
        "vmSettingsSchemaVersion": "0.0",
        "activityId": container_id(vm),
        "correlationId": container_id(vm),
        "inSvdSeqNo": 0,
        "extensionsLastModifiedTickCount": 638000000000000000,
        "extensionGoalStatesSource": "Fabric",
        "onHold": False,
        "statusUploadBlob": {"statusBlobType": BLOB_TYPE, "value": status_blob(vm)},
        "inVMMetadata": {
            "subscriptionId": SUBSCRIPTION,
            "resourceGroupName": GROUP,
            "vmName": vm.name,
            "location": vm.location,
            "vmId": vm.id,
            "vmSize": SIZES[vm.temporary_disk],
            "osType": "Linux",
        },
        "requiredFeatures": [],
        "gaFamilies": [],
        "extensionGoalStates": [],
    }
    answered = json_response(200, settings)
    return Response(status=200, headers={**answered.headers, "ETag": ETAG}, body=answered.body)
