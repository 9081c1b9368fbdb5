"""What a VM in a pool tells: events by the names that cloud-init gives them, and none for each request."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.model import Config, Imds
from azureinit.machine.link_events import CHANGED, GONE, Change
from azureinit.memory.pool import WAITING, Marker
from azureinit.record import replace
from azureinit.run.pool_links import PoolLinks
from azureinit.run.pool_wait import PoolWait
from azureinit.run.state import Context
from azureinit.telemetry.events import Event, Events
from fakeazure import Fabric, Vm
from fakeazure.platform.events import Kvp
from fakeazure.platform.pool import Pool
from support.bench import Benches
from support.made_up_network import CARD, LOOPBACK
from support.pool_clock import Sleeper
from support.pooled import PATH, QUICKLY, polls

OTHER = replace(CARD, index=3, name="eth1", mac="00:0d:3a:aa:bb:cc")
MOVES = {
    "Running": (
        Change(kind=CHANGED, link=replace(CARD, state="down")),
        Change(kind=CHANGED, link=CARD),
    ),
    "Savable": (Change(kind=GONE, link=replace(CARD, state="down")), Change(kind=CHANGED, link=OTHER)),
}
STAGES = {
    "Running": ["wait-for-media-disconnect-connect", "obtain-dhcp-lease", "get-reprovision-data-from-imds"],
    "Savable": ["wait-for-nic-detach", "wait-for-nic-attach", "obtain-dhcp-lease", "get-reprovision-data-from-imds"],
}


class Moved(Sleeper):
    """After two minutes its link moves, in two steps; three seconds later a customer has the VM."""

    def __init__(self, root: Path, fabric: Fabric, moves: tuple[Change, ...]) -> None:
        super().__init__(root, seconds=600.0)
        self.put_card(OTHER.name, index=OTHER.index, mac=OTHER.mac)
        self.fabric, self.moves = fabric, list(moves)

    def wait(self, seconds: float) -> tuple[Change, ...]:
        super().wait(seconds)
        passed = self.time.at - self.begun
        if passed > 120 and self.moves:
            move = self.moves.pop(0)
            self.links = (LOOPBACK, move.link) if move.kind == CHANGED and move.link is not None else (LOOPBACK,)
            return (move,)
        if passed > 123:
            self.fabric.take()
        return ()


@pytest.mark.parametrize("kind", MOVES)
def test_each_stage_of_the_wait_is_an_event_with_its_name(tmp_path: Path, kind: str) -> None:
    heard: list[Event] = []
    with Fabric(vm=Vm(pps_type=kind), pool=Pool(on_call=True)) as fabric:
        machine = Moved(tmp_path, fabric, MOVES[kind])
        events = Events(clock=machine.time, listeners=(heard.append,))
        config = Config(imds=Imds(endpoint=fabric.imds))
        now = machine.time.at
        context = Context(machine=machine, config=config, events=events, started=now, booted=now)
        PoolWait(context, PoolLinks(context), Marker(state=WAITING, type=kind)).for_data()
        asked = [one for one in fabric.ledger.requests if one.target.startswith(PATH)]
    for end in ("start", "finish"):
        assert [one.name for one in heard if one.kind == end] == STAGES[kind]
    assert len(asked) > 4 and asked[-1].status == 200


def test_the_host_gets_these_events_and_none_for_each_request(bench: Benches) -> None:
    """Of seven requests, the first, second and fourth are told, and the answer that is another one."""
    one = bench(vm=Vm(pps_type="Savable", username="carol", name="carols"), pool=Pool(after_polls=6), kvp=True)
    one.configure(boot=QUICKLY, report={"protocol": "xml"})
    ran = one.agent(timeout=60)
    assert ran.status == 0, ran.err
    told = [event.key.split("|") for event in one.fabric.ledger.events if isinstance(event, Kvp) and "|" in event.key]
    for name in ("goalstate-retrieval", "wait-for-nic-detach", "reprovisioning-read-azure-ovf"):
        assert {"start", "finish"} <= {words[3] for words in told if words[4] == name}, name
    assert len(polls(one)) == 7 and sum(words[4] == "waiting" for words in told) == 5, told
    values = [event.value for event in one.fabric.ledger.events if isinstance(event, Kvp)]
    assert sum("to IMDS got" in value for value in values) == 4
    lines = [line for line in ran.err.splitlines() if "to IMDS got" in line]
    assert [line.partition("request ")[2].split()[0] for line in lines] == ["1", "2", "4", "7"], "on the console"
