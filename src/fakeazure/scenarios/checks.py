"""Checks of settings: each returns the value, or raises ValueError with what is wrong."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any

from fakeazure.platform.clock import Clock, parse_clock
from fakeazure.platform.vm import Key

Check = Callable[[Any], Any]  # raises ValueError


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("is not a string")


def switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("is neither true nor false")


def machine_id(value: Any) -> str:
    try:
        return str(uuid.UUID(text(value)))
    except ValueError:
        raise ValueError(f"{value!r} is not a UUID") from None


def one_of(*choices: Any) -> Check:
    def check(value: Any) -> Any:
        if value in choices and not isinstance(value, bool):
            return value
        raise ValueError(f"{value!r} is not one of {', '.join(map(str, choices))}")

    return check


def some_of(*choices: str) -> Check:
    one = one_of(*choices)

    def check(value: Any) -> tuple[str, ...]:
        return tuple(map(one, texts(value)))

    return check


def seconds(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 86400:
        return float(value)
    raise ValueError(f"{value!r} is not a number of seconds between 0 and 86400")


def pause(value: Any) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else seconds(value)


def number(first: int, last: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and first <= value <= last:
            return value
        raise ValueError(f"{value!r} is not a number from {first} to {last}")

    return check


def numbers(first: int, last: int) -> Check:
    one = number(first, last)

    def check(value: Any) -> tuple[int, ...]:
        if isinstance(value, list):
            return tuple(map(one, value))
        raise ValueError("is not a list of numbers")

    return check


def mac_address(value: Any) -> str:
    if re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", text(value).lower()):
        return str(value).lower()
    raise ValueError(f"{value!r} is not a MAC address such as 00:0d:3a:12:34:56")


def ipv4_address(value: Any) -> str:
    try:
        return str(IPv4Address(text(value)))
    except AddressValueError:
        raise ValueError(f"{value!r} is not an IPv4 address such as 10.0.0.4") from None


def ipv4_addresses(value: Any) -> tuple[str, ...]:
    return tuple(map(ipv4_address, texts(value)))


def ipv6_addresses(value: Any) -> tuple[str, ...]:
    try:
        return tuple(str(IPv6Address(one)) for one in texts(value))
    except AddressValueError as error:
        raise ValueError(f"is not a list of IPv6 addresses such as fd00:1::4: {error}") from None


def address_lists(value: Any) -> tuple[tuple[str, ...], ...]:
    if isinstance(value, list) and all(isinstance(one, list) for one in value):
        return tuple(map(ipv4_addresses, value))
    raise ValueError('is not a list of lists, one for each interface, as in [["10.0.0.5"], []]')


def json_object(value: Any) -> str:
    try:
        found = json.loads(text(value))
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("is not a JSON object")
    return str(value)


def clock(value: Any) -> Clock:
    """A date with or without quotes."""
    written = value.isoformat() if isinstance(value, date) else text(value)
    return parse_clock(written, now=datetime.now(UTC))


def texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    raise ValueError("is not a list of strings")


def versions(value: Any) -> tuple[str, ...]:
    for version in texts(value):
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", version):
            raise ValueError(f"{version!r} is not a version such as 2023-11-15")
    return tuple(value)


def table(value: Any) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise ValueError("is not a table")


def string_table(value: Any) -> Mapping[str, str]:
    if all(isinstance(one, str) for one in table(value).values()):
        return dict(value)
    raise ValueError("is not a table of strings")


def keys(value: Any) -> tuple[Key | str, ...]:
    if isinstance(value, list):
        return tuple(key(one) for one in value)
    raise ValueError('is not a list: write keys = ["ssh-ed25519 ..."] or [[vm.keys]] with data and path')


def key(value: Any) -> Key | str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() <= {"data", "path"} and isinstance(value.get("data", ""), str):
        return Key(value.get("data", ""), text(value.get("path", "")))
    raise ValueError("a key is a string, or a table of data and path")
