"""The fabric: the platform of one VM, with HTTP servers of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fakeazure.platform.addresses import LOOPBACK, Endpoints
from fakeazure.platform.faults import Script, parse_script
from fakeazure.platform.http_server import HttpServer
from fakeazure.platform.machine import Machine
from fakeazure.platform.pool import Pool
from fakeazure.platform.scenario import Scenario
from fakeazure.platform.services import HostPluginService, ImdsService, WireserverService
from fakeazure.platform.vm import Expect, Imds, Media, Vm, Wireserver
from fakeazure.platform.work_directory import WorkDirectory


class Fabric(Machine):
    """A VM and its platform.

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
        pool: Pool | None = None,
        wireserver: bool | Wireserver = True,
        faults: Iterable[Script | Mapping[str, Any]] = (),
        expect: Expect | None = None,
        azure_init: Mapping[str, Mapping[str, Any]] | None = None,
        ledger: Path | None = None,
        eject: bool = False,
        directory: Path | None = None,
        pools: Path | None = None,
        listen_at: Endpoints = LOOPBACK,
    ) -> None:
        """`eject`: remove the medium's file after a verdict, as Azure ejects its disc.

        `directory`: the working directory; default: a temporary one. `pools`: the directory of the VM's key-value
        pools, which the platform reads as the host does. `listen_at`: addresses of the three HTTP services.
        """
        scenario = Scenario(
            vm=vm or Vm(),
            media=media or Media(),
            imds=imds or Imds(),
            pool=pool or Pool(),
            wireserver=wireserver if isinstance(wireserver, Wireserver) else Wireserver(enable=wireserver),
            faults=tuple(map(parse_script, faults)),
            expect=expect,
            azure_init=azure_init or {},
        )
        self._set_up(scenario, ledger=ledger, eject=eject, directory=directory, pools=pools, listen_at=listen_at)

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        *,
        ledger: Path | None = None,
        eject: bool = False,
        directory: Path | None = None,
        pools: Path | None = None,
        listen_at: Endpoints = LOOPBACK,
    ) -> Self:
        """The platform that a scenario describes. The other arguments are those of `Fabric()`."""
        fabric = cls.__new__(cls)
        fabric._set_up(scenario, ledger=ledger, eject=eject, directory=directory, pools=pools, listen_at=listen_at)
        return fabric

    def _set_up(
        self,
        scenario: Scenario,
        *,
        ledger: Path | None,
        eject: bool,
        directory: Path | None,
        pools: Path | None,
        listen_at: Endpoints,
    ) -> None:
        super().__init__(scenario, ledger=ledger, eject=eject, work=WorkDirectory(directory), pools=pools)
        imds, wireserver, host_plugin = listen_at
        off, wire_off = not self.metadata.enable, not self.wire.enable
        self._server = HttpServer()
        self.imds = self._server.listen(ImdsService(self).route, at=imds, refuse=off)
        self.wireserver = self._server.listen(WireserverService(self).route, at=wireserver, refuse=wire_off)
        self.host_plugin = self._server.listen(HostPluginService(self).route, at=host_plugin, refuse=wire_off)

    def start(self) -> Self:
        self._server.start()
        return self

    def stop(self) -> None:
        self._server.stop()
        self.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
