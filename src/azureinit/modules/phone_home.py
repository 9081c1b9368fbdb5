"""phone_home: tell a URL that this VM is set up, with its names and public host keys."""

from __future__ import annotations

from azureinit.addresses import base_of, parse_url
from azureinit.errors import CustomDataFailed, HttpFailed
from azureinit.modules.commands import RAN
from azureinit.modules.steps import ON_TREE, named, refused
from azureinit.modules.templates import filled
from azureinit.plan.actions import Caution, Post, Satisfied, Step, Way
from azureinit.record import Secret, replace
from azureinit.userdata.node import INTEGER, MAPPING, TEXT
from azureinit.userdata.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.final import Identity
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan
    from azureinit.userdata.node import Node

KEY = "phone_home"
FIELDS = ("pub_key_rsa", "pub_key_ecdsa", "pub_key_ed25519", "instance_id", "hostname", "fqdn")
MISSING = "N/A"
TRIES, MOST_TRIES = 10, 1000
PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def plan_phone_home(request: Request, identity: Identity) -> Plan:
    node = request.config.get(KEY)
    url = node.get("url") if node is not None and node.kind == MAPPING else None
    if node is None or url is None:
        return ()
    target = filled(str(url.value).strip(), {"INSTANCE_ID": request.vm_id})
    to = shown(base_of(target.partition("?")[0]).rpartition("@")[2])
    name, reason = named(KEY, node), f"customData asks to tell {to}"
    if name in request.done:
        return (Satisfied(name=name, why=RAN),)
    wrong = why_no_target(target)
    if wrong:
        return (replace(refused(name, wrong, reason=reason), failure=CustomDataFailed),)
    if request.rooted:
        return (Caution(name=name, why=f"not sent: {ON_TREE}"),)
    values = values_of(request, identity)
    fields = fields_of(node)
    cautions = tuple(
        Caution(name=name, why=f"{shown(field)} is not known: {MISSING} is sent in its place")
        for field in fields
        if field not in values
    )
    form = Secret(encoded(tuple((field, values.get(field, MISSING)) for field in fields)))
    post = Post(url=Secret(target), shown=to, form=form, tries=tries_of(node.get("tries")))
    ways = (Way(backend="http", actions=(post,)),)
    did = f"sent {', '.join(map(shown, fields))} to {to}"
    return (*cautions, Step(name=name, why=reason, ways=ways, did=did, once=True, failure=CustomDataFailed))


def why_no_target(url: str) -> str:
    try:
        parse_url(url, secure=url.startswith("https:"))
    except HttpFailed:
        return "its url is not an http:// or https:// URL that a form can be sent to"
    return ""


def values_of(request: Request, identity: Identity) -> dict[str, str]:
    """The document's own host name wins over the platform's."""
    given = [request.config.get(key) for key in ("fqdn", "hostname")]
    texts = [str(node.value) for node in given if node is not None and node.kind == TEXT and node.value]
    fqdn = next(iter(texts), request.metadata.hostname or identity.hostname)
    names = {"instance_id": request.vm_id, "hostname": fqdn.partition(".")[0], "fqdn": fqdn}
    return {**names, **dict(identity.keys)}


def fields_of(node: Node) -> tuple[str, ...]:
    post = node.get("post")
    chosen = tuple(str(item.value) for item in post.items()) if post is not None else ()
    return chosen or FIELDS


def tries_of(node: Node | None) -> int:
    return min(max(int(node.value), 1), MOST_TRIES) if node is not None and node.kind == INTEGER else TRIES


def encoded(pairs: tuple[tuple[str, str], ...]) -> bytes:
    """As an HTML form: application/x-www-form-urlencoded."""
    return b"&".join(_quoted(name) + b"=" + _quoted(value) for name, value in pairs)


def _quoted(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    return b"".join(b"+" if byte == 32 else bytes((byte,)) if byte in PLAIN else b"%%%02X" % byte for byte in data)
