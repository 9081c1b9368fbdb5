"""The `waagent` command, which templates of image builders call: it deprovisions, and refuses what it cannot do."""

from __future__ import annotations

import sys

from azureinit.errors import AzureInitError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from azureinit.machine import Machine

USAGE = """\
Usage: waagent [-verbose] [-force] [-configuration-path:FILE] COMMAND

  -deprovision         remove per-machine state, as azure-init deprovision does
  -deprovision+user    also remove the provisioned account, as azure-init deprovision --user does
  -show-configuration  print every option of waagent.conf, as WALinuxAgent reads it
  -version             print the version
  -help                print this help

This command belongs to azure-init, not to WALinuxAgent. It runs no extensions and no daemon: azure-init.service
provisions the machine. Install WALinuxAgent for extensions.
"""
# Like WALinuxAgent: a word may have any number of - and / before it, and the first entry that it begins with counts.
WORDS = (
    "deprovision+user", "deprovision", "daemon", "start", "register-service", "run-exthandlers", "version", "verbose",
    "debug", "force", "show-configuration", "help", "usage", "?", "collect-logs", "full", "setup-firewall=",
    "configuration-path:",
)  # fmt: skip
MODIFIERS = ("verbose", "debug", "force", "full")
SUPPORTED = ("deprovision+user", "deprovision", "version", "show-configuration", "help")
ALIASES = {"usage": "help", "?": "help"}


def command() -> NoReturn:
    from azureinit.machine.this_process import leave, open_streams

    open_streams()
    leave(main(sys.argv[1:]))


def main(argv: list[str]) -> int:
    try:
        return run(argv)
    except AzureInitError as error:
        sys.stderr.write(f"waagent: {error}\n" + (f"waagent: {error.hint}\n" if error.hint else ""))
        return error.exit_code
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("waagent: interrupted\n")
        return 130


def run(argv: list[str]) -> int:
    from azureinit.machine import Machine

    asked, given, path = parse_words(argv)
    machine = Machine()
    if path and machine.read_host(path) is None:
        sys.stderr.write(f"waagent: there is no {path}\n{USAGE}")
        return 1
    if asked == "help":
        sys.stdout.write(USAGE)
        return 0
    if asked == "version":
        from azureinit.version import VERSION

        sys.stdout.write(f"azure-init {VERSION}, called as waagent\n")
        return 0
    if asked == "show-configuration":
        return show_configuration(machine, path)
    from azureinit.cli.deprovision import main as deprovision
    from azureinit.config.load import load

    flags = [*(("--user",) if asked == "deprovision+user" else ()), *(("--force",) if "force" in given else ())]
    return deprovision(
        flags,
        machine=machine,
        configured=lambda: load(machine, config=None, groups=None).config,
        waagent_conf=path,
    )


def parse_words(argv: list[str]) -> tuple[str, frozenset[str], str]:
    """The command, its modifiers, and the path of the configuration file."""
    asked, given, path = "", set(), ""
    for word in argv:
        bare = word.lstrip("-/")
        known = next((known for known in WORDS if bare.startswith(known)), None)
        if known is None:
            raise UsageError(f"unknown word: {word}", hint="see waagent -help")
        if known == "configuration-path:":
            path = bare[len(known) :]
        elif known in MODIFIERS:
            given.add(known)
        else:
            asked = ALIASES.get(known, known)
    if asked and asked not in SUPPORTED:
        raise UsageError(
            f"-{asked} is not supported: this waagent command belongs to azure-init, not to WALinuxAgent",
            hint="azure-init.service provisions the machine; install WALinuxAgent beside it for extensions",
        )
    return asked or "help", frozenset(given), path


def show_configuration(machine: Machine, path: str) -> int:
    """Prints every known option with its effective value, sorted by name."""
    from azureinit.config.waagent import Conf, read_waagent_conf
    from azureinit.config.waagent_options import OPTIONS

    found = read_waagent_conf(machine, path)
    conf = found[1] if found else Conf(said={})
    for option in sorted((option for option in OPTIONS if not option.gone), key=lambda option: option.name):
        sys.stdout.write(f"{option.name} = {conf.value(option)}\n")
    return 0
