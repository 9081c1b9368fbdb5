"""Whole lives of pre-provisioned VMs as boots: the pool, the reuse, the customer's machine, and restarts in between."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from fakeazure.judge import judge
from fakeazure.platform.events import LinkChange, Login, Request, Reused, Told
from support.bounds import ALL, sample
from support.installed import Boot, Disk, Machines

pytestmark = pytest.mark.newer

DATA = "/metadata/reprovisiondata"
MARKER = "var/lib/azure-init/machine.pool"
REUSE = "import urllib.request as u; u.urlopen(u.Request('http://169.254.169.254/fakeazure/reuse', method='POST'))"
ON_CALL = "on_call = true\n"
UNIT = "azure-init.service"
# What a login needs. WALinuxAgent is not installed here: its stand-in notes that it was started.
LOGINS = ("ssh.service", "systemd-user-sessions.service", "walinuxagent.service")
WAAGENT = (
    "[Unit]\nAfter=azure-init.service\n[Service]\nExecStart=/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"
)
IMAGE = "ls /home; ls /etc/ssh; cat /etc/hostname /etc/passwd"


def pooled(machine: Machines) -> Disk:
    disk = machine("trixie")
    disk.write("etc/systemd/system/walinuxagent.service", WAAGENT)
    disk.change("systemctl enable walinuxagent.service")
    return disk


def boot_of(disk: Disk, kind: str, pool: str = "", more: str = "") -> AbstractContextManager[Boot]:
    return disk.boot(f"[pool]\n{pool}\n{more}", vm=f'pps_type = "{kind}"\n', wait=False)


class Life:
    """A boot that begins in a pool."""

    def __init__(self, boot: Boot) -> None:
        self.boot = boot

    def wait_in_pool(self) -> None:
        """Until Ready is reported, and the machine has noted it."""
        self.boot.until(self.boot.told, "Ready is reported in the pool")
        self.boot.until(lambda: (self.boot.disk.layer / MARKER).exists(), "the marker is written")

    def take(self) -> None:
        """A customer takes the VM."""
        command = ("nsenter", f"--target={self.boot.platform_pid}", "--net", sys.executable, "-c", REUSE)
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=30)

    def polls(self) -> list[Request]:
        return [request for request in self.boot.requests() if request.path == DATA]

    def links(self) -> list[LinkChange]:
        return [event for event in self.boot.events() if isinstance(event, LinkChange)]

    def wait_for_customer(self) -> None:
        """Until the customer's Ready. The machine is the customer's, and nothing on it is of the pool's VM."""
        boot = self.boot
        boot.until(lambda: boot.told() == ["ready", "ready"], "the customer's VM is Ready")
        boot.until(lambda: self.pool_logins() == 2, "the pool's user was tried again")
        boot._init = 0  # the machine may have been restarted
        assert boot.login("hostname; whoami") == [boot.disk.name, "azureuser"]
        assert boot.out("ls", "/home").split() == ["azureuser"]
        assert "pooladmin" not in boot.out("getent", "passwd")
        found = boot.run("grep", "-rlE", "pool-vm|pooladmin", "/etc", "/home", "/var/lib", "/root").stdout
        assert found == "", found
        assert boot.failed_units() == []

    def pool_logins(self) -> int:
        return sum(isinstance(event, Login) and event.of_pool for event in self.boot.events())

    def is_last_ready(self) -> bool:
        """Whether Ready was reported after the reuse."""
        events = self.boot.events()
        start = max((n for n, event in enumerate(events) if isinstance(event, Reused)), default=len(events))
        return any(isinstance(event, Told) and event.kind == "ready" for event in events[start:])

    def check(self) -> None:
        """The platform's own judgement, once the boot has ended."""
        judgement = judge(self.boot.events())
        assert judgement.complaints == () and judgement.state == "ready", judgement


def look(boot: Boot, image: str) -> None:
    """P31: the machine is as in the image, and what a login needs has not been started."""
    root = Path(f"/proc/{boot.init}/root")
    shown = [name for place in ("home", "etc/ssh") for name in sorted(one.name for one in (root / place).iterdir())]
    texts = [(root / name).read_text() for name in ("etc/hostname", "etc/passwd")]
    assert "".join(f"{name}\n" for name in shown) + "".join(texts) == image
    for unit in LOGINS:
        assert boot.moment(unit, "ActiveEnter") == 0, unit
    assert boot.shown(UNIT, "ActiveState") == "activating"
    assert boot.out("hostname") == "localhost"


@pytest.mark.parametrize("kind", ["Running", "Savable"])
def test_a_life_from_the_pool_to_the_customer(machine: Machines, kind: str) -> None:
    """P7, P11, P31: the network changes, and what is provisioned is the customer's alone."""
    disk = pooled(machine)
    image = disk.change(IMAGE)
    with boot_of(disk, kind, f"{ON_CALL}after_polls = 3\n") as boot:
        life = Life(boot)
        life.wait_in_pool()
        look(boot, image)
        life.take()
        life.wait_for_customer()
        polled = life.polls()
        assert {request.address for request in polled} == {"10.0.0.4"}, "all from the customer's network"
        assert [request.status for request in polled] == [404, 404, 404, 200]
        assert polled[0].t - life.links()[-1].t < 5, "after the link is up, or attached"
        assert all(boot.moment(unit, "ActiveEnter") > 0 for unit in LOGINS)
    life.check()


def test_an_os_disk_is_powered_off_and_boots_as_an_ordinary_machine(machine: Machines) -> None:
    """P21: one Ready, no marker, no request for data; SIGTERM of the shutdown ends the unit without a failure."""
    disk = pooled(machine)
    image = disk.change(IMAGE)
    with boot_of(disk, "PreprovisionedOSDisk", ON_CALL) as boot:
        life = Life(boot)
        boot.until(boot.told, "Ready is reported in the pool")
        look(boot, image)
        assert not (disk.layer / MARKER).exists()
        life.take()
        boot.until(lambda: boot.told() == ["ready", "ready"], "the customer's VM is Ready")
        boot._init = 0
        assert boot.login("hostname; whoami") == [disk.name, "azureuser"]
        assert boot.journal("-b", "-1", "-u", UNIT).count("PPS type: PreprovisionedOSDisk") == 1
        assert "Failed" not in boot.journal("-b", "-1", "-u", UNIT, "-o", "cat")
    life.check()
    assert life.polls() == []
    assert "azure-init was stopped" not in (disk.layer / "var/log/azure-init.log").read_text()


ARROWS = [(kind, moment) for kind in ("Running", "Savable") for moment in ("ready", "pool", "moved", "data")]
FEW = [("Running", "data"), ("Savable", "pool")]


@pytest.mark.parametrize(("kind", "moment"), ARROWS if ALL else FEW)
def test_the_power_fails_on_the_way(machine: Machines, kind: str, moment: str) -> None:
    """P22, P23, P24: the machine goes on where it was, and the platform hears two Ready in the whole life."""
    disk = pooled(machine)
    with boot_of(disk, kind, f'after_secs = 6\nrestarts = ["{moment}"]\n') as boot:
        life = Life(boot)
        boot.until(life.is_last_ready, "the customer's VM is Ready")
        boot._init = 0
        assert boot.login("hostname; whoami") == [disk.name, "azureuser"]
        assert boot.out("ls", "/home").split() == ["azureuser"] and "pooladmin" not in boot.out("getent", "passwd")
    life.check()


def test_the_power_of_an_os_disk_fails_at_its_ready(machine: Machines) -> None:
    """P24, and its only arrow: it has no marker, since it becomes an image, and so it reports Ready once more."""
    disk = pooled(machine)
    image = disk.change(IMAGE)
    with boot_of(disk, "PreprovisionedOSDisk", f'{ON_CALL}restarts = ["ready"]\n') as boot:
        life = Life(boot)
        boot.until(lambda: boot.told() == ["ready", "ready"], "Ready is reported again in the pool")
        boot._init = 0
        look(boot, image)
        life.take()
        boot.until(life.is_last_ready, "the customer's VM is Ready")
        boot._init = 0
        assert boot.login("hostname; whoami") == [disk.name, "azureuser"]
        assert boot.out("ls", "/home").split() == ["azureuser"] and "pooladmin" not in boot.out("getent", "passwd")
    life.check()
    assert life.polls() == []


# As in the packaged network: Azure's name server is the wireserver, which only the primary interface reaches.
ANY_LINK = "[Match]\nName=eth* nic*\n\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n\n[DHCPv4]\nRoutesToDNS=no\n"
NETWORK_FILE = "etc/systemd/network/10-eth0.network"
EVERYTHING = 'others = ["vf", "docker0", "secondary"]\nattached_as = "eth1"\nlink_up_secs = 3\n'
EXCHANGES = [
    pytest.param('others = ["vf"]\n', id="P16"),
    pytest.param('others = ["secondary"]\n', id="P17"),
    pytest.param('others = ["docker0"]\n', id="P18"),
    pytest.param("link_up_secs = 12\n", id="P19"),
    pytest.param('attached_as = "eth1"\n', id="P20"),
]


@pytest.mark.parametrize("pool", [pytest.param(EVERYTHING, id="everything"), *(EXCHANGES if ALL else ())])
def test_other_links_come_and_go_while_the_interface_is_exchanged(machine: Machines, pool: str) -> None:
    """P16 to P20: only the primary interface counts, by whatever name and MAC it comes, and however late it is up."""
    disk = pooled(machine)
    disk.write(NETWORK_FILE, ANY_LINK)
    with boot_of(disk, "Savable", f"{ON_CALL}{pool}") as boot:
        life = Life(boot)
        life.wait_in_pool()
        life.take()
        life.wait_for_customer()
        assert {request.address for request in life.polls()} == {"10.0.0.4"}, "all from the primary interface"
        if "docker0" in pool:
            assert "docker0" in boot.out("ip", "-brief", "link")
    life.check()


def renamed_and_set_down(disk: Disk) -> None:
    """P9, P10: after either the machine asks, is answered 404, waits on, and notices the move."""
    disk.write(NETWORK_FILE, ANY_LINK)
    with boot_of(disk, "Running", ON_CALL) as boot:
        life = Life(boot)
        life.wait_in_pool()
        boot.out("ip", "link", "set", "eth0", "down")
        boot.out("ip", "link", "set", "eth0", "name", "nic0")
        boot.out("ip", "link", "set", "nic0", "up")
        boot.until(life.polls, "the machine asks after it was set up again")
        assert life.polls()[-1].status == 404 and boot.told() == ["ready"]
        assert boot.shown(UNIT, "ActiveState") == "activating"
        life.take()
        life.wait_for_customer()
        assert life.polls()[-1].address == "10.0.0.4"
    life.check()


def not_announced(disk: Disk) -> None:
    """P8: a move that no event announces is found by asking now and then. The default is a minute."""
    quicker = "" if ALL else "[azure-init]\nboot = { pool_poll_secs = 5 }\n"
    with boot_of(disk, "Running", f'{ON_CALL}link = "none"\n', quicker) as boot:
        boot.soon = 120.0
        life = Life(boot)
        life.wait_in_pool()
        life.take()
        boot.until(life.is_last_ready, "the customer's VM is Ready")
        assert life.links() == [] and {request.address for request in life.polls()} == {"10.8.0.4"}
    life.check()


def never_answered(disk: Disk) -> None:
    """P14, P15: the platform has the pool's Ready, and takes the interface before it answers."""
    answers = '[[faults]]\npath = "/provisioning/health"\nanswers = ["ok", "silent", "ok*"]\n'
    answers += "[azure-init]\nwireserver = { read_timeout_secs = 600 }\n"  # the answer is not waited for
    with boot_of(disk, "Savable", "after_secs = 0\n", answers) as boot:
        life = Life(boot)
        life.wait_for_customer()
        assert boot.told() == ["ready", "ready"]
        assert [told.acknowledged for told in boot.verdicts()] == [False, True]
    life.check()


def stopped_and_killed(disk: Disk) -> None:
    """P37: SIGTERM ends it with 0 and without a verdict, SIGKILL without a failure; the next start waits on."""
    with boot_of(disk, "Running", ON_CALL) as boot:
        life = Life(boot)
        life.wait_in_pool()
        boot.out("systemctl", "stop", UNIT)
        assert boot.told() == ["ready"] and (disk.layer / MARKER).exists()
        assert boot.moment("ssh.service", "ActiveEnter") == 0
        boot.out("systemctl", "start", "--no-block", UNIT)
        boot.until(life.polls, "the next start asks for the data")
        boot.out("systemctl", "kill", "--signal=KILL", UNIT)
        asked = len(life.polls())
        boot.until(lambda: len(life.polls()) > asked + 1, "it is started again")
        assert boot.told() == ["ready"] and boot.shown(UNIT, "ActiveState") == "activating"
        life.take()
        boot.until(life.is_last_ready, "the customer's VM is Ready")
        assert boot.login("hostname; whoami") == [disk.name, "azureuser"]
    # The platform does not see that the requests before and after a start are of two processes.
    assert [text for text in judge(boot.events()).complaints if "less than a second" not in text] == []


LIMITS = "[Service]\nTimeoutStartSec=15\nRuntimeMaxSec=15\n"
BUDGETS = """
[azure-init]
boot = { hold_logins_secs = 5, deadline_secs = 20, pool_poll_secs = 5 }
run = { deadline_secs = 20 }
"""
WAIT_SECS = 45.0


def longer_than_every_limit(disk: Disk) -> None:
    """P32, with the limits of the unit and of the configuration scaled down to less than half of the wait."""
    disk.write("etc/systemd/system/azure-init.service.d/limits.conf", LIMITS)
    with boot_of(disk, "Running", ON_CALL, BUDGETS) as boot:
        life = Life(boot)
        life.wait_in_pool()
        begun, agent = time.monotonic(), boot.agent()
        status = boot.shown(UNIT, "StatusText")
        boot.until(lambda: time.monotonic() > begun + WAIT_SECS, "the limits are over")
        assert boot.agent() == agent, "the same process waits on"
        assert boot.told() == ["ready"] and boot.shown(UNIT, "ActiveState") == "activating"
        # With each status systemd is asked for another day.
        assert "in a pool for" in boot.shown(UNIT, "StatusText") != status
        assert boot.moment("azure-init-failure.service", "ExecMainStart") == 0
        assert all(boot.moment(unit, "ActiveEnter") == 0 for unit in LOGINS)
        life.take()
        life.wait_for_customer()
    life.check()


CASES = [renamed_and_set_down, not_announced, never_answered, stopped_and_killed, longer_than_every_limit]


@pytest.mark.parametrize("case", sample(CASES, 2), ids=lambda case: case.__name__)
def test_in_the_pool(machine: Machines, case: Callable[[Disk], None]) -> None:
    case(pooled(machine))
