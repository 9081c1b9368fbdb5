"""`azure-init provision`, its stages and its plan: loads the configuration, and calls the run with a context."""

from __future__ import annotations

import sys

from azureinit.config.load import load
from azureinit.errors import ConfigInvalid
from azureinit.machine.service import boot_moment, is_service, notify
from azureinit.machine.this_process import set_umask
from azureinit.run import provision as run_provision, reject
from azureinit.run.stages import NOTHING, find_stage
from azureinit.run.state import Context
from azureinit.sources.identity import stand_down
from azureinit.telemetry.listen import listen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.cli.words import Invocation
    from azureinit.config.model import Config
    from azureinit.machine import Machine
    from azureinit.plan.actions import Plan
    from azureinit.telemetry.events import Events


def provision(invocation: Invocation, machine: Machine) -> int:
    set_umask()
    started = machine.clock.monotonic()
    try:
        loaded = load(machine, config=invocation.config, groups=invocation.groups)
    except ConfigInvalid as error:
        from azureinit.config.load import load_usable

        if invocation.stage and invocation.stage != "failed":
            raise  # the run fails for the same reason, and reports it
        usable = load_usable(machine, config=invocation.config, groups=invocation.groups)
        context = make_context(machine, usable, started=started, stage=invocation.stage)
        if not invocation.stage:
            return reject(context, error)
    else:
        context = make_context(machine, loaded.config, started=started, stage=invocation.stage)
        for warning in loaded.warnings:
            context.events.tell(30, "config", warning)
    if invocation.stage:
        from azureinit.run.dispatch import run_stage

        return run_stage(invocation.stage, context)
    status = run_provision(context)
    if status == 0:
        notify(machine, "READY=1")  # some runs end before they send it; sending it twice is harmless
    return status


def make_plan(machine: Machine, config: Config, events: Events) -> Plan:
    """What a run would do, as `azure-init plan` shows it."""
    from azureinit.run.show import whole_plan

    return whole_plan(Context(machine=machine, config=config, events=events, started=machine.clock.monotonic()))


def make_context(machine: Machine, config: Config, *, started: float, stage: str) -> Context:
    require, beside = config.platform.require_azure, find_stage(stage).beside_cloud_init
    ours = stand_down(machine, require_azure=require, beside_cloud_init=beside) is None
    data = log = None
    if ours and (stage or is_service(machine)):
        from azureinit.cli.mounts import wait_for_mounts

        data, log = wait_for_mounts(machine, config, stage)
    listening = listen(
        machine,
        config,
        write=sys.stderr.write,
        ours=ours,
        verdict=find_stage(stage).tells != NOTHING,
        to_host=find_stage(stage).to_host,
        trace=data is None,
        log=log is None,
    )
    return Context(
        machine=machine,
        config=config,
        events=listening.events,
        started=started,
        kvp=listening.kvp,
        otlp=listening.otlp,
        booted=boot_moment(machine) if is_service(machine) else None,
        unmounted=data,
    )
