"""What the tests of fakeazure's judge share."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fakeazure import Expect, Judgement
from fakeazure.platform.events import (
    Boot,
    Kvp,
    Login,
    Request,
    Reused,
    Told,
)
from fakeazure.show import Palette, verdict

REPORT = 'result=error|reason=failed to provision hostname|agent=x|"native=a | b ""c"""|vm_id=7'


def boot(number: int = 1, *, t: float = 0, pool: dict[str, str] | None = None, **expect: Any) -> Boot:
    return Boot(t=t, number=number, vm_id="7", expect=asdict(Expect(**expect)), pool=pool or {})


def in_pool(number: int = 1, *, t: float = 0, kind: str = "Running", **expect: Any) -> Boot:
    return boot(number, t=t, pool={"type": kind, "name": "pool-vm", "username": "pooladmin"}, **expect)


def reused(t: float, kind: str = "Running") -> Reused:
    return Reused(t=t, vm_id="7", pps_type=kind)


def ready(t: float = 1, *, acknowledged: bool = True) -> Told:
    return Told(t=t, kind="ready", acknowledged=acknowledged)


def failed(t: float = 1, description: str = REPORT) -> Told:
    return Told(t=t, kind="failed", description=description)


def progress(t: float = 0.5) -> Told:
    return Told(t=t, kind="progress", description="wait")


def pool(kind: str, value: str, *, text: str = "", t: float = 1, late: bool = False, cut: bool = False) -> Kvp:
    return Kvp(t=t, key=f"key of {kind}", value=value, kind=kind, text=text or value, late=late, cut=cut)


def login(*, ok: bool, how: str = "key", text: str = "", t: float = 2) -> Login:
    return Login(t=t, how=how, user="ada", ok=ok, text=text)


def stray(t: float = 0.5) -> Request:
    return Request(t=t, service="imds", method="GET", target="/x", path="/x", status=409, off_script=True)


def shown(judgement: Judgement) -> str:
    return "\n".join(verdict(judgement, Palette(colour=False)))


def asked(path: str, *, status: int = 200, t: float = 0.5, size: int = 100) -> Request:
    return Request(t=t, service="imds", method="GET", target=path, path=path, status=status, size=size)
