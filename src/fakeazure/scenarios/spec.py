"""The parser of scenario files (TOML)."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any, TypeVar

from fakeazure.platform.clock import Clock
from fakeazure.platform.faults import Answer, BadFault, Script, parse_answer, parse_answers, script_path
from fakeazure.platform.pool import Pool
from fakeazure.platform.scenario import Scenario
from fakeazure.platform.vm import Change, Disk, Expect, Imds, Interface, KeyPair, Leases, Media, Vm, Wireserver
from fakeazure.scenarios import toml_lines
from fakeazure.scenarios.checks import (
    Check,
    address_lists,
    clock,
    ipv4_address,
    ipv4_addresses,
    ipv6_addresses,
    json_object,
    keys,
    mac_address,
    machine_id,
    number,
    numbers,
    one_of,
    pause,
    seconds,
    some_of,
    string_table,
    switch,
    table,
    text,
    texts,
    versions,
)

Parsed = TypeVar("Parsed")


class SpecInvalid(Exception):
    """All problems of a scenario file, one line each, in the order of the file."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of tables, as `[[vm.disks]]`: the known options, and the class of a row."""

    options: Mapping[str, Check]
    kind: type[Interface] | type[Disk] | type[KeyPair] | type[Change]


INTERFACE: dict[str, Check] = {
    "mac": mac_address,
    "address": ipv4_address,
    "prefix": number(1, 30),
    "public_address": ipv4_address,
    "primary": switch,
    "secondary": ipv4_addresses,
    "ipv6": ipv6_addresses,
    "ipv6_prefix": number(0, 128),
    "router": switch,
    "vf": switch,
}
DISK: dict[str, Check] = {
    "lun": number(0, 63),
    "size_gb": number(1, 65_536),
    "name": text,
    "caching": one_of(*Disk.CACHING),
}
# What is in the document beside the machine: at the start in [imds], and in each of its changes.
DOCUMENT: dict[str, Check] = {
    "set": table,
    "set_json": json_object,
    "remove": texts,
    "listed": numbers(0, 63),
    "secondary": address_lists,
}
CHANGE: dict[str, Check] = {"name": text, "after_requests": number(0, 10_000), "after_ready": switch, **DOCUMENT}
KEY_PAIR: dict[str, Check] = {"path": text, "fingerprint": text}
PACE: dict[str, Check] = {"latency_secs": pause, "bytes_per_sec": number(0, 1_000_000_000)}
KNOWN: dict[str, dict[str, Check | Rows]] = {
    "vm": {
        "id": machine_id,
        "name": text,
        "username": text,
        "password": text,
        "disable_password": switch,
        "keys": keys,
        "key_pairs": Rows(KEY_PAIR, KeyPair),
        "custom_data": text,
        "user_data": text,
        "pps_type": text,
        "generation": one_of(1, 2),
        "location": text,
        "tags": string_table,
        "specialised": switch,
        "proxy_agent": switch,
        "interfaces": Rows(INTERFACE, Interface),
        "disks": Rows(DISK, Disk),
        "temporary_disk": one_of(*Vm.TEMPORARY_DISKS),
        "temporary_disk_gb": number(1, 65_536),
    },
    "pool": {
        "id": machine_id,
        "name": text,
        "username": text,
        "password": text,
        "keys": keys,
        "address": ipv4_address,
        "mac": mac_address,
        "after_secs": pause,
        "after_polls": number(0, 1_000_000),
        "on_call": switch,
        "pps_type_after": text,
        "link": one_of(*Pool.LINKS),
        "down_secs": pause,
        "attached_as": text,
        "link_up_secs": pause,
        "others": some_of(*Pool.OTHERS),
        "restarts": some_of(*Pool.RESTARTS),
    },
    "clock": {"offset": clock},
    "media": {
        "enable": switch,
        "format": one_of(*Media.FORMATS),
        "prefixes": one_of(*Media.PREFIXES),
        "hostname": text,
        "username": text,
        "vm_id": machine_id,
        "keys": switch,
        "ovf": text,
        "texts": string_table,
        "omit": texts,
        "bom": switch,
        "late_secs": pause,
        "eject": switch,
    },
    "imds": {
        "enable": switch,
        "api_versions": versions,
        **DOCUMENT,
        "nic_order": one_of(*Imds.NIC_ORDERS),
        "changes": Rows(CHANGE, Change),
        "rate_limit": number(0, 10_000),
        "protected": switch,
        "proxy_agent": one_of(*Imds.PROXY_AGENTS),
        **PACE,
    },
    "wireserver": {"enable": switch, "address": ipv4_address, "goal_state_after_secs": pause, **PACE},
    "dhcp": {"omit": numbers(1, 254), "wireserver": ipv4_address},
    "expect": {
        "verdict": one_of(*Expect.VERDICTS),
        "reason": text,
        "says": texts,
        "asks": texts,
        "within_secs": seconds,
    },
}
ELSE = ("description", "faults", "azure-init")  # not tables of checked settings


def read_scenario(file: Path) -> Scenario:
    try:
        return parse_scenario(file.read_bytes(), name=str(file))
    except OSError as error:
        raise SpecInvalid([f"{file}: {error.strerror}"]) from None


def parse_scenario(data: bytes, *, name: str) -> Scenario:
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecInvalid([f"{name}:1: not UTF-8 text"]) from None
    try:
        document = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise SpecInvalid([syntax_problem(str(error), name=name, content=content)]) from None
    reader = Reader()
    values = {section: reader.section(section, document.get(section, {})) for section in KNOWN}
    faults = reader.faults(document.get("faults", []))
    description = reader.description(document.get("description", ""))
    azure_init = reader.azure_init(document.get("azure-init", {}))
    for unknown in document.keys() - KNOWN.keys() - set(ELSE):
        reader.unknown((unknown,), among=[*KNOWN, *ELSE])
    if reader.problems:
        places = toml_lines.key_lines(content)
        found = sorted((toml_lines.line_of(path, places), dotted(path), problem) for path, problem in reader.problems)
        raise SpecInvalid([f"{name}:{line}: {path}: {problem}" for line, path, problem in found])
    return Scenario(
        vm=machine(values["vm"]),
        media=Media(**values["media"]),
        imds=Imds(**values["imds"]),
        wireserver=Wireserver(**values["wireserver"]),
        dhcp=Leases(**values["dhcp"]),
        pool=Pool(**values["pool"]),
        clock=values["clock"].get("offset", Clock()),
        faults=faults,
        azure_init=azure_init,
        description=description,
        expect=Expect(**values["expect"]) if values["expect"] else None,
        own_keys="keys" in values["vm"],
        own_vm=bool(values["vm"]),
    )


def machine(values: dict[str, Any]) -> Vm:
    nics = {"nics": values["interfaces"]} if values.get("interfaces") else {}
    return Vm(**{name: value for name, value in values.items() if name != "interfaces"}, **nics)


class Reader:
    """Collects all problems instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[tuple[toml_lines.Path, str]] = []

    def section(self, name: str, content: Any) -> dict[str, Any]:
        if not isinstance(content, dict):
            self.problems.append(((name,), f"is not a table: write [{name}]"))
            return {}
        values = {}
        for option, value in content.items():
            check = KNOWN[name].get(option)
            if isinstance(check, Rows):
                values[option] = self.rows((name, option), value, check)
            else:
                values |= self.setting((name, option), value, KNOWN[name])
        return values

    def setting(self, path: toml_lines.Path, value: Any, known: Mapping[str, Check | Rows]) -> dict[str, Any]:
        option = str(path[-1])
        check = known.get(option)
        if check is None or isinstance(check, Rows):
            self.unknown(path, among=list(known))
            return {}
        try:
            return {option: check(value)}
        except ValueError as error:
            self.problems.append((path, str(error)))
            return {}

    def rows(self, path: toml_lines.Path, content: Any, rows: Rows) -> tuple[Any, ...]:
        if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
            self.problems.append((path, f"is not a list of tables: write [[{dotted(path)}]]"))
            return ()
        made: list[Any] = []
        for n, row in enumerate(content):
            values: dict[str, Any] = {"lun": n} if rows.kind is Disk else {"path": ""} if rows.kind is KeyPair else {}
            for option, value in row.items():
                values |= self.setting((*path, n, option), value, rows.options)
            made.append(rows.kind(**values))
        self.check_unique(path, Vm(nics=tuple(made)).interfaces if rows.kind is Interface else made)
        for n, problem in problems_of(made):
            self.problems.append(((*path, n), problem))
        return tuple(made)

    def check_unique(self, path: toml_lines.Path, made: Sequence[Any]) -> None:
        for option in ("lun", "mac", "address"):
            seen = [getattr(one, option, "") for one in made]
            for n, value in enumerate(seen):
                if value != "" and value in seen[:n]:
                    self.problems.append(((*path, n, option), f"{value} is used already"))

    def description(self, content: Any) -> str:
        if isinstance(content, str) and content.isprintable():
            return content
        self.problems.append((("description",), "is not a line of text"))
        return ""

    def azure_init(self, content: Any) -> dict[str, dict[str, Any]]:
        """Keys are not checked: they belong to azure-init's configuration."""
        if not isinstance(content, dict):
            self.problems.append((("azure-init",), "is not a table: write [azure-init]"))
            return {}
        for name, settings in content.items():
            if not isinstance(settings, dict):
                self.problems.append((("azure-init", name), "is not a table of azure-init's configuration"))
        return content

    def faults(self, content: Any) -> tuple[Script, ...]:
        if not isinstance(content, list):
            self.problems.append((("faults",), "is not a list: write [[faults]]"))
            return ()
        scripts: dict[str, Script] = {}
        for n, entry in enumerate(content):
            if (script := self.fault(n, entry)) is None:
                continue
            if script.path in scripts:
                self.problems.append((("faults", n, "path"), f"{script.path} has a script already"))
            scripts[script.path] = script
        return tuple(scripts.values())

    def fault(self, n: int, entry: Any) -> Script | None:
        if not isinstance(entry, dict):
            self.problems.append((("faults", n), "is not a table of path and answers"))
            return None
        for option in entry.keys() - {"path", "answers"}:
            self.unknown(("faults", n, option), among=["path", "answers"])
        missing = [option for option in ("path", "answers") if option not in entry]
        for option in missing:
            self.problems.append((("faults", n), f"has no {option}"))
        path = self.tried(("faults", n, "path"), script_path, entry["path"]) if "path" in entry else None
        answers = self.answers(("faults", n, "answers"), entry["answers"]) if "answers" in entry else None
        return Script(path=path, answers=answers) if path and answers else None

    def answers(self, path: toml_lines.Path, content: Any) -> tuple[Answer, ...] | None:
        if not isinstance(content, list):
            self.problems.append((path, "is not a list"))
            return None
        each = [self.tried((*path, n), parse_answer, one) for n, one in enumerate(content)]
        return None if None in each else self.tried(path, parse_answers, content)

    def tried(self, path: toml_lines.Path, parse: Callable[[Any], Parsed], value: Any) -> Parsed | None:
        """The parsed value; None: invalid, and recorded as a problem."""
        try:
            return parse(value)
        except BadFault as error:
            self.problems.append((path, str(error)))
            return None

    def unknown(self, path: toml_lines.Path, *, among: list[str]) -> None:
        near = difflib.get_close_matches(str(path[-1]), among, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(among)}"
        self.problems.append((path, f"is not known; {hint}"))


def problems_of(rows: Sequence[Any]) -> list[tuple[int, str]]:
    """What no setting shows alone: the number of a row, and what is wrong."""
    found: list[tuple[int, str]] = []
    nics = list(enumerate(Vm(nics=tuple(rows)).interfaces)) if is_nics(rows) else []
    found += [(n, "is the second one with primary = true") for n, _ in nics if second(rows, n)]
    for n, nic in nics:
        subnet = IPv4Interface(f"{nic.address}/{nic.prefix}").network
        found += [
            (n, f"its secondary address {one} is not in its subnet {subnet}")
            for one in nic.secondary
            if IPv4Address(one) not in subnet
        ]
        others = [one for m, other in nics for one in (other.addresses if m < n else other.addresses[:1])]
        repeated = [one for k, one in enumerate(nic.secondary) if one in (*others, *nic.secondary[:k])]
        found += [(n, f"its secondary address {one} is used already") for one in repeated]
    for n, one in enumerate(rows):
        if isinstance(one, Change) and sum(map(bool, (one.name, one.after_requests, one.after_ready))) == 0:
            found.append((n, "never happens: give it after_requests, after_ready = true or a name"))
    return found


def is_nics(rows: Sequence[Any]) -> bool:
    return bool(rows) and all(isinstance(one, Interface) for one in rows)


def second(rows: Sequence[Interface], n: int) -> bool:
    return rows[n].primary and any(one.primary for one in rows[:n])


def syntax_problem(error: str, *, name: str, content: str) -> str:
    if found := re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", error):
        return f"{name}:{found[2]}: {found[1]} (column {found[3]})"
    last = content.count("\n") + 1
    return f"{name}:{last}: {error.removesuffix(' (at end of document)')} at the end of the file"


def dotted(path: toml_lines.Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
