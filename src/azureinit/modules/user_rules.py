"""Rules of sudo and doas for accounts: one file of each, checked before it is put in place."""

from __future__ import annotations

from azureinit.backends.sudoers import check_rules
from azureinit.errors import CustomDataFailed
from azureinit.facts.users import DOAS, USERS_SUDOERS
from azureinit.modules.steps import named, refused, where
from azureinit.modules.users_asked import lines_of
from azureinit.plan.actions import Caution, Satisfied, Step, Way, Write
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.users import Rules, Users
    from azureinit.modules.users_asked import UserAsked
    from azureinit.plan.actions import Action, Plan

MODE = 0o440
HEADER = b"# Written by azure-init, for the users of customData.\n"
DOAS_OPTIONS = ("nopass", "nolog", "persist", "keepenv")


def plan_rules(user: UserAsked, rules: Rules, facts: Users) -> tuple[Plan, Rules]:
    """The plan, and the files as it leaves them: the next account's rules come after these."""
    plan, rules = _plan_sudo(user, rules, facts)
    more, rules = _plan_doas(user, rules)
    return (*plan, *more), rules


def _plan_sudo(user: UserAsked, rules: Rules, facts: Users) -> tuple[Plan, Rules]:
    node = user.get("sudo")
    asked = tuple(text for text, place in lines_of(node) if place.value is not False)
    if node is None or not asked:
        return (), rules
    name = named("users_groups", node, f"sudo of {user.name}")
    before = rules.sudo
    after = with_rules(before, user.name, tuple(f"{user.name} {rule}" for rule in asked))
    if before == after:
        return (Satisfied(name=name, why=f"is in {USERS_SUDOERS}"),), rules
    if not rules.sudo_directory and facts.host.rooted:
        why = "there is no /etc/sudoers.d: the rules are not written"
        return (Caution(name=name, why=f"{why}; sudo is not installed in this tree"),), rules
    if not rules.sudo_directory:
        why = "there is no /etc/sudoers.d: sudo is not installed, and the rules are not written"
        return (Caution(name=name, why=why),), rules
    check = check_rules(after, facts.host)
    write = Write(path=USERS_SUDOERS, data=after, mode=MODE, owner="0:0", was=before)
    actions: tuple[Action, ...] = (write,) if check is None else (check, write)
    did = f"gave {user.name} {len(asked)} rules of sudo" if len(asked) > 1 else f"gave {user.name} sudo"
    way = Way(backend="native", actions=actions)
    step = Step(name=name, why=f"rules -> {USERS_SUDOERS}", did=did, ways=(way,), failure=CustomDataFailed)
    return (step,), replace(rules, sudo=after)


def _plan_doas(user: UserAsked, rules: Rules) -> tuple[Plan, Rules]:
    node = user.get("doas")
    lines = lines_of(node)
    if node is None or not lines:
        return (), rules
    for rule, place in lines:
        if not is_doas_rule(rule, user.name):
            name, reason = named("users_groups", place, f"doas of {user.name}"), f"{where(place)} is no rule of doas"
            why = f"it must begin with permit or deny and name {user.name}: no rule of this account is written"
            return (refused(name, why, reason=reason),), rules
    name = named("users_groups", node, f"doas of {user.name}")
    after = with_rules(rules.doas, user.name, tuple(rule.strip() for rule, _ in lines))
    if rules.doas == after:
        return (Satisfied(name=name, why=f"is in {DOAS}"),), rules
    mode = MODE if rules.doas is None else None
    write = Write(path=DOAS, data=after, mode=mode, owner="0:0" if rules.doas is None else None, was=rules.doas)
    way = Way(backend="native", actions=(write,))
    did = f"gave {user.name} doas"
    step = Step(name=name, why=f"rules -> {DOAS}", did=did, ways=(way,), failure=CustomDataFailed)
    return (step,), replace(rules, doas=after)


def with_rules(before: bytes | None, username: str, rules: tuple[str, ...]) -> bytes:
    """The file with a block for the account, once."""
    block = "".join(f"{line}\n" for line in ("", f"# User rules for {username}", *rules)).encode()
    if before is None:
        return HEADER + block
    return before if block in before else before + (b"" if before.endswith(b"\n") or not before else b"\n") + block


def is_doas_rule(rule: str, username: str) -> bool:
    """permit|deny [options] USER [as TARGET] [cmd COMMAND [args ...]], on one line."""
    if "\n" in rule:
        return False
    words = rule.split()
    if not words or words[0] not in ("permit", "deny"):
        return False
    at = 1
    while at < len(words) and (words[at] in DOAS_OPTIONS or words[at] == "setenv"):
        if words[at] == "setenv":
            end = next((index for index in range(at, len(words)) if words[index].endswith("}")), None)
            if end is None or not words[at + 1].startswith("{"):
                return False
            at = end
        at += 1
    if at >= len(words) or words[at] != username:
        return False
    rest = words[at + 1 :]
    if rest[:1] == ["as"]:
        rest = rest[2:] if len(rest) > 1 else ["as"]
    return not rest or (rest[0] == "cmd" and len(rest) > 1 and (len(rest) == 2 or rest[2] == "args"))
