"""The provisioning report's grammar: `key=value` fields between bars, quoted like CSV. One encoder and one parser.

The encoder keeps the field order of Azure's own agents; the parser accepts any order.
"""

from __future__ import annotations

from azureinit.kvp.moments import utc
from azureinit.kvp.records import plain_text
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.kvp.records import Pair

REPORT_KEY = "PROVISIONING_REPORT"
PPS_TYPES = ("None", "PreprovisionedOSDisk", "Running", "Savable", "Unknown")
RESULTS = ("success", "error")
ALWAYS = ("result", "agent", "pps_type", "vm_id", "timestamp")
ON_ERROR = ("reason", "documentation_url")


class ReportMalformed(ValueError):
    """A value that is not a report."""


class Report(Record):
    result: str  # success or error
    agent: str
    vm_id: str
    timestamp: str
    pps_type: str = "None"
    reason: str = ""
    documentation_url: str | None = None
    supporting: tuple[Pair, ...] = ()


def encoded(report: Report) -> str:
    middle = [("pps_type", report.pps_type), ("vm_id", report.vm_id), ("timestamp", report.timestamp)]
    head: list[Pair] = [("result", report.result)]
    if report.result == "success":
        return encode_fields([*head, ("agent", report.agent), *middle, *report.supporting])
    head += [("reason", report.reason), ("agent", report.agent)]
    url = [] if report.documentation_url is None else [("documentation_url", report.documentation_url)]
    return encode_fields([*head, *report.supporting, *middle, *url])


def encode_fields(pairs: Iterable[Pair]) -> str:
    return "|".join(_quoted(plain_text(f"{key}={value}")) for key, value in pairs)


def parse_report(value: str) -> Report:
    pairs = parse_fields(value)
    own = ALWAYS if ("result", "error") not in pairs else (*ALWAYS, *ON_ERROR)
    found: dict[str, str] = {}
    for key, text in pairs:
        if key in own:
            if key in found:
                raise ReportMalformed(f"{key} twice")
            found[key] = text
    for key in (*ALWAYS, *(("reason",) if found.get("result") == "error" else ())):
        if key not in found:
            raise ReportMalformed(f"no {key}")
    if found["result"] not in RESULTS or found["pps_type"] not in PPS_TYPES or utc(found["timestamp"]) is None:
        raise ReportMalformed("the result, pps_type or timestamp is invalid")
    return Report(
        result=found["result"],
        agent=found["agent"],
        vm_id=found["vm_id"],
        timestamp=found["timestamp"],
        pps_type=found["pps_type"],
        reason=found.get("reason", ""),
        documentation_url=found.get("documentation_url"),
        supporting=tuple((key, text) for key, text in pairs if key not in own),
    )


def parse_fields(value: str, *, quote: str = '"') -> list[Pair]:
    """`quote`: cloud-init uses the apostrophe."""
    pairs = []
    for field in _split(value, quote):
        key, equals, text = field.partition("=")
        if not equals:
            raise ReportMalformed(f"{field!r} is not key=value")
        pairs.append((key, text))
    return pairs


def parse_supporting(text: str) -> list[Pair]:
    """`k=v,k='a,b'`: a quoted value ends at the next quote of the same kind. ValueError for malformed text."""
    pairs = []
    at = 0
    while at < len(text):
        start = at
        while at < len(text) and text[at] not in "=,":
            at += 1
        quote = text[at + 1 : at + 2] if text[at : at + 1] == "=" else ""
        if quote and quote in "'\"":
            at = text.find(quote, at + 2) + 1
            if at == 0:
                raise ValueError(f"supporting data '{text}' has an unterminated quote")
            if text[at : at + 1] not in ("", ","):
                raise ValueError(f"supporting data '{text}' has unexpected characters after a quoted value")
        else:
            at = text.find(",", at) if "," in text[at:] else len(text)
        if text[start:at]:
            pairs.append(_supporting_pair(text[start:at]))
        at += 1
    return pairs


def _supporting_pair(field: str) -> Pair:
    key, equals, value = field.partition("=")
    if not equals:
        raise ValueError(f"supporting data '{field}' must be in key=value format")
    if not key:
        raise ValueError(f"supporting data '{field}' has an empty key")
    if len(value) >= 2 and value[0] in "'\"" and value[-1] == value[0]:
        value = value[1:-1]
    return key, value


def _quoted(field: str) -> str:
    if any(mark in field for mark in '|"\r\n'):
        return '"' + field.replace('"', '""') + '"'
    return field


def _split(value: str, quote: str) -> list[str]:
    fields = []
    at = 0
    while True:
        if value.startswith(quote, at):
            field, at = _unquoted(value, at + 1, quote)
        else:
            end = value.find("|", at)
            end = len(value) if end < 0 else end
            field, at = value[at:end], end
            if "\n" in field or "\r" in field:
                raise ReportMalformed("more than one line")
        fields.append(field)
        if at == len(value):
            return fields
        at += 1


def _unquoted(value: str, at: int, quote: str) -> tuple[str, int]:
    """The quoted field whose content starts at `at`, and the position after its closing quote."""
    field = ""
    while True:
        end = value.find(quote, at)
        if end < 0:
            raise ReportMalformed("a quote that is not closed")
        field += value[at:end]
        if not value.startswith(quote, end + 1):
            if value[end + 1 : end + 2] not in ("", "|"):
                raise ReportMalformed("text after a closing quote")
            return field, end + 1
        field += quote
        at = end + 2
