"""bootcmd and boothooks: at every boot, before logins. Boothooks run first."""

from __future__ import annotations

from azureinit.modules.commands import place_of, plan_commands
from azureinit.modules.scripts import plan_part
from azureinit.record import replace
from azureinit.userdata.formats import SPACE, header_of
from azureinit.userdata.values import BOOTHOOK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.commands import Commands
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan
    from azureinit.userdata.values import Part

KEY = "bootcmd"


def asked(request: Request) -> bool:
    return request.config.get(KEY) is not None or any(part.kind == BOOTHOOK for part in request.parts)


def plan_bootcmd(request: Request, facts: Commands) -> Plan:
    facts = replace(facts, env=(*facts.env, ("INSTANCE_ID", request.vm_id)))
    seconds = request.settings.userdata.network_secs
    place = place_of(request, facts, "boothooks.log", seconds=seconds, below="boothooks")
    plan = [
        plan_part(request, part, number=number, content=hook_of(part), place=place, once=False)
        for number, part in enumerate(request.parts, 1)
        if part.kind == BOOTHOOK
    ]
    node = request.config.get(KEY)
    if node is not None:
        place = place_of(request, facts, "bootcmd.log", seconds=seconds)
        step = plan_commands(request, KEY, node, facts, place=place, once=False)
        plan += [] if step is None else [step]
    return tuple(plan)


def hook_of(part: Part) -> bytes:
    """The program: what follows the first words."""
    start, header = header_of(part.content, BOOTHOOK)
    return part.content[start + len(header) :].lstrip(SPACE)
