"""`fakeazure boot`: a disk image under QEMU with the platform around it, from power on to a login and power off."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fakeazure import diskimage, kvp, network, qemu, show
from fakeazure.catalogue import NAMING, find_scenario
from fakeazure.dhcp import Dhcp, offers_for
from fakeazure.events import Ejected, End, Login, PoolRead
from fakeazure.fabric import Fabric, places_for
from fakeazure.guest import Guest
from fakeazure.login import NoSsh, prove_login
from fakeazure.qmp import NoMonitor
from fakeazure.reaper import Workplace
from fakeazure.reboots import BOOTS, SETTLED_SECS, NetworkWatch, boot_count, is_settled
from fakeazure.run import Stop, conclude, with_own_key
from fakeazure.spec import Scenario

TAP = "tap0"
LOOK_SECS = 0.2
LOGIN_SECS = 240.0  # some tell Ready early in the boot, long before anybody can log in
DHCP_SECS = {"kvm": 60.0, "tcg": 240.0}
POOLS = ("/var/lib/hyperv/.kvp_pool_1", "/lib/hyperv/.kvp_pool_1")  # the second where /var is a disk of its own

HELP = """\
Boots DISK under QEMU with the platform around it: the provisioning medium in its drive, Azure's firmware tables, DHCP,
the metadata service and the wireserver at their own addresses. Waits for the machine's verdict, tries to log in as the
machine's owner would, powers it off, and says what the platform was told. DISK itself is not written to, unless --keep
is given.
"""
END = """\
exit status: 0 the platform was told the truth in time; 1 it was not; 2 something that is needed is not here, or wrong.
A scenario's within_secs counts from power on; an emulated machine is slower than Azure's.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line says beside the disk and the scenario."""

    ledger: Path | None = None
    accel: str = "auto"
    memory_mb: int = 2048
    direct: qemu.Direct | None = None
    keep: bool = False
    console: Path | None = None
    login: bool = True
    stay: bool = False
    boots: int = 1


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    one = verbs.add_parser(
        "boot",
        help="boot a disk image under QEMU with a platform around it",
        description=HELP,
        epilog=END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("disk", type=Path, metavar="DISK", help="a disk image: raw, qcow2, VHD, VHDX or VMDK")
    one.add_argument("scenario", nargs="?", metavar="SCENARIO", help=NAMING)
    one.add_argument("--ledger", type=Path, metavar="FILE", help="keep the ledger here")
    one.add_argument("--console", type=Path, metavar="FILE", help="keep what the machine writes to its console here")
    one.add_argument("--keep", action="store_true", help="write to DISK itself, not to a layer over it")
    one.add_argument("--no-login", "--until-verdict", dest="login", action="store_false",
                     help="power off as soon as a verdict is told; try no login")  # fmt: skip
    one.add_argument("--stay", action="store_true", help="let the machine run on until it ends itself, or Ctrl-C")
    one.add_argument("--boots", type=boot_count, default=1, metavar="N", help=BOOTS)
    one.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto",
                     help="auto: KVM where a probe answers within two seconds, else emulation")  # fmt: skip
    one.add_argument("--memory", type=int, default=2048, metavar="MB", help="default: 2048")
    one.add_argument("--kernel", type=Path, metavar="FILE", help="start this kernel, without a boot loader")
    one.add_argument("--initrd", type=Path, metavar="FILE", help="with --kernel: its first file system")
    one.add_argument("--append", default="", metavar="TEXT", help="with --kernel: its command line")


def main(options: argparse.Namespace) -> int:
    scenario = find_scenario(options.scenario) if options.scenario else Scenario()
    try:
        return boot(scenario, options.disk, parse_wishes(options))
    except (qemu.CannotBoot, NoMonitor, diskimage.DiskInvalid, diskimage.NoTool, network.NoNetwork, NoSsh) as error:
        return complain(str(error))


def complain(message: str) -> int:
    print(f"fakeazure: {message}", file=sys.stderr)
    return 2


def parse_wishes(options: argparse.Namespace) -> Wishes:
    for name in ("kernel", "initrd"):
        if (file := getattr(options, name)) and not file.is_file():
            raise qemu.CannotBoot(f"--{name} {file}: no such file")
    for name in ("ledger", "console"):
        if (file := getattr(options, name)) and not file.absolute().parent.is_dir():
            raise qemu.CannotBoot(f"--{name} {file}: no such directory")
    if (options.initrd or options.append) and not options.kernel:
        raise qemu.CannotBoot("--initrd and --append say how to start a kernel: name it with --kernel")
    direct = qemu.Direct(kernel=options.kernel, initrd=options.initrd, append=options.append)
    return Wishes(
        ledger=options.ledger,
        accel=options.accel,
        memory_mb=options.memory,
        direct=direct if options.kernel else None,
        keep=options.keep,
        console=options.console,
        login=options.login,
        stay=options.stay,
        boots=options.boots,
    )


def boot(scenario: Scenario, disk: Path, wishes: Wishes) -> int:
    """The exit code: 0 when the platform was told the truth in time, 1 when not, 128 + n when stopped by signal n."""
    check(scenario, disk, wishes)
    with ExitStack() as stack:
        stop, place = stack.enter_context(Stop()), stack.enter_context(Workplace())
        network.enter_network()
        wireserver = scenario.wireserver.address or network.WIRESERVER
        network.make_tap(TAP, gateway=network.gateway_for(scenario.vm.interfaces[0]), wireserver=wireserver)
        accelerator = qemu.choose_accelerator(wishes.accel, qemu.find_program())
        vm, private_key = with_own_key(scenario, place.directory)
        fabric = stack.enter_context(platform(replace(scenario, vm=vm), wishes, directory=place.directory))
        offers = offers_for(vm, wireserver=wireserver, leases=scenario.dhcp)
        stack.enter_context(Dhcp(TAP, offers, fabric.ledger))
        medium = fabric.write_media(place.directory / "provisioning.iso")
        hardware = make_hardware(
            scenario, disk, wishes, accelerator=accelerator, medium=medium, directory=place.directory
        )
        introduce(fabric, disk, hardware)
        command = qemu.command(qemu.find_program(), vm, hardware)
        end, said = "", [""]
        hardware.console.write_bytes(b"")
        for number in range(wishes.boots):
            if stop.number:
                break
            if number:
                fabric.reboot()
            with Guest(
                command, directory=place.directory, console=hardware.console, group=place.group, medium=medium
            ) as guest:
                again = is_settled(fabric.ledger)
                in_time = again or attend(
                    fabric, guest, stop, seconds=fabric.expect.within_secs, patience=DHCP_SECS[accelerator]
                )
                if wishes.login:
                    seconds = max(LOGIN_SECS, fabric.expect.within_secs) if again else LOGIN_SECS  # it has yet to start
                    log_in(fabric, guest, stop, private_key=private_key, place=place, seconds=seconds)
                if again and not any(isinstance(event, Login) for event in fabric.ledger.boot):
                    attend(fabric, guest, stop, seconds=SETTLED_SECS, patience=DHCP_SECS[accelerator])
                if wishes.stay and number + 1 == wishes.boots:
                    stay(fabric, guest, stop, private_key=private_key)
                end, said = guest.ended(), guest.last_lines()
                power_off(guest, stop)
            t, stopped = fabric.ledger.now(), bool(stop.number)
            fabric.ledger.add(End(t=t, exit_code=0 if in_time else None, of="machine", stopped=stopped))
        read_pool(fabric, hardware)
        conclude(fabric)
        explain(fabric, end=end, said=said)
        truthful = fabric.judge().ok
    return 128 + stop.number if stop.number else 0 if truthful else 1


def check(scenario: Scenario, disk: Path, wishes: Wishes) -> None:
    """What can be known to be missing is said before anything happens."""
    diskimage.read_format(disk, bootable=wishes.direct is None)
    qemu.find_program()
    diskimage.find_tool("qemu-img", package="qemu-utils")
    diskimage.find_tool("ip", package="iproute2")
    if scenario.vm.generation == 2:
        qemu.find_firmware()
    if wishes.login:
        diskimage.find_tool("ssh", package="openssh-client")


def platform(scenario: Scenario, wishes: Wishes, *, directory: Path) -> Fabric:
    return Fabric(
        vm=scenario.vm,
        media=scenario.media,
        imds=scenario.imds,
        wireserver=scenario.wireserver,
        faults=scenario.faults,
        expect=scenario.expect,
        azure_init=scenario.azure_init,
        ledger=wishes.ledger or directory / "ledger.jsonl",
        eject=True,
        directory=directory,
        places=places_for(scenario.wireserver.address),
    )


def make_hardware(
    scenario: Scenario, disk: Path, wishes: Wishes, *, accelerator: str, medium: Path, directory: Path
) -> qemu.Hardware:
    form = diskimage.read_format(disk, bootable=wishes.direct is None)
    layer = directory / "layer.qcow2"
    if not wishes.keep:
        diskimage.make_layer(disk, layer, form=form)
    return qemu.Hardware(
        directory=directory,
        disk=disk if wishes.keep else layer,
        disk_format=form if wishes.keep else "qcow2",
        console=wishes.console or directory / "console",
        medium=medium if medium.exists() else None,
        tap=TAP,
        memory_mb=wishes.memory_mb,
        accelerator=accelerator,
        cores=qemu.core_count(accelerator, qemu.read_version(qemu.find_program())),
        clock=scenario.clock.reads(datetime.now(UTC)) if scenario.clock.wrong else None,
        # A kernel that is started directly finds UEFI too: by that, agents tell the generations apart.
        firmware=qemu.find_firmware() if scenario.vm.generation == 2 else None,
        direct=wishes.direct,
    )


def introduce(fabric: Fabric, disk: Path, hardware: qemu.Hardware) -> None:
    vm, paint = fabric.vm, show.palette_for(sys.stderr)
    who = "a specialised machine" if vm.specialised else f"user {vm.username!r}"
    how = "KVM" if hardware.accelerator == "kvm" else "emulation, which takes its time"
    print(
        paint("dim", f"fakeazure: machine {vm.name!r} ({vm.id}), {who}; booting {disk} as generation {vm.generation}"),
        paint("dim", f"fakeazure: by {how}; its console: {hardware.console}"),
        sep="\n",
        file=sys.stderr,
    )


def attend(fabric: Fabric, guest: Guest, stop: Stop, *, seconds: float, patience: float) -> bool:
    """Until the verdict, the machine's end, the end of its time, or ours. False: its time was up.

    `patience`: after so many seconds a machine that has not even asked for an address is told of.
    """
    deadline, network_watch = time.monotonic() + seconds, NetworkWatch(fabric.ledger, seconds=patience)
    while not (stop.number or fabric.ledger.has_verdict or guest.ended() or time.monotonic() > deadline):
        guest.follow_medium()
        network_watch.look()
        fabric.ledger.wait(lambda ledger: ledger.has_verdict, timeout=LOOK_SECS)
    if fabric.ledger.has_verdict and fabric.media.eject and fabric.has_media():
        fabric.ledger.wait(lambda ledger: isinstance(ledger.events[-1], Ejected), timeout=LOOK_SECS)
    guest.follow_medium()
    return bool(stop.number or fabric.ledger.has_verdict or guest.ended())


def log_in(
    fabric: Fabric, guest: Guest, stop: Stop, *, private_key: Path | None, place: Workplace, seconds: float
) -> None:
    vm = fabric.vm
    prove_login(
        fabric,
        address=vm.interfaces[0].address,
        private_key=private_key,
        directory=place.directory,
        timeout=seconds,
        stopped=lambda: bool(stop.number or guest.ended()),
        group=place.group,
    )
    ready = any(told.kind == "ready" for told in fabric.ledger.verdicts)
    if ready and not vm.specialised and (end := guest.ended()):  # nobody can log in to a machine that is off
        t = fabric.ledger.now()
        fabric.ledger.add(Login(t=t, how="key", user=vm.username, ok=False, text=f"the machine {end}"))


def stay(fabric: Fabric, guest: Guest, stop: Stop, *, private_key: Path | None) -> None:
    """Until the machine ends itself or we are told to: for people who want to look around in it."""
    key = f" -i {private_key}" if private_key else ""
    who = f"{fabric.vm.username}@{fabric.vm.interfaces[0].address}"
    way = f"nsenter --target {os.getpid()} --net ssh{key} {who}"
    print(f"fakeazure: the machine stays until Ctrl-C; to log in: {way}", file=sys.stderr)
    while not (stop.number or guest.ended()):
        guest.follow_medium()
        time.sleep(LOOK_SECS)


def power_off(guest: Guest, stop: Stop) -> None:
    if stop.number and not guest.ended():
        print("fakeazure: the machine is asked to power off; once more pulls its plug", file=sys.stderr)
    asked = stop.count
    guest.power_off(hurried=lambda: stop.count > max(asked, 1))


def read_pool(fabric: Fabric, hardware: qemu.Hardware) -> None:
    """From the disk, once the machine is off: a pool cannot be looked at while a kernel of its own writes to it."""
    t = fabric.ledger.now()
    try:
        data = diskimage.read_file(hardware.disk, POOLS, form=hardware.disk_format, directory=hardware.directory)
        said, problem = kvp.events_of(kvp.parse_pool(data or b""), t=t), ""
    except (diskimage.DiskInvalid, diskimage.NoTool) as error:
        said, problem = (), str(error)
    fabric.ledger.add(PoolRead(t=t, path=POOLS[0], count=len(said), problem=problem))
    for event in said:
        fabric.ledger.add(event)


def explain(fabric: Fabric, *, end: str, said: Sequence[str]) -> None:
    """Where no verdict came, what the machine last wrote is what people need."""
    if end:
        print(f"  Note: the machine {end}")
    if not fabric.ledger.verdicts:
        lines = (f"  {show.printable(line)}" for line in said)
        print("\nThe last lines of its console:", *(lines if said else ["  none: it wrote nothing"]), sep="\n")
    sys.stdout.flush()
