"""apt: package sources and their keys, mirrors, proxies, settings, answers for debconf."""

from __future__ import annotations

from azureinit.backends.packages import install, update
from azureinit.backends.packages_apt import PACKAGES, add_repository, set_selections
from azureinit.facts.apt import SOURCES_PARTS
from azureinit.facts.packages import APT
from azureinit.modules.apt_mirrors import choose_mirrors, no_value, plan_archives, searched_hosts, variables
from azureinit.modules.apt_older import asked_apt
from azureinit.modules.apt_pieces import (
    FOR_ONE_SOURCE,
    MODULE,
    TRUSTED,
    Files,
    has_key,
    impossible,
    not_on_tree,
    plan_key,
    stem,
    step,
    text_of,
)
from azureinit.modules.apt_sources import UnknownVariable, is_deb822, render
from azureinit.modules.steps import named, normal_path
from azureinit.plan.actions import Caution, Satisfied, Step, Way
from azureinit.record import Secret
from azureinit.userdata.node import MAPPING, TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.apt import AptFacts
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan
    from azureinit.userdata.node import Node

PROXY_FILE = "/etc/apt/apt.conf.d/90cloud-init-aptproxy"
CONF_FILE = "/etc/apt/apt.conf.d/94cloud-init-config"
PROXIES = (("proxy", "http"), ("http_proxy", "http"), ("ftp_proxy", "ftp"), ("https_proxy", "https"))
# cloud-init's: `ppa:user/name`, `cloud-archive:name`.
REPOSITORY = r"^[\w-]+:\w"


def paths_of(config: Node) -> tuple[str, ...]:
    """The files that a plan may write, beside the sources that exist."""
    apt = asked_apt(config)
    if apt is None:
        return ()
    found = [PROXY_FILE, CONF_FILE, *(f"{TRUSTED}/{name}.gpg" for name in ("primary", "security"))]
    for name, entry in _entries(apt):
        filename = _filename(name, entry)
        found += [_path(filename, deb822=False), _path(filename, deb822=True)]
        found += [f"{directory}/{stem(filename)}.gpg" for directory in (TRUSTED, FOR_ONE_SOURCE)]
    return tuple(path for path in dict.fromkeys(found) if "\0" not in path)


def hosts_of(config: Node) -> tuple[str, ...]:
    apt = asked_apt(config)
    return searched_hosts(apt) if apt is not None else ()


def plan_apt(request: Request, facts: AptFacts) -> Plan:
    apt = asked_apt(request.config)
    if apt is None or apt.kind != MAPPING:
        return ()
    if not facts.installed:
        return (Caution(name=named(MODULE, apt), why="not done: apt is not installed"),)
    files = Files(facts)
    chosen = choose_mirrors(apt, facts, rooted=request.rooted)
    matches, trouble = _matcher(apt)
    entries = _entries(apt)
    plan = [*_settings(files, apt), *_selections(request, facts, apt), *_programs(request, facts, entries, matches)]
    plan += plan_archives(request, files, apt, chosen)
    for name, entry in entries:
        plan += _source(request, files, (name, entry), variables(facts, chosen), matches, trouble)
    steps = [item for item in plan if isinstance(item, Step)]
    if entries and steps:
        name, why = named(MODULE, apt, "lists"), "there are other sources than before"
        plan += not_on_tree(name) if request.rooted else (step(name, why, update(APT, directory=request.directory)),)
    return tuple(plan)


def _entries(apt: Node) -> tuple[tuple[str, Node], ...]:
    sources = apt.get("sources")
    pairs = sources.pairs() if sources is not None else ()
    return tuple((str(key.value if key.kind == TEXT else key.text), entry) for key, entry in pairs
                 if entry.kind == MAPPING)  # fmt: skip


def _filename(name: str, entry: Node) -> str:
    return text_of(entry.get("filename")) or name


def _path(filename: str, *, deb822: bool) -> str:
    suffix = ".sources" if deb822 else ".list"
    path = normal_path(filename if filename.startswith("/") else f"{SOURCES_PARTS}/{filename}")
    return path if path.endswith(suffix) else path + suffix


def _settings(files: Files, apt: Node) -> Plan:
    """Proxies and settings. Files of an earlier document that this one has no settings for are removed."""
    lines, nodes = [], []
    plan: Plan = ()
    for key, method in PROXIES:
        node = apt.get(key)
        value = text_of(node)
        if node is None or not value:
            continue
        if not value.isprintable() or '"' in value or "\\" in value:
            why = "a proxy's address has no quotation marks, backslashes or line ends"
            plan += (impossible(named(MODULE, node, key), why, reason="apt is to use a proxy"),)
            continue
        nodes.append(node)
        lines.append(f'Acquire::{method}::Proxy "{value}";\n')
    if lines:
        plan += files.write(named(MODULE, nodes[0], "proxy"), "apt is to use a proxy", PROXY_FILE, _bytes(lines))
    elif not plan:
        plan += _removed(files, apt, PROXY_FILE)
    conf = apt.get("conf")
    if conf is not None and text_of(conf):
        return (*plan, *files.write(named(MODULE, conf, "conf"), "settings of apt", CONF_FILE, _bytes([text_of(conf)])))
    return (*plan, *_removed(files, apt, CONF_FILE))


def _removed(files: Files, apt: Node, path: str) -> Plan:
    from azureinit.plan.actions import Remove

    if files.content(path) is None:
        return ()
    way = Way(backend="native", actions=(Remove(path=path),))
    return (step(named(MODULE, apt, path), "the document has no such setting", way, did=f"removed {path}"),)


def _bytes(texts: list[str]) -> bytes:
    return "".join(texts).encode("utf-8", "surrogateescape")


def _selections(request: Request, facts: AptFacts, apt: Node) -> Plan:
    node = apt.get("debconf_selections")
    sets = sorted((str(key.value), text_of(value)) for key, value in node.pairs()) if node is not None else []
    text = "\n".join(value for _, value in sets)
    if node is None or not text.strip():
        return ()
    name = named(MODULE, node, "debconf_selections")
    packages = {line.split()[0].partition(":")[0] for line in text.splitlines() if line.split()[:1]}
    there = sorted(packages & facts.packages)
    plan: Plan = ()
    if there:
        why = f"{', '.join(there)}: installed already, and not configured again"
        plan = (Caution(name=name, why=why),)
    if name in request.done:
        return (Satisfied(name=name, why="debconf was given them"),)
    if request.rooted:
        return not_on_tree(name)
    if "debconf-set-selections" not in facts.tools:
        return (impossible(name, "debconf-set-selections is not installed", reason="answers for debconf"),)
    way = set_selections(Secret(text if text.endswith("\n") else f"{text}\n"), directory=request.directory)
    return (*plan, step(name, "answers for packages that are installed later", way, once=True))


def _programs(request: Request, facts: AptFacts, entries: tuple[tuple[str, Node], ...], matches: Matcher) -> Plan:
    """The programs that a source needs, from the image's own sources."""
    needed: dict[str, Node] = {}
    for _name, entry in entries:
        if text_of(entry.get("keyid")).strip() and not text_of(entry.get("key")).strip():
            needed.setdefault("gpg", entry)
        if matches(text_of(entry.get("source"))):
            needed.setdefault("add-apt-repository", entry)
    missing = {tool: entry for tool, entry in needed.items() if tool not in facts.tools}
    if not missing or request.rooted:
        return ()
    node = next(iter(missing.values()))
    packages = tuple(sorted(PACKAGES[tool] for tool in missing))
    directory = request.directory
    actions = (*update(APT, directory=directory).actions, *install(APT, packages, directory=directory).actions)
    why = f"a source needs {' and '.join(missing)}"
    return (step(named(MODULE, node, " ".join(packages)), why, Way(backend="apt-get", actions=actions)),)


def _source(
    request: Request,
    files: Files,
    named_entry: tuple[str, Node],
    values: dict[str, str],
    matches: Matcher,
    trouble: str,
) -> Plan:
    key, entry = named_entry
    source, filename = text_of(entry.get("source")), _filename(key, entry)
    plan: Plan = ()
    name, why = named(MODULE, entry, key), "a package source"
    if "\0" in filename or "\n" in filename or not stem(filename):
        return (impossible(name, "filename is no name of a file", reason=why),)
    if has_key(entry):
        hardened = "$KEY_FILE" in source or "${KEY_FILE}" in source
        path = f"{FOR_ONE_SOURCE if hardened else TRUSTED}/{stem(filename)}.gpg"
        plan = plan_key(request, files, entry, what=key, path=path)
        values = {**values, "KEY_FILE": path}
    if not source.strip():
        return plan
    try:
        text = render(source, values)
    except UnknownVariable as error:
        return (*plan, impossible(name, no_value(str(error)), reason=why))
    if trouble:
        return (*plan, impossible(name, trouble, reason=why))
    if matches(text):
        return (*plan, *_repository(request, name, text))
    path = _path(filename, deb822=is_deb822(text))
    append = entry.get("append")
    data = _bytes([text, "\n"])
    before = files.content(path)
    if before and not (append is not None and flag_is_false(append)):
        ended = before if before.endswith(b"\n") else before + b"\n"
        gap = b"\n" if is_deb822(text) else b""
        data = before if b"\n" + data in b"\n" + ended else ended + gap + data
    if not _is_read(path):
        told = f"apt ignores {path}: letters, digits, hyphens, underscores and dots are allowed in its name"
        plan += (Caution(name=name, why=told),)
    return (*plan, *files.write(name, why, path, data))


def _repository(request: Request, name: str, source: str) -> Plan:
    why = "a package source that add-apt-repository knows"
    if name in request.done:
        return (Satisfied(name=name, why="was added"),)
    if "@" in source or source.startswith("-") or not source.isprintable():
        return (impossible(name, "not given to add-apt-repository: it may hold a password, or an option", reason=why),)
    if request.rooted:
        return not_on_tree(name)
    return (step(name, why, add_repository(source, directory=request.directory), once=True),)


def flag_is_false(node: Node) -> bool:
    return node.value is False or node.text.strip().lower() in ("false", "no", "off", "0")


def _is_read(path: str) -> bool:
    """Whether apt reads a file of that name in its directory; it is told by its path elsewhere."""
    directory, _, name = path.rpartition("/")
    return directory != SOURCES_PARTS or all(one.isascii() and (one.isalnum() or one in "-_.") for one in name)


def _matcher(apt: Node) -> tuple[Matcher, str]:
    """Whether a source is one for add-apt-repository; and why that cannot be told."""
    import re

    given = apt.get("add_apt_repo_match")
    pattern = text_of(given) if given is not None else REPOSITORY
    if not pattern:
        return (lambda _source: False), ""
    try:
        search = re.compile(pattern).search
    except (re.error, RecursionError, OverflowError):
        return (lambda _source: False), "add_apt_repo_match is no regular expression"
    return (lambda source: search(source) is not None), ""


if TYPE_CHECKING:
    from collections.abc import Callable

    Matcher = Callable[[str], bool]
