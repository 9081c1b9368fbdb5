"""The corridor's first room: nobody else of us is at work, and what needs no platform is begun."""

from __future__ import annotations

from azureinit.errors import AzureInitError, LockTimeout
from azureinit.machine.service import is_service, notify
from azureinit.memory.instance import prepare
from azureinit.memory.journal import read_journal
from azureinit.run.engine import know
from azureinit.telemetry.events import DEBUG, INFO
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.facts.ssh import Ssh
    from azureinit.plan.actions import Step
    from azureinit.run.engine import Walk


GRACE_SECS = 5.0
TELL_SECS = 10.0


def begin(walk: Walk) -> None:
    let_logins_go_after_a_while(walk)
    data_dir = walk.config.azure_init_data_dir.path
    try:
        prepare(walk.machine, data_dir, timeout=0)
    except LockTimeout:
        walk.events.tell(INFO, "lock", "another azure-init is running: waiting for its end")
        prepare(walk.machine, data_dir, timeout=walk.context.work_deadline - walk.machine.clock.monotonic())
    know(walk, walk.vm_id)  # the run we waited for may have done it
    vm, release = walk.vm_id or "of unknown id", walk.machine.kernel_release()
    walk.events.tell(INFO, "begin", f"version {VERSION} provisions VM {vm} (Linux {release})")
    ask_sshd(walk)
    begin_host_keys(walk)


def let_logins_go_after_a_while(walk: Walk) -> None:
    """Neither another run nor a platform that does not answer holds up anybody's boot for longer than this."""
    if not is_service(walk.machine):
        return
    from azureinit.machine.threads import start

    def say() -> None:
        from azureinit.run.deliver import quiet_waagent

        with walk.quieting:
            if not walk.settles:
                quiet_waagent(walk)  # it starts now, and the plan that would tell it is still to come
        if not walk.ended:
            notify(walk.machine, "READY=1\nSTATUS=still provisioning; logins are no longer held back")

    held = walk.config.boot.hold_logins_secs
    notify(walk.machine, f"EXTEND_TIMEOUT_USEC={round((held + GRACE_SECS) * 1e6)}")  # only ever lengthens it
    start(lambda: _watch(walk, held, say))


def _watch(walk: Walk, held: float, let_go: Callable[[], None]) -> None:
    """As long as the run lasts: tells what is waited for, and lets logins go when they were held for long enough."""
    from azureinit.machine.threads import Flag

    clock, held_back = walk.machine.clock, True
    begun = clock.monotonic()
    told = begun + TELL_SECS
    while True:
        end = min(told, begun + held) if held_back else told
        Flag().wait(end - clock.monotonic())
        now = clock.monotonic()
        if held_back and now >= begun + held:
            held_back = False
            let_go()
        if now >= told:
            told = now + TELL_SECS
            _tell_what_is_waited_for(walk)


def _tell_what_is_waited_for(walk: Walk) -> None:
    waited = walk.machine.clock.monotonic() - walk.waits_since
    if not walk.waits_for or waited < TELL_SECS / 2:
        return
    from azureinit.run.waiting import tell

    try:
        tell(walk)
    except Exception as error:  # noqa: BLE001 - the run goes on, told or not
        walk.events.tell(DEBUG, "status", f"{type(error).__name__}: {error}")


def ask_sshd(walk: Walk) -> None:
    """What is in force there. It takes its time, in which everything else is loaded."""
    if walk.config.ssh.query_sshd_config and not walk.machine.rooted:
        try:
            walk.sshd = walk.machine.start(("sshd", "-G"))
        except AzureInitError:
            pass  # told when the facts are read


def begin_host_keys(walk: Walk) -> None:
    """Make missing keys before the platform answers: sshd does not start without one."""
    # With "always", keys made now would be taken for the image's and made twice; a machine that stays has its own.
    if walk.context.booted is None or walk.config.ssh.regenerate_host_keys == "always":
        return
    if walk.config.platform.changed_vm_id == "keep":
        return
    from azureinit.facts.gather import read_early
    from azureinit.machine.threads import start
    from azureinit.plan.actions import work_left
    from azureinit.plan.hostkeys import plan_host_keys, types_before_ready

    walk.early = early = read_early(walk.machine, walk.config)
    if any(key.whole for key in early.ssh.host_keys):
        return  # sshd starts with that one; whether others are asked for is for the plan to say
    types = types_before_ready(walk.config.ssh.host_key_types, early.ssh)
    steps = work_left(plan_host_keys(types=types, host=early.host, ssh=early.ssh))
    if steps:
        record_own_keys(walk, early.ssh)
    walk.keys = [start(_making(walk, step)) for step in steps]


def record_own_keys(walk: Walk, ssh: Ssh) -> None:
    """Before they are made: keys that are missing now are not the image's, and are not made anew later."""
    if walk.config.ssh.regenerate_host_keys != "auto" or not ssh.installed:
        return
    walk.own_keys = ssh.default_keys(whole=False)
    if walk.instance is not None:
        if walk.journal is None:
            walk.journal = read_journal(walk.machine, walk.instance.path("journal"))
        walk.journal.record_own_keys(walk.machine, walk.own_keys)


def _making(walk: Walk, step: Step) -> Callable[[], None]:
    from azureinit.apply.executor import apply_plan
    from azureinit.memory.journal import MemoryJournal

    def make() -> None:
        try:
            apply_plan(
                walk.machine, (step,), journal=MemoryJournal(), events=walk.events, deadline=walk.context.deadline
            )
        except Exception as error:  # noqa: BLE001 - the plan comes upon it again, and a failure is told then
            walk.events.tell(DEBUG, step.name, f"{type(error).__name__}: {error}")

    return make
