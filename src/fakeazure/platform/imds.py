"""The instance metadata service: its endpoints, API versions, and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from fakeazure.platform import attested_document
from fakeazure.platform.http import HttpRequest, Response, json_response
from fakeazure.platform.imds_document import NoSuchElement, as_text, document, element
from fakeazure.platform.openssl import KeyDirectory, OpensslFailed, no_directory
from fakeazure.platform.vm import Imds, Vm

SERVER = "IMDS/150.870.65.1475"
VERSIONS = (
    "2017-03-01", "2017-04-02", "2017-08-01", "2017-10-01", "2017-12-01", "2018-02-01", "2018-04-02", "2018-10-01",
    "2019-02-01", "2019-03-11", "2019-04-30", "2019-06-01", "2019-06-04", "2019-08-01", "2019-08-15", "2019-11-01",
    "2020-06-01", "2020-07-15", "2020-09-01", "2020-10-01", "2020-12-01", "2021-01-01", "2021-02-01", "2021-03-01",
    "2021-05-01", "2021-08-01", "2021-10-01", "2021-11-01", "2021-11-15", "2021-12-13", "2023-07-01", "2023-11-15",
    "2024-03-15", "2024-07-17", "2025-04-07",
)  # fmt: skip
EVENT_VERSIONS = ("2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01")

INSTANCE, ATTESTED, EVENTS = "/metadata/instance", "/metadata/attested/document", "/metadata/scheduledevents"
LIST, REPROVISION = "/metadata/versions", "/metadata/reprovisiondata"
PROXY_AGENT_RAN = "/fakeazure/proxy-agent"  # the stub of azure-proxy-agent reports here that it ran
REUSE = "/fakeazure/reuse"  # a POST: a customer takes the VM from its pool
NOT_AZURES = {PROXY_AGENT_RAN: "proxy-agent", REUSE: "fakeazure"}  # path -> the service in the ledger


@dataclass(slots=True, kw_only=True)
class Standing:
    """State of the service for one machine, between requests."""

    latched: bool = False  # the proxy agent has its keys
    boot: int = 1  # the number of this boot
    recent: list[float] = field(default_factory=list)  # times of the last requests


class Refused(Exception):
    """A refused request, with the error message of the service."""

    def __init__(self, status: int, error: str, **more: object) -> None:
        super().__init__(error)
        self.response = json_response(status, {"error": error, **more})


def answer(
    request: HttpRequest,
    vm: Vm,
    imds: Imds,
    *,
    reprovision: Callable[[], bytes | None] = lambda: None,
    standing: Standing | None = None,
    now: float = 0.0,
    keys: KeyDirectory = no_directory,
) -> Response:
    standing = standing or Standing()
    try:
        if request.path == PROXY_AGENT_RAN:
            standing.latched = True
            return Response(status=204)
        check_sender(request, imds, standing, now=now)
        if request.path == LIST:
            return json_response(200, {"apiVersions": list(known(imds, VERSIONS))})
        if request.path == EVENTS:
            return scheduled_events(request, imds)
        if request.path == ATTESTED:
            return attested_answer(request, vm, imds, keys=keys)
        if request.path == REPROVISION:
            return reprovision_data(request, imds, reprovision)
        if request.path == INSTANCE or request.path.startswith(INSTANCE + "/"):
            return instance(request, vm, imds, boot=standing.boot)
    except Refused as refusal:
        return refusal.response
    return json_response(404, {"error": "Not found"})


def known(imds: Imds, versions: Sequence[str]) -> Sequence[str]:
    return versions if imds.api_versions is None else imds.api_versions


def check_sender(request: HttpRequest, imds: Imds, standing: Standing, *, now: float) -> None:
    if not any(request.path == root or request.path.startswith(root + "/") for root in ROOTS):
        raise Refused(404, "Not found")
    if request.method != "GET" and not (request.path == EVENTS and request.method == "POST"):
        raise Refused(405, "The requested resource does not support http method")
    if imds.protected and not standing.latched:
        raise Refused(401, "Unauthorized. The request is not signed by the guest proxy agent")
    if request.headers.get("metadata", "").lower() != "true":
        raise Refused(400, "Bad request. Required metadata header not specified")
    if "x-forwarded-for" in request.headers:
        raise Refused(400, "Bad request. X-Forwarded-For header is not allowed")
    names = Counter(name.lower() for name, _ in parse_qsl(urlsplit(request.target).query, keep_blank_values=True))
    if repeated := [name for name, count in names.items() if count > 1]:
        raise Refused(400, f"Bad request. Query parameter {repeated[0]} was given more than once")
    if imds.rate_limit:
        standing.recent = [*(when for when in standing.recent if when > now - 1), now]
        if len(standing.recent) > imds.rate_limit:
            raise Refused(429, "Too many requests")


ROOTS = (INSTANCE, ATTESTED, EVENTS, LIST, REPROVISION)


def checked_version(request: HttpRequest, supported: Sequence[str]) -> str:
    version = request.query.get("api-version")
    if version is not None and version in supported:
        return version
    problem = (
        "was not specified in the request" if version is None else "is invalid or was not specified in the request"
    )
    raise Refused(
        400,
        f"Bad request. api-version {problem}. For more information refer to aka.ms/azureimds",
        **{"newest-versions": sorted(supported, reverse=True)[:3]},
    )


def instance(request: HttpRequest, vm: Vm, imds: Imds, *, boot: int = 1) -> Response:
    version = checked_version(request, known(imds, VERSIONS))
    form = request.query.get("format", "json").lower()
    if form not in ("json", "text"):
        raise Refused(400, f"Bad request. Format {form} is not supported")
    extended = request.query.get("extended", "").lower() == "true"
    path = [unquote(part) for part in request.path.removeprefix(INSTANCE).split("/") if part]
    try:
        value = element(document(vm, imds, version=version, extended=extended, boot=boot), path)
    except NoSuchElement:
        raise Refused(404, "Not found") from None
    if form == "text":
        return Response(status=200, headers={"Content-Type": "text/plain; charset=utf-8"}, body=as_text(value).encode())
    if not isinstance(value, dict | list):  # the default format is json, and a single value has no JSON form
        raise Refused(400, "Bad request. The requested resource is a leaf: use format=text")
    return json_response(200, value)


def attested_answer(request: HttpRequest, vm: Vm, imds: Imds, *, keys: KeyDirectory) -> Response:
    checked_version(request, [version for version in known(imds, VERSIONS) if version >= "2018-10-01"])
    try:
        signature = attested_document.signature(vm, nonce=request.query.get("nonce", ""), directory=keys())
    except OpensslFailed as error:
        raise Refused(500, str(error)) from None
    return json_response(200, {"encoding": "pkcs7", "signature": signature})


def scheduled_events(request: HttpRequest, imds: Imds) -> Response:
    checked_version(request, known(imds, EVENT_VERSIONS))
    return (
        json_response(200, {"DocumentIncarnation": 1, "Events": []})
        if request.method == "GET"
        else Response(status=200)
    )


def reprovision_data(request: HttpRequest, imds: Imds, data: Callable[[], bytes | None]) -> Response:
    """A pre-provisioned machine polls here until it has an owner, and then gets its ovf-env.xml."""
    checked_version(request, known(imds, VERSIONS))
    document = data()
    if document is None:
        raise Refused(404, "Not found")
    return Response(status=200, headers={"Content-Type": "text/xml; charset=utf-8"}, body=document)


def reuse(request: HttpRequest, take: Callable[[], bool]) -> Response:
    if request.method != "POST":
        return json_response(405, {"error": "fakeazure: a customer takes the VM by a POST"})
    if not take():
        return json_response(409, {"error": "fakeazure: the VM is not in a pool, or was taken before"})
    return Response(status=204)
