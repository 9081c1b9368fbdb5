"""Whole lives of VMs from a pool on loopback: the machine, and what it is in the end."""

from __future__ import annotations

from typing import Any

from fakeazure import Vm
from fakeazure.platform.pool import Pool
from support.bench import Bench, Benches
from support.pooled import QUICKLY, kinds
from support.trees import listing

HEALTH = "/provisioning/health"
PASSWORD = "Rosebud-5-in-no-file"
CUSTOMER: dict[str, Any] = {"username": "carol", "name": "carols", "password": PASSWORD, "disable_password": False}


def pooled(bench: Benches, kind: str = "Running", **options: Any) -> Bench:
    pool = options.pop("pool", Pool())
    tables = options.pop("tables", {})
    one = bench(vm=Vm(pps_type=kind, **options.pop("vm", CUSTOMER)), pool=pool, **options)
    one.install_sshd()
    one.configure(**{**tables, "boot": {**QUICKLY, **tables.get("boot", {})}})
    return one


def accounts(one: Bench) -> list[str]:
    return [line.split(":")[0] for line in one.read("etc/passwd").splitlines() if line.split(":")[2] >= "1000"]


def is_customers(one: Bench) -> None:
    """The machine is the customer's, the platform has had two Ready, and nothing of the pool's VM is on the machine."""
    assert kinds(one) == ["ready", "ready"]
    assert accounts(one) == ["carol"] and one.read("etc/hostname") == "carols\n"
    assert one.state("provisioned").exists() and not one.state("pending").exists()
    assert one.fabric.judge().state == "ready", one.fabric.judge()
    for name, (_mode, _owner, content) in listing(one.tree).items():
        assert not any(word in content for word in (b"pooladmin", b"pool-vm")), name
