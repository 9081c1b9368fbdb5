"""One machine as the platform knows it: what was asked for, what goes wrong, and all that it asked and told."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fakeazure import directions, kvp, media, proxyagent
from fakeazure.certificates import with_thumbprints
from fakeazure.events import Boot, Ejected, MediaMade, Told
from fakeazure.faults import OK, RESTARTING, Answer, parse_script
from fakeazure.http import HttpRequest
from fakeazure.imds import Standing
from fakeazure.judge import Judgement
from fakeazure.ledger import Ledger
from fakeazure.place import Place
from fakeazure.spec import Scenario
from fakeazure.vm import Expect
from fakeazure.wireserver import HEALTH, Site

BLOCK = 4096


class Machine:
    # Where its services answer, for whoever opens the doors to say.
    imds = wireserver = host_plugin = ""
    address = ""  # where it asks from, where that is how it is known

    def __init__(
        self,
        scenario: Scenario,
        *,
        ledger: Path | None = None,
        eject: bool = False,
        place: Place | None = None,
        keys: Place | None = None,
        hearing: Callable[[Machine, Told], None] | None = None,
        pools: Path | None = None,
    ) -> None:
        """`keys`: where the platform keeps its certificates, if not with the machine. `hearing` is told what we are."""
        self.vm = scenario.vm
        self.media = scenario.media
        self.metadata = scenario.imds
        self.wire = scenario.wireserver
        self.scripts = {script.path: script for script in map(parse_script, scenario.faults)}
        self.expect = scenario.expect or self._natural_expectation()
        self.azure_init = scenario.azure_init
        self.ledger_path = ledger
        self.ledger = Ledger(ledger)
        self.media_path: Path | None = None
        self.eject = eject
        self.standing = Standing()
        self.place = place or Place()
        self.keys = keys or self.place
        self.vm = with_thumbprints(self.vm, self.keys)
        self._hearing = hearing
        self._boots = 0
        self._boot_at = 0.0
        self._late: threading.Timer | None = None
        self._back_at: dict[str, float] = {}  # a service that restarts, and when it is there again
        self._host = kvp.Host(pools) if pools else None
        self.reboot()

    def _natural_expectation(self) -> Expect:
        """Without a source nothing can be provisioned; without a wireserver nothing can be told."""
        if not self.wire.enable:
            return Expect(verdict="none")
        return Expect(verdict="ready" if self.metadata.enable or self.has_media() else "failure")

    def close(self) -> None:
        if self._late:
            self._late.cancel()
            self._late.join()
        self.ledger.close()
        self.place.clear()

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
        return self.place()

    def has_media(self) -> bool:
        return media.wants_media(self.vm, self.media)

    def write_media(self, path: Path | str | None = None) -> Path:
        """Makes the medium. A machine that has none gets none: the path is where it is not."""
        path = Path(path or self.directory / ("provisioning.iso" if self.has_media() else "no-media.iso"))
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
        write_disc(path, image)
        self.ledger.add(MediaMade(t=self.ledger.now(), path=str(path), format=self.media.format, size=len(image)))

    def hear(self, told: Told) -> None:
        """What a machine tells, and what the platform does upon it."""
        self.ledger.add(told)
        if told.kind != "progress":
            self.standing.ready = self.standing.ready or told.kind == "ready"
            self.read_pool()
            self._take_media_away()
        if self._hearing:
            self._hearing(self, told)

    def read_pool(self, *, late: bool = False) -> None:
        """What the machine's records say goes into the ledger. `late`: when a real host reads no more."""
        for event in self._host.read(t=self.ledger.now(), late=late) if self._host else ():
            self.ledger.add(event)

    @property
    def pools(self) -> Path | None:
        return self._host.pools if self._host else None

    def _take_media_away(self) -> None:
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
        return Site(vm=self.vm, base=self.wireserver, ready=up, directory=self.keys)

    def config(self) -> dict[str, dict[str, Any]]:
        return directions.config(self)

    def config_text(self, **tables: Mapping[str, Any]) -> str:
        """azure-init's configuration for this platform; `imds={"retry_secs": 1}` adds to a table or makes one."""
        return directions.config_text(self, tables)

    @property
    def environment(self) -> dict[str, str]:
        """What leads a command to this platform, to be added to the environment it has anyway."""
        return directions.environment(self)

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[bytes]:
        """A command with this platform in its environment, to its end or to the end of its time."""
        found = {**os.environ, **self.environment}
        return subprocess.run(
            command, env=found, stdin=subprocess.DEVNULL, timeout=self.expect.within_secs, check=False
        )

    def scripted(self, request: HttpRequest, *, service: str = "") -> tuple[Answer | None, bool]:
        if self.ledger.now() < self._back_at.get(service, 0.0):
            return RESTARTING, True
        script = next((self.scripts[name] for name in names(request) if name in self.scripts), None)
        if script is None:
            return OK, False
        answer = script.next()
        if answer and answer.kind == "restart":
            self._back_at[service] = self.ledger.now() + answer.amount
        return answer, True


def write_disc(path: Path, image: bytes) -> None:
    """A disc is mostly empty, and empty blocks take no room on ours."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.touch(mode=0o600)  # a password may be on it
    with unfinished.open("wb") as file:
        for start in range(0, len(image), BLOCK):
            block = image[start : start + BLOCK]
            if block.count(0) != len(block):
                file.seek(start)
                file.write(block)
        file.truncate(len(image))
    unfinished.replace(path)  # nobody sees half a disc


def names(request: HttpRequest) -> list[str]:
    """What a script may call a request: by its path; a wireserver's document also by what it is."""
    if "comp" not in request.query:
        return [request.path]
    comp, kind = request.query["comp"], request.query.get("type")
    root = "/machine" if request.path.startswith("/machine/") else request.path
    detailed = [f"{root}?comp={comp}&type={kind}"] if kind else []
    return [*detailed, f"{root}?comp={comp}", request.path, root]
