"""The executor: carries out a plan's steps. It knows Actions only, not features."""

from __future__ import annotations

from azureinit.errors import (
    AzureInitError,
    DeadlineExceeded,
    LocalError,
    PlanStale,
    SubprocessFailed,
    SubprocessTimeout,
)
from azureinit.machine import KERNEL, MOST_BYTES
from azureinit.machine.durable import sync_elsewhere, sync_files
from azureinit.machine.files import without_links
from azureinit.plan.actions import (
    Declined,
    EditLine,
    EditLink,
    Link,
    Locked,
    MakeDir,
    OnDevices,
    Post,
    Remove,
    Run,
    SetHostname,
    Step,
    Write,
)
from azureinit.record import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.machine.processes import Ran
    from azureinit.memory.journal import Journal
    from azureinit.plan.actions import Action, Plan
    from azureinit.telemetry.events import Events

LOCK_TIMEOUT = 15.0  # as long as shadow-utils wait
CLEANUP_TIMEOUT = 10.0


def apply_plan(machine: Machine, plan: Plan, *, journal: Journal, events: Events, deadline: float) -> None:
    """Apply every step in order. A step that every backend fails raises StepFailed with all their errors."""
    journal.open_run(machine, plan)
    for item in plan:
        if isinstance(item, Step):
            with events.step(item.name) as span:
                if machine.clock.monotonic() >= deadline:
                    raise DeadlineExceeded(f"no time was left for {item.name}", step=item.name)
                apply_step(machine, item, journal=journal, deadline=deadline)
                span.text = item.did or f"{item.name}: {item.why}"
    journal.close_run()


def apply_step(machine: Machine, step: Step, *, journal: Journal, deadline: float) -> str:
    """Apply one step; returns the name of the backend that succeeded."""
    failures: dict[str, AzureInitError] = {}
    for way in step.ways:
        if isinstance(way, Declined):
            failures[way.backend] = LocalError(f"declined: {way.why}")
            continue
        try:
            for action in way.actions:
                perform(machine, action, journal=journal, deadline=deadline)
        except PlanStale:
            raise  # no backend can help: the plan must be made again
        except AzureInitError as error:
            failures[way.backend] = error
            continue
        if step.once:
            journal.record_done(step.name, backend=way.backend)
        return way.backend
    raise step.failure(step.name, failures)


def perform(machine: Machine, action: Action, *, journal: Journal, deadline: float = float("inf")) -> None:
    if isinstance(action, (Write, MakeDir, Link, Remove)):
        _check_place(machine, action.path)
    PERFORM[type(action)](machine, action, journal, deadline)


def _check_place(machine: Machine, path: str) -> None:
    """A tree has no /dev, /proc and /sys of its own: those paths are the running system's."""
    if machine.rooted and machine.kernel == "/" and path.startswith(KERNEL):
        raise LocalError(f"{path} belongs to the running system, not to {machine.root}: nothing is written there")


def _run(machine: Machine, action: Run, journal: Journal, deadline: float) -> None:
    timeout = min(action.timeout, deadline - machine.clock.monotonic())
    stdin = action.stdin.reveal() if action.stdin else b""
    _clean_up(machine, action)
    ended = False
    try:
        ran = _start(machine, action, journal, stdin=stdin, timeout=timeout)
        ended = True
    except SubprocessTimeout as error:
        reached = _reached(machine, action)
        raise SubprocessTimeout(f"{reached}: {error}", command=action.argv[0]) if reached else error from error
    finally:
        if not ended:  # the timeout, or SIGTERM
            _clean_up(machine, action)
        journal.record_program_ended()
    if ran.status and action.makes is not None and machine.stat(action.makes) is not None:
        shown = machine.shown(action.makes)
        raise PlanStale(f"{shown} appeared while provisioning: {ran.told}", path=shown)
    reached = _reached(machine, action) if ran.status else ""
    if reached:
        text = f"{reached} ({ran.ending}): {ran.told}"
        raise SubprocessFailed(text, command=action.argv[0].rpartition("/")[2], exit_status=ran.ending)
    ran.check()
    if action.makes is not None:
        made = machine.real(action.makes)
        sync_files((made, f"{made}.pub"))
        if machine.read_link(action.makes) is not None:  # the program wrote to the link's target
            machine.unsynced.changed(without_links(made))
        machine.unsynced.changed(made)
    elif action.changes:
        machine.unsynced.unknown = True


def _start(machine: Machine, action: Run, journal: Journal, *, stdin: bytes, timeout: float) -> Ran:
    begun = journal.record_program
    if action.says:
        from azureinit.apply.output import run_and_quote

        return run_and_quote(machine, action, stdin=stdin, timeout=timeout, begun=begun)
    env = dict(action.env)
    return machine.run(action.argv, stdin=stdin, timeout=timeout, env=env, output=action.output, begun=begun)


def _reached(machine: Machine, action: Run) -> str:
    """The last line of the program's progress."""
    data = machine.read(action.progress, limit=MOST_BYTES) if action.progress is not None else None
    return (data or b"").rstrip(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")


def _clean_up(machine: Machine, action: Run) -> None:
    """End the processes that an earlier or late run left. Usually there are none, and the commands fail."""
    for argv in action.cleanup or ():
        try:
            machine.run(argv, timeout=CLEANUP_TIMEOUT)
        except AzureInitError:
            return


def _write(machine: Machine, action: Write, journal: Journal, deadline: float) -> None:
    looked_at = action.was is not None or action.check is not None
    before = machine.read(action.path, beneath=action.beneath) if looked_at else None
    if action.was is not None and before != _bytes(action.was):
        shown = machine.shown(action.path)
        raise PlanStale(f"{shown} changed while provisioning", path=shown)
    if action.path.startswith(KERNEL):
        from azureinit.machine.kernel import write_in_place

        write_in_place(machine, action.path, _bytes(action.data))
        return
    old = machine.stat(action.path) if action.check is not None else None
    link = machine.read_link(action.path) if action.check is not None else None
    machine.write(
        action.path,
        _bytes(action.data),
        mode=action.mode,
        owner=action.owner,
        beneath=action.beneath,
        sync=not action.unsynced,
    )
    if action.check is None:
        return
    try:
        perform(machine, action.check, journal=journal, deadline=deadline)
    except AzureInitError:
        if before is None or old is None:
            machine.remove(action.path)
        elif link is not None and machine.read_link(action.path) is None:  # a link into /usr, which is never written to
            machine.symlink(action.path, link)
        else:
            owner = f"{old.st_uid}:{old.st_gid}"
            machine.write(action.path, before, mode=old.st_mode & 0o7777, owner=owner, beneath=action.beneath)
        raise


def _make_dir(machine: Machine, action: MakeDir, _journal: Journal, _deadline: float) -> None:
    if action.kept:
        machine.make_dirs(action.path, mode=action.mode)
        return
    machine.make_dir(action.path, mode=action.mode, owner=action.owner, beneath=action.beneath)


def _link(machine: Machine, action: Link, _journal: Journal, _deadline: float) -> None:
    machine.symlink(action.path, action.target, owner=action.owner, beneath=action.beneath)


def _remove(machine: Machine, action: Remove, _journal: Journal, _deadline: float) -> None:
    if not action.whole:
        machine.remove(action.path)
        return
    from azureinit.machine.trees import remove_tree

    remove_tree(machine, action.path)


def _set_hostname(machine: Machine, action: SetHostname, _journal: Journal, _deadline: float) -> None:
    machine.set_hostname(action.name)


def _locked(machine: Machine, action: Locked, journal: Journal, deadline: float) -> None:
    from azureinit.apply.edit import edited
    from azureinit.machine.locks import account_locks

    files: dict[str, list[EditLine]] = {}
    for edit in action.edits:
        files.setdefault(edit.path, []).append(edit)
    left = deadline - machine.clock.monotonic()
    timeout, patience = min(LOCK_TIMEOUT, left), left if left < float("inf") else LOCK_TIMEOUT
    with account_locks(machine, tuple(files), timeout=timeout, patience=patience, record=journal.record_locks):
        # Compute all edits before writing any, so that a stale plan changes nothing.
        contents = {path: (machine.read(path, limit=MOST_BYTES) or b"") for path in files}
        results = {path: edited(contents[path], edits, path=machine.shown(path)) for path, edits in files.items()}
        for inner in action.first:
            perform(machine, inner, journal=journal, deadline=deadline)
        sync_elsewhere(machine, "/etc")  # the account's home is durable before the account
        for path, data in results.items():
            if data == contents[path]:
                continue
            if machine.stat(path) is not None:
                machine.keep(path, f"{path}-")
            machine.write(path, data)


def _on_devices(machine: Machine, action: OnDevices, journal: Journal, deadline: float) -> None:
    from azureinit.apply.devices import on_devices

    on_devices(machine, action, perform=lambda inner: perform(machine, inner, journal=journal, deadline=deadline))


def _post(machine: Machine, action: Post, _journal: Journal, deadline: float) -> None:
    from azureinit.apply.post import post

    post(machine, action, deadline=deadline)


def _edit_link(machine: Machine, action: EditLink, _journal: Journal, _deadline: float) -> None:
    from azureinit.machine.network_changes import Rule

    if action.name:
        known = {(link.index, link.mac) for link in machine.read_links()}
        if (action.index, action.mac) not in known:
            raise PlanStale(f"{action.name} is not the link with the MAC address {action.mac} any more")
        machine.change_addresses(action.index, add=action.add, remove=action.remove)
    machine.remove_rules(
        tuple(
            Rule(family=6 if ":" in source else 4, source=source, prefix=prefix, table=table, priority=priority)
            for source, prefix, table, priority in action.rules
        )
    )


def _bytes(data: bytes | Secret) -> bytes:
    return data.reveal() if isinstance(data, Secret) else data


PERFORM: dict[type, Callable[[Machine, Any, Journal, float], None]] = {
    Run: _run,
    Write: _write,
    MakeDir: _make_dir,
    Link: _link,
    Remove: _remove,
    SetHostname: _set_hostname,
    Locked: _locked,
    OnDevices: _on_devices,
    Post: _post,
    EditLink: _edit_link,
}
