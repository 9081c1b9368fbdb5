"""The distribution's own archives: `primary`, `security`, `sources_list`, `disable_suites`, `generate_mirrorlists`.

cloud-init writes the distribution's sources from a template of its own. Here the image's sources are edited: their
components, types and keys stay.
"""

from __future__ import annotations

from azureinit.facts.apt import MIRROR_LISTS, SOURCES_LIST, SOURCES_PARTS
from azureinit.modules.apt_pieces import (
    MODULE,
    TRUSTED,
    Files,
    decoded,
    has_key,
    image_mirrors,
    impossible,
    own_sources,
    plan_key,
    text_of,
)
from azureinit.modules.apt_sources import (
    PRIMARY,
    SECURITY,
    Mirror,
    UnknownVariable,
    disabled_suites,
    is_deb822,
    mirror_file,
    mirrors_in,
    render,
    with_mirrors,
    without_suites,
)
from azureinit.modules.packages import flag
from azureinit.modules.steps import named
from azureinit.plan.actions import Caution
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.facts.apt import AptFacts
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

KINDS = {"primary": PRIMARY, "security": SECURITY}
JINJA = "## template:"


class Chosen(Record):
    """The mirrors that the document asks for, by archive, and the entries that they are from."""

    uris: Mapping[str, str]
    entries: Mapping[str, Node]


def host_of(uri: str) -> str:
    return uri.partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]


def searched_hosts(apt: Node) -> tuple[str, ...]:
    """The hosts of the mirrors from which one is chosen. Those that look like options are none."""
    found = []
    for name in KINDS:
        listed = apt.get(name)
        for entry in listed.items() if listed is not None else ():
            search = entry.get("search")
            found += [host_of(text_of(one)) for one in (search.items() if search is not None else ())]
    return tuple(host for host in dict.fromkeys(found) if host and not host.startswith("-"))


def choose_mirrors(apt: Node, facts: AptFacts, *, rooted: bool) -> Chosen:
    """For this architecture. Security updates come from the primary mirror, unless there is one for them."""
    uris: dict[str, str] = {}
    entries: dict[str, Node] = {}
    for name, kind in KINDS.items():
        entry = _for_architecture(apt.get(name), facts.architecture)
        if entry is None:
            continue
        entries[kind] = entry
        search = entry.get("search")
        listed = [text_of(one) for one in search.items()] if search is not None else []
        found = [uri for uri in listed if rooted or host_of(uri) in facts.resolved]
        uri = text_of(entry.get("uri")) or next(iter(found), "")
        if uri:
            uris[kind] = uri
    if PRIMARY in uris:
        uris.setdefault(SECURITY, uris[PRIMARY])
    return Chosen(uris=uris, entries=entries)


def _for_architecture(listed: Node | None, architecture: str) -> Node | None:
    default = None
    for entry in listed.items() if listed is not None else ():
        arches = entry.get("arches")
        names = [text_of(one) for one in arches.items()] if arches is not None else []
        if architecture and architecture in names:
            return entry
        default = entry if "default" in names else default
    return default


def variables(facts: AptFacts, chosen: Chosen) -> dict[str, str]:
    """The values of `$NAME` in sources."""
    mirrors = {**image_mirrors(facts), **chosen.uris}
    if PRIMARY in mirrors:
        mirrors.setdefault(SECURITY, mirrors[PRIMARY])
        mirrors["MIRROR"] = mirrors[PRIMARY]
    values = {**mirrors, **{name.lower(): uri for name, uri in mirrors.items()}}
    if facts.codename:
        values.update(RELEASE=facts.codename, codename=facts.codename)
    return values


def plan_archives(request: Request, files: Files, apt: Node, chosen: Chosen) -> Plan:
    facts = files.facts
    if flag(apt, ("preserve_sources_list",)):
        return ()
    plan: list[Item] = []
    for kind, entry in chosen.entries.items():
        if kind not in chosen.uris:
            why = "none of its mirrors has an address, so the image's stays"
            if entry.get("search") is None:
                why = "it names no mirror by uri or search, so the image's stays"
            plan.append(Caution(name=named(MODULE, entry, kind.lower()), why=why))
    listed = flag(apt, ("generate_mirrorlists",))
    if listed is not None:
        plan += _mirror_lists(files, chosen, listed)
    elif text_of(apt.get("sources_list")):
        plan += _own_list(files, apt, variables(facts, chosen))
    else:
        plan += _edit_image(request, files, apt, chosen)
    return tuple(plan)


def _mirror_lists(files: Files, chosen: Chosen, node: Node) -> Plan:
    mirrors = {**image_mirrors(files.facts), **chosen.uris}
    plan: Plan = ()
    for kind, suffix in ((PRIMARY, ""), (SECURITY, "-security")):
        path = f"{MIRROR_LISTS}/{files.facts.distro}{suffix}.list"
        if kind in mirrors and files.facts.distro:
            why = f"the list of mirrors for {kind.lower()}"
            plan += files.write(named(MODULE, node, path), why, path, f"{mirrors[kind]}\n".encode())
    return plan


def _own_list(files: Files, apt: Node, values: dict[str, str]) -> Plan:
    """The sources that the document gives, in the place of the image's."""
    node = apt.get("sources_list") or apt
    name, why = named(MODULE, node, "sources_list"), "the document gives the sources"
    text = text_of(node)
    if text.lstrip().lower().startswith(JINJA):
        return (impossible(name, "templates of jinja are not rendered here; use $MIRROR and $RELEASE", reason=why),)
    try:
        text = render(text, values)
    except UnknownVariable as error:
        return (impossible(name, no_value(str(error)), reason=why),)
    facts = files.facts
    text = without_suites(text, disabled_suites(_names(apt), facts.codename))
    data = text.encode("utf-8", "surrogateescape")
    if is_deb822(text) and facts.distro:
        path = f"{SOURCES_PARTS}/{facts.distro}.sources"
        return files.write(name, why, path, data, gone=SOURCES_LIST)
    kept = [path for path in own_sources(facts) if path != SOURCES_LIST and files.content(path) is not None]
    cautions = tuple(Caution(name=name, why=f"{path} stays in use beside {SOURCES_LIST}") for path in kept)
    return (*cautions, *files.write(name, why, SOURCES_LIST, data))


def _edit_image(request: Request, files: Files, apt: Node, chosen: Chosen) -> Plan:
    facts = files.facts
    disabled = disabled_suites(_names(apt), facts.codename)
    if not chosen.uris and not disabled and not any(has_key(entry) for entry in chosen.entries.values()):
        return ()
    paths = own_sources(facts)
    here = mirrors_in([decoded(files.content(path)) for path in paths], facts.codename)
    plan: Plan = ()
    mirrors: dict[str, Mirror] = {}
    key = ""
    for name, kind in KINDS.items():
        entry = chosen.entries.get(kind)
        if entry is not None and has_key(entry):
            key = f"{TRUSTED}/{name}.gpg"
            plan += plan_key(request, files, entry, what=name, path=key)
        mirrors[kind] = Mirror(uri=chosen.uris.get(kind, ""), key=key)
        node = entry or apt
        if entry is not None and chosen.uris.get(kind) and kind not in here:
            why = f"no source of {facts.codename or 'this release'} is in {' or '.join(paths)}; use sources_list"
            plan += (impossible(named(MODULE, node, name), why, reason="another mirror is to be used"),)
        listed = mirror_file(here.get(kind, ""))
        if listed and chosen.uris.get(kind):
            what = named(MODULE, node, listed)
            plan += files.write(what, "another mirror is to be used", listed, f"{chosen.uris[kind]}\n".encode())
    for path in paths:
        before = files.content(path)
        if before is None:
            continue
        text = without_suites(with_mirrors(decoded(before), facts.codename, mirrors), disabled)
        why = "other mirrors or suites are to be used"
        plan += files.write(named(MODULE, apt, path), why, path, text.encode("utf-8", "surrogateescape"))
    return plan


def no_value(name: str) -> str:
    return f"${name} has no value here: known are $MIRROR, $PRIMARY, $SECURITY, $RELEASE, and $KEY_FILE with a key"


def _names(apt: Node) -> tuple[str, ...]:
    node = apt.get("disable_suites")
    return tuple(text_of(one) for one in node.items()) if node is not None else ()
