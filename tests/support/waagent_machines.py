"""What the simulations with WALinuxAgent share."""

from __future__ import annotations

from pathlib import Path

from fakeazure import Vm
from support.bench import Bench

PASSWORD = "Kanarienvogel&<Voliere>"
BIRD = Vm(name="web-1", password=PASSWORD, disable_password=False, custom_data=b"\x00\xffbinary\n")


def with_waagent(one: Bench, library: str = "var/lib/waagent") -> Path:
    (one.tree / "etc/waagent.conf").write_text("Provisioning.Agent=auto\n")
    return one.tree / library
