"""ca_certs: certificate authorities to trust, and whether the distribution's own stay."""

from __future__ import annotations

from azureinit.backends.system_tools import DEBCONF, distrust_new_certificates, update_certificates
from azureinit.modules.file_steps import flag, once_more, refuse, step, texts, write_file
from azureinit.modules.steps import ON_TREE, named
from azureinit.plan.actions import Caution, MakeDir, Remove, Satisfied, work_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.distros import CaStore
    from azureinit.facts.system_files import SystemFiles
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "ca_certs"
HEADER = "# Changed by azure-init: customData asks for none of the certificates of the distribution."


def asked_for(request: Request) -> Node | None:
    return request.config.get("ca_certs") or request.config.get("ca-certs")


def certificate_path(store: CaStore, number: int) -> str:
    """The name that cloud-init gives the file: scripts look for it."""
    return f"{store.directory}/cloud-init-ca-cert-{number}.crt"


def looked_at(request: Request, store: CaStore) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files and tools that the planner needs facts of."""
    node = asked_for(request)
    given = texts(node.get("trusted")) if node is not None else ()
    files = [certificate_path(store, number) for number, _one in enumerate(given, 1)]
    return (*files, *((store.config,) if store.config is not None else ())), (store.tool, DEBCONF)


def plan_ca_certs(request: Request, facts: SystemFiles) -> Plan:
    node = asked_for(request)
    if node is None:
        return ()
    store = facts.host.distro.ca
    remove = flag(node.get("remove_defaults")) or flag(node.get("remove-defaults"))
    defaults = _plan_defaults(request, node, store, facts) if remove else ()
    why = "a certificate authority to trust"
    written = tuple(
        write_file(named(MODULE, node, path), path, given.encode(), facts, why=why)
        for number, given in enumerate(texts(node.get("trusted")), 1)
        for path in (certificate_path(store, number),)
    )
    return (
        *defaults,
        *written,
        *_plan_update(request, node, store, facts, changed=bool(work_left(written + defaults))),
    )


def _plan_defaults(request: Request, node: Node, store: CaStore, facts: SystemFiles) -> Plan:
    name, why = named(MODULE, node, "defaults"), "remove_defaults is true"
    items: list[Item] = []
    if store.config is not None:
        old = facts.files[store.config].data
        if old is None:
            return (Satisfied(name=name, why=f"there is no {store.config}"),)
        new = disabled(old.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        items.append(write_file(name, store.config, new, facts, why=why, mode=None))
        if DEBCONF in facts.tools:
            later = named(MODULE, node, "defaults of later packages")
            if request.rooted:
                items.append(Caution(name=later, why=f"not set: {ON_TREE}"))
            else:
                items += once_more(
                    step(later, why, distrust_new_certificates(), backend=DEBCONF, once=True), request.done
                )
    elif store.defaults:
        emptied = ((Remove(path=path, whole=True), MakeDir(path=path, mode=0o755)) for path in store.defaults)
        removed = tuple(action for pair in emptied for action in pair)
        items += once_more(step(name, why, *removed, once=True), request.done)
    return tuple(items)


def disabled(text: str) -> str:
    """Every line with an exclamation mark before it, which is how the list disables a certificate."""
    lines = text.splitlines()
    active = [at for at, line in enumerate(lines) if line and line[0] not in "#!"]
    if not active:
        return text
    made = [f"!{line}" if at in set(active) else line for at, line in enumerate(lines)]
    if HEADER not in made:
        made.insert(active[0], HEADER)
    return "\n".join(made) + "\n"


def _plan_update(request: Request, node: Node, store: CaStore, facts: SystemFiles, *, changed: bool) -> Plan:
    name, why = named(MODULE, node, "bundles"), "the certificates to trust changed"
    if request.rooted:
        return (Caution(name=name, why=f"{store.tool} is not run: {ON_TREE}"),)
    if store.tool not in facts.tools:
        return (refuse(name, f"{store.tool} is not installed", reason=why),)
    update = step(name, why, update_certificates(store.tool), backend=store.tool, once=True)
    return (update,) if changed else once_more(update, request.done)
