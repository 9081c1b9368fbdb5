"""The name that DNS knows, in WALinuxAgent's directory: others read it there."""

from __future__ import annotations

from azureinit.plan.actions import Satisfied, Step, Way
from azureinit.plan.names import is_generic_hostname
from azureinit.plan.waagent import write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.waagent import Waagent
    from azureinit.plan.actions import Plan

NAME = "published_hostname"


def plan_published(*, hostname: str, waagent: Waagent | None, lib_dir: str) -> Plan:
    if waagent is None or waagent.hidden or is_generic_hostname(hostname):
        return ()
    if waagent.published == hostname.encode():
        return (Satisfied(name=NAME, why=f"says {hostname}"),)
    # Without a line's end: whoever wrote it first reads it back as it is.
    actions = write_private(lib_dir, NAME, hostname.encode(), mode=0o644)
    why = "WALinuxAgent is installed, and programs look there for the name in DNS"
    did = f"wrote {hostname} to {NAME} in {lib_dir}, for WALinuxAgent"
    return (Step(name=NAME, why=why, did=did, ways=(Way(backend="native", actions=actions),)),)
