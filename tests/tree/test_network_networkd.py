"""Several NICs and addresses with a real systemd-networkd and the real kernel, in namespaces."""

from __future__ import annotations

import pytest

from support.network_lab import in_lab

pytestmark = pytest.mark.newer  # the DHCP server is fakeazure's

TWO = """
A, B = "00:0d:3a:12:34:56", "00:0d:3a:12:34:57"
TWO = {"interface": [entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.1.5")]}
FILE = Path("/etc/systemd/network/zzx-azure-init-000d3a123457.network")
"""


def test_a_secondary_nic_gets_policy_routing_and_the_primary_notices_nothing() -> None:
    first, seen, ways, again, same, order, killed, quiet, back = in_lab(
        TWO
        + """
lab = Lab(("eth0", A, "10.0.0.4", True), ("eth1", B, "10.0.1.4", False))
lab.wait(lambda: shell("networkctl list").count("configured") >= 2)
first = []
seen = watched(lambda: first.append(lab.apply(TWO)), "eth0")
lab.wait(lambda: "10101" in shell("ip rule") and "10.0.1.4" in shell("ip addr"))
ways = [lab.way(*words.split()) for words in (
    "8.8.8.8", "168.63.129.16", "169.254.169.254", "8.8.8.8 from 10.0.1.4", "8.8.8.8 from 10.0.1.5", "10.0.1.77")]
before = FILE.stat().st_mtime_ns
again = lab.apply(TWO)
order = lab.apply({"interface": TWO["interface"][::-1]})
same = FILE.stat().st_mtime_ns == before
Path(lab.instance.path("reload")).write_text("reload\\n")  # as if killed before the reload
killed = [lab.apply(TWO), lab.apply(TWO)]
more = {"interface": [entry(A, "10.0.0.4", "10.0.0.5"), entry(B, "10.0.1.4", "10.0.1.5")]}
lab.apply(more)  # a file for the primary, which is not loaded
later = {"interface": [more["interface"][0], entry(B, "10.0.1.4", "10.0.1.5", "10.0.1.6")]}
quiet = watched(lambda: lab.apply(later), "eth0")
lab.wait(lambda: "10.0.1.6" in shell("ip addr"))
quiet += [lab.apply(later), len(files_below("/etc/systemd/network"))]
lab.apply(TWO, confirmed=True)
lab.wait(lambda: "10.0.1.6" not in shell("ip addr; ip rule") and "10.0.1.4/" in shell("ip addr")
         and "ADMIN_STATE=configured" in shell("cat /run/systemd/netif/links/$(cat /sys/class/net/eth1/ifindex)"))
gone = {"interface": TWO["interface"][:1]}
back = [lab.apply(gone), FILE.exists(), lab.apply(gone, confirmed=True), FILE.exists(),
        Path(lab.instance.path("network")).exists(), "10101" in shell("ip rule")]
print((first[0], seen, ways, again, same, order, killed, quiet, back))
"""
    )
    assert first == ["Step: network record", "Step: network configuration of eth1"]
    assert seen == []
    assert ways == [
        "via 10.0.0.1 dev eth0 src 10.0.0.4",
        "via 10.0.0.1 dev eth0 src 10.0.0.4",
        "via 10.0.0.1 dev eth0 src 10.0.0.4",
        "via 10.0.1.1 dev eth1 table 10101",
        "via 10.0.1.1 dev eth1 table 10101",
        "dev eth1 src 10.0.1.4",
    ]
    assert again == order == ["Satisfied: network"] and same
    assert killed == [["Step: network configuration of eth1"], ["Satisfied: network"]]
    assert quiet == [["Satisfied: network"], 2], "a reload for eth1 does not touch eth0, whose file is not loaded yet"
    once, kept, removal, left, recorded, ruled = back
    assert (once, kept) == (["Satisfied: network"], True)
    assert [name for name in removal if name.startswith("Step")] == [
        "Step: network files", "Step: routing rules", "Step: addresses of eth1", "Step: network record",
    ]  # fmt: skip
    assert not left and not recorded and not ruled


def test_secondary_addresses_of_the_primary_come_at_once_and_only_they_go_again() -> None:
    done, seen, way, after, restarted = in_lab(
        """
A = "00:0d:3a:12:34:56"
document = {"interface": [entry(A, "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", ipv6=("fd00:1::4", "fd00:1::5"))]}
def addresses():
    rows = json.loads(shell("ip -j addr show eth0"))[0]["addr_info"]
    return sorted(f"{row['local']}/{row['prefixlen']}" for row in rows if row["scope"] == "global")
lab = Lab(("eth0", A, "10.0.0.4", True))
lab.wait(lambda: shell("networkctl list").count("configured") >= 1)
shell("ip -6 addr add fd00:1::4/128 dev eth0 nodad valid_lft 4000 preferred_lft 3000")  # as DHCPv6 does
shell("ip -6 route add default via fe80::1 dev eth0")
names = []
seen = watched(lambda: names.append(lab.apply(document)), "eth0")
done = names[0], addresses(), sorted(files_below("/etc/systemd/network"))
way = lab.way("10.0.0.77"), lab.way("2001:db8::77")
shell("ip addr add 10.0.0.9/32 dev eth0")  # an administrator's
fewer = {"interface": [entry(A, "10.0.0.4", "10.0.0.5", "10.0.0.7", ipv6=("fd00:1::4", "fd00:1::5"))]}
after = [lab.apply(fewer), addresses(), lab.apply(fewer, confirmed=True), addresses(),
         files_below("/etc/systemd/network").popitem()[1].count("\\nAddress=")]
lab.restart_networkd()
lab.wait(lambda: "10.0.0.4/24" in addresses() and "zzx" in shell(
    "cat /run/systemd/netif/links/$(cat /sys/class/net/eth0/ifindex)"))
lab.wait(lambda: "inet6 fd00:1::5/128 scope global deprecated" in shell("ip addr show eth0"))
restarted = lab.apply(fewer), lab.way("10.0.0.77")
print((done, [line for line in seen if "Deleted" in line], way, after, restarted))
"""
    )
    names, addresses, files = done
    assert names == ["Step: network record", "Step: addresses of eth0", "Step: network configuration of eth0"]
    assert addresses == ["10.0.0.4/24", "10.0.0.5/32", "10.0.0.6/32", "10.0.0.7/32", "fd00:1::4/128", "fd00:1::5/128"]
    assert files == ["zzx-azure-init-000d3a123456.network"]
    assert seen == [], "the primary keeps what it has"
    assert way == ("dev eth0 src 10.0.0.4", "via fe80::1 dev eth0 src fd00:1::4"), "no secondary address is the source"
    first, unchanged, second, left, written = after
    assert first == ["Satisfied: network"] and "10.0.0.6/32" in unchanged
    assert "Step: addresses of eth0" in second
    assert left == ["10.0.0.4/24", "10.0.0.5/32", "10.0.0.7/32", "10.0.0.9/32", "fd00:1::4/128", "fd00:1::5/128"]
    assert written == 3, "two of IPv4, one of IPv6"
    assert restarted == (["Satisfied: network"], "dev eth0 src 10.0.0.4")


def test_the_primary_is_the_nic_that_leads_to_the_platform_whatever_its_name() -> None:
    before, done, routes, gateway = in_lab(
        """
A, B = "00:0d:3a:12:34:56", "00:0d:3a:12:34:57"
lab = Lab(("eth0", A, "10.0.0.4", False), ("eth1", B, "10.0.1.4", True), omit=(3,))
lab.wait(lambda: shell("networkctl list").count("configured") >= 2)
before = [line.split(" proto")[0] for line in shell("ip route show table all 168.63.129.16").splitlines()]
done = lab.apply({"interface": [entry(A, "10.0.0.4"), entry(B, "10.0.1.4")]})
lab.wait(lambda: "10101" in shell("ip rule") and "default" in shell("ip route show table 10101"))
routes = lab.way("8.8.8.8"), lab.way("168.63.129.16"), shell("ip route show default").count("dev"), \
    lab.way("8.8.8.8", "from", "10.0.0.4")
print((before, done, routes, "Gateway=10.0.0.1" in files_below("/etc/systemd/network").popitem()[1]))
"""
    )
    assert before == ["168.63.129.16 via 10.0.1.1 dev eth1"], "the packaged defaults make one route, by the primary"
    assert done == ["Step: network record", "Step: network configuration of eth0"]
    assert routes == (
        "via 10.0.1.1 dev eth1 src 10.0.1.4",
        "via 10.0.1.1 dev eth1 src 10.0.1.4",
        1,
        "via 10.0.0.1 dev eth0 table 10101",
    )
    assert gateway, "its lease has no router: the subnet's first address"
