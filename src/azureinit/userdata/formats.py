"""Which kind of document a text is: by its first line, or by the MIME type that it was declared with."""

from __future__ import annotations

from azureinit.userdata.values import (
    ARCHIVE,
    BOOTHOOK,
    CLOUD_CONFIG,
    IGNITION,
    INCLUDE,
    JSONP,
    OPAQUE,
    PART_HANDLER,
    PER_BOOT,
    PER_INSTANCE,
    PER_ONCE,
    SCRIPT,
    TEMPLATE,
)

# First lines, the longest first where one begins with another. Compared in lower case, after leading white space.
HEADERS: tuple[tuple[bytes, str], ...] = (
    (b"#cloud-config-archive", ARCHIVE),
    (b"#cloud-config-jsonp", JSONP),
    (b"#cloud-config", CLOUD_CONFIG),
    (b"#cloud-boothook", BOOTHOOK),
    (b"#include-once", INCLUDE),
    (b"#include", INCLUDE),
    (b"#part-handler", PART_HANDLER),
    (b"## template: jinja", TEMPLATE),
    (b"#!", SCRIPT),
)
TYPES = {
    "text/cloud-config": CLOUD_CONFIG,
    "text/cloud-config-archive": ARCHIVE,
    "text/cloud-config-jsonp": JSONP,
    "text/cloud-boothook": BOOTHOOK,
    "text/x-include-url": INCLUDE,
    "text/x-include-once-url": INCLUDE,
    "text/part-handler": PART_HANDLER,
    "text/jinja2": TEMPLATE,
    "text/x-shellscript": SCRIPT,
    "text/x-shellscript-per-boot": PER_BOOT,
    "text/x-shellscript-per-instance": PER_INSTANCE,
    "text/x-shellscript-per-once": PER_ONCE,
}
# The first line decides about parts with these types.
UNDECIDED = ("", "text/plain", "text/x-not-multipart", "text/x-shellscript")
GZIP_TYPES = tuple(
    f"application/{name}"
    for name in ("gzip", "gzip-compressed", "gzipped", "x-compress", "x-compressed", "x-gunzip", "x-gzip",
                 "x-gzip-compressed")
)  # fmt: skip
GZIP = b"\x1f\x8b"
MIME_VERSION = b"mime-version:"
MIME_WITHIN = 4096
BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
SPACE = b" \t\r\n\v\f"
ROOM = 64  # bytes that hold the longest header
LONGEST_JSON = 16 << 20
LONGEST_START = 16 << 10  # characters in which the header of a cloud-config is looked for
# First lines that were meant to be `#cloud-config`.
ALMOST = ("# cloud-config", "#cloud_config", "# cloud_config", "#cloudconfig", "cloud-config", "#clould-config",
          "#cloud-init", "# cloud-init", "##cloud-config", "## cloud-config", "# #cloud-config")  # fmt: skip


def sniff(content: bytes) -> str:
    """The kind by the first line; OPAQUE if that is none of the known ones."""
    start = content.lstrip(SPACE)
    head = start[:ROOM].lower()
    for header, kind in HEADERS:
        if head.startswith(header):
            return kind
    return IGNITION if start[:1] == b"{" and is_ignition(start) else OPAQUE


def kind_of(content: bytes, content_type: str) -> str:
    """The kind of a part with that MIME type."""
    declared = TYPES.get(content_type, OPAQUE)
    if content_type not in UNDECIDED:
        return declared
    seen = sniff(content)
    return declared if seen == OPAQUE else seen


def is_mime(content: bytes) -> bool:
    return MIME_VERSION in content[:MIME_WITHIN].lower() and sniff(content) == OPAQUE


def is_ignition(content: bytes) -> bool:
    if b'"ignition"' not in content or len(content) > LONGEST_JSON:
        return False
    from azureinit.jsontext import loads

    try:
        document = loads(content.decode())
    except ValueError:  # UnicodeDecodeError is one
        return False
    return isinstance(document, dict) and isinstance(document.get("ignition"), dict)


def header_of(content: bytes, kind: str) -> tuple[int, bytes]:
    """Where the first line of a known kind begins, and the words that make its kind."""
    start = len(content) - len(content.lstrip(SPACE))
    head = content[start : start + ROOM].lower()
    found = next((header for header, one in HEADERS if one == kind and head.startswith(header)), b"")
    return start, found


def misplaced_header(text: str, known: frozenset[str]) -> tuple[int, str] | None:
    """The line, and what is wrong, where a text looks like a cloud-config without its header."""
    for number, line in enumerate(text[:LONGEST_START].splitlines(), 1):
        word = line.strip().lower()
        if not word or word == "---":
            continue
        if word.startswith("#cloud-config"):
            return number, "#cloud-config is not in the first line"
        if word.rstrip(":") in ALMOST:
            return number, "this line is not #cloud-config"
        if not word.startswith("#"):
            name, colon, rest = line.partition(":")
            is_key = bool(colon) and name in known and (not rest or rest[0].isspace())
            return (1, "the first line #cloud-config is missing") if is_key else None
    return None
