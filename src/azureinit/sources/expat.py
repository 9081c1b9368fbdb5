"""Safe XML parsing: limits on size and depth, no DOCTYPE, no encoding chosen by the document."""

from __future__ import annotations

import pyexpat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Protocol

    from azureinit.errors import AzureInitError

    class Reader(Protocol):
        def start(self, name: str, attributes: dict[str, str], /) -> None: ...
        def data(self, text: str, /) -> None: ...
        def end(self, name: str, /) -> None: ...


MOST_BYTES = 1 << 20
MOST_DEPTH = 64
MOST_URI = 256  # letters of a namespace URI, which is part of every element's name
MOST_NAME = 64  # longer than any known name, short enough for a path of 64 names
UTF8_MARK, UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
ENCODINGS = ("utf-8", "utf-16", "utf-16le", "utf-16be", "us-ascii", "iso-8859-1")


class Guard:
    """Checks the parser's events before a reader gets them. `name`: the document's. `invalid`: the error class."""

    def __init__(self, reader: Reader, *, name: str, invalid: type[AzureInitError]) -> None:
        self.reader, self.name, self.invalid = reader, name, invalid
        self._depth = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self.invalid(f"{self.name} is nested more than {MOST_DEPTH} deep")
        self.reader.start(name, attributes)

    def end(self, name: str) -> None:
        self._depth -= 1
        self.reader.end(name)

    def declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and encoding.lower() not in ENCODINGS:
            raise self.invalid(f"{self.name} has an unsupported encoding")

    def namespace(self, _prefix: str | None, uri: str | None) -> None:
        """A long namespace URI with thousands of elements would take quadratic time."""
        if uri is not None and len(uri) > MOST_URI:
            raise self.invalid(f"{self.name} has a namespace of {len(uri)} characters, more than {MOST_URI}")

    def doctype(self, *_: object) -> None:
        raise self.invalid(f"{self.name} has a DOCTYPE, which is refused")


def walk(data: bytes, reader: Reader, *, name: str, invalid: type[AzureInitError], limit: int = MOST_BYTES) -> None:
    """Pass every element of the document to the reader. Names are `URI local`, or `local` without a namespace."""
    if len(data) > limit:
        raise invalid(f"{name} has {len(data)} bytes, more than the {limit} allowed")
    data = stripped(data)
    check_utf16(data, name=name, invalid=invalid)
    parser = guarded(encoding(data), reader, name=name, invalid=invalid)
    parser.buffer_text = True
    parse(parser, data, name=name, invalid=invalid)


def guarded(codec: str | None, reader: Reader, *, name: str, invalid: type[AzureInitError]) -> pyexpat.XMLParserType:
    guard = Guard(reader, name=name, invalid=invalid)
    parser = pyexpat.ParserCreate(codec, " ")
    parser.XmlDeclHandler = guard.declaration  # otherwise the document could choose any of Python's codecs
    parser.StartDoctypeDeclHandler = guard.doctype
    parser.StartNamespaceDeclHandler = guard.namespace
    parser.StartElementHandler = guard.start
    parser.EndElementHandler = guard.end
    parser.CharacterDataHandler = reader.data
    return parser


def parse(parser: pyexpat.XMLParserType, data: bytes, *, name: str, invalid: type[AzureInitError]) -> None:
    try:
        parser.Parse(data, True)
    except pyexpat.ExpatError as error:
        what = pyexpat.ErrorString(error.code)
        raise invalid(f"{name} is not XML: {what}, line {error.lineno} column {error.offset}") from None


def stripped(data: bytes) -> bytes:
    """The document without the padding that some writers leave around it."""
    return data if b"\0" in data[:4] or data[:2] in UTF16_MARKS else data.strip(b" \t\r\n\0")


def utf16(data: bytes) -> str | None:
    """The UTF-16 variant, with or without a byte order mark; None for any other encoding."""
    if data[:2] in UTF16_MARKS:
        return "utf-16"
    if b"\0" in data[:2]:
        return "utf-16-be" if data[:1] == b"\0" else "utf-16-le"
    return None


def check_utf16(data: bytes, *, name: str, invalid: type[AzureInitError]) -> None:
    """Refuse lone surrogates: expat joins them unchecked."""
    codec = utf16(data)
    try:
        if codec is not None:
            data.decode(codec)
    except UnicodeDecodeError:
        raise invalid(f"{name} is not XML: its UTF-16 is damaged") from None


def encoding(data: bytes) -> str | None:
    """The bytes override the declared encoding: .NET declares "utf-16" for UTF-8 documents."""
    if data[:2] in UTF16_MARKS:
        return "utf-16"
    eight_bit = b"\0" not in data[:4]
    return "utf-8" if data[:3] == UTF8_MARK or (eight_bit and b"utf-16" in data[:200].lower()) else None


def texts(
    data: bytes, wanted: Collection[str], *, name: str, invalid: type[AzureInitError], limit: int = MOST_BYTES
) -> dict[str, list[str]]:
    """The trimmed texts at each wanted path (`Root/Branch/Leaf`, namespaces aside), in order, without empty ones."""
    reader = _Texts(wanted)
    walk(data, reader, name=name, invalid=invalid, limit=limit)
    return reader.found


class _Texts:
    def __init__(self, wanted: Collection[str]) -> None:
        self.found: dict[str, list[str]] = {path: [] for path in wanted}
        self._path: list[str] = []
        self._pieces: list[str] = []  # text of the innermost element: leaves have no child elements

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._path.append(name.rpartition(" ")[2][:MOST_NAME])
        self._pieces = []

    def data(self, text: str) -> None:
        self._pieces.append(text)

    def end(self, _name: str) -> None:
        path, text = "/".join(self._path), "".join(self._pieces).strip()
        if text and path in self.found:
            self.found[path].append(text)
        self._path.pop()
        self._pieces = []
