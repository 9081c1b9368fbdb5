"""keyboard: the layout of the console, and of X11."""

from __future__ import annotations

from azureinit.backends.service import reload_unit
from azureinit.backends.system_tools import LOCALECTL, SETUP_KEYMAP, set_x11_keymap, setup_keymap
from azureinit.modules.file_steps import once_more, refuse, step, text, write_file
from azureinit.modules.steps import ON_TREE, named
from azureinit.plan.actions import Caution, Satisfied, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.distros import Distro
    from azureinit.facts.system_files import SystemFiles
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "keyboard"
MODEL = "pc105"
UNIT = "console-setup"
TOOLS = (LOCALECTL, SETUP_KEYMAP)
FORBIDDEN = frozenset("\"'`$\\")


def looked_at(distro: Distro) -> tuple[str, ...]:
    return (distro.keyboard_file,) if distro.keyboard_file is not None else ()


def plan_keyboard(request: Request, facts: SystemFiles) -> Plan:
    node = request.config.get(MODULE)
    layout = text(node.get("layout")) if node is not None else ""
    if node is None or not layout:
        return ()
    name = named(MODULE, node)
    model, variant = text(node.get("model")) or MODEL, text(node.get("variant"))
    options = text(node.get("options"))
    if any(not one.isprintable() or one in FORBIDDEN for one in layout + model + variant + options):
        return (refuse(name, "a value has characters that no layout has"),)
    path = facts.host.distro.keyboard_file
    if path is not None:
        return _plan_file(request, node, path, facts, (model, layout, variant, options))
    if request.rooted:
        return (Caution(name=name, why=f"not set: {ON_TREE}"),)
    why = f"the layout is {layout}"
    if LOCALECTL in facts.tools and facts.host.systemd:
        run = set_x11_keymap(layout=layout, model=model, variant=variant, options=options)
        return once_more(step(name, why, run, backend=LOCALECTL, once=True), request.done)
    if SETUP_KEYMAP in facts.tools:
        if not variant:
            return (refuse(name, f"{SETUP_KEYMAP} needs a variant beside the layout", reason=why),)
        run = setup_keymap(layout=layout, variant=variant)
        return once_more(step(name, why, run, backend=SETUP_KEYMAP, once=True), request.done)
    return (refuse(name, f"neither {LOCALECTL} nor {SETUP_KEYMAP} can be used here", reason=why),)


def _plan_file(request: Request, node: Node, path: str, facts: SystemFiles, values: tuple[str, str, str, str]) -> Plan:
    keys = ("XKBMODEL", "XKBLAYOUT", "XKBVARIANT", "XKBOPTIONS")
    settings = "".join(f'{key}="{value}"\n' for key, value in zip(keys, values))
    data = f'# Written by azure-init\n\n{settings}\nBACKSPACE="guess"\n'.encode()
    item = write_file(named(MODULE, node, path), path, data, facts, why=f"the layout is {values[1]}")
    return (item, _plan_console(request, node, facts)) if isinstance(item, Step) else (item,)


def _plan_console(request: Request, node: Node, facts: SystemFiles) -> Item:
    name = named(MODULE, node, UNIT)
    if request.rooted:
        return Caution(name=name, why=f"not restarted: {ON_TREE}")
    run = reload_unit(UNIT, facts.host)
    if run is None:
        return Satisfied(name=name, why="no service is known that has to be restarted")
    return step(name, "the console has another layout", run, backend=run.argv[0])
