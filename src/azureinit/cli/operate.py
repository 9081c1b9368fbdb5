"""The verbs that an operator types: one function for each. Arguments are parsed before the configuration is read."""

from __future__ import annotations

import sys

from azureinit.cli.commands import BY_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.cli.words import Invocation
    from azureinit.config.model import Config
    from azureinit.machine import Machine


def operate(invocation: Invocation, machine: Machine) -> int:
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # characters that the terminal cannot show are escaped
    return VERBS[invocation.verb](invocation, machine)


def print_version(invocation: Invocation) -> int:
    """A verb beside --version is not run, but the arguments of `clean` are checked, as the Rust agent does."""
    from azureinit.version import ANSWERS_FOR, VERSION

    if invocation.verb == "clean":
        from azureinit.cli.parser import parse

        parse(BY_NAME["clean"], list(invocation.rest), prog="azure-init clean", out=sys.stdout)
    sys.stdout.write(f"azure-init {VERSION}, a drop-in for Azure's azure-init {ANSWERS_FOR}\n")
    return 0


def plan(invocation: Invocation, machine: Machine) -> int:
    from azureinit.cli.show import plan

    return plan(list(invocation.rest), machine=machine, configured=configured(invocation, machine))


def facts(invocation: Invocation, machine: Machine) -> int:
    from azureinit.cli.show import facts

    return facts(list(invocation.rest), machine=machine, configured=configured(invocation, machine))


def config(invocation: Invocation, machine: Machine) -> int:
    from azureinit.cli.config import main

    return main(
        list(invocation.rest),
        machine=machine,
        config=invocation.config,
        groups=invocation.groups,
        out=sys.stdout,
        err=sys.stderr,
    )


def disk(invocation: Invocation, machine: Machine) -> int:
    from azureinit.cli.disk import main

    return main(list(invocation.rest), machine=machine, configured=configured(invocation, machine))


def userdata(invocation: Invocation, machine: Machine) -> int:
    from azureinit.cli.userdata import main

    return main(
        list(invocation.rest),
        machine=machine,
        out=sys.stdout,
        err=sys.stderr,
        configured=configured(invocation, machine),
    )


def query(invocation: Invocation, machine: Machine) -> int:
    from azureinit.cli.query import main

    return main(list(invocation.rest), machine=machine, out=sys.stdout)


def clean(invocation: Invocation, machine: Machine) -> int:
    from azureinit.cli.clean import main

    return main(list(invocation.rest), machine=machine, configured=configured(invocation, machine))


def deprovision(invocation: Invocation, machine: Machine) -> int:
    from azureinit.cli.deprovision import main

    return main(list(invocation.rest), machine=machine, configured=configured(invocation, machine))


def kvp(invocation: Invocation, machine: Machine) -> int:
    from azureinit.cli.kvp import main

    return main(list(invocation.rest), machine=machine, out=sys.stdout, err=sys.stderr, prog="azure-init kvp")


def configured(invocation: Invocation, machine: Machine) -> Callable[[], Config]:
    """Reads the configuration when called, and prints its warnings."""

    def load_configuration() -> Config:
        from azureinit.cli import complain
        from azureinit.config.load import load

        loaded = load(machine, config=invocation.config, groups=invocation.groups)
        for warning in loaded.warnings:
            complain(f"warning: {warning}")
        return loaded.config

    return load_configuration


VERBS: dict[str, Callable[[Invocation, Machine], int]] = {
    "plan": plan,
    "facts": facts,
    "config": config,
    "disk": disk,
    "userdata": userdata,
    "query": query,
    "clean": clean,
    "deprovision": deprovision,
    "kvp": kvp,
}
