"""A cloud-config against the table of keys: every difference is a finding with its line, column and a suggestion.

No finding contains a value of the document: it may be a secret.
"""

from __future__ import annotations

from azureinit.userdata.keys import BY_NAME
from azureinit.userdata.kinds import (
    FORMS,
    Anything,
    Choice,
    Field,
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
    from collections.abc import Iterable, Iterator

    from azureinit.userdata.kinds import Kind

FLAG_WORDS = ("true", "false", "yes", "no", "on", "off", "1", "0")
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
    found: dict[tuple[str, int, int], Finding] = {}
    for one in _document(document):
        found.setdefault((one.message, one.line, one.column), one)
        if len(found) >= MOST_FINDINGS:
            break
    return tuple(found.values())


def _document(document: Node) -> Iterator[Finding]:
    for key, value in document.pairs():
        name = key.text
        row = BY_NAME.get(name) if key.kind == TEXT else None
        if row is None:
            yield _finding(ERROR, f"unknown key {shown(name)}", key, hint=nearest(name, BY_NAME))
            continue
        if row.use:
            yield _finding(WARNING, f"{name} is an older name", key, hint=f"use {row.use}")
        elif not row.module:
            yield _finding(WARNING, f"{name} is accepted, but azure-init does not do it", key)
        if value.kind == NULL and not fits(value, row.kind):
            yield _finding(WARNING, f"{name} has no value, and nothing is done for it", value)
        else:
            yield from check(value, row.kind, name)


def check(node: Node, kind: Kind, name: str) -> Iterator[Finding]:
    if isinstance(kind, OneOf):
        chosen = next((one for one in kind.kinds if fits(node, one)), None)
        if chosen is not None:
            yield from check(node, chosen, name)
        else:
            yield _wrong(node, kind, name)
    elif isinstance(kind, Scalar):
        yield from _scalar(node, kind, name)
    elif isinstance(kind, Choice):
        if not fits(node, kind):
            hint = nearest(node.text, [value for value in kind.values if isinstance(value, str)])
            yield _finding(ERROR, f"{name} must be {said(kind)}", node, hint=hint)
    elif isinstance(kind, ListOf):
        yield from _list(node, kind, name)
    elif isinstance(kind, Named):
        if node.kind != MAPPING:
            yield _wrong(node, kind, name)
        for key, value in node.pairs():
            yield from check(value, kind.value, f"{name}.{shown(key.text)}")
    elif isinstance(kind, Keys):
        yield from _keys(node, kind, name)


def fits(node: Node, kind: Kind) -> bool:
    """Whether the value has the form of this kind, without what is in it."""
    if isinstance(kind, Anything):
        return True
    if isinstance(kind, Scalar):
        return node.kind in kind.takes
    if isinstance(kind, Choice):
        return node.kind in (TEXT, FLAG) and any(node.value is one or _same(node, one) for one in kind.values)
    if isinstance(kind, ListOf):
        return node.kind == LIST
    if isinstance(kind, OneOf):
        return any(fits(node, one) for one in kind.kinds)
    return node.kind == MAPPING


def _same(node: Node, value: str | bool) -> bool:
    return isinstance(value, str) and node.kind == TEXT and node.value == value


def _scalar(node: Node, kind: Scalar, name: str) -> Iterator[Finding]:
    if node.kind not in kind.takes:
        if kind.form == "mode" and node.kind == INTEGER:
            yield _mode(node, name)
        elif kind.takes == (FLAG,) and node.text.lower() in FLAG_WORDS and node.kind in (TEXT, INTEGER):
            yield _finding(WARNING, f"{name} should be true or false", node, hint="remove the quotation marks")
        else:
            yield _wrong(node, kind, name)
    elif kind.form and node.kind == TEXT:
        import re

        if not re.match(FORMS[kind.form], node.value):
            yield _finding(ERROR, f"{name} must be {kind.says}", node)


def _mode(node: Node, name: str) -> Finding:
    """YAML reads 0644 as an octal number, which is the mode; it reads 644 as a decimal number, which is another one."""
    quoted = f"write '{node.text if node.text.startswith('0') else '0' + node.text}'"
    if node.text.startswith("0"):
        return _finding(WARNING, f"{name} should be in quotation marks", node, hint=quoted)
    return _finding(ERROR, f"{name} is a decimal number, and not the octal mode that it seems", node, hint=quoted)


def _list(node: Node, kind: ListOf, name: str) -> Iterator[Finding]:
    if node.kind != LIST:
        yield _wrong(node, kind, name)
        return
    count = len(node.items())
    if count < kind.least or (kind.most and count > kind.most):
        wanted = f"{kind.least} to {kind.most}" if kind.most > kind.least else f"{kind.least}"
        yield _finding(ERROR, f"{name} must have {wanted} items, and has {count}", node)
    for index, item in enumerate(node.items()):
        if isinstance(kind.item, Keys) and index and _is_rest(item, kind.item):
            hint = "if it belongs to the item before it, remove the hyphen and indent it like that item"
            yield _finding(ERROR, f"{name}[{index}] lacks the key {_missing(item, kind.item)[0]}", item, hint=hint)
            continue
        yield from check(item, kind.item, f"{name}[{index}]")


def _is_rest(item: Node, kind: Keys) -> bool:
    """Whether a list item looks like the rest of the item before it: known keys only, and a required one missing."""
    known = {field.name for field in kind.fields}
    return item.kind == MAPPING and bool(_missing(item, kind)) and all(key.value in known for key, _ in item.pairs())


def _missing(node: Node, kind: Keys) -> list[str]:
    return [field.name for field in kind.fields if field.required and node.get(field.name) is None]


def _keys(node: Node, kind: Keys, name: str) -> Iterator[Finding]:
    if node.kind != MAPPING:
        yield _wrong(node, kind, name)
        return
    for missing in _missing(node, kind):
        yield _finding(ERROR, f"{name} lacks the key {missing}", node)
    if kind.one_of and not any(node.get(one) for one in kind.one_of):
        yield _finding(ERROR, f"{name} lacks one of the keys {', '.join(kind.one_of)}", node)
    fields: dict[str, Field] = {field.name: field for field in kind.fields}
    for key, value in node.pairs():
        field = fields.get(key.text) if key.kind == TEXT else None
        if field is not None:
            if field.use:
                yield _finding(WARNING, f"{name}.{field.name} is an older name", key, hint=f"use {field.use}")
            yield from check(value, field.kind, f"{name}.{field.name}")
        elif not kind.more:
            yield _finding(ERROR, f"unknown key {shown(key.text)} in {name}", key, hint=nearest(key.text, fields))


def _wrong(node: Node, kind: Kind, name: str) -> Finding:
    hint = ""
    wanted = kind.kinds if isinstance(kind, OneOf) else (kind,)
    texts = any(isinstance(one, Scalar) and TEXT in one.takes for one in wanted)
    if texts and node.kind in (INTEGER, NUMBER, FLAG, DATE):
        hint = "put it in quotation marks"
    elif texts and node.kind == MAPPING:
        hint = "a colon and a space make it a mapping: put the whole text in quotation marks"
    elif any(isinstance(one, ListOf) for one in wanted) and node.kind not in (LIST, NULL):
        hint = "begin each item with a hyphen"
    return _finding(ERROR, f"{name} must be {said(kind)}, and is {KIND_WORDS[node.kind]}", node, hint=hint)


def nearest(name: str, known: Iterable[str]) -> str:
    """A suggestion; empty if no known name is similar."""
    from difflib import get_close_matches

    plain = name[:64].lower().replace("-", "_")
    found = get_close_matches(plain, list(known), n=1, cutoff=0.7)
    return f"did you mean {found[0]}?" if found else ""


def _finding(level: str, message: str, node: Node, *, hint: str = "") -> Finding:
    return Finding(level=level, message=message, line=node.line, column=node.column, part=node.part, hint=hint)
