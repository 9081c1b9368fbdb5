"""Import rules between the packages of src/azureinit, and which code may touch the system. Checked on the AST.

The tables below are the rules. `violations` checks one module, given as source text and its path inside the package, so
that the planting test can hand in modules that do not exist.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
ROOT = SRC / "azureinit"

# ---- who imports whom

VALUES = {"record", "errors", "version", "jsontext", "addresses", "pubkey"}
MAY: dict[str, set[str]] = {
    "record": set(),
    "version": set(),
    "jsontext": set(),
    "errors": {"record"},
    "pubkey": {"errors"},
    "addresses": {"errors", "record"},
    "machine": VALUES,
    "http": {*VALUES, "machine.sockets"},  # the one place that knows CPython's private socket module
    "config": {*VALUES, "machine"},
    "kvp": {*VALUES, "machine"},
    "facts": {*VALUES, "machine", "config.model"},
    "memory": {*VALUES, "machine", "plan.actions", "sources.metadata"},
    "sources": {*VALUES, "machine", "http", "config.model"},
    "plan": {*VALUES, "backends", "modules", "userdata", "config.model", "sources.metadata", "facts"},
    "backends": {*VALUES, "plan", "modules", "userdata", "config.model", "sources.metadata", "facts"},
    "modules": {*VALUES, "plan", "backends", "userdata", "config.model", "sources.metadata", "facts"},
    "userdata": {*VALUES, "plan", "backends", "modules", "config.model", "sources.metadata", "facts"},
    "apply": {*VALUES, "plan", "machine", "memory", "telemetry.events"},
    "telemetry": {*VALUES, "machine", "http", "kvp", "config.model", "config.filters"},
    "report": {*VALUES, "machine", "http", "kvp", "config.model", "config.filters"},
    "observe": {*VALUES, "memory", "kvp", "machine", "config", "telemetry"},
}
BELOW_RUN = {
    "machine", "http", "config", "kvp", "facts", "memory", "sources", "plan", "backends", "modules", "userdata",
    "apply", "telemetry", "report",
}  # fmt: skip
MAY["run"] = VALUES | BELOW_RUN
EVERYTHING = {"cli", "library", "__init__", "__main__"}
PURE = {"plan", "backends", "modules", "userdata"}
# Never from a pure package, not even for an annotation.
EFFECTS = ("machine", "http")

# ---- the order inside run/

# A module of run/ imports no later one of this list; `__init__` comes after `show`.
ORDER: tuple[str, ...] = (
    "state", "stages", "enact", "identify", "recall", "endpoint", "platform", "waiting", "in_progress", "changed_id",
    "waagent", "logins", "channels", "early", "gather", "admin", "custom_data", "desired", "converge", "saving",
    "settle", "confirm", "resend", "deliver", "maintenance", "after_ready", "termination", "show", "mounts", "local",
    "failed", "hostname_watch", "dispatch",
)  # fmt: skip

# ---- the system

SYSTEM = {"machine", "http"}
SYSTEM_MODULES = {
    "subprocess", "_posixsubprocess", "socket", "_socket", "select", "selectors", "ctypes", "fcntl", "posix", "time",
    "random", "secrets", "urllib", "shutil", "tempfile", "pathlib", "io", "grp", "pwd", "glob", "mmap", "termios",
    "signal", "resource", "threading", "_thread", "importlib", "multiprocessing", "os", "posixpath", "fileinput",
    "syslog", "platform", "uuid", "sysconfig", "pty", "tty", "concurrent", "asyncio", "http.client", "http.server",
}  # fmt: skip
SYSTEM_CALLS = {"open", "input", "exec", "eval", "compile", "__import__", "breakpoint"}
# The operator's verbs print; nothing else does.
PRINTING = {"cli"}
# What a module of another package may use of the system, and why.
EXCEPTIONS: dict[str, set[str]] = {
    "config/docs.py": {"print"},  # prints the reference when it is run by hand
    "config/load.py": {"sys.path"},  # before Python 3.11 the TOML parser is a package of the distribution
    "cli/kvp.py": {"uuid"},  # an operator's record gets a random id
}

# ---- tools

RUNS_TOOLS = {"backends", "facts", "machine"}
# ---- distributions

DISTROS = (
    "debian", "ubuntu", "fedora", "rhel", "centos", "azurelinux", "mariner", "suse", "sles", "arch", "alpine",
    "gentoo", "flatcar", "rocky", "almalinux", "opensuse", "photon", "ol", "amzn", "archarm", "manjaro", "kali",
    "raspbian", "linuxmint", "opensuse-leap", "opensuse-tumbleweed", "sle_hpc", "sle-micro", "coreos", "cos",
    "clear-linux-os", "void", "nixos", "guix", "slackware", "freebsd", "openbsd", "cloudlinux", "virtuozzo",
)  # fmt: skip
DISTRO_TABLE = "facts/distros.py"

# ---- what a boot may import

# Costs of some of them on a warm disk: argparse 6 ms, logging 7 ms, json 3 ms, re 4 ms, dataclasses 6 ms, typing 2 ms.
HEAVY = {
    "argparse", "ast", "asyncio", "calendar", "collections", "concurrent", "csv", "ctypes", "dataclasses", "datetime",
    "decimal", "difflib", "email", "enum", "functools", "gzip", "hashlib", "html", "http", "importlib", "inspect",
    "json", "logging", "pathlib", "pprint", "random", "re", "rich", "shlex", "shutil", "socket", "ssl", "string",
    "subprocess", "tempfile", "textwrap", "threading", "tomli", "tomllib", "traceback", "typing", "unittest", "urllib",
    "uuid", "xml", "yaml", "zlib",
}  # fmt: skip
# Modules that only a verb, or a boot that something unusual happened to, loads. All others are boot modules.
NOT_BOOT: dict[str, set[str]] = {
    "config/docs.py": {"json"},  # `config schema`
    "config/where.py": {"functools", "re"},  # the line of an error in the configuration
    "facts/machine_state.py": {"json"},  # deprovision, and a changed VM id
    "kvp/cloudinit.py": {"json"},  # `libazureinit-kvp`
    "machine/kmsg.py": {"collections"},  # after a failure
    "machine/packets.py": {"socket"},  # a machine without a lease
    "machine/sockets.py": {"socket"},  # the fallback where CPython's private module is missing
    "plan/show.py": {"difflib", "json", "shlex"},  # `plan`
    "telemetry/otlp.py": {"json"},  # a collector is configured
}


def modules() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


def source(path: str) -> str:
    return (ROOT / path).read_text()


def package(path: str) -> str:
    return path.split("/")[0].removesuffix(".py")


class Import:
    def __init__(self, node: ast.stmt, module: str, names: tuple[str, ...], *, typing: bool, top: bool) -> None:
        self.line, self.module, self.names, self.typing, self.top = node.lineno, module, names, typing, top


def imports(tree: ast.Module) -> list[Import]:
    """Every import: is it for annotations only, and does loading the module execute it?"""
    found: list[Import] = []

    def visit(nodes: list[ast.stmt], *, typing: bool, top: bool) -> None:
        for node in nodes:
            if isinstance(node, ast.Import):
                found.extend(Import(node, alias.name, (), typing=typing, top=top) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                names = tuple(alias.name for alias in node.names)
                found.append(Import(node, module, names, typing=typing, top=top))
            deeper = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            guard = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            for field, value in ast.iter_fields(node):
                if isinstance(value, list):
                    below = [one for one in value if isinstance(one, (ast.stmt, ast.ExceptHandler))]
                    only_typing = typing or (guard and field == "body")
                    visit(below, typing=only_typing, top=top and not deeper)  # type: ignore[arg-type]

    visit(tree.body, typing=False, top=True)
    return found


def violations(path: str, text: str, *, order: tuple[str, ...] = ORDER) -> list[str]:
    tree = ast.parse(text)
    found = imports(tree)
    return [
        *import_violations(path, found),
        *order_violations(path, found, order),
        *system_violations(path, tree, found),
        *tool_violations(path, tree),
        *distro_violations(path, tree),
        *weight_violations(path, found),
    ]


def targets(one: Import) -> list[str]:
    """The modules of azureinit that an import names; empty for any other import."""
    if one.module == "azureinit":
        return list(one.names) or [""]
    if not one.module.startswith("azureinit."):
        return []
    inner = one.module.removeprefix("azureinit.")
    deeper = [f"{inner}.{name}" for name in one.names if is_module(f"{inner}.{name}")]
    return deeper if deeper and len(deeper) == len(one.names) else [inner, *deeper]


def is_module(name: str) -> bool:
    place = ROOT / name.replace(".", "/")
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def import_violations(path: str, found: list[Import]) -> list[str]:
    own, told = package(path), []
    for one in found:
        if one.module.startswith("."):
            told.append(f"{path}:{one.line} relative import")
        if one.module.split(".")[0] == "fakeazure":
            told.append(f"{path}:{one.line} imports fakeazure")
        for target in targets(one):
            top = target.split(".")[0]
            if own in EVERYTHING or top == own:
                continue
            if own in PURE and top in EFFECTS:
                told.append(f"{path}:{one.line} pure package imports {target}")
                continue
            if one.typing:
                continue
            if not any(target == may or target.startswith(may + ".") for may in MAY.get(own, set())):
                told.append(f"{path}:{one.line} {own} imports {target}")
            elif own in PURE and top == "facts":
                functions = [name for name in one.names if not name[:1].isupper()]
                told += [f"{path}:{one.line} takes {name} of {target}: not a value" for name in functions]
    return told


def order_violations(path: str, found: list[Import], order: tuple[str, ...]) -> list[str]:
    own, _, name = path.partition("/")
    name = name.removesuffix(".py")
    if own != "run" or name == "__init__" or not order:
        return []
    if name not in order:
        return [f"{path} is missing in ORDER"]
    told = []
    for one in found:
        inside = one.names if one.module == "azureinit.run" else (one.module.removeprefix("azureinit.run."),)
        for other in inside:
            if not one.typing and other in order and order.index(other) > order.index(name):
                told.append(f"{path}:{one.line} imports the later phase {other}")
    return told


def system_violations(path: str, tree: ast.Module, found: list[Import]) -> list[str]:
    own = package(path)
    if own in SYSTEM:
        return []
    allowed = EXCEPTIONS.get(path, set())
    told = []
    for one in found:
        if one.typing:
            continue
        name = one.module
        system = name.split(".")[0] in SYSTEM_MODULES or name in SYSTEM_MODULES
        if system and name.split(".")[0] not in allowed:
            told.append(f"{path}:{one.line} touches the system through {name}")
        if any(target.split(".")[0] in SYSTEM for target in targets(one)):
            lent = [name for name in one.names if name in SYSTEM_MODULES]
            told += [f"{path}:{one.line} borrows {name} of {one.module}" for name in lent]
    calls = SYSTEM_CALLS | (set() if own in PRINTING else {"print"})
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in calls - allowed:
            told.append(f"{path}:{node.lineno} uses {node.id}")
        if isinstance(node, ast.Name) and node.id == "os" and "os" not in allowed:
            told.append(f"{path}:{node.lineno} uses os")
        if isinstance(node, ast.Attribute) and _is_name(node.value, "sys"):
            name = f"sys.{node.attr}"
            if name in ("sys.modules", "sys.path") and name not in allowed:
                told.append(f"{path}:{node.lineno} uses {name}")
    return told


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def tool_violations(path: str, tree: ast.Module) -> list[str]:
    if package(path) in RUNS_TOOLS:
        return []
    return [
        f"{path}:{node.lineno} names a tool's flags: Run(argv=...)"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any(keyword.arg == "argv" for keyword in node.keywords)
    ]


def distro_violations(path: str, tree: ast.Module) -> list[str]:
    if path == DISTRO_TABLE:
        return []
    return [
        f"{path}:{node.lineno} names the distribution {node.value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.lower() in DISTROS
    ]


def weight_violations(path: str, found: list[Import]) -> list[str]:
    """Imports that loading a boot module executes. Imports inside functions are counted by tests/unit/test_lean.py."""
    if path.startswith("cli/") and path not in ("cli/__init__.py", "cli/words.py"):
        return []
    allowed = NOT_BOOT.get(path, set())
    return [
        f"{path}:{one.line} loads {one.module} at every boot"
        for one in found
        if one.top and not one.typing and one.module.split(".")[0] in HEAVY - allowed
    ]


@pytest.mark.parametrize("path", modules())
def test_every_module_keeps_to_the_rules(path: str) -> None:
    assert violations(path, source(path)) == []


@pytest.mark.parametrize("path", modules())
def test_every_exception_is_still_needed(path: str) -> None:
    """Without its exceptions the module breaks a rule for each of them."""
    tree = ast.parse(source(path))
    found = imports(tree)
    used = {one.module.split(".")[0] for one in found if one.top and not one.typing}
    assert NOT_BOOT.get(path, set()) <= used
    for name in EXCEPTIONS.get(path, set()):
        assert name in source(path)


def test_exceptions_name_modules_that_exist() -> None:
    named = {*EXCEPTIONS, *NOT_BOOT, DISTRO_TABLE}
    assert named <= set(modules())


def test_the_order_names_every_module_of_run() -> None:
    names = {path.partition("/")[2].removesuffix(".py") for path in modules() if path.startswith("run/")}
    assert {*ORDER} == names - {"__init__"}


def test_the_table_of_contents_of_run_names_its_modules_in_order() -> None:
    table = (ast.get_docstring(ast.parse(source("run/__init__.py"))) or "").splitlines()
    listed = [line.partition("  ")[0].split(", ") for line in table if "   " in line or ":" not in line]
    assert tuple(name for names in listed for name in names if name in ORDER) == ORDER


def test_packages_are_one_level_deep_and_every_one_has_a_row() -> None:
    assert [path for path in modules() if path.count("/") > 1] == []
    assert {package(path) for path in modules()} <= {*MAY, *EVERYTHING}


def test_no_module_is_named_after_nothing() -> None:
    vague = ("util", "utils", "common", "base", "helpers", "manager")
    assert [path for path in modules() if Path(path).stem in vague] == []


@pytest.mark.newer
def test_fakeazure_imports_nothing_of_the_agent() -> None:
    for path in sorted((SRC / "fakeazure").rglob("*.py")):
        for one in imports(ast.parse(path.read_text())):
            assert one.module.split(".")[0] != "azureinit", path


# ---- each rule notices a violation

TYPED = "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    "
PLANTED = [
    # who imports whom
    ("plan/new.py", "from azureinit.machine import Machine", "pure package imports machine"),
    ("plan/new.py", f"{TYPED}from azureinit.machine import Machine", "pure package imports machine"),
    ("backends/new.py", f"{TYPED}from azureinit import http", "pure package imports http"),
    ("plan/new.py", "def f():\n    from azureinit.machine.files import lstat", "pure package imports machine.files"),
    ("plan/new.py", "from azureinit.facts.gather import read_facts", "takes read_facts of facts.gather"),
    ("plan/new.py", "from azureinit.config.load import load", "plan imports config.load"),
    ("plan/new.py", "from azureinit.config import load", "plan imports config.load"),
    ("plan/new.py", "import azureinit.sources.imds", "plan imports sources.imds"),
    ("facts/new.py", "from azureinit.plan.actions import Run", "facts imports plan.actions"),
    ("sources/new.py", "from azureinit.kvp.store import Store", "sources imports kvp.store"),
    ("machine/new.py", "from azureinit.http import send", "machine imports http"),
    ("http.py", "from azureinit.machine import Machine", "http imports machine"),
    ("kvp/new.py", "from azureinit.config.model import Config", "kvp imports config.model"),
    ("memory/new.py", "from azureinit.plan.keys import plan_keys", "memory imports plan.keys"),
    ("apply/new.py", "from azureinit.facts.gather import read_facts", "apply imports facts.gather"),
    ("telemetry/new.py", "from azureinit.run.engine import Walk", "telemetry imports run.engine"),
    ("report/new.py", "from azureinit.sources.imds import Imds", "report imports sources.imds"),
    ("observe/new.py", "from azureinit.run import engine", "observe imports run"),
    ("run/new.py", "from azureinit.cli.words import WORDS", "run imports cli.words"),
    ("record.py", "from azureinit.errors import LocalError", "record imports errors"),
    ("plan/new.py", "from .keys import plan_keys", "relative import"),
    ("run/new.py", "from fakeazure import Fabric", "imports fakeazure"),
    # the order inside run/
    ("run/first.py", "from azureinit.run.second import f", "imports the later phase second"),
    ("run/first.py", "def f():\n    from azureinit.run import second", "imports the later phase second"),
    ("run/third.py", "", "is missing in ORDER"),
    # the system
    ("plan/new.py", "import subprocess", "touches the system through subprocess"),
    ("plan/new.py", "import os", "touches the system through os"),
    ("run/new.py", "import os as x", "touches the system through os"),
    ("run/new.py", "import socket as s", "touches the system through socket"),
    ("run/new.py", "from os import remove", "touches the system through os"),
    ("run/new.py", "from os import path as p", "touches the system through os"),
    ("run/new.py", "from posix import posix_spawn", "touches the system through posix"),
    ("plan/new.py", "import urllib.request", "touches the system through urllib.request"),
    ("plan/new.py", "import random", "touches the system through random"),
    ("plan/new.py", "from time import monotonic as now", "touches the system through time"),
    ("sources/new.py", "import ctypes", "touches the system through ctypes"),
    ("facts/new.py", "import fcntl", "touches the system through fcntl"),
    ("facts/new.py", "from pathlib import Path", "touches the system through pathlib"),
    ("facts/new.py", "import importlib", "touches the system through importlib"),
    ("facts/new.py", "def f():\n    import importlib.util", "touches the system through importlib.util"),
    ("facts/new.py", "__import__('os')", "uses __import__"),
    ("facts/new.py", "read = open", "uses open"),
    ("kvp/new.py", "open('x')", "uses open"),
    ("kvp/new.py", "eval('1')", "uses eval"),
    ("kvp/new.py", "print('x')", "uses print"),
    ("apply/new.py", "os.environ['x']", "uses os"),
    ("apply/new.py", "import sys\nsys.modules['os']", "uses sys.modules"),
    ("run/new.py", "from azureinit.machine.files import os", "borrows os of azureinit.machine.files"),
    ("run/new.py", "from azureinit.machine.sockets import socket", "borrows socket of azureinit.machine.sockets"),
    # tools
    ("plan/new.py", "Run(argv=('useradd', '-m'))", "names a tool's flags"),
    ("run/new.py", "actions.Run(argv=argv)", "names a tool's flags"),
    ("apply/new.py", "Run(argv=('ip',))", "names a tool's flags"),
    # distributions
    ("plan/new.py", "x = 'ubuntu'", "names the distribution ubuntu"),
    ("backends/new.py", "if distro in ('RHEL',): pass", "names the distribution RHEL"),
    # what a boot loads
    ("plan/new.py", "import typing", "loads typing at every boot"),
    ("plan/new.py", "from typing import Any", "loads typing at every boot"),
    ("plan/new.py", "import dataclasses as d", "loads dataclasses at every boot"),
    ("config/new.py", "import json", "loads json at every boot"),
    ("sources/new.py", "try:\n    import yaml\nexcept ImportError:\n    pass", "loads yaml at every boot"),
    ("machine/new.py", "import re", "loads re at every boot"),
    ("telemetry/new.py", "import logging.handlers", "loads logging.handlers at every boot"),
    ("cli/__init__.py", "import argparse", "loads argparse at every boot"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "complaint"), PLANTED, ids=[f"{path} {text!r}" for path, text, _ in PLANTED])
def test_a_planted_violation_is_noticed(path: str, text: str, complaint: str) -> None:
    found = violations(path, text + "\n", order=("first", "second", "new"))
    assert any(complaint in one for one in found), found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("machine/new.py", "import os\nimport time\nopen('x')\nos.environ"),
        ("http.py", "import time\nfrom azureinit.machine.sockets import socket"),
        ("plan/new.py", f"{TYPED}from typing import Any\n    from azureinit.facts.host import read_host"),
        ("plan/new.py", "from azureinit.facts.host import Host\nfrom azureinit.addresses import parse_ipv4"),
        ("backends/new.py", "Run(argv=('useradd', '-m'))"),
        ("facts/distros.py", "x = 'ubuntu'"),
        ("cli/new.py", "import argparse\nprint('x')"),
        ("run/second.py", "from azureinit.run.first import f\ndef g():\n    import json"),
    ],
)
def test_what_is_allowed_is_no_violation(path: str, text: str) -> None:
    assert violations(path, text + "\n", order=("first", "second")) == []
