"""The kinds of values that a key of a cloud-config may have. Validation, JSON Schema and the manual read them."""

from __future__ import annotations

from azureinit.record import Record
from azureinit.userdata.node import BINARY, DATE, FLAG, INTEGER, NULL, NUMBER, TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Union

    Kind = Union["Scalar", "Choice", "ListOf", "Keys", "Named", "OneOf", "Anything"]


class Scalar(Record):
    says: str  # as in "must be text"
    takes: tuple[str, ...]  # kinds of nodes
    json: tuple[str, ...]  # types of JSON Schema
    form: str = ""  # a form that text must have: a key of FORMS


class Choice(Record):
    values: tuple[str | bool, ...]
    past: tuple[str, ...] = ()  # out of use: accepted with a warning, and nothing is done for them


class ListOf(Record):
    item: Kind
    least: int = 0
    most: int = 0  # 0: any number
    use: str = ""  # of a form that is out of use: the key to use


class Field(Record):
    name: str
    kind: Kind
    required: bool = False
    use: str = ""  # of a name that is out of use: the one to use
    past: bool = False  # out of use: accepted with a warning, and nothing is done for it


class Keys(Record):
    """A mapping with known keys."""

    fields: tuple[Field, ...]
    more: bool = False  # other keys are accepted
    undone: bool = False  # other keys are accepted, and named as not done
    one_of: tuple[str, ...] = ()  # one of these must be there


class Named(Record):
    """A mapping with any keys, all of one kind."""

    value: Kind


class OneOf(Record):
    """The first one whose form fits is the one that counts."""

    kinds: tuple[Kind, ...]


class Anything(Record):
    pass


OWN_KEY = "x-"  # how keys begin that a document has for itself, such as for anchors
TEXT_ = Scalar(says="text", takes=(TEXT,), json=("string",))
CONTENT = Scalar(says="text", takes=(TEXT, BINARY), json=("string",))
FLAG_ = Scalar(says="true or false", takes=(FLAG,), json=("boolean",))
INTEGER_ = Scalar(says="a whole number", takes=(INTEGER,), json=("integer",))
NOTHING = Scalar(says="empty", takes=(NULL,), json=("null",))
SIMPLE = Scalar(
    says="text or a number", takes=(TEXT, INTEGER, NUMBER, FLAG, DATE, BINARY), json=("string", "number", "boolean")
)
NAME = Scalar(says="text or a number", takes=(TEXT, INTEGER), json=("string", "integer"))
MODE = Scalar(says="an octal mode in quotation marks, such as '0644'", takes=(TEXT,), json=("string",), form="mode")
SIZE = Scalar(says="a size such as 512M or 2G", takes=(TEXT, INTEGER), json=("string", "integer"), form="size")
DELAY = Scalar(says="now, or minutes such as +5", takes=(TEXT, INTEGER), json=("string", "integer"), form="delay")
PATH = Scalar(says="an absolute path", takes=(TEXT,), json=("string",), form="path")
DATE_ = Scalar(says="a date such as '2030-12-31'", takes=(TEXT, DATE), json=("string",))
ANYTHING = Anything()
TEXTS = ListOf(item=TEXT_)
# Regular expressions, also for JSON Schema.
FORMS = {
    "mode": r"^(0[oO])?[0-7]{3,5}$",
    "size": r"^([0-9]*\.?[0-9]+([KMGT]i?)?B?|auto)$",
    "delay": r"^(now|\+?[0-9]+)$",
    "path": r"^/",
}


def keys(*fields: Field, more: bool = False, undone: bool = False, one_of: tuple[str, ...] = ()) -> Keys:
    return Keys(fields=fields, more=more, undone=undone, one_of=one_of)


def field(name: str, kind: Kind = TEXT_, *, required: bool = False, use: str = "", past: bool = False) -> Field:
    return Field(name=name, kind=kind, required=required, use=use, past=past)


def fields(names: str, kind: Kind = TEXT_) -> tuple[Field, ...]:
    """Several keys of the same kind."""
    return tuple(Field(name=name, kind=kind) for name in names.split())


def either(*kinds: Kind) -> OneOf:
    return OneOf(kinds=kinds)


def choice(*values: str | bool, past: tuple[str, ...] = ()) -> Choice:
    return Choice(values=values, past=past)


def listed(item: Kind, *, least: int = 0, most: int = 0, use: str = "") -> ListOf:
    return ListOf(item=item, least=least, most=most, use=use)


def said(kind: Kind) -> str:
    """The kind in a sentence: `must be ...`."""
    if isinstance(kind, Scalar):
        return kind.says
    if isinstance(kind, Choice):
        shown = [str(value).lower() if isinstance(value, bool) else value for value in kind.values]
        return f"one of {', '.join(shown)}" if len(shown) > 1 else shown[0]
    if isinstance(kind, ListOf):
        return f"a list of {plural(kind.item)}"
    if isinstance(kind, OneOf):
        return _or(said(one) for one in kind.kinds)
    return "anything" if isinstance(kind, Anything) else "a mapping"


def plural(kind: Kind) -> str:
    if isinstance(kind, (Keys, Named)):
        return "mappings"
    if isinstance(kind, ListOf):
        return "lists"
    if isinstance(kind, OneOf):
        return _or(plural(one) for one in kind.kinds)
    return "simple values" if kind is SIMPLE else said(kind)


def _or(words: Iterable[str]) -> str:
    """`a, b or c`, each once."""
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} or {last}" if first else last
