"""`azure-init plan` names exactly the steps that a run takes, in their order, for machines of every kind.

test_scenarios.py compares both for every scenario of fakeazure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fakeazure import Expect, Media, Vm
from support.bench import Bench, Benches
from support.enacted import enacted_steps, planned_steps

OTHER = "11111111-2222-3333-4444-555555555555"
CUSTOM_DATA = "#!/bin/sh\ntrue\n"
FOR_THE_ADMIN = """#cloud-config
users:
- name: default
  gecos: The admin
  groups: [docker]
- name: bob
write_files:
- {path: /srv/own, content: x, owner: "azureuser:azureuser"}
ssh_import_id: [gh:example]
"""


def with_waagent(one: Bench) -> None:
    (one.tree / "etc/waagent.conf").write_text("Provisioning.Agent=auto\n")


def with_sshd(one: Bench) -> None:
    one.install_sshd()


def as_another_vm(one: Bench) -> None:
    with_waagent(one)
    one.data.mkdir(parents=True)
    (one.data / f"{OTHER}.provisioned").touch()


def with_kernel_settings(one: Bench) -> None:
    one.configure(kernel={"scsi_timeout_secs": 300, "mask_persistent_net": True})
    (one.tree / "etc/udev/rules.d").mkdir(parents=True)
    (one.tree / "etc/udev/rules.d/75-persistent-net-generator.rules").write_text("x\n")


def keeping(one: Bench) -> None:
    as_another_vm(one)
    one.configure(platform={"changed_vm_id": "keep"})


SPECIALISED = {"vm": Vm(specialised=True), "media": Media(enable=False)}
# The platform, the machine, and a step without which the case would be another.
CASES: dict[str, tuple[dict[str, Any], Callable[[Bench], None], str]] = {
    "a specialised VM with WALinuxAgent": (SPECIALISED, with_waagent, "waagent marker"),
    "a specialised VM with kernel settings": (SPECIALISED, with_kernel_settings, "disk timeout rule"),
    "kernel settings": ({}, with_kernel_settings, "disk timeout rule"),
    "host keys before and after Ready": ({}, with_sshd, "host key rsa"),
    "WALinuxAgent, password and customData": (
        {"vm": Vm(password="Correct-Horse-7", custom_data=CUSTOM_DATA)},
        with_waagent,
        "waagent media",
    ),
    "a VM that keeps its state": ({}, keeping, "changed VM id"),
    "a VM that keeps its state for want of anything else": (SPECIALISED, as_another_vm, "waagent marker"),
}


@pytest.mark.parametrize(("platform", "lay", "named"), CASES.values(), ids=CASES)
def test_the_plan_names_the_steps_of_the_run(
    bench: Benches, platform: dict[str, Any], lay: Callable[[Bench], None], named: str
) -> None:
    one = bench(**platform, expect=Expect(verdict="ready"))
    lay(one)
    shown = one.agent("plan", "--json")
    assert shown.status == 0, shown.err
    ran = one.agent()
    assert ran.status == 0, ran.err
    planned = planned_steps(shown.out)
    assert named in planned
    assert enacted_steps(one.tree) == planned, ran.err


def test_before_the_first_run_customdata_is_planned_for_the_admin_that_the_run_makes(bench: Benches) -> None:
    one = bench(vm=Vm(custom_data=FOR_THE_ADMIN))
    shown = one.agent("plan")
    assert shown.status == 0, shown.err
    assert "does not exist here" not in shown.out and "there is no user" not in shown.out, shown.out
    assert "azureuser:x:1000:1000:" in shown.out and "bob:x:1001:" in shown.out, "each has a number of its own"
    lines = [line.strip() for line in shown.out.splitlines()]
    for step in (
        "+ users_groups groups of azureuser (line 3)",
        "+ users_groups account of azureuser (line 3)",
        "+ write_files /srv/own (line 8)",
    ):
        assert any(line.startswith(step) for line in lines), shown.out
