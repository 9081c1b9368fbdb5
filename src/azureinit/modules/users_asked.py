"""`users`, `user` and `groups` in the forms that people write them, as one list of accounts and one of groups."""

from __future__ import annotations

from azureinit.record import Record
from azureinit.userdata.node import FLAG, INTEGER, LIST, MAPPING, NULL, TEXT, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT = "default"  # the name that stands for the admin
TRUE = ("true", "1", "on", "yes")
FALSE = ("false", "0", "off", "no")


class UserAsked(Record):
    """One account. `settings` by name; where an account is named twice, the first value counts."""

    name: str
    node: Node
    settings: Mapping[str, Node]

    def get(self, name: str) -> Node | None:
        return self.settings.get(name)

    def text(self, name: str) -> str:
        return text_of(self.settings.get(name))

    def flag(self, name: str, *, default: bool = False) -> bool:
        return flag_of(self.settings.get(name), default=default)

    def words(self, name: str) -> tuple[str, ...]:
        return words_of(self.settings.get(name))


class GroupAsked(Record):
    name: str
    node: Node
    members: tuple[str, ...]


class Asked(Record):
    """`admin`: what is asked for the account that the platform asks for; None where nothing is."""

    admin: UserAsked | None
    users: tuple[UserAsked, ...]
    # Values that are no account, and why.
    wrong: tuple[tuple[Node, str], ...] = ()
    # A name that `user` gives to the admin.
    renamed: str = ""

    @property
    def everyone(self) -> tuple[UserAsked, ...]:
        return (*((self.admin,) if self.admin is not None else ()), *self.users)


def asked_users(config: Node, admin: str | None) -> Asked:
    """`admin`: the name of the platform's admin; None where there is none: then `default` means no account."""
    wrong: list[tuple[Node, str]] = []
    found: list[UserAsked] = []
    renamed = ""
    user = config.get("user")
    if user is not None and user.kind in (TEXT, MAPPING) and user.value:
        name = text_of(user if user.kind == TEXT else user.get("name"))
        renamed = name if name and admin is not None and name not in (admin, DEFAULT) else ""
        found.append(UserAsked(name=name if admin is None and name else DEFAULT, node=user, settings=_settings(user)))
    users = config.get("users")
    found += _listed(users, wrong) if users is not None else ()
    if admin is not None:
        found += default_user(config)  # last: every other value counts more
    merged: dict[str, UserAsked] = {}
    for one in found:
        name = admin if one.name == DEFAULT and admin is not None else one.name
        before = merged.get(name)
        settings = {**one.settings, **before.settings} if before is not None else one.settings
        merged[name] = UserAsked(name=name, node=before.node if before else one.node, settings=settings)
    own = merged.pop(admin if admin is not None else DEFAULT, None)
    return Asked(admin=own, users=tuple(merged.values()), wrong=tuple(wrong), renamed=renamed)


def default_user(config: Node) -> tuple[UserAsked, ...]:
    """`system_info.default_user`: settings of the admin, where customData has them. Those of the image's configuration
    are for an account that the image's maker has chosen."""
    system = config.get("system_info")
    node = system.get("default_user") if system is not None else None
    if node is None:
        return ()
    own = tuple((key, value) for key, value in node.pairs() if not value.part.startswith("/"))
    settings = _settings(Node(MAPPING, own, node.line, node.column, node.part))
    return (UserAsked(name=DEFAULT, node=node, settings=settings),) if settings else ()


def other_admin(config: Node, admin: str | None) -> Node | None:
    """The name that `system_info.default_user` of customData gives the admin, if it is another one."""
    system = config.get("system_info")
    default = system.get("default_user") if system is not None else None
    name = default.get("name") if default is not None else None
    foreign = name is not None and not name.part.startswith("/") and text_of(name) not in ("", admin)
    return name if foreign and admin is not None else None


def _listed(users: Node, wrong: list[tuple[Node, str]]) -> Iterator[UserAsked]:
    if users.kind == TEXT:
        yield from _by_name(users)
    for item in users.items():
        if item.kind == MAPPING:
            name = item.get("name")
            yield UserAsked(name=text_of(name) if name is not None else DEFAULT, node=item, settings=_settings(item))
        elif item.kind == LIST:
            for inner in item.items():
                yield from _by_name(inner)
        elif item.kind == TEXT:
            yield from _by_name(item)
        else:
            wrong.append((item, "is no account"))
    for key, value in users.pairs():
        if value.kind == MAPPING:
            yield UserAsked(name=text_of(key), node=key, settings=_settings(value))
        elif value.kind in (LIST, NULL):
            wrong.append((value, f"the settings of {text_of(key)} are no mapping"))
        elif flag_of(value):
            yield UserAsked(name=text_of(key), node=key, settings={})


def _by_name(node: Node) -> Iterator[UserAsked]:
    for name in words_of(node):
        yield UserAsked(name=name, node=node, settings={})


def _settings(node: Node) -> dict[str, Node]:
    """By the names with underscores. Without the name, and without settings that are left empty."""
    pairs = ((text_of(key).replace("-", "_").strip(), value) for key, value in node.pairs())
    settings: dict[str, Node] = {}
    for key, value in pairs:
        if key and key != "name" and (value.kind != NULL or key == "sudo"):
            settings.setdefault(key, value)
    return settings


def asked_groups(config: Node) -> tuple[GroupAsked, ...]:
    node = config.get("groups")
    if node is None:
        return ()
    found: dict[str, GroupAsked] = {}

    def add(name: str, place: Node, members: tuple[str, ...]) -> None:
        before = found[name].members if name in found else ()
        if name:
            found[name] = GroupAsked(name=name, node=place, members=tuple(dict.fromkeys((*before, *members))))

    if node.kind == TEXT:
        for name in words_of(node):
            add(name, node, ())
    for item in (node, *node.items()):
        if item.kind == TEXT and item is not node:
            add(text_of(item).strip(), item, ())
        for key, value in item.pairs():
            add(text_of(key).strip(), key, words_of(value))
    return tuple(found.values())


# ---- values


def text_of(node: Node | None) -> str:
    """A name or a number as text; empty for anything else."""
    if node is None or node.kind in (MAPPING, LIST, NULL):
        return ""
    return node.value if isinstance(node.value, str) else node.text or str(node.value)


def flag_of(node: Node | None, *, default: bool = False) -> bool:
    if node is None or node.kind == NULL:
        return default
    if node.kind in (FLAG, INTEGER):
        return bool(node.value)
    return text_of(node).strip().lower() in TRUE


def words_of(node: Node | None) -> tuple[str, ...]:
    """Names in a list, or separated by commas; of a mapping its keys."""
    if node is None:
        return ()
    texts = [text_of(item) for item in node.items()] if node.kind == LIST else [text_of(node)]
    if node.kind == MAPPING:
        texts = [text_of(key) for key, _ in node.pairs()]
    words = (word.strip() for text in texts for word in text.split(","))
    return tuple(dict.fromkeys(word for word in words if word))


def lines_of(node: Node | None) -> tuple[tuple[str, Node], ...]:
    """Keys, rules and ids: whole texts, in a list, alone, or as the values of a mapping."""
    if node is None:
        return ()
    inner = node.items() if node.kind == LIST else tuple(value for _, value in node.pairs())
    nodes = inner if node.kind in (LIST, MAPPING) else (node,)
    return tuple((text_of(one), one) for one in nodes if text_of(one))
