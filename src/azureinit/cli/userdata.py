"""`azure-init userdata`: checks customData before a VM is made with it, shows what it becomes, carries it out in a file
tree, and prints the schema of a cloud-config."""

from __future__ import annotations

import sys

from azureinit.cli.commands import BY_NAME
from azureinit.cli.parser import parse
from azureinit.errors import LocalError, UsageError
from azureinit.userdata.values import MOST_BYTES, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO, TextIO

    from azureinit.config.model import Config
    from azureinit.machine import Machine
    from azureinit.userdata.validate import Report
    from azureinit.userdata.values import Finding, Part

STDIN = "-"
FETCH_SECS = 300.0


def main(
    argv: list[str],
    *,
    machine: Machine,
    out: TextIO,
    err: TextIO,
    configured: Callable[[], Config],
    stdin: BinaryIO | None = None,
) -> int:
    asked = parse(BY_NAME["userdata"], argv, prog="azure-init userdata", out=out)
    if asked is None:
        return 0
    if asked.command is None:
        names = ", ".join(command.name for command in BY_NAME["userdata"].commands)
        raise UsageError(f"userdata: a command is required: {names}", hint="see azure-init userdata --help")
    if asked.command == "schema":
        import json

        from azureinit.userdata.json_schema import schema

        print(json.dumps(schema(), indent=2), file=out)
        return 0
    if asked.command == "run" and not machine.rooted:
        hint = "azure-init userdata run --root DIR FILE; a boot carries customData out on the running system"
        raise UsageError("userdata run: --root is required", hint=hint)
    data = read_document(machine, asked.file, stdin)
    name = "standard input" if asked.file == STDIN else asked.file
    if asked.command == "validate":
        report = checked(machine, data, fetch=asked.fetch, allow_http=asked.allow_http, tell=progress(err))
        out.write(as_json(report) if asked.json else as_text(report, name))
        return 1 if report.errors else 0
    from azureinit.cli.userdata_plan import explain, run
    from azureinit.record import replace

    config = configured()
    if asked.allow_http:
        config = replace(config, userdata=replace(config.userdata, allow_http=True))
    if asked.command == "explain":
        return explain(machine, config, data, name=name, fetch=asked.fetch, in_json=asked.json, out=out, err=err)
    return run(machine, config, data, name=name, fetch=asked.fetch, out=out, err=err)


def checked(machine: Machine, data: bytes, *, fetch: bool, allow_http: bool, tell: Callable[[str], None]) -> Report:
    from azureinit.userdata.validate import Report, validate

    if not fetch:
        return validate(data, allow_http=allow_http)
    from azureinit.config.model import Config, Userdata
    from azureinit.run.expand import expand

    settings = Config(userdata=Userdata(allow_http=allow_http))
    deadline = machine.clock.monotonic() + FETCH_SECS
    document = expand(machine, data, settings, deadline=deadline, fetch=True, tell=tell)
    return Report(parts=document.parts, findings=document.findings)


def progress(err: TextIO) -> Callable[[str], None]:
    """Lines for a terminal; nothing where standard error is none."""

    def tell(text: str) -> None:
        err.write(f"azure-init: {text}\n")

    return tell if err.isatty() else lambda _text: None


def read_document(machine: Machine, path: str, stdin: BinaryIO | None) -> bytes:
    """One byte more than is accepted, so that a larger file is told by the check itself."""
    if path == STDIN:
        source = stdin if stdin is not None else getattr(sys.stdin, "buffer", None)
        if source is None:
            raise LocalError("cannot read standard input: it is closed")
        try:
            data: bytes = source.read(MOST_BYTES + 1)
        except OSError as error:
            raise LocalError(f"cannot read standard input: {error.strerror}") from error
        return data
    found = machine.read_host(path, limit=MOST_BYTES)
    if found is None:
        raise LocalError(f"there is no {path}", hint="name a file, or - for standard input")
    return found


def as_text(report: Report, name: str) -> str:
    """A line for each finding, as compilers write them, and one for the whole."""
    lines = [line_of(one, name) for one in report.findings]
    warnings = len(report.findings) - report.errors
    counted = f"{_counted(report.errors, 'error')}, {_counted(warnings, 'warning')}"
    parts = ", ".join(_described(part) for part in report.parts[:10]) or "no part"
    more = f", and {len(report.parts) - 10} more" if len(report.parts) > 10 else ""
    told = counted if report.findings else "ok"
    return "".join(f"{line}\n" for line in [*lines, f"{name}: {told} ({parts}{more})"])


def line_of(one: Finding, name: str) -> str:
    part = f" ({shown(one.part)})" if one.part else ""
    hint = f"; {one.hint}" if one.hint else ""
    return f"{name}{part}:{one.line}:{one.column}: {one.level}: {one.message}{hint}"


def _described(part: Part) -> str:
    """`cloud-config in gzip`."""
    wraps = " in ".join(reversed(part.inside))
    return f"{part.kind} in {wraps}" if wraps else part.kind


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def as_json(report: Report) -> str:
    import json

    told = {
        "errors": report.errors,
        "parts": [
            {
                "name": part.name,
                "kind": part.kind,
                "inside": list(part.inside),
                "line": part.place.line + 1,
                "part": part.place.part,
                "bytes": len(part.content),
                "includes": [{"line": one.line, "once": one.once, "sha256": one.sha256} for one in part.includes],
            }
            for part in report.parts
        ],
        "findings": [one.as_dict() for one in report.findings],
    }
    return json.dumps(told, indent=2) + "\n"
