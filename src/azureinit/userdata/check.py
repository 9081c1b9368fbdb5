"""A cloud-config against the table of keys: every difference is a finding with its line, column and a suggestion.

No finding contains a value of the document: it may be a secret.
"""

from __future__ import annotations

from azureinit.userdata.keys import BY_NAME
from azureinit.userdata.kinds import (
    FORMS,
    OWN_KEY,
    Anything,
    Choice,
    Keys,
    ListOf,
    Named,
    OneOf,
    Scalar,
    said,
)
from azureinit.userdata.node import BINARY, DATE, FLAG, INTEGER, LIST, MAPPING, NULL, NUMBER, TEXT, Node
from azureinit.userdata.values import ERROR, MOST_FINDINGS, WARNING, Finding, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from azureinit.userdata.kinds import Field, Kind

FLAG_WORDS = ("true", "false", "yes", "no", "on", "off", "1", "0")
EMPTY = "has no value, and nothing is done for it"
PAST = "out of use, and nothing is done for it"
KIND_WORDS = {
    MAPPING: "a mapping",
    LIST: "a list",
    TEXT: "text",
    INTEGER: "a number",
    NUMBER: "a number",
    FLAG: "true or false",
    NULL: "empty",
    BINARY: "binary data",
    DATE: "a date",
}


def check_document(document: Node) -> tuple[Finding, ...]:
    """A document that is not a mapping is one finding."""
    if document.kind != MAPPING:
        wrong = f"a cloud-config must be a mapping of keys to values, and this is {KIND_WORDS[document.kind]}"
        return (_finding(ERROR, wrong, document, hint="write key: value lines below #cloud-config"),)
    check = Check()
    for key, value in document.pairs():
        check.key(key, value)
        if len(check.found) >= MOST_FINDINGS:
            break
    return tuple(check.found.values())


class Check:
    """Collects findings; an aliased value that is wrong is told once."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int, int], Finding] = {}
        self.of: dict[type, Callable[[Node, Any, str], None]] = {
            OneOf: self.one_of,
            Scalar: self.scalar,
            Choice: self.choice,
            ListOf: self.list,
            Named: self.named,
            Keys: self.keys,
        }

    def tell(self, level: str, message: str, node: Node, *, hint: str = "") -> None:
        if len(self.found) < MOST_FINDINGS:
            self.found.setdefault((message, node.line, node.column), _finding(level, message, node, hint=hint))

    def key(self, key: Node, value: Node) -> None:
        """A key at the top of the document."""
        name = key.text
        row = BY_NAME.get(name) if key.kind == TEXT else None
        if row is None and key.kind == TEXT and name.startswith(OWN_KEY):
            self.tell(WARNING, f"{shown(name)} is a key of your own: nothing is done for it", key)
            return
        if row is None:
            self.tell(ERROR, f"unknown key {shown(name)}", key, hint=nearest(name, BY_NAME))
            return
        if row.use:
            self.tell(WARNING, f"{name} is an older name", key, hint=f"use {row.use}")
        elif not row.module:
            self.tell(WARNING, f"{name} is accepted, but azure-init does not do it", key)
        if value.kind == NULL and not fits(value, row.kind):
            self.tell(WARNING, f"{name} {EMPTY}", value)
        else:
            self.value(value, row.kind, name)

    def value(self, node: Node, kind: Kind, name: str) -> None:
        check = self.of.get(type(kind))
        if check is not None:
            check(node, kind, name)

    def one_of(self, node: Node, kind: OneOf, name: str) -> None:
        for one in kind.kinds:
            if fits(node, one):
                self.value(node, one, name)
                return
        self.wrong(node, kind, name)

    def scalar(self, node: Node, kind: Scalar, name: str) -> None:
        if node.kind in kind.takes:
            if kind.form and node.kind in (TEXT, INTEGER):
                self.form(node, kind, name)
        elif kind.form == "mode" and node.kind == INTEGER:
            self.mode(node, name)
        elif kind.takes == (FLAG,) and node.kind in (TEXT, INTEGER) and node.text.lower() in FLAG_WORDS:
            self.tell(WARNING, f"{name} should be true or false", node, hint="remove the quotation marks")
        else:
            self.wrong(node, kind, name)

    def form(self, node: Node, kind: Scalar, name: str) -> None:
        import re

        if not re.match(FORMS[kind.form], str(node.value)):
            self.tell(ERROR, f"{name} must be {kind.says}", node)

    def mode(self, node: Node, name: str) -> None:
        """YAML reads 0644 as an octal number, which is the mode, and 644 as a decimal number, which is another one."""
        quoted = f"write '{node.text if node.text.startswith('0') else '0' + node.text}'"
        if node.text.startswith("0"):
            self.tell(WARNING, f"{name} should be in quotation marks", node, hint=quoted)
        else:
            self.tell(ERROR, f"{name} is a decimal number, and not the octal mode that it seems", node, hint=quoted)

    def choice(self, node: Node, kind: Choice, name: str) -> None:
        if node.kind == TEXT and True in kind.values and not fits(node, kind) and node.text.lower() in FLAG_WORDS:
            self.tell(WARNING, f"{name} should be true or false", node, hint="remove the quotation marks")
        elif node.kind == TEXT and node.value in kind.past:
            self.tell(WARNING, f"{name} is {node.value}, which is {PAST}", node)
        elif not fits(node, kind):
            hint = nearest(node.text, [value for value in kind.values if isinstance(value, str)])
            self.tell(ERROR, f"{name} must be {said(kind)}", node, hint=hint)

    def list(self, node: Node, kind: ListOf, name: str) -> None:
        if node.kind != LIST:
            self.wrong(node, kind, name)
            return
        if kind.use:
            self.tell(WARNING, f"{name} as a list is an older form", node, hint=f"use {kind.use}")
        count = len(node.items())
        if count < kind.least or (kind.most and count > kind.most):
            wanted = f"{kind.least} to {kind.most}" if kind.most > kind.least else f"{kind.least}"
            self.tell(ERROR, f"{name} must have {wanted} items, and has {count}", node)
        for index, item in enumerate(node.items()):
            if count > 1 and isinstance(kind.item, Keys) and is_fragment(item, kind.item):
                lacks = f"{name}[{index}] lacks the key {missing(item, kind.item)[0]}"
                hint = "if it belongs to the item before or after it, join the two: one hyphen for each item"
                self.tell(ERROR, lacks, item, hint=hint)
            else:
                self.value(item, kind.item, f"{name}[{index}]")

    def named(self, node: Node, kind: Named, name: str) -> None:
        if node.kind != MAPPING:
            self.wrong(node, kind, name)
        for key, value in node.pairs():
            self.value(value, kind.value, f"{name}.{shown(key.text)}")

    def keys(self, node: Node, kind: Keys, name: str) -> None:
        if node.kind != MAPPING:
            self.wrong(node, kind, name)
            return
        for lacking in missing(node, kind):
            self.tell(ERROR, f"{name} lacks the key {lacking}", node)
        if kind.one_of and not any(node.get(one) for one in kind.one_of):
            self.tell(ERROR, f"{name} lacks one of the keys {', '.join(kind.one_of)}", node)
        fields = {field.name: field for field in kind.fields}
        for key, value in node.pairs():
            field = fields.get(key.text) if key.kind == TEXT else None
            if field is not None:
                if field.past:
                    self.tell(WARNING, f"{name}.{field.name} is {PAST}", key)
                elif field.use:
                    self.tell(WARNING, f"{name}.{field.name} is an older name", key, hint=f"use {field.use}")
                if is_left_empty(value, field):
                    self.tell(WARNING, f"{name}.{field.name} {EMPTY}", value)
                else:
                    self.value(value, field.kind, f"{name}.{field.name}")
            elif kind.undone:
                self.tell(WARNING, f"{name}.{shown(key.text)} is accepted, but azure-init does not do it", key)
            elif not kind.more:
                self.tell(ERROR, f"unknown key {shown(key.text)} in {name}", key, hint=nearest(key.text, fields))

    def wrong(self, node: Node, kind: Kind, name: str) -> None:
        hint = ""
        wanted = kind.kinds if isinstance(kind, OneOf) else (kind,)
        texts = any(isinstance(one, Scalar) and TEXT in one.takes for one in wanted)
        if texts and node.kind in (INTEGER, NUMBER, FLAG, DATE):
            hint = "put it in quotation marks"
        elif texts and node.kind == MAPPING:
            hint = "a colon and a space make it a mapping: put the whole text in quotation marks"
        elif any(isinstance(one, ListOf) for one in wanted) and node.kind not in (LIST, NULL):
            hint = "begin each item with a hyphen"
        self.tell(ERROR, f"{name} must be {said(kind)}, and is {KIND_WORDS[node.kind]}", node, hint=hint)


def fits(node: Node, kind: Kind) -> bool:
    """Whether the value has the form of this kind, without what is in it."""
    if isinstance(kind, Scalar):
        return node.kind in kind.takes
    if isinstance(kind, ListOf):
        return node.kind == LIST
    if isinstance(kind, Choice):
        values = (*kind.values, *kind.past)
        return node.kind in (TEXT, FLAG) and any(node.value is one or _same(node, one) for one in values)
    if isinstance(kind, OneOf):
        return any(fits(node, one) for one in kind.kinds)
    return isinstance(kind, Anything) or node.kind == MAPPING


def is_left_empty(value: Node, field: Field) -> bool:
    """Whether a key has no value and might as well not be there."""
    return value.kind == NULL and not field.required and not fits(value, field.kind)


def with_values(node: Node, kind: Kind) -> Node:
    """Without the keys that are left empty."""
    if isinstance(kind, OneOf):
        chosen = next((one for one in kind.kinds if fits(node, one)), None)
        return with_values(node, chosen) if chosen is not None else node
    if node.kind == LIST and isinstance(kind, ListOf):
        items = tuple(with_values(item, kind.item) for item in node.items())
        return node if items == node.items() else _copied(node, items)
    if node.kind != MAPPING or not isinstance(kind, (Keys, Named)):
        return node
    fields = {field.name: field for field in kind.fields} if isinstance(kind, Keys) else {}
    pairs = []
    for key, value in node.pairs():
        field = fields.get(key.value) if key.kind == TEXT else None
        if field is None:
            pairs.append((key, with_values(value, kind.value) if isinstance(kind, Named) else value))
        elif not is_left_empty(value, field):
            pairs.append((key, with_values(value, field.kind)))
    return node if tuple(pairs) == node.pairs() else _copied(node, tuple(pairs))


def _copied(node: Node, value: tuple[Any, ...]) -> Node:
    return Node(node.kind, value, node.line, node.column, node.part)


def _same(node: Node, value: str | bool) -> bool:
    return isinstance(value, str) and node.kind == TEXT and node.value == value


def is_fragment(item: Node, kind: Keys) -> bool:
    """Whether a list item looks like a part of the item beside it: known keys only, and a required one missing."""
    known = {field.name for field in kind.fields}
    return item.kind == MAPPING and bool(missing(item, kind)) and all(key.value in known for key, _ in item.pairs())


def missing(node: Node, kind: Keys) -> list[str]:
    return [field.name for field in kind.fields if field.required and node.get(field.name) is None]


def nearest(name: str, known: Iterable[str]) -> str:
    """A suggestion; empty if no known name is similar."""
    from difflib import get_close_matches

    plain = name[:64].lower().replace("-", "_")
    found = get_close_matches(plain, list(known), n=1, cutoff=0.7)
    return f"did you mean {found[0]}?" if found else ""


def _finding(level: str, message: str, node: Node, *, hint: str = "") -> Finding:
    return Finding(level=level, message=message, line=node.line, column=node.column, part=node.part, hint=hint)
