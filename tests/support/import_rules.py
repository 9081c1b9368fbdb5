"""Import rules between the packages of src/azureinit, and which code may touch the system. Checked on the AST.

The tables are the rules. `violations` checks one module, given as source text and its path inside the package, so that
a test can hand in modules that do not exist.
"""

from __future__ import annotations

import ast
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
ROOT = SRC / "azureinit"

# ---- who imports whom

VALUES = {"record", "errors", "version", "jsontext", "addresses", "pubkey"}
MAY: dict[str, set[str]] = {
    "record": set(),
    "version": set(),
    "jsontext": set(),
    "errors": {"record"},
    "pubkey": {"errors", "record"},
    "addresses": {"errors", "record"},
    "machine": VALUES,
    "http": {*VALUES, "machine.sockets"},  # the one place that knows CPython's private socket module
    "config": {*VALUES, "machine"},
    "kvp": {*VALUES, "machine"},
    "facts": {*VALUES, "machine", "config.model"},
    # userdata.expanding: the record of what includes and templates became, which memory encodes
    "memory": {*VALUES, "machine", "plan.actions", "sources.metadata", "userdata.expanding"},
    "sources": {*VALUES, "machine", "http", "config.model"},
    # memory.disk_sets, memory.network: records and their encoding, which the plan writes
    "plan": {
        *VALUES,
        "backends",
        "modules",
        "userdata",
        "config.model",
        "sources.metadata",
        "facts",
        "memory.disk_sets",
        "memory.network",
    },
    "backends": {*VALUES, "plan", "modules", "userdata", "config.model", "sources.metadata", "facts"},
    "modules": {*VALUES, "plan", "backends", "userdata", "config.model", "sources.metadata", "facts"},
    "userdata": {*VALUES, "plan", "backends", "modules", "config.model", "sources.metadata", "facts"},
    # http: a module of customData sends a form to a URL of the user's
    "apply": {*VALUES, "plan", "machine", "memory", "telemetry.events", "http"},
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
    "waagent", "logins", "channels", "early", "reuse", "gather", "admin", "custom_data", "desired", "converge",
    "saving", "serving", "settle", "confirm", "resend", "deliver", "fetching", "rendering", "expand", "instance_data",
    "modules", "command_modules", "disk_modules", "package_modules", "system_modules", "user_modules",
    "network_modules", "config_modules", "final_modules", "module_tables", "request", "explain",
    "stage_plans", "network", "network_jobs", "userdata_jobs", "maintenance", "after_ready", "termination",
    "pool_links", "pool_wait", "pool_ready", "pool", "readiness", "show", "mounts", "local", "compat", "watching",
    "carry", "failed", "refresh", "awaited", "userdata", "deadline", "hostname_watch", "network_watch", "disks",
    "dispatch",
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
    "userdata/packages.py": {"sys.path"},  # PyYAML and jinja2 are packages of the distribution
    "cli/kvp.py": {"uuid"},  # an operator's record gets a random id
}

# ---- tools

RUNS_TOOLS = {"backends", "facts", "machine"}
# Modules of other packages that run a tool, and why.
RUNS_A_TOOL = {
    "sources/envelope.py",  # openssl decrypts the certificates that the wireserver serves
    "sources/proxy_agent.py",  # the platform's proxy agent is asked whether it is ready
}

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
    "kvp/cloudinit.py": {"json"},  # `libazureinit-kvp`
    "machine/jinja_child.py": {"json"},  # a program of its own, for the templates of customData
    "machine/kmsg.py": {"collections"},  # after a failure
    "machine/outgoing.py": {"socket", "ssl"},  # what customData fetches
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
    if package(path) in RUNS_TOOLS or path in RUNS_A_TOOL:
        return []
    told = [
        f"{path}:{node.lineno} names a tool's flags: Run(argv=...)"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any(keyword.arg == "argv" for keyword in node.keywords)
    ]
    return told + [f"{path}:{line} runs a tool by name" for line in literal_commands(tree)]


def literal_commands(tree: ast.Module) -> list[int]:
    """Lines of x.run(...) and x.start(...) whose command is written in the module, there or in a variable."""
    variables: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        pairs: list[tuple[ast.expr, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            pairs = [(node.target, node.value)]
        elif isinstance(node, (ast.For, ast.comprehension)):
            pairs = [(node.target, node.iter)]
        for target, value in pairs:
            if isinstance(target, ast.Name) and value is not None:
                variables.setdefault(target.id, []).append(value)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("run", "start"):
            for argument in node.args[:1]:
                values = variables.get(argument.id, []) if isinstance(argument, ast.Name) else [argument]
                inner = [one for value in values for one in ast.walk(value)]
                if any(isinstance(one, (ast.Tuple, ast.List)) and one.elts for one in inner):
                    found.append(node.lineno)
    return found


def distro_violations(path: str, tree: ast.Module) -> list[str]:
    if path == DISTRO_TABLE:
        return []
    return [
        f"{path}:{node.lineno} names the distribution {node.value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.lower() in DISTROS
    ]


def weight_violations(path: str, found: list[Import]) -> list[str]:
    """Imports that loading a boot module executes. Imports inside functions are counted by tests/tree/test_lean.py."""
    if path.startswith("cli/") and path not in ("cli/__init__.py", "cli/words.py"):
        return []
    allowed = NOT_BOOT.get(path, set())
    return [
        f"{path}:{one.line} loads {one.module} at every boot"
        for one in found
        if one.top and not one.typing and one.module.split(".")[0] in HEAVY - allowed
    ]
