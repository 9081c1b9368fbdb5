"""What a boot does for the machine beside what was asked for. It can fail only into the log."""

from __future__ import annotations

from azureinit.errors import AzureInitError, LockTimeout
from azureinit.telemetry.events import DEBUG, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.plan.actions import Plan, Step
    from azureinit.report.goalstate import Fetch
    from azureinit.run.engine import Walk

FINGERPRINT_SECS = START_SECS = 10.0
MOUNT_SECS = 100.0  # systemd gives a device 90 s to appear
MONITOR = "azure-init-hostname.service"
RESEND = "azure-init-resend.service"


def grow(walk: Walk) -> None:
    """Room behind the root partition is taken, in every boot."""
    try:
        plan = growth(walk)
        if plan:
            _apply(walk, plan)
    except Exception as error:  # noqa: BLE001 - nothing that was asked for depends on it
        walk.events.tell(WARN, "root file system", f"{type(error).__name__}: {error}")


def growth(walk: Walk) -> Plan:
    if not walk.config.disk.grow_root or walk.machine.rooted or not walk.machine.privileged:
        return ()
    from azureinit.facts.disks import read_root_disk

    disk = read_root_disk(walk.machine)
    if disk is not None and disk.not_ours:
        walk.events.tell(DEBUG, "root file system", f"not grown: {disk.not_ours}")
    if disk is None or not disk.grows:
        return ()
    from azureinit.plan.grow import plan_grow

    return plan_grow(disk)


def finish_after_ready(walk: Walk) -> None:
    """What an earlier boot could not do after Ready, such as the RSA host key; the marker says that there is some."""
    from azureinit.memory.instance import is_unfinished, prepare

    if walk.instance is None or not is_unfinished(walk.machine, walk.instance):
        return
    from azureinit.facts.gather import read_facts
    from azureinit.memory.journal import read_journal
    from azureinit.plan.actions import work_left
    from azureinit.plan.plan import Wanted, make_plan, parts_of
    from azureinit.plan.provision import AFTER_READY
    from azureinit.sources.metadata import Metadata

    try:
        prepare(walk.machine, walk.instance.data_dir, timeout=0)
        done = read_journal(walk.machine, walk.instance.path("journal")).done
        facts = read_facts(walk.machine, walk.config, parts_of(AFTER_READY))
        wanted = Wanted(metadata=Metadata(), config=walk.config, done=done)
        finish(walk, work_left(make_plan(AFTER_READY, wanted, facts)))
    except LockTimeout:
        pass  # the run that is at work does it
    except Exception as error:  # noqa: BLE001
        walk.events.tell(WARN, "after Ready", f"{type(error).__name__}: {error}")


def finish(walk: Walk, steps: tuple[Step, ...]) -> None:
    """Each by itself; once all of them are done and on the disk, no later boot looks for them."""
    from azureinit.machine.durable import make_durable
    from azureinit.memory.instance import is_unfinished, mark_finished

    failed = False
    for step in steps:
        try:
            _apply(walk, (step,))
        except Exception as error:  # noqa: BLE001
            failed = True
            walk.events.tell(WARN, "after Ready", f"{error}; tried again at the next boot")
    try:
        if walk.instance is not None and not failed and is_unfinished(walk.machine, walk.instance):
            make_durable(walk.machine, walk.instance.data_dir)
            mark_finished(walk.machine, walk.instance)
    except AzureInitError as error:
        walk.events.tell(WARN, "marker", str(error))


def publish(walk: Walk) -> None:
    """Where DHCP ran before we knew the host's name, Azure's DNS learns it through a renewed lease."""
    try:
        plan = publication(walk) if walk.renamed else ()
        if plan:
            _apply(walk, plan)
    except Exception as error:  # noqa: BLE001
        walk.events.tell(WARN, "publish hostname", f"{type(error).__name__}: {error}")


def publication(walk: Walk) -> Plan:
    if walk.machine.rooted or walk.metadata is None or walk.metadata.hostname is None:
        return ()
    from azureinit.facts.dhcp_client import read_dhcp_client
    from azureinit.plan.publish import plan_publish

    dhcp = read_dhcp_client(walk.machine)
    return () if dhcp is None else plan_publish(hostname=walk.metadata.hostname, dhcp=dhcp, renamed=True)


def feed_entropy(walk: Walk) -> None:
    """Before any key is made; what the kernel does not get from there, it gathers itself."""
    try:
        _apply(walk, entropy(walk))
    except Exception as error:  # noqa: BLE001
        walk.events.tell(DEBUG, "entropy", f"{type(error).__name__}: {error}")


def entropy(walk: Walk) -> Plan:
    if not walk.config.kernel.entropy or walk.machine.rooted:
        return ()
    from azureinit.facts.kernel import read_entropy
    from azureinit.plan.kernel import plan_entropy

    return plan_entropy(read_entropy(walk.machine))


def tune(walk: Walk) -> None:
    """What [kernel] asks for, in every boot: what cannot be done is no reason to leave the rest."""
    if not any(walk.config.kernel.as_dict().values()):
        return
    from azureinit.machine.service import notify
    from azureinit.plan.actions import work_left

    try:
        plan = tuning(walk)
        if work_left(plan):
            notify(walk.machine, "READY=1")  # a boot menu takes its time, and nobody's login waits for it
        for item in plan:
            try:
                _apply(walk, (item,))
            except Exception as error:  # noqa: BLE001
                walk.events.tell(WARN, item.name, f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001
        walk.events.tell(WARN, "kernel", f"{type(error).__name__}: {error}")


def tuning(walk: Walk) -> Plan:
    asked, machine = walk.config.kernel, walk.machine
    if not any(asked.as_dict().values()):
        return ()
    from azureinit.facts import kernel as facts
    from azureinit.plan import kernel as plan

    items: Plan = ()
    if asked.scsi_timeout_secs:
        rules, timeouts = facts.read_timeout_rules(machine), facts.read_timeouts(machine)
        items = plan.plan_timeouts(seconds=asked.scsi_timeout_secs, rules=rules, timeouts=timeouts)
    if asked.mask_persistent_net:
        items = (*items, *plan.plan_persistent_net(facts.read_persistent_net(machine)))
    if asked.numa_off or asked.serial_console:
        from azureinit.facts.bootloader import read_loader

        loader = read_loader(machine)
        items = (*items, *plan.plan_arguments(plan.arguments(asked, arm=loader.arm), loader))
    return items


def watch_hostname(walk: Walk) -> None:
    """By a unit of its own: this run ends, and the name may change as long as the machine runs."""
    if not walk.config.hostname.monitor or walk.machine.rooted or not walk.machine.is_dir("/run/systemd/system"):
        return
    try:
        walk.machine.run(("systemctl", "--no-block", "start", MONITOR), timeout=START_SECS).check()
    except AzureInitError as error:
        walk.events.tell(WARN, "hostname monitor", str(error))


def start_resending(walk: Walk) -> None:
    """A boot's run ends, and another unit goes on trying; where it cannot be started, the next boot starts it."""
    if walk.context.booted is None:
        return
    try:
        walk.machine.run(("systemctl", "--no-block", "start", RESEND), timeout=START_SECS).check()
    except AzureInitError as error:
        walk.events.tell(WARN, "resend", str(error))


def start_mount(machine: Machine, path: str, missing: str) -> str | None:
    """Have systemd mount what `path` lies on; the mount point that is missing all the same."""
    from azureinit.facts.mounts import missing_mount, unit_name

    until = machine.clock.monotonic() + MOUNT_SECS
    while machine.clock.monotonic() < until:
        try:
            machine.run(("systemctl", "start", unit_name(missing)), timeout=until - machine.clock.monotonic()).check()
        except AzureInitError:
            return missing
        found = missing_mount(machine, path)
        if found is None or found == missing:
            return found
        missing = found  # another one below it
    return missing


def tell_fingerprint(walk: Walk, fetch: Fetch) -> None:
    """After Ready. A platform without a goal state has no ear for it, and nothing depends on it."""
    if not walk.config.report.host_key_fingerprint or walk.facts is None or not walk.facts.ssh.installed:
        return
    try:
        told = _first_fingerprint(walk)
        if told is None:
            return
        from azureinit.report.goalstate import send_fingerprint

        clock = walk.machine.clock
        until = min(walk.context.deadline, clock.monotonic() + FINGERPRINT_SECS)
        send_fingerprint(walk.config, told, fetch=fetch, clock=clock, deadline=until, observe=walk.events.observe)
        walk.events.tell(INFO, "host key fingerprint", f"reported the host key's fingerprint {told}")
    except Exception as error:  # noqa: BLE001
        walk.events.tell(DEBUG, "host key fingerprint", f"not told: {error}")


def _first_fingerprint(walk: Walk) -> str | None:
    """Of the type that is asked for first and is there."""
    from azureinit.telemetry.console import LONGEST_KEY, fingerprint

    assert walk.facts is not None
    for kind in walk.config.ssh.host_key_types:
        for key in walk.facts.ssh.host_keys:
            public = walk.machine.read(f"{key.path}.pub", limit=LONGEST_KEY) if key.type == kind else None
            told = fingerprint(public.decode("utf-8", "replace")) if public else None
            if told is not None:
                return told.split()[1]
    return None


def _apply(walk: Walk, plan: Plan) -> None:
    from azureinit.apply.executor import apply_plan
    from azureinit.memory.journal import MemoryJournal
    from azureinit.plan.actions import Caution, work_left

    for item in plan:
        if isinstance(item, Caution):
            walk.events.tell(WARN, item.name, item.why)
    if work_left(plan):
        apply_plan(walk.machine, plan, journal=MemoryJournal(), events=walk.events, deadline=walk.context.deadline)
