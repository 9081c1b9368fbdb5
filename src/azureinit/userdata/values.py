"""What parsing customData gives: parts and findings, each with its place. The limits of all parsers are here."""

from __future__ import annotations

from azureinit.record import Record

# Kinds of parts.
CLOUD_CONFIG = "cloud-config"
SCRIPT = "script"
PER_BOOT, PER_INSTANCE, PER_ONCE = "script-per-boot", "script-per-instance", "script-per-once"
BOOTHOOK = "boothook"
INCLUDE = "include"
ARCHIVE = "cloud-config-archive"
JSONP = "cloud-config-jsonp"
PART_HANDLER = "part-handler"
TEMPLATE = "jinja template"
IGNITION = "ignition"
OPAQUE = "unknown"
SCRIPTS = (SCRIPT, PER_BOOT, PER_INSTANCE, PER_ONCE, BOOTHOOK)

MOST_BYTES = 64 << 20  # of all parts together, decompressed and decoded
MOST_DEPTH = 10  # of containers: gzip, base64, MIME, archives
MOST_PARTS = 1000
MOST_FINDINGS = 200
MOST_URLS = 100
MOST_YAML_BYTES = 16 << 20  # of one YAML document
MOST_YAML_NODES = 200_000  # of one YAML document, after aliases are expanded
MOST_YAML_DEPTH = 64
MOST_NUMBER = 1024  # characters of a number
LONGEST_NAME = 255

ERROR, WARNING = "error", "warning"


class Place(Record):
    """Where a text begins: added to the lines and columns inside it."""

    # The part that lines are counted in; empty: the file itself. A part that was decoded has lines of its own.
    part: str = ""
    # Lines and columns before the text.
    line: int = 0
    column: int = 0


class Finding(Record):
    level: str
    message: str
    line: int  # from 1
    column: int  # from 1
    part: str = ""
    hint: str = ""


class Include(Record):
    """One URL of an include document."""

    url: str  # without its checksum
    line: int
    column: int
    part: str = ""
    sha256: str = ""
    once: bool = False  # fetched once for each VM, then read from a cache


class Part(Record):
    """One document of customData, decoded."""

    kind: str
    name: str
    content: bytes
    place: Place
    # The Merge-Type header.
    merge_type: str = ""
    includes: tuple[Include, ...] = ()
    # Of a template: the kind that it has when it is rendered.
    renders: str = ""
    # What the content was wrapped in, from outside to inside, as in ("gzip", "MIME").
    inside: tuple[str, ...] = ()


class Userdata(Record):
    parts: tuple[Part, ...]
    findings: tuple[Finding, ...]


def finding(level: str, message: str, *, place: Place, line: int = 1, column: int = 1, hint: str = "") -> Finding:
    """`line` and `column` are counted inside the text that begins at `place`."""
    return Finding(
        level=level,
        message=message,
        line=line + place.line,
        column=column + place.column,
        part=place.part,
        hint=hint,
    )


def shown(text: str, longest: int = 64) -> str:
    """A name out of the document in a message: on one line, printable and short."""
    cut = text if len(text) <= longest else text[:longest] + "..."
    return cut if cut.isprintable() else ascii(cut)[1:-1]


def position(content: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte, from 1. A column is a character, as far as the line is UTF-8."""
    start = content.rfind(b"\n", 0, offset) + 1
    return content.count(b"\n", 0, offset) + 1, len(content[start:offset].decode("utf-8", "replace")) + 1
