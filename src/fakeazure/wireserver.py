"""The wireserver: goal state, configurations, certificates, and the endpoints that take a machine's verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from fakeazure import goalstate
from fakeazure.certificates import BadTransport, certificate_file
from fakeazure.health import JSON_PATH, Health, Malformed, TooLong, is_xml_health, read_health
from fakeazure.http import HttpRequest, Response, json_response
from fakeazure.openssl import CannotSign, Place, no_place
from fakeazure.vm import Vm

SERVER = "Microsoft-IIS/10.0"
HEALTH = JSON_PATH
OBSERVATIONS = "/HealthService"  # what an agent thinks of the platform's health, as it goes on
CREATED, ACCEPTED = 201, 202
LATEST = "x-ms-latest-goal-state-incarnation-number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """For whom it answers, where it is found, and whether it is up to it yet."""

    vm: Vm
    base: str  # its own address, for clients that do not say which they used
    ready: bool = True  # False: the goal state is not there yet
    directory: Place = no_place  # keeps the machine's certificate


def answer(request: HttpRequest, site: Site | None = None) -> tuple[Response, Health | None]:
    """The platform's answer, and what it now knows."""
    if request.path == HEALTH:
        return json_health(request, site)
    if request.path == OBSERVATIONS:
        return observed(request), None
    if site is None or not is_wire(request):
        return json_response(404, {"error": "Not found"}), None
    if request.path == "/":
        return xml(200, goalstate.versions()), None
    if request.headers.get("x-ms-version") not in goalstate.SPOKEN:
        return problem(400, "MissingOrIncorrectVersionHeader", "x-ms-version is missing or not supported"), None
    if not site.ready:
        return problem(503, "ServiceUnavailable", "the goal state is not ready yet"), None
    if is_xml_health(request):
        return xml_health(request, site)
    return (posted(request) if request.method == "POST" else document(request, site)), None


def is_wire(request: HttpRequest) -> bool:
    comp = request.query.get("comp", "").lower()
    if request.path == "/":
        return comp == "versions" and request.method == "GET"
    return request.path == "/machine" or request.path.startswith("/machine/")


def json_health(request: HttpRequest, site: Site | None) -> tuple[Response, Health | None]:
    if request.method != "POST":
        return json_response(405, {"error": "Method not allowed"}), None
    if site is not None and not site.ready:
        return json_response(503, {"error": "The goal state is not ready yet"}), None
    try:
        return Response(status=CREATED), read_health(request)
    except Malformed as error:
        return json_response(400, {"error": f"Bad request. {error}"}), None
    except TooLong as error:
        return json_response(500, {"error": str(error)}), None


def observed(request: HttpRequest) -> Response:
    return Response(status=200) if request.method == "POST" else json_response(405, {"error": "Method not allowed"})


def xml_health(request: HttpRequest, site: Site) -> tuple[Response, Health | None]:
    if request.method != "POST":
        return problem(405, "MethodNotAllowed", "a health report is posted"), None
    try:
        health = read_health(request)
    except Malformed as error:
        return problem(400, "InvalidInput", str(error)), None
    except TooLong as error:
        return problem(500, "InternalError", str(error)), None
    if health.container != goalstate.container_id(site.vm):
        why = f"container {health.container!r} is not this machine's"
        return problem(400, "InvalidContainerConfiguration", why), None
    return Response(status=CREATED, headers={LATEST: str(goalstate.INCARNATION)}), health


def posted(request: HttpRequest) -> Response:
    """Host key fingerprints and telemetry: taken, and of no consequence here."""
    comp = request.query.get("comp", "").lower()
    if comp == "roleproperties":
        return Response(status=ACCEPTED)
    return Response(status=200) if comp == "telemetrydata" else problem(404, "ResourceNotFound", "no such resource")


def document(request: HttpRequest, site: Site) -> Response:
    comp, whole = request.query.get("comp", "").lower(), None
    if comp == "goalstate":
        host, prefix = request.headers.get("host"), urlsplit(site.base).path
        whole = goalstate.goal_state(site.vm, base=f"http://{host}{prefix}" if host else site.base)
    elif comp == "config":
        whole = goalstate.configuration(site.vm, request.query.get("type", ""))
    elif comp == "certificates":
        return certificates(request, site.directory())
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
    except CannotSign as error:
        return problem(500, "InternalError", str(error))


def xml(status: int, text: str) -> Response:
    return Response(status=status, headers={"Content-Type": "text/xml; charset=utf-8"}, body=text.encode())


def problem(status: int, code: str, message: str) -> Response:
    text = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return xml(status, goalstate.DECLARATION + text)
