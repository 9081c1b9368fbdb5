"""`azure-init disk`: the VM's disks as a table, the plan for its temporary disks, and the setup itself."""

from __future__ import annotations

import json
import sys
from textwrap import wrap

from azureinit.cli.commands import BY_NAME
from azureinit.cli.parser import parse
from azureinit.cli.provision import make_context
from azureinit.config.filters import Filter
from azureinit.errors import LocalError, UsageError
from azureinit.facts.disk_services import read_other_service
from azureinit.facts.temporary_disks import read_disk_facts
from azureinit.plan.disk_status import disk_status
from azureinit.plan.show import as_json, as_text
from azureinit.run.disks import UNIT, Look, check_file, instance_of, look, set_up
from azureinit.run.identify import identify, why_not_ours
from azureinit.run.state import Context
from azureinit.telemetry.events import WARN, Events
from azureinit.telemetry.log import stream_listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azureinit.config.model import Config
    from azureinit.machine import Machine
    from azureinit.plan.disk_status import DiskStatus

HEADINGS = ("DISK", "SIZE", "CONTENT", "LABEL", "USED AS", "OWNER")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
WIDTH = 80
INDENT = " " * 4
NOTHING = "There is no temporary disk.\n"
NOT_ROOT = "only root can read the disks: their contents are not shown"


def main(argv: list[str], *, machine: Machine, configured: Callable[[], Config]) -> int:
    asked = parse(BY_NAME["disk"], argv, prog="azure-init disk", out=sys.stdout)
    if asked is None:
        return 0
    if asked.command is None:
        names = ", ".join(command.name for command in BY_NAME["disk"].commands)
        raise UsageError(f"disk: a command is required: {names}", hint="see azure-init disk --help")
    if machine.rooted:
        raise UsageError(f"disk {asked.command}: --root names a file tree, and disks belong to the running system")
    config = configured()
    if asked.command == "setup":
        return setup(machine, config, recreate=asked.recreate, in_json=asked.json)
    if not machine.privileged:
        sys.stderr.write(f"azure-init: {NOT_ROOT}\n")
    context = _context(machine, config)
    if asked.command == "plan":
        return plan(context, in_json=asked.json)
    return status(context, in_json=asked.json)


def status(context: Context, *, in_json: bool) -> int:
    """Also on a machine that is not on Azure, and without a VM id: then there is no plan."""
    identity = identify(context, end_if_done=False)
    if identity.instance is None or why_not_ours(context, beside_cloud_init=True) is not None:
        found = Look(facts=read_disk_facts(context.machine, context.config.disk, ()), sets=(), plan=())
    else:
        found = look(context, identity.instance)
    rows = disk_status(found.facts, found.sets, found.plan)
    if in_json:
        sys.stdout.write(rows_as_json(rows))
        return 0
    sys.stdout.write(rows_as_text(rows))
    if found.facts.disks:
        sys.stdout.write(boot_remark(context))
    return 0


def plan(context: Context, *, in_json: bool) -> int:
    reason = why_not_ours(context, beside_cloud_init=True)
    if reason is not None:
        raise LocalError(f"no plan: {reason}")
    instance = instance_of(context, identify(context, end_if_done=False))
    check_file(context)
    made = look(context, instance).plan
    if in_json:
        sys.stdout.write(as_json(made))
        return 0
    text = as_text(made, privileged=context.machine.privileged)
    sys.stdout.write(f"{text}{boot_remark(context)}" if made else NOTHING)
    return 0


def boot_remark(context: Context) -> str:
    """Why a boot does not do what `disk setup` does; empty if it does."""
    if context.config.disk.setup != "auto":
        return "disk.setup is off: a boot sets up no temporary disk. azure-init disk setup does it now.\n"
    enabled = read_other_service(context.machine, UNIT)
    if enabled:
        return f"A boot leaves temporary disks to azure-vm-utils, whose service is enabled:\n{enabled}\n"
    return ""


def setup(machine: Machine, config: Config, *, recreate: bool, in_json: bool) -> int:
    """Whatever disk.setup says: the operator asks for it now."""
    from azureinit.machine.this_process import set_umask

    if not machine.privileged:
        raise LocalError("disk setup needs root", hint="azure-init disk plan shows what would be done")
    set_umask()
    context = make_context(machine, config, started=machine.clock.monotonic(), stage="disk")
    reason = why_not_ours(context, beside_cloud_init=True)
    if reason is not None:
        raise LocalError(f"no disk is set up: {reason}")
    try:
        code = set_up(context, identify(context, end_if_done=False), recreate=recreate)
    finally:
        context.events.flush()
    status(_context(machine, config), in_json=in_json)
    return code


def _context(machine: Machine, config: Config) -> Context:
    """For a look: warnings go to standard error, and nothing is written anywhere."""
    chosen = Filter(level=WARN, targets={})
    events = Events(clock=machine.clock, listeners=(stream_listener(sys.stderr.write, chosen=chosen, colour=False),))
    return Context(machine=machine, config=config, events=events, started=machine.clock.monotonic())


# ---- the table


def rows_as_json(rows: tuple[DiskStatus, ...]) -> str:
    return json.dumps([row.as_dict() for row in rows], indent=2) + "\n"


def rows_as_text(rows: tuple[DiskStatus, ...]) -> str:
    if not any(row.temporary for row in rows):
        rest = "".join(f"{line}\n" for line in _table(rows)) if rows else ""
        return f"{rest}{NOTHING}"
    return "".join(f"{line}\n" for line in _table(rows))


def _table(rows: tuple[DiskStatus, ...]) -> Iterator[str]:
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(HEADINGS))]
    for row, source in zip(cells, (None, *rows)):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        if source is not None:
            yield from wrap(_sentence(source), WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)


def _cells(row: DiskStatus) -> tuple[str, ...]:
    used = ", ".join((*row.mounts, *(f"swap {path}" if path != row.path else "swap" for path in row.swaps)))
    values = (row.name, size_text(row.size), row.filesystem, row.label, used, row.owner)
    return tuple(_printable(value) for value in values)


def _sentence(row: DiskStatus) -> str:
    """What the disk is, and what happens to it."""
    what = row.what if row.temporary else f"not temporary: {row.what}"
    made_of = f" of {', '.join(row.members)}" if row.members else ""
    state = row.state + (f": {row.why}" if row.why else "")
    return _printable("; ".join(part for part in (f"{what}{made_of}", state) if part))


def _printable(text: str) -> str:
    """Labels are bytes of the disk: control characters are escaped."""
    return text if text.isprintable() else ascii(text)[1:-1]


def size_text(size: int) -> str:
    """With at most one decimal: 16 GiB, 1.7 TiB."""
    value, unit = float(size), 0
    while value >= 1024 and unit + 1 < len(UNITS):
        value, unit = value / 1024, unit + 1
    return f"{value:.1f}".removesuffix(".0") + f" {UNITS[unit]}"
