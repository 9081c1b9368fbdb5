"""Rendering a template: in a child process with limits of its own, because the template is the work of others."""

from __future__ import annotations

import sys

from azureinit.errors import AzureInitError, SubprocessTimeout
from azureinit.jsontext import dumps, loads
from azureinit.machine.jinja_child import CPU_SECS, MISSING, MOST, WRONG
from azureinit.userdata.expanding import Failed
from azureinit.userdata.jinja import body_of, variables
from azureinit.userdata.packages import JINJA_HINT, JINJA_MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.machine import Machine

TIMEOUT = 30.0
SIGXCPU, SIGKILL = -24, -9
TOO_LONG = f"it takes more than {CPU_SECS} seconds"


def render(machine: Machine, template: bytes, data: Mapping[str, Any], *, placeholders: bool) -> bytes | Failed:
    """`placeholders`: an undefined variable renders as cloud-init's placeholder, and is no failure."""
    text, before = body_of(template)
    request = {
        "template": text,
        "variables": variables(data),
        "placeholders": placeholders,
        "packages": _packages(),
    }
    try:
        ran = machine.run(_command(), stdin=dumps(request).encode(), timeout=TIMEOUT, kept=MOST + 1)
    except SubprocessTimeout:
        return Failed(why=TOO_LONG)
    except AzureInitError as error:
        return Failed(why=str(error))
    if ran.status == 0:
        return ran.out
    if ran.status == MISSING:
        return Failed(why=JINJA_MISSING, hint=JINJA_HINT)
    if ran.status in (SIGXCPU, SIGKILL):
        return Failed(why=TOO_LONG)
    return _wrong(ran.err, before) if ran.status == WRONG else Failed(why=f"the renderer ended with {ran.ending}")


def _wrong(err: bytes, before: int) -> Failed:
    try:
        told = loads(err.decode())
        return Failed(why=str(told["why"]), line=int(told["line"]) + before)
    except (ValueError, KeyError, TypeError):
        return Failed(why="it fails")


def _command() -> tuple[str, ...]:
    """The child is a file of this package; it imports nothing of it."""
    from azureinit import machine

    return (sys.executable, "-I", f"{next(iter(machine.__path__))}/jinja_child.py")


def _packages() -> list[str]:
    """Where this Python has jinja2, in case the child's does not look there: a virtual environment, or the system's."""
    from azureinit.userdata.packages import find_jinja2

    found = find_jinja2()
    file = getattr(found, "__file__", None) or ""
    directory = file.rpartition("/")[0].rpartition("/")[0]
    return [directory] if directory else []
