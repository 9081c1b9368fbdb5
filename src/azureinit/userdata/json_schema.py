"""The table of keys as JSON Schema, for editors, and as the tables of docs/userdata.md. Never loaded by a boot."""

from __future__ import annotations

from azureinit.userdata.keys import KEYS
from azureinit.userdata.kinds import FORMS, OWN_KEY, Choice, Field, Keys, ListOf, Named, OneOf, Scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.userdata.keys import Key
    from azureinit.userdata.kinds import Kind


def schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cloud-config of azure-init",
        "type": "object",
        "additionalProperties": False,
        "patternProperties": {f"^{OWN_KEY}": {"description": "a key of your own, for anchors: nothing is done for it"}},
        "properties": {row.name: {"description": described(row), **_noted(row.use), **of(row.kind)} for row in KEYS},
    }


def described(row: Key) -> str:
    if row.use:
        return f"Older name of {row.use}."
    done = "" if row.module else "Accepted, and not done: "
    return f"{done}{row.about}." if done else f"{row.about[:1].upper()}{row.about[1:]}."


def of(kind: Kind) -> dict[str, Any]:
    if isinstance(kind, Scalar):
        types = kind.json[0] if len(kind.json) == 1 else list(kind.json)
        return {"type": types, **({"pattern": FORMS[kind.form]} if kind.form else {})}
    if isinstance(kind, Choice):
        return {"enum": [*kind.values, *kind.past]}
    if isinstance(kind, ListOf):
        least = {"minItems": kind.least} if kind.least else {}
        most = {"maxItems": kind.most} if kind.most else {}
        return {"type": "array", "items": of(kind.item), **least, **most}
    if isinstance(kind, Named):
        return {"type": "object", "additionalProperties": of(kind.value)}
    if isinstance(kind, OneOf):
        return {"anyOf": [of(one) for one in kind.kinds]}
    return _keys(kind) if isinstance(kind, Keys) else {}


def _keys(kind: Keys) -> dict[str, Any]:
    required = [field.name for field in kind.fields if field.required]
    return {
        "type": "object",
        "properties": {field.name: _field(field) for field in kind.fields},
        "additionalProperties": kind.more or kind.undone,
        **({"required": required} if required else {}),
        **({"anyOf": [{"required": [name]} for name in kind.one_of]} if kind.one_of else {}),
    }


def _field(field: Field) -> dict[str, Any]:
    return {**_noted(field.use or field.past), **of(field.kind)}


def _noted(use: str | bool) -> dict[str, Any]:
    return {"deprecated": True} if use else {}


def key_table() -> str:
    """The rows of docs/userdata.md: what has a module."""
    lines = ["| key | stage | module | |", "| --- | --- | --- | --- |"]
    for row in KEYS:
        if row.module:
            about = f"older name of `{row.use}`" if row.use else row.about
            lines.append(f"| `{row.name}` | {row.stage} | {row.module} | {about} |")
    return "\n".join(lines)


def other_keys() -> str:
    """The names that are accepted and not done."""
    return ", ".join(f"`{row.name}`" for row in KEYS if not row.module)
