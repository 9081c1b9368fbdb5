"""The published host name in WALinuxAgent's directory, where other programs read it."""

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
    # Without a line feed: WALinuxAgent compares the whole content.
    actions = write_private(lib_dir, NAME, hostname.encode(), mode=0o644)
    why = "WALinuxAgent is installed, and programs read the name in DNS from there"
    did = f"wrote {hostname} to {NAME} in {lib_dir}, for WALinuxAgent"
    return (Step(name=NAME, why=why, did=did, ways=(Way(backend="native", actions=actions),)),)
