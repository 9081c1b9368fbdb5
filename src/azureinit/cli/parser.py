"""The verbs' own arguments: argparse, with its ends turned into ours."""

from __future__ import annotations

import argparse

from azureinit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

GLOBAL = "Options for every command, such as --config and --root: see azure-init --help."


class Parser(argparse.ArgumentParser):
    def __init__(self, *, prog: str, description: str = "", **_more: Any) -> None:
        super().__init__(prog=prog, description=description, epilog=GLOBAL, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog.partition(' ')[2]}: {message}", hint=f"see {self.prog} --help")


def parsed(parser: Parser, argv: list[str]) -> argparse.Namespace | None:
    """None where help was asked for, and given."""
    try:
        return parser.parse_args(argv)
    except SystemExit:
        return None
