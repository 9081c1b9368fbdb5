"""write_files: files with their content, owner and mode. With `defer` they are written in the final stage.

A link in a directory that only root can change is followed. Below a directory that others can change (/tmp, a home) no
link is followed: another user could have made it. A file is replaced at once and whole, also by `append`; before
something is appended, the length of the file is noted in the VM's directory, so that no run appends it twice.
"""

from __future__ import annotations

from azureinit.modules.file_steps import flag, labels, refuse, step, text
from azureinit.modules.steps import ON_TREE, named, normal_path
from azureinit.plan.actions import Caution, MakeDir, Satisfied, Write
from azureinit.record import Record, Secret
from azureinit.userdata.decoding import TooLarge, Undecodable, parse_base64, parse_gzip
from azureinit.userdata.node import BINARY, INTEGER, MAPPING
from azureinit.userdata.values import MOST_BYTES, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.facts.system_files import SystemFiles, Target
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Action, Item, Plan
    from azureinit.userdata.node import Node

MODULE, DEFERRED = "write_files", "write_files_deferred"
DEFAULT_MODE = 0o644
ROOT = "root"
UNSET = ("", "-1", "none")
KERNEL, DEVICES = ("/proc/", "/sys/"), "/dev/"
GZIP_NAMES, BASE64_NAMES = ("gz", "gzip"), ("b64", "base64")


class Entry(Record):
    """An item of write_files."""

    node: Node
    number: int
    path: str
    append: bool
    # Empty: the file's own, or root's.
    user: str
    group: str
    mode: int

    @property
    def kernel(self) -> bool:
        return self.path.startswith(KERNEL)


def entries_of(request: Request, *, deferred: bool) -> tuple[Entry, ...]:
    listed = request.config.get("write_files")
    items = enumerate(listed.items() if listed is not None else ())
    return tuple(
        _entry(node, number)
        for number, node in items
        if node.kind == MAPPING and text(node.get("path")) and flag(node.get("defer")) is deferred
    )


def _entry(node: Node, number: int) -> Entry:
    owner = node.get("owner")
    user, _, group = (text(owner) if owner is not None else f"{ROOT}:{ROOT}").partition(":")
    return Entry(
        node=node,
        number=number,
        path=normal_path(text(node.get("path"))),
        append=flag(node.get("append")),
        user=_name(user),
        group=_name(group),
        mode=_mode(node.get("permissions")),
    )


def _name(word: str) -> str:
    name = word.strip()
    return "" if name.lower() in UNSET else name


def _mode(node: Node | None) -> int:
    if node is None:
        return DEFAULT_MODE
    if node.kind == INTEGER:  # YAML has read it as octal
        return int(node.value) & 0o7777
    try:
        return int(text(node), 8) & 0o7777
    except ValueError:
        return DEFAULT_MODE


def mark_path(request: Request, entry: Entry) -> str:
    """The file that notes how long a file was before something was appended."""
    return f"{request.directory}/appended-{entry.number}"


def looked_at(request: Request, *, deferred: bool) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The files, users and groups that the planner needs facts of."""
    entries = entries_of(request, deferred=deferred)
    files = [entry.path for entry in entries if not entry.kernel and not entry.path.startswith(DEVICES)]
    marks = [mark_path(request, entry) for entry in entries if entry.append]
    users = {entry.user for entry in entries} - {"", ROOT}
    groups = {entry.group for entry in entries} - {"", ROOT}
    return tuple(dict.fromkeys((*files, *marks))), tuple(sorted(users)), tuple(sorted(groups))


def plan_write_files(request: Request, facts: SystemFiles) -> Plan:
    return _Files(request, facts, deferred=False).plan()


def plan_write_files_deferred(request: Request, facts: SystemFiles) -> Plan:
    return _Files(request, facts, deferred=True).plan()


def content_of(request: Request, node: Node, *, limit: int) -> bytes:
    """Raises Undecodable or TooLarge."""
    source = node.get("source")
    uri = text(source.get("uri")) if source is not None else ""
    if uri in request.fetched:
        return request.fetched[uri].reveal()
    given = node.get("content")
    if given is None and uri:
        raise Undecodable(f"{shown(uri.partition('?')[0])} was not fetched, and there is no content beside it")
    if given is None:
        return b""
    value = given.value if given.kind == BINARY else text(given)
    content = value.encode() if isinstance(value, str) else bytes(value)
    words = text(node.get("encoding")).strip().lower().split("+")
    if words[-1] in BASE64_NAMES:
        content = parse_base64(content)
    return parse_gzip(content, limit=limit) if words[0] in GZIP_NAMES else content


class _Files:
    def __init__(self, request: Request, facts: SystemFiles, *, deferred: bool) -> None:
        self.request, self.facts, self.deferred = request, facts, deferred
        self.module = DEFERRED if deferred else MODULE
        self.room = MOST_BYTES
        self.made: set[str] = set()  # directories that an earlier item makes
        self.content: dict[str, bytes] = {}  # what an earlier item leaves
        self.replaced: set[str] = set()  # files that an earlier item writes whole

    def plan(self) -> Plan:
        entries = [(entry, self.wanted(entry)) for entry in entries_of(self.request, deferred=self.deferred)]
        settled = self.settled(entries)
        return tuple(self.item(entry, wanted, settled) for entry, wanted in entries)

    def wanted(self, entry: Entry) -> bytes | str:
        """The content, or why there is none."""
        try:
            content = content_of(self.request, entry.node, limit=max(self.room, 0))
        except TooLarge:
            return f"the files are larger than {MOST_BYTES >> 20} MiB together"
        except Undecodable as error:
            return f"its content cannot be decoded: {error}"
        self.room -= len(content)
        if self.room < 0:
            return f"the files are larger than {MOST_BYTES >> 20} MiB together"
        return content

    def settled(self, entries: list[tuple[Entry, bytes | str]]) -> set[str]:
        """The files that are as the items for them, one after the other, would leave them."""
        after: dict[str, tuple[Entry, bytes] | None] = {}
        for entry, wanted in entries:
            before = after.get(entry.path)
            if isinstance(wanted, str) or (entry.append and before is None):
                after[entry.path] = None
            else:
                after[entry.path] = entry, (before[1] if before is not None and entry.append else b"") + wanted
        return {path for path, last in after.items() if last is not None and self.is_like(last[0], last[1])}

    def is_like(self, entry: Entry, content: bytes) -> bool:
        target = self.facts.files.get(entry.path)
        return target is not None and target.data == content and self.is_owned(entry, target)

    def is_owned(self, entry: Entry, target: Target) -> bool:
        if target.mode != entry.mode:
            return False
        if not self.facts.host.privileged:  # then owners are not set
            return True
        uid = target.uid if not entry.user else _id(entry.user, self.facts.users)
        gid = target.gid if not entry.group else _id(entry.group, self.facts.groups)
        return (uid, gid) == (target.uid, target.gid)

    def item(self, entry: Entry, wanted: bytes | str, settled: set[str]) -> Item:
        name = named(self.module, entry.node, entry.path)
        if isinstance(wanted, str):
            return refuse(name, wanted)
        if entry.kernel:
            return self.kernel(entry, name, wanted)
        if entry.path.startswith(DEVICES):
            return refuse(name, "it lies in /dev, where devices are: no files are written there")
        target = self.facts.files[entry.path]
        problem = self.problem(entry, target)
        if problem:
            return refuse(name, problem)
        if entry.path in settled:
            return Satisfied(name=name, why="is as asked for")
        return self.write(entry, target, name, wanted)

    def problem(self, entry: Entry, target: Target) -> str:
        if "\0" in entry.path:
            return "it is not a path"
        if target.problem:
            return target.problem
        if entry.append and target.large:
            return f"it is larger than {MOST_BYTES >> 20} MiB: nothing is appended to it"
        if self.deferred:
            return ""  # a package or a user of this document may still bring them
        for what, one, known in (("user", entry.user, self.facts.users), ("group", entry.group, self.facts.groups)):
            if one and _id(one, known) is None:
                hint = "write `defer: true` for a file of a user whom `users` or a package makes"
                return f"there is no {what} {shown(one)} yet: {hint}"
        return ""

    def kernel(self, entry: Entry, name: str, wanted: bytes) -> Item:
        """A setting of the running kernel: its file is neither made nor replaced."""
        if self.request.rooted:
            return Caution(name=name, why=f"not written: {ON_TREE}")
        if name in self.request.done:
            return Satisfied(name=name, why="was written")
        return step(name, "a setting of the kernel", Write(path=entry.path, data=Secret(wanted)), once=True)

    def write(self, entry: Entry, target: Target, name: str, wanted: bytes) -> Item:
        known = self.content.get(entry.path, target.data)
        noted = entry.append and entry.path not in self.replaced
        self.replaced.update(() if entry.append else (entry.path,))
        content = (known or b"") + wanted if entry.append else wanted
        if noted and self.was_appended(entry, known, wanted):
            content = known or b""
            if self.is_owned(entry, target):
                self.content[entry.path] = content
                return Satisfied(name=name, why="was appended")
            noted = False
        self.content[entry.path] = content
        owner = f"{_owner(entry.user, target.uid)}:{_owner(entry.group, target.gid)}"
        above = [path for path in target.missing if path not in self.made]
        self.made.update(above)
        beneath = target.beneath
        mark = self.mark(entry, len(known or b"")) if noted else ()
        parents = (MakeDir(path=path, mode=0o755, owner=owner, beneath=beneath) for path in above)
        write = Write(
            path=entry.path,
            data=Secret(content),
            mode=entry.mode,
            owner=owner,
            beneath=beneath,
            was=Secret(known) if entry.append and known is not None else None,
        )
        actions = (*parents, *mark, write, *labels((*above, entry.path), self.facts.host))
        why = "its content is appended" if entry.append else "another content, mode or owner is there"
        did = f"{'appended to' if entry.append else 'wrote'} {shown(entry.path)}"
        return step(name, why if target.exists or entry.append else "is not there", *actions, did=did)

    def was_appended(self, entry: Entry, known: bytes | None, wanted: bytes) -> bool:
        mark = self.facts.files[mark_path(self.request, entry)].data
        if known is None or mark is None or not mark.strip().isdigit():
            return False
        start = int(mark)
        return start + len(wanted) <= len(known) and known.startswith(wanted, start)

    def mark(self, entry: Entry, length: int) -> tuple[Action, ...]:
        directory = MakeDir(path=self.request.directory, mode=0o700, kept=True)
        return directory, Write(path=mark_path(self.request, entry), data=b"%d\n" % length, mode=0o600)


def _id(name: str, known: Mapping[str, int]) -> int | None:
    return 0 if name == ROOT else known.get(name)


def _owner(name: str, before: int) -> str:
    """Names are resolved when the file is written; root is 0 in every tree."""
    return str(before) if not name else "0" if name == ROOT else name
