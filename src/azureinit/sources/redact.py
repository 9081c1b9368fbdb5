"""ovf-env.xml with its passwords replaced. Everything else stays byte for byte.

The result is UTF-8 regardless of the original encoding, because WALinuxAgent reads nothing else.
"""

from __future__ import annotations

from azureinit.errors import OvfInvalid
from azureinit.sources.expat import check_utf16, encoding, guarded, parse, stripped, utf16
from azureinit.sources.ovf import REDACTED, parse_ovf

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pyexpat

NAME = "ovf-env.xml"
SECRET = "password"  # how such elements' names end, in any namespace
DECLARATION = '<?xml version="1.0" encoding="utf-8"?>'


def redact(data: bytes) -> bytes:
    data = stripped(data)
    check_utf16(data, name=NAME, invalid=OvfInvalid)
    data = as_utf8(data)
    places = _Places()
    places.parser = parser = guarded("utf-8", places, name=NAME, invalid=OvfInvalid)
    # The next event after the tag gives its end.
    parser.CommentHandler = parser.StartCdataSectionHandler = places.look
    parser.ProcessingInstructionHandler = places.look
    parse(parser, data, name=NAME, invalid=OvfInvalid)
    pieces, at = [], 0
    for begin, end in places.found:
        pieces += [data[at:begin], REDACTED.encode()]
        at = end
    data = b"".join((*pieces, data[at:]))
    if parse_ovf(data, limit=len(data)).password is not None:
        raise OvfInvalid(f"the password could not be removed from {NAME}")
    return data


def as_utf8(data: bytes) -> bytes:
    """The document in UTF-8, with a matching declaration."""
    text = data.decode(_codec(data), "replace").lstrip("\ufeff")
    begins = text[:5] == "<?xml" and text[5:6].isspace()
    declared = text[: text.find("?>")].lower() if begins else ""
    if not any(codec in declared for codec in ("utf-16", "iso-8859-1")):
        return data if _codec(data) == "utf-8" else text.encode()
    return (DECLARATION + text[text.find("?>") + 2 :]).encode()


def _codec(data: bytes) -> str:
    """The encoding that the parser uses."""
    wide = utf16(data)
    if wide is not None:
        return wide
    declared = data[: data.find(b"?>")].lower() if data.startswith(b"<?xml") else b""
    return "iso-8859-1" if encoding(data) is None and b"iso-8859-1" in declared else "utf-8"


class _Places:
    """The ranges of passwords: from the end of the start tag to the end tag."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []
        self.parser: pyexpat.XMLParserType
        self._depth = 0  # inside the outermost one
        self._begin: int | None = None

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self.look()
        if self._depth or name.rpartition(" ")[2].lower().endswith(SECRET):
            self._depth += 1

    def look(self, *_told: object) -> None:
        if self._depth and self._begin is None:
            self._begin = self.parser.CurrentByteIndex

    def data(self, _text: str) -> None:
        self.look()

    def end(self, _name: str) -> None:
        self.look()
        if self._depth:
            self._depth -= 1
            if not self._depth:
                begin, self._begin = self._begin or 0, None
                if self.parser.CurrentByteIndex > begin:
                    self.found.append((begin, self.parser.CurrentByteIndex))
