"""What `libazureinit-kvp` takes: the commands and their options, some of which stand before a command or after it."""

from __future__ import annotations

import argparse

from azureinit.cli.parser import path
from azureinit.errors import UsageError
from azureinit.kvp.diagnostics import KINDS
from azureinit.kvp.report import parse_supporting
from azureinit.kvp.store import DIRECTORY, GUEST, POOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from azureinit.kvp.records import Pair

PROG = "libazureinit-kvp"
AGENT = "libazureinit-kvp/0.1.0"  # what this tool has always called itself in reports
SUCCESS = {"result": "success", "reason": "", "documentation_url": None}


class Usage(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24, width=110)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)


class Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=Usage, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def parser(prog: str) -> Parser:
    whole = Parser(
        prog=prog,
        usage="%(prog)s [OPTIONS] <COMMAND>",
        description="Look into Hyper-V KVP pool files and change them.",
    )
    _add_globals(whole, pool=GUEST, dir=DIRECTORY, unsafe=False, json=False, text=False)
    verbs = whole.add_subparsers(dest="verb", metavar="<COMMAND>", parser_class=Parser)

    def add(name: str, told: str, **fixed: Any) -> Parser:
        verb: Parser = verbs.add_parser(name, prog=f"{prog} {name}", help=told, description=told)
        _add_globals(verb)
        verb.set_defaults(**fixed)
        return verb

    add("info", "print what the pool is")
    one = add("dump", "print every record in order, as text unless --json")
    one.add_argument("--parse", action="store_true", help="decode diagnostics and reports")
    one.add_argument("--name", metavar="<NAME>", help="of diagnostics, only those with this in their name")
    one.add_argument("--kind", choices=KINDS, help="of diagnostics, only those of this kind")
    add("entries", "print each key's last value, sorted by key")
    one = add("read", "print the last value of a key; exit status 1 if there is none")
    one.add_argument("key", metavar="<KEY>")
    one = add("write", "write a record instead of those of its key")
    one.add_argument("--append", action="store_true", help="beside those of its key")
    one.add_argument("key", metavar="<KEY>")
    one.add_argument("value", metavar="<VALUE>")
    one = add("emit", "append a diagnostic event")
    one.add_argument("--name", metavar="<NAME>", required=True, help="what it is about, such as user:create_user")
    one.add_argument("--message", metavar="<MESSAGE>", required=True, help="what there is to say")
    _add_identity(one)
    for name, told in (
        ("load", "replace the pool with KEY=VALUE lines"),
        ("append-multiple", "append KEY=VALUE lines, all of them or none"),
    ):
        one = add(name, told)
        one.add_argument("--file", metavar="<PATH>", type=path, help="read them here and not from standard input")
    one = add("delete", "delete every record of a key; print whether there was one")
    one.add_argument("key", metavar="<KEY>")
    one = add("delete-multiple", "delete every record of these keys; print how many there were")
    one.add_argument("keys", metavar="<KEY>", nargs="+")
    one = add("clear", "delete every record, also of a damaged pool")
    one.add_argument("--if-stale", action="store_true", help="only if it was last written before this boot")
    add("is-stale", "print whether the pool was last written before this boot; exit status 1 if not")
    one = add("report-success", "write the provisioning report: success", **SUCCESS)
    _add_identity(one)
    _add_supporting(one)
    one = add("report-failure", "write the provisioning report: failure", result="error")
    one.add_argument("--reason", metavar="<REASON>", required=True, help="why it failed")
    one.add_argument("--documentation-url", metavar="<URL>", help="where there is more about it")
    _add_identity(one)
    _add_supporting(one)
    add("explain", "tell in sentences what the records mean")
    one = add("watch", "explain what is there and what comes, until interrupted")
    one.add_argument("--seconds", metavar="<N>", type=_seconds, help="or until so many have passed")
    verbs.add_parser("help", prog=f"{prog} help", help="print this text, or that of a command", add_help=False)
    return whole


def _add_globals(parser: Parser, **defaults: Any) -> None:
    """Before the command and after it: after it they have no defaults, so that they do not undo the first."""

    def default(name: str) -> Any:
        return defaults.get(name, argparse.SUPPRESS)

    parser.add_argument(
        "--pool", metavar="<POOL>", type=_pool, default=default("pool"), help=f"{', '.join(POOLS)} [default: {GUEST}]"
    )
    parser.add_argument(
        "--dir", metavar="<PATH>", type=path, default=default("dir"), help=f"where pools lie [default: {DIRECTORY}]"
    )
    flags = {
        "unsafe": "allow what a record can hold (512/2048 bytes), not only what every host reads (254/1022)",
        "json": "print JSON",
        "text": "print text, as without --json",
    }
    for name, told in flags.items():
        parser.add_argument(f"--{name}", action="store_true", default=default(name), help=told)


def _add_identity(parser: Parser) -> None:
    parser.add_argument("--vm-id", metavar="<VM_ID>", help="of which VM [default: this one]")
    parser.add_argument("--agent", metavar="<AGENT>", default=AGENT, help="who says so [default: %(default)s]")


def _add_supporting(parser: Parser) -> None:
    parser.add_argument(
        "--supporting-data",
        metavar="<KEY=VALUE,...>",
        type=_supporting,
        action="append",
        default=[],
        help="more to tell, repeatable; a value with commas stands in quotes: k1='a,b',k2=c",
    )


def _pool(text: str) -> str:
    if text in POOLS:
        return text
    if text in ("0", "1", "2", "3", "4"):
        return POOLS[int(text)]
    raise argparse.ArgumentTypeError(f"invalid value '{text}', it must be one of {', '.join(POOLS)}")


def _supporting(text: str) -> list[Pair]:
    try:
        return parse_supporting(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"invalid value '{text}', it must be seconds from 0 on")
    return seconds
