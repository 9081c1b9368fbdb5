"""A host name that customData set: neither the local stage nor a later run sets the platform's again."""

from __future__ import annotations

from fakeazure import Expect, Vm
from support.bench import Bench, Benches


def choose(one: Bench, name: str) -> None:
    """As set_hostname leaves the machine."""
    directory = one.data / f"{one.fabric.vm.id}.d"
    directory.mkdir(parents=True, mode=0o700)
    (directory / "hostname").write_text(f"{name}\n")
    (one.tree / "etc/hostname").write_text(f"{name}\n")


def test_a_later_run_keeps_the_name(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"))
    assert one.agent().status == 0
    choose(one, "chosen")
    one.state("provisioned").unlink()
    one.fabric.reboot()
    assert one.agent().status == 0
    assert one.fabric.judge().ok
    assert one.read("etc/hostname") == "chosen\n"


def test_the_local_stage_keeps_the_name(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"), expect=Expect(verdict="none"))
    choose(one, "chosen")
    assert one.agent("--stage", "local").status == 0
    assert one.read("etc/hostname") == "chosen\n"
