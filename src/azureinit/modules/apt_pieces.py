"""What the planners of apt's configuration share: the files as they will be, keys, and values for `$NAME`."""

from __future__ import annotations

from azureinit.backends.packages_apt import receive_key
from azureinit.errors import CustomDataFailed
from azureinit.facts.apt import APT_DIRECTORY, SOURCES_LIST, SOURCES_PARTS
from azureinit.modules.apt_keys import NoKey, dearmoured
from azureinit.modules.apt_sources import mirror_file, mirrors_in
from azureinit.modules.steps import ON_TREE, named, refused
from azureinit.plan.actions import Caution, MakeDir, Remove, Satisfied, Step, Way, Write
from azureinit.record import Secret, replace
from azureinit.userdata.node import TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.apt import AptFacts
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan
    from azureinit.userdata.node import Node

MODULE = "apt_configure"
TRUSTED = f"{APT_DIRECTORY}/trusted.gpg.d"
# Keys that are valid for one source only; cloud-init's directory, which documents name in `signed-by`.
FOR_ONE_SOURCE = f"{APT_DIRECTORY}/cloud-init.gpg.d"
HEX = frozenset("0123456789abcdefABCDEF")


class Files:
    """The files as they are, and as the steps planned so far leave them."""

    def __init__(self, facts: AptFacts) -> None:
        self.facts = facts
        self.planned: dict[str, bytes] = {}

    def content(self, path: str) -> bytes | None:
        return self.planned[path] if path in self.planned else self.facts.content(path)

    def write(self, name: str, why: str, path: str, data: bytes, *, gone: str = "") -> Plan:
        """A file of mode 0644, unless it is as it should be. `gone`: a file that it replaces."""
        there = bool(gone) and self.content(gone) is not None
        if self.content(path) == data and not there:
            return (Satisfied(name=name, why=f"{path} is as it should be"),)
        target = self.facts.outside.get(path)
        if target is not None and target.problem:
            return (impossible(name, target.problem, reason=why),)
        self.planned[path] = data
        beneath = target.beneath if target is not None else None
        parents = [MakeDir(path=path.rpartition("/")[0], mode=0o755, kept=True)]
        if target is not None:
            parents = [MakeDir(path=one, mode=0o755, beneath=beneath) for one in target.missing]
        write = Write(path=path, data=Secret(data), mode=0o644, beneath=beneath)
        actions = (*parents, write, *((Remove(path=gone),) if there else ()))
        return (step(name, why, Way(backend="native", actions=actions), did=f"wrote {path}"),)


def step(name: str, why: str, way: Way, *, did: str = "", once: bool = False) -> Step:
    return Step(name=name, why=why, ways=(way,), did=did, once=once, failure=CustomDataFailed)


def impossible(name: str, why: str, *, reason: str) -> Step:
    return replace(refused(name, why, reason=reason), failure=CustomDataFailed)


def not_on_tree(name: str) -> Plan:
    return (Caution(name=name, why=f"not done: {ON_TREE}"),)


def text_of(node: Node | None) -> str:
    """The text of a value; empty for any other kind of value."""
    return node.value if node is not None and node.kind == TEXT else ""


def own_sources(facts: AptFacts) -> tuple[str, ...]:
    """The files in which the image's own sources are."""
    parts = f"{SOURCES_PARTS}/{facts.distro}.sources" if facts.distro else ""
    return tuple(path for path in (SOURCES_LIST, parts) if path)


def decoded(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "surrogateescape")


def image_mirrors(facts: AptFacts) -> dict[str, str]:
    """The mirrors of the image, by archive; a list of mirrors stands for its first one."""
    texts = [decoded(facts.content(path)) for path in own_sources(facts)]
    found = {}
    for kind, uri in mirrors_in(texts, facts.codename).items():
        listed = decoded(facts.content(mirror_file(uri))).split() if mirror_file(uri) else [uri]
        if listed:
            found[kind] = listed[0]
    return found


def stem(filename: str) -> str:
    """The file's name without directory and last suffix."""
    name = filename.rstrip("/").rpartition("/")[2]
    return name.rpartition(".")[0] or name


def has_key(entry: Node) -> bool:
    return bool(text_of(entry.get("key")).strip() or text_of(entry.get("keyid")).strip())


def plan_key(request: Request, files: Files, entry: Node, *, what: str, path: str) -> Plan:
    """The key of a source or a mirror, in the file `path`."""
    given, by_id = text_of(entry.get("key")), text_of(entry.get("keyid"))
    if given.strip():
        name = named(MODULE, entry, f"key of {what}")
        try:
            data = dearmoured(given)
        except NoKey as error:
            return (impossible(name, f"the key cannot be used: {error}", reason="the source is signed with it"),)
        return files.write(name, "the source is signed with it", path, data)
    name = named(MODULE, entry, f"key of {what} from a key server")
    key = "".join(by_id.split())
    if not key or not set(key[2:] if key[:2] in ("0x", "0X") else key) <= HEX:
        return (impossible(name, "keyid is no key's number", reason="the source is signed with it"),)
    if name in request.done and files.content(path) is not None:
        return (Satisfied(name=name, why=f"{path} was received"),)
    if request.rooted:
        return not_on_tree(name)
    server = text_of(entry.get("keyserver")).strip()
    way = receive_key(key, server=server, path=path, directory=request.directory)
    return (step(name, "the source is signed with it", way, did=f"received {path}", once=True),)
