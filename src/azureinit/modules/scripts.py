"""Scripts: those of customData with `runcmd` among them, and those of directories; each on its own, in the order of
their names."""

from __future__ import annotations

from azureinit.backends.shell import run_file, run_script
from azureinit.errors import CustomDataFailed
from azureinit.modules.commands import RAN, place_of, plan_commands
from azureinit.modules.steps import ON_TREE, refused
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.plan.custom_data import why_no_program
from azureinit.record import Secret, replace
from azureinit.userdata.formats import SPACE
from azureinit.userdata.values import BOOTHOOK, PER_BOOT, PER_INSTANCE, PER_ONCE, SCRIPT, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.backends.shell import Place
    from azureinit.facts.commands import Commands
    from azureinit.facts.scripts import Scripts
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.values import Part

RUNCMD = "runcmd"
SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.()")
DIRECTORIES = {PER_BOOT: "per-boot", PER_INSTANCE: "per-instance", PER_ONCE: "per-once"}
OURS, PEERS = "/etc/azure-init/scripts", "/var/lib/cloud/scripts"
LONGEST_NAME = 100  # of a file; names that begin alike differ in their numbers


def file_name(name: str) -> str:
    """The name as cloud-init would write it: the order of scripts depends on it."""
    return "".join(letter for letter in name.replace("/", "_") if letter in SAFE)


def script_directories(request: Request, kind: str) -> tuple[str, ...]:
    tops = (OURS, PEERS) if request.compatible else (OURS,)
    return tuple(f"{top}/{DIRECTORIES[kind]}" for top in tops)


def asked_user(request: Request) -> bool:
    return request.config.get(RUNCMD) is not None or any(part.kind == SCRIPT for part in request.parts)


def plan_scripts_user(request: Request, facts: Commands) -> Plan:
    """runcmd is one of them: cloud-init's file for it has that name."""
    seconds = request.settings.userdata.final_secs
    place = place_of(request, facts, "scripts.log", seconds=seconds, below="scripts")
    found: list[tuple[str, Item]] = [
        (file_name(part.name), plan_part(request, part, number=number, content=script_of(part), place=place, once=True))
        for number, part in enumerate(request.parts, 1)
        if part.kind == SCRIPT
    ]
    node = request.config.get(RUNCMD)
    if node is not None:
        place = place_of(request, facts, "runcmd.log", seconds=seconds)
        found += [(RUNCMD, item) for item in plan_commands(request, RUNCMD, node, facts, place=place, once=True)]
    return tuple(item for _name, item in sorted(found, key=lambda one: one[0]))


def plan_scripts(request: Request, facts: Scripts, *, kind: str) -> Plan:
    """Those of one frequency: of the directories, and parts of customData."""
    below, once = DIRECTORIES[kind], kind != PER_BOOT
    seconds = request.settings.userdata.final_secs
    log = f"scripts-{below}.log"
    place = place_of(request, facts.commands, log, seconds=seconds, below=below)
    found: list[tuple[str, Item]] = [
        (file_name(part.name), plan_part(request, part, number=number, content=script_of(part), place=place, once=once))
        for number, part in enumerate(request.parts, 1)
        if part.kind == kind
    ]
    place = replace(place, directory=request.directory)
    for file in facts.files:
        name, directory = f"script {file.path}", file.path.rpartition("/")[0]
        item: Item
        if once and name in request.done:
            item = Satisfied(name=name, why=RAN)
        elif request.rooted:
            item = Caution(name=name, why=f"not run: {ON_TREE}")
        elif not file.executable:
            item = Caution(name=name, why="not run: the file is not executable; `chmod +x` makes it so")
        else:
            ways = (run_file(file.head, file.path, place=place),)
            did = f"ran {file.path}; its output is in {place.output}"
            why = f"{directory} has it"
            item = Step(name=name, why=why, ways=ways, did=did, once=once, failure=CustomDataFailed)
        found.append((file.path.rpartition("/")[2], item))
    return tuple(item for _name, item in sorted(found, key=lambda one: one[0]))


def script_of(part: Part) -> bytes:
    """White space before #! would keep the kernel from running it."""
    stripped = part.content.lstrip(SPACE)
    return stripped if stripped.startswith(b"#!") else part.content


def plan_part(request: Request, part: Part, *, number: int, content: bytes, place: Place, once: bool) -> Item:
    word = "boothook" if part.kind == BOOTHOOK else "script"
    line = f"line {part.place.line + 1}" if not part.place.part else f"part {number}"
    name = f"{word} {shown(part.name)} ({line})"
    if once and name in request.done:
        return Satisfied(name=name, why=RAN)
    if request.rooted:
        return Caution(name=name, why=f"not run: {ON_TREE}")
    reason = f"customData has {len(content)} bytes of it"
    why_not = why_no_program(content)
    if why_not:
        return replace(refused(name, f"it cannot be run: {why_not}", reason=reason), failure=CustomDataFailed)
    path = f"{place.directory}/{number:03d}-{file_name(part.name)[:LONGEST_NAME] or word}"
    did = f"ran {word} {shown(part.name)}; its output is in {place.output}"
    ways = (run_script(Secret(content), path, place=place),)
    return Step(name=name, why=reason, ways=ways, did=did, once=once, failure=CustomDataFailed)
