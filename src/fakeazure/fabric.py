"""The fabric: one machine's platform. It answers, remembers, and is asked at the end what it believes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fakeazure.doors import HostPluginDoor, ImdsDoor, WireserverDoor
from fakeazure.faults import Script, parse_script
from fakeazure.machine import Machine
from fakeazure.place import Place
from fakeazure.serve import LOOPBACK, Doors
from fakeazure.spec import Scenario
from fakeazure.vm import Expect, Imds, Media, Vm, Wireserver

Address = tuple[str, int]
# Where the services answer in Azure: imds, wireserver, host plugin.
AZURE_PLACES: tuple[Address, Address, Address] = (
    ("169.254.169.254", 80),
    ("168.63.129.16", 80),
    ("168.63.129.16", 32526),
)


def places_for(wireserver: str) -> tuple[Address, Address, Address]:
    """The same, with the wireserver and the host plugin where a scenario puts them."""
    imds, *others = AZURE_PLACES
    first, second = ((wireserver or host, port) for host, port in others)
    return imds, first, second


class Fabric(Machine):
    """A machine with doors of its own.

    with Fabric(vm=Vm(name="web"), faults=[{"path": "/metadata/instance", "answers": [503, "ok*"]}]) as fabric:
        run_my_agent(imds=fabric.imds, wireserver=fabric.wireserver, media=fabric.write_media(directory / "dvd"))
        assert fabric.judge().ok
    """

    def __init__(
        self,
        *,
        vm: Vm | None = None,
        media: Media | None = None,
        imds: Imds | None = None,
        wireserver: bool | Wireserver = True,
        faults: Iterable[Script | Mapping[str, Any]] = (),
        expect: Expect | None = None,
        azure_init: Mapping[str, Mapping[str, Any]] | None = None,
        ledger: Path | None = None,
        eject: bool = False,
        directory: Path | None = None,
        pools: Path | None = None,
        places: tuple[Address, Address, Address] = (LOOPBACK, LOOPBACK, LOOPBACK),
    ) -> None:
        """`eject`: the medium's file goes away after a verdict, as the platform's disc does.

        `directory`: where to work, if not in a temporary one of its own. `pools`: where the machine keeps its
        key-value pools, for the host to read. `places`: where to listen; AZURE_PLACES in a
        network of its own.
        """
        scenario = Scenario(
            vm=vm or Vm(),
            media=media or Media(),
            imds=imds or Imds(),
            wireserver=wireserver if isinstance(wireserver, Wireserver) else Wireserver(enable=wireserver),
            faults=tuple(map(parse_script, faults)),
            expect=expect,
            azure_init=azure_init or {},
        )
        super().__init__(scenario, ledger=ledger, eject=eject, place=Place(directory), pools=pools)
        self._doors = Doors()
        self.imds = self._doors.open(ImdsDoor(self).reception, closed=not self.metadata.enable, at=places[0])
        self.wireserver = self._doors.open(WireserverDoor(self).reception, closed=not self.wire.enable, at=places[1])
        self.host_plugin = self._doors.open(HostPluginDoor(self).reception, closed=not self.wire.enable, at=places[2])

    def start(self) -> Self:
        self._doors.start()
        return self

    def stop(self) -> None:
        self._doors.stop()
        self.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
