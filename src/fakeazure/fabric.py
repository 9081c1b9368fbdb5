"""The fabric: one machine's platform. It answers, remembers, and is asked at the end what it believes."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fakeazure import media, proxyagent
from fakeazure.doors import HostPluginDoor, ImdsDoor, WireserverDoor
from fakeazure.events import Boot, Ejected, MediaMade, Told
from fakeazure.faults import OK, Answer, Script, parse_script
from fakeazure.http import HttpRequest
from fakeazure.imds import Standing
from fakeazure.judge import Judgement
from fakeazure.ledger import Ledger
from fakeazure.serve import LOOPBACK, Doors
from fakeazure.vm import Expect, Imds, Media, Vm, Wireserver
from fakeazure.wireserver import HEALTH, Site

Place = tuple[str, int]
# Where the services answer in Azure: imds, wireserver, host plugin.
AZURE_PLACES: tuple[Place, Place, Place] = (("169.254.169.254", 80), ("168.63.129.16", 80), ("168.63.129.16", 32526))


class Fabric:
    """
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
        ledger: Path | None = None,
        eject: bool = False,
        directory: Path | None = None,
        places: tuple[Place, Place, Place] = (LOOPBACK, LOOPBACK, LOOPBACK),
    ) -> None:
        """`eject`: the medium's file goes away after a verdict, as the platform's disc does.

        `directory`: where to work, if not in a temporary one of its own. `places`: where to listen; AZURE_PLACES in a
        network of its own.
        """
        self.vm = vm or Vm()
        self.media = media or Media()
        self.metadata = imds or Imds()
        self.wire = wireserver if isinstance(wireserver, Wireserver) else Wireserver(enable=wireserver)
        self.scripts = {script.path: script for script in map(parse_script, faults)}
        self.expect = expect or self._natural_expectation()
        self.ledger = Ledger(ledger)
        self.media_path: Path | None = None
        self.eject = eject
        self.standing = Standing()
        self._boots = 0
        self._boot_at = 0.0
        self._making = threading.Lock()
        self._late: threading.Timer | None = None
        self._directory = directory
        self._own_directory = directory is None
        self._doors = Doors()
        self.imds = self._doors.open(ImdsDoor(self), closed=not self.metadata.enable, at=places[0])
        self.wireserver = self._doors.open(WireserverDoor(self), closed=not self.wire.enable, at=places[1])
        self.host_plugin = self._doors.open(HostPluginDoor(self), closed=not self.wire.enable, at=places[2])
        self.reboot()

    def _natural_expectation(self) -> Expect:
        """Without a source nothing can be provisioned; without a wireserver nothing can be told."""
        if not self.wire.enable:
            return Expect(verdict="none")
        sources = self.metadata.enable or media.wants_media(self.vm, self.media)
        return Expect(verdict="ready" if sources else "failure")

    def start(self) -> Self:
        self._doors.start()
        return self

    def stop(self) -> None:
        if self._late:
            self._late.cancel()
            self._late.join()
        self._doors.stop()
        self.ledger.close()
        if self._directory and self._own_directory:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def reboot(self, *, expect: Expect | None = None) -> None:
        """A new boot, to be judged on its own; scripts go on where they were."""
        self.expect = expect or self.expect
        self._boots += 1
        self._boot_at = self.ledger.now()
        self.standing = Standing()
        self.ledger.add(Boot(t=self._boot_at, number=self._boots, vm_id=self.vm.id, expect=asdict(self.expect)))

    def judge(self) -> Judgement:
        return self.ledger.judge()

    @property
    def health_endpoint(self) -> str:
        return self.wireserver + HEALTH

    @property
    def directory(self) -> Path:
        """A place of this fabric's own, gone when it stops."""
        with self._making:
            if self._directory is None:
                self._directory = Path(tempfile.mkdtemp(prefix="fakeazure-"))
            return self._directory

    def has_media(self) -> bool:
        return media.wants_media(self.vm, self.media)

    def write_media(self, path: Path | str) -> Path:
        """Makes the medium. A machine that has none gets none: the path is where it is not."""
        path = Path(path)
        self.media_path = path
        if self.has_media() and self.media.late_secs:
            self._late = threading.Timer(self.media.late_secs, self._insert, args=(path,))
            self._late.daemon = True
            self._late.start()
        elif self.has_media():
            self._insert(path)
        return path

    def _insert(self, path: Path) -> None:
        image = media.image(self.vm, self.media)
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_bytes(image)
        unfinished.replace(path)  # nobody sees half a disc
        self.ledger.add(MediaMade(t=self.ledger.now(), path=str(path), format=self.media.format, size=len(image)))

    def hear(self, told: Told) -> None:
        """What a machine tells, and what the platform does upon it."""
        self.ledger.add(told)
        if told.kind == "progress":
            return
        self.standing.ready = self.standing.ready or told.kind == "ready"
        if not (self.eject and self.media.eject):
            return
        if self._late:
            self._late.cancel()
        if self.media_path and self.media_path.exists():
            self.media_path.unlink()
            self.ledger.add(Ejected(t=self.ledger.now(), path=str(self.media_path)))

    def write_proxy_agent(self, directory: Path | str) -> Path | None:
        """The stub of azure-proxy-agent, to be found on the machine's PATH; None where the machine has none."""
        return proxyagent.write_stub(Path(directory), proxyagent.behaviour(self.vm, self.metadata), imds=self.imds)

    def site(self) -> Site:
        up = self.ledger.now() - self._boot_at >= self.wire.goal_state_after_secs
        return Site(vm=self.vm, base=self.wireserver, ready=up, directory=lambda: self.directory)

    def config(self) -> dict[str, dict[str, Any]]:
        if self.media_path is None:
            self.write_media(self.directory / ("provisioning.iso" if self.has_media() else "no-media.iso"))
        return {
            "imds": {"endpoint": self.imds},
            "wireserver": {"health_endpoint": self.health_endpoint},
            "provisioning_media": {"path": str(self.media_path)},
            "platform": {"require_azure": False, "vm_id": self.vm.id},
        }

    def config_text(self, **tables: Mapping[str, Any]) -> str:
        """azure-init's configuration for this platform; `imds={"retry_secs": 1}` adds to a table or makes one."""
        whole = self.config()
        for name, values in tables.items():
            whole[name] = {**whole.get(name, {}), **values}
        return "\n".join(
            f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in values.items())
            for name, values in whole.items()
        )

    def scripted(self, request: HttpRequest) -> tuple[Answer | None, bool]:
        script = next((self.scripts[name] for name in names(request) if name in self.scripts), None)
        return (script.next(), True) if script else (OK, False)


def names(request: HttpRequest) -> list[str]:
    """What a script may call a request: by its path; a wireserver's document also by what it is."""
    if "comp" not in request.query:
        return [request.path]
    comp, kind = request.query["comp"], request.query.get("type")
    root = "/machine" if request.path.startswith("/machine/") else request.path
    detailed = [f"{root}?comp={comp}&type={kind}"] if kind else []
    return [*detailed, f"{root}?comp={comp}", request.path, root]


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
