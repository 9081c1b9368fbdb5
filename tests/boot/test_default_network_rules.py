"""The udev rules of the default network, as udev itself reads them: which services look after an interface instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.container import PROJECT, debian_root
from support.need import need_root
from support.package_disks import Disk

NETWORK = PROJECT / "packaging/network"
# In a network namespace of its own: udev may set up the interface that it is asked about.
ASK = "unshare --net sh -ec 'mount -t sysfs sysfs /sys; udevadm test --action=add /sys/class/net/lo 2>&1'"
UNITS = "/etc/systemd/system"
ENABLED = (
    "mkdir -p /usr/lib/systemd/system; touch /usr/lib/systemd/system/%s; "
    f"ln -s /usr/lib/systemd/system/%s {UNITS}/multi-user.target.wants/%s"
)
MASKED = f"ln -s /dev/null {UNITS}/%s"
OWN = f"printf '[Service]\\n' > {UNITS}/%s"  # an administrator's own unit takes the place of the packaged one
STANZA = "mkdir -p /etc/network; printf 'auto lo\\niface lo inet loopback\\n' > /etc/network/interfaces"
NM, IFUPDOWN = "NetworkManager.service", "networking.service"


def both(script: str, unit: str) -> str:
    return script.replace("%s", unit)


CASES = {
    "no other service": ((), False),
    "NetworkManager": ((both(ENABLED, NM),), True),
    "NetworkManager, its unit replaced": ((both(ENABLED, NM), both(OWN, NM)), True),
    "NetworkManager, masked": ((both(ENABLED, NM), both(MASKED, NM)), False),
    "ifupdown": ((both(ENABLED, IFUPDOWN), STANZA), True),
    "ifupdown, masked": ((both(ENABLED, IFUPDOWN), STANZA, both(MASKED, IFUPDOWN)), False),
    "both, NetworkManager masked": (
        (both(ENABLED, NM), both(MASKED, NM), both(ENABLED, IFUPDOWN), STANZA), True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("release", ["bullseye", "trixie"])
def test_a_service_that_is_enabled_and_not_masked_looks_after_an_interface(tmp_path: Path, release: str) -> None:
    """The interface is lo, which every namespace has. A newer `udevadm test` does not start grep."""
    need_root()
    root, found = debian_root(release, "udev"), {}
    for number, (name, (scripts, _elsewhere)) in enumerate(CASES.items()):
        disk = Disk(tmp_path / str(number), NETWORK, root)
        rules = "cp /mnt/67-azure-init-default.rules /etc/udev/rules.d/"
        made = f"mkdir -p {UNITS}/multi-user.target.wants; rm -rf /etc/network"
        said = disk.run("; ".join((rules, made, *scripts, ASK)))
        assert "SUBSYSTEM=net" in said, said
        found[name] = "ID_AZURE_INIT_ELSEWHERE=1" in said
    assert found == {name: elsewhere for name, (_scripts, elsewhere) in CASES.items()}
