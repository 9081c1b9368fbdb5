"""`Record`, the base class of values (frozen, keyword-only, slotted), and `Secret`, a value that never prints itself.

Defined by a metaclass because slots must exist before the class does. 40 of these cost 0.2 ms to define where
dataclasses would cost 9 ms to import. Subclassing modules need `from __future__ import annotations`, so that the
field list is plain strings on every Python from 3.9 on.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, TypeVar

    from typing_extensions import dataclass_transform

    R = TypeVar("R", bound="Record")
else:

    def dataclass_transform(**_options):  # type: ignore[no-untyped-def]
        return lambda cls: cls


@dataclass_transform(kw_only_default=True, frozen_default=True)
class RecordType(type):
    fields_: dict[str, str]
    defaults_: dict[str, Any]

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> RecordType:
        own: dict[str, str] = namespace.get("__annotations__", {})
        fields: dict[str, str] = {}
        defaults: dict[str, Any] = {}
        for base in bases:
            fields.update(getattr(base, "fields_", {}))
            defaults.update(getattr(base, "defaults_", {}))
        for field, kind in own.items():
            fields[field] = kind
            if field in namespace:
                defaults[field] = namespace.pop(field)
        namespace["__slots__"] = tuple(own)
        cls = super().__new__(mcls, name, bases, namespace)
        cls.fields_, cls.defaults_ = fields, defaults
        return cls


class Record(metaclass=RecordType):
    def __init__(self, **values: Any) -> None:
        cls = type(self)
        if cls.defaults_:
            values = {**cls.defaults_, **values}
        for field in cls.fields_:
            try:
                object.__setattr__(self, field, values.pop(field))
            except KeyError:
                raise TypeError(f"{cls.__name__} needs {field}") from None
        if values:
            raise TypeError(f"{cls.__name__} has no {', '.join(sorted(values))}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def as_dict(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in type(self).fields_}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.as_dict() == self.as_dict()

    def __hash__(self) -> int:
        return hash((type(self), *self.as_dict().values()))

    def __repr__(self) -> str:
        inner = ", ".join(f"{field}={value!r}" for field, value in self.as_dict().items())
        return f"{type(self).__name__}({inner})"

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.as_dict())


def _rebuild(cls: type[R], values: dict[str, Any]) -> R:
    return cls(**values)


def replace(record: R, **changes: Any) -> R:
    return type(record)(**{**record.as_dict(), **changes})


class Secret:
    """Bytes that cannot print, log, pickle or serialise themselves. Not a str or bytes: those leak through join."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes | str) -> None:
        self._value = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)

    def reveal(self) -> bytes:
        return self._value

    def text(self) -> str:
        return self._value.decode("utf-8", "surrogateescape")

    def __bool__(self) -> bool:
        return bool(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(Secret)  # its value must not be guessable from a printed hash

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "<secret>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a secret does not serialise")
