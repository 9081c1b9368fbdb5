"""Renders one template, as a program of its own: `python3 -I jinja_child.py`, started by run/rendering.py.

The request is JSON on standard input, the rendered text goes to standard output. What is wrong with the template goes
to standard error, as JSON with `why` and `line`, and the exit status is 3. Limits of processor time, memory and files
apply to this process alone. The sandbox lets a template change nothing and call nothing but methods of plain values;
it has no loader, so a template includes no other.
"""

from __future__ import annotations

import json
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CPU_SECS = 5
MEMORY = 256 << 20
MOST = 16 << 20  # bytes of the rendered text
WRONG, MISSING = 3, 4
PLACEHOLDER = "CI_MISSING_JINJA_VAR/"
NAME = "<template>"  # jinja2's name of a template without a file


class Wrong(Exception):
    def __init__(self, why: str, line: int = 1) -> None:
        super().__init__(why)
        self.why, self.line = why, line


def main() -> int:
    request = json.loads(sys.stdin.buffer.read())
    sys.path.extend(path for path in request["packages"] if path not in sys.path)
    try:
        import jinja2
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        return MISSING
    for limit, value in ((resource.RLIMIT_CPU, CPU_SECS), (resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, 0)):
        resource.setrlimit(limit, (value, value))
    undefined = placeholders(jinja2) if request["placeholders"] else jinja2.StrictUndefined
    environment = ImmutableSandboxedEnvironment(
        undefined=undefined, trim_blocks=True, extensions=["jinja2.ext.do"], autoescape=False, loader=None
    )
    try:
        sys.stdout.buffer.write(render(jinja2, environment, request["template"], request["variables"]))
    except Wrong as wrong:
        sys.stderr.write(json.dumps({"why": wrong.why, "line": wrong.line}))
        return WRONG
    return 0


def render(jinja2: Any, environment: Any, template: str, variables: dict[str, Any]) -> bytes:
    made: list[bytes] = []
    room = MOST
    try:
        for piece in environment.from_string(template).generate(**variables):
            made.append(piece.encode("utf-8", "surrogateescape"))
            room -= len(made[-1])
            if room < 0:
                raise Wrong(f"it becomes larger than {MOST >> 20} MiB")
    except jinja2.TemplateSyntaxError as error:
        # What was found instead may be a secret of the document.
        raise Wrong(str(error.message).partition(", got ")[0].rstrip("."), error.lineno) from None
    except jinja2.UndefinedError as error:
        raise Wrong(str(error.message), line_of(error)) from None
    except jinja2.exceptions.SecurityError as error:
        raise Wrong("it uses what the sandbox forbids", line_of(error)) from None
    except TypeError as error:
        no_loader = "no loader" in str(error)
        why = "a template cannot load another one" if no_loader else "it fails with TypeError"
        raise Wrong(why, line_of(error)) from None
    except MemoryError:
        del made[:]
        raise Wrong(f"it needs more than {MEMORY >> 20} MiB of memory") from None
    except RecursionError:
        raise Wrong("it is nested too deeply") from None
    except Wrong:
        raise
    except Exception as error:  # noqa: BLE001 - the template's own mistake; its text may contain a secret
        raise Wrong(f"it fails with {type(error).__name__}", line_of(error)) from None
    # jinja2 drops a line feed at the end.
    return b"".join(made) + (b"\n" if template.endswith("\n") else b"")


def line_of(error: BaseException) -> int:
    """The line of the template that was rendered when it happened."""
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def placeholders(jinja2: Any) -> Any:
    """An undefined variable renders as cloud-init's placeholder for it."""

    class Missing(jinja2.DebugUndefined):  # type: ignore[misc]
        def __str__(self) -> str:
            return f"{PLACEHOLDER}{self._undefined_name}"

        def __sub__(self, other: object) -> str:
            name = f"-{other._undefined_name}" if isinstance(other, Missing) else ""
            why = f"'{self._undefined_name}{name}' is undefined; in place of a hyphen in a name write _"
            raise jinja2.UndefinedError(why)

    return Missing


if __name__ == "__main__":
    sys.exit(main())
