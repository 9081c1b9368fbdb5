"""The entry point of `azure-init`: runs what the command line asks for; an error becomes a message and an exit code.

Each verb's module is imported when it is called.
"""

from __future__ import annotations

import sys

from azureinit.cli.options import HELP
from azureinit.cli.words import Invocation, known_commands, parse_args
from azureinit.errors import AzureInitError, UsageError
from azureinit.machine import Machine
from azureinit.machine.this_process import leave, open_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(argv: list[str] | None = None) -> int:
    """The exit code. Errors are printed as sentences, never as a traceback."""
    open_streams()
    try:
        status = run(parse_args(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except AzureInitError as error:
        complain(f"{error}" + (f"\nazure-init: {error.hint}" if error.hint else ""))
        return error.exit_code
    except BrokenPipeError:
        return 0  # the reader of the output has closed it, as `head` does
    except OSError as error:
        complain(f"cannot write: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    return status


def command() -> NoReturn:
    """The installed `azure-init` calls this."""
    leave(main())


def run(invocation: Invocation) -> int:
    if invocation.verb == "help":
        from azureinit.cli.help import azure_init_help

        sys.stdout.write(azure_init_help())
        return 0
    if invocation.version and not set(HELP.names) & set(invocation.rest):
        from azureinit.cli.operate import print_version

        return print_version(invocation)
    from azureinit.machine.limits import forbid_core_dumps

    forbid_core_dumps()
    machine = Machine(root=invocation.root)
    if invocation.root != "/":
        check_root(invocation, machine)
    if invocation.verb == "provision":
        from azureinit.cli.provision import provision

        return provision(invocation, machine)
    from azureinit.cli.operate import operate

    return operate(invocation, machine)


def check_root(invocation: Invocation, machine: Machine) -> None:
    if not machine.is_dir("/"):
        what = "there is no such directory" if machine.stat("/") is None else "it is not a directory"
        raise UsageError(f"--root {invocation.root}: {what}")
    if not machine.is_dir("/etc") and not known_commands()[invocation.verb].any_root:
        raise UsageError(f"--root {invocation.root}: the directory contains no system: it has no etc directory")


def complain(text: str) -> None:
    try:
        sys.stderr.write(f"azure-init: {text}\n")
    except OSError:
        pass  # standard error is closed; the exit code still shows the failure
