"""Public keys of the admin and of root, and host keys."""

from __future__ import annotations

from azureinit.modules.ssh_host_keys import plan_asked_host_keys
from azureinit.modules.steps import named
from azureinit.modules.user_keys import REDIRECT, plan_lines, platform_keys, restricted, usable_keys, wrong_keys
from azureinit.modules.users_asked import asked_users, flag_of, text_of
from azureinit.plan.actions import Caution, Satisfied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.users import Users
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan
    from azureinit.pubkey import PublicKey

MODULE = "ssh"
ROOT = "root"


def admin_keys(request: Request) -> tuple[PublicKey, ...]:
    return usable_keys(request.config.get("ssh_authorized_keys"))[0]


def keys_of_admin(request: Request) -> tuple[PublicKey, ...]:
    """All of the document, also those in `users`."""
    own = asked_users(request.config, request.metadata.username).admin
    more = usable_keys(own.get("ssh_authorized_keys"))[0] if own is not None else ()
    return (*admin_keys(request), *more)


def root_keys(request: Request) -> tuple[PublicKey, ...]:
    """Root's lines where `disable_root` is given: the admin's, with a command that only refuses if it is true."""
    node = request.config.get("disable_root")
    if node is None or request.metadata.username == ROOT:
        return ()
    allowed = flag_of(request.config.get("allow_public_ssh_keys"), default=True)
    keys = (*(platform_keys(request) if allowed else ()), *admin_keys(request))
    if not flag_of(node):
        return keys
    said = request.config.get("disable_root_opts")
    options = REDIRECT if said is None else text_of(said).strip()
    if not options or set(options) & set("\n\r\0"):
        options = REDIRECT
    return restricted(keys, options, use=request.metadata.username or "NONE", instead_of=ROOT)


def plan_ssh(request: Request, facts: Users) -> Plan:
    config = request.config
    node = config.get("ssh_authorized_keys")
    plan = plan_asked_host_keys(request, facts)
    admin = request.metadata.username
    if node is not None and admin:
        name = named(MODULE, node, f"keys of {admin}")
        plan = (*plan, *plan_lines(admin, admin_keys(request), name, request, facts, facts.accounts))
    elif node is not None:
        why = "the platform asks for no admin: these keys are not written"
        plan = (*plan, Caution(name=named(MODULE, node, "ssh_authorized_keys"), why=why))
    # Last: an unusable key is a failure, and does not keep the rest from being done.
    return (*plan, *_plan_root(request, facts), *_plan_rest(request), *wrong_keys(MODULE, node))


def _plan_root(request: Request, facts: Users) -> Plan:
    node = request.config.get("disable_root")
    if node is None:
        return ()
    name = named(MODULE, node, "disable_root")
    keys = root_keys(request)
    if not keys:
        why = "root gets no key" if not flag_of(node) else "no key was given that root would have to refuse"
        return (Satisfied(name=name, why=why),)
    return plan_lines(ROOT, keys, name, request, facts, facts.accounts, replacing=True)


def _plan_rest(request: Request) -> Plan:
    config = request.config
    plan: Plan = ()
    allowed = config.get("allow_public_ssh_keys")
    if allowed is not None and not flag_of(allowed):
        why = "the run authorizes the platform's keys for the admin before customData is read: they stay"
        plan = (Caution(name=named(MODULE, allowed, "allow_public_ssh_keys"), why=why),)
    publish = config.get("ssh_publish_hostkeys")
    if publish is not None and flag_of(publish.get("enabled"), default=True):
        why = "Azure has no place for host keys: they are printed on the console, and not published"
        plan = (*plan, Caution(name=named(MODULE, publish, "ssh_publish_hostkeys"), why=why))
    return plan
