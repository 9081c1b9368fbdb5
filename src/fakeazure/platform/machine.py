"""One VM as the platform sees it: its scenario, its scripted faults, its medium and its ledger."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fakeazure.judge import Judgement
from fakeazure.platform import agent_config, kvp, media, proxy_agent
from fakeazure.platform.certificates import with_thumbprints
from fakeazure.platform.events import Boot, Ejected, MediaMade, Told
from fakeazure.platform.faults import OK, RESTARTING, Answer, parse_script
from fakeazure.platform.http import HttpRequest
from fakeazure.platform.imds import Standing
from fakeazure.platform.imds_changes import ImdsChanges
from fakeazure.platform.ledger import Ledger
from fakeazure.platform.pool import OFF, PoolLife, is_pooled
from fakeazure.platform.scenario import Scenario
from fakeazure.platform.vm import Expect, Vm
from fakeazure.platform.wireserver import HEALTH, WireserverState
from fakeazure.platform.work_directory import WorkDirectory

BLOCK = 4096


class Machine:
    imds = wireserver = host_plugin = ""  # base URLs of its services, set by the owner of the HTTP server
    address = ""  # its client address, where a fleet tells machines apart by address

    def __init__(
        self,
        scenario: Scenario,
        *,
        ledger: Path | None = None,
        eject: bool = False,
        work: WorkDirectory | None = None,
        keys: WorkDirectory | None = None,
        on_told: Callable[[Machine, Told], None] | None = None,
        pools: Path | None = None,
    ) -> None:
        """`work`: the working directory. `keys`: the directory of certificates; default: `work`.

        `on_told` is called for every accepted health report.
        """
        self.vm = scenario.vm
        self.media = scenario.media
        self.metadata = scenario.imds
        self.wire = scenario.wireserver
        self.scripts = {script.path: script for script in map(parse_script, scenario.faults)}
        self.changes = ImdsChanges(self)
        self.expect = scenario.expect or self._default_expectation()
        self.azure_init = scenario.azure_init
        self.ledger_path = ledger
        self.ledger = Ledger(ledger)
        self.media_path: Path | None = None
        self.eject = eject
        self.standing = Standing()
        self.work = work or WorkDirectory()
        self.keys = keys or self.work
        self.vm = with_thumbprints(self.vm, self.keys)
        self.pool = PoolLife(self.vm, scenario.pool, self.ledger) if is_pooled(self.vm) else None
        self._on_told = on_told
        self._boots = 0
        self._boot_at = 0.0
        self._insertion: threading.Timer | None = None  # of a medium that comes late
        self._up_at: dict[str, float] = {}  # service -> when its scripted restart ends
        self._host = kvp.Host(pools) if pools else None
        self.reboot()

    def _default_expectation(self) -> Expect:
        """Without IMDS and medium, provisioning must fail; without a wireserver, nothing can be reported."""
        if not self.wire.enable:
            return Expect(verdict="none")
        return Expect(verdict="ready" if self.metadata.enable or self.has_media() else "failure")

    def close(self) -> None:
        if self._insertion:
            self._insertion.cancel()
            self._insertion.join()
        if self.pool:
            self.pool.close()
        self.ledger.close()
        self.work.remove()

    def reboot(self, *, expect: Expect | None = None) -> None:
        """Starts a new boot, judged separately. Fault scripts continue where they were."""
        self.expect = expect or self.expect
        self._boots += 1
        self._boot_at = self.ledger.now()
        self.standing = Standing(boot=self._boots)
        pool: dict[str, str] = {}
        if self.pool and not self.pool.taken:
            in_it = self.pool.pool_vm
            pool = {"type": in_it.pps_type, "name": in_it.name, "username": in_it.username}
        self.ledger.add(
            Boot(t=self._boot_at, number=self._boots, vm_id=self.vm.id, expect=asdict(self.expect), pool=pool)
        )
        if self.pool:
            if self.pool.restart == OFF and self.media_path:  # the ordinary first boot of the customer's VM
                self.write_media(self.media_path)
            self.pool.restarted()

    @property
    def described(self) -> Vm:
        """The VM as the platform describes it now: a pre-provisioned one is first a VM of the pool."""
        return self.pool.vm if self.pool else self.vm

    @property
    def restart_due(self) -> str:
        """`cut`: the machine loses its power and starts again; `off`: the host shuts it down and starts it again."""
        return self.pool.restart if self.pool else ""

    def take(self) -> bool:
        """A customer takes the VM from its pool, for scenarios with `pool.on_call`. False: it is not in a pool."""
        return self.pool.call() if self.pool else False

    def judge(self) -> Judgement:
        return self.ledger.judge()

    @property
    def health_endpoint(self) -> str:
        return self.wireserver + HEALTH

    @property
    def directory(self) -> Path:
        return self.work()

    def has_media(self) -> bool:
        return media.wants_media(self.vm, self.media)

    def write_media(self, path: Path | str | None = None) -> Path:
        """Writes the medium and returns its path. For a VM without a medium, nothing exists at that path."""
        path = Path(path or self.directory / ("provisioning.iso" if self.has_media() else "no-media.iso"))
        self.media_path = path
        if self.has_media() and self.media.late_secs:
            self._insertion = threading.Timer(self.media.late_secs, self._insert, args=(path,))
            self._insertion.daemon = True
            self._insertion.start()
        elif self.has_media():
            self._insert(path)
        return path

    def _insert(self, path: Path) -> None:
        image = media.image(self.described, self.media)
        write_disc(path, image)
        self.ledger.add(MediaMade(t=self.ledger.now(), path=str(path), format=self.media.format, size=len(image)))

    def receive(self, told: Told) -> None:
        """Records a health report. After a verdict, reads the key-value pool and ejects the medium."""
        self.ledger.add(told)
        if told.kind != "progress":
            self.read_pool()
            self._eject()
        if told.kind == "ready":
            self.changes.ready()
        if told.kind == "ready" and self.pool:
            self.pool.ready()
        if self._on_told:
            self._on_told(self, told)

    def read_pool(self, *, late: bool = False) -> None:
        """Adds new records of the key-value pool to the ledger. `late`: after the verdict, when no real host reads."""
        for event in self._host.read(t=self.ledger.now(), late=late) if self._host else ():
            self.ledger.add(event)

    @property
    def pools(self) -> Path | None:
        return self._host.pools if self._host else None

    def _eject(self) -> None:
        if not (self.eject and self.media.eject):
            return
        if self._insertion:
            self._insertion.cancel()
        if self.media_path and self.media_path.exists():
            self.media_path.unlink()
            self.ledger.add(Ejected(t=self.ledger.now(), path=str(self.media_path)))

    def write_proxy_agent(self, directory: Path | str) -> Path | None:
        """Writes the stub of azure-proxy-agent, to be put on the PATH; None: the scenario has no proxy agent."""
        return proxy_agent.write_stub(Path(directory), proxy_agent.behaviour(self.vm, self.metadata), imds=self.imds)

    def wireserver_state(self) -> WireserverState:
        up = self.ledger.now() - self._boot_at >= self.wire.goal_state_after_secs
        return WireserverState(vm=self.described, base=self.wireserver, ready=up, keys=self.keys)

    def config(self) -> dict[str, dict[str, Any]]:
        return agent_config.config(self)

    def config_text(self, **tables: Mapping[str, Any]) -> str:
        """azure-init's configuration for this platform; `imds={"retry_secs": 1}` adds settings to a table."""
        return agent_config.config_text(self, tables)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that point a command to this platform, to be added to its environment."""
        return agent_config.environment(self)

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[bytes]:
        """Runs a command with this platform in its environment; its time limit is the scenario's `within_secs`."""
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, timeout=self.expect.within_secs, check=False
        )

    def scripted(self, request: HttpRequest, *, service: str = "") -> tuple[Answer | None, bool]:
        if self.ledger.now() < self._up_at.get(service, 0.0):
            return RESTARTING, True
        script = next((self.scripts[name] for name in script_names(request) if name in self.scripts), None)
        if script is None:
            return OK, False
        answer = script.next()
        if answer and answer.kind in ("restart", "refuse"):
            self._up_at[service] = self.ledger.now() + answer.amount
        return answer, True


def write_disc(path: Path, image: bytes) -> None:
    """Writes the image as a sparse file, atomically."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.touch(mode=0o600)  # it may hold a password
    with unfinished.open("wb") as file:
        for start in range(0, len(image), BLOCK):
            block = image[start : start + BLOCK]
            if block.count(0) != len(block):
                file.seek(start)
                file.write(block)
        file.truncate(len(image))
    unfinished.replace(path)


def script_names(request: HttpRequest) -> list[str]:
    """The script paths that match a request, most specific first: with `comp` and `type`, then the plain path."""
    if "comp" not in request.query:
        return [request.path]
    comp, kind = request.query["comp"], request.query.get("type")
    root = "/machine" if request.path.startswith("/machine/") else request.path
    detailed = [f"{root}?comp={comp}&type={kind}"] if kind else []
    return [*detailed, f"{root}?comp={comp}", request.path, root]
