"""`fakeazure container`: a root directory booted with the platform around it, from its start to a login."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fakeazure import show
from fakeazure.machines import nspawn
from fakeazure.machines.console import last_lines
from fakeazure.machines.control import Control
from fakeazure.machines.login import prove_login, prove_pool_login
from fakeazure.machines.loop_drive import LoopDrive, NoDrive
from fakeazure.machines.messages import print_login_command, print_start, print_verdict
from fakeazure.machines.network import enter_network
from fakeazure.machines.nspawn import NoContainer
from fakeazure.machines.options import MachineOptions
from fakeazure.machines.pool_machine import ContainerNetwork, namespace_leader, network_vm
from fakeazure.machines.process import Stop, end, has_ended, kill
from fakeazure.machines.reboots import SETTLED_SECS, Deadline, NetworkWatch, was_ready_before
from fakeazure.machines.ssh_key import with_fresh_key, with_fresh_pool_key
from fakeazure.machines.traces import Traces, kept, provisioned, read_traces, record
from fakeazure.machines.workspace import Workspace
from fakeazure.platform import proxy_agent
from fakeazure.platform.addresses import WIRESERVER, azure_endpoints
from fakeazure.platform.events import End, Login
from fakeazure.platform.fabric import Fabric
from fakeazure.platform.pool import CUT
from fakeazure.platform.scenario import Scenario
from fakeazure.platform.wireserver import HEALTH

GRACE_SECS = 15.0  # between the request to shut down and SIGKILL
LOGIN_SECS = 60.0
DHCP_SECS = 20.0
PAUSE = 0.02
STEM, INSIDE = "azure", "eth"  # of the interfaces' names: azure0 is the platform's side of eth0
POOLS = "var/lib/hyperv"
DRIVE = "/dev/sr0"
SHARED = "/run/fakeazure"
CONFIG = "/etc/azure-init/azure-init.toml.d/99-fakeazure.toml"
PROXY_AGENT = f"/usr/local/bin/{proxy_agent.NAME}"


@dataclass(kw_only=True)
class ContainerRun:
    """One container with its platform, its files and its drive."""

    fabric: Fabric
    workspace: Workspace
    stop: Stop
    root: Path
    console: Path
    private_key: Path | None
    network: ContainerNetwork
    image: Traces  # before the first boot
    pool_key: Path | None = None
    drive: LoopDrive | None = None
    binds: list[str] = field(default_factory=list)

    def update_drive(self) -> None:
        """Inserts or ejects the disc, as the platform has done with the medium's file."""
        if self.drive:
            self.drive.follow(self.fabric.media_path)

    def reuse(self) -> None:
        """A customer takes the VM from its pool. What was provisioned before belongs to no customer."""
        record(self.fabric, provisioned(self.image, read_traces(self.root)), in_pool=True)
        if self.fabric.pool:
            self.try_pool_login(self.fabric.pool.pool_vm.primary.address)
        self.network.change(self.fabric)

    def try_pool_login(self, address: str) -> None:
        prove_pool_login(
            self.fabric,
            address=address,
            private_key=self.pool_key,
            directory=self.workspace.directory,
            group=self.workspace.group,
        )


def check_host(root: Path) -> None:
    """Raises NoContainer if this host cannot boot this root directory."""
    nspawn.check_host()
    nspawn.check_root(root)


def check_scenario(scenario: Scenario) -> None:
    if scenario.clock.wrong:
        raise NoContainer("a container has its host's clock: for a wrong one, use fakeazure run or fakeazure boot")


def boot(scenario: Scenario, root: Path, options: MachineOptions) -> int:
    """The exit code: 0 when the platform was told the truth in time, 1 when not, 128 + n when stopped by signal n."""
    with Stop() as stop, Workspace() as workspace:
        scenario, private_key = with_fresh_key(scenario, workspace.directory)
        enter_network(mounts=True)
        whole = nspawn.mount_root(root, workspace.directory, keep=options.keep)
        nspawn.prepare_mounts()
        scenario, pool_key = with_fresh_pool_key(scenario, workspace.directory)
        network = ContainerNetwork(scenario, stem=STEM, inside=INSIDE)
        network.make(network_vm(scenario))  # before the platform, which listens at its addresses
        run = ContainerRun(
            fabric=make_fabric(scenario, ledger=options.ledger, directory=workspace.directory, root=whole),
            workspace=workspace,
            stop=stop,
            root=whole,
            console=options.console or workspace.directory / "console",
            private_key=private_key,
            pool_key=pool_key,
            network=network,
            image=read_traces(whole),
        )
        if run.fabric.pool:
            run.fabric.pool.move = run.reuse
        run.console.write_bytes(b"")
        with run.fabric as fabric, prepared(run), Control(options.control, fabric):
            waiting = f"waiting up to {fabric.expect.within_secs:g} s for its verdict; its console: {run.console}"
            print_start(fabric, f"booting {root}", waiting)
            left, again = options.boots, False
            while left and not stop.number:
                if again:
                    fabric.reboot()
                    network.make(network_vm(scenario, fabric))
                again = True
                with contextlib.closing(network):
                    network.serve(fabric, network_vm(scenario, fabric))
                    run_boot(run, login=options.login, stay=options.stay and left == 1)
                left -= not fabric.restart_due
            print_verdict(fabric)
            truthful = fabric.judge().ok
        return stop.exit_code(truthful=truthful)


def make_fabric(scenario: Scenario, *, ledger: Path | None, directory: Path, root: Path) -> Fabric:
    return Fabric.of(
        scenario,
        ledger=ledger or directory / "ledger.jsonl",
        eject=True,
        directory=directory / "platform",
        pools=root / POOLS,
        listen_at=azure_endpoints(scenario.wireserver.address),
    )


@contextlib.contextmanager
def prepared(run: ContainerRun) -> Iterator[None]:
    """The medium, as a block device if possible; azure-init's configuration; the stub of the proxy agent."""
    shared = run.workspace.directory / "media"
    shared.mkdir()
    medium = run.fabric.write_media(shared / "provisioning.iso")
    run.binds = [f"--bind-ro={shared}:{SHARED}"]
    inside = f"{SHARED}/{medium.name}"
    with contextlib.suppress(NoDrive):
        run.drive = LoopDrive(run.workspace.directory / "disc")
        run.binds.append(f"--bind={run.drive.device}:{DRIVE}")
        inside = DRIVE
    run.update_drive()
    config = run.workspace.directory / "azure-init.toml"
    tables: dict[str, Any] = {**run.fabric.azure_init}
    if run.fabric.wire.address:  # the usual address, so that the machine has to learn the other one from DHCP
        tables["wireserver"] = {"health_endpoint": f"http://{WIRESERVER}{HEALTH}", **tables.get("wireserver", {})}
    tables["provisioning_media"] = {"path": inside, **tables.get("provisioning_media", {})}
    config.write_text(run.fabric.config_text(**tables), encoding="utf-8")
    run.binds.append(f"--bind-ro={config}:{CONFIG}")
    if stub := write_proxy_agent(run.fabric, run.workspace.directory / "bin"):
        run.binds.append(f"--bind-ro={stub}:{PROXY_AGENT}")
    try:
        yield
    finally:
        if run.drive:
            run.drive.close()


def write_proxy_agent(fabric: Fabric, directory: Path) -> Path | None:
    how = proxy_agent.behaviour(fabric.vm, fabric.metadata)
    return proxy_agent.write_stub(directory, how, imds=fabric.imds, python="/usr/bin/python3")


def run_boot(run: ContainerRun, *, login: bool, stay: bool) -> None:
    """One boot: start, verdict, login, shutdown."""
    ledger = run.fabric.ledger
    links = run.network.links
    child = nspawn.start(run.root, run.console, binds=run.binds, workspace=run.workspace, interfaces=links)
    run.network.leader = lambda: namespace_leader(child.pid)
    in_time = later = was_ready_before(ledger)
    if not later:
        in_time = wait_for_verdict(run, child, seconds=run.fabric.expect.within_secs)
    run.update_drive()
    address = (run.fabric.pool.network_vm if run.fabric.pool else run.fabric.vm).primary.address
    if login and (later or ledger.has_verdict) and not has_ended(child):
        prove_login(
            run.fabric,
            address=address,
            private_key=run.private_key,
            directory=run.workspace.directory,
            # A later boot is not waited for: the login has to wait for the whole of it.
            timeout=max(LOGIN_SECS, run.fabric.expect.within_secs) if later else LOGIN_SECS,
            stopped=lambda: bool(run.stop.number) or has_ended(child),
            group=run.workspace.group,
        )
        if run.fabric.pool and run.fabric.pool.taken and not later:
            run.try_pool_login(address)
    if later and not any(isinstance(event, Login) for event in ledger.boot):
        wait_for_verdict(run, child, seconds=SETTLED_SECS)
    if stay and not run.fabric.restart_due:
        print_login_command(run.fabric, run.private_key)
    while stay and not (run.stop.number or run.fabric.restart_due or has_ended(child)):
        run.update_drive()
        time.sleep(PAUSE)
    if run.fabric.pool and ledger.has_verdict:
        record(run.fabric, kept(read_traces(run.root), run.fabric.pool.pool_vm), in_pool=False)
    console = last_lines(run.console)  # before the shutdown, which writes many lines
    if run.fabric.restart_due == CUT:
        exit_code = kill(child, run.workspace.group)
    else:
        exit_code = end(child, run.workspace.group, grace=GRACE_SECS)
    run.network.leader = lambda: None
    told = ledger.has_verdict
    run.fabric.read_pool(late=told)
    t, stopped = ledger.now(), bool(run.stop.number)
    ledger.add(End(t=t, exit_code=exit_code if in_time else None, of="machine", stopped=stopped))
    if not (told or later or run.fabric.restart_due):
        print_console(console)


def wait_for_verdict(run: ContainerRun, child: subprocess.Popen[bytes], *, seconds: float) -> bool:
    """False: the deadline passed without a verdict."""
    deadline = Deadline(run.fabric, seconds=seconds)
    network = NetworkWatch(run.fabric.ledger, seconds=DHCP_SECS)
    while not (has_ended(child) or run.stop.number or run.fabric.ledger.has_verdict or run.fabric.restart_due):
        if deadline.passed():
            return False
        run.update_drive()
        network.check()
        time.sleep(PAUSE)
    return True


def print_console(lines: Sequence[str]) -> None:
    """The end of the console of a machine that reported no verdict."""
    if lines:
        print("fakeazure: the end of the machine's console:", file=sys.stderr)
    for line in lines:
        print(f"  {show.printable(line)}", file=sys.stderr)
