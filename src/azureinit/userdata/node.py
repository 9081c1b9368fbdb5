"""A YAML value that keeps its line and column, so that a failure of one item can name its place."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAPPING, LIST, TEXT, INTEGER, NUMBER, FLAG, NULL = "mapping", "list", "text", "integer", "number", "flag", "null"
BINARY, DATE = "binary", "date"


class Node:
    """Treated as frozen. Not a Record: a document has thousands, and a Record takes four times as long to make."""

    __slots__ = ("column", "kind", "line", "literal", "part", "size", "text", "value")

    def __init__(
        self, kind: str, value: Any, line: int, column: int, part: str = "", text: str = "", literal: bool = False
    ) -> None:
        self.kind = kind
        # A mapping: pairs of Nodes. A list: Nodes. A scalar: its Python value.
        self.value = value
        self.line, self.column, self.part = line, column, part
        self.text = text  # of a scalar, as it is written
        self.size = 1  # values in it, itself included, aliases expanded
        self.literal = literal  # a block scalar (|): its lines are the lines of the file after this one

    def get(self, name: str) -> Node | None:
        """The value of a key; None where there is none, or where this is no mapping."""
        return next((value for key, value in self.pairs() if key.value == name), None)

    def pairs(self) -> tuple[tuple[Node, Node], ...]:
        return self.value if self.kind == MAPPING else ()

    def items(self) -> tuple[Node, ...]:
        return self.value if self.kind == LIST else ()

    def __repr__(self) -> str:
        """Without the value, which may be a secret."""
        return f"Node({self.kind} at {self.line}:{self.column})"


def plain(node: Node) -> Any:
    """The Python value, as PyYAML gives it. An aliased part is one object, as there."""
    made: dict[int, Any] = {}

    def build(node: Node) -> Any:
        if node.kind not in (MAPPING, LIST):
            return node.value
        if id(node) not in made:
            if node.kind == LIST:
                made[id(node)] = [build(item) for item in node.value]
            else:
                made[id(node)] = {key.value: build(value) for key, value in node.value}
        return made[id(node)]

    return build(node)
