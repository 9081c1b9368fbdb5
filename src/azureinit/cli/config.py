"""`azure-init config`: shows the settings and their origin, checks files, prints the schema, imports waagent.conf."""

from __future__ import annotations

import json

from azureinit.cli.commands import BY_NAME
from azureinit.cli.parser import parse
from azureinit.config.docs import plain, schema, toml
from azureinit.config.load import Loaded, check, load, place
from azureinit.config.model import Config
from azureinit.errors import ConfigInvalid, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    from azureinit.machine import Machine

WIDEST = 72  # columns; the comment of a longer value is not aligned with the others


def main(
    argv: list[str],
    *,
    machine: Machine,
    config: str | None,
    groups: tuple[str, ...] | None,
    out: TextIO,
    err: TextIO,
) -> int:
    try:
        asked = parse(BY_NAME["config"], argv, prog="azure-init config", out=out)
        if asked is None:
            return 0
        if asked.command is None:
            names = ", ".join(command.name for command in BY_NAME["config"].commands)
            raise UsageError(f"config: a command is required: {names}", hint="see azure-init config --help")
        if asked.command == "schema":
            print(json.dumps(schema(), indent=2, ensure_ascii=False), file=out)
            return 0
        if asked.command == "check" and asked.file:
            return _check(asked.file, machine=machine, out=out, err=err)
        if asked.command == "import-waagent":
            from azureinit.cli.waagent import import_waagent

            return import_waagent(asked.file, write=asked.write, machine=machine, out=out, err=err)
        loaded = load(machine, config=config, groups=groups)
        for warning in loaded.warnings:
            print(f"warning: {warning}", file=err)
        if asked.command == "check":
            print("configuration: ok", file=out)
        else:
            print(_as_json(loaded) if asked.json else _as_toml(loaded), file=out)
        return 0
    except (ConfigInvalid, UsageError) as error:
        print(f"azure-init {error}" if isinstance(error, UsageError) else error.message, file=err)
        if error.hint:
            print(f"hint: {error.hint}", file=err)
        return error.exit_code


def _check(files: list[str], *, machine: Machine, out: TextIO, err: TextIO) -> int:
    worst = 0
    for file in files:
        problems, warnings, found = check(machine, file)
        for warning in warnings:
            print(f"warning: {warning}", file=err)
        for line in problems or (
            f"{file}: ok" if found else f"{file}: nothing to check: the directory contains no *.toml file",
        ):
            print(line, file=out)
        if problems:
            worst = ConfigInvalid.exit_code
    return worst


def _as_toml(loaded: Loaded) -> str:
    """A configuration file with the same settings; a comment on each line names the origin."""
    rows: list[tuple[str, str]] = []
    for section, record in Config.defaults_.items():
        rows += [("", ""), (f"[{section}]", "")] if rows else [(f"[{section}]", "")]
        for key in type(record).fields_:
            value = getattr(getattr(loaded.config, section), key)
            told = f"# {key} is unset" if value is None else f"{key} = {toml(value)}"
            rows.append((told, _origin(loaded, section, key)))
    width = max(len(told) for told, _ in rows if len(told) <= WIDEST)
    return "\n".join(f"{told:<{width}}  # {origin}" if origin else told for told, origin in rows)


def _as_json(loaded: Loaded) -> str:
    told: dict[str, dict[str, Any]] = {}
    for section, record in Config.defaults_.items():
        told[section] = {}
        for key in type(record).fields_:
            value = plain(getattr(getattr(loaded.config, section), key))
            layer = loaded.origin[f"{section}.{key}"].layer
            told[section][key] = {"value": value, "layer": layer, "origin": _origin(loaded, section, key)}
    return json.dumps(told, indent=2, ensure_ascii=False)


def _origin(loaded: Loaded, section: str, key: str) -> str:
    origin = loaded.origin[f"{section}.{key}"]
    if origin.layer == "default":
        return "default"
    if origin.layer == "file":
        return place(origin, loaded.texts, (section, key))
    return f"{'environment' if origin.layer == 'env' else 'flag'} {origin.name}"
