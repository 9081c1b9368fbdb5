"""The rows of maintenance.py for the network: when IMDS is asked, what a failure changes, and what an image keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Config, Imds
from azureinit.errors import LocalError
from azureinit.facts.machine_state import read_machine_state
from azureinit.machine.netlink import Address, Route
from azureinit.machine.network_changes import Rule
from azureinit.machine.processes import Ran
from azureinit.plan.actions import Unknown
from azureinit.record import replace
from azureinit.run.maintenance import BEFORE_READY, LAST, START, Situation, maintain, plan_due
from azureinit.run.state import Context
from azureinit.telemetry.events import Event, Events
from support.several_nics import INSTANCE, TWO, A, B, C, Several, entry, network
from support.wire import Server

NOWHERE = "http://127.0.0.1:9"
FILE_B = "etc/systemd/network/zzx-azure-init-000d3a123457.network"


def answer(document: Any) -> bytes:
    body = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def boot(
    machine: Several,
    imds: str = NOWHERE,
    *,
    when: str = LAST,
    document: Any = None,
    heard: list[Event] | None = None,
) -> frozenset[str]:
    """One boot's jobs. Without a document IMDS has not been asked yet, as in every boot but the first."""
    settings = Imds(endpoint=imds, total_retry_timeout_secs=0.1, connection_timeout_secs=1.0, request_timeout_secs=1.0)
    config = Config(imds=settings)
    machine.privileged = True  # as in a boot, whoever runs the test
    events = Events(clock=machine.clock, listeners=(([] if heard is None else heard).append,))
    context = Context(machine=machine, config=config, events=events, started=machine.clock.monotonic())
    at = Situation(machine=machine, config=config, instance=INSTANCE, network=document)
    return maintain(context, (when,), at)


def test_a_later_boot_with_one_nic_asks_nothing(tmp_path: Path) -> None:
    machine = Several(tmp_path, A)
    with Server(answer(TWO)) as server:
        assert boot(machine, server.url) == frozenset()
        assert server.requests == []


def test_a_nic_that_imds_does_not_list_is_told_of_in_the_first_boot(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    heard: list[Event] = []
    boot(machine, document=network(entry(A, "10.0.0.4")), heard=heard)
    assert [event.text for event in heard] == [f"IMDS does not list eth1 ({B}): it keeps its defaults"]
    assert machine.ran == []


def test_only_root_can_tell(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    machine.privileged = False
    at = Situation(machine=machine, config=Config(), network=TWO)
    assert [type(item) for item in plan_due((LAST,), at)] == [Unknown]


def test_a_virtual_function_does_not_count_as_a_nic(tmp_path: Path) -> None:
    machine = Several(tmp_path, A)
    machine.put_card("enP1s1", index=9, mac=A, driver="mlx5_core")
    with Server(answer(TWO)) as server:
        boot(machine, server.url)
        assert server.requests == []


def test_a_later_boot_with_two_nics_asks_for_the_network_alone(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    with Server(answer(TWO)) as server:
        assert boot(machine, server.url) == frozenset()
        (request,) = server.requests
    assert request.startswith(b"GET /metadata/instance/network?api-version=")
    assert (tmp_path / FILE_B).exists()


def test_a_silent_imds_changes_nothing(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    boot(machine, document=TWO)
    before = (tmp_path / FILE_B).stat()
    heard: list[Event] = []
    assert boot(machine, heard=heard) == frozenset()
    assert "the network was not compared with IMDS" in heard[0].text and len(heard) == 1
    after = (tmp_path / FILE_B).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)  # reading changes st_atime


def test_imds_is_asked_again_before_anything_is_removed(tmp_path: Path) -> None:
    machine, one = Several(tmp_path, A, B), network(entry(A, "10.0.0.4"))
    boot(machine, document=TWO)
    with Server(answer(one), answer(TWO)) as server:
        assert boot(machine, server.url) == frozenset()
        assert len(server.requests) == 2
    assert (tmp_path / FILE_B).exists(), "the second answer was another one"
    with Server(answer(one)) as server:
        assert boot(machine, server.url) == frozenset()
        assert len(server.requests) == 2
    assert not (tmp_path / FILE_B).exists()
    with Server(answer(one)) as server:
        (tmp_path / "sys/class/net/eth1/address").write_text("")
        boot(machine, server.url)
        assert server.requests == [], "one NIC is left, and nothing of azure-init's"


BOTH = network(entry(A, "10.0.0.4", "10.0.0.5"), entry(B, "10.0.1.4"))
BAD: dict[str, list[Any]] = {
    "no list of addresses": [{**entry(B, "10.0.1.4"), "ipv4": None}],
    "a subnet that is none": [entry(B, "10.0.1.4", prefix="33")],
    "no MAC address": [{**entry(B, "10.0.1.4"), "macAddress": ""}],
    "an entry that is a text": ["text"],
    "a first address that is none": [entry(B, "10.0.1.256", "10.0.1.4")],
    "an address that is none": [entry(B, "10.0.1.4"), entry(A, "10.0.0.4", "10.0.0.256")],
    "the primary's first address is none": [entry(B, "10.0.1.4"), entry(A, "10.0.0.256", "10.0.0.5")],
}


@pytest.mark.parametrize("name", BAD)
def test_an_entry_that_cannot_be_used_removes_nothing_at_a_later_boot(tmp_path: Path, name: str) -> None:
    machine, primary = Several(tmp_path, A, B), entry(A, "10.0.0.4", "10.0.0.5")
    boot(machine, document=BOTH)
    own = [*tmp_path.glob("etc/systemd/network/*"), tmp_path / INSTANCE.path("network").lstrip("/")]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in own}
    assert len(before) == 3
    secondary = Address(index=2, family=4, address="10.0.0.5", prefix=32, scope="global")
    machine.addresses = (*machine.addresses, secondary)
    machine.rules = (Rule(family=4, source="10.0.1.4", prefix=32, table=10101, priority=10101),)
    ran, changed = [*machine.ran], [*machine.changed]
    wrong = network(*BAD[name]) if len(BAD[name]) > 1 else network(primary, *BAD[name])
    heard: list[Event] = []
    with Server(answer(wrong)) as server:
        for _ in range(2):
            assert boot(machine, server.url, heard=heard) == frozenset()
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in own} == before
    assert (machine.ran, machine.changed, len(machine.rules)) == (ran, changed, 1)
    assert heard, "the entry is told of"


def test_a_nic_without_addresses_in_one_answer_keeps_its_file(tmp_path: Path) -> None:
    machine, primary = Several(tmp_path, A, B), entry(A, "10.0.0.4", "10.0.0.5")
    boot(machine, document=BOTH)
    with Server(answer(network(primary, entry(B))), answer(BOTH)) as server:
        boot(machine, server.url)
    assert (tmp_path / FILE_B).exists()
    with Server(answer(network(primary, entry(B)))) as server:
        boot(machine, server.url)
    assert not (tmp_path / FILE_B).exists(), "two equal answers"


def written(path: Path) -> tuple[int, int]:
    """Changes when the file is written; reading it changes neither."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def test_another_order_of_secondary_addresses_writes_no_file(tmp_path: Path) -> None:
    def listed(*secondary: str) -> dict[str, Any]:
        return network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", *secondary, ipv6=("fd00::4", *secondary6)))

    machine, secondary6 = Several(tmp_path, A, B), ("fd00::6", "fd00::5")
    boot(machine, document=listed("10.0.1.6", "10.0.1.5"))
    before, ran = written(tmp_path / FILE_B), [*machine.ran]
    secondary6 = ("fd00::5", "fd00::6")
    with Server(answer(listed("10.0.1.5", "10.0.1.6"))) as server:
        assert boot(machine, server.url) == frozenset()
        assert len(server.requests) == 1
    assert (written(tmp_path / FILE_B), machine.ran) == (before, ran)


def test_a_first_boot_uses_the_answer_that_it_has(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    assert boot(machine, document=TWO) == frozenset()
    assert machine.ran == [("networkctl", "reload")]


def test_a_read_only_etc_is_a_warning_and_addresses_are_set_all_the_same(tmp_path: Path) -> None:
    machine = Several(tmp_path, A)
    machine.put("/etc/systemd", "not a directory")
    assert boot(machine, document=network(entry(A, "10.0.0.4", "10.0.0.5"))) == frozenset((LAST,))
    assert machine.changed == [(2, ("10.0.0.5",), ())]


def test_a_file_that_cannot_be_removed_is_removed_by_a_later_boot(tmp_path: Path) -> None:
    """The record is what the later boot knows it by."""
    machine, one = Several(tmp_path, A, B), network(entry(A, "10.0.0.4"))
    boot(machine, document=TWO)
    record, file = machine.read(INSTANCE.path("network")), tmp_path / FILE_B

    class ReadOnly(Several):
        def remove(self, path: str) -> bool:
            if path.startswith("/etc/"):
                raise LocalError(f"cannot remove {path}: Read-only file system")
            return super().remove(path)

    machine.__class__ = ReadOnly
    with Server(answer(one)) as server:
        assert boot(machine, server.url) == frozenset((LAST,))
        assert file.exists() and machine.read(INSTANCE.path("network")) == record
        machine.__class__ = Several
        assert boot(machine, server.url) == frozenset()
    assert not file.exists() and machine.read(INSTANCE.path("network")) is None


@pytest.mark.parametrize("when", [LAST, BEFORE_READY])
def test_without_a_record_nothing_is_configured(tmp_path: Path, when: str) -> None:
    machine = Several(tmp_path, A, B, primary=B)
    (tmp_path / "var/lib/azure-init").rmdir()
    machine.put("/var/lib/azure-init", "not a directory")
    heard: list[Event] = []
    document = network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.1.5"))
    assert boot(machine, when=when, document=document, heard=heard) == frozenset((when,))
    assert (machine.changed, machine.ran, [*tmp_path.glob("etc/systemd/network/*")]) == ([], [], [])
    assert [event.name for event in heard if event.name == "network record"], heard


def test_before_ready_only_a_wrong_way_to_the_platform_is_corrected(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B, primary=B)
    to_platform = [
        Route(family=4, destination=host, prefix=32, type="unicast", table=254, index=3, gateway="10.0.1.1")
        for host in ("168.63.129.16", "169.254.169.254")
    ]
    right, wrong = (*machine.routes, *to_platform), machine.routes
    machine.routes = right
    boot(machine, when=BEFORE_READY, document=TWO)
    assert machine.ran == []
    machine.routes = wrong
    boot(machine, when=BEFORE_READY, document=TWO)
    assert machine.ran == [("networkctl", "reload")]
    assert (tmp_path / FILE_B.replace("57.net", "56.net")).exists()


def test_a_route_to_the_platform_by_a_nic_of_other_configuration_is_bypassed(tmp_path: Path) -> None:
    """netplan gives every NIC a route to its DNS server, which is the wireserver, with the metric of the primary."""
    machine = Several(tmp_path, A, B)
    machine.put_state(3, "/run/systemd/network/10-netplan-eth1.network")

    def routes(*indexes: int, metric: int = 100) -> tuple[Route, ...]:
        host = {"destination": "168.63.129.16", "prefix": 32, "type": "unicast", "table": 254}
        return tuple(
            Route(family=4, index=index, gateway=f"10.0.{index - 2}.1", metric=metric, **host)  # type: ignore[arg-type]
            for index in indexes
        )

    usual = machine.routes
    machine.routes = (*usual, *routes(2, 3))
    boot(machine, when=BEFORE_READY, document=TWO)
    assert machine.ran == [], "the kernel takes the first of two equal routes"
    machine.routes = (*usual, *routes(3, 2))
    boot(machine, when=BEFORE_READY, document=TWO)
    way = ("168.63.129.16/32", "via", "10.0.0.1", "dev", "eth0", "onlink", "metric", "1")
    assert machine.ran == [("ip", "-4", "route", "add", *way)]
    assert not (tmp_path / FILE_B).exists()
    machine.routes = (*machine.routes, *routes(2, metric=1))
    boot(machine, when=BEFORE_READY, document=TWO)
    boot(machine, document=TWO)
    assert len(machine.ran) == 1, "there is one now"


def test_a_route_that_cannot_be_added_stops_no_other_step(tmp_path: Path) -> None:
    class Refusing(Several):
        def run(self, argv: tuple[str, ...], **rest: Any) -> Ran:
            done = super().run(argv, **rest)
            return replace(done, status=2, err=b"Operation not permitted") if argv[0] == "ip" else done

    machine = Refusing(tmp_path, A, B, C)
    machine.put_state(3, "/run/systemd/network/10-netplan-eth1.network")
    host = Route(family=4, destination="168.63.129.16", prefix=32, type="unicast", table=254, index=3, metric=50)
    machine.routes = (*machine.routes, host)
    document = network(*TWO["interface"], entry(C, "10.0.2.4"))
    assert boot(machine, document=document) == frozenset((LAST,))
    assert [argv[0] for argv in machine.ran] == ["ip", "networkctl"]
    assert (tmp_path / FILE_B.replace("57.net", "58.net")).exists()


def test_a_mana_nic_without_a_synthetic_twin_is_managed_from_the_start(tmp_path: Path) -> None:
    machine = Several(tmp_path, A)
    boot(machine, when=START)
    assert machine.ran == []
    machine.put_card("enP2s1", index=9, mac=B, driver="mana")
    boot(machine, when=START)
    boot(machine, when=START)
    assert machine.ran == [
        ("udevadm", "control", "--reload"),
        ("udevadm", "trigger", "--settle", "/sys/class/net/enP2s1"),
        ("networkctl", "reload"),
        ("networkctl", "reconfigure", "enP2s1"),
    ]


def test_an_image_keeps_none_of_it(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    own = (
        "/etc/systemd/network/zzx-azure-init-000d3a123457.network",
        "/etc/NetworkManager/system-connections/azure-init-000d3a123457.nmconnection",
        "/etc/netplan/60-azure-init.yaml",
        "/etc/network/interfaces.d/60-azure-init",
        "/etc/sysconfig/network-scripts/ifcfg-eth1",
    )
    for path in own:
        machine.put(path, "# Written by azure-init\n")
    others = ("/etc/sysconfig/network-scripts/ifcfg-eth0", "/etc/systemd/network/zzx-mine.network")
    for path in others:
        machine.put(path, "DEVICE=eth0\n")
    machine.put(INSTANCE.path("network"), "{}")
    machine.put(INSTANCE.path("reload"), "reload\n")
    state = read_machine_state(
        machine,
        data_dir=INSTANCE.data_dir,
        log="/var/log/azure-init.log",
        kvp_directory="/var/lib/hyperv",
        waagent_dirs=(),
        homes=(),
    )
    groups = {group.name: group.paths for group in state.groups}
    assert sorted(groups["network"]) == sorted(own)
    assert {INSTANCE.path("network"), INSTANCE.path("reload")} <= {*groups["azure-init"]}
