"""`fakeazure serve`: a platform that stays, for as many machines as come, until it is told to end."""

from __future__ import annotations

import argparse
import ipaddress
import queue
import signal
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fakeazure.announce import announcer
from fakeazure.catalogue import NAMING, find_scenario
from fakeazure.estate import By, Estate, NoRoom, NotDistinct, make_room
from fakeazure.events import Told
from fakeazure.fabric import Address
from fakeazure.machine import Machine
from fakeazure.reaper import Workplace
from fakeazure.run import with_own_key
from fakeazure.serve import LOOPBACK, CannotListen
from fakeazure.spec import Scenario
from fakeazure.vm import Vm

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]

DOORS = ("imds", "wireserver", "hostplugin")
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOST = 1_000_000
STRANGERS = "@strangers.jsonl"  # no machine's: an @ in a name is written otherwise
News = queue.SimpleQueue[tuple[Machine, Told] | None]  # None: it is time to end
HELP = """\
Opens the platform's doors and waits for machines, until Ctrl-C. Says where the doors are, one a line, then every
verdict as it is told, and at the end what it believes of each machine.

Machines are told apart
  by path     http://ADDRESS:PORT/vm/NAME/metadata/instance (NAME, or the machine's id); links lead to the same
  by address  of the one who asks; on loopback the first machine is 127.1.0.1, the next 127.1.0.2, and so on
A single machine needs neither: whoever asks is that one, unless --by is given.
"""
EXIT = """\
exit status: 0 the platform was told the truth about every machine; 1 it was not; 2 the command line or a scenario is
wrong, or a door cannot be opened.

examples:
  fakeazure serve --imds 127.0.0.1:8080
  fakeazure serve imds-html --vms 1000 --by address --ledger ledgers/
  fakeazure serve --vm web.toml@10.0.0.5 --vm db.toml@10.0.0.6 --by address
"""


class CannotServe(Exception):
    """The platform did not come up; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A machine to be served, and the address it asks from, if that was said."""

    scenario: Scenario
    address: str | None = None


def add_parser(verbs: Verbs) -> None:
    one = verbs.add_parser(
        "serve",
        help="be a platform for one machine or thousands, until Ctrl-C",
        description=HELP,
        epilog=EXIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("scenario", nargs="?", metavar="SCENARIO", help=NAMING)
    for door in DOORS:
        one.add_argument(f"--{door}", metavar="ADDR:PORT", help="where to listen; default: any free port of 127.0.0.1")
    how_many = one.add_mutually_exclusive_group()
    how_many.add_argument("--vms", metavar="N", help="so many machines of this scenario, NAME-1 to NAME-N")
    how_many.add_argument("--vm", action="append", metavar="FILE[@ADDR]", help="a machine of its own; may be repeated")
    one.add_argument("--by", choices=("address", "path"), help="how machines are told apart; default, for many: path")
    one.add_argument("--ledger", type=Path, metavar="PLACE", help="one machine's ledger, or a directory for many")
    one.add_argument("--media", type=Path, metavar="DIR", help="where to put the media and azure-init's configurations")
    one.add_argument("--json", action="store_true", help="a JSON object a line, instead of text")


def main(options: argparse.Namespace) -> int:
    imds, wireserver, hostplugin = (place_of(getattr(options, door), option=f"--{door}") for door in DOORS)
    wanted = wanted_machines(options)
    try:
        make_room(len(wanted))
        with told_to_end() as news, Workplace() as place:
            return serve(options, wanted, place.directory, news, places=(imds, wireserver, hostplugin))
    except (NoRoom, NotDistinct, CannotListen) as error:
        raise CannotServe(str(error)) from None


def place_of(text: str | None, *, option: str) -> Address:
    if text is None:
        return LOOPBACK
    address, _, port = text.rpartition(":")
    try:
        ipaddress.IPv4Address(address)
        if not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise ValueError(port)
    except ValueError:
        raise CannotServe(f"{option} {text}: not an IPv4 address and a port, such as 127.0.0.1:8080") from None
    return address, int(port)


def wanted_machines(options: argparse.Namespace) -> list[Wanted]:
    if options.vm and options.scenario:
        raise CannotServe(f"{options.scenario} or --vm: a machine's own file says all about it")
    if options.vm:
        return [wanted_machine(text) for text in options.vm]
    scenario = find_scenario(options.scenario) if options.scenario else Scenario()
    if options.vms is None:
        return [Wanted(scenario)]
    if not (options.vms.isascii() and options.vms.isdigit() and 0 < int(options.vms) <= MOST):
        raise CannotServe(f"--vms {options.vms}: not a number from 1 to {MOST}")
    return [Wanted(numbered(scenario, n)) for n in range(1, int(options.vms) + 1)]


def wanted_machine(text: str) -> Wanted:
    file, at, address = text.rpartition("@")
    try:
        return Wanted(find_scenario(file), str(ipaddress.IPv4Address(address))) if at else Wanted(find_scenario(text))
    except ipaddress.AddressValueError:
        return Wanted(find_scenario(text))  # a name with an @ in it


def numbered(scenario: Scenario, n: int) -> Scenario:
    name = f"{scenario.vm.name}-{n}"
    return replace(scenario, vm=replace(scenario.vm, name=name, id=str(uuid.uuid5(uuid.UUID(scenario.vm.id), name))))


@contextmanager
def told_to_end() -> Iterator[News]:
    """Verdicts as they come; a signal puts the end into the same queue."""
    news: News = queue.SimpleQueue()
    # Whoever started us with nohup does not want a hangup to end us.
    heeded = [number for number in ENDINGS if signal.getsignal(number) != signal.SIG_IGN or number != signal.SIGHUP]
    before = {number: signal.signal(number, lambda *_: news.put(None)) for number in heeded}
    try:
        yield news
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def serve(
    options: argparse.Namespace,
    wanted: Sequence[Wanted],
    directory: Path,
    news: News,
    *,
    places: tuple[Address, Address, Address],
) -> int:
    by: By = options.by or ("anyone" if len(wanted) == 1 else "path")
    strangers, ledgers = ledger_files(options.ledger, [one.scenario.vm.name for one in wanted])
    announce = announcer(as_json=options.json)
    estate = Estate(by=by, ledger=strangers, directory=directory, places=places)
    try:
        media = options.media or directory / "media"
        media.mkdir(parents=True, exist_ok=True)
        key, wanted = with_one_key(wanted, directory)
        for one, ledger in zip(wanted, ledgers, strict=True):
            machine = estate.add(
                one.scenario,
                address=one.address,
                ledger=ledger,
                eject=True,
                hearing=lambda machine, told: news.put((machine, told)),
            )
            furnish(machine, media)
        estate.start()
        announce.begin(estate, media=media, key=key)
        while heard := news.get():
            announce.told(*heard)
        announce.end(estate)
        return 0 if all(machine.judge().ok for machine in estate.machines.values()) else 1
    finally:
        estate.stop()


def ledger_files(place: Path | None, names: Sequence[str]) -> tuple[Path | None, Sequence[Path | None]]:
    """For what comes from nobody known, and for each machine. For a single machine it may be a file."""
    if place is None:
        return None, [None] * len(names)
    if len(names) == 1 and not place.is_dir():
        if not place.absolute().parent.is_dir():
            raise CannotServe(f"--ledger {place}: no such directory")
        return None, [place]
    place.mkdir(parents=True, exist_ok=True)
    return place / STRANGERS, [place / f"{stem(name)}.jsonl" for name in names]


def stem(name: str) -> str:
    """A name that fits into a directory, whatever a machine is called."""
    return quote(name, safe="")


def with_one_key(wanted: Sequence[Wanted], directory: Path) -> tuple[Path | None, Sequence[Wanted]]:
    """One fresh key pair for all machines whose scenario brings none: a thousand would take their time."""
    keyless = next((one.scenario for one in wanted if not one.scenario.own_keys), None)
    if keyless is None:
        return None, wanted
    vm, private = with_own_key(keyless, directory)
    return private, [
        one if one.scenario.own_keys else replace(one, scenario=with_keys_of(vm, one.scenario)) for one in wanted
    ]


def with_keys_of(vm: Vm, scenario: Scenario) -> Scenario:
    return replace(scenario, vm=replace(scenario.vm, keys=vm.keys))


def furnish(machine: Machine, directory: Path) -> None:
    """The medium, and a configuration that leads azure-init to it and to the doors."""
    machine.write_media(directory / f"{stem(machine.vm.name)}.iso")
    config = directory / f"{stem(machine.vm.name)}.toml"
    config.write_text(machine.config_text(**machine.azure_init), encoding="utf-8")
