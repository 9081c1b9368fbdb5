"""What `fakeazure serve` prints, as text or as JSON: its addresses, each verdict, and at the end the judgements."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Protocol

from fakeazure import show
from fakeazure.judge import Judgement
from fakeazure.platform.events import Told
from fakeazure.platform.fleet import Fleet
from fakeazure.platform.machine import Machine
from fakeazure.platform.report import parse_report

FEW = 12  # machines that are listed one by one


class Output(Protocol):
    def begin(self, fleet: Fleet, *, media: Path, key: Path | None) -> None: ...
    def told(self, machine: Machine, told: Told) -> None: ...
    def end(self, fleet: Fleet) -> None: ...


def output_for(*, as_json: bool) -> Output:
    return JsonOutput() if as_json else TextOutput()


def services(fleet: Fleet) -> dict[str, str]:
    return {"imds": fleet.imds, "wireserver": fleet.wireserver, "hostplugin": fleet.host_plugin}


def reason(told: Told) -> str:
    return parse_report(told.description).get("reason") or told.description


class JsonOutput:
    def begin(self, fleet: Fleet, *, media: Path, key: Path | None) -> None:
        for service, url in services(fleet).items():
            write({"event": "door", "service": service, "url": url})
        for name, machine in fleet.machines.items():
            known = {"address": machine.address} if machine.address else {}
            where = {"imds": machine.imds, "wireserver": machine.wireserver, "hostplugin": machine.host_plugin}
            write({"event": "machine", "name": name, "id": machine.vm.id, **known, **where,
                 "media": str(machine.media_path) if machine.has_media() else None,
                 "config": str(machine.media_path.with_suffix(".toml")) if machine.media_path else None})  # fmt: skip
        write({"event": "serving", "machines": len(fleet.machines), "key": str(key) if key else None})

    def told(self, machine: Machine, told: Told) -> None:
        write({"event": "told", "machine": machine.vm.name, "t": told.t, "kind": told.kind, "reason": reason(told)})

    def end(self, fleet: Fleet) -> None:
        for name, machine in fleet.machines.items():
            judged = machine.judge()
            write({"event": "judgement", "machine": name, "ok": judged.ok, "state": judged.state, "at": judged.at,
                 "reason": judged.reason, "complaints": judged.complaints})  # fmt: skip
        for unknown in fleet.ledger.requests:
            write({"event": "stranger", "t": unknown.t, "service": unknown.service, "note": unknown.note})


def write(values: dict[str, Any]) -> None:
    print(json.dumps(values, ensure_ascii=False), flush=True)


class TextOutput:
    def __init__(self) -> None:
        self._paint = show.palette_for(sys.stdout)
        self._width = 0

    def begin(self, fleet: Fleet, *, media: Path, key: Path | None) -> None:
        self._width = max(map(len, map(show.printable, fleet.machines)))
        lines = {**services(fleet), "media": str(media), **({"key": str(key)} if key else {})}
        for name, where in lines.items():
            print(f"{name:<10}  {where}")
        machines = list(fleet.machines.values())
        for machine in machines if len(machines) <= FEW else (machines[0], machines[-1]):
            print(f"{'machine':<10}  {self._name(machine)}  {location(machine)}")
        if len(machines) > FEW:
            print(f"{'machines':<10}  {len(machines):,}, by {fleet.by}")
        sys.stdout.flush()

    def told(self, machine: Machine, told: Told) -> None:
        if told.kind == "progress":
            return
        ready = told.kind == "ready"
        said = "Ready" if ready else f"failed: {show.printable(reason(told)) or 'no reason given'}"
        print(f"{told.t:8.3f} s  {self._name(machine)}  {self._paint('good' if ready else 'bad', said)}", flush=True)

    def end(self, fleet: Fleet) -> None:
        judged = {machine: machine.judge() for machine in fleet.machines.values()}
        print("\n" + self._paint("bold", "The verdict of each machine"))
        for machine, judgement in judged.items():
            print(f"  {self._name(machine)}  {self._judged(judgement)}")
        right = sum(judgement.ok for judgement in judged.values())
        print(f"{right:,} of {len(judged):,} as expected")
        if unknown := fleet.ledger.requests:
            more = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
            print(f"From unknown clients: {show.asked(unknown[0])} ({show.printable(unknown[0].note)}){more}")
        sys.stdout.flush()

    def _judged(self, judgement: Judgement) -> str:
        believed = show.printable(str(judgement))
        if judgement.ok:
            return self._paint("good", believed) + " (as expected)"
        wrong = [complaint for complaint in map(show.printable, judgement.complaints) if complaint not in believed]
        return self._paint("bad", believed) + "".join(f"; {complaint}" for complaint in wrong)

    def _name(self, machine: Machine) -> str:
        return f"{show.printable(machine.vm.name):<{self._width}}"


def location(machine: Machine) -> str:
    return f"at address {machine.address}" if machine.address else f"metadata at {machine.imds}"
