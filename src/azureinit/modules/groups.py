"""Groups, and their members among the accounts that exist."""

from __future__ import annotations

from azureinit.backends.account import ADD_GROUPS, GroupsIntent
from azureinit.backends.groups import MAKE, group_lines
from azureinit.errors import CustomDataFailed
from azureinit.modules.steps import named, refused
from azureinit.plan.accounts_after import accounts_after
from azureinit.plan.actions import Caution, EditLine, Satisfied, Step
from azureinit.plan.names import listed, name_problem, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.users import Users
    from azureinit.modules.request import Request
    from azureinit.modules.users_asked import GroupAsked
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "users_groups"


def plan_group(name: str, node: Node, request: Request, facts: Users, accounts: Accounts) -> tuple[Item, Accounts]:
    """One group; and the accounts with it."""
    step = named(MODULE, node, f"group {name}")
    if accounts.group(name) is not None or any(group.name == name for group in accounts.vendor_groups):
        return Satisfied(name=step, why="exists"), accounts
    problem = name_problem(name)
    if problem:
        return refused(step, f"the name {quoted(name)} {problem}", reason="it is no name of a group"), accounts
    backends = request.settings.user_provisioners.backends
    ways = tuple(MAKE[backend](name, host=facts.host, accounts=accounts) for backend in backends)
    made = Step(name=step, why="does not exist", did=f"made the group {name}", ways=ways, failure=CustomDataFailed)
    return made, accounts_after(accounts, group_lines(name, accounts))


def plan_members(
    groups: tuple[GroupAsked, ...], request: Request, facts: Users, accounts: Accounts, *, new: frozenset[str]
) -> tuple[Plan, Accounts]:
    """The members of `groups`, without the accounts that this plan makes later."""
    plan: list[Item] = []
    for group in groups:
        for member in group.members:
            if member not in new:
                more, accounts = plan_membership(member, (group.name,), group.node, request, facts, accounts)
                plan += more
    return tuple(plan), accounts


def plan_membership(
    member: str, groups: tuple[str, ...], node: Node, request: Request, facts: Users, accounts: Accounts
) -> tuple[Plan, Accounts]:
    """An existing account in groups that exist, or are made by this plan."""
    name = named(MODULE, node, f"groups of {member}")
    if accounts.user(member) is None:
        why = f"there is no account {quoted(member)}: not added to {listed(groups)}"
        return (Caution(name=name, why=why),), accounts
    gained = tuple(group for group in groups if group not in accounts.groups_of(member) and accounts.group(group))
    vendor = tuple(group for group in groups if accounts.group(group) is None)
    skipped = (Caution(name=name, why=f"{listed(vendor)} cannot gain members: not in /etc/group"),) if vendor else ()
    if not gained:
        return skipped or (Satisfied(name=name, why=f"in {', '.join(groups)}"),), accounts
    intent = GroupsIntent(name=member, groups=gained)
    backends = request.settings.user_provisioners.backends
    ways = tuple(ADD_GROUPS[backend](intent, host=facts.host, accounts=accounts) for backend in backends)
    why, did = f"gains {', '.join(gained)}", f"added {member} to {listed(gained)}"
    step = Step(name=name, why=why, did=did, ways=ways, failure=CustomDataFailed)
    edits = tuple(EditLine(path="/etc/group", key=group, member=member) for group in gained)
    return (step, *skipped), accounts_after(accounts, edits)
