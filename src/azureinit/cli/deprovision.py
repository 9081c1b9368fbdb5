"""`azure-init deprovision`: removes per-machine state before an image is made; shows the plan and asks first."""

from __future__ import annotations

import sys

from azureinit.cli.commands import BY_NAME
from azureinit.cli.parser import parse
from azureinit.config.waagent import read_waagent_conf
from azureinit.errors import AzureInitError, LocalError, OvfInvalid, StepFailed
from azureinit.facts.bootloader import read_loader
from azureinit.facts.gather import SUDOERS, read_facts
from azureinit.facts.kernel import read_persistent_net, read_timeout_rules
from azureinit.facts.machine_state import (
    WAAGENT_SUDOERS,
    expand,
    parse_sudoer,
    read_backups,
    read_machine_state,
    read_spools,
)
from azureinit.memory.saved import read_saved
from azureinit.plan.actions import Remove, Way, work_left
from azureinit.plan.deprovision import Leaving, plan_deprovision
from azureinit.plan.kernel import plan_kernel_undo
from azureinit.plan.show import as_text
from azureinit.record import Record, replace
from azureinit.run.admin import today
from azureinit.run.enact import enact
from azureinit.telemetry.events import Events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

    from azureinit.config.model import Config
    from azureinit.config.waagent import Conf
    from azureinit.facts.gather import Facts
    from azureinit.machine import Machine
    from azureinit.plan.actions import Plan, Step

QUESTION = "Remove all of this? It cannot be undone. [y/N] "
LOCK_TIMEOUT = 5.0  # seconds to wait for a run that is about to end


def main(
    argv: list[str],
    *,
    machine: Machine,
    configured: Callable[[], Config],
    waagent_conf: str = "",
    answers: TextIO | None = None,
) -> int:
    """`waagent_conf`: the path of waagent.conf, if it is not one of the usual ones."""
    options = parse(BY_NAME["deprovision"], argv, prog="azure-init deprovision", out=sys.stdout)
    if options is None:
        return 0
    if not machine.privileged and not machine.rooted:
        raise LocalError("deprovision needs root", hint="run it as root, or on a file tree with --root DIR")
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
    return _report(_apply(machine, config.azure_init_data_dir.path, steps), len(steps))


class Waagent(Record):
    """Settings of waagent.conf that deprovisioning needs; WALinuxAgent's defaults without one."""

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
    """The account to remove: named by the command line, else by azure-init's files, else by WALinuxAgent's."""
    theirs = machine.read(WAAGENT_SUDOERS)
    name = asked or _provisioned_user(machine, data_dir)
    from_media = (_media_user(machine, f"{library.rstrip('/')}/ovf-env.xml") for library in libraries)
    name = name or next(filter(None, from_media), None) or parse_sudoer(theirs or b"")
    if not name:
        return None
    return Leaving(name=name, spools=read_spools(machine, name), waagent_sudoers=theirs)


def _provisioned_user(machine: Machine, data_dir: str) -> str | None:
    """The account that azure-init provisioned last, by its own files."""
    name = parse_sudoer(machine.read(SUDOERS) or b"")
    saved = (read_saved(machine, path) for path in expand(machine, f"{data_dir.rstrip('/')}/*.saved"))
    return name or next((media.username for media in saved if media is not None and media.username), None)


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
        return "nothing was removed: standard input gave no answer; use --force to skip the question"
    return "" if answer.strip().lower().startswith("y") else "nothing was removed"


def _apply(machine: Machine, data_dir: str, steps: tuple[Step, ...]) -> list[str]:
    """Performs every step, even if another fails. Returns the failures."""
    lock = f"{data_dir.rstrip('/')}/lock"
    if machine.is_dir(data_dir):
        machine.hold(lock, timeout=LOCK_TIMEOUT)
    failures: list[str] = []
    for step in steps:
        failures += _apply_step(machine, step)
    machine.remove(lock)
    return failures


def _apply_step(machine: Machine, step: Step) -> list[str]:
    """Removals are independent: after one fails, the others are still done."""
    failures: list[str] = []
    for part in _parts(step):
        try:
            enact(machine, (part,), events=Events(clock=machine.clock), deadline=float("inf"))
        except StepFailed as error:
            # A removal has one way: its name tells nothing.
            removal = part is not step
            failures += [f"{step.name}: {cause}" for cause in error.failures.values()] if removal else [str(error)]
        except AzureInitError as error:
            failures.append(f"{step.name}: {error}")
    return failures


def _parts(step: Step) -> tuple[Step, ...]:
    """A step that only removes, as one step for each removal; any other step as it is."""
    way = step.ways[0]
    if not isinstance(way, Way) or not all(isinstance(action, Remove) for action in way.actions):
        return (step,)
    return tuple(replace(step, ways=(replace(way, actions=(action,)),)) for action in way.actions)


def _report(failures: list[str], steps: int) -> int:
    for failure in failures:
        print(f"azure-init: {failure}", file=sys.stderr)
    if failures:
        print("azure-init: all other steps are done; fix the cause and run it again", file=sys.stderr)
        return 1
    print(f"done: {steps} steps. Power the machine off now: running services write per-machine state again.")
    return 0
