"""The OpenTelemetry collector's address and protocol: from the standard variables, then from the configuration.

A variable for one signal overrides the one for all, and both override the file. Header values are secrets.
"""

from __future__ import annotations

from azureinit.addresses import parse_url
from azureinit.config.model import shown
from azureinit.errors import HttpFailed
from azureinit.record import Record, Secret
from azureinit.telemetry.events import DEBUG, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.config.model import Config

PREFIX = "OTEL_EXPORTER_OTLP_"
SIGNALS = ("traces", "logs")
LONGEST_EXPORT = 10.0  # seconds; the specification's default
OURS = frozenset(
    ("host", "connection", "accept", "content-length", "content-type", "content-encoding", "transfer-encoding")
)


class Destination(Record):
    signal: str
    url: str
    headers: Mapping[str, Secret]
    seconds: float
    gzip: bool

    @property
    def address(self) -> str:
        return public(self.url)


class Collector(Record):
    destinations: tuple[Destination, ...]
    resource: Mapping[str, str]
    complaints: tuple[tuple[int, str], ...]  # level and sentence


def choose_collector(config: Config, environ: Mapping[str, str]) -> Collector:
    said = _Environment(environ)
    wanted = [signal for signal in SIGNALS if said.wants(signal)]
    destinations = [_destination(said, signal, config.telemetry.otlp_endpoint) for signal in wanted]
    resource = said.pairs("OTEL_RESOURCE_ATTRIBUTES") or {}
    if said.value("OTEL_SERVICE_NAME"):
        resource["service.name"] = said.value("OTEL_SERVICE_NAME")
    return Collector(
        destinations=tuple(one for one in destinations if one is not None),
        resource=resource,
        complaints=tuple((level, text) for text, level in said.complaints.items()),
    )


def public(url: str) -> str:
    """The URL as it may be logged: without query and user, which may hold tokens."""
    scheme, mark, rest = url.partition("://")
    rest = (rest if mark else scheme).partition("?")[0].partition("#")[0]
    authority, slash, path = rest.partition("/")
    return shown((scheme + mark if mark else "") + authority.rpartition("@")[2] + slash + path, longest=200)


class _Environment:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.complaints: dict[str, int] = {}

    def value(self, name: str) -> str:
        return self.environ.get(name, "").strip()

    def which(self, signal: str, option: str) -> str:
        """The name of the variable in force: an empty one counts as unset."""
        own = f"{PREFIX}{signal.upper()}_{option}"
        return own if self.value(own) else PREFIX + option

    def wants(self, signal: str) -> bool:
        if self.value("OTEL_SDK_DISABLED").lower() == "true":
            return False
        exporters = self.value(f"OTEL_{signal.upper()}_EXPORTER").lower()
        return not exporters or "otlp" in [one.strip() for one in exporters.split(",")]

    def pairs(self, name: str) -> dict[str, str] | None:
        """None, with a warning, for a malformed list. The warning does not quote it: it may hold secrets."""
        found = parse_pairs(self.value(name))
        if found is None:
            self.complain(WARN, f"{name} is not a list such as key=value,key=value: ignored")
        return found

    def complain(self, level: int, text: str) -> None:
        self.complaints[text] = level


def parse_pairs(text: str) -> dict[str, str] | None:
    """`key=value,key=value` with percent signs decoded; None for anything else."""
    found = {}
    for pair in filter(None, (one.strip() for one in text.split(","))):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            return None
        try:
            found[percent_decoded(key.strip())] = percent_decoded(value.strip())
        except UnicodeError:
            return None
    return found


def percent_decoded(text: str) -> str:
    """A percent sign without two hexadecimal digits after it is kept."""
    first, *rest = text.encode("utf-8", "surrogateescape").split(b"%")
    data = first
    for part in rest:
        try:
            # int() would accept a sign or a space.
            data += bytes((int(part[:2], 16),)) + part[2:] if part[:2].isalnum() and len(part) > 1 else b"%" + part
        except ValueError:
            data += b"%" + part
    return data.decode()


def _destination(said: _Environment, signal: str, configured: str) -> Destination | None:
    named, where = _named(said, signal, configured)
    if not named:
        return None
    # A URL for one signal is used as it is; to one for all signals the signal's path is added.
    url = named if signal.upper() in where else f"{named.partition('?')[0].rstrip('/')}/v1/{signal}"
    if url.lower().startswith("https://"):
        hint = "name a collector on this machine or network"
        said.complain(WARN, f"{where}: {public(named)} is not used, only http:// is supported: {hint}")
        return None
    try:
        parse_url(url)
    except HttpFailed:
        said.complain(WARN, f"{where}: {public(named)} is not an http:// URL: not used")
        return None
    _check_protocol(said, signal)
    return Destination(
        signal=signal,
        url=url,
        headers=_headers(said, said.which(signal, "HEADERS")),
        seconds=_seconds(said, said.which(signal, "TIMEOUT")),
        gzip=_gzip(said, said.which(signal, "COMPRESSION")),
    )


def _named(said: _Environment, signal: str, configured: str) -> tuple[str, str]:
    """The URL, and the variable or key that set it."""
    name = said.which(signal, "ENDPOINT")
    return (said.value(name), name) if said.value(name) else (configured, "telemetry.otlp_endpoint")


def _check_protocol(said: _Environment, signal: str) -> None:
    name = said.which(signal, "PROTOCOL")
    protocol = said.value(name).lower()
    if protocol not in ("", "http/json"):
        # A collector that accepts http/protobuf accepts JSON on the same port; gRPC has another port.
        level = DEBUG if protocol == "http/protobuf" else WARN
        said.complain(level, f"{name}={shown(protocol)}: only http/json is supported, and used")


def _headers(said: _Environment, name: str) -> dict[str, Secret]:
    pairs = {} if not said.value(name) else said.pairs(name) or {}
    found = {key.lower(): Secret(value) for key, value in pairs.items() if _is_header(key, value)}
    if len(found) < len(pairs):
        said.complain(WARN, f"{name} has a header that cannot be sent: left out")
    return found


def _is_header(key: str, value: str) -> bool:
    plain = key.isascii() and key.isprintable() and not set(key) & set(' ()<>@,;:\\"/[]?={}')
    return plain and key.lower() not in OURS and all(" " <= letter != "\x7f" and letter < "\u0100" for letter in value)


def _seconds(said: _Environment, name: str) -> float:
    text = said.value(name)
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text):
        return int(text) / 1000
    if text:
        said.complain(WARN, f"{name}={shown(text)} is not a number of milliseconds: ignored")
    return LONGEST_EXPORT


def _gzip(said: _Environment, name: str) -> bool:
    text = said.value(name).lower()
    if text not in ("", "none", "gzip"):
        said.complain(WARN, f"{name}={shown(text)} is neither gzip nor none: sent uncompressed")
    return text == "gzip"
