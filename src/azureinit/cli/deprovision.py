"""`azure-init deprovision`: this machine becomes an image: shown as a plan first, then one question, then done."""

from __future__ import annotations

import sys

from azureinit.apply.executor import apply_step, perform
from azureinit.cli.parser import Parser, parsed
from azureinit.config.waagent import read_waagent_conf
from azureinit.errors import AzureInitError, LocalError, OvfInvalid
from azureinit.facts.bootloader import read_loader
from azureinit.facts.gather import SUDOERS, read_facts
from azureinit.facts.kernel import read_persistent_net, read_timeout_rules
from azureinit.facts.machine_state import (
    WAAGENT_SUDOERS,
    parse_sudoer,
    read_admin,
    read_backups,
    read_machine_state,
    read_spools,
)
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import Remove, Way, work_left
from azureinit.plan.deprovision import Leaving, plan_deprovision
from azureinit.plan.kernel import plan_kernel_undo
from azureinit.plan.show import as_text
from azureinit.record import Record, replace
from azureinit.run.converge import today

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

    from azureinit.config.model import Config
    from azureinit.config.waagent import Conf
    from azureinit.facts.gather import Facts
    from azureinit.machine import Machine
    from azureinit.plan.actions import Plan, Step

QUESTION = "Do all of this? What is removed cannot be brought back. [y/N] "
BUSY = 5.0  # seconds; a run that is just ending


def main(
    argv: list[str],
    *,
    machine: Machine,
    configured: Callable[[], Config],
    waagent_conf: str = "",
    answers: TextIO | None = None,
) -> int:
    """`waagent_conf`: one in another place than its usual ones."""
    options = parsed(_parser(), argv)
    if options is None:
        return 0
    if not machine.privileged and not machine.rooted:
        raise LocalError("only root sees all that has to go", hint="run it as root, or on a tree with --root DIR")
    config = configured()
    made = _plan(machine, config, options, waagent_conf)
    sys.stdout.write(as_text(made, privileged=machine.privileged))
    sys.stdout.flush()
    steps = work_left(made)
    if options.dry_run or not steps:
        return 0
    if not options.force and (refusal := _refusal(answers or sys.stdin)):
        print(f"azure-init: {refusal}", file=sys.stderr)
        return 1
    return _told(_apply(machine, config.azure_init_data_dir.path, steps), len(steps))


def _parser() -> Parser:
    parser = Parser(
        prog="azure-init deprovision",
        description="Remove everything that is this machine's alone, so that an image can be made of it.",
    )
    parser.add_argument(
        "--user",
        nargs="?",
        const="",
        metavar="NAME",
        help="the provisioned account too, with its home; never one of the system's",
    )
    parser.add_argument(
        "--lock-root",
        action="store_true",
        help="root's password too (user.lock_root and waagent.conf may say so as well)",
    )
    parser.add_argument("--force", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, and change nothing")
    return parser


class Waagent(Record):
    """What WALinuxAgent's own configuration says of it; its defaults where there is none."""

    library: str = "/var/lib/waagent"
    logs: str = "/var/log/azure"
    lock_root: bool = False


def _waagent(machine: Machine, path: str) -> Waagent:
    found = read_waagent_conf(machine, path)
    if found is None:
        return Waagent()
    conf: Conf = found[1]
    return Waagent(
        library=conf.text("Lib.Dir") or Waagent.defaults_["library"],
        logs=conf.text("Extension.LogDir") or Waagent.defaults_["logs"],
        lock_root=conf.switch("Provisioning.DeleteRootPassword"),
    )


def _plan(machine: Machine, config: Config, options: Any, waagent_conf: str) -> Plan:
    waagent = _waagent(machine, waagent_conf)
    if options.lock_root or waagent.lock_root:
        config = replace(config, user=replace(config.user, lock_root=True))
    facts = read_facts(machine, config)
    data_dir = config.azure_init_data_dir.path
    libraries = tuple(dict.fromkeys((waagent.library, config.waagent.lib_dir)))
    leaving = None if options.user is None else _leaving(machine, options.user, data_dir, libraries)
    state = read_machine_state(
        machine,
        data_dir=data_dir,
        log=config.azure_init_log_path.path,
        kvp_directory=config.telemetry.kvp_directory,
        waagent_dirs=(*libraries, waagent.logs),
        homes=_homes(facts),
    )
    kernel = plan_kernel_undo(
        timeout_rules=read_timeout_rules(machine), rules=read_persistent_net(machine), loader=read_loader(machine)
    )
    rest = plan_deprovision(
        host=facts.host,
        names=facts.names,
        accounts=facts.accounts,
        sudoers=facts.sudoers,
        ssh=facts.ssh,
        old_root=facts.old_root,
        state=state,
        config=config,
        leaving=leaving,
        user=options.user is not None,
        backups=read_backups(machine) if leaving else (),
        today=today(machine),
    )
    return (*kernel, *rest)


def _homes(facts: Facts) -> tuple[str, ...]:
    policy = facts.accounts.policy
    people = (user for user in facts.accounts.users if user.uid == 0 or policy.uid_min <= user.uid <= policy.uid_max)
    return tuple(dict.fromkeys(user.home.rstrip("/") for user in people if user.home[:1] == "/"))


def _leaving(machine: Machine, asked: str, data_dir: str, libraries: tuple[str, ...]) -> Leaving | None:
    """Whom the command line names, else whom our own files do, else WALinuxAgent's."""
    theirs = machine.read(WAAGENT_SUDOERS)
    name = asked or read_admin(machine, sudoers=SUDOERS, data_dir=data_dir)
    told = (_media_user(machine, f"{library.rstrip('/')}/ovf-env.xml") for library in libraries)
    name = name or next(filter(None, told), None) or parse_sudoer(theirs or b"")
    if not name:
        return None
    return Leaving(name=name, spools=read_spools(machine, name), waagent_sudoers=theirs)


def _media_user(machine: Machine, path: str) -> str | None:
    from azureinit.sources.ovf import parse_ovf

    data = machine.read(path)
    try:
        return parse_ovf(data).username if data else None
    except OvfInvalid:
        return None


def _refusal(answers: TextIO) -> str:
    sys.stdout.write(QUESTION)
    sys.stdout.flush()
    answer = answers.readline()
    if not answer:  # no terminal, as in a build
        sys.stdout.write("\n")
        return "nothing was done: the question was not answered; --force does it without asking"
    return "" if answer.strip().lower().startswith("y") else "nothing was done"


def _apply(machine: Machine, data_dir: str, steps: tuple[Step, ...]) -> list[str]:
    """Every step, whatever becomes of the others; what failed."""
    lock = f"{data_dir.rstrip('/')}/lock"
    if machine.is_dir(data_dir):
        machine.hold(lock, timeout=BUSY)
    failures: list[str] = []
    for step in steps:
        failures += _apply_step(machine, step)
    machine.remove(lock)
    return failures


def _apply_step(machine: Machine, step: Step) -> list[str]:
    """Removals do not hang together: one that cannot be done is no reason to leave the others."""
    journal = MemoryJournal()
    way = step.ways[0]
    if isinstance(way, Way) and all(isinstance(action, Remove) for action in way.actions):
        failures = []
        for action in way.actions:
            try:
                perform(machine, action, journal=journal)
            except AzureInitError as error:
                failures.append(f"{step.name}: {error}")
        return failures
    try:
        apply_step(machine, step, journal=journal, deadline=float("inf"))
    except AzureInitError as error:
        return [str(error) if str(error).startswith(step.name) else f"{step.name}: {error}"]
    return []


def _told(failures: list[str], steps: int) -> int:
    for failure in failures:
        print(f"azure-init: {failure}", file=sys.stderr)
    if failures:
        print("azure-init: the rest is done; run it again when that is mended", file=sys.stderr)
        return 1
    print(f"done: {steps} steps. Power the machine off now: what goes on running writes again.")
    return 0
