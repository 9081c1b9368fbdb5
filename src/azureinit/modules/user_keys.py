"""Public keys of accounts, and keys that only tell under which name to log in."""

from __future__ import annotations

from azureinit.backends.labels import relabel
from azureinit.errors import AzureInitError, CustomDataFailed
from azureinit.facts.key_files import AdminFiles
from azureinit.modules.steps import named, refused, where
from azureinit.modules.users_asked import lines_of
from azureinit.plan.actions import Caution, Declined, MakeDir, Satisfied, Step, Way, Write
from azureinit.plan.keys import plan_keys
from azureinit.pubkey import PublicKey, options_of, parse_key
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.users import Users
    from azureinit.modules.request import Request
    from azureinit.modules.users_asked import UserAsked
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

NO_FILES = AdminFiles()
# The same options, sentence and exit status as cloud-init's: programs look for them.
# $USER is to be used, $DISABLE_USER is not.
REDIRECT = (
    "no-port-forwarding,no-agent-forwarding,no-X11-forwarding,"
    'command="echo \'Please login as the user \\"$USER\\" rather than the user \\"$DISABLE_USER\\".\';echo;sleep 10;'
    'exit 142"'
)


def usable_keys(node: Node | None) -> tuple[tuple[PublicKey, ...], tuple[tuple[Node, str], ...]]:
    """The keys, and why others cannot be used. A reason never quotes a key: a secret may be in its place."""
    keys: list[PublicKey] = []
    wrong: list[tuple[Node, str]] = []
    for text, place in lines_of(node):
        # A block of text may hold several keys, and comments.
        for line in text.split("\n"):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                parse_key(line)
            except AzureInitError as error:
                wrong.append((place, str(error)))
            else:
                keys.append(PublicKey(data=line))
    return tuple(dict.fromkeys(keys)), tuple(wrong)


def platform_keys(request: Request) -> tuple[PublicKey, ...]:
    """Without their paths, and without damaged ones: the run fails for those."""
    usable = []
    for key in request.metadata.keys:
        try:
            usable.append(PublicKey(data=parse_key(key.data).rstrip("\n")))
        except AzureInitError:
            continue
    return tuple(usable)


def free_keys(node: Node | None) -> tuple[PublicKey, ...]:
    """The keys that let their owner in from everywhere and with any command."""
    return tuple(key for key in usable_keys(node)[0] if not options_of(parse_key(key.data)))


def restricted(keys: tuple[PublicKey, ...], options: str, *, use: str, instead_of: str) -> tuple[PublicKey, ...]:
    """The keys with these options instead of their own."""
    said = options.replace("$USER", use).replace("$DISABLE_USER", instead_of)
    made = []
    for key in keys:
        line = parse_key(key.data).rstrip("\n")
        bare = line[len(options_of(line)) :].lstrip()
        made.append(PublicKey(data=f"{said} {bare}" if said else bare))
    return tuple(made)


def keys_of_user(user: UserAsked, request: Request) -> tuple[PublicKey, ...]:
    """Those that are asked for: its own, or the platform's that redirect it."""
    if user.flag("ssh_redirect_user"):
        return restricted(platform_keys(request), REDIRECT, use=request.metadata.username or "", instead_of=user.name)
    return usable_keys(user.get("ssh_authorized_keys"))[0]


def plan_user_keys(user: UserAsked, request: Request, facts: Users, accounts: Accounts) -> Plan:
    name = named("users_groups", user.node, f"keys of {user.name}")
    redirected = user.flag("ssh_redirect_user")
    keys = keys_of_user(user, request)
    if redirected and not keys:
        return (Caution(name=name, why="ssh_redirect_user: the platform gave no public key"),)
    return plan_lines(user.name, keys, name, request, facts, accounts, replacing=redirected)


def wrong_keys(module: str, node: Node | None) -> Plan:
    """Refusals of keys that sshd would not accept."""
    return tuple(
        refused(named(module, place, "public key"), why, reason=f"{where(place)} has no usable public key")
        for place, why in usable_keys(node)[1]
    )


def plan_lines(
    username: str,
    keys: tuple[PublicKey, ...],
    name: str,
    request: Request,
    facts: Users,
    accounts: Accounts,
    *,
    replacing: bool = False,
) -> Plan:
    """plan_keys() for any account, under the module's name."""
    if not keys:
        return ()
    if accounts.user(username) is None:
        return (Caution(name=name, why=f"there is no account {username}: no key is written"),)
    plan = plan_keys(
        username=username,
        home=accounts.home_of(username),
        keys=keys,
        host=facts.host,
        accounts=accounts,
        ssh=facts.ssh,
        admin=facts.key_files.get(username, NO_FILES),
        config=request.settings,
        replacing=replacing,
    )
    return tuple(_renamed(item, name, facts) for item in plan)


def _renamed(item: Item, name: str, facts: Users) -> Item:
    if not isinstance(item, Step):
        return Satisfied(name=name, why=item.why) if isinstance(item, Satisfied) else replace(item, name=name)
    ways: list[Way | Declined] = []
    for way in item.ways:
        if isinstance(way, Way):
            paths = tuple(action.path for action in way.actions if isinstance(action, (Write, MakeDir)))
            ways.append(replace(way, actions=(*way.actions, *(relabel(paths, facts.host) if paths else ()))))
        else:
            ways.append(way)
    return replace(item, name=name, ways=tuple(ways), failure=CustomDataFailed)
