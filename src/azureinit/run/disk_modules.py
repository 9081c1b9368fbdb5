"""The modules of the network stage that are about disks: growpart, resizefs, disk_setup, mounts."""

from __future__ import annotations

from azureinit.run.modules import ALWAYS, INSTANCE, NETWORK, Module, keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan

UDEV_SECS = 30.0
DISABLED = "/etc/growroot-disabled"
DISK_LOCK = "/run/azure-init/disks.lock"  # of the disk stage, which sets up temporary disks too
MOST_OF_MEMINFO = 1 << 16


def _read_growth(machine: Machine, request: Request) -> object:
    from azureinit.facts.disks import is_grow_off, read_root_disk
    from azureinit.modules.growpart import GrowFacts, grown_points

    found = [read_root_disk(machine, point) for point in grown_points(request)]
    return GrowFacts(
        marked=is_grow_off(machine, request.directory),
        disabled=machine.stat(DISABLED) is not None,
        disks=tuple(disk for disk in found if disk is not None),
    )


def _plan_growpart(request: Request, facts: Any) -> Plan:
    from azureinit.modules.growpart import plan_growpart

    return plan_growpart(request, facts)


def _plan_resizefs(request: Request, facts: Any) -> Plan:
    from azureinit.modules.growpart import plan_resizefs

    return plan_resizefs(request, facts)


def _asks_temporary(request: Request) -> object:
    from azureinit.modules.temporary_disks import is_asked

    return is_asked(request)


def _read_temporary(machine: Machine, request: Request) -> object:
    from azureinit.errors import ConfigInvalid
    from azureinit.facts.disk_services import await_udev
    from azureinit.facts.mount_rows import MEMORY, parse_memory
    from azureinit.facts.temporary_disks import DiskFacts, read_disk_facts
    from azureinit.memory.disk_sets import read_disk_sets
    from azureinit.memory.instance import Instance
    from azureinit.modules.temporary_disks import TemporaryFacts, settings_of, wish

    instance = Instance(data_dir=request.settings.azure_init_data_dir.path, vm_id=request.vm_id)
    asked = wish(request)
    disks, sets = DiskFacts(), read_disk_sets(machine, instance)
    if asked is not None and not request.rooted and request.settings.disk.setup != "auto":
        await_udev(machine, timeout=UDEV_SECS)
        try:
            disks = read_disk_facts(machine, settings_of(request, asked), sets)
        except ConfigInvalid:
            pass  # the planner names the value
    memory = parse_memory(machine.read(MEMORY, limit=MOST_OF_MEMINFO) or b"")
    return TemporaryFacts(disks=disks, sets=sets, sets_path=instance.path("disks"), memory=memory)


def _plan_temporary(request: Request, facts: Any) -> Plan:
    from azureinit.modules.temporary_disks import plan_temporary_disks

    return plan_temporary_disks(request, facts)


def _asks_disks(request: Request) -> object:
    from azureinit.modules.disk_setup import is_asked

    return is_asked(request)


def _read_disks(machine: Machine, request: Request) -> object:
    from azureinit.facts.disk_services import await_udev
    from azureinit.facts.named_disks import NamedDisks, read_named_disks
    from azureinit.modules.disk_setup import filesystems_of, named_paths

    if request.rooted:
        return NamedDisks()
    await_udev(machine, timeout=UDEV_SECS)
    return read_named_disks(machine, named_paths(request), filesystems=filesystems_of(request))


def _plan_disks(request: Request, facts: Any) -> Plan:
    from azureinit.modules.disk_setup import plan_disk_setup

    return plan_disk_setup(request, facts)


def _asks_mounts(request: Request) -> object:
    from azureinit.modules.mounts import is_asked

    return is_asked(request)


def _read_mounts(machine: Machine, request: Request) -> object:
    from azureinit.facts.disk_services import await_udev
    from azureinit.facts.mount_rows import read_mount_facts
    from azureinit.modules.mounts import mount_points, named_devices, swap_path

    if not request.rooted:
        await_udev(machine, timeout=UDEV_SECS)
    points, names = mount_points(request), named_devices(request)
    return read_mount_facts(machine, names, points=points, swap_file=swap_path(request))


def _plan_mounts(request: Request, facts: Any) -> Plan:
    from azureinit.modules.mounts import plan_mounts
    from azureinit.modules.temporary_disks import wish

    temporary = wish(request)
    return plan_mounts(request, facts, on_temporary_disk=temporary.swap_file if temporary is not None else "")


DISK_MODULES: tuple[Module, ...] = (
    Module(
        name="growpart",
        stage=NETWORK,
        frequency=ALWAYS,
        asked=keys("growpart", "resize_rootfs"),
        facts=_read_growth,
        planner=_plan_growpart,
    ),
    Module(
        name="resizefs",
        stage=NETWORK,
        frequency=INSTANCE,
        asked=keys("resize_rootfs"),
        facts=_read_growth,
        planner=_plan_resizefs,
    ),
    # At every boot: a VM on another host has an empty temporary disk.
    Module(
        name="temporary_disks",
        stage=NETWORK,
        frequency=ALWAYS,
        asked=_asks_temporary,
        facts=_read_temporary,
        planner=_plan_temporary,
        rounds=6,
        lock=DISK_LOCK,
    ),
    Module(
        name="disk_setup",
        stage=NETWORK,
        frequency=INSTANCE,
        asked=_asks_disks,
        facts=_read_disks,
        planner=_plan_disks,
        rounds=6,
    ),
    Module(
        name="mounts",
        stage=NETWORK,
        frequency=INSTANCE,
        asked=_asks_mounts,
        facts=_read_mounts,
        planner=_plan_mounts,
        apart=True,
        rounds=3,
    ),
)
