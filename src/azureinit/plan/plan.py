"""Planners as rows: what a plan is made from, and in which order. provision.py has the rows of a whole run."""

from __future__ import annotations

from azureinit.plan.hostname import plan_hostname
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Plan
    from azureinit.sources.metadata import Metadata


class Wanted(Record):
    """What a plan is made from, beside the facts."""

    metadata: Metadata
    config: Config
    # The names of the steps that the journal remembers.
    done: frozenset[str] = frozenset()
    # In days since 1970, as /etc/shadow counts.
    today: int = 0
    vm_id: str | None = None
    # The host keys that this VM made; None where those that are here are not the image's.
    own_keys: frozenset[str] | None = None


class Planner(Record):
    """One row: the parts of the facts that it reads, and the function that plans.

    The function's last argument is the plan so far.
    """

    name: str
    parts: tuple[str, ...]
    plan: Callable[[Wanted, Facts, Plan], Plan]


def make_plan(planners: Iterable[Planner], wanted: Wanted, facts: Facts) -> Plan:
    """What these rows find between the machine as it is and the one that is wanted, in their order."""
    plan: Plan = ()
    for planner in planners:
        plan = (*plan, *planner.plan(wanted, facts, plan))
    return plan


def parts_of(planners: Iterable[Planner]) -> frozenset[str]:
    """The parts of the facts that these rows read."""
    return frozenset(("host", *(part for planner in planners for part in planner.parts)))


def _hostname(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    name, config = wanted.metadata.hostname or "", wanted.config
    return plan_hostname(hostname=name, host=facts.host, names=facts.names, config=config)


HOSTNAME = Planner(name="hostname", parts=("host", "names"), plan=_hostname)

# Before the network: the stage imports nothing else of plan/.
LOCAL = (HOSTNAME,)
