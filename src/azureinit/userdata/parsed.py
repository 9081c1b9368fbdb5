"""A document that was parsed and checked, as JSON values: a later stage of the boot needs no YAML to read it.

Nodes are rows of one table in which a list or a mapping names its children by their numbers, so that an aliased part
stays one object. Only documents without errors, and of the parts only the scripts. What JSON cannot hold, such as a
date, is a ValueError: that document is parsed again.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64

from azureinit.record import Secret
from azureinit.userdata.document import Document
from azureinit.userdata.node import BINARY, DATE, LIST, MAPPING, Node
from azureinit.userdata.values import Finding, Part, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def encode_document(document: Document) -> dict[str, Any]:
    return {
        "nodes": _encode_nodes(document.config),
        "scripts": [_encode_part(part) for part in document.scripts],
        "findings": [one.as_dict() for one in document.findings],
        "fetched": {uri: _text(data.reveal()) for uri, data in document.fetched.items()},
    }


def decode_document(values: dict[str, Any]) -> Document | None:
    """None for anything that `encode_document` cannot have made."""
    try:
        scripts = tuple(_decode_part(row) for row in values["scripts"])
        return Document(
            config=_decode_nodes(values["nodes"]),
            parts=scripts,
            scripts=scripts,
            findings=tuple(Finding(**row) for row in values["findings"]),
            fetched={uri: Secret(a2b_base64(text)) for uri, text in values["fetched"].items()},
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None


def _encode_nodes(root: Node) -> list[list[Any]]:
    """Children before the nodes that hold them; the document itself is the last row."""
    rows: list[list[Any]] = []
    numbers: dict[int, int] = {}

    def number(node: Node) -> int:
        if id(node) not in numbers:
            value = node.value
            if node.kind == LIST:
                value = [number(item) for item in value]
            elif node.kind == MAPPING:
                value = [number(one) for pair in value for one in pair]
            elif node.kind == BINARY:
                value = _text(value)
            elif node.kind == DATE:
                raise ValueError("JSON has no dates")
            rows.append([node.kind, value, node.line, node.column, node.part, node.text, node.literal])
            numbers[id(node)] = len(rows) - 1
        return numbers[id(node)]

    number(root)
    return rows


def _decode_nodes(rows: list[list[Any]]) -> Node:
    nodes: list[Node] = []
    for kind, value, line, column, part, text, literal in rows:
        if kind == LIST:
            value = tuple(nodes[item] for item in value)
        elif kind == MAPPING:
            value = tuple((nodes[key], nodes[item]) for key, item in zip(value[::2], value[1::2]))
        elif kind == BINARY:
            value = a2b_base64(value)
        nodes.append(Node(kind, value, line, column, part, text, literal))
    return nodes[-1]


def _encode_part(part: Part) -> dict[str, Any]:
    """A script: it has no includes, and renders to nothing else."""
    values = {"content": _text(part.content), "place": part.place.as_dict(), "inside": list(part.inside)}
    return {"kind": part.kind, "name": part.name, "merge_type": part.merge_type, **values}


def _decode_part(values: dict[str, Any]) -> Part:
    return Part(
        kind=values["kind"],
        name=values["name"],
        content=a2b_base64(values["content"]),
        place=Place(**values["place"]),
        merge_type=values["merge_type"],
        inside=tuple(values["inside"]),
    )


def _text(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()
