"""Loads the layers: defaults, files, environment, flags; later ones win, key by key. Reports all problems at once."""

from __future__ import annotations

import errno

from azureinit.config.model import Config, checked, named, shown
from azureinit.config.plain import parse_plain
from azureinit.errors import ConfigInvalid, LocalError
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from azureinit.machine import Machine

# A file or a directory of *.toml: the first two as in the Rust agent's code, the last two as in its manual.
PLACES = (
    "/etc/azure-init.toml",
    "/etc/azure-init.d",
    "/etc/azure-init/azure-init.toml",
    "/etc/azure-init/azure-init.toml.d",
)
EPHEMERAL_SETUP = "/etc/azure-ephemeral-disk-setup.conf"
CONFIG_VARIABLE = "AZURE_INIT_CONFIG"
GROUPS_VARIABLE = "AZURE_INIT_USER_GROUPS"
FILTER_VARIABLE = "AZURE_INIT_KVP_FILTER"
GROUPS_FLAG = "--groups"
LARGEST_FILE = 1 << 26
NO_FILE = (errno.EISDIR, errno.ELOOP, errno.ENXIO)  # a directory, a link to itself, a socket
MOST_WARNINGS = 20  # for each file
# Longer ones would outlive the unit that observes them, or what the platform waits for. No duration is above a day.
MOST_SECS = {
    "userdata.network_secs": 1800,
    "userdata.config_secs": 7200,
    "readiness.deadline_secs": 2100,
}
HINT = "`azure-init config schema` prints every key and its values, `azure-init config check FILE` tries one file"


class Origin(Record):
    """Where a value comes from: layer is default, file, env or flag; name is the file, variable or flag.

    A file under --root is named with the root.
    """

    layer: str = "default"
    name: str = ""


class Loaded(Record):
    config: Config
    origin: dict[str, Origin]  # by "section.key"
    warnings: tuple[str, ...]
    texts: dict[Origin, str]  # the files' texts, to find line numbers later


def load(machine: Machine, *, config: str | None, groups: tuple[str, ...] | None) -> Loaded:
    """The configuration, or one ConfigInvalid with one line for each problem."""
    layers = _read_layers(machine, config=config, groups=groups)
    if layers.problems:
        raise invalid(layers.problems)
    return layers.loaded()


def load_usable(machine: Machine, *, config: str | None, groups: tuple[str, ...] | None) -> Config:
    """The valid parts of a configuration that `load` refuses: the failure must be reported to its endpoint."""
    return _read_layers(machine, config=config, groups=groups).loaded().config


def check(machine: Machine, path: str) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Problems and warnings of one file or directory, and whether there was anything to read."""
    layers = Layers(machine)
    layers.read_named(path, by="")
    layers.check_together()
    return tuple(layers.problems), tuple(layers.warnings), bool(layers.texts)


def invalid(problems: list[str]) -> ConfigInvalid:
    return ConfigInvalid("\n".join(problems), hint=HINT, details=problems[0][:300])


def _read_layers(machine: Machine, *, config: str | None, groups: tuple[str, ...] | None) -> Layers:
    layers = Layers(machine)
    environ = machine.environ
    for place in PLACES:
        layers.read_place(place)
    if config is not None:
        layers.read_named(config, by="--config")
    elif environ.get(CONFIG_VARIABLE):
        layers.read_named(environ[CONFIG_VARIABLE], by=CONFIG_VARIABLE)

    if environ.get(FILTER_VARIABLE) and layers.usable_filter(environ[FILTER_VARIABLE]):
        layers.take("telemetry", "kvp_filter", environ[FILTER_VARIABLE], Origin(layer="env", name=FILTER_VARIABLE))
    if environ.get(GROUPS_VARIABLE):
        asked = _split(environ[GROUPS_VARIABLE])
        layers.take("user", "groups", asked, Origin(layer="env", name=GROUPS_VARIABLE))
    if groups is not None:
        layers.take("user", "groups", _split(*groups), Origin(layer="flag", name=GROUPS_FLAG))
    layers.read_ephemeral_setup()
    if layers.values.get("waagent", {}).get("honour"):
        layers.read_waagent()
    layers.check_together()
    return layers


def _split(*lists: str) -> tuple[str, ...]:
    return tuple(name.strip() for several in lists for name in several.split(",") if name.strip())


class Layers:
    """The values of the layers read so far."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.values: dict[str, dict[str, Any]] = {}
        self.origin: dict[str, Origin] = {}
        self.texts: dict[Origin, str] = {}
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def usable_filter(self, text: str) -> bool:
        """An empty variable does not override a file."""
        from azureinit.config.filters import parse_filter

        if not text.strip() or parse_filter(text) is not None:
            return bool(text.strip())
        self.warnings.append(f"{FILTER_VARIABLE}: {shown(text)} is not a filter: ignored")
        return False

    def loaded(self) -> Loaded:
        default = Origin()
        origin = {f"{section}.{key}": default for section, fields in _sections() for key in fields}
        origin.update(self.origin)
        config = Config()
        sections = {name: replace(getattr(config, name), **values) for name, values in self.values.items()}
        return Loaded(
            config=replace(config, **sections) if sections else config,
            origin=origin,
            warnings=tuple(self.warnings),
            texts=self.texts,
        )

    def check_together(self) -> None:
        """Keys that exclude each other, and durations that have an upper limit."""
        executes = self.values.get("custom_data", {}).get("execute")
        if executes and self.values.get("userdata", {}).get("enabled"):
            what = "cannot be true together with custom_data.execute: customData would be carried out twice"
            self._wrong(self.origin["userdata.enabled"], ("userdata", "enabled"), what)
        for name, most in MOST_SECS.items():
            section, _, key = name.partition(".")
            if self.values.get(section, {}).get(key, 0) > most:
                self._wrong(self.origin[name], (section, key), f"must be at most {most}")

    # ---- files

    def read_place(self, path: str) -> None:
        if path.endswith(".toml"):
            self._read_file(path, outside=False)
        else:
            self._read_directory(path, outside=False)

    def read_named(self, path: str, *, by: str) -> None:
        """A file or directory that the user named: it must exist."""
        if not self._read_directory(path, outside=True) and not self._read_file(path, outside=True):
            told = f", though {by} names it" if by else ""
            self._problem(f"{self._file_name(path, outside=True)}: no such file or directory{told}")

    def _read_directory(self, path: str, *, outside: bool) -> bool:
        try:
            names = self.machine.names_host(path) if outside else self.machine.names(path)
        except LocalError as error:
            self._unreadable(path, error, outside=outside)
            return True
        for name in sorted(names or ()):
            if name.endswith(".toml") and name != ".toml":
                inside = f"{path.rstrip('/')}/{name}"
                if not self._read_file(inside, outside=outside):
                    self._warning(f"{self._file_name(inside, outside=outside)}: ignored: it is a link to nothing")
        return names is not None

    def _read_file(self, path: str, *, outside: bool) -> bool:
        read = self.machine.read_host if outside else self.machine.read
        try:
            data = read(path, limit=LARGEST_FILE)
        except LocalError as error:
            if error.errno in NO_FILE:
                self._warning(f"{self._file_name(path, outside=outside)}: ignored: it is not a file")
            else:
                self._unreadable(path, error, outside=outside)
            return True
        if data is not None:
            self._take_file(data, Origin(layer="file", name=self._file_name(path, outside=outside)))
        return data is not None

    def read_ephemeral_setup(self) -> None:
        """The file of azure-vm-utils, for keys that no other layer sets. Its mistakes prevent no run."""
        try:
            data = self.machine.read(EPHEMERAL_SETUP, limit=LARGEST_FILE)
        except LocalError as error:
            self._warning(error.message)
            return
        if not data:
            return
        from azureinit.config.ephemeral_setup import parse_ephemeral_setup

        path, found = self.machine.shown(EPHEMERAL_SETUP), parse_ephemeral_setup(data)
        for taken in found.taken:
            if taken.key not in self.origin:
                section, _, key = taken.key.partition(".")
                self.take(section, key, taken.value, Origin(layer="file", name=f"{path}:{taken.line}"))
        if self.values.get("disk", {}).get("setup") == "auto":
            for problem in found.problems[:MOST_WARNINGS]:
                self._warning(f"{path}: {problem}: no disk is set up until this is corrected")
            for warning in found.warnings[:MOST_WARNINGS]:
                self._warning(f"{path}: {warning}")

    def read_waagent(self) -> None:
        """WALinuxAgent's file: the lowest layer, used only for keys that no other layer sets."""
        from azureinit.config.waagent import PLACES, overlay, read_waagent_conf

        try:
            found = read_waagent_conf(self.machine)
        except ConfigInvalid as error:
            self._problem(error.message)
            return
        if found is None:
            self._problem(f"waagent.honour: there is no {' nor '.join(map(self.machine.shown, PLACES))}")
            return
        path, conf = self.machine.shown(found[0]), found[1]
        imported = overlay(conf, spoken=self.origin)
        for taken in imported.taken:
            section, _, key = taken.key.partition(".")
            self.take(section, key, taken.value, Origin(layer="file", name=f"{path}:{taken.line}"))
        for warning in imported.warnings[:MOST_WARNINGS]:
            self._warning(f"{path}: {warning}")

    def _unreadable(self, path: str, error: LocalError, *, outside: bool) -> None:
        told = path if outside else self.machine.shown(path)
        self._problem(f"{self._file_name(path, outside=outside)}: " + error.message.replace(f" {told}", "", 1))

    def _file_name(self, path: str, *, outside: bool) -> str:
        """`outside`: the caller named the file, so it is not under --root."""
        return shown(path if outside else self.machine.shown(path), longest=4096)

    def _take_file(self, data: bytes, origin: Origin) -> None:
        data = data.removeprefix(b"\xef\xbb\xbf")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            self._problem(f"{origin.name}:{line}: not valid TOML: byte {data[error.start]:#04x} is not UTF-8")
            return
        self.texts[origin] = text
        try:
            document = _parse_toml(text)
        except ConfigInvalid as error:
            self._problem(f"{origin.name}: {error.message}")
        except (ValueError, RecursionError) as error:  # the parser also raises errors of int() and of recursion
            from azureinit.config.where import syntax_line

            what, at = syntax_line(error, text)
            self._problem(f"{origin.name}{f':{at}' if at else ''}: not valid TOML: {what[:200]}")
        else:
            self._take_document(document, origin)

    def _take_document(self, document: dict[str, Any], origin: Origin) -> None:
        known = dict(_sections())
        unknown: list[tuple[str, ...]] = []
        for section, table in document.items():
            if section not in known:
                unknown.append((section,))
            elif not isinstance(table, dict):
                self._wrong(origin, (section,), f"must be a table, not {named(table)}")
            else:
                unknown += [(section, key) for key in table if key not in known[section]]
                for key in known[section]:
                    if key in table:
                        self.take(section, key, table[key], origin)
        self._warn_unknown(unknown, origin)

    # ---- values

    def take(self, section: str, key: str, value: object, origin: Origin) -> None:
        record = Config.defaults_[section]
        kind, default = type(record).fields_[key], getattr(record, key)
        try:
            self.values.setdefault(section, {})[key] = checked(kind, value, default=default)
        except ConfigInvalid as error:
            self._wrong(origin, (section, key), error.message)
        else:
            self.origin[f"{section}.{key}"] = origin

    def _wrong(self, origin: Origin, path: tuple[str, ...], what: str) -> None:
        self._problem(f"{place(origin, self.texts, path)}: {'.'.join(path)}: {what}")

    def _problem(self, problem: str) -> None:
        if problem not in self.problems:  # a file may be in a default place and named by --config, too
            self.problems.append(problem)

    def _warn_unknown(self, unknown: list[tuple[str, ...]], origin: Origin) -> None:
        for path in unknown[:MOST_WARNINGS]:
            what = "key" if len(path) == 2 else "section or key"
            told = ".".join(shown(name) for name in path)
            where = place(origin, self.texts, path)
            self._warning(f"{where}: {told}: unknown {what}, ignored; {_nearest(path)}")
        if len(unknown) > MOST_WARNINGS:
            self._warning(f"{origin.name}: {len(unknown) - MOST_WARNINGS} more unknown keys, ignored")

    def _warning(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)


def place(origin: Origin, texts: dict[Origin, str], path: tuple[str, ...]) -> str:
    """The origin of a key; FILE:LINE if a file set it."""
    if origin not in texts:
        return origin.name
    from azureinit.config.where import key_lines

    line = key_lines(texts[origin]).get(path)
    return f"{origin.name}:{line}" if line else origin.name


def _sections() -> list[tuple[str, dict[str, str]]]:
    return [(name, type(record).fields_) for name, record in Config.defaults_.items()]


def _nearest(path: tuple[str, ...]) -> str:
    """The known key that is most similar to `path`."""
    from difflib import get_close_matches

    sections = dict(_sections())
    keys = [f"{section}.{key}" for section in sections for key in sections[section]]
    elsewhere = [key for key in keys if key.split(".")[1] == path[-1]]
    if len(elsewhere) == 1:
        return f"the nearest known key is {elsewhere[0]}"
    told = ".".join(path)
    if len(path) == 1 and (near := get_close_matches(told[:64], sections, n=1)):
        return f"the nearest known section is [{near[0]}]"
    if near := get_close_matches(told[:64], keys, n=1, cutoff=0.0 if len(path) == 2 else 0.6):
        return f"the nearest known key is {near[0]}"
    return f"the known sections are {', '.join(sections)}"


def _parse_toml(text: str) -> dict[str, Any]:
    plain = parse_plain(text)
    if plain is not None:
        return plain
    try:
        import tomllib
    except ImportError:
        tomllib = _find_tomli()
    document: dict[str, Any] = tomllib.loads(text)
    return document


def _find_tomli() -> ModuleType:
    """Before Python 3.11 the TOML parser is a package, and the installed launcher starts without site-packages."""
    import site
    import sys

    for _attempt in ("as started", "with packages"):
        try:
            import tomli

            return tomli
        except ImportError:
            sys.path.extend(site.getsitepackages())
    raise ConfigInvalid("cannot read: this Python has no TOML parser; install python3-tomli, or Python 3.11 or later")
