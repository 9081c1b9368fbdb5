"""The network beyond one NIC with one address: IMDS's answer, the facts, and the plan that follows.
The row in maintenance.py and the service that follows changes at run time both come here.
"""

from __future__ import annotations

from azureinit.addresses import host_of
from azureinit.errors import AzureInitError
from azureinit.facts.nics import has_several_nics, read_nics
from azureinit.machine.service import notify
from azureinit.memory.network import read_kept
from azureinit.plan.network import is_way_wrong, plan_network, takes_away
from azureinit.plan.network_answers import is_same
from azureinit.plan.network_record import Asked
from azureinit.record import replace
from azureinit.sources.network_metadata import NetworkMetadata, parse_network, query_network
from azureinit.sources.route import wait_for_route

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.config.model import Config
    from azureinit.machine import Machine
    from azureinit.memory.instance import Instance
    from azureinit.plan.actions import Plan

ROUTE_SECS, ANSWER_SECS = 60.0, 15.0
PAUSE = 1.0  # between two answers: IMDS allows five requests a second, for all programs of the VM


def read_asked(
    machine: Machine, config: Config, instance: Instance | None, network: Mapping[str, Any] | None
) -> Asked | None:
    """None: nothing is to be planned. `network`: IMDS's document, if this run has it.

    Without it, which is in every boot but the first, IMDS is asked where more than one NIC is here or an earlier run
    configured something. If IMDS is silent, everything stays as it is.
    """
    kept = read_kept(machine, instance)
    if network is None:
        if machine.rooted or (kept.data is None and not has_several_nics(machine)):
            return None
        notify(machine, "READY=1")  # no login waits for IMDS
        answer = _ask_or_warn(machine, config)
    else:
        answer = parse_network(network)
    asked = Asked(answer=answer, nics=read_nics(machine), config=config.network, kept=kept)
    return with_second_answer(machine, config, asked) if takes_away(asked) else asked


def _ask_or_warn(machine: Machine, config: Config) -> NetworkMetadata:
    try:
        return ask_imds(machine, config, seconds=ROUTE_SECS)
    except AzureInitError as error:
        return NetworkMetadata(warnings=(f"the network was not compared with IMDS: {error}",))


def with_second_answer(machine: Machine, config: Config, asked: Asked) -> Asked:
    """Something is to be removed: IMDS is asked again, and must say the same. An answer with an entry that cannot be
    used removes nothing: what it lacks may be what it garbled.
    """
    if machine.rooted or asked.answer.warnings:
        return asked
    machine.clock.sleep(PAUSE)
    try:
        again = ask_imds(machine, config, seconds=ANSWER_SECS)
    except AzureInitError:
        return asked
    return replace(asked, confirmed=is_same(again, asked.answer))


def ask_imds(machine: Machine, config: Config, *, seconds: float) -> NetworkMetadata:
    """IMDS's network document alone. Raises ImdsUnavailable where there is no answer in time."""
    clock = machine.clock
    wait_for_route(machine, host_of(config.imds.endpoint), until=clock.monotonic() + seconds)
    return query_network(config, clock=clock, deadline=clock.monotonic() + ANSWER_SECS)


def plan_answer(
    machine: Machine, config: Config, instance: Instance | None, answer: NetworkMetadata, *, confirmed: bool
) -> Plan:
    """The plan for one answer, as the facts are now. `confirmed`: the answer before it was the same."""
    nics, kept = read_nics(machine), read_kept(machine, instance)
    return plan_network(Asked(answer=answer, nics=nics, config=config.network, kept=kept, confirmed=confirmed))


def read_wrong_way(
    machine: Machine, config: Config, instance: Instance | None, network: Mapping[str, Any]
) -> Asked | None:
    """Before Ready: None unless the kernel reaches the platform by a NIC that is not the primary."""
    asked = Asked(
        answer=parse_network(network), nics=read_nics(machine), config=config.network, kept=read_kept(machine, instance)
    )
    return asked if is_way_wrong(asked.nics) else None
