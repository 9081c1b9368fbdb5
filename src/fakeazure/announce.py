"""What `fakeazure serve` says: where it is, each verdict as it comes, and in the end what it believes; text or JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Protocol

from fakeazure import show
from fakeazure.estate import Estate
from fakeazure.events import Told
from fakeazure.judge import Judgement
from fakeazure.machine import Machine
from fakeazure.report import parse_report

FEW = 12  # machines that are introduced one by one


class Announcer(Protocol):
    def begin(self, estate: Estate, *, media: Path, key: Path | None) -> None: ...
    def told(self, machine: Machine, told: Told) -> None: ...
    def end(self, estate: Estate) -> None: ...


def announcer(*, as_json: bool) -> Announcer:
    return Json() if as_json else Text()


def doors(estate: Estate) -> dict[str, str]:
    return {"imds": estate.imds, "wireserver": estate.wireserver, "hostplugin": estate.host_plugin}


def reason(told: Told) -> str:
    return parse_report(told.description).get("reason") or told.description


class Json:
    def begin(self, estate: Estate, *, media: Path, key: Path | None) -> None:
        for service, url in doors(estate).items():
            say({"event": "door", "service": service, "url": url})
        for name, machine in estate.machines.items():
            known = {"address": machine.address} if machine.address else {}
            where = {"imds": machine.imds, "wireserver": machine.wireserver, "hostplugin": machine.host_plugin}
            say({"event": "machine", "name": name, "id": machine.vm.id, **known, **where,
                 "media": str(machine.media_path) if machine.has_media() else None,
                 "config": str(machine.media_path.with_suffix(".toml")) if machine.media_path else None})  # fmt: skip
        say({"event": "serving", "machines": len(estate.machines), "key": str(key) if key else None})

    def told(self, machine: Machine, told: Told) -> None:
        say({"event": "told", "machine": machine.vm.name, "t": told.t, "kind": told.kind, "reason": reason(told)})

    def end(self, estate: Estate) -> None:
        for name, machine in estate.machines.items():
            judged = machine.judge()
            say({"event": "judgement", "machine": name, "ok": judged.ok, "state": judged.state, "at": judged.at,
                 "reason": judged.reason, "complaints": judged.complaints})  # fmt: skip
        for stranger in estate.ledger.requests:
            say({"event": "stranger", "t": stranger.t, "service": stranger.service, "note": stranger.note})


def say(values: dict[str, Any]) -> None:
    print(json.dumps(values, ensure_ascii=False), flush=True)


class Text:
    def __init__(self) -> None:
        self._paint = show.palette_for(sys.stdout)
        self._width = 0

    def begin(self, estate: Estate, *, media: Path, key: Path | None) -> None:
        self._width = max(map(len, map(show.printable, estate.machines)))
        lines = {**doors(estate), "media": str(media), **({"key": str(key)} if key else {})}
        for name, place in lines.items():
            print(f"{name:<10}  {place}")
        machines = list(estate.machines.values())
        for machine in machines if len(machines) <= FEW else (machines[0], machines[-1]):
            print(f"{'machine':<10}  {self._name(machine)}  {whereabouts(machine)}")
        if len(machines) > FEW:
            print(f"{'machines':<10}  {len(machines):,}, by {estate.by}")
        sys.stdout.flush()

    def told(self, machine: Machine, told: Told) -> None:
        if told.kind == "progress":
            return
        ready = told.kind == "ready"
        said = "Ready" if ready else f"failed: {show.printable(reason(told)) or 'no reason given'}"
        print(f"{told.t:8.3f} s  {self._name(machine)}  {self._paint('good' if ready else 'bad', said)}", flush=True)

    def end(self, estate: Estate) -> None:
        judged = {machine: machine.judge() for machine in estate.machines.values()}
        print("\n" + self._paint("bold", "What the platform believes"))
        for machine, judgement in judged.items():
            print(f"  {self._name(machine)}  {self._belief(judgement)}")
        right = sum(judgement.ok for judgement in judged.values())
        print(f"{right:,} of {len(judged):,} as expected")
        if strangers := estate.ledger.requests:
            more = f" and {len(strangers) - 1:,} more" if len(strangers) > 1 else ""
            print(f"From nobody known: {show.asked(strangers[0])} ({show.printable(strangers[0].note)}){more}")
        sys.stdout.flush()

    def _belief(self, judgement: Judgement) -> str:
        believed = show.printable(str(judgement))
        if judgement.ok:
            return self._paint("good", believed) + " (as expected)"
        wrong = [complaint for complaint in map(show.printable, judgement.complaints) if complaint not in believed]
        return self._paint("bad", believed) + "".join(f"; {complaint}" for complaint in wrong)

    def _name(self, machine: Machine) -> str:
        return f"{show.printable(machine.vm.name):<{self._width}}"


def whereabouts(machine: Machine) -> str:
    return f"asks from {machine.address}" if machine.address else f"finds its metadata at {machine.imds}"
