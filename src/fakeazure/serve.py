"""`fakeazure serve`: a platform for one machine or many, until a stop signal."""

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
from urllib.parse import quote

from fakeazure.arguments import SERVICES
from fakeazure.machines.ssh_key import with_fresh_key
from fakeazure.machines.workspace import Workspace
from fakeazure.platform.addresses import ANY_PORT, Address, Endpoints
from fakeazure.platform.events import Told
from fakeazure.platform.fleet import By, Fleet, NotDistinct, TooManyMachines, raise_file_limit
from fakeazure.platform.http_server import CannotListen
from fakeazure.platform.machine import Machine
from fakeazure.platform.scenario import Scenario
from fakeazure.scenarios.catalogue import find_scenario
from fakeazure.serve_output import output_for

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOST_VMS = 1_000_000
UNKNOWN_LEDGER = "@strangers.jsonl"  # no machine has this file: quoting replaces an @ in its name
Reports = queue.SimpleQueue[tuple[Machine, Told] | None]  # None: a stop signal


class CannotServe(Exception):
    """The platform was not started; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class ServedVm:
    """A machine to be served, and its client address, if given."""

    scenario: Scenario
    address: str | None = None


def main(options: argparse.Namespace) -> int:
    imds, wireserver, host_plugin = (parse_address(getattr(options, name), option=f"--{name}") for name in SERVICES)
    vms = served_vms(options)
    try:
        raise_file_limit(len(vms))
        with stop_signals() as reports, Workspace() as workspace:
            return serve(options, vms, workspace.directory, reports, listen_at=(imds, wireserver, host_plugin))
    except (TooManyMachines, NotDistinct, CannotListen) as error:
        raise CannotServe(str(error)) from None


def parse_address(text: str | None, *, option: str) -> Address:
    if text is None:
        return ANY_PORT
    address, _, port = text.rpartition(":")
    try:
        ipaddress.IPv4Address(address)
        if not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise ValueError(port)
    except ValueError:
        raise CannotServe(f"{option} {text}: not an IPv4 address and a port, such as 127.0.0.1:8080") from None
    return address, int(port)


def served_vms(options: argparse.Namespace) -> list[ServedVm]:
    if options.vm and options.scenario:
        raise CannotServe(f"{options.scenario} and --vm exclude each other: each --vm names its scenario file")
    if options.vm:
        return [served_vm(text) for text in options.vm]
    scenario = find_scenario(options.scenario) if options.scenario else Scenario()
    if options.vms is None:
        return [ServedVm(scenario)]
    if not (options.vms.isascii() and options.vms.isdigit() and 0 < int(options.vms) <= MOST_VMS):
        raise CannotServe(f"--vms {options.vms}: not a number from 1 to {MOST_VMS}")
    return [ServedVm(numbered(scenario, n)) for n in range(1, int(options.vms) + 1)]


def served_vm(text: str) -> ServedVm:
    file, at, address = text.rpartition("@")
    try:
        return (
            ServedVm(find_scenario(file), str(ipaddress.IPv4Address(address))) if at else ServedVm(find_scenario(text))
        )
    except ipaddress.AddressValueError:
        return ServedVm(find_scenario(text))  # a file name with an @


def numbered(scenario: Scenario, n: int) -> Scenario:
    name = f"{scenario.vm.name}-{n}"
    return replace(scenario, vm=replace(scenario.vm, name=name, id=str(uuid.uuid5(uuid.UUID(scenario.vm.id), name))))


@contextmanager
def stop_signals() -> Iterator[Reports]:
    """The queue of health reports; a stop signal puts None into it."""
    reports: Reports = queue.SimpleQueue()
    # nohup ignores SIGHUP, and it stays ignored.
    handled = [
        number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN or number != signal.SIGHUP
    ]
    before = {number: signal.signal(number, lambda *_: reports.put(None)) for number in handled}
    try:
        yield reports
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def serve(
    options: argparse.Namespace,
    vms: Sequence[ServedVm],
    directory: Path,
    reports: Reports,
    *,
    listen_at: Endpoints,
) -> int:
    by: By = options.by or ("anyone" if len(vms) == 1 else "path")
    unknown, ledgers = ledger_files(options.ledger, [one.scenario.vm.name for one in vms])
    output = output_for(as_json=options.json)
    fleet = Fleet(by=by, ledger=unknown, directory=directory, listen_at=listen_at)
    try:
        media = options.media or directory / "media"
        media.mkdir(parents=True, exist_ok=True)
        key, vms = with_shared_key(vms, directory)
        for one, ledger in zip(vms, ledgers, strict=True):
            machine = fleet.add(
                one.scenario,
                address=one.address,
                ledger=ledger,
                eject=True,
                on_told=lambda machine, told: reports.put((machine, told)),
            )
            write_files(machine, media)
        fleet.start()
        output.begin(fleet, media=media, key=key)
        while report := reports.get():
            output.told(*report)
        output.end(fleet)
        return 0 if all(machine.judge().ok for machine in fleet.machines.values()) else 1
    finally:
        fleet.stop()


def ledger_files(path: Path | None, names: Sequence[str]) -> tuple[Path | None, Sequence[Path | None]]:
    """The ledger of requests that belong to no machine, and one for each machine. A single machine may have a file."""
    if path is None:
        return None, [None] * len(names)
    if len(names) == 1 and not path.is_dir():
        if not path.absolute().parent.is_dir():
            raise CannotServe(f"--ledger {path}: no such directory")
        return None, [path]
    path.mkdir(parents=True, exist_ok=True)
    return path / UNKNOWN_LEDGER, [path / f"{stem(name)}.jsonl" for name in names]


def stem(name: str) -> str:
    """The machine's name as a file name."""
    return quote(name, safe="")


def with_shared_key(vms: Sequence[ServedVm], directory: Path) -> tuple[Path | None, Sequence[ServedVm]]:
    """One new key pair for all machines whose scenario lists no keys: a thousand pairs would take too long."""
    keyless = next((one.scenario for one in vms if not one.scenario.own_keys), None)
    if keyless is None:
        return None, vms
    keyed, private = with_fresh_key(keyless, directory)
    return private, [
        one if one.scenario.own_keys else replace(one, scenario=with_keys_of(keyed, one.scenario)) for one in vms
    ]


def with_keys_of(keyed: Scenario, scenario: Scenario) -> Scenario:
    return replace(scenario, vm=replace(scenario.vm, keys=keyed.vm.keys))


def write_files(machine: Machine, directory: Path) -> None:
    """The medium, and a configuration of azure-init that names it and the services."""
    machine.write_media(directory / f"{stem(machine.vm.name)}.iso")
    config = directory / f"{stem(machine.vm.name)}.toml"
    config.write_text(machine.config_text(**machine.azure_init), encoding="utf-8")
