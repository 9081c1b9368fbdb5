"""The wireserver's JSON health endpoint: what a machine may tell the platform, and what it answers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from fakeazure.http import HttpRequest, Response, json_response

SERVER = "Microsoft-IIS/10.0"
HEALTH = "/provisioning/health"
DESCRIPTION_LIMIT = 4096  # of the bytes between the quotes on the wire, escapes and all
DESCRIPTION = re.compile(rb'"description"\s*:\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)

READY, FAILED, PROGRESS = "ready", "failed", "progress"
SUB_STATES = {"ProvisioningFailed": FAILED, "Provisioning": PROGRESS}


@dataclass(frozen=True, slots=True)
class Health:
    kind: str
    description: str


class Malformed(ValueError):
    """Not a health report."""


def answer(request: HttpRequest) -> tuple[Response, Health | None]:
    """The platform's answer, and what it now knows."""
    if request.path != HEALTH:
        return json_response(404, {"error": "Not found"}), None
    if request.method != "POST":
        return json_response(405, {"error": "Method not allowed"}), None
    try:
        health = parse_health(request.body)
    except Malformed as error:
        return json_response(400, {"error": f"Bad request. {error}"}), None
    if (length := wire_length(request.body)) > DESCRIPTION_LIMIT:
        problem = f"description is {length} bytes on the wire, more than {DESCRIPTION_LIMIT}"
        return json_response(500, {"error": problem}), None
    return Response(status=201), health


def parse_health(body: bytes) -> Health:
    try:
        report = json.loads(body)
    except (ValueError, RecursionError):
        raise Malformed("The body is not JSON") from None
    if not isinstance(report, dict):
        raise Malformed("The body is not a JSON object")
    state, details = report.get("state"), report.get("details")
    if details is not None and not isinstance(details, dict):
        raise Malformed("details is not an object")
    description = (details or {}).get("description", "")
    if not isinstance(description, str):
        raise Malformed("details.description is not a string")
    if state == "Ready":
        return Health(READY, description)
    if state != "NotReady":
        raise Malformed(f"state {state!r} is neither Ready nor NotReady")
    sub_state = (details or {}).get("subStatus")
    if not isinstance(sub_state, str) or sub_state not in SUB_STATES:
        raise Malformed(f"subStatus {sub_state!r} is neither Provisioning nor ProvisioningFailed")
    return Health(SUB_STATES[sub_state], description)


def wire_length(body: bytes) -> int:
    return max((len(found[1]) for found in DESCRIPTION.finditer(body)), default=0)
