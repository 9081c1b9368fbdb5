"""What is put in place of the includes and templates of customData. Parsing takes it, and touches nothing itself."""

from __future__ import annotations

from azureinit.record import Record
from azureinit.userdata.values import ERROR, MOST_URLS, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.userdata.node import Node
    from azureinit.userdata.values import Include

MOST_FETCHED = 16 << 20  # bytes of all URLs together


class Failed(Record):
    """Why there is no content. `line`: of a template, counted in it from 1."""

    why: str
    line: int = 1
    hint: str = ""


class Expansion(Record):
    # By URL, without its checksum: includes and the sources of files.
    fetched: Mapping[str, bytes | Failed] = {}
    # By the template's text.
    rendered: Mapping[bytes, bytes | Failed] = {}


NOTHING = Expansion()


def content_of(include: Include, expansion: Expansion, chain: tuple[str, ...]) -> bytes | Finding | None:
    """The content, why it cannot be used, or None if it was not fetched. `chain`: the URLs that lead to this one."""
    content = expansion.fetched.get(include.url)
    if include.url in chain:
        return _wrong("the include names a URL that includes it", include, "remove one of the two")
    if content is None:
        return None
    if isinstance(content, Failed):
        return _wrong(f"the include cannot be fetched: {content.why}", include, content.hint)
    if include.sha256:
        from hashlib import sha256

        if sha256(content).hexdigest() != include.sha256:
            hint = "the content changed, or the checksum belongs to another file"
            return _wrong("the included content does not have this checksum", include, hint)
    return content


def too_many(include: Include) -> Finding:
    return _wrong(f"there are more than {MOST_URLS} URLs in all include documents together", include, "")


def _wrong(message: str, include: Include, hint: str) -> Finding:
    return Finding(level=ERROR, message=message, line=include.line, column=include.column, part=include.part, hint=hint)


class Source(Record):
    """The source of a file of write_files."""

    uri: str
    headers: tuple[tuple[str, str], ...]
    line: int
    column: int
    part: str
    optional: bool  # the file has content, too, which is used where the source cannot be fetched


def file_sources(config: Node) -> tuple[Source, ...]:
    files = config.get("write_files")
    found: list[Source] = []
    for file in files.items() if files is not None else ():
        source = file.get("source")
        uri = source.get("uri") if source is not None else None
        if source is None or uri is None or not isinstance(uri.value, str):
            continue
        headers = source.get("headers")
        pairs = headers.pairs() if headers is not None else ()
        found.append(
            Source(
                uri=uri.value,
                headers=tuple((key.text, value.text) for key, value in pairs),
                line=uri.line,
                column=uri.column,
                part=uri.part,
                optional=file.get("content") is not None,
            )
        )
    return tuple(found)
