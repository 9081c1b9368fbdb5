"""final_message: a text on the console and in the log when the last stage has done its work."""

from __future__ import annotations

from azureinit.errors import CustomDataFailed
from azureinit.modules.steps import ON_TREE, named
from azureinit.modules.templates import filled
from azureinit.plan.actions import Caution, Step, Way, Write
from azureinit.userdata.node import TEXT
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.final import Moment
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan

KEY, CONSOLE = "final_message", "/dev/console"
DATASOURCE = "DataSourceAzure"


def plan_final_message(request: Request, moment: Moment) -> Plan:
    node = request.config.get(KEY)
    if node is None or node.kind != TEXT or not node.value.strip():
        return ()
    name = named(KEY, node)
    if request.rooted:
        return (Caution(name=name, why=f"not printed: {ON_TREE}"),)
    values = {
        "uptime": moment.uptime,
        "timestamp": moment.timestamp,
        "version": VERSION,
        "datasource": DATASOURCE,
    }
    text = filled(node.value.strip(), {**values, **{word.upper(): value for word, value in values.items()}}).strip()
    # A machine may have no console: the log has the text in any case.
    console = Write(path=CONSOLE, data=f"{text}\n".encode("utf-8", "replace"))
    ways = (Way(backend="console", actions=(console,)), Way(backend="log", actions=()))
    return (Step(name=name, why="the last stage has done its work", ways=ways, did=text, failure=CustomDataFailed),)
