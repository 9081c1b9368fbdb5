"""zypper: package sources and settings of zypper. An existing file of a source is kept."""

from __future__ import annotations

from azureinit.errors import CustomDataFailed
from azureinit.modules.steps import named
from azureinit.modules.yum_repos import impossible, options, value_text, write_repo
from azureinit.plan.actions import Caution, Satisfied, Step, Way, Write
from azureinit.record import Record, Secret
from azureinit.userdata.node import TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.repo_files import RepoFiles
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan
    from azureinit.userdata.node import Node

MODULE = "zypper_add_repo"
DIRECTORY = "/etc/zypp/repos.d"
DIRECTORIES = ("/etc/zypp",)
CONFIGURATION = "/etc/zypp/zypp.conf"
HEADER = "# Added by azure-init"


class Repo(Record):
    id: str
    path: str
    node: Node


def repos_of(config: Node) -> tuple[Repo, ...]:
    zypper = config.get("zypper")
    listed = zypper.get("repos") if zypper is not None else None
    settings = zypper.get("config") if zypper is not None else None
    place = settings.get("reposdir") if settings is not None else None
    directory = (place.value if place is not None and place.kind == TEXT else DIRECTORY).rstrip("/")
    found = []
    for node in listed.items() if listed is not None else ():
        name = node.get("id")
        text = name.value if name is not None and name.kind == TEXT else ""
        good = text.isprintable() and not set(text) & set("/[]") and text not in ("", ".", "..")
        path = f"{directory}/{text.replace(' ', '_')}.repo" if good and directory.startswith("/") else ""
        found.append(Repo(id=text if good else "", path=path, node=node))
    return tuple(found)


def paths_of(config: Node) -> tuple[str, ...]:
    return tuple(repo.path for repo in repos_of(config) if repo.path)


def plan_zypper(request: Request, facts: RepoFiles) -> Plan:
    zypper = request.config.get("zypper")
    if zypper is None:
        return ()
    if not facts.supported:
        return (Caution(name=named(MODULE, zypper), why="not done: zypper is not installed"),)
    plan = list(_settings(zypper.get("config"), facts))
    seen: set[str] = set()
    for repo in repos_of(request.config):
        name, why = named(MODULE, repo.node, repo.id), "a package source"
        values = options(repo.node)
        values.pop("id", None)
        values = {**values, **{key: "1" for key in ("enabled", "autorefresh") if key not in values}}
        if not repo.path:
            plan.append(impossible(name, "its id cannot be the name of a file and a section", reason=why))
        elif repo.path in facts.existing:
            plan.append(Satisfied(name=name, why=f"{repo.path} exists, and is kept"))
        elif repo.path in seen:
            plan.append(Caution(name=name, why=f"not done: another entry of this name is written to {repo.path}"))
        else:
            lines = [f"{key} = {value}".replace("\n", "\n    ") for key, value in values.items()]
            text = "\n".join((f"[{repo.id}]", *lines))
            plan.append(write_repo(name, why, facts.targets[repo.path], text))
        seen.add(repo.path)
    return tuple(plan)


def _settings(node: Node | None, facts: RepoFiles) -> Plan:
    """Lines that zypp.conf does not have yet are added at its end, where they count."""
    if node is None:
        return ()
    name = named(MODULE, node, CONFIGURATION)
    before = facts.configuration.text() if facts.configuration is not None else ""
    there = before.splitlines()
    lines, cautions = [], []
    for key, value in node.pairs():
        text = value_text(value)
        if key.text == "configdir":
            cautions.append(Caution(name=name, why="configdir is not changed: zypper would read other files"))
        elif text and text.isprintable() and key.text.isprintable():
            lines.append(f"{key.text}={text}")
    new = [line for line in lines if line not in there]
    if not new:
        return (*cautions, *((Satisfied(name=name, why="has the settings"),) if lines else ()))
    gap = "" if not before or before.endswith("\n") else "\n"
    data = Secret(before + gap + "\n".join((HEADER, *new)) + "\n")
    way = Way(backend="native", actions=(Write(path=CONFIGURATION, data=data),))
    step = Step(name=name, why="settings of zypper", ways=(way,), failure=CustomDataFailed)
    return (*cautions, step)
