"""`ssh_import_id`: public keys from Launchpad or GitHub, by ssh-import-id."""

from __future__ import annotations

from azureinit.backends.ssh_import_id import import_ids
from azureinit.errors import CustomDataFailed
from azureinit.modules.steps import ON_TREE, named, refused
from azureinit.modules.users_asked import asked_users, words_of
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "ssh_import_id"
IN_ID = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/+-")


class ImportFacts(Record):
    host: Host
    accounts: Accounts
    online: bool


class Import(Record):
    account: str
    node: Node
    ids: tuple[str, ...]


def imports_of(request: Request) -> tuple[Import, ...]:
    admin = request.metadata.username
    asked = asked_users(request.config, admin)
    found: dict[str, Import] = {}

    def add(account: str, node: Node | None) -> None:
        before = found[account].ids if account in found else ()
        ids = tuple(dict.fromkeys((*before, *words_of(node))))
        if node is not None and ids:
            found[account] = Import(account=account, node=node, ids=ids)

    add(admin or "", request.config.get("ssh_import_id"))
    for user in asked.everyone:
        add(user.name, user.get("ssh_import_id"))
    return tuple(found.values())


def plan_ssh_import_id(request: Request, facts: ImportFacts) -> Plan:
    return tuple(_plan(one, request, facts) for one in imports_of(request))


def _plan(one: Import, request: Request, facts: ImportFacts) -> Item:
    name = named(MODULE, one.node, one.account)
    if not one.account:
        return Caution(name=name, why="the platform asks for no admin: no key is imported")
    if request.rooted:
        return Caution(name=name, why=f"no key is imported: {ON_TREE}")
    wrong = next((word for word in one.ids if set(word) - IN_ID or word.startswith("-")), None)
    if wrong is not None:
        return refused(name, "an id is like gh:name or lp:name", reason="the ids cannot be used")
    if name in request.done:
        return Satisfied(name=name, why="was done by an earlier run")
    way = import_ids(one.account, one.ids, facts.host)
    if isinstance(way, str):
        return Caution(name=name, why=f"{way}: no key is imported")
    if facts.accounts.user(one.account) is None:
        return refused(name, f"there is no account {one.account}", reason="keys of an account")
    if not facts.online:
        return refused(name, "there is no route to the internet", reason="keys are fetched from a server")
    did = f"imported the keys of {', '.join(one.ids)} for {one.account}"
    why = f"keys of {', '.join(one.ids)}"
    return Step(name=name, why=why, did=did, ways=(way,), once=True, failure=CustomDataFailed)
