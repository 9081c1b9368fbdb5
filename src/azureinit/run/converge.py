"""Plan, apply, look again: until nothing is left to do, or what is left has a name."""

from __future__ import annotations

from azureinit.apply.executor import apply_plan
from azureinit.errors import LocalError, NotConverged, PlanStale
from azureinit.facts.access import read_access
from azureinit.facts.gather import EVERY_PART, read_facts
from azureinit.facts.key_files import AdminFiles, read_keys_files, read_pieces
from azureinit.facts.ssh import MERGER
from azureinit.facts.sshd_answer import ask_about
from azureinit.plan.access import paths_of, questions
from azureinit.plan.actions import Caution, Unknown, work_left
from azureinit.plan.keys import key_paths
from azureinit.record import replace
from azureinit.telemetry.events import WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.machine import Machine
    from azureinit.memory.journal import Journal
    from azureinit.plan.actions import Plan
    from azureinit.sources.imds import PublicKey
    from azureinit.sources.metadata import Metadata
    from azureinit.telemetry.events import Events

    Planner = Callable[[Facts], Plan]

MOST_PLANS = 3  # of those that were applied: what is undone again and again is someone else's fight
MOST_STALE = 20  # of those that were not: another program takes every number that we choose
DAY = 86400


def converge(
    machine: Machine,
    config: Config,
    planner: Planner,
    *,
    facts: Facts,
    journal: Journal,
    events: Events,
    deadline: float,
    parts: Collection[str] = EVERY_PART,
) -> tuple[Facts, tuple[str, ...]]:
    """The machine as it is then, and the names of the steps that were taken, or begun before a plan was stale."""
    taken: tuple[str, ...] = ()
    told: list[Caution] = []
    applied = stale = 0
    while applied < MOST_PLANS:
        plan = planner(facts)
        for item in plan:
            if isinstance(item, Caution) and item not in told:
                told.append(item)
                events.tell(WARN, item.name, item.why)
        unknown = [f"{item.name} ({item.why})" for item in plan if isinstance(item, Unknown)]
        if unknown:
            raise LocalError(f"what is left to do cannot be told: {', '.join(unknown)}", hint="run it as root")
        steps = work_left(plan)
        if not steps:
            return facts, taken
        taken = (*taken, *(step.name for step in steps if step.name not in taken))
        try:
            apply_plan(machine, plan, journal=journal, events=events, deadline=deadline)
            applied += 1
        except PlanStale:
            stale += 1
            if stale == MOST_STALE:
                raise
        facts = read_facts(machine, config, parts, before=facts)
    left = work_left(planner(facts))
    if left:
        names = ", ".join(f"{step.name} ({step.why})" for step in left)
        raise NotConverged(f"after provisioning there is still something to do: {names}")
    return facts, taken


def with_keys_files(
    machine: Machine, config: Config, facts: Facts, *, username: str, keys: tuple[PublicKey, ...]
) -> Facts:
    """The facts about the home of somebody whose name is known by now."""
    home = facts.accounts.home_of(username)
    admin = AdminFiles(key_pieces=read_pieces(machine, home) if facts.ssh.pieces == MERGER else ())
    paths = key_paths(
        username=username, home=home, keys=keys, accounts=facts.accounts, ssh=facts.ssh, admin=admin, config=config
    )
    return replace(facts, admin=replace(admin, keys_files=read_keys_files(machine, home=home, paths=paths)))


def with_access(machine: Machine, config: Config, facts: Facts, metadata: Metadata) -> Facts:
    """What decides about the admin's login; sshd is asked only where its configuration has rules of its own."""
    if not facts.ssh.installed:
        return replace(facts, access=None)
    username = metadata.username or ""
    user = facts.accounts.user(username)
    access = read_access(
        machine,
        facts.ssh,
        systemd=facts.host.systemd,
        shell=user.shell if user else facts.accounts.shell,
        paths=paths_of(metadata=metadata, accounts=facts.accounts, ssh=facts.ssh, admin=facts.admin, config=config),
    )
    asked = questions(metadata=metadata, host=facts.host, accounts=facts.accounts, ssh=facts.ssh, config=config)
    if asked:
        answers, unanswered = ask_about(machine, facts.ssh, asked)
        access = replace(access, answers=answers, unanswered=unanswered)
    return replace(facts, access=access)


def today(machine: Machine) -> int:
    return int(machine.clock.now() // DAY)
