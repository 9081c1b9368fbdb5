"""What needs no platform and is begun first: sshd is asked for its configuration, and missing host keys are made."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.record import Record
from azureinit.run.enact import best_effort, enact
from azureinit.run.recall import may_be_in_pool
from azureinit.telemetry.events import DEBUG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.facts.ssh import Ssh
    from azureinit.machine import Machine
    from azureinit.machine.processes import Ran
    from azureinit.machine.threads import Flag
    from azureinit.plan.actions import Step
    from azureinit.run.state import Context, Memory


class Early(Record):
    """Work that continues while the sources are asked."""

    sshd: Callable[[float], Ran] | None = None  # waits for sshd's answer
    facts: Facts | None = None
    own_keys: tuple[str, ...] = ()  # host keys that were missing: this VM's own, not the image's
    keys: tuple[Flag, ...] = ()  # set when a host key is made

    def wait(self) -> None:
        for made in self.keys:
            made.wait()


def begin_early(context: Context, memory: Memory) -> Early:
    sshd = _ask_sshd(context.machine, context.config)
    # With "always", keys made now would count as the image's and be made twice; a machine that is kept has its own.
    config = context.config
    if context.booted is None or config.ssh.regenerate_host_keys == "always":
        return Early(sshd=sshd)
    if config.platform.changed_vm_id == "keep":
        return Early(sshd=sshd)
    if memory.pool is None and may_be_in_pool(context):
        return Early(sshd=sshd)  # in a pool no host keys are made
    return _begin_host_keys(context, memory, sshd)


def _ask_sshd(machine: Machine, config: Config) -> Callable[[float], Ran] | None:
    """sshd answers while the modules of the next phases are loaded."""
    if not config.ssh.query_sshd_config or machine.rooted:
        return None
    from azureinit.facts.sshd_query import start_sshd_query

    try:
        return start_sshd_query(machine)
    except AzureInitError:
        return None  # the facts record the reason


def _begin_host_keys(context: Context, memory: Memory, sshd: Callable[[float], Ran] | None) -> Early:
    """Make missing keys before the platform answers: sshd does not start without one."""
    from azureinit.facts.gather import read_early
    from azureinit.machine.threads import start
    from azureinit.plan.actions import work_left
    from azureinit.plan.hostkeys import plan_host_keys, types_before_ready

    facts = read_early(context.machine, context.config)
    if any(key.whole for key in facts.ssh.host_keys):
        return Early(sshd=sshd, facts=facts)  # sshd starts with that one; the plan decides about others
    types = types_before_ready(context.config.ssh.host_key_types, facts.ssh)
    steps = work_left(plan_host_keys(types=types, host=facts.host, ssh=facts.ssh))
    own = record_own_keys(context, memory, facts.ssh) if steps else ()
    keys = tuple(start(_making(context, step)) for step in steps)
    return Early(sshd=sshd, facts=facts, own_keys=own, keys=keys)


def record_own_keys(context: Context, memory: Memory, ssh: Ssh) -> tuple[str, ...]:
    """Before they are made: keys that are missing now are not the image's, and are not replaced later."""
    if context.config.ssh.regenerate_host_keys != "auto" or not ssh.installed:
        return ()
    own = ssh.default_keys(whole=False)
    memory.journal.record_own_keys(context.machine, own)
    return own


def _making(context: Context, step: Step) -> Callable[[], object]:
    def make() -> None:
        enact(context.machine, (step,), events=context.events, deadline=context.deadline)

    return lambda: best_effort(context.events, step.name, make, level=DEBUG)  # the plan meets the same failure
