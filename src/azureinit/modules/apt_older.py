"""The keys for apt that documents had before `apt` was one of them: they are read as if they were below it."""

from __future__ import annotations

from azureinit.userdata.node import LIST, MAPPING, TEXT, Node

# The older key, and the one below `apt`.
RENAMED = {
    "apt_sources": "sources",
    "apt_proxy": "proxy",
    "apt_http_proxy": "http_proxy",
    "apt_https_proxy": "https_proxy",
    "apt_ftp_proxy": "ftp_proxy",
    "apt_preserve_sources_list": "preserve_sources_list",
    "apt_custom_sources_list": "sources_list",
}
MIRROR, SEARCH = "apt_mirror", "apt_mirror_search"
OLDER = (*RENAMED, MIRROR, SEARCH)
UNNAMED = "cloud_config_sources.list"  # the file of a source that names none


def asked_apt(config: Node) -> Node | None:
    """The value of `apt`, with the older keys that it does not have itself; None where the document has none."""
    apt = config.get("apt")
    given = [(old, node) for old in OLDER if (node := config.get(old)) is not None]
    if not given or (apt is not None and apt.kind != MAPPING):
        return apt
    own = apt.pairs() if apt is not None else ()
    place = apt if apt is not None else given[0][1]
    pairs = [(_text(RENAMED[old], node), _value(old, node)) for old, node in given if old in RENAMED]
    pairs += _mirrors(config)
    named = {key.value for key, _ in own}
    added = tuple(pair for pair in pairs if pair[0].value not in named)
    return Node(MAPPING, (*own, *added), place.line, place.column, place.part)


def _value(old: str, node: Node) -> Node:
    """A list of sources becomes a mapping, by the names of their files."""
    if old != "apt_sources" or node.kind != LIST:
        return node
    pairs = tuple((_text(_file(item), item), item) for item in node.items())
    return Node(MAPPING, pairs, node.line, node.column, node.part)


def _file(source: Node) -> str:
    name = source.get("filename")
    return str(name.value) if name is not None and name.kind == TEXT and name.value else UNNAMED


def _mirrors(config: Node) -> list[tuple[Node, Node]]:
    uri, search = config.get(MIRROR), config.get(SEARCH)
    first = uri if uri is not None else search
    if first is None:
        return []
    arches = Node(LIST, (_text("default", first),), first.line, first.column, first.part)
    found = [(_text("arches", first), arches)]
    found += [(_text(key, node), node) for key, node in (("uri", uri), ("search", search)) if node is not None]
    entry = Node(MAPPING, tuple(found), first.line, first.column, first.part)
    return [(_text("primary", first), Node(LIST, (entry,), first.line, first.column, first.part))]


def _text(text: str, place: Node) -> Node:
    return Node(TEXT, text, place.line, place.column, place.part, text=text)
