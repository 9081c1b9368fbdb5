"""Health reports: the JSON and the XML form, and the limit of their length."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from xml.etree import ElementTree

from fakeazure.platform.http import HttpRequest

JSON_PATH = "/provisioning/health"
XML_PATH = "/machine"  # with ?comp=health
DESCRIPTION_LIMIT = 4096  # bytes on the wire, escapes included
IN_JSON = re.compile(rb'"description"\s*:\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
IN_XML = re.compile(rb"<(?:[\w.-]+:)?Description(?:\s[^>]*)?>(.*?)</", re.DOTALL)

READY, FAILED, PROGRESS = "ready", "failed", "progress"
SUB_STATES = {"ProvisioningFailed": FAILED, "Provisioning": PROGRESS}


@dataclass(frozen=True, slots=True)
class Health:
    kind: str
    description: str
    container: str | None = None  # the sender, if the report names it


class Malformed(ValueError):
    """Not a health report."""


class TooLong(ValueError):
    """A description beyond the platform's limit."""


def is_health(request: HttpRequest) -> bool:
    return request.path == JSON_PATH or is_xml_health(request)


def is_xml_health(request: HttpRequest) -> bool:
    return request.path == XML_PATH and request.query.get("comp", "").lower() == "health"


def read_health(request: HttpRequest) -> Health:
    health = parse_health(request.body) if request.path == JSON_PATH else parse_xml_health(request.body)
    if (length := wire_length(request.body, IN_JSON if request.path == JSON_PATH else IN_XML)) > DESCRIPTION_LIMIT:
        raise TooLong(f"description is {length} bytes on the wire, more than {DESCRIPTION_LIMIT}")
    return health


def accepted_health(request: HttpRequest) -> Health | None:
    """The report, if the platform accepts it."""
    if request.method != "POST" or not is_health(request):
        return None
    try:
        return read_health(request)
    except (Malformed, TooLong):
        return None


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
    return Health(kind_of(state, (details or {}).get("subStatus")), description)


def parse_xml_health(body: bytes) -> Health:
    if b"<!DOCTYPE" in body:
        raise Malformed("The body has a DOCTYPE")
    try:
        root = ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise Malformed("The body is not XML") from None
    texts = {element.tag.rpartition("}")[2]: element.text or "" for element in root.iter()}
    if root.tag.rpartition("}")[2] != "Health" or "State" not in texts:
        raise Malformed("The body is not a Health document")
    # The oldest agents report NotReady without a substatus while they work.
    sub_state = texts.get("SubStatus", "Provisioning")
    description = texts.get("Description", "")
    return Health(kind_of(texts["State"], sub_state), description, texts.get("ContainerId"))


def kind_of(state: object, sub_state: object) -> str:
    if state == "Ready":
        return READY
    if state != "NotReady":
        raise Malformed(f"state {state!r} is neither Ready nor NotReady")
    if not isinstance(sub_state, str) or sub_state not in SUB_STATES:
        raise Malformed(f"subStatus {sub_state!r} is neither Provisioning nor ProvisioningFailed")
    return SUB_STATES[sub_state]


def wire_length(body: bytes, description: re.Pattern[bytes]) -> int:
    return max((len(found[1]) for found in description.finditer(body)), default=0)
