"""`fakeazure boot`: a disk image under QEMU with the platform around it, from power on to a login and power off."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fakeazure import show
from fakeazure.machines import disk_image, network, qemu
from fakeazure.machines.control import Control
from fakeazure.machines.login import prove_login
from fakeazure.machines.messages import print_login_command, print_start, print_verdict
from fakeazure.machines.options import MachineOptions
from fakeazure.machines.pool_guest import Reuse
from fakeazure.machines.pool_machine import network_vm
from fakeazure.machines.process import Stop
from fakeazure.machines.qemu_process import QemuProcess
from fakeazure.machines.reboots import SETTLED_SECS, Deadline, NetworkWatch, was_ready_before
from fakeazure.machines.ssh_key import with_fresh_key, with_fresh_pool_key
from fakeazure.machines.workspace import Workspace
from fakeazure.platform import kvp
from fakeazure.platform.addresses import WIRESERVER, azure_endpoints
from fakeazure.platform.dhcp import offers_for
from fakeazure.platform.events import Ejected, End, Login, PoolRead
from fakeazure.platform.fabric import Fabric
from fakeazure.platform.pool import CUT
from fakeazure.platform.scenario import Scenario

TAP = "tap"  # stem of the names
POLL_SECS = 0.2
LOGIN_SECS = 240.0  # some agents report Ready early in the boot, long before sshd accepts a login
DHCP_SECS = {"kvm": 60.0, "tcg": 240.0}
POOLS = ("/var/lib/hyperv/.kvp_pool_1", "/lib/hyperv/.kvp_pool_1")  # the second where /var is a file system of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class BootOptions(MachineOptions):
    accel: str = "auto"
    memory_mb: int = 2048
    direct: qemu.Direct | None = None


def boot(scenario: Scenario, disk: Path, options: BootOptions) -> int:
    """The exit code: 0 when the platform was told the truth in time, 1 when not, 128 + n when stopped by signal n."""
    check(scenario, disk, options)
    with ExitStack() as stack:
        stop, workspace = stack.enter_context(Stop()), stack.enter_context(Workspace())
        directory = workspace.directory
        network.enter_network()
        wireserver = scenario.wireserver.address or WIRESERVER
        scenario, pool_key = with_fresh_pool_key(scenario, directory)
        taps = network.make_taps(network_vm(scenario), stem=TAP, wireserver=wireserver)
        accelerator = qemu.choose_accelerator(options.accel, qemu.find_program())
        scenario, private_key = with_fresh_key(scenario, directory)
        fabric = stack.enter_context(
            Fabric.of(
                scenario,
                ledger=options.ledger or directory / "ledger.jsonl",
                eject=True,
                directory=directory,
                listen_at=azure_endpoints(scenario.wireserver.address),
            )
        )
        offers = offers_for(network_vm(scenario), wireserver=wireserver, leases=scenario.dhcp)
        stack.enter_context(Control(options.control, fabric))
        network.serve_leases(stack, network_vm(scenario), taps, offers, fabric.ledger)
        medium = fabric.write_media(directory / "provisioning.iso")
        hardware = make_hardware(scenario, disk, options, accelerator=accelerator, medium=medium, directory=directory)
        how = "KVM" if accelerator == "kvm" else "emulation, which is slow"
        doing = f"booting {disk} as generation {fabric.vm.generation}"
        print_start(fabric, doing, f"by {how}; its console: {hardware.console}")
        end, console = "", [""]
        hardware.console.write_bytes(b"")
        left, again = options.boots, False
        while left and not stop.number:
            if again:
                fabric.reboot()
            again = True
            # The medium may have been ejected in the boot before.
            hardware = replace(hardware, medium=medium if medium.exists() else None)
            command = qemu.command(
                qemu.find_program(), replace(fabric.vm, nics=network_vm(scenario, fabric).nics), hardware
            )
            with QemuProcess(
                command, directory=directory, console=hardware.console, group=workspace.group, medium=medium
            ) as guest:
                reuse = Reuse(fabric, guest, scenario, offers=offers, tap=taps[0], pool_key=pool_key)
                if fabric.pool:
                    fabric.pool.move = reuse.carry_out
                later = was_ready_before(fabric.ledger)
                in_time = later or wait_for_verdict(
                    fabric, guest, stop, seconds=fabric.expect.within_secs, dhcp_secs=DHCP_SECS[accelerator]
                )
                if options.login:
                    # A later boot is not waited for: the login has to wait for the whole of it.
                    seconds = max(LOGIN_SECS, fabric.expect.within_secs) if later else LOGIN_SECS
                    log_in(fabric, guest, stop, private_key=private_key, workspace=workspace, seconds=seconds)
                    if fabric.ledger.has_verdict and not later:
                        reuse.try_login(directory)
                if later and not any(isinstance(event, Login) for event in fabric.ledger.boot):
                    wait_for_verdict(fabric, guest, stop, seconds=SETTLED_SECS, dhcp_secs=DHCP_SECS[accelerator])
                if options.stay and left == 1 and not fabric.restart_due:
                    stay(fabric, guest, stop, private_key=private_key)
                end, console = guest.ended(), guest.last_lines()
                if fabric.restart_due != CUT:
                    power_off(guest, stop)
            left -= not fabric.restart_due
            t, stopped = fabric.ledger.now(), bool(stop.number)
            fabric.ledger.add(End(t=t, exit_code=0 if in_time else None, of="machine", stopped=stopped))
        read_pool(fabric, hardware)
        print_verdict(fabric)
        print_end(fabric, end=end, console=console)
        truthful = fabric.judge().ok
    return stop.exit_code(truthful=truthful)


def check(scenario: Scenario, disk: Path, options: BootOptions) -> None:
    """Raises for a bad disk image or a missing tool, before anything is started."""
    disk_image.read_format(disk, bootable=options.direct is None)
    qemu.find_program()
    disk_image.find_tool("qemu-img", package="qemu-utils")
    disk_image.find_tool("ip", package="iproute2")
    if scenario.vm.generation == 2:
        qemu.find_firmware()
    if options.login:
        disk_image.find_tool("ssh", package="openssh-client")


def make_hardware(
    scenario: Scenario, disk: Path, options: BootOptions, *, accelerator: str, medium: Path, directory: Path
) -> qemu.Hardware:
    form = disk_image.read_format(disk, bootable=options.direct is None)
    layer = directory / "layer.qcow2"
    if not options.keep:
        disk_image.make_layer(disk, layer, form=form)
    return qemu.Hardware(
        directory=directory,
        disk=disk if options.keep else layer,
        disk_format=form if options.keep else "qcow2",
        console=options.console or directory / "console",
        medium=medium if medium.exists() else None,
        tap=TAP,
        memory_mb=options.memory_mb,
        accelerator=accelerator,
        cores=qemu.core_count(accelerator, qemu.read_version(qemu.find_program())),
        clock=scenario.clock.reads(datetime.now(UTC)) if scenario.clock.wrong else None,
        # Also for a kernel that is started directly: agents tell the generations apart by UEFI.
        firmware=qemu.find_firmware() if scenario.vm.generation == 2 else None,
        direct=options.direct,
    )


def wait_for_verdict(fabric: Fabric, guest: QemuProcess, stop: Stop, *, seconds: float, dhcp_secs: float) -> bool:
    """Until a verdict, the machine's end, a stop signal, or the deadline. False: the deadline passed.

    `dhcp_secs`: when to warn that the machine has not sent a DHCP request.
    """
    deadline, network_watch = Deadline(fabric, seconds=seconds), NetworkWatch(fabric.ledger, seconds=dhcp_secs)
    while not (stop.number or fabric.ledger.has_verdict or fabric.restart_due or guest.ended() or deadline.passed()):
        guest.update_drive()
        network_watch.check()
        fabric.ledger.wait(lambda ledger: ledger.has_verdict, timeout=POLL_SECS)
    if fabric.ledger.has_verdict and fabric.media.eject and fabric.has_media():
        fabric.ledger.wait(lambda ledger: isinstance(ledger.events[-1], Ejected), timeout=POLL_SECS)
    guest.update_drive()
    return bool(stop.number or fabric.ledger.has_verdict or fabric.restart_due or guest.ended())


def log_in(
    fabric: Fabric,
    guest: QemuProcess,
    stop: Stop,
    *,
    private_key: Path | None,
    workspace: Workspace,
    seconds: float,
) -> None:
    vm = fabric.vm
    prove_login(
        fabric,
        address=(fabric.pool.network_vm if fabric.pool else vm).primary.address,
        private_key=private_key,
        directory=workspace.directory,
        timeout=seconds,
        stopped=lambda: bool(stop.number or guest.ended()),
        group=workspace.group,
    )
    ready = any(told.kind == "ready" for told in fabric.ledger.final_verdicts)
    if ready and not vm.specialised and (end := guest.ended()):  # a machine that is off refuses the login
        t = fabric.ledger.now()
        fabric.ledger.add(Login(t=t, how="key", user=vm.username, ok=False, text=f"the machine {end}"))


def stay(fabric: Fabric, guest: QemuProcess, stop: Stop, *, private_key: Path | None) -> None:
    """Until the machine powers off, or a stop signal."""
    print_login_command(fabric, private_key)
    while not (stop.number or fabric.restart_due or guest.ended()):
        guest.update_drive()
        time.sleep(POLL_SECS)


def power_off(guest: QemuProcess, stop: Stop) -> None:
    if stop.number and not guest.ended():
        print("fakeazure: the machine is shutting down; Ctrl-C again powers it off at once", file=sys.stderr)
    asked = stop.count
    guest.power_off(hurried=lambda: stop.count > max(asked, 1))


def read_pool(fabric: Fabric, hardware: qemu.Hardware) -> None:
    """Reads the key-value pool from the disk once the machine is off: before, its kernel may still write to it."""
    t = fabric.ledger.now()
    try:
        data = disk_image.read_file(hardware.disk, POOLS, form=hardware.disk_format, directory=hardware.directory)
        records, problem = kvp.events_of(kvp.parse_pool(data or b""), t=t), ""
    except (disk_image.DiskInvalid, disk_image.NoTool) as error:
        records, problem = (), str(error)
    fabric.ledger.add(PoolRead(t=t, path=POOLS[0], count=len(records), problem=problem))
    for event in records:
        fabric.ledger.add(event)


def print_end(fabric: Fabric, *, end: str, console: Sequence[str]) -> None:
    """How the machine ended by itself; without a verdict, also the last lines of its console."""
    if end:
        print(f"  Note: the machine {end}")
    if not fabric.ledger.verdicts:
        lines = (f"  {show.printable(line)}" for line in console)
        print("\nThe last lines of its console:", *(lines if console else ["  none: it is empty"]), sep="\n")
    sys.stdout.flush()
