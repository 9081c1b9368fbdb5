"""The scenario file: a machine, its medium, its platform's faults and the truth about it, in TOML."""

from __future__ import annotations

import difflib
import re
import tomllib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fakeazure import lines
from fakeazure.faults import BadFault, Script, parse_script
from fakeazure.vm import Expect, Imds, Key, Media, Vm, Wireserver


class SpecInvalid(Exception):
    """Everything that is wrong with a scenario file, one line each, in the order of the file."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    description: str = ""
    vm: Vm = field(default_factory=Vm)
    media: Media = field(default_factory=Media)
    imds: Imds = field(default_factory=Imds)
    wireserver: Wireserver = field(default_factory=Wireserver)
    faults: tuple[Script, ...] = ()
    expect: Expect | None = None
    azure_init: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # added to its configuration
    own_keys: bool = False  # the file names the keys, so that we need not make one


Check = Callable[[Any], Any]  # the value as we keep it, or a ValueError that says what it should have been


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


def seconds(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 86400:
        return float(value)
    raise ValueError(f"{value!r} is not a number of seconds between 0 and 86400")


def pause(value: Any) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else seconds(value)


def count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10_000:
        return value
    raise ValueError(f"{value!r} is not a number from 0 to 10000")


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
    if isinstance(value, dict) and value.keys() <= {"data", "path"} and isinstance(value.get("data"), str):
        return Key(value["data"], text(value.get("path", "")))
    raise ValueError("a key is a string, or a table of data and path")


KNOWN: dict[str, dict[str, Check]] = {
    "vm": {
        "id": machine_id,
        "name": text,
        "username": text,
        "password": text,
        "disable_password": switch,
        "keys": keys,
        "custom_data": text,
        "user_data": text,
        "pps_type": text,
        "generation": one_of(1, 2),
        "location": text,
        "tags": string_table,
        "specialised": switch,
        "proxy_agent": switch,
    },
    "media": {
        "enable": switch,
        "format": one_of(*Media.FORMATS),
        "prefixes": one_of(*Media.PREFIXES),
        "hostname": text,
        "username": text,
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
        "set": table,
        "remove": texts,
        "rate_limit": count,
        "protected": switch,
        "proxy_agent": one_of(*Imds.PROXY_AGENTS),
    },
    "wireserver": {"enable": switch, "goal_state_after_secs": pause},
    "expect": {
        "verdict": one_of(*Expect.VERDICTS),
        "reason": text,
        "says": texts,
        "asks": texts,
        "within_secs": seconds,
    },
}
ELSE = ("description", "faults", "azure-init")  # what is no table of settings of ours


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
        places = lines.key_lines(content)
        found = sorted((lines.line_of(path, places), dotted(path), problem) for path, problem in reader.problems)
        raise SpecInvalid([f"{name}:{line}: {path}: {problem}" for line, path, problem in found])
    return Scenario(
        vm=Vm(**values["vm"]),
        media=Media(**values["media"]),
        imds=Imds(**values["imds"]),
        wireserver=Wireserver(**values["wireserver"]),
        faults=faults,
        azure_init=azure_init,
        description=description,
        expect=Expect(**values["expect"]) if values["expect"] else None,
        own_keys="keys" in values["vm"],
    )


class Reader:
    """Goes on after a mistake, so that all are found."""

    def __init__(self) -> None:
        self.problems: list[tuple[lines.Path, str]] = []

    def section(self, name: str, content: Any) -> dict[str, Any]:
        if not isinstance(content, dict):
            self.problems.append(((name,), f"is not a table: write [{name}]"))
            return {}
        values = {}
        for option, value in content.items():
            if check := KNOWN[name].get(option):
                try:
                    values[option] = check(value)
                except ValueError as error:
                    self.problems.append(((name, option), str(error)))
            else:
                self.unknown((name, option), among=list(KNOWN[name]))
        return values

    def description(self, content: Any) -> str:
        if isinstance(content, str) and content.isprintable():
            return content
        self.problems.append((("description",), "is not a line of text"))
        return ""

    def azure_init(self, content: Any) -> dict[str, dict[str, Any]]:
        """Its own keys are its own affair."""
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
        if not missing and not isinstance(entry["answers"], list):
            self.problems.append((("faults", n, "answers"), "is not a list"))
        elif not missing:
            try:
                return parse_script(entry)
            except BadFault as error:
                where = "path" if str(error).startswith("path") else "answers"
                self.problems.append((("faults", n, where), str(error)))
        return None

    def unknown(self, path: lines.Path, *, among: list[str]) -> None:
        near = difflib.get_close_matches(str(path[-1]), among, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(among)}"
        self.problems.append((path, f"is not known; {hint}"))


def syntax_problem(error: str, *, name: str, content: str) -> str:
    if found := re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", error):
        return f"{name}:{found[2]}: {found[1]} (column {found[3]})"
    last = content.count("\n") + 1
    return f"{name}:{last}: {error.removesuffix(' (at end of document)')} at the end of the file"


def dotted(path: lines.Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
