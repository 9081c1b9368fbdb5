"""`fakeazure container`: a root directory booted with the platform around it, from its start to a login."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fakeazure import nspawn, proxyagent, show
from fakeazure.catalogue import NAMING, find_scenario
from fakeazure.console import last_lines
from fakeazure.dhcp import Dhcp, offers_for
from fakeazure.events import End, Login
from fakeazure.fabric import Fabric, places_for
from fakeazure.login import prove_login
from fakeazure.network import WIRESERVER, NoNetwork, enter_network, gateway_for, ip, make_veth
from fakeazure.nspawn import NoContainer
from fakeazure.reaper import Workplace
from fakeazure.reboots import BOOTS, SETTLED_SECS, NetworkWatch, boot_count, is_settled
from fakeazure.run import Stop, conclude, end, has_ended, with_own_key
from fakeazure.spec import Scenario
from fakeazure.tray import NoDrive, Tray
from fakeazure.vm import Vm
from fakeazure.wireserver import HEALTH

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]

PATIENCE_SECS = 15.0  # between asking the machine to shut down and pulling its plug
LOGIN_SECS = 60.0
DHCP_SECS = 20.0
PAUSE = 0.02
OUTSIDE = "azure0"
POOLS = "var/lib/hyperv"
DRIVE = "/dev/sr0"
SHARED = "/run/fakeazure"
CONFIG = "/etc/azure-init/azure-init.toml.d/99-fakeazure.toml"
PROXY_AGENT = f"/usr/local/bin/{proxyagent.NAME}"

HELP = f"""\
Boots ROOT, the root directory of a system with systemd, as a container on a network of its own, where the platform
answers at 169.254.169.254 and 168.63.129.16 and gives out the machine's address by DHCP. Once the machine has told
its verdict, the platform logs in over SSH with the machine's key and password; then the machine is shut down. Only
root can do this.

The machine finds
  eth0                   with the MAC address that its metadata name
  {DRIVE}               the provisioning medium, as a block device; on hosts without loop devices
                         {SHARED}/provisioning.iso is the same as a file
  {CONFIG}
                         what azure-init must know, for a container has no firmware to tell its VM id
ROOT itself is not changed, unless --keep is given.
"""
EXIT = """\
exit status: 0 the platform was told the truth in time; 1 it was not; 2 the command line, the scenario or the root is
wrong.
"""


def add_parser(verbs: Verbs) -> None:
    one = verbs.add_parser(
        "container",
        help="boot a root directory with a platform around it",
        description=HELP,
        epilog=EXIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("root", type=Path, metavar="ROOT", help="the root directory of a system with systemd")
    one.add_argument("scenario", nargs="?", metavar="SCENARIO", help=NAMING)
    one.add_argument("--ledger", type=Path, metavar="FILE", help="keep the ledger here")
    one.add_argument("--console", type=Path, metavar="FILE", help="keep what the machine writes to its console here")
    one.add_argument("--keep", action="store_true", help="let the machine write into ROOT, not into a layer over it")
    one.add_argument("--no-login", "--until-verdict", dest="login", action="store_false",
                     help="shut down as soon as a verdict is told; try no login")  # fmt: skip
    one.add_argument("--stay", action="store_true", help="let the machine run on until it ends itself, or Ctrl-C")
    one.add_argument("--boots", type=boot_count, default=1, metavar="N", help=BOOTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line says beside the root and the scenario."""

    ledger: Path | None = None
    console: Path | None = None
    keep: bool = False
    login: bool = True
    stay: bool = False
    boots: int = 1


def main(options: argparse.Namespace) -> int:
    nspawn.check_host()
    nspawn.check_root(options.root)
    scenario = find_scenario(options.scenario) if options.scenario else Scenario()
    if scenario.clock.wrong:
        raise NoContainer("a container has its host's clock: for a wrong one, use fakeazure run or fakeazure boot")
    for name in ("ledger", "console"):
        if (file := getattr(options, name)) and not file.absolute().parent.is_dir():
            raise NoContainer(f"--{name} {file}: no such directory")
    wishes = Wishes(
        ledger=options.ledger,
        console=options.console,
        keep=options.keep,
        login=options.login,
        stay=options.stay,
        boots=options.boots,
    )
    return boot(scenario, options.root.resolve(), wishes)


@dataclass(kw_only=True)
class Site:
    """One machine, its platform, and where both live."""

    fabric: Fabric
    place: Workplace
    stop: Stop
    root: Path
    console: Path
    private_key: Path | None
    tray: Tray | None = None
    binds: list[str] = field(default_factory=list)

    def turn(self) -> None:
        """The drive holds what the platform has laid into it, or nothing."""
        if self.tray:
            self.tray.follow(self.fabric.media_path)


def boot(scenario: Scenario, root: Path, wishes: Wishes) -> int:
    """The exit code: 0 when the platform was told the truth in time, 1 when not, 128 + n when stopped by signal n."""
    with Stop() as stop, Workplace() as place:
        vm, private_key = with_own_key(scenario, place.directory)
        enter_network(mounts=True)
        whole = nspawn.mount_root(root, place.directory, keep=wishes.keep)
        nspawn.prepare_mounts()
        lay_network(scenario, vm)  # whose addresses the platform answers at
        offers = offers_for(vm, wireserver=scenario.wireserver.address or WIRESERVER, leases=scenario.dhcp)
        site = Site(
            fabric=platform(replace(scenario, vm=vm), ledger=wishes.ledger, directory=place.directory, root=whole),
            place=place,
            stop=stop,
            root=whole,
            console=wishes.console or place.directory / "console",
            private_key=private_key,
        )
        site.console.write_bytes(b"")
        with site.fabric as fabric, furnished(site):
            introduce(site, root)
            for number in range(wishes.boots):
                if stop.number:
                    break
                if number:
                    fabric.reboot()
                    lay_network(scenario, vm)
                with Dhcp(OUTSIDE, offers, fabric.ledger):
                    attend(site, login=wishes.login, stay=wishes.stay and number + 1 == wishes.boots)
            conclude(fabric)
            truthful = fabric.judge().ok
        return 128 + stop.number if stop.number else 0 if truthful else 1


def lay_network(scenario: Scenario, vm: Vm) -> None:
    """Anew for each boot: a machine's interface goes with it."""
    with contextlib.suppress(NoNetwork):
        ip("link", "delete", OUTSIDE)
    make_veth(
        inside=nspawn.INTERFACE,
        outside=OUTSIDE,
        mac=vm.interfaces[0].mac,
        gateway=gateway_for(vm.interfaces[0]),
        wireserver=scenario.wireserver.address or WIRESERVER,
    )


def platform(scenario: Scenario, *, ledger: Path | None, directory: Path, root: Path) -> Fabric:
    return Fabric(
        vm=scenario.vm,
        media=scenario.media,
        imds=scenario.imds,
        wireserver=scenario.wireserver,
        faults=scenario.faults,
        expect=scenario.expect,
        azure_init=scenario.azure_init,
        ledger=ledger or directory / "ledger.jsonl",
        eject=True,
        directory=directory / "platform",
        pools=root / POOLS,
        places=places_for(scenario.wireserver.address),
    )


@contextlib.contextmanager
def furnished(site: Site) -> Iterator[None]:
    """The medium, as a drive where there can be one, and what a machine without firmware must be told."""
    shared = site.place.directory / "media"
    shared.mkdir()
    medium = site.fabric.write_media(shared / "provisioning.iso")
    site.binds = [f"--bind-ro={shared}:{SHARED}"]
    inside = f"{SHARED}/{medium.name}"
    with contextlib.suppress(NoDrive):
        site.tray = Tray(site.place.directory / "disc")
        site.binds.append(f"--bind={site.tray.device}:{DRIVE}")
        inside = DRIVE
    site.turn()
    config = site.place.directory / "azure-init.toml"
    tables: dict[str, Any] = {**site.fabric.azure_init}
    if site.fabric.wire.address:  # which the machine is to find out
        tables["wireserver"] = {"health_endpoint": f"http://{WIRESERVER}{HEALTH}", **tables.get("wireserver", {})}
    tables["provisioning_media"] = {"path": inside, **tables.get("provisioning_media", {})}
    config.write_text(site.fabric.config_text(**tables), encoding="utf-8")
    site.binds.append(f"--bind-ro={config}:{CONFIG}")
    if stub := proxy_agent(site.fabric, site.place.directory / "bin"):
        site.binds.append(f"--bind-ro={stub}:{PROXY_AGENT}")
    try:
        yield
    finally:
        if site.tray:
            site.tray.close()


def proxy_agent(fabric: Fabric, directory: Path) -> Path | None:
    how = proxyagent.behaviour(fabric.vm, fabric.metadata)
    return proxyagent.write_stub(directory, how, imds=fabric.imds, python="/usr/bin/python3")


def attend(site: Site, *, login: bool, stay: bool) -> None:
    """Boots the machine, hears it out, tries it, and shuts it down."""
    ledger = site.fabric.ledger
    child = nspawn.start(site.root, site.console, binds=site.binds, place=site.place)
    in_time = again = is_settled(ledger)
    if not again:
        in_time = wait_for_verdict(site, child, seconds=site.fabric.expect.within_secs)
    site.turn()
    if login and (again or ledger.has_verdict) and not has_ended(child):
        prove_login(
            site.fabric,
            address=site.fabric.vm.interfaces[0].address,
            private_key=site.private_key,
            directory=site.place.directory,
            timeout=max(LOGIN_SECS, site.fabric.expect.within_secs) if again else LOGIN_SECS,  # it has yet to start
            stopped=lambda: bool(site.stop.number) or has_ended(child),
            group=site.place.group,
        )
    if again and not any(isinstance(event, Login) for event in ledger.boot):
        wait_for_verdict(site, child, seconds=SETTLED_SECS)
    if stay:
        invite(site)
    while stay and not (site.stop.number or has_ended(child)):
        site.turn()
        time.sleep(PAUSE)
    said = last_lines(site.console)  # before it is shut down, which has much to say of its own
    exit_code = end(child, site.place.group, patience=PATIENCE_SECS)
    told = ledger.has_verdict
    site.fabric.read_pool(late=told)
    t, stopped = ledger.now(), bool(site.stop.number)
    ledger.add(End(t=t, exit_code=exit_code if in_time else None, of="machine", stopped=stopped))
    if not (told or again):
        show_last_words(said)


def wait_for_verdict(site: Site, child: subprocess.Popen[bytes], *, seconds: float) -> bool:
    """False: the time was up, and the platform had no verdict."""
    start = time.monotonic()
    network = NetworkWatch(site.fabric.ledger, seconds=DHCP_SECS)
    while not (has_ended(child) or site.stop.number or site.fabric.ledger.has_verdict):
        if time.monotonic() > start + seconds:
            return False
        site.turn()
        network.look()
        time.sleep(PAUSE)
    return True


def introduce(site: Site, root: Path) -> None:
    vm = site.fabric.vm
    paint = show.palette_for(sys.stderr)
    who = "a specialised machine" if vm.specialised else f"user {vm.username!r}"
    patience = f"{site.fabric.expect.within_secs:g} s at most"
    print(
        paint("dim", f"fakeazure: machine {vm.name!r} ({vm.id}), {who}; booting {root}"),
        paint("dim", f"fakeazure: waiting {patience} for its verdict; its console: {site.console}"),
        sep="\n",
        file=sys.stderr,
    )


def invite(site: Site) -> None:
    """How to get into a machine that stays, from a shell of root's."""
    vm = site.fabric.vm
    key = f" -i {site.private_key}" if site.private_key else ""
    way = f"nsenter -t {os.getpid()} -n ssh{key} {vm.username}@{vm.interfaces[0].address}"
    print(f"fakeazure: the machine stays until Ctrl-C; to log in: {way}", file=sys.stderr)


def show_last_words(said: Sequence[str]) -> None:
    """Of a machine that said nothing to the platform, what it said to its console."""
    if said:
        print("fakeazure: the end of the machine's console:", file=sys.stderr)
    for line in said:
        print(f"  {show.printable(line)}", file=sys.stderr)
