"""The hostname stage: what counts as a change, what is published, and when it checks again."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.model import Config, DataDir, Hostname, Waagent
from azureinit.facts.waagent import Waagent as WaagentFacts
from azureinit.machine.watch import HostnameWatch
from azureinit.plan.actions import MakeDir, Satisfied, Step, Way, Write
from azureinit.plan.published import NAME, plan_published
from azureinit.run.hostname_watch import Monitor, watch
from azureinit.run.state import Context
from azureinit.telemetry.events import Event, Events
from support.dhcp_machines import HEADER, Running, machine_with, route

FILE = "var/lib/azure-init/published_hostname"
WAAGENT = "var/lib/waagent/published_hostname"
NETWORK_MANAGER = {"/run/NetworkManager/devices/2": "[device]\n[dhcp4]\n"}
# What it was told, one line a call.
NMCLI = '#!/bin/sh\necho "$@" >> "{place}/told"\n'


class Named(Running):
    """Its kernel's name is ours to say."""

    name = "web-1"

    def hostname(self) -> str:
        return self.name


class Bench:
    def __init__(self, place: Path, *, monitor: bool = True, files: dict[str, str] | None = None) -> None:
        self.place = place
        machine_with(place, {**NETWORK_MANAGER, "/bin/nmcli": NMCLI.format(place=place), **(files or {})})
        self.machine = Named(str(place))
        self.heard: list[Event] = []
        config = Config(
            hostname=Hostname(monitor=monitor, monitor_secs=30.0),
            azure_init_data_dir=DataDir(path="/var/lib/azure-init"),
            waagent=Waagent(lib_dir="/var/lib/waagent"),
        )
        events = Events(clock=self.machine.clock, listeners=(self.heard.append,))
        self.context = Context(machine=self.machine, config=config, events=events, started=0.0)
        self.monitor = Monitor(self.context)

    def look(self, name: str) -> float:
        self.machine.name = name
        return self.monitor.look()

    def told(self) -> list[str]:
        path = self.place / "told"
        return path.read_text().splitlines() if path.exists() else []

    def warnings(self) -> list[str]:
        return [event.text for event in self.heard if event.level >= 30 and event.kind == "event"]


def told(name: str) -> str:
    return f"device modify eth0 ipv4.dhcp-hostname {name}"


def test_the_name_of_the_first_look_is_taken_down_and_not_told(tmp_path: Path) -> None:
    one = Bench(tmp_path)
    assert one.look("web-1") == 30.0
    assert (tmp_path / FILE).read_text() == "web-1"
    assert one.told() == []


def test_each_change_is_told_once(tmp_path: Path) -> None:
    one = Bench(tmp_path)
    for name in ("web-1", "web-1", "web-2", "web-2", "web-3", "web-1"):
        assert one.look(name) == 30.0
    assert one.told() == [told("web-2"), told("web-3"), told("web-1")]
    assert (tmp_path / FILE).read_text() == "web-1"
    assert one.warnings() == []


def test_a_change_while_nobody_looked_is_seen_at_the_next_start(tmp_path: Path) -> None:
    Bench(tmp_path).look("web-1")
    one = Bench(tmp_path)
    one.look("web-2")
    assert one.told() == [told("web-2")]


def test_what_walinuxagent_published_counts_where_we_know_nothing(tmp_path: Path) -> None:
    one = Bench(tmp_path, files={f"/{WAAGENT}": "web-1", "/etc/waagent.conf": ""})
    one.look("web-1")
    assert one.told() == []
    one.look("web-2")
    assert one.told() == [told("web-2")]
    assert (tmp_path / WAAGENT).read_text() == (tmp_path / FILE).read_text() == "web-2"


@pytest.mark.parametrize("name", ["localhost", "localhost.localdomain", "Localhost", "(none)", ""])
def test_everybodys_name_is_neither_told_nor_taken_down(tmp_path: Path, name: str) -> None:
    one = Bench(tmp_path)
    one.look(name)
    assert not (tmp_path / FILE).exists()
    one.look("web-1")
    one.look(name)
    one.look("web-1")
    assert one.told() == [] and (tmp_path / FILE).read_text() == "web-1"


def test_a_name_that_is_none_is_a_warning_and_not_told(tmp_path: Path) -> None:
    one = Bench(tmp_path)
    one.look("web-1")
    one.look('x"; rm -rf /')
    assert one.told() == []
    (warning,) = one.warnings()
    assert warning.startswith("host name 'x\"; rm -rf /' contains '\"'")


def test_what_fails_is_tried_again_less_and_less_often(tmp_path: Path) -> None:
    one = Bench(tmp_path, files={"/bin/nmcli": "#!/bin/sh\nexit 1\n"})
    one.look("web-1")
    pauses = [one.look("web-2") for _try in range(14)]
    assert pauses == [*(2.0**n for n in range(12)), 3600, 3600]
    assert (tmp_path / FILE).read_text() == "web-1"
    (tmp_path / "bin/nmcli").write_text(NMCLI.format(place=tmp_path))
    assert one.look("web-2") == 30.0
    assert one.told() == [told("web-2")]


def test_without_a_way_to_the_platform_it_waits_for_one(tmp_path: Path) -> None:
    one = Bench(tmp_path)
    one.look("web-1")
    (tmp_path / "proc/net/route").write_text(HEADER)
    one.look("web-2")
    (warning,) = one.warnings()
    assert warning.startswith("cannot register the host name web-2 in DNS: there is no route to the platform")
    (tmp_path / "proc/net/route").write_text(HEADER + route("eth0"))
    one.look("web-2")
    assert one.told() == [told("web-2")]


def test_a_link_that_nobody_is_known_to_hold_is_told_of_once(tmp_path: Path) -> None:
    one = Bench(tmp_path, files={"/run/NetworkManager/devices/2": ""})
    for name in ("web-1", "web-2", "web-2"):
        one.look(name)
    (warning,) = one.warnings()
    assert warning.startswith("no DHCP client is known to hold the lease of eth0")
    assert (tmp_path / FILE).read_text() == "web-2"


def test_a_fixed_name_in_a_client_s_file_follows(tmp_path: Path) -> None:
    one = Bench(tmp_path, files={"/etc/dhcp/dhclient.conf": 'send host-name "web-1";\n'})
    one.look("web-1")
    one.look("web-2")
    assert (tmp_path / "etc/dhcp/dhclient.conf").read_text() == 'send host-name "web-2";\n'


def test_where_it_is_off_it_ends_at_once(tmp_path: Path) -> None:
    one = Bench(tmp_path, monitor=False)
    assert watch(one.context) == 0
    assert not (tmp_path / FILE).exists()


def test_the_kernel_s_announcements_are_waited_for() -> None:
    with HostnameWatch() as kernel:
        while kernel.wait(0.0):
            pass  # somebody renames this computer just now
        assert kernel.wait(0.01) is False


# ---- the same name where WALinuxAgent's readers look


def test_published_hostname_is_written_where_walinuxagent_is() -> None:
    waagent = WaagentFacts(marker=None)
    (step,) = plan_published(hostname="web-1", waagent=waagent, lib_dir="/srv/agent/")
    assert isinstance(step, Step)
    assert step.ways == (
        Way(
            backend="native",
            actions=(
                MakeDir(path="/srv/agent", mode=0o700, kept=True),
                Write(path="/srv/agent/published_hostname", data=b"web-1", mode=0o644),
            ),
        ),
    )
    there = WaagentFacts(marker=None, published=b"web-1")
    assert plan_published(hostname="web-1", waagent=there, lib_dir="/srv/agent") == (
        Satisfied(name=NAME, why="says web-1"),
    )
    assert plan_published(hostname="web-1", waagent=None, lib_dir="/srv/agent") == ()
    assert plan_published(hostname="localhost", waagent=waagent, lib_dir="/srv/agent") == ()
