"""`azure-init query`: values of instance data, by the names that templates use."""

from __future__ import annotations

import json

from azureinit.cli.commands import BY_NAME
from azureinit.cli.parser import parse
from azureinit.errors import LocalError, UsageError
from azureinit.run.instance_data import PLACE, read_instance_data
from azureinit.userdata.jinja import alias, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    from azureinit.machine import Machine


def main(argv: list[str], *, machine: Machine, out: TextIO) -> int:
    asked = parse(BY_NAME["query"], argv, prog="azure-init query", out=out)
    if asked is None:
        return 0
    if not (asked.all or asked.list_keys or asked.key or asked.format):
        raise UsageError("query: name a KEY, or use --all, --list-keys or --format", hint="see azure-init query --help")
    data = known_data(machine)
    out.write(answer(machine, data, key=asked.key or "", text=asked.format, names=asked.list_keys))
    return 0


def known_data(machine: Machine) -> dict[str, Any]:
    data = read_instance_data(machine)
    if data is None:
        why = "customData makes it at boot, and this boot had none"
        raise LocalError(f"there is no instance data in {machine.shown(PLACE)}: {why}")
    return data


def answer(machine: Machine, data: dict[str, Any], *, key: str, text: str | None, names: bool) -> str:
    """The value of a key (empty: everything), the `names` below it, or a text that is rendered as a template."""
    if text is not None:
        return formatted(machine, data, text)
    found = find(variables(data, aliases=False), key) if key else variables(data, aliases=False)
    if names:
        if not isinstance(found, dict):
            raise LocalError(f"query: {key} has a value, and no keys below it")
        return "".join(f"{name}\n" for name in sorted(found))
    return f"{found}\n" if isinstance(found, str) else f"{json.dumps(found, indent=1, sort_keys=True)}\n"


def find(data: dict[str, Any], path: str) -> Any:
    """The value at a path of names with dots between them. A name with hyphens may be written with underscores."""
    found: Any = data
    walked = ""
    for name in path.split("."):
        if not isinstance(found, dict):
            raise LocalError(f"query: {walked} has a value, and no {name} below it")
        key = name if name in found else next((one for one in found if alias(one) == name), None)
        if key is None:
            where = f"{walked} has no {name}" if walked else f"there is no {name}"
            raise LocalError(f"query: {where}", hint=f"azure-init query --list-keys{f' {walked}' if walked else ''}")
        found, walked = found[key], f"{walked}.{name}" if walked else name
    return found


def formatted(machine: Machine, data: dict[str, Any], text: str) -> str:
    from azureinit.run.rendering import render
    from azureinit.userdata.expanding import Failed

    made = render(machine, f"## template: jinja\n{text}".encode(), data, placeholders=False)
    if isinstance(made, Failed):
        raise LocalError(f"query: the text cannot be rendered: {made.why}", hint=made.hint)
    rendered = made.decode("utf-8", "replace")
    return rendered if rendered.endswith("\n") else f"{rendered}\n"
