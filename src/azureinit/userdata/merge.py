"""Several cloud-config documents -> one, by cloud-init's rules. Lines and columns stay those of the source.

A document names its mergers itself (`merge_how`, or `merge_type`), in the Merge-Type header of its part, or in both.
Without any, a later document replaces every top-level key that it has. cloud-init leaves out a document that cannot be
merged; here that is an error.
"""

from __future__ import annotations

from azureinit.userdata.node import BINARY, INTEGER, LIST, MAPPING, TEXT, Node, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

DEFAULT = "dict(replace)+list()+str()"
HOW = ("merge_how", "merge_type")
NAMES = {"dict": MAPPING, "list": LIST, "str": TEXT}
# Of a merger's options, the first of these that is given is its method.
METHODS = {
    MAPPING: ("replace", "no_replace"),
    LIST: ("append", "prepend", "replace", "no_replace"),
    TEXT: ("append",),
}
DEFAULT_METHOD = {MAPPING: "no_replace", LIST: "replace", TEXT: ""}
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz_")
DIGITS = frozenset("0123456789")


class MergeFailed(Exception):
    def __init__(self, message: str, node: Node | None = None) -> None:
        super().__init__(message)
        self.node = node


class Merger:
    """How one kind of value is merged."""

    def __init__(self, kind: str, options: Any) -> None:
        try:
            given = [method for method in METHODS[kind] if method in options]
            self.texts = "recurse_str" in options
            self.lists = "recurse_array" in options or "recurse_list" in options
            # A dict merges the dicts in it, a list only where this is asked for.
            self.mappings = kind == MAPPING or "recurse_dict" in options
            self.delete = "allow_delete" in options
        except TypeError:
            raise MergeFailed("the settings of a merger must be a list of text") from None
        self.method = given[0] if given else DEFAULT_METHOD[kind]

    def recurses(self, new: Node) -> bool:
        return {LIST: self.lists, TEXT: self.texts, MAPPING: self.mappings}.get(new.kind, False)


def merge_documents(documents: Sequence[tuple[Node, str]]) -> Node:
    """Each document is a mapping, with the Merge-Type header of its part, which may be empty."""
    merged = Node(MAPPING, (), 1, 1)
    for document, header in documents:
        rest, mergers = split_mergers(document, header)
        merged = merge(merged, rest, mergers)
    return merged


def split_mergers(document: Node, header: str) -> tuple[Node, dict[str, Merger]]:
    """The document without the key that names its mergers, and the mergers."""
    pairs = document.pairs()
    named: list[tuple[Any, Any]] = []
    for name in HOW:
        how = document.get(name)
        pairs = tuple(pair for pair in pairs if pair[0].value != name) if how is not None else pairs
        if how is not None and how.value is not None:
            try:
                named = parse_how(plain(how))
            except MergeFailed as failed:
                raise MergeFailed(str(failed), how) from None
            break
    named += parse_mergers(header)
    mergers: dict[str, Merger] = {}
    for name, options in named or parse_mergers(DEFAULT):
        short = name[2:] if isinstance(name, str) and name.startswith("m_") else name
        if not isinstance(short, str) or short not in NAMES:
            raise MergeFailed("a merger must be dict, list or str", document.get(HOW[0]) or document.get(HOW[1]))
        merger = Merger(NAMES[short], options)
        mergers.setdefault(NAMES[short], merger)  # of two for the same kind, the first counts
    return Node(MAPPING, pairs, document.line, document.column, document.part), mergers


def parse_how(how: Any) -> list[tuple[Any, Any]]:
    """`merge_how` as text, as a list of mappings with name and settings, or as a list of lists."""
    if isinstance(how, str):
        return parse_mergers(how)
    found: list[tuple[Any, Any]] = []
    for one in how if isinstance(how, list) or how == {} else [how]:
        if isinstance(one, dict) and isinstance(one.get("name"), str) and "settings" in one:
            name, options = one["name"].replace("-", "_").strip(), one["settings"]
        elif isinstance(one, list) and one:
            name, options = one[0], one[1:]
        else:
            raise MergeFailed("merge_how must be text, or a list of mappings with name and settings")
        if name:
            found.append((name, options))
    return found


def parse_mergers(text: str) -> list[tuple[Any, Any]]:
    """`list(append)+dict(no_replace, recurse_list)` -> names and options."""
    found: list[tuple[Any, Any]] = []
    for word in text.split("+"):
        one = word.lower().strip().replace("-", "_")
        if not one:
            continue
        name, bracket, rest = one.partition("(")
        right = name and name[0] in LETTERS and LETTERS.union(DIGITS).issuperset(name)
        if not right or not bracket or not rest.endswith(")") or "\n" in rest:
            raise MergeFailed("a merger must have the form name(option,option), as in list(append)")
        options = [option.strip().lower() for option in rest[:-1].split(",")]
        found.append((name, [option for option in options if option]))
    return found


def merge(old: Node, new: Node, mergers: dict[str, Merger]) -> Node:
    """A kind of value without a merger keeps its old value."""
    merger = mergers.get(old.kind)
    if merger is None:
        return old
    if old.kind == MAPPING:
        return _mappings(old, new, merger, mergers) if new.kind == MAPPING else old
    if old.kind == LIST:
        return _lists(old, new, merger, mergers)
    if not merger.method:
        return new
    if new.kind != TEXT:
        raise MergeFailed("str(append) cannot append a value that is not text", new)
    return Node(TEXT, old.value + new.value, old.line, old.column, old.part, old.text + new.text)


def _mappings(old: Node, new: Node, merger: Merger, mergers: dict[str, Merger]) -> Node:
    made = {key.value: (key, value) for key, value in old.pairs()}
    for key, value in new.pairs():
        if key.value not in made:
            made[key.value] = key, value
        elif value.value is None and merger.delete:
            del made[key.value]
        elif merger.method == "replace":
            made[key.value] = key, value
        elif merger.recurses(value):
            made[key.value] = made[key.value][0], merge(made[key.value][1], value, mergers)
    return Node(MAPPING, tuple(made.values()), old.line, old.column, old.part)


def _lists(old: Node, new: Node, merger: Merger, mergers: dict[str, Merger]) -> Node:
    if merger.method == "replace" and new.kind != LIST:
        return new
    items = _iterated(new)
    if merger.method in ("append", "prepend"):
        made = [*old.value, *items] if merger.method == "append" else [*items, *old.value]
        return Node(LIST, tuple(made), old.line, old.column, old.part)
    made = list(old.value)
    if new.kind == MAPPING and not {*range(min(len(made), len(items)))} <= {key.value for key in items}:
        raise MergeFailed("list(no_replace) cannot merge a mapping into a list", new)
    if merger.method == "replace":
        for index, (before, after) in enumerate(zip(made, items)):
            made[index] = merge(before, after, mergers) if merger.recurses(after) else after
    return Node(LIST, tuple(made), old.line, old.column, old.part)


def _iterated(node: Node) -> Sequence[Node]:
    """What Python's iteration gives, as cloud-init's merger does: the characters of text, the keys of a mapping."""
    if node.kind == LIST:
        return node.items()
    if node.kind == MAPPING:
        return [key for key, _ in node.pairs()]
    if node.kind in (TEXT, BINARY):
        kind = TEXT if node.kind == TEXT else INTEGER
        return [Node(kind, one, node.line, node.column, node.part, str(one)) for one in node.value]
    raise MergeFailed("a single value cannot be merged into a list", node)
