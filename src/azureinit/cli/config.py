"""`azure-init config`: what is asked of this machine and who asked it, whether a file is right, what a file may say."""

from __future__ import annotations

import json
from contextlib import redirect_stdout

from azureinit.cli.parser import Parser, parsed, path
from azureinit.config.docs import plain, schema, toml
from azureinit.config.load import Loaded, check, load, place
from azureinit.config.model import Config
from azureinit.errors import ConfigInvalid, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    from azureinit.machine import Machine

WIDEST = 64  # values longer than this push their comment out, and only their own


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
        with redirect_stdout(out):  # where argparse prints --help
            asked = parsed(_parser(), argv)
        if asked is None:
            return 0
        if asked.what == "schema":
            print(json.dumps(schema(), indent=2, ensure_ascii=False), file=out)
            return 0
        if asked.what == "check" and asked.files:
            return _check(asked.files, machine=machine, out=out, err=err)
        if asked.what == "import-waagent":
            from azureinit.cli.waagent import import_waagent

            return import_waagent(asked.file, write=asked.write, machine=machine, out=out, err=err)
        loaded = load(machine, config=config, groups=groups)
        for warning in loaded.warnings:
            print(f"warning: {warning}", file=err)
        if asked.what == "check":
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
        for line in problems or (f"{file}: ok" if found else f"{file}: nothing to check: there is no *.toml in it",):
            print(line, file=out)
        if problems:
            worst = ConfigInvalid.exit_code
    return worst


def _as_toml(loaded: Loaded) -> str:
    """A file that asks for the same, with who asked as a comment on every line."""
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


def _parser() -> Parser:
    parser = Parser(prog="azure-init config", description="The configuration: what it is, whether it is right.")
    verbs = parser.add_subparsers(dest="what", metavar="show|check|schema|import-waagent", required=True)
    show = verbs.add_parser("show", help="every value and where it came from")
    show.add_argument("--json", action="store_true", help="for programs")
    checks = verbs.add_parser("check", help="whether files are right; exit status 78 if one is not")
    checks.add_argument(
        "files",
        nargs="*",
        default=[],
        type=path,
        metavar="FILE",
        help="a file or directory; without one, the whole configuration",
    )
    verbs.add_parser("schema", help="JSON Schema of a configuration file, for editors")
    imports = verbs.add_parser("import-waagent", help="WALinuxAgent's configuration as one of ours")
    imports.add_argument(
        "file", nargs="?", default="", type=path, metavar="FILE", help="instead of looking where it usually is"
    )
    imports.add_argument(
        "--write", action="store_true", help="put it into /etc/azure-init/azure-init.toml.d/waagent.toml, to be read"
    )
    return parser
