"""customData -> its parts: unpacks gzip, base64, MIME and archives. All parts share one limit of bytes and of depth.

Nothing is fetched or rendered: what includes hold and what templates became is given as an Expansion. Of those that it
lacks, there is a part.
"""

from __future__ import annotations

from azureinit.userdata.decoding import (
    TooLarge,
    Undecodable,
    parse_base64,
    parse_gzip,
    parse_quoted_printable,
    whole_base64,
)
from azureinit.userdata.expanding import NOTHING, Failed, content_of, too_many
from azureinit.userdata.formats import (
    BOM,
    GZIP,
    GZIP_TYPES,
    SPACE,
    UTF16,
    header_of,
    is_mime,
    kind_of,
    misplaced_header,
    sniff,
)
from azureinit.userdata.mime import MOST_BODIES, Body, parse_bodies, parse_message
from azureinit.userdata.values import (
    ARCHIVE,
    BOOTHOOK,
    CLOUD_CONFIG,
    ERROR,
    IGNITION,
    INCLUDE,
    JSONP,
    LONGEST_NAME,
    MOST_BYTES,
    MOST_DEPTH,
    MOST_FINDINGS,
    MOST_PARTS,
    MOST_URLS,
    OPAQUE,
    PART_HANDLER,
    SCRIPT,
    SCRIPTS,
    TEMPLATE,
    WARNING,
    Finding,
    Part,
    Place,
    Userdata,
    finding,
    position,
)
from azureinit.userdata.wrapped import Wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.userdata.expanding import Expansion
    from azureinit.userdata.values import Include

RENDERED = (CLOUD_CONFIG, SCRIPT, BOOTHOOK)  # what a template may become
NOT_DONE = {
    PART_HANDLER: "a part handler is not run: azure-init loads no code into itself",
    JSONP: "a JSON patch is not applied",
}
TOO_LARGE = f"the parts are larger than {MOST_BYTES >> 20} MiB together"


def parse_userdata(data: bytes, *, allow_http: bool = False, expansion: Expansion = NOTHING) -> Userdata:
    """`allow_http`: an include may name a plain http:// URL."""
    decoder = Decoder(allow_http=allow_http, expansion=expansion)
    decoder.add(Wrapped(data))
    return Userdata(parts=tuple(decoder.parts), findings=tuple(decoder.findings))


class Decoder:
    def __init__(self, *, allow_http: bool, expansion: Expansion) -> None:
        self.allow_http, self.expansion = allow_http, expansion
        self.urls = 0
        self.parts: list[Part] = []
        self.findings: list[Finding] = []
        self.room = MOST_BYTES
        self.full = False

    def add(self, wrapped: Wrapped) -> None:
        if self.full or self._is_too_much(wrapped):
            return
        content, kind = wrapped.content, wrapped.content_type
        if content.startswith(GZIP) or kind in GZIP_TYPES:
            self._gzip(wrapped)
            return
        if content.startswith(UTF16):
            self._tell(ERROR, "the text is UTF-16", wrapped, hint="save the file as UTF-8")
            return
        if content.startswith(BOM):
            hint = "save the file as UTF-8 without a byte-order mark; cloud-init ignores a file that has one"
            self._tell(WARNING, "the text begins with a byte-order mark", wrapped, hint=hint)
            wrapped.content = content = content[len(BOM) :]
        if not content.strip(SPACE):
            self._tell(WARNING, "there is no content", wrapped)
        elif not kind and is_mime(content):
            self._mime(parse_message(content, line=wrapped.place.line), wrapped)
        else:
            decoded = whole_base64(content) if kind_of(content, kind) == OPAQUE and not kind else None
            if decoded is not None:
                self._below(decoded, "base64", wrapped)
            else:
                self._part(wrapped, kind_of(content, kind))

    # ---- containers

    def _is_too_much(self, wrapped: Wrapped) -> bool:
        wrong = ""
        if len(wrapped.content) > MOST_BYTES:
            wrong = TOO_LARGE
        elif len(wrapped.inside) > MOST_DEPTH:
            wrong = f"containers are nested more than {MOST_DEPTH} levels deep"
        elif len(self.parts) >= MOST_PARTS:
            wrong = f"there are more than {MOST_PARTS} parts"
        elif len(self.findings) >= MOST_FINDINGS:
            wrong = "there are too many mistakes, and the rest is not read"
        if wrong:
            self.full = True
            self._tell(ERROR, wrong, wrapped)
        return bool(wrong)

    def _below(self, content: bytes, how: str, wrapped: Wrapped) -> None:
        """Unpacked content has lines of its own, which the part's name tells apart from those of the file."""
        if self._has_room(content, wrapped):
            part = wrapped.name or wrapped.place.part or f"from {how}"
            self.add(wrapped.unpacked(content, how, Place(part=part)))

    def _has_room(self, content: bytes, wrapped: Wrapped) -> bool:
        self.room -= len(content)
        if self.room < 0 and not self.full:
            self.full = True
            self._tell(ERROR, TOO_LARGE, wrapped)
        return not self.full

    def _gzip(self, wrapped: Wrapped) -> None:
        try:
            content = parse_gzip(wrapped.content, limit=self.room)
        except TooLarge:
            self.full = True
            self._tell(ERROR, TOO_LARGE, wrapped)
        except Undecodable as why:
            self._tell(ERROR, f"the gzip data cannot be decompressed: {why}", wrapped)
        else:
            self._below(content, "gzip", wrapped)

    def _mime(self, body: Body, wrapped: Wrapped) -> None:
        place = wrapped.place
        at = Wrapped(b"", Place(part=place.part, line=body.line), wrapped.inside)
        if not body.content_type.startswith("multipart/"):
            self._body(body, wrapped)
            return
        if not body.boundary:
            self._tell(ERROR, "the multipart message names no boundary", wrapped, hint="add boundary= to Content-Type")
            return
        bodies, closed = parse_bodies(body)
        if not bodies:
            self._tell(ERROR, "the multipart message has no part", at, hint="compare the boundary lines with boundary=")
        elif len(bodies) == MOST_BODIES:
            self._tell(ERROR, f"the message has {MOST_BODIES} parts or more", at)
        elif not closed:
            self._tell(WARNING, "the multipart message has no end: its last boundary is missing", at)
        for one in bodies:
            if self.full:
                return
            self._body(one, wrapped)

    def _body(self, body: Body, wrapped: Wrapped) -> None:
        inside = (*wrapped.inside, "MIME")
        below = Wrapped(body.content, Place(part=wrapped.place.part, line=body.line), inside, chain=wrapped.chain)
        below.name = file_name(body.filename)
        below.content_type = body.content_type or "text/plain"
        below.merge_type = body.merge_type
        below.windows = b"\r\n" in wrapped.content[:1024]
        if body.content_type.startswith("multipart/"):
            if not self._is_too_much(below):
                self._mime(body, below)
            return
        if body.encoding in ("base64", "quoted-printable"):
            name = below.name or self._next_name()
            try:
                decode = parse_base64 if body.encoding == "base64" else parse_quoted_printable
                content = decode(body.content)
            except Undecodable as why:
                self._tell(ERROR, f"the part cannot be decoded: {why}", below)
                return
            if not self._has_room(content, below):
                return
            below.content, below.place = content, Place(part=name)
        elif body.encoding not in ("", "7bit", "8bit", "binary"):
            self._tell(ERROR, "the part has an unknown Content-Transfer-Encoding", below, hint="use base64")
            return
        self.add(below)

    def _archive(self, text: str, wrapped: Wrapped) -> None:
        from azureinit.userdata.archive import parse_archive

        entries, findings = parse_archive(text, place=wrapped.place)
        self.findings += findings
        for entry in entries:
            inside, name = (*wrapped.inside, ARCHIVE), file_name(entry.filename)
            below = Wrapped(entry.content, entry.place, inside, name, wrapped.chain)
            below.merge_type = entry.merge_type
            below.content_type = entry.content_type
            if not entry.content_type and sniff(entry.content) == OPAQUE and not entry.content.startswith(GZIP):
                below.content_type = "text/cloud-config"
            if not below.place.part and not entry.verbatim:
                below.place = Place(part=below.name or self._next_name())
            if not self._has_room(entry.content, below):
                return
            self.add(below)

    # ---- parts

    def _part(self, wrapped: Wrapped, kind: str) -> None:
        if kind not in (OPAQUE, IGNITION):
            self._line_ends(wrapped)
        includes: tuple[Include, ...] = ()
        renders = ""
        if kind == ARCHIVE:
            text = self._text(wrapped)
            if text is not None:
                self._archive(text, wrapped)
            return
        if kind == INCLUDE:
            includes, whole = self._includes(wrapped)
            if whole:
                return
        elif kind == TEMPLATE:
            if self._rendered(wrapped):
                return
            renders = self._template(wrapped)
        elif kind in SCRIPTS:
            self._script(wrapped, kind)
        elif kind in NOT_DONE:
            self._tell(WARNING, NOT_DONE[kind], wrapped)
        elif kind == OPAQUE:
            self._unknown(wrapped)
        self.parts.append(
            Part(
                kind=kind,
                name=wrapped.name or self._next_name(),
                content=wrapped.content,
                place=wrapped.place,
                merge_type=wrapped.merge_type,
                includes=includes,
                renders=renders,
                inside=wrapped.inside,
            )
        )

    def _line_ends(self, wrapped: Wrapped) -> None:
        first = wrapped.content.find(b"\r\n")
        if first < 0:
            return
        if not wrapped.windows:
            line, column = position(wrapped.content, first)
            message, hint = "the text has Windows line ends; they are converted", "save the file with Unix line ends"
            self._tell(WARNING, message, wrapped, line=line, column=column, hint=hint)
        wrapped.content = wrapped.content.replace(b"\r\n", b"\n")

    def _text(self, wrapped: Wrapped) -> str | None:
        text, wrong = decoded(wrapped.content, place=wrapped.place, level=ERROR)
        self.findings += wrong
        return text

    def _includes(self, wrapped: Wrapped) -> tuple[tuple[Include, ...], bool]:
        """Unpack what was fetched. The URLs that were not, and whether there is none of those."""
        from azureinit.userdata.include import parse_includes

        text = self._text(wrapped)
        if text is None:
            return (), False
        found, findings = parse_includes(text, place=wrapped.place, allow_http=self.allow_http)
        self.findings += findings
        left: list[Include] = []
        for one in found:
            content = content_of(one, self.expansion, wrapped.chain)
            self.urls += 1
            if self.urls > MOST_URLS and not self.full:
                self.full = True
                self.findings.append(too_many(one))
            if self.full:
                break
            if content is None:
                left.append(one)
            elif isinstance(content, Finding):
                self.findings.append(content)
            elif self._has_room(content, wrapped):
                place = Place(part=f"{wrapped.place.part or INCLUDE}, line {one.line}")
                self.add(Wrapped(content, place, (*wrapped.inside, INCLUDE), chain=(*wrapped.chain, one.url)))
        if left:
            self._tell(WARNING, "the URLs are not fetched, and what they name is not checked", wrapped)
        return tuple(left), bool(found) and not left

    def _rendered(self, wrapped: Wrapped) -> bool:
        """Take what the template became, or say why it became nothing. False: it was not rendered."""
        made = self.expansion.rendered.get(wrapped.content)
        if made is None:
            return False
        if isinstance(made, Failed):
            self._tell(ERROR, f"the template cannot be rendered: {made.why}", wrapped, line=made.line, hint=made.hint)
        elif sniff(made) not in RENDERED:
            hint = "write #cloud-config, #! or #cloud-boothook into the second line"
            self._tell(ERROR, "the rendered template is no cloud-config, script or boothook", wrapped, hint=hint)
        elif self._has_room(made, wrapped):
            part = f"{wrapped.name or wrapped.place.part or 'template'}, rendered"
            below = Wrapped(made, Place(part=part), (*wrapped.inside, TEMPLATE), wrapped.name, wrapped.chain)
            below.merge_type = wrapped.merge_type
            self.add(below)
        return True

    def _template(self, wrapped: Wrapped) -> str:
        from azureinit.userdata.packages import JINJA_HINT, JINJA_MISSING, find_jinja2

        start, _ = header_of(wrapped.content, TEMPLATE)
        renders = sniff(wrapped.content[start:].partition(b"\n")[2])
        if renders not in RENDERED:
            hint = "write #cloud-config, #! or #cloud-boothook into the second line"
            self._tell(ERROR, "the template does not say what it becomes", wrapped, line=2, hint=hint)
        if find_jinja2() is None:
            self._tell(ERROR, JINJA_MISSING, wrapped, hint=JINJA_HINT)
        self._tell(WARNING, "the template is not rendered, and its content is not checked", wrapped)
        self._text(wrapped)
        return renders

    def _script(self, wrapped: Wrapped, kind: str) -> None:
        start, header = header_of(wrapped.content, SCRIPT if kind != BOOTHOOK else BOOTHOOK)
        if kind != BOOTHOOK and not header:
            self._tell(WARNING, "the script does not begin with #!", wrapped, hint="name its interpreter: #!/bin/sh")
        elif kind != BOOTHOOK and start:
            line, column = position(wrapped.content, start)
            hint = "remove the white space before it: the kernel does not run such a file"
            self._tell(WARNING, "#! is not at the beginning", wrapped, line=line, column=column, hint=hint)
        self.findings += decoded(wrapped.content, place=wrapped.place, level=WARNING)[1]

    def _unknown(self, wrapped: Wrapped) -> None:
        from azureinit.userdata.keys import BY_NAME

        text, _ = decoded(wrapped.content, place=wrapped.place, level=WARNING)
        missing = misplaced_header(text, frozenset(BY_NAME)) if text is not None else None
        if missing is not None:
            hint = "make #cloud-config the first line"
            self._tell(ERROR, f"this looks like a cloud-config, but {missing[1]}", wrapped, line=missing[0], hint=hint)
        else:
            hint = "the first line decides: #cloud-config, #!, #include, ..."
            self._tell(WARNING, "the format is unknown: the content is kept, and nothing is done", wrapped, hint=hint)

    def _next_name(self) -> str:
        return f"part-{len(self.parts) + 1:03d}"

    def _tell(
        self, level: str, message: str, wrapped: Wrapped, *, line: int = 1, column: int = 1, hint: str = ""
    ) -> None:
        self.findings.append(finding(level, message, place=wrapped.place, line=line, column=column, hint=hint))


def decoded(content: bytes, *, place: Place, level: str) -> tuple[str | None, tuple[Finding, ...]]:
    """The text; None, and the place of the first wrong byte, if the content is not UTF-8."""
    try:
        return content.decode(), ()
    except UnicodeDecodeError as error:
        line, column = position(content, error.start)
        message = f"the text is not UTF-8: byte 0x{content[error.start]:02x}"
        return None, (
            finding(level, message, place=place, line=line, column=column, hint="save the file as UTF-8"),
        )  # fmt: skip


def file_name(given: str) -> str:
    """The last component of a name that a document gives, safe to print and to use in a directory."""
    name = given.replace("\\", "/").rpartition("/")[2].strip()[:LONGEST_NAME]
    return "" if name in (".", "..") or not name.isprintable() else name
