"""A made-up machine whose kernel and manager do what they are told, and the service that follows its network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from azureinit.config.model import Config, Imds, Network
from azureinit.machine.netlink import Address
from azureinit.machine.processes import Ran
from azureinit.memory.network import parse_record
from azureinit.run.network_watch import Stop, Watcher
from azureinit.run.state import Context
from azureinit.telemetry.events import Event, Events
from support.several_nics import DEFAULT, INSTANCE, NAMES, Several

ADMINS = "10.0.0.99"  # an address that an administrator has set


class Killed(BaseException):
    """SIGKILL before a change."""


class Followed(Several):
    def __init__(self, root: Path, *macs: str) -> None:
        super().__init__(root, *macs)
        self.macs = macs
        self.addresses += (Address(index=2, family=4, address=ADMINS, prefix=32, scope="global"),)
        self.removals: list[tuple[str, bool]] = []  # an address, and whether it was in the record
        self.effects = 0
        self.kill_at = -1  # the number of the change before which the process is killed

    def _effect(self) -> None:
        self.effects += 1
        if self.effects == self.kill_at:
            raise Killed

    def write(self, path: str, data: bytes, **how: Any) -> Any:
        self._effect()
        return super().write(path, data, **how)

    def remove(self, path: str, **how: Any) -> bool:
        self._effect()
        return super().remove(path, **how)

    def change_addresses(self, index: int, *, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
        recorded = parse_record(self.read(INSTANCE.path("network")) or b"").addresses
        for address in add:
            self._effect()
            if address not in {one.address for one in self.addresses}:
                family, prefix = (6, 128) if ":" in address else (4, 32)
                made = Address(index=index, family=family, address=address, prefix=prefix, scope="global")
                self.addresses += (made,)
        for address in remove:
            self._effect()
            mac = self.macs[index - 2]
            self.removals.append((address, address in recorded.get(mac, ())))
            self.addresses = tuple(one for one in self.addresses if one.address != address)

    def run(self, argv: tuple[str, ...], **_: Any) -> Ran:
        self._effect()
        self.ran.append(argv)
        for index, mac in enumerate(self.macs[1:], 3):  # the primary is not reconfigured
            file = f"/etc/systemd/network/zzx-azure-init-{mac.replace(':', '')}.network"
            self.put_state(index, file if self.stat(file) is not None else DEFAULT)
        return Ran(argv=argv, status=0, out=b"", err=b"")

    def held(self, mac: str) -> set[str]:
        """The addresses of a link, but for the first and the administrator's."""
        index = int((self.read(f"/sys/class/net/{NAMES[mac]}/ifindex") or b"0").strip())
        own = [one.address for one in self.addresses if one.index == index]
        return {*own} - {f"10.0.{index - 2}.4", ADMINS}


def watcher_of(machine: Several, *, endpoint: str = "http://127.0.0.1:9", seconds: float = 60.0) -> Watcher:
    config = Config(network=Network(watch=True, watch_secs=seconds), imds=Imds(endpoint=endpoint))
    heard: list[Event] = []
    events = Events(clock=machine.clock, listeners=(heard.append,))
    context = Context(machine=machine, config=config, events=events, started=0.0)
    watcher = Watcher(context, INSTANCE, Stop(machine))
    watcher.heard = heard  # type: ignore[attr-defined]
    return watcher


def lines(watcher: Watcher) -> list[str]:
    """What a log would have: the texts of all events of the level INFO and above."""
    heard: list[Event] = watcher.heard  # type: ignore[attr-defined]
    return [event.text for event in heard if event.level >= 20 and event.text]
