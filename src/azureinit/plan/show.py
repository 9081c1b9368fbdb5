"""The plan as text and as JSON. Secrets are not shown."""

from __future__ import annotations

import difflib
import json
import shlex

from azureinit.plan.actions import (
    Declined,
    EditLine,
    EditLink,
    Link,
    Locked,
    MakeDir,
    OnDevices,
    Post,
    Remove,
    Run,
    Satisfied,
    SetHostname,
    Step,
    Unknown,
    Write,
)
from azureinit.record import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from azureinit.plan.actions import Action, Item, Plan

WIDTH = 80
HIDDEN = (
    "was",
    "changes",
    "regions",
    "env",
    "says",
    "busy",
    "unsynced",
)  # fields of an action that only the executor needs


def as_text(plan: Plan, *, privileged: bool) -> str:
    lines: list[str] = []
    for item in plan:
        if isinstance(item, Step):
            sign = "+" if _is_possible(item) else "!"
            lines.append(f"{sign} {item.name}: {item.why}" + (" (once)" if item.once else ""))
            for way in item.ways:
                if isinstance(way, Declined):
                    lines.append(f"    {way.backend} declines: {way.why}")
                    continue
                lines.append(f"    {way.backend}:")
                for action in way.actions:
                    lines += [f"      {line}" for line in describe(action, privileged=privileged)]
        else:
            sign = "=" if isinstance(item, Satisfied) else "?" if isinstance(item, Unknown) else "!"
            lines.append(f"{sign} {item.name}: {item.why}")
    todo = sum(isinstance(item, Step) and _is_possible(item) for item in plan)
    fine = sum(isinstance(item, Satisfied) for item in plan)
    unknown = sum(isinstance(item, Unknown) for item in plan)
    impossible = len(plan) - todo - fine - unknown
    summary = f"{todo} to do, {fine} as asked" + (f", {impossible} not possible" if impossible else "")
    summary += f", {unknown} unknown (only root can tell)" if unknown else ""
    return "\n".join([*map(_printable, lines), summary if plan else "nothing is asked for", ""])


def _is_possible(step: Step) -> bool:
    return not all(isinstance(way, Declined) for way in step.ways)


def _printable(line: str) -> str:
    """Control characters from files or the platform are escaped."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() or letter == "\t" else ascii(letter)[1:-1] for letter in line)


def describe(action: Action, *, privileged: bool) -> Iterator[str]:
    if isinstance(action, Run):
        yield "run " + shlex.join(action.argv) + (" (with a secret on its standard input)" if action.stdin else "")
        if action.output is not None:
            yield f"  (for at most {action.timeout:g} s; output in {action.output})"
    elif isinstance(action, Write):
        yield f"write {action.path}{_mode(action.mode)}{_owner(action.owner, privileged)}"
        yield from _difference(action)
        if action.check is not None:
            yield "then check with " + shlex.join(action.check.argv)
    elif isinstance(action, MakeDir):
        missing = ", where it is missing" if action.kept else ""
        yield f"directory {action.path}{_mode(action.mode)}{_owner(action.owner, privileged)}{missing}"
    elif isinstance(action, Link):
        yield f"link {action.path} -> {action.target}{_owner(action.owner, privileged)}"
    elif isinstance(action, Remove):
        yield f"remove {action.path}" + (", with everything in it" if action.whole else "")
    elif isinstance(action, SetHostname):
        yield f"set the kernel's host name to {action.name}"
    elif isinstance(action, Post):
        yield f"send a form to {action.shown}"
    elif isinstance(action, EditLink):
        yield from (f"add address {address} to {action.name}" for address in action.add)
        yield from (f"remove address {address} from {action.name}" for address in action.remove)
        yield from (f"remove the rule from {source}/{bits} lookup {table}" for source, bits, table, _ in action.rules)
    elif isinstance(action, OnDevices):
        sizes = {device.path: device.size for device in action.devices}
        yield "only if still as seen, and not in use: " + ", ".join(f"{path} ({_size(sizes[path])})" for path in sizes)
        if action.mark is not None:
            yield from (f"  {line}" for line in describe(action.mark, privileged=privileged))
        yield from (f"  {line}" for line in describe(action.run, privileged=privileged))
    elif isinstance(action, Locked):
        yield "under the account locks:"
        for inner in action.first:
            yield from (f"  {line}" for line in describe(inner, privileged=privileged))
        for edit in action.edits:
            yield f"  {_edit(edit)}"


def _edit(edit: EditLine) -> str:
    if edit.gone:
        return f"{edit.path}: {edit.key} loses member {edit.member}" if edit.member else f"{edit.path}: - {edit.key}"
    if edit.line is not None:
        return f"{edit.path}: + {edit.key}:<secret>" if isinstance(edit.line, Secret) else f"{edit.path}: + {edit.line}"
    if edit.member is not None:
        return f"{edit.path}: {edit.key} gains member {edit.member}"
    fields = ", ".join(f"field {index} = {value}" for index, value in edit.fields)
    return f"{edit.path}: {edit.key}: {fields}"


def _mode(mode: int | None) -> str:
    return "" if mode is None else f" mode {mode:04o}"


def _size(size: int) -> str:
    """Rounded down to a decimal: 1.7 TiB."""
    unit = max(0, min(4, (size.bit_length() - 1) // 10))
    tenths = size * 10 >> 10 * unit
    return f"{tenths // 10}{f'.{tenths % 10}' if tenths % 10 else ''} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def _owner(owner: str | None, privileged: bool) -> str:
    if owner is None:
        return ""
    return f" owner {owner}" if privileged else f" (owner {owner} not set: not root)"


def _difference(action: Write) -> Iterator[str]:
    if isinstance(action.data, Secret) or isinstance(action.was, Secret):
        yield "  (contents not shown)"
        return
    old, new = _lines(action.was or b""), _lines(action.data)
    shown = [line for line in difflib.unified_diff(old, new, lineterm="", n=1) if not line.startswith("@@")][2:]
    if shown:
        yield from (f"  {_shortened(line)}" for line in shown)
    elif action.was is not None:
        yield "  (contents stay)"


def _shortened(line: str) -> str:
    """Records of the agent are long lines of JSON; `--json` shows all of them."""
    if len(line) <= WIDTH or line[1:2] != "{":
        return line
    return f"{line[:WIDTH]}... ({len(line) - WIDTH} more characters)"


def _lines(data: bytes) -> list[str]:
    """Split at line feeds only, so that other differences show; a last line without one is marked."""
    lines = data.decode("utf-8", "backslashreplace").split("\n")
    last = lines.pop()
    return [*lines, f"{last} (no newline at the end)"] if last else lines


def as_json(plan: Plan) -> str:
    return json.dumps([_item(item) for item in plan], indent=2) + "\n"


def _item(item: Item) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": type(item).__name__.lower(), "name": item.name, "why": item.why}
    if isinstance(item, Step):
        entry["once"] = item.once
        entry["ways"] = [
            {"backend": way.backend, "declined": way.why}
            if isinstance(way, Declined)
            else {"backend": way.backend, "actions": [_plain(action) for action in way.actions]}
            for way in item.ways
        ]
    return entry


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        inner = {key: _plain(one) for key, one in value.as_dict().items() if one is not None and key not in HIDDEN}
        if "mode" in inner:
            inner["mode"] = f"{inner['mode']:04o}"
        return {"action": type(value).__name__, **inner}
    if isinstance(value, Secret):
        return "<secret>"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value
