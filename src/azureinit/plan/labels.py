"""SELinux labels of the files that provisioning writes: restored last and all at once."""

from __future__ import annotations

from azureinit.backends.labels import restorecon, setfiles
from azureinit.plan.actions import Caution, Declined, Satisfied, Step, work_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host
    from azureinit.facts.labels import Labels
    from azureinit.plan.actions import Plan

NAME = "selinux labels"
DID = "restored the SELinux labels of the files that were written"


def plan_labels(
    *,
    paths: tuple[str, ...],
    host: Host,
    accounts: Accounts,
    labels: Labels | None,
    before: Plan,
    done: frozenset[str],
) -> Plan:
    """`before`: the plan so far. Facts cannot see labels, so the journal remembers that they are restored."""
    if not host.selinux and labels is None:
        return ()
    if NAME in done and not work_left(before):
        return (Satisfied(name=NAME, why="restored"),)
    if labels is not None:
        way = setfiles(paths, home_base=accounts.policy.home, host=host, labels=labels)
        why, otherwise = "the tree has SELinux labels", "relabel the tree, or have its first boot do so (/.autorelabel)"
    else:
        way = restorecon(paths, host=host)
        why, otherwise = "SELinux is enabled", "the labels stay as they are"
    if isinstance(way, Declined):
        return (Caution(name=NAME, why=f"{why}, but {way.why}: {otherwise}"),)
    return (Step(name=NAME, why=why, did=DID, ways=(way,), once=True),)
