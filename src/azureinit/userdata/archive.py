"""A cloud-config-archive -> its entries: a YAML list of texts, or of mappings with content, type and filename."""

from __future__ import annotations

from azureinit.record import Record
from azureinit.userdata.node import BINARY, LIST, MAPPING, NULL, TEXT, Node
from azureinit.userdata.values import ERROR, MOST_PARTS, WARNING, Finding, Place, finding
from azureinit.userdata.yamltext import MOST_LINES, parse_yaml

MERGE_TYPE = ("merge-type", "x-merge-type")


class Entry(Record):
    content: bytes
    place: Place
    verbatim: bool  # its lines are those of the archive, so that `place` counts them there
    content_type: str = ""
    filename: str = ""
    merge_type: str = ""


def parse_archive(text: str, *, place: Place) -> tuple[tuple[Entry, ...], tuple[Finding, ...]]:
    node, findings = parse_yaml(text, place=place)
    if node is None or (node.kind == LIST and not node.items()):
        return (), findings or (finding(WARNING, "the archive has no entry", place=place),)
    if node.kind != LIST:
        return (), (*findings, _wrong("a cloud-config-archive must be a list", node))
    found: list[Entry] = []
    problems = list(findings)
    lines = text.split("\n") if text.count("\n") < MOST_LINES else []
    for item in node.items()[: MOST_PARTS + 1]:
        content = item.get("content") if item.kind == MAPPING else item
        if content is None or content.kind not in (TEXT, BINARY, NULL):
            problems.append(_wrong("an entry must be text, or a mapping with content", item))
            continue
        data = content.value if content.kind == BINARY else (content.value or "").encode()
        origin, verbatim = _origin(content, lines, place)
        header = {key.text.lower(): value.text for key, value in item.pairs()}
        found.append(
            Entry(
                content=data,
                place=origin,
                verbatim=verbatim,
                content_type=header.get("type", "").strip().lower(),
                filename=header.get("filename", ""),
                merge_type=header.get(MERGE_TYPE[0], "") or header.get(MERGE_TYPE[1], ""),
            )
        )
    return tuple(found), tuple(problems)


def _origin(node: Node, lines: list[str], place: Place) -> tuple[Place, bool]:
    """The lines of a block scalar (|) are lines of the archive, indented."""
    first = node.line - place.line
    if not node.literal or first >= len(lines):
        return Place(part=node.part), False
    indented = next((line for line in lines[first:] if line.strip()), "")
    indentation = len(indented) - len(indented.lstrip(" "))
    return Place(part=node.part, line=node.line, column=indentation + place.column), True


def _wrong(message: str, node: Node) -> Finding:
    return Finding(level=ERROR, message=message, line=node.line, column=node.column, part=node.part)
