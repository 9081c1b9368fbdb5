"""One machine that boots or runs an agent, and its times: from the platform, from its systemd, and from logins."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import peers_scales as scales
from peers_inside import CHILDREN, STAGES
from peers_roots import MOUNT, Entrant, Root

from fakeazure.machines import container, nspawn
from fakeazure.machines.console import last_lines
from fakeazure.machines.login import connect, environment as ssh_environment, options as ssh_options
from fakeazure.machines.network import enter_network, ip, make_veth
from fakeazure.machines.pool_machine import ContainerNetwork
from fakeazure.machines.process import Stop, end, has_ended
from fakeazure.machines.ssh_key import with_fresh_key
from fakeazure.machines.traces import read_traces
from fakeazure.machines.workspace import Workspace
from fakeazure.platform import media
from fakeazure.platform.addresses import gateway_for
from fakeazure.platform.dhcp import Dhcp, offers_for
from fakeazure.platform.events import Lease
from fakeazure.platform.scenario import Scenario
from fakeazure.platform.vm import Expect, Media, Vm

VM = Vm(id="c0ffee00-1111-4222-8333-444444444444", name="racer", username="azureuser")
# What people write most: files, users, commands.
CUSTOM_DATA = b"""#cloud-config
users: [default, {name: app, system: true}]
write_files:
- {path: /etc/app/app.conf, permissions: '0640', owner: 'root:root', content: "port = 8080\\n"}
- {path: /usr/local/bin/app, permissions: '0755', content: "#!/bin/sh\\nexec sleep infinity\\n"}
runcmd:
- mkdir -p /srv/app
- [chown, app, /srv/app]
- echo done > /srv/app/done
"""
OUTSIDE = f"{container.STEM}0"  # the platform's side of eth0
TURN = Path("/run/azure-init-peers.lock")
PATIENCE = 60.0
PAUSE = 0.005
LOGIN_PAUSE = 0.05  # pause after a refused login
UNITS = ("systemd-networkd.service", "networking.service", "ssh.service", "multi-user.target")
SHOWN = ("ExecMainHandoffTimestampMonotonic", "ActiveEnterTimestampMonotonic", "MainPID")


class Unfinished(Exception):
    """The machine did not finish; the text says how far it came, with the end of its console."""


@dataclass(kw_only=True)
class Seen:
    """All times in seconds since the start of the machine's first process; None: it did not happen."""

    lease: float | None = None
    ready: float | None = None
    login: float | None = None
    done: float | None = None  # Ready is reported and the admin's keys exist; measured if the agent runs alone
    units: dict[str, tuple[float, float | None]] = field(default_factory=dict)  # first process started, unit up
    weight: scales.Weight | None = None
    children_secs: float | None = None
    worked_secs: float | None = None  # started by a program: the whole time until Ready
    customised: float | None = None  # customData is carried out
    stages_secs: float | None = None  # of the units that carry it out, together

    @property
    def agent_start(self) -> float | None:
        starts = [start for name, (start, _up) in self.units.items() if name not in UNITS]
        return min(starts) if starts else None


@dataclass(kw_only=True)
class Race:
    """How to run a machine. `alone`: the agent starts after the boot is over."""

    root: Root
    alone: bool = False
    matched: bool = False  # alone, but started by a program and not by systemd, and with host keys in the image
    scales: scales.Scales | None = None
    custom_data: bool = False  # the VM has some


class Machine:
    def __init__(self, site: container.ContainerRun, race: Race) -> None:
        self.site, self.race = site, race
        self.entrant: Entrant = race.root.entrant
        binds = [*site.binds, *self.entrant.words]  # arguments after the options become the kernel command line
        self.child = nspawn.start(site.root, site.console, binds=binds, workspace=site.workspace)
        self.init: int = self.wait(self._find_init, "systemd did not start")

    def wait(self, ready: Callable[[], Any], otherwise: str, *, patience: float = PATIENCE) -> Any:
        until = time.monotonic() + patience
        while not (found := ready()):
            if has_ended(self.child) or self.site.stop.number or time.monotonic() > until:
                words = "\n".join(last_lines(self.site.console))
                raise Unfinished(f"{self.entrant.title}: {otherwise}\n{words}")
            self.site.update_drive()
            time.sleep(PAUSE)
        return found

    def _find_init(self) -> int:
        """The host's pid of the machine's first process: the only systemd among the descendants of this process."""
        pending = [self.child.pid]
        while pending:
            pid = pending.pop()
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/status").read_text().startswith("Name:\tsystemd\n"):
                    return pid
                pending += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return 0

    def run(self, *argv: str) -> str:
        """Runs a program in the machine, as root."""
        enter = ["nsenter", f"--target={self.init}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        enter += ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LC_ALL=C.UTF-8", *argv]
        ran = subprocess.run(enter, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
        return ran.stdout

    def settle(self) -> None:
        """Waits until systemd has started all units, or they have failed."""
        self.wait(lambda: Path(f"/proc/{self.init}/root/run/systemd/private").exists(), "systemd does not answer")
        self.wait(
            lambda: self.run("systemctl", "is-system-running").strip() in ("running", "degraded"), "still starting"
        )
        self.wait(lambda: self.run("ip", "route", "show", "default").strip(), "no route")

    def quiet(self) -> bool:
        """Whether systemd has no jobs left, and the agent has ended or is idle."""
        if self.run("systemctl", "list-jobs", "--no-legend").strip():
            return False
        if all(shown["MainPID"] == "0" for shown in self.times(*self.entrant.units).values()):
            return True
        before = self.agent_cpu()
        time.sleep(1.0)
        return self.agent_cpu() - before < 0.01

    def agent_cpu(self) -> float:
        """CPU seconds of the main processes, and of their children that have ended."""
        total = 0
        for shown in self.times(*self.entrant.units).values():
            with contextlib.suppress(OSError):
                fields = (
                    Path(f"/proc/{self.init}/root/proc/{shown['MainPID']}/stat").read_text().rpartition(")")[2].split()
                )
                total += sum(map(int, fields[11:15]))
        return total / os.sysconf("SC_CLK_TCK")

    def has_keys(self) -> bool:
        keys = self.site.root / f"home/{self.site.fabric.vm.username}/.ssh/authorized_keys"
        return keys.exists() and keys.stat().st_size > 0

    def times(self, *units: str) -> dict[str, dict[str, str]]:
        properties = [f"--property={name}" for name in ("Id", *SHOWN)]
        blocks = self.run("systemctl", "show", *properties, *units).strip().split("\n\n")
        shown = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks]
        return {one["Id"]: one for one in shown if "Id" in one}

    def begin(self) -> float:
        """When the machine's first process began, on this computer's monotonic clock."""
        shown = self.run("systemctl", "show", "--property=UserspaceTimestampMonotonic", "--value")
        return int(shown) / 1e6

    def seen(self) -> Seen:
        begin = self.begin()
        opened = time.monotonic() - self.site.fabric.ledger.now()  # the ledger's zero
        seen = Seen()
        for event in self.site.fabric.ledger.events:
            if isinstance(event, Lease) and event.kind == "request" and seen.lease is None:
                seen.lease = opened + event.t - begin
        verdicts = self.site.fabric.ledger.verdicts
        if verdicts and verdicts[0].kind == "ready":
            seen.ready = opened + verdicts[0].t - begin
        for name, shown in self.times(*UNITS, *self.entrant.units).items():
            start, up = (int(shown.get(which) or 0) / 1e6 for which in SHOWN[:2])
            if name.endswith(".target") and up:
                seen.units[name] = (up - begin, up - begin)
            elif start:
                seen.units[name] = (start - begin, up - begin if up else None)
        return seen


def first_login(machine: Machine) -> float | None:
    """When a login with the admin's key first worked, on this computer's monotonic clock."""
    site = machine.site
    vm = site.fabric.vm
    address = vm.interfaces[0].address
    command = ["ssh", *ssh_options(port=22, user=vm.username, directory=site.workspace.directory)]
    command += ["-oBatchMode=yes", "-oPreferredAuthentications=publickey", "-i", str(site.private_key), address, "true"]
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and not has_ended(machine.child) and not site.stop.number:
        site.update_drive()
        if not listening(address):
            time.sleep(PAUSE)
            continue
        ok, _text = connect(command, ssh_environment(None), group=site.workspace.group, timeout=20.0)
        if ok:
            return time.monotonic()
        time.sleep(LOGIN_PAUSE)
    return None


def listening(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=0.05):
            return True
    except OSError:
        return False


def race(how: Race) -> Seen:
    """Boots the machine, measures it, and kills it. Call it in a separate process: it changes namespaces."""
    with Stop() as stop, Workspace() as workspace, our_turn():
        asked = dataclasses.replace(VM, custom_data=CUSTOM_DATA) if how.custom_data else VM
        wanted = Scenario(vm=asked, expect=Expect(verdict="ready", within_secs=PATIENCE))
        scenario, private_key = with_fresh_key(wanted, workspace.directory)
        vm = scenario.vm
        enter_network(mounts=True)
        whole = lay(how.root, workspace.directory)
        furnish(whole, how, vm=vm)
        nspawn.prepare_mounts()
        nic = vm.interfaces[0]
        make_veth(inside=nspawn.INTERFACE, outside=OUTSIDE, mac=nic.mac, gateway=gateway_for(nic))
        # Without this, ARP for a machine that has no address yet is repeated only after a second.
        ip("neighbour", "replace", nic.address, "lladdr", nic.mac, "dev", OUTSIDE, "nud", "permanent")
        fabric = container.make_fabric(scenario, ledger=None, directory=workspace.directory, root=whole)
        console = workspace.directory / "console"
        site = container.ContainerRun(
            fabric=fabric,
            workspace=workspace,
            stop=stop,
            root=whole,
            console=console,
            private_key=private_key,
            network=ContainerNetwork(scenario, stem=container.STEM, inside=container.INSIDE),  # made above
            image=read_traces(whole),
        )
        dhcp = Dhcp(OUTSIDE, offers_for(vm), fabric.ledger)
        with fabric, dhcp, container.prepared(site), scales.laid(how.scales, site.binds):
            machine = Machine(site, how)
            try:
                return work_matched(machine) if how.matched else work_alone(machine) if how.alone else boot(machine)
            finally:
                end(machine.child, workspace.group, grace=0.0)


@contextlib.contextmanager
def our_turn() -> Iterator[None]:
    """One machine at a time, so that they do not slow each other."""
    with TURN.open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def lay(root: Root, directory: Path) -> Path:
    upper, work, whole = (directory / name for name in ("upper", "work", "root"))
    for one in (upper, work, whole):
        one.mkdir()
    layers = f"lowerdir={root.layer}:{root.base},upperdir={upper},workdir={work}"
    nspawn.mount("-t", "overlay", "-o", layers, "overlay", str(whole))
    return whole


def furnish(whole: Path, how: Race, *, vm: Vm) -> None:
    """Prepares the machine: the files of its disc, its firmware's values, and masked units."""
    for name, text in (("product_uuid", vm.dmi_uuid), ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")):
        write(whole / "srv/dmi" / name, f"{text}\n")
    for name, data in media.files(vm, Media()).items():
        write(whole / "srv/disc" / name, data)
    shim = whole / "usr/local/sbin/mount"
    write(shim, MOUNT)
    shim.chmod(0o755)
    if how.root.entrant.name == "none":
        give_account(whole, vm)
    system = whole / "etc/systemd/system"
    if how.scales:
        how.scales.fit(system, how.root)
    if how.alone:
        for unit in how.root.entrant.units:
            (system / unit).unlink(missing_ok=True)
            (system / unit).symlink_to("/dev/null")


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def give_account(whole: Path, vm: Vm) -> None:
    """Puts the admin into the image of a machine without an agent."""
    script = (
        f"useradd -m -s /bin/bash -G sudo {vm.username} && install -d -m 700 -o {vm.username} /home/{vm.username}/.ssh"
        f" && cat > /home/{vm.username}/.ssh/authorized_keys && chown -R {vm.username} /home/{vm.username}/.ssh"
    )
    key = "".join(f"{one if isinstance(one, str) else one.data}\n" for one in vm.keys)
    subprocess.run(["chroot", str(whole), "sh", "-c", script], input=key, text=True, check=True, capture_output=True)


def boot(machine: Machine) -> Seen:
    logged_in = first_login(machine)
    if machine.entrant.units:
        machine.wait(lambda: machine.site.fabric.ledger.verdicts, "no verdict")
    seen = machine.seen()
    seen.login = logged_in - machine.begin() if logged_in else None
    if seen.login is None or (machine.entrant.units and seen.ready is None):
        raise Unfinished(f"{machine.entrant.title}: no login, or no Ready")
    if machine.race.custom_data:
        carry_out(machine, seen)
        weigh(machine, seen)
    return seen


def weigh(machine: Machine, seen: Seen) -> None:
    if machine.race.scales and machine.race.scales.weighs:
        machine.wait(machine.quiet, "still at work")
        seen.weight = machine.race.scales.read(machine)


def carry_out(machine: Machine, seen: Seen) -> None:
    *_others, last = stages = machine.entrant.stages
    machine.wait(lambda: int(machine.times(last)[last].get(SHOWN[1]) or 0), "customData does not end")
    if not (machine.site.root / "srv/app/done").exists():
        raise Unfinished(f"{machine.entrant.title}: customData was not carried out")
    shown = machine.times(*stages).values()
    spans = [tuple(int(one.get(which) or 0) / 1e6 for which in SHOWN[:2]) for one in shown]
    seen.stages_secs = sum(up - start for start, up in spans if start and up)
    seen.customised = max(up for _start, up in spans) - machine.begin()


def work_alone(machine: Machine) -> Seen:
    """The agent starts on an idle machine."""
    machine.settle()
    units = machine.entrant.units
    if units:
        machine.run("sh", "-c", f"cd /etc/systemd/system && rm {' '.join(units)} && systemctl daemon-reload")
        time.sleep(0.3)
        machine.run("systemctl", "start", "--no-block", *units)
        machine.wait(lambda: machine.site.fabric.ledger.verdicts, "no verdict")
        machine.wait(machine.has_keys, "no keys for the admin")
    done = time.monotonic()
    seen = machine.seen()
    if units and seen.ready is None:
        raise Unfinished(f"{machine.entrant.title}: no Ready")
    seen.done = done - machine.begin()
    if not units:
        seen.children_secs = float(machine.run("python3", "-c", CHILDREN))
    weigh(machine, seen)
    return seen


# The children that azure-init is compared with make no host keys.
KEEP_KEYS = """
mkdir -p /etc/azure-init/azure-init.toml.d
printf '[ssh]\\nregenerate_host_keys = "never"\\n' > /etc/azure-init/azure-init.toml.d/90-keep-keys.toml
"""


def work_matched(machine: Machine) -> Seen:
    """Runs the agent's programs one after the other, until Ready; sshd is stopped before, as in a boot."""
    machine.settle()
    machine.run("sh", "-c", f"systemctl stop ssh.service; ssh-keygen -A; {KEEP_KEYS}")
    time.sleep(0.3)
    printed = machine.run("python3", "-c", STAGES)
    (first, end), (last, _end) = (tuple(map(float, line.split())) for line in printed.splitlines())
    seen = machine.seen()
    if seen.ready is None:
        raise Unfinished(f"{machine.entrant.title}: no Ready")
    seen.worked_secs = end - first + machine.begin() + seen.ready - last
    return seen
