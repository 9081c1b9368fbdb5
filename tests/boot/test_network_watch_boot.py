"""NICs and addresses that change while the machine runs, in the service that follows them, under systemd."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from fakeazure.machines.control import tell
from support.bounds import ALL
from support.installed import Boot, Disk, Images
from support.network_machines import (
    MANAGERS,
    A,
    B,
    C,
    Manager,
    departs,
    late_messages,
    network_image,
    rules,
    settled,
    strays,
)

pytestmark = pytest.mark.newer

UNIT = "azure-init-network.service"
ON = "[azure-init.network]\nwatch = true\nwatch_secs = 1\n"
CHANGES = """
[imds]
listed = [0]

[[imds.changes]]
name = "more"
secondary = [["10.0.0.5", "10.0.0.6"], []]

[[imds.changes]]
name = "fewer"
secondary = [["10.0.0.6"], ["10.0.1.5"]]

[[imds.changes]]
name = "second"
listed = [0, 1]

[[imds.changes]]
name = "first"
listed = [0]
"""


class ToldDisk(Disk):
    """With a socket for changes of the metadata; a socket's path must be short."""

    control = ""

    def start(self, scenario: Path, *options: str) -> Popen[str]:
        return super().start(scenario, *options, "--control", self.control)

    def change_metadata(self, name: str) -> None:
        tell(Path(self.control), ["imds", name])


MakeDisk = Callable[[Manager], ToldDisk]


@pytest.fixture
def machine(images: Images, tmp_path: Path) -> Iterator[MakeDisk]:
    with tempfile.TemporaryDirectory() as short:
        ToldDisk.control = f"{short}/control"
        yield lambda manager: ToldDisk(network_image(images, manager), tmp_path / "machine")
    shutil.rmtree(tmp_path, ignore_errors=True)


def own(boot: Boot, link: str = "eth0") -> set[str]:
    """The addresses with the prefix /32."""
    words = boot.out("ip", "-4", "-o", "address", "show", link).split()
    return {word.partition("/")[0] for word in words if word.endswith("/32")}


def asked(boot: Boot) -> int:
    return len([one for one in boot.requests() if one.target.startswith("/metadata/instance/network")])


@pytest.mark.parametrize("name", sorted(MANAGERS) if ALL else ["networkd"])
def test_changes_of_the_metadata_reach_the_machine_while_it_runs(machine: MakeDisk, name: str) -> None:
    manager = MANAGERS[name]
    disk = machine(manager)
    amends = name != "ifupdown"  # its image has a stanza for eth0, to which nothing is added
    with disk.boot(ON + CHANGES + A + B) as boot:
        settled(boot)
        boot.until(lambda: asked(boot) >= 2, "the service asks")
        assert boot.shown(UNIT, "ActiveState") == "active"
        assert own(boot) == set() and rules(boot) == [] and not disk.files(manager.ours)
        lines = len(boot.journal("-u", UNIT).splitlines())
        if amends:
            disk.change_metadata("more")
            boot.until(lambda: own(boot) == {"10.0.0.5", "10.0.0.6"}, "added")
        boot.out("ip", "address", "add", "10.0.0.9/32", "dev", "eth0")  # an administrator's
        disk.change_metadata("fewer")
        boot.until(lambda: own(boot) == ({"10.0.0.6", "10.0.0.9"} if amends else {"10.0.0.9"}), "removed")
        seen = asked(boot)
        boot.until(lambda: asked(boot) >= seen + 3, "the service asks on")
        told = len(boot.journal("-u", UNIT).splitlines())
        boot.until(lambda: asked(boot) >= seen + 6, "the service asks on")
        assert len(boot.journal("-u", UNIT).splitlines()) == told > lines, "equal answers cause no line"
        # Killed, and the metadata change before it is started again.
        boot.out("kill", "-9", boot.shown(UNIT, "MainPID"))
        disk.change_metadata("second")
        boot.out("systemctl", "restart", UNIT)
        boot.until(lambda: rules(boot) == ["10101 10.0.1.4 10101", "10101 10.0.1.5 10101"], "the second NIC's rules")
        boot.until(lambda: "10.0.1.5" in own(boot, "eth1"), "and its address")
        boot.until(lambda: "default" in boot.out("ip", "route", "show", "table", "10101"), "and its route")
        expected = {"azure0": ["10.0.0.4"], "azure1": ["10.0.1.4", "10.0.1.5"]}
        boot.until(lambda: departs(boot, expected), "packets leave by their interface")
        assert own(boot) == ({"10.0.0.6", "10.0.0.9"} if amends else {"10.0.0.9"})
        assert strays(boot) == []
        assert late_messages(boot, "34:56") == [], "the primary was never configured anew"
        # Nothing is left to do: the plan of a boot is the same.
        plan = boot.out("azure-init", "plan")
        assert not [line for line in plan.splitlines() if "network" in line and not line.startswith(("=", "!"))], plan
        for name_of in ("MemoryCurrent", "MemoryPeak", "CPUUsageNSec", "NRestarts"):
            print(f"{manager.name}: {name_of}={boot.shown(UNIT, name_of)}")
        peak = boot.shown(UNIT, "MemoryPeak")
        assert not peak.isdigit() or int(peak) * 4 <= 192 << 20
        status = boot.out("cat", f"/proc/{boot.shown(UNIT, 'MainPID')}/status")
        print([line for line in status.splitlines() if line.startswith(("VmRSS", "RssAnon"))])
        boot.out("systemctl", "stop", UNIT)
        assert (boot.shown(UNIT, "Result"), boot.shown(UNIT, "ExecMainStatus")) == ("success", "0")
        assert own(boot, "eth1") == {"10.0.1.5"}, "what it has set stays"
        assert boot.failed_units() == []
        assert "Traceback" not in boot.journal("-u", UNIT)
    assert disk.files(manager.ours)


@pytest.mark.parametrize("name", sorted(MANAGERS) if ALL else ["ifupdown"])
def test_a_table_that_becomes_another_nics_has_no_rule_of_the_former(machine: MakeDisk, name: str) -> None:
    """The new NIC has the lower MAC address, and so the table that the other one had."""
    listed = '[imds]\nlisted = [0, 2]\n\n[[imds.changes]]\nname = "all"\nlisted = [0, 1, 2]\n\n'
    disk = machine(MANAGERS[name])
    with disk.boot(ON + listed + A + B + C) as boot:
        settled(boot)
        boot.until(lambda: rules(boot) == ["10101 10.0.2.132 10101"], "the rule of the third NIC")
        disk.change_metadata("all")
        wanted = ["10101 10.0.1.4 10101", "10102 10.0.2.132 10102"]
        boot.until(lambda: rules(boot) == wanted, "each has its own table, and no rule is left of the former")
        expected = {"azure0": ["10.0.0.4"], "azure1": ["10.0.1.4"], "azure2": ["10.0.2.132"]}
        boot.until(lambda: departs(boot, expected), "packets leave by their interface")
        assert rules(boot) == wanted and strays(boot) == []


def test_where_it_is_not_asked_for_nothing_follows_the_network(machine: MakeDisk) -> None:
    with machine(MANAGERS["networkd"]).boot(A) as boot:
        settled(boot)
        assert boot.shown(UNIT, "ActiveState") == "inactive"
        assert boot.moment(UNIT, "ExecMainStart") == 0
        assert asked(boot) == 0
