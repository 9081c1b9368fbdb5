"""Every module of src/azureinit keeps to the rules of tests/support/import_rules.py, and each rule can fail."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from support.import_rules import (
    DISTRO_TABLE,
    EVERYTHING,
    EXCEPTIONS,
    MAY,
    NOT_BOOT,
    ORDER,
    RUNS_A_TOOL,
    SRC,
    imports,
    literal_commands,
    modules,
    package,
    source,
    violations,
)


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
    if path in RUNS_A_TOOL:
        assert literal_commands(tree)


def test_exceptions_name_modules_that_exist() -> None:
    named = {*EXCEPTIONS, *NOT_BOOT, *RUNS_A_TOOL, DISTRO_TABLE}
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


def test_no_file_of_code_is_longer_than_400_lines() -> None:
    folders = [SRC.parent / name for name in ("src", "tests", "bench", "packaging", "scripts", "systemd")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix in ("", ".py")]
    assert len(files) > 500
    assert [str(path) for path in files if path.read_bytes().count(b"\n") > 400] == []


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
    ("userdata/new.py", f"{TYPED}from azureinit.machine import Machine", "pure package imports machine"),
    ("userdata/new.py", "def f():\n    from azureinit.http import send", "pure package imports http"),
    ("userdata/new.py", "from azureinit.memory.journal import Journal", "userdata imports memory.journal"),
    ("userdata/new.py", "import yaml", "loads yaml at every boot"),
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
    ("apply/new.py", "machine.run(('systemctl', 'stop', unit), timeout=1.0)", "runs a tool by name"),
    ("run/new.py", "self.machine.start(('sshd', '-G'))", "runs a tool by name"),
    ("sources/new.py", "ARGV = ('ip', 'route')\ndef f(): machine.run(ARGV, timeout=1.0)", "runs a tool by name"),
    ("apply/new.py", "for argv in (('systemctl', 'stop', unit),): machine.run(argv)", "runs a tool by name"),
    ("cli/new.py", "machine.run((TOOL, '--version'), timeout=1.0)", "runs a tool by name"),
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
        ("facts/new.py", "machine.run(('systemctl', 'is-active', unit), timeout=1.0)"),
        ("apply/new.py", "for argv in action.cleanup or ():\n    machine.run(argv, timeout=1.0)"),
        ("facts/distros.py", "x = 'ubuntu'"),
        ("cli/new.py", "import argparse\nprint('x')"),
        ("run/second.py", "from azureinit.run.first import f\ndef g():\n    import json"),
    ],
)
def test_what_is_allowed_is_no_violation(path: str, text: str) -> None:
    assert violations(path, text + "\n", order=("first", "second")) == []
