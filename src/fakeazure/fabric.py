"""The fabric: one machine's platform. It answers, remembers, and is asked at the end what it believes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fakeazure import imds, media, wireserver
from fakeazure.events import Boot, MediaMade, Request, Told
from fakeazure.faults import OK, Answer, Script, parse_script
from fakeazure.http import HttpRequest, Response
from fakeazure.judge import Judgement
from fakeazure.ledger import Ledger
from fakeazure.serve import Doors, Outcome
from fakeazure.vm import Expect, Imds, Media, Vm


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
        wireserver: bool = True,
        faults: Iterable[Script | Mapping[str, Any]] = (),
        expect: Expect | None = None,
        ledger: Path | None = None,
    ) -> None:
        self.vm = vm or Vm()
        self.media = media or Media()
        self.metadata = imds or Imds()
        self.wireserver_enabled = wireserver
        self.scripts = {script.path: script for script in map(parse_script, faults)}
        self.expect = expect or self._natural_expectation()
        self.ledger = Ledger(ledger)
        self.media_path: Path | None = None
        self._boots = 0
        self._directory: Path | None = None
        self._doors = Doors()
        self.imds = self._doors.open(ImdsDoor(self), closed=not self.metadata.enable)
        self.wireserver = self._doors.open(WireserverDoor(self), closed=not wireserver)
        self.reboot()

    def _natural_expectation(self) -> Expect:
        """Without a source nothing can be provisioned; without a wireserver nothing can be told."""
        if not self.wireserver_enabled:
            return Expect(verdict="none")
        sources = self.metadata.enable or media.wants_media(self.vm, self.media)
        return Expect(verdict="ready" if sources else "failure")

    def start(self) -> Self:
        self._doors.start()
        return self

    def stop(self) -> None:
        self._doors.stop()
        self.ledger.close()
        if self._directory:
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
        self.ledger.add(Boot(t=self.ledger.now(), number=self._boots, vm_id=self.vm.id, expect=asdict(self.expect)))

    def judge(self) -> Judgement:
        return self.ledger.judge()

    @property
    def health_endpoint(self) -> str:
        return self.wireserver + wireserver.HEALTH

    @property
    def directory(self) -> Path:
        """A place of this fabric's own, gone when it stops."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="fakeazure-"))
        return self._directory

    def has_media(self) -> bool:
        return media.wants_media(self.vm, self.media)

    def write_media(self, path: Path | str) -> Path:
        """Makes the medium. A machine that has none gets none: the path is where it is not."""
        path = Path(path)
        self.media_path = path
        if self.has_media():
            image = media.image(self.vm, self.media)
            path.write_bytes(image)
            self.ledger.add(MediaMade(t=self.ledger.now(), path=str(path), format=self.media.format, size=len(image)))
        return path

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
        script = self.scripts.get(request.path)
        return (script.next(), True) if script else (OK, False)


class ImdsDoor:
    server = imds.SERVER

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.now = fabric.ledger.now
        self.scripted = fabric.scripted

    def answer(self, request: HttpRequest) -> Response:
        return imds.answer(request, self.fabric.vm, self.fabric.metadata)

    def note(self, request: HttpRequest, outcome: Outcome) -> None:
        self.fabric.ledger.add(request_event("imds", request, outcome, now=self.now()))


class WireserverDoor:
    server = wireserver.SERVER

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.now = fabric.ledger.now
        self.scripted = fabric.scripted

    def answer(self, request: HttpRequest) -> Response:
        return wireserver.answer(request)[0]

    def note(self, request: HttpRequest, outcome: Outcome) -> None:
        ledger = self.fabric.ledger
        ledger.add(request_event("wireserver", request, outcome, now=self.now()))
        health = wireserver.answer(request)[1] if outcome.heard else None
        if health and outcome.answer:
            agent = request.headers.get("x-ms-guest-agent-name") or request.headers.get("user-agent", "")
            ledger.add(
                Told(
                    t=self.now(),
                    kind=health.kind,
                    description=health.description,
                    acknowledged=outcome.answer.acknowledged,
                    agent=agent,
                )
            )


def request_event(service: str, request: HttpRequest, outcome: Outcome, *, now: float) -> Request:
    response, answer = outcome.response, outcome.answer
    silent = response is None or (answer is not None and answer.kind == "lost")
    return Request(
        t=outcome.arrived,
        service=service,
        method=request.method,
        target=request.target,
        path=request.path,
        headers=request.headers,
        body=request.body.decode("utf-8", "replace"),
        status=None if silent or response is None else response.status,
        size=0 if response is None else len(response.body),
        fault=answer.text if answer and outcome.scripted else None,
        off_script=outcome.scripted and answer is None,
        took=round(now - outcome.arrived, 6),
        note=outcome.note or ("" if outcome.scripted else refusal(response)),
    )


def refusal(response: Response | None) -> str:
    """Why the platform itself says no."""
    if response is None or response.status < 400:
        return ""
    problem = str(json.loads(response.body).get("error", ""))
    return problem.removeprefix("Bad request. ").removesuffix(". For more information refer to aka.ms/azureimds")


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
