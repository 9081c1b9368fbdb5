"""yum_repos: package sources of yum and dnf. An existing file is kept."""

from __future__ import annotations

from azureinit.errors import CustomDataFailed
from azureinit.modules.steps import named, refused
from azureinit.plan.actions import Caution, MakeDir, Satisfied, Step, Way, Write
from azureinit.record import Record, Secret, replace
from azureinit.userdata.node import FLAG, LIST, MAPPING, NULL, TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.repo_files import RepoFiles
    from azureinit.facts.system_files import Target
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "yum_add_repo"
DIRECTORY = "/etc/yum.repos.d"
# One of these is there where a package manager reads such files.
DIRECTORIES = (DIRECTORY, "/etc/dnf", "/etc/tdnf", "/etc/yum")
HEADER = "# Created by azure-init\n"
NEEDED = ("baseurl", "metalink", "mirrorlist")


class Repo(Record):
    """`id` is empty where the name cannot be the name of a file."""

    id: str
    path: str
    node: Node


def repos_of(config: Node) -> tuple[Repo, ...]:
    listed, place = config.get("yum_repos"), config.get("yum_repo_dir")
    directory = (place.value if place is not None and place.kind == TEXT else DIRECTORY).rstrip("/")
    found = []
    for key, node in listed.pairs() if listed is not None else ():
        name = str(key.value if key.kind == TEXT else key.text).replace(" ", "-")
        good = name.isprintable() and not set(name) & set("/[]") and name not in ("", ".", "..")
        found.append(Repo(id=name if good else "", path=f"{directory}/{name}.repo" if good else "", node=node))
    return tuple(found)


def paths_of(config: Node) -> tuple[str, ...]:
    return tuple(repo.path for repo in repos_of(config) if repo.path)


def plan_yum_repos(request: Request, facts: RepoFiles) -> Plan:
    listed = request.config.get("yum_repos")
    if listed is None:
        return ()
    if not facts.supported:
        return (Caution(name=named(MODULE, listed), why="not done: neither yum nor dnf is installed"),)
    plan: list[Item] = []
    seen: set[str] = set()
    for repo in repos_of(request.config):
        name, why = named(MODULE, repo.node, repo.id), "a package source"
        values = options(repo.node)
        if not repo.id:
            plan.append(impossible(name, "its name cannot be the name of a file and a section", reason=why))
        elif repo.path in facts.existing:
            plan.append(Satisfied(name=name, why=f"{repo.path} exists, and is kept"))
        elif repo.path in seen:
            plan.append(Caution(name=name, why=f"not done: another entry of this name is written to {repo.path}"))
        elif not any(values.get(one) for one in NEEDED):
            plan.append(impossible(name, f"it has none of {', '.join(NEEDED)}", reason=why))
        else:
            plan.append(write_repo(name, why, facts.targets[repo.path], HEADER + section(repo.id, values)))
        seen.add(repo.path)
    return tuple(plan)


def options(node: Node) -> dict[str, str]:
    """The settings of one source, as yum writes them. What is empty is left out."""
    found: dict[str, str] = {}
    for key, value in node.pairs():
        name = str(key.value if key.kind == TEXT else key.text).lower().strip().replace("-", "_")
        text = value_text(value)
        if name and text is not None:
            found[name] = text
    return found


def value_text(node: Node) -> str | None:
    """True and false are 1 and 0; the items of a list are lines."""
    if node.kind in (NULL, MAPPING):
        return None
    if node.kind == FLAG:
        return str(int(node.value))
    if node.kind == LIST:
        return "\n".join(text for text in map(value_text, node.items()) if text is not None)
    return node.value if node.kind == TEXT else str(node.value)


def section(name: str, values: dict[str, str]) -> str:
    """A section of an INI file, as Python's configparser writes it."""
    lines = [f"{key} = {value}".replace("\n", "\n\t") for key, value in values.items()]
    return "\n".join([f"[{name}]", *lines]) + "\n\n"


def write_repo(name: str, why: str, target: Target, text: str) -> Step:
    """Its values may hold a password."""
    if target.problem:
        return impossible(name, target.problem, reason=why)
    parents = (MakeDir(path=path, mode=0o755, beneath=target.beneath) for path in target.missing)
    write = Write(path=target.path, data=Secret(text), mode=0o644, beneath=target.beneath)
    way = Way(backend="native", actions=(*parents, write))
    return Step(name=name, why=why, ways=(way,), did=f"wrote {target.path}", failure=CustomDataFailed)


def impossible(name: str, why: str, *, reason: str) -> Step:
    return replace(refused(name, why, reason=reason), failure=CustomDataFailed)
