"""A machine is provisioned, deprovisioned, and provisioned again as another VM."""

from __future__ import annotations

from fakeazure import Vm
from support.bench import Benches
from support.trees import changed, listing


def test_what_provisioning_made_deprovisioning_takes_back(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1", password="correct horse", disable_password=False), kvp=True)
    one.install_sshd()
    image = listing(one.tree)
    assert one.agent("--groups", "adm,sudo").status == 0
    assert one.fabric.judge().ok
    assert one.host_keys()
    provisioned = listing(one.tree)

    assert one.agent("deprovision", "--user", "--dry-run").status == 0
    assert listing(one.tree) == provisioned

    ran = one.agent("deprovision", "--user", "--force")
    assert ran.status == 0, ran.err
    assert "$6$" not in ran.out
    left = listing(one.tree)
    # The name "localhost" is none; a directory and a lock that every later run makes again are no trace.
    assert changed(image, left) == {
        "etc/hostname",
        "etc/.pwd.lock",
        "var/lib/azure-init",
        "var/lib/hyperv/.kvp_pool_1",
    }
    assert left["var/lib/hyperv/.kvp_pool_1"][2] == b""
    assert "etc/hostname" not in left

    again = one.agent("deprovision", "--user", "--force")
    assert (again.status, listing(one.tree)) == (0, left)
    assert "\n0 to do, " in again.out


def test_an_image_is_provisioned_like_a_new_machine(bench: Benches) -> None:
    first = bench(vm=Vm(name="web-1", username="joe"))
    assert first.agent().status == 0
    assert first.agent("deprovision", "--user", "--force").status == 0
    second = bench(vm=Vm(name="db-1", username="eve"))
    second.tree = first.tree
    assert second.agent().status == 0
    assert second.fabric.judge().ok
    assert second.read("etc/hostname") == "db-1\n"
    assert "joe" not in second.read("etc/passwd") and "eve:x:1000:" in second.read("etc/passwd")
    assert "web-1" not in second.read("etc/hosts")
