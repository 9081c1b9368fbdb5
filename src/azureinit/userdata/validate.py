"""customData -> everything that is wrong with it, before anything runs. Nothing is fetched or rendered."""

from __future__ import annotations

from azureinit.record import Record
from azureinit.userdata.expanding import NOTHING
from azureinit.userdata.formats import header_of
from azureinit.userdata.parts import decoded, parse_userdata
from azureinit.userdata.values import (
    CLOUD_CONFIG,
    ERROR,
    MOST_FINDINGS,
    MOST_YAML_NODES,
    WARNING,
    Finding,
    Part,
    finding,
    position,
    shown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.userdata.expanding import Expansion
    from azureinit.userdata.node import Node

AFTER_HEADER = b" \t\r\n#"


class Report(Record):
    parts: tuple[Part, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        return sum(one.level == ERROR for one in self.findings)


def validate(data: bytes, *, allow_http: bool = False, expansion: Expansion = NOTHING) -> Report:
    userdata = parse_userdata(data, allow_http=allow_http, expansion=expansion)
    findings = list(userdata.findings)
    documents: list[tuple[Part, Node]] = []
    room = MOST_YAML_NODES  # shared by all documents
    for part in userdata.parts:
        if part.kind != CLOUD_CONFIG or len(findings) >= MOST_FINDINGS:
            continue
        document, found = parse_cloud_config(part, room=room)
        findings += found
        if document is not None:
            documents.append((part, document))
            room -= document.size
    findings += _merging(documents)
    if len(findings) > MOST_FINDINGS:
        last = findings[MOST_FINDINGS]
        more = Finding(level=ERROR, message="there are more findings", line=last.line, column=last.column)
        findings = [*findings[:MOST_FINDINGS], more]
    order = {"": -1}  # findings about the file itself come first
    for index, part in enumerate(userdata.parts):
        order.setdefault(part.place.part, index)
    findings.sort(key=lambda one: (order.get(one.part, 0), one.part, one.line, one.column))
    return Report(parts=userdata.parts, findings=tuple(findings))


def parse_cloud_config(part: Part, *, room: int = MOST_YAML_NODES) -> tuple[Node | None, tuple[Finding, ...]]:
    """The document, None if there is none that could be merged, and what is wrong with it."""
    from azureinit.userdata.check import check_document
    from azureinit.userdata.node import MAPPING
    from azureinit.userdata.yamltext import parse_yaml

    text, found = decoded(part.content, place=part.place, level=ERROR)
    if text is None:
        return None, found
    found = _header(part)
    document, wrong = parse_yaml(text, place=part.place)
    found += wrong
    if document is None:
        empty = finding(WARNING, "the cloud-config is empty", place=part.place)
        return None, found if any(one.level == ERROR for one in found) else (*found, empty)
    if document.size > room:
        message = f"the cloud-configs have more than {MOST_YAML_NODES} values together"
        return None, (*found, finding(ERROR, message, place=part.place))
    found += check_document(document)
    return document if document.kind == MAPPING else None, found


def _header(part: Part) -> tuple[Finding, ...]:
    """`#cloud-configs` is read as #cloud-config, as cloud-init does, but is hardly meant."""
    start, header = header_of(part.content, CLOUD_CONFIG)
    end = start + len(header)
    if not header or part.content[end : end + 1] in (b"", *(bytes((one,)) for one in AFTER_HEADER)):
        return ()
    line, column = position(part.content, end)
    message = "the first line goes on after #cloud-config"
    return (finding(WARNING, message, place=part.place, line=line, column=column, hint="write #cloud-config only"),)


def _merging(documents: list[tuple[Part, Node]]) -> list[Finding]:
    """Mergers that cannot work, and keys that a later document replaces without being asked to."""
    from azureinit.userdata.merge import HOW, MergeFailed, merge, split_mergers
    from azureinit.userdata.node import MAPPING, Node

    found: list[Finding] = []
    given: dict[str, Node] = {}
    merged = Node(MAPPING, (), 1, 1)
    for part, document in documents:
        try:
            rest, mergers = split_mergers(document, part.merge_type)
            merged = merge(merged, rest, mergers)
        except MergeFailed as failed:
            at = failed.node or document
            found.append(
                Finding(level=ERROR, message=f"cannot merge: {failed}", line=at.line, column=at.column, part=at.part)
            )
            continue
        asked = bool(part.merge_type) or any(document.get(name) for name in HOW)
        if MAPPING not in mergers:
            message = "no merger for dict is named, and so nothing of this document is used"
            at = document.get(HOW[0]) or document.get(HOW[1]) or document
            found.append(Finding(level=ERROR, message=message, line=at.line, column=at.column, part=at.part,
                                 hint="add dict(replace) or dict(recurse_list) to merge_how"))  # fmt: skip
        for key, _value in rest.pairs():
            before = given.get(key.text)
            if before is not None and not asked:
                where = f"line {before.line}" + (f" of {shown(before.part)}" if before.part else "")
                found.append(
                    Finding(
                        level=WARNING,
                        message=f"{shown(key.text)} replaces the one in {where}",
                        line=key.line,
                        column=key.column,
                        part=key.part,
                        hint="merge_how: list(append)+dict(no_replace,recurse_list)+str() keeps both",
                    )
                )
            given[key.text] = key
    return found
