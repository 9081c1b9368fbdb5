"""A machine that was provisioned under another VM id."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.facts.changed_id import EarlierVm, read_earlier_id, read_earlier_vm
from azureinit.machine import Machine
from azureinit.plan.actions import Remove, Satisfied, Step, Way
from azureinit.plan.changed_id import plan_changed_id
from azureinit.plan.waagent import spellings

ID = "550e8400-e29b-41d4-a716-446655440000"
OTHER = "c0ffee00-1111-4222-8333-444444444444"
STATE = {
    "HostingEnvironmentConfig.xml", "Incarnation", "partition", "Protocol", "SharedConfig.xml", "WireServerEndpoint",
    "published_hostname", "fast_track.json", "initial_goal_state", "waagent_rsm_update", "waagent_initial_update",
    "Extensions.1.xml", "ExtensionsConfig.2.xml", "GoalState.3.xml", "waagent-network-setup.py",
    "Microsoft.Test-1.2.3/status/0.status", "Microsoft.Test-1.2.3/config/0.settings",
    "Microsoft.Test-1.2.3/config/HandlerStatus", "Microsoft.Test-1.2.3/mrseq",
}  # fmt: skip
STAYS = {
    "provisioned", "ovf-env.xml", "CustomData", "Certificates.pem", "ABC.crt", "Microsoft.Test-1.2.3/bin/run",
    "Microsoft.Test-1.2.3/HandlerManifest.json", "WALinuxAgent-2.9.1/mrseq", "history/GoalState.1.xml", "plain/mrseq",
}  # fmt: skip


def former_id(root: Path) -> str | None:
    machine = Machine(root=str(root), environ={})
    own = spellings(ID)
    return read_earlier_id(
        machine, vm_id=ID, spellings=own, data_dir="/var/lib/azure-init/", lib_dir="/var/lib/waagent/"
    )


def put(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_a_new_machine_was_nobody(tmp_path: Path) -> None:
    assert former_id(tmp_path) is None


def test_our_own_marker_tells_who_it_was(tmp_path: Path) -> None:
    put(tmp_path, f"var/lib/azure-init/{OTHER}.provisioned", f"var/lib/azure-init/{ID}.journal")
    assert former_id(tmp_path) == OTHER


@pytest.mark.parametrize("marker", [OTHER, OTHER.upper() + "\n"])
def test_walinuxagent_s_marker_tells_who_it_was(tmp_path: Path, marker: str) -> None:
    put(tmp_path, "var/lib/waagent/provisioned", text=marker)
    assert former_id(tmp_path) == marker.strip()


def test_an_empty_marker_tells_that_it_was_somebody(tmp_path: Path) -> None:
    put(tmp_path, "var/lib/waagent/provisioned", text="")
    assert former_id(tmp_path) == ""


@pytest.mark.parametrize("marker", [text.decode() for text in spellings(ID)] + [ID.upper() + "\n"])
def test_this_vm_s_own_marker_is_nobody_else_s(tmp_path: Path, marker: str) -> None:
    put(tmp_path, "var/lib/waagent/provisioned", text=marker)
    assert former_id(tmp_path) is None


def test_a_half_done_run_of_another_vm_is_no_machine_to_keep(tmp_path: Path) -> None:
    put(tmp_path, f"var/lib/azure-init/{OTHER}.journal", f"var/lib/azure-init/{OTHER}.pending")
    assert former_id(tmp_path) is None


def test_exactly_what_was_the_other_vm_s_is_found(tmp_path: Path) -> None:
    leases = {"var/lib/dhcp/dhclient.eth0.leases", "var/lib/NetworkManager/dhclient-1-eth0.lease"}
    units = {
        "etc/systemd/system/waagent-network-setup.service",
        "lib/systemd/system/walinuxagent.service.d/12-CPUQuota.conf",
    }
    others = {
        "etc/resolv.conf", "var/lib/cloud/instance", "run/systemd/netif/leases/2", "var/log/waagent.log",
        "var/lib/NetworkManager/internal-1-eth0.lease", "lib/systemd/system/walinuxagent.service.d/50-own.conf",
    }  # fmt: skip
    library = {f"var/lib/waagent/{name}" for name in STATE}
    put(tmp_path, *leases, *units, *others, *library, *(f"var/lib/waagent/{name}" for name in STAYS))
    found = read_earlier_vm(Machine(root=str(tmp_path), environ={}), vm_id=OTHER, lib_dir="/var/lib/waagent")
    assert set(found.leases) == {f"/{name}" for name in leases}
    assert set(found.state) == {f"/{name}" for name in (*library, *units)}


def test_what_goes_is_named_and_the_decision_remembered() -> None:
    former = EarlierVm(vm_id=OTHER, leases=("/var/lib/dhcp/x",), state=("/var/lib/waagent/y/",))
    (step,) = plan_changed_id(earlier=former, because="platform.changed_vm_id", done=frozenset())
    assert isinstance(step, Step) and step.once
    assert OTHER in step.why
    gone = (Remove(path="/var/lib/dhcp/x"), Remove(path="/var/lib/waagent/y/", whole=True))
    assert step.ways == (Way(backend="native", actions=gone),)


def test_what_is_found_after_the_clearing_is_this_vm_s() -> None:
    former = EarlierVm(vm_id="", leases=("/var/lib/dhcp/new",))
    (item,) = plan_changed_id(earlier=former, because="platform.changed_vm_id", done=frozenset(("changed VM id",)))
    assert isinstance(item, Satisfied)
