"""What follows Ready in the first boot, and what every later boot does. No verdict depends on it."""

from __future__ import annotations

from azureinit.errors import AzureInitError, LockTimeout
from azureinit.record import replace
from azureinit.run.enact import best_effort
from azureinit.run.maintenance import AFTER_READY, BOOT, LAST, RENAMED, SERVE, Situation, maintain, plan_due
from azureinit.telemetry.events import DEBUG, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.facts.ssh import Ssh
    from azureinit.memory.instance import Instance
    from azureinit.run.platform import Platform
    from azureinit.run.state import Context, Identity, Settled

FINGERPRINT_SECS = 10.0


def finish(context: Context, settled: Settled, *, platform: Platform) -> None:
    """The platform has accepted Ready: the marker first, so that a crash from here on provisions nothing again."""
    from azureinit.run.desired import is_provisioned_anew

    at = situation_of(context, settled)
    due: tuple[str, ...] = (BOOT,)
    if is_provisioned_anew(settled.asked):
        due = (BOOT, AFTER_READY, *((RENAMED,) if settled.renamed else ()))
    instance = settled.asked.identity.instance
    if instance is not None:
        _mark(context, instance, unfinished=AFTER_READY in due and _has_work(context, at))
    failed = maintain(context, due, at)
    if instance is not None and AFTER_READY not in failed:
        _mark_finished(context, instance)
    platform.add_routes_again()

    def report() -> None:
        _report_fingerprint(context, settled, platform)

    best_effort(context.events, "host key fingerprint", report, level=DEBUG)
    maintain(context, (LAST,), at)


def situation_of(context: Context, settled: Settled) -> Situation:
    metadata = settled.asked.metadata
    return Situation(
        machine=context.machine,
        config=context.config,
        hostname=metadata.hostname if metadata is not None else None,  # customData's, where it has chosen one
        facts=settled.facts,
        done=settled.asked.memory.journal.done,
        instance=settled.asked.identity.instance,
        network=metadata.network if metadata is not None else None,
    )


def keep_up(
    context: Context, identity: Identity, *, starts: bool = True, network: Mapping[str, Any] | None = None
) -> int:
    """For a provisioned machine: the jobs of every boot, and those after Ready that failed in an earlier boot.

    `starts`: also the stages of customData, where they are due. `network`: IMDS's, if this run has asked.
    """
    at = Situation(machine=context.machine, config=context.config, instance=identity.instance, network=network)
    if starts:
        maintain(context, (SERVE,), at)
    due: tuple[str, ...] = (BOOT,)
    done = _recall_unfinished(context, identity.instance)
    if done is not None:
        at, due = replace(at, done=done), (BOOT, AFTER_READY)
    failed = maintain(context, due, at)
    if done is not None and identity.instance is not None and AFTER_READY not in failed:
        _mark_finished(context, identity.instance)
    maintain(context, (LAST,), at)
    return 0


def _recall_unfinished(context: Context, instance: Instance | None) -> frozenset[str] | None:
    """The steps in the journal, if the marker shows that work is left; None if not, or if another run does it."""
    if instance is None:
        return None
    from azureinit.memory.instance import is_unfinished, prepare

    if not is_unfinished(context.machine, instance):
        return None
    from azureinit.memory.journal import read_journal

    try:
        prepare(context.machine, instance.data_dir, timeout=0)
        return read_journal(context.machine, instance.path("journal")).done
    except LockTimeout:
        return None
    except AzureInitError as error:
        context.events.tell(WARN, "after Ready", str(error))
        return None


def _has_work(context: Context, at: Situation) -> bool:
    from azureinit.plan.actions import work_left

    found: list[bool] = []
    planned = best_effort(
        context.events, "after Ready", lambda: found.append(bool(work_left(plan_due((AFTER_READY,), at))))
    )
    return not planned or found[0]


def _mark(context: Context, instance: Instance, *, unfinished: bool) -> None:
    from azureinit.memory.instance import mark_provisioned

    try:
        mark_provisioned(context.machine, instance, unfinished=unfinished)
    except AzureInitError as error:  # the next start finds nothing to do, and reports Ready once more
        context.events.tell(WARN, "marker", str(error))


def _mark_finished(context: Context, instance: Instance) -> None:
    from azureinit.machine.durable import make_durable
    from azureinit.memory.instance import is_unfinished, mark_finished

    try:
        if is_unfinished(context.machine, instance):
            make_durable(context.machine, instance.data_dir)
            mark_finished(context.machine, instance)
    except AzureInitError as error:
        context.events.tell(WARN, "marker", str(error))


def _report_fingerprint(context: Context, settled: Settled, platform: Platform) -> None:
    """Send it to the wireserver. A platform without a goal state cannot receive it."""
    if not context.config.report.host_key_fingerprint or not settled.facts.ssh.installed:
        return
    found = _first_fingerprint(context, settled.facts.ssh)
    if found is None:
        return
    from azureinit.report.goalstate import send_fingerprint

    clock, events = context.machine.clock, context.events
    until = min(context.deadline, clock.monotonic() + FINGERPRINT_SECS)
    send_fingerprint(
        platform.config, found, fetch=platform.goal_state, clock=clock, deadline=until, observe=events.observe
    )
    events.tell(INFO, "host key fingerprint", f"reported the host key's fingerprint {found}")


def _first_fingerprint(context: Context, ssh: Ssh) -> str | None:
    """The fingerprint of the first configured type that has a key."""
    from azureinit.telemetry.console import LONGEST_KEY, fingerprint

    for kind in context.config.ssh.host_key_types:
        for key in ssh.host_keys:
            public = context.machine.read(f"{key.path}.pub", limit=LONGEST_KEY) if key.type == kind else None
            found = fingerprint(public.decode("utf-8", "replace")) if public else None
            if found is not None:
                return found.split()[1]
    return None
