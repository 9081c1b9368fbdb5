"""Names and pieces of steps that several modules use."""

from __future__ import annotations

from azureinit.plan.actions import Declined, Step
from azureinit.userdata.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.userdata.node import Node

ON_TREE = "this is a file tree, not the running system"


def where(node: Node) -> str:
    """`line 12`, or `line 3 of part-002`: for names and reasons of steps."""
    return f"line {node.line}" + (f" of {shown(node.part)}" if node.part else "")


def named(module: str, node: Node, what: str = "") -> str:
    """The name of a step: `write_files /etc/motd (line 12)`. A failure shows it, so it holds no value that may be
    a secret."""
    return f"{module} {shown(what)} ({where(node)})" if what else f"{module} ({where(node)})"


def normal_path(path: str) -> str:
    """Without `.`, `..` and double slashes, as text: links are not looked at."""
    done: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del done[-1:]
        elif part not in ("", "."):
            done.append(part)
    return "/" + "/".join(done)


def refused(name: str, why: str, *, reason: str) -> Step:
    """A step that no backend can do: it fails before anything of its module runs."""
    return Step(name=name, why=reason, ways=(Declined(backend="azure-init", why=why),))
