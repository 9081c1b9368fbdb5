"""What a boot runs beside the run itself: before the network, after a death, and when something is still to be told.

local    the medium and the host's name, before DHCP asks for an address under it; its failures are the run's to tell
failed   the run died or took too long: a failure is told, unless a verdict has left this machine already
resend   everything was done in an earlier boot, and the platform has not accepted Ready yet
hostname the name may change later on, and DNS is to know
"""

from __future__ import annotations

from azureinit.errors import AzureInitError, LockTimeout, MediaAbsent, RunDied
from azureinit.memory.instance import prepare, read_verdict
from azureinit.run.engine import AlreadyProvisioned, Walk, identify, may_change, provision, ready_is_pending, unforeseen
from azureinit.sources.identity import stand_down
from azureinit.telemetry.events import DEBUG, ERROR, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.engine import Context

HOMES = "/home"
MEDIA_SECS = 2.0  # the network waits meanwhile; a drive that is there answers at once


def run_stage(name: str, context: Context) -> int:
    """The exit code."""
    reason = stand_down(context.machine, require_azure=context.config.platform.require_azure)
    if reason is not None or not may_change(context.machine):
        if name != "local":  # the run says it
            context.events.tell(INFO, "platform", reason or "only root provisions this machine")
        return 0
    walk = Walk(context)
    walk.ends_if_done = name != "hostname"
    try:
        identify(walk)
        return {"local": local, "failed": failed, "resend": resend, "hostname": hostname}[name](walk)
    except AlreadyProvisioned:
        if name == "failed":
            context.events.tell(INFO, name, "the machine is provisioned: nothing to add")
        return 0
    except AzureInitError as error:
        context.events.tell(WARN, name, str(error))
        return 0 if name == "local" else error.exit_code
    except Exception as error:  # a defect of a stage goes to the log: the run has a verdict of its own
        context.events.tell(ERROR, name, str(unforeseen(error)))
        if name == "failed":
            raise  # the installed command has another way to tell the platform, which needs none of our modules
        return 0 if name == "local" else 1
    finally:
        context.events.flush()


def local(walk: Walk) -> int:
    from azureinit.facts.host import has_account
    from azureinit.sources.media import read_media

    unmounted = walk.context.unmounted
    if not walk.config.provisioning_media.enable or _stays(walk):
        return 0
    until = min(walk.context.work_deadline, walk.machine.clock.monotonic() + MEDIA_SECS)
    try:
        with walk.events.step("local") as span:
            path = walk.config.provisioning_media.path
            try:
                medium = read_media(
                    walk.machine, path=path, deadline=until, observe=walk.events.observe, optical_only=True
                )
            except MediaAbsent:
                span.text = "no provisioning media yet: the host name waits for IMDS"
                return 0
            if unmounted is not None and has_account(walk.machine, medium.ovf.username or ""):
                span.text = (
                    f"the host name is left to the run: {unmounted} is not mounted yet, and may say that it is set"
                )
            elif medium.ovf.hostname is not None:
                span.text = f"the host name is {set_hostname(walk, medium.ovf.hostname)}, by the provisioning media"
    except AzureInitError:
        pass  # told by the step; the run comes upon it again, and it is the run that reports
    return 0


def _stays(walk: Walk) -> bool:
    if walk.config.platform.changed_vm_id != "keep":
        return False
    if walk.context.unmounted is not None:
        return True  # what this machine was before is written there
    from azureinit.run.gather import recall, stays

    recall(walk)
    return stays(walk)


def set_hostname(walk: Walk, name: str) -> str:
    """The name it has then. Facts can see whether it is done, so that a death in between needs no journal."""
    from azureinit.apply.executor import apply_plan
    from azureinit.facts.gather import read_facts
    from azureinit.memory.journal import MemoryJournal
    from azureinit.plan.plan import LOCAL, Wanted, make_plan, parts_of
    from azureinit.sources.metadata import Metadata

    facts = read_facts(walk.machine, walk.config, ("ignition", *parts_of(LOCAL)))
    if facts.ignition is not None:
        from azureinit.memory.journal import read_journal
        from azureinit.plan.ignition import kept_hostname

        journal = None if walk.instance is None else read_journal(walk.machine, walk.instance.path("journal"))
        done = frozenset() if journal is None else journal.done
        name = kept_hostname(name, facts.names.hostname_file, facts.ignition, done=done) or name
    plan = make_plan(LOCAL, Wanted(metadata=Metadata(hostname=name), config=walk.config), facts)
    apply_plan(walk.machine, plan, journal=MemoryJournal(), events=walk.events, deadline=walk.context.work_deadline)
    unsynced = walk.machine.unsynced
    if unsynced.unknown or unsynced.directories - {walk.machine.real("/etc")}:  # the run syncs /etc itself
        from azureinit.machine.durable import make_durable

        make_durable(walk.machine, "/etc")
    return name


def failed(walk: Walk) -> int:
    from azureinit.facts.mounts import missing_mount, unit_name
    from azureinit.run.deliver import UNHEARD, deliver

    verdict = read_verdict(walk.machine)
    if verdict is not None:
        # Ready is written down before it is sent, a failure after that.
        heard = "the platform has heard it" if verdict == "failure" else "whether the platform heard it is not known"
        if verdict.endswith(UNHEARD):
            heard = "the platform has not heard it"
        walk.events.tell(INFO, "failed", f"the run ended with a verdict ({verdict}), {heard}: nothing to add")
        return 0
    homes = None if walk.machine.rooted else missing_mount(walk.machine, HOMES)
    unmounted = walk.context.unmounted or homes
    if unmounted is not None:
        # The run requires it, and so it never started. Nothing may be written below the mount point.
        hint = f"systemctl status {unit_name(unmounted)}"
        deliver(walk, RunDied(f"azure-init could not start: {unmounted} is not mounted", hint=hint))
        return 0
    try:
        prepare(walk.machine, walk.config.azure_init_data_dir.path, timeout=0)
    except LockTimeout:
        walk.events.tell(INFO, "failed", "another azure-init is running, and will report: nothing to add")
        return 0
    except AzureInitError as error:
        walk.events.tell(DEBUG, "lock", str(error))  # where nothing can be written nobody holds anything
    environ = walk.machine.environ
    how = " ".join(filter(None, (environ.get("MONITOR_SERVICE_RESULT"), environ.get("MONITOR_EXIT_STATUS"))))
    deliver(walk, RunDied(f"azure-init ended without a verdict: {how or 'the service failed'}"))
    return 0  # that the run failed is for its own unit to show


def resend(walk: Walk) -> int:
    if not ready_is_pending(walk):
        walk.events.tell(INFO, "resend", "no Ready is waiting to be reported")
        return 0
    return provision(walk.context)


def hostname(walk: Walk) -> int:
    from azureinit.run.hostname_watch import watch

    return watch(walk)
