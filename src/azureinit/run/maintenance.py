"""Jobs of every boot, beside the platform's request. A failure of a job is logged and changes no verdict.

A job is a row: when it is due, the facts it reads, the planner that turns them into steps. The first boot, later boots
and `azure-init plan` all read these rows.
"""

from __future__ import annotations

from azureinit.record import Record
from azureinit.run.enact import best_effort, each_by_itself, enact, tell_cautions
from azureinit.run.network_jobs import (
    RECORD,
    plan_later_network,
    plan_lone_nics,
    read_lone_nics,
    read_network,
    read_wrong_way,
)
from azureinit.run.stages import find_stage
from azureinit.run.userdata_jobs import plan_stages, plan_user_data, read_custom_data, read_user_data
from azureinit.telemetry.events import DEBUG, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.machine import Machine
    from azureinit.memory.instance import Instance
    from azureinit.plan.actions import Plan
    from azureinit.run.state import Context

START = "at the start of the run"
SERVE = "in every boot of a provisioned machine, before logins"
BOOT = "in every boot, after the verdict"
LAST = "in every boot, last: it may take long, and logins do not wait for it"
RENAMED = "after a verdict, where the host name changed"
AFTER_READY = "after Ready, until it is done"
BEFORE_READY = "before Ready, where the way to the platform is wrong"
MONITOR, WATCH = find_stage("hostname").unit, find_stage("addresses").unit
DISK_UNIT, RUN_UNIT = find_stage("disk").unit, find_stage("provision").unit


class Situation(Record):
    """What a row may read. `facts` and the fields after it are set only in a run that provisions."""

    machine: Machine
    config: Config
    hostname: str | None = None
    facts: Facts | None = None
    done: frozenset[str] = frozenset()
    own_keys: frozenset[str] | None = None
    instance: Instance | None = None
    network: Mapping[str, Any] | None = None  # IMDS's, if this run has asked


class Job(Record):
    name: str
    when: str
    wanted: Callable[[Config], object]
    facts: Callable[[Situation], Any]  # None where there is nothing to plan for
    planner: Callable[[Situation, Any], Plan]
    on_tree: bool = False  # also done under --root
    apart: bool = False  # its steps do not depend on each other: one that fails does not stop the rest
    record: str = ""  # the name of its steps without which the others are not done: see each_by_itself
    level: int = WARN  # of the log line for a failure


def _read_entropy(at: Situation) -> object:
    from azureinit.facts.kernel import read_entropy

    return read_entropy(at.machine)


def _plan_entropy(_at: Situation, entropy: Any) -> Plan:
    from azureinit.plan.kernel import plan_entropy

    return plan_entropy(entropy)


def _read_root_disk(at: Situation) -> object:
    from azureinit.facts.disks import is_grow_off, read_root_disk

    if at.instance is not None and is_grow_off(at.machine, at.instance.path("d")):
        return None
    return read_root_disk(at.machine) if at.machine.privileged else None


def _plan_root_disk(_at: Situation, disk: Any) -> Plan:
    from azureinit.plan.grow import plan_grow

    if disk.not_ours:
        from azureinit.plan.actions import Satisfied

        return (Satisfied(name="root file system", why=f"not grown: {disk.not_ours}"),)
    return plan_grow(disk)


def _read_dhcp_client(at: Situation) -> object:
    from azureinit.facts.dhcp_client import read_dhcp_client

    return None if at.hostname is None else read_dhcp_client(at.machine)


def _plan_publication(at: Situation, client: Any) -> Plan:
    from azureinit.plan.publish import plan_publish

    return plan_publish(hostname=at.hostname or "", dhcp=client, renamed=True)


def _read_host_keys(at: Situation) -> object:
    from azureinit.facts.ssh import are_keys_chosen

    if at.instance is not None and are_keys_chosen(at.machine, at.instance.path("d")):
        return None
    if at.facts is not None:
        return at.facts
    from azureinit.facts.gather import read_facts
    from azureinit.plan.plan import parts_of
    from azureinit.plan.provision import AFTER_READY

    return read_facts(at.machine, at.config, parts_of(AFTER_READY))


def _plan_later_host_keys(at: Situation, facts: Any) -> Plan:
    from azureinit.plan.plan import Wanted, make_plan
    from azureinit.plan.provision import AFTER_READY
    from azureinit.sources.metadata import Metadata

    wanted = Wanted(metadata=Metadata(), config=at.config, done=at.done, own_keys=at.own_keys)
    return make_plan(AFTER_READY, wanted, facts)


def _is_running(machine: Machine, unit: str) -> bool | None:
    if not machine.is_dir("/run/systemd/system"):
        return None
    return machine.stat(f"/run/systemd/units/invocation:{unit}", follow=False) is not None


def _plan_monitor(_at: Situation, running: Any) -> Plan:
    from azureinit.plan.units import plan_monitor

    return plan_monitor("hostname monitor", unit=MONITOR, running=running, key="hostname.monitor")


def _plan_watch(_at: Situation, running: Any) -> Plan:
    from azureinit.plan.units import plan_monitor

    return plan_monitor("network watch", unit=WATCH, running=running, key="network.watch")


def _read_timeouts(at: Situation) -> object:
    from azureinit.facts.kernel import read_timeout_rules, read_timeouts

    return read_timeout_rules(at.machine), read_timeouts(at.machine)


def _plan_timeouts(at: Situation, found: Any) -> Plan:
    from azureinit.plan.kernel import plan_timeouts

    return plan_timeouts(seconds=at.config.kernel.scsi_timeout_secs, rules=found[0], timeouts=found[1])


def _read_persistent_net(at: Situation) -> object:
    from azureinit.facts.kernel import read_persistent_net

    return read_persistent_net(at.machine)


def _plan_persistent_net(_at: Situation, rules: Any) -> Plan:
    from azureinit.plan.kernel import plan_persistent_net

    return plan_persistent_net(rules)


def _read_loader(at: Situation) -> object:
    from azureinit.facts.bootloader import read_loader

    return read_loader(at.machine)


def _plan_arguments(at: Situation, loader: Any) -> Plan:
    from azureinit.plan.kernel import arguments, plan_arguments

    return plan_arguments(arguments(at.config.kernel, arm=loader.arm), loader)


def _read_disk_service(at: Situation) -> object:
    from azureinit.facts.disk_services import is_masked, is_started

    started = is_started(at.machine, DISK_UNIT, by=RUN_UNIT)
    return None if started is None else (started, is_masked(at.machine, DISK_UNIT))


def _plan_disk_service(_at: Situation, found: Any) -> Plan:
    from azureinit.plan.units import plan_disk_service

    started, masked = found
    return plan_disk_service(unit=DISK_UNIT, started=started, masked=masked)


def _carries_out(config: Config) -> bool:
    return config.userdata.enabled and not config.custom_data.execute


MAINTENANCE: tuple[Job, ...] = (
    Job(
        name="customData",
        when=SERVE,
        wanted=_carries_out,
        facts=read_custom_data,
        planner=plan_stages,
    ),
    Job(
        name="entropy",
        when=START,
        wanted=lambda config: config.kernel.entropy,
        facts=_read_entropy,
        planner=_plan_entropy,
        level=DEBUG,  # the kernel collects entropy itself
    ),
    # At the start: WALinuxAgent waits for the unit only if it is queued before the run's own service is ready.
    Job(
        name="temporary disks",
        when=START,
        wanted=lambda config: config.disk.setup == "auto",
        facts=_read_disk_service,
        planner=_plan_disk_service,
    ),
    # At the start: such a NIC may be the only way to the platform.
    Job(
        name="NICs without a synthetic twin",
        when=START,
        wanted=lambda config: config.network.configure,
        facts=read_lone_nics,
        planner=plan_lone_nics,
        apart=True,
    ),
    Job(
        name="root file system",
        when=BOOT,
        wanted=lambda config: config.disk.grow_root,
        facts=_read_root_disk,
        planner=_plan_root_disk,
    ),
    Job(
        name="publish hostname",
        when=RENAMED,
        wanted=lambda _config: True,
        facts=_read_dhcp_client,
        planner=_plan_publication,
    ),
    Job(
        name="host keys after Ready",
        when=AFTER_READY,
        wanted=lambda _config: True,
        facts=_read_host_keys,
        planner=_plan_later_host_keys,
        on_tree=True,
        apart=True,
    ),
    Job(
        name="hostname monitor",
        when=BOOT,
        wanted=lambda config: config.hostname.monitor,
        facts=lambda at: _is_running(at.machine, MONITOR),
        planner=_plan_monitor,
    ),
    Job(
        name="network before Ready",
        when=BEFORE_READY,
        wanted=lambda config: config.network.configure,
        facts=read_wrong_way,
        planner=plan_later_network,
        apart=True,
        record=RECORD,
    ),
    Job(
        name="network",
        when=LAST,
        wanted=lambda config: config.network.configure,
        facts=read_network,
        planner=plan_later_network,
        on_tree=True,
        apart=True,
        record=RECORD,
    ),
    # After the row above: both change the same files.
    Job(
        name="network watch",
        when=LAST,
        wanted=lambda config: config.network.watch and config.network.configure,
        facts=lambda at: _is_running(at.machine, WATCH),
        planner=_plan_watch,
    ),
    Job(
        name="userData",
        when=LAST,
        wanted=lambda config: _carries_out(config) and not config.userdata.refresh,
        facts=read_user_data,
        planner=plan_user_data,
        level=DEBUG,  # IMDS does not answer
    ),
    Job(
        name="disk timeout",
        when=LAST,
        wanted=lambda config: config.kernel.scsi_timeout_secs,
        facts=_read_timeouts,
        planner=_plan_timeouts,
        on_tree=True,
        apart=True,
    ),
    Job(
        name="persistent net rules",
        when=LAST,
        wanted=lambda config: config.kernel.mask_persistent_net,
        facts=_read_persistent_net,
        planner=_plan_persistent_net,
        on_tree=True,
        apart=True,
    ),
    Job(
        name="kernel arguments",
        when=LAST,
        wanted=lambda config: config.kernel.numa_off or config.kernel.serial_console,
        facts=_read_loader,
        planner=_plan_arguments,
        on_tree=True,
        apart=True,
    ),
)


def plan_due(due: tuple[str, ...], at: Situation) -> Plan:
    return tuple(item for job in MAINTENANCE if job.when in due for item in plan_job(job, at))


def plan_job(job: Job, at: Situation) -> Plan:
    if not job.wanted(at.config) or (at.machine.rooted and not job.on_tree):
        return ()
    facts = job.facts(at)
    return () if facts is None else job.planner(at, facts)


def maintain(context: Context, due: tuple[str, ...], at: Situation) -> frozenset[str]:
    """Do the jobs that are due, in the order of the rows. Returns when those that failed were due."""
    return frozenset(job.when for job in MAINTENANCE if job.when in due and not _do(context, job, at))


def _do(context: Context, job: Job, at: Situation) -> bool:
    outcome: list[bool] = []
    then = "tried again at the next boot" if job.when in (BOOT, AFTER_READY, LAST) else ""

    def do(name: str, plan: Plan) -> bool:
        return best_effort(context.events, name, _enacting(context, plan), level=job.level, then=then)

    def work() -> None:
        plan = plan_job(job, at)
        if not plan:
            return
        from azureinit.plan.actions import work_left

        if job.when == LAST and work_left(plan):
            from azureinit.machine.service import notify

            notify(context.machine, "READY=1")
        tell_cautions(plan, context.events)
        if job.apart:
            outcome.append(each_by_itself(work_left(plan), lambda step: do(step.name, (step,)), record=job.record))
        else:
            outcome.append(do(plan[0].name if len(plan) == 1 else job.name, plan))

    return best_effort(context.events, job.name, work, level=job.level, then=then) and all(outcome)


def _enacting(context: Context, plan: Plan) -> Callable[[], object]:
    return lambda: enact(context.machine, plan, events=context.events, deadline=context.deadline)
