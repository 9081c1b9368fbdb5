"""SELinux labels of new files in a tree that is not the running system: by its own policy, with the builder's tool."""

from __future__ import annotations

from azureinit.plan.actions import Caution, Run, Step, Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.gather import Facts, Labels
    from azureinit.plan.actions import Plan

RESTORED = "restored the SELinux labels of the files that were written"


def plan_labels(name: str, paths: tuple[str, ...], labels: Labels, facts: Facts) -> Plan:
    why = "setfiles is not installed here" if labels.tool is None else ""
    if not facts.privileged:
        why = "only root labels files"
    if labels.tool is None or why:
        return (Caution(name=name, why=f"{why}: the tree is to be relabelled, or its first boot (/.autorelabel)"),)
    base = facts.accounts.policy.home
    real = [labels.homes + path[len(base) :] if path.startswith(f"{base}/") else facts.root + path for path in paths]
    # -i: not every tree has every one of them.
    run = Run(argv=(labels.tool, "-i", "-F", "-r", facts.root, labels.contexts, *real))
    why = "the tree has SELinux labels"
    return (Step(name=name, why=why, did=RESTORED, ways=(Way(backend=labels.tool, actions=(run,)),), once=True),)
