"""The wireserver: goal state, configurations, certificates, and both health endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from fakeazure.platform import goal_state
from fakeazure.platform.certificates import BadTransport, certificate_file
from fakeazure.platform.health import JSON_PATH, Health, Malformed, TooLong, is_xml_health, read_health
from fakeazure.platform.http import HttpRequest, Response, json_response
from fakeazure.platform.openssl import KeyDirectory, OpensslFailed, no_directory
from fakeazure.platform.vm import Vm

SERVER = "Microsoft-IIS/10.0"
HEALTH = JSON_PATH
OBSERVATIONS = "/HealthService"  # an agent's periodic observations of the platform
CREATED, ACCEPTED = 201, 202
LATEST = "x-ms-latest-goal-state-incarnation-number"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireserverState:
    """The VM that the wireserver answers for, its base URL, and whether the goal state is ready."""

    vm: Vm
    base: str  # the base URL, for requests without a Host header
    ready: bool = True  # False: 503 for the goal state and for health reports
    keys: KeyDirectory = no_directory  # holds the machine's certificate


def answer(request: HttpRequest, state: WireserverState | None = None) -> tuple[Response, Health | None]:
    """The response, and the accepted health report."""
    if request.path == HEALTH:
        return json_health(request, state)
    if request.path == OBSERVATIONS:
        return observed(request), None
    if state is None or not is_wire(request):
        return json_response(404, {"error": "Not found"}), None
    if request.path == "/":
        return xml(200, goal_state.versions()), None
    if request.headers.get("x-ms-version") not in goal_state.SUPPORTED:
        return problem(400, "MissingOrIncorrectVersionHeader", "x-ms-version is missing or not supported"), None
    if not state.ready:
        return problem(503, "ServiceUnavailable", "the goal state is not ready yet"), None
    if is_xml_health(request):
        return xml_health(request, state)
    return (posted(request) if request.method == "POST" else document(request, state)), None


def is_wire(request: HttpRequest) -> bool:
    comp = request.query.get("comp", "").lower()
    if request.path == "/":
        return comp == "versions" and request.method == "GET"
    return request.path == "/machine" or request.path.startswith("/machine/")


def json_health(request: HttpRequest, state: WireserverState | None) -> tuple[Response, Health | None]:
    if request.method != "POST":
        return json_response(405, {"error": "Method not allowed"}), None
    if state is not None and not state.ready:
        return json_response(503, {"error": "The goal state is not ready yet"}), None
    try:
        return Response(status=CREATED), read_health(request)
    except Malformed as error:
        return json_response(400, {"error": f"Bad request. {error}"}), None
    except TooLong as error:
        return json_response(500, {"error": str(error)}), None


def observed(request: HttpRequest) -> Response:
    return Response(status=200) if request.method == "POST" else json_response(405, {"error": "Method not allowed"})


def xml_health(request: HttpRequest, state: WireserverState) -> tuple[Response, Health | None]:
    if request.method != "POST":
        return problem(405, "MethodNotAllowed", "a health report is posted"), None
    try:
        health = read_health(request)
    except Malformed as error:
        return problem(400, "InvalidInput", str(error)), None
    except TooLong as error:
        return problem(500, "InternalError", str(error)), None
    if health.container != goal_state.container_id(state.vm):
        why = f"container {health.container!r} is not this machine's"
        return problem(400, "InvalidContainerConfiguration", why), None
    return Response(status=CREATED, headers={LATEST: str(goal_state.INCARNATION)}), health


def posted(request: HttpRequest) -> Response:
    """Host key fingerprints and telemetry: accepted and ignored."""
    comp = request.query.get("comp", "").lower()
    if comp == "roleproperties":
        return Response(status=ACCEPTED)
    return Response(status=200) if comp == "telemetrydata" else problem(404, "ResourceNotFound", "no such resource")


def document(request: HttpRequest, state: WireserverState) -> Response:
    comp, whole = request.query.get("comp", "").lower(), None
    if comp == "goalstate":
        host, prefix = request.headers.get("host"), urlsplit(state.base).path
        whole = goal_state.goal_state(state.vm, base=f"http://{host}{prefix}" if host else state.base)
    elif comp == "config":
        whole = goal_state.configuration(state.vm, request.query.get("type", ""))
    elif comp == "certificates":
        return certificates(request, state.keys())
    return problem(404, "ResourceNotFound", "no such resource") if whole is None else xml(200, whole)


def certificates(request: HttpRequest, directory: Path | None) -> Response:
    transport = request.headers.get("x-ms-guest-agent-public-x509-cert", "")
    if not transport:
        return problem(400, "MissingRequiredHeader", "x-ms-guest-agent-public-x509-cert is missing")
    cipher = request.headers.get("x-ms-cipher-name", "DES_EDE3_CBC")
    try:
        return xml(200, certificate_file(transport=transport, cipher=cipher, directory=directory))
    except BadTransport as error:
        return problem(400, "InvalidHeaderValue", str(error))
    except OpensslFailed as error:
        return problem(500, "InternalError", str(error))


def xml(status: int, text: str) -> Response:
    return Response(status=status, headers={"Content-Type": "text/xml; charset=utf-8"}, body=text.encode())


def problem(status: int, code: str, message: str) -> Response:
    text = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return xml(status, goal_state.DECLARATION + text)
