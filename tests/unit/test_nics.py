"""Which links are NICs, and which program configures each."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from azureinit.errors import LocalError
from azureinit.facts.link_managers import (
    DHCPCD,
    IFUPDOWN,
    NETPLAN,
    NETWORK_MANAGER,
    NETWORKD,
    SCRIPTS,
    WICKED,
    Holder,
    read_holder,
)
from azureinit.facts.nics import has_several_nics, read_lone_nics, read_nic_links, read_nics
from azureinit.machine.links import has_several_cards
from azureinit.plan.actions import Run, Step, Way, Write
from azureinit.plan.lone_nic import plan_lone_nics
from support.made_up_network import Networked
from support.several_nics import DEFAULT, A, B, Several

NETIF = "/run/systemd/netif/links/3"
KEYFILES, INTERFACES = "/etc/NetworkManager/system-connections", "/etc/network/interfaces"
SOURCES = "source /etc/network/interfaces.d/*\n"


def names(machine: Networked) -> list[str]:
    return [link.name for link in read_nic_links(machine)]


# ---- NICs and virtual functions


@pytest.mark.parametrize("driver", ["mlx5_core", "mlx4_core", "mana"])
def test_a_virtual_function_is_no_nic_whatever_its_flags(tmp_path: Path, driver: str) -> None:
    machine = Networked(tmp_path)
    machine.put_card("eth0", index=2, mac=A)
    machine.put_card("enP1s1", index=3, mac=A, driver=driver)
    assert names(machine) == ["eth0"]
    assert not has_several_nics(machine) and not has_several_cards(machine)
    assert read_lone_nics(machine) == ()


def test_a_mana_nic_without_a_synthetic_twin_is_one_and_is_managed(tmp_path: Path) -> None:
    machine = Networked(tmp_path)
    machine.put_card("eth0", index=2, mac=A)
    machine.put_card("enP2s1", index=3, mac=B, driver="mana")
    assert names(machine) == ["enP2s1", "eth0"]
    assert has_several_cards(machine)
    (nic,) = read_lone_nics(machine)
    (step,) = plan_lone_nics((nic,))
    assert isinstance(step, Step) and isinstance(step.ways[0], Way)
    written = {action.path: action.data for action in step.ways[0].actions if isinstance(action, Write)}
    assert [*written] == [
        "/run/systemd/network/10-azure-init-mana-000d3a123457.network",
        "/run/udev/rules.d/69-azure-init-mana-000d3a123457.rules",
    ]
    assert b"MACAddress=00:0d:3a:12:34:57\nDriver=mana\n" in written[next(iter(written))]  # type: ignore[operator]
    assert "10-azure-init-mana-000d3a123457.network" < "10-azure-init-vf.network"
    assert not [action for action in step.ways[0].actions if isinstance(action, Run)], "no udevadm is installed here"
    machine.put(next(iter(written)), "")
    assert not [item for item in plan_lone_nics(read_lone_nics(machine)) if isinstance(item, Step)]


def test_infiniband_and_members_of_a_bond_are_no_nics(tmp_path: Path) -> None:
    machine = Networked(tmp_path)
    machine.put_card("eth0", index=2, mac=A)
    machine.put_card("ib0", index=3, mac=B, driver="mlx5_core", kind="32")
    machine.put_card("eth1", index=4, mac=B)
    (tmp_path / "sys/class/net/eth1/master").symlink_to("../bond0")
    assert names(machine) == ["eth0"]


def test_a_link_that_is_being_removed_is_none(tmp_path: Path) -> None:
    """Its files are there, and reading one fails."""

    class Going(Several):
        def read(self, path: str, **rest: Any) -> bytes | None:
            if path == "/sys/class/net/eth1/address":
                error = LocalError("cannot read it: Invalid argument")
                error.errno = errno.EINVAL
                raise error
            return super().read(path, **rest)

    assert names(Going(tmp_path, A, B)) == ["eth0"]


def test_two_links_of_one_mac_are_told_apart_by_their_leases(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    machine.put("/sys/class/net/eth1/address", A)
    for link in (2, 3):
        (tmp_path / f"sys/class/net/eth{link - 2}/device/driver").unlink()
        (tmp_path / f"sys/class/net/eth{link - 2}/device/driver").symlink_to("../../virtio_net")
    found = read_nics(machine)
    assert found.nics == () and "eth0, eth1 have one MAC address" in found.problems[0]
    (tmp_path / "run/systemd/netif/leases/3").unlink()
    assert [nic.link.name for nic in read_nics(machine).nics] == ["eth0"]


# ---- which program, and by whose files


def holder(machine: Networked) -> Holder:
    return read_holder(machine, name="eth1", index=3, mac=B)


def test_the_default_of_the_package_may_be_replaced(tmp_path: Path) -> None:
    machine = Networked(tmp_path)
    machine.put(NETIF, f"ADMIN_STATE=configured\nNETWORK_FILE={DEFAULT}\n")
    assert holder(machine) == Holder(manager=NETWORKD, file=DEFAULT, up=True)


@pytest.mark.parametrize(
    "file",
    ["/run/systemd/network/10-netplan-eth1.network", "/etc/systemd/network/50-wired.network",
     "/etc/systemd/network/10-cloud-init-eth1.network",
     "/etc/systemd/network/zzz-azure-init.network"],  # an administrator's copy of the packaged default
)  # fmt: skip
def test_a_file_of_others_stays(tmp_path: Path, file: str) -> None:
    machine = Networked(tmp_path)
    machine.put(NETIF, f"ADMIN_STATE=configured\nNETWORK_FILE={file}\n")
    assert holder(machine).foreign == file


def test_a_drop_in_of_others_counts_and_that_of_azure_init_does_not(tmp_path: Path) -> None:
    machine = Networked(tmp_path)
    own = f"/run/systemd/network/{DEFAULT.rpartition('/')[2]}.d/azure-init-hostname.conf"
    machine.put(NETIF, f'ADMIN_STATE=configured\nNETWORK_FILE={DEFAULT}\nNETWORK_FILE_DROPINS="{own}"\n')
    assert holder(machine).foreign == ""
    other = "/etc/systemd/network/zzz-azure-init.network.d/mtu.conf"
    machine.put(NETIF, f'ADMIN_STATE=configured\nNETWORK_FILE={DEFAULT}\nNETWORK_FILE_DROPINS="{own} {other}"\n')
    assert holder(machine).foreign == other


YAML = "network:\n  version: 2\n  ethernets:\n    {}\n"


@pytest.mark.parametrize(
    ("yaml", "foreign"),
    [
        ("eth0: {dhcp4: true}", False),
        ("eth1: {dhcp4: true}", True),
        ('any: {match: {name: "eth*"}, dhcp4: true}', True),
        ('mine: {match: {macaddress: "00:0D:3A:12:34:57"}, dhcp4: true}', True),
        ("eth0: {dhcp4: true} # not eth1", False),
    ],
)
def test_netplan_is_the_manager_where_it_has_a_file(tmp_path: Path, yaml: str, foreign: bool) -> None:
    machine = Networked(tmp_path)
    machine.put("/etc/netplan/50-cloud-init.yaml", YAML.format(yaml))
    machine.put(NETIF, f"ADMIN_STATE=configured\nNETWORK_FILE={DEFAULT}\n")
    found = holder(machine)
    assert found.manager == NETPLAN
    assert bool(found.foreign) == foreign


def test_netplan_for_networkmanager_is_networkmanager(tmp_path: Path) -> None:
    machine = Networked(tmp_path)
    machine.put("/etc/netplan/01-all.yaml", "network:\n  renderer: NetworkManager\n")
    assert holder(machine) == Holder(manager=NETWORK_MANAGER)
    machine.put("/run/NetworkManager/devices/3", "[device]\nconnection-uuid=4711\n\n[dhcp4]\n")
    assert holder(machine) == Holder(manager=NETWORK_MANAGER, up=True)


def test_the_program_that_holds_the_link_counts_before_one_that_is_enabled(tmp_path: Path) -> None:
    machine = Networked(tmp_path)
    machine.put("/etc/systemd/system/multi-user.target.wants/systemd-networkd.service", "")
    machine.put(NETIF, "ADMIN_STATE=unmanaged\n")
    machine.put("/run/NetworkManager/devices/3", "[device]\nconnection-uuid=4711\n\n[dhcp4]\n")
    assert holder(machine).manager == NETWORK_MANAGER


@pytest.mark.parametrize(
    ("path", "text", "foreign"),
    [
        (f"{KEYFILES}/mine.nmconnection", "[connection]\nuuid=4711\n", True),
        (f"{KEYFILES}/mine.nmconnection", "[ethernet]\nmac-address=00:0D:3A:12:34:57\n", True),
        (f"{KEYFILES}/mine.nmconnection", "[connection]\ninterface-name=eth1\n", True),
        (f"{KEYFILES}/other.nmconnection", "[connection]\nuuid=1\ninterface-name=eth0\n", False),
        ("/run/NetworkManager/system-connections/netplan-eth1.nmconnection", "[connection]\nuuid=4711\n", True),
        ("/run/NetworkManager/system-connections/Wired connection 1.nmconnection", "[connection]\nuuid=4711\n", False),
        (f"{KEYFILES}/azure-init-000d3a123457.nmconnection", "[connection]\nuuid=4711\n", False),
        ("/etc/sysconfig/network-scripts/ifcfg-eth1", 'DEVICE="eth1"\nBOOTPROTO=dhcp\n', True),
        ("/etc/sysconfig/network-scripts/ifcfg-eth1", "# Written by azure-init\nDEVICE=eth1\n", False),
    ],
)  # fmt: skip
def test_networkmanager_s_own_profile_may_be_replaced(tmp_path: Path, path: str, text: str, foreign: bool) -> None:
    machine = Networked(tmp_path)
    machine.put("/run/NetworkManager/devices/3", "[device]\nmanaged=true\nconnection-uuid=4711\n\n[dhcp4]\n")
    machine.put(path, text)
    assert holder(machine).foreign == (path if foreign else "")


@pytest.mark.parametrize(
    ("interfaces", "foreign", "reads"),
    [
        (f"{SOURCES}auto eth0\niface eth0 inet dhcp\n", "", True),
        ("source-directory interfaces.d\n", "", True),
        ("auto eth0\n", "", False),
        (f"{SOURCES}allow-hotplug eth1\niface eth1 inet dhcp\n", INTERFACES, True),
        (f"{SOURCES}iface eth* inet dhcp\n", INTERFACES, True),
    ],
)  # fmt: skip
def test_ifupdown_follows_its_sources(tmp_path: Path, interfaces: str, foreign: str, reads: bool) -> None:
    machine = Networked(tmp_path)
    machine.put("/etc/network/interfaces", interfaces)
    machine.put("/etc/network/interfaces.d/60-azure-init", "iface eth1 inet dhcp\n")
    machine.put("/run/network/ifstate", "lo=lo\neth1=eth1\n")
    assert holder(machine) == Holder(manager=IFUPDOWN, up=True, foreign=foreign, reads=reads)
    machine.put("/etc/network/interfaces.d/admin", "auto eth1\n")
    if reads:
        assert holder(machine).foreign


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/run/wicked/leaseinfo.eth1.dhcp.ipv4", Holder(manager=WICKED, up=True)),
        ("/run/dhcpcd/eth1.pid", Holder(manager=DHCPCD, up=True)),
        ("/run/dhcpcd/pid", Holder(manager=DHCPCD, up=True)),
        ("/etc/sysconfig/network-scripts/ifup-eth", Holder(manager=SCRIPTS)),
        ("/etc/systemd/system/multi-user.target.wants/systemd-networkd.service", Holder(manager=NETWORKD)),
        ("/etc/systemd/system/multi-user.target.wants/NetworkManager.service", Holder(manager=NETWORK_MANAGER)),
        ("/etc/motd", Holder()),
    ],
)
def test_others_by_what_they_leave(tmp_path: Path, path: str, expected: Holder) -> None:
    machine = Networked(tmp_path)
    machine.put(path, "1\n")
    assert holder(machine) == expected


@pytest.mark.parametrize("place", ["/etc/systemd/system", "/run/systemd/system"])
@pytest.mark.parametrize("service", ["NetworkManager", "networking"])
def test_a_masked_service_configures_nothing(tmp_path: Path, service: str, place: str) -> None:
    machine = Networked(tmp_path)
    machine.put("/etc/network/interfaces", SOURCES)
    machine.put(f"/etc/systemd/system/multi-user.target.wants/{service}.service", "")
    assert holder(machine).manager == (NETWORK_MANAGER if service == "NetworkManager" else IFUPDOWN)
    unit = tmp_path / place.lstrip("/") / f"{service}.service"
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.symlink_to("/dev/null")
    assert holder(machine) == Holder()
