"""The steps that write to temporary disks: record, array, partition table, file system."""

from __future__ import annotations

from azureinit.backends.array import (
    activate_volume,
    array_path,
    assemble_array,
    complete_volume,
    create_array,
    create_volume,
    read_partitions,
    stop_array,
    wiped_after,
)
from azureinit.backends.filesystem import (
    cleared_partitions,
    make_filesystem,
    make_member_table,
    make_table,
    tool_of,
    wiped_first,
)
from azureinit.memory.disk_sets import encode_disk_sets
from azureinit.plan.actions import MakeDir, OnDevices, Step, Way, Write
from azureinit.plan.disk_goals import SWAP
from azureinit.plan.disk_judgement import ARRAY, FILESYSTEM, TABLE
from azureinit.plan.disk_layout import is_cut_below, member_table
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Disk
    from azureinit.facts.temporary_disks import Assembled, TemporaryDisk
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.plan.actions import Run
    from azureinit.plan.disk_goals import Goal
    from azureinit.plan.disk_work import Assembly, Work

MAKERS = ("mdadm", "lvm", "sfdisk")


class Book:
    """The records while a plan is made: every write of the file holds all sets, also those of earlier steps."""

    def __init__(self, path: str, sets: tuple[DiskSet, ...]) -> None:
        self.path, self.sets = path, sets

    def write(self, made: DiskSet) -> Write:
        self.sets = (*(one for one in self.sets if one.kind != made.kind), made)
        return self.unchanged()

    def unchanged(self) -> Write:
        return Write(path=self.path, data=encode_disk_sets(self.sets), mode=0o600)


def listed(paths: tuple[str, ...]) -> str:
    return paths[0] if len(paths) == 1 else f"{', '.join(paths[:-1])} and {paths[-1]}"


def work_steps(goal: Goal, work: Work, settings: Disk, book: Book) -> tuple[Step, ...]:
    steps: list[Step] = []
    disks = listed(tuple(disk.path for disk in work.disks))
    if work.new:
        steps.append(_record(goal, work, book, disks))
    unmark, mark = book.unchanged(), book.write(work.made)
    # mdadm and LVM may leave a running array behind: its members are known by their UUIDs.
    back = unmark if work.what != ARRAY and unmark != mark else None
    if work.what == TABLE and is_cut_below(work.made):
        actions, way = _member_tables(work, mark, back), "sfdisk"
    else:
        run, way = _program(work, settings)
        actions = (OnDevices(devices=work.devices, run=_wiped(work, work.disks, run), mark=mark, unmark=back),)
    done = (book.write(replace(work.made, finished=True)),) if work.what == FILESYSTEM else ()
    name, did = _named(goal, work, disks)
    why = _why(work, disks) + _next(work)
    steps.append(Step(name=name, why=why, did=did, ways=(Way(backend=way, actions=(*actions, *done)),)))
    return tuple(steps)


def _wiped(work: Work, disks: tuple[TemporaryDisk, ...], run: Run) -> Run:
    wipe = tuple((disk.path, disk.size) for disk in disks if disk.path in work.wipe)
    return wiped_first(wipe, run) if wipe else run


def _member_tables(work: Work, mark: Write, back: Write | None) -> tuple[OnDevices, ...]:
    """A program for each disk. All are examined before the first one is written to, and each again before its own."""
    actions: list[OnDevices] = []
    for number, disk in enumerate(work.disks):
        if disk.path not in work.paths:
            continue
        own = member_table(work.made, number)
        run = make_member_table(disk.path, uuid=own.table_uuid, partition_uuid=own.partition_uuid)
        run = _wiped(work, (disk,), cleared_partitions(disk.path, run) if own.over == "data" else run)
        if actions:
            devices = tuple(device for device in work.devices if device.path == disk.path)
            actions.append(OnDevices(devices=devices, run=run))
        else:
            actions.append(OnDevices(devices=work.devices, run=run, mark=mark, unmark=back))
    return tuple(actions)


def makes_devices(step: Step) -> bool:
    """An array, a volume or partitions appear, which the next plan has to see."""
    return any(way.backend in MAKERS for way in step.ways)


def _record(goal: Goal, work: Work, book: Book, disks: str) -> Step:
    place = MakeDir(path=book.path.rpartition("/")[0], mode=0o700, kept=True)
    write = book.write(replace(work.made, begun=""))
    return Step(
        name=f"record of the {goal.name}",
        why=f"{disks} {'is' if len(work.disks) == 1 else 'are'} known again if this is interrupted",
        did=f"recorded {disks} as a set of this VM",
        ways=(Way(backend="native", actions=(place, write)),),
    )


def finished_step(goal: Goal, made: DiskSet, device: str, book: Book) -> Step:
    """The record of a crash between mkfs and the record: without it, data that come later could look unfinished."""
    return Step(
        name=f"record of the {goal.name}",
        why=f"{device} is finished, and the record does not say so",
        did=f"recorded that {device} is finished",
        ways=(Way(backend="native", actions=(book.write(replace(made, finished=True)),)),),
    )


def _program(work: Work, settings: Disk) -> tuple[Run, str]:
    made, paths = work.made, work.paths
    if work.what == ARRAY:
        run = _array(work, settings)
        if made.over:
            lvm = made.aggregation == "lvm"
            swap = lvm and made.swap_uuid != ""
            run = wiped_after(run, made.name, uuid=made.array_uuid, lvm=lvm, swap=swap)
        return run, made.aggregation
    if work.what == TABLE:
        whole = made.filesystem == SWAP
        run = make_table(
            paths[0],
            uuid=made.table_uuid,
            partition_uuid=made.partition_uuid,
            swap_uuid=made.swap_partition_uuid,
            swap_mib=made.swap_mib,
            all_swap=whole,
        )
        return (cleared_partitions(paths[0], run) if made.over == "data" else run), "sfdisk"
    run = make_filesystem(made.filesystem, paths[0], uuid=made.filesystem_uuid, label=made.label, overwrite=work.again)
    return run, tool_of(made.filesystem)


def _array(work: Work, settings: Disk) -> Run:
    made, paths, uuid, chunk = work.made, work.paths, work.made.array_uuid, work.made.chunk_kib or settings.chunk_kib
    if made.aggregation == "mdadm":
        return create_array(made.name, paths, uuid=uuid, chunk_kib=chunk, again=work.again)
    if work.partly:
        return complete_volume(made.name, count=len(paths), chunk_kib=chunk)
    swap_mib = made.swap_mib if made.swap_uuid else 0
    return create_volume(made.name, paths, uuid=uuid, chunk_kib=chunk, again=work.again, swap_mib=swap_mib)


def _named(goal: Goal, work: Work, disks: str) -> tuple[str, str]:
    made = work.made
    if work.what == ARRAY:
        kind = "RAID 0 array" if made.aggregation == "mdadm" else "striped logical volume"
        return f"{kind} of the {goal.name}", f"made the {kind} {made.name} of {disks}"
    if work.what == TABLE:
        tables = "partition tables" if is_cut_below(made) else "partition table"
        return f"{tables} of the {goal.name}", f"partitioned {listed(work.paths)}"
    if made.filesystem == SWAP:
        return f"swap area on the {goal.name}", f"made a swap area on {work.paths[0]}"
    return (
        f"file system on the {goal.name}",
        f"made the {made.filesystem} file system {made.label} on {work.paths[0]} ({made.filesystem_uuid})",
    )


def _why(work: Work, disks: str) -> str:
    one = len(work.disks) == 1
    if work.destroys:
        return f"--recreate destroys what is there: {'; '.join(work.destroys)}"
    if not work.new:
        if work.again:
            return f"it is unfinished work of this VM on {disks}"
        return f"the next part of the set on {disks}, which is recorded"
    if work.again:
        return f"{disks} holds only the NTFS that the platform ships"
    return f"{disks} {'is a temporary disk' if one else 'are temporary disks'} and blank"


def _next(work: Work) -> str:
    """An array or a table is seen by the next plan, which has the steps after it."""
    if work.what == FILESYSTEM or work.destroys:
        return ""
    if is_cut_below(work.made):
        if work.what == TABLE:
            return "; the striped logical volume is made of the partitions next"
    elif work.what == ARRAY and work.made.table == "gpt":
        return "; the partition table is made on it next"
    return f"; {'the swap area' if work.made.filesystem == SWAP else 'the file system'} is made on it next"


def stop_step(goal: Goal, arrays: tuple[Assembled, ...]) -> Step:
    """The next plan is made from what is seen after it, of all disks."""
    paths, disks = tuple(one.path for one in arrays), listed(tuple(disk.path for disk in goal.disks))
    return Step(
        name=f"array of the {goal.name}, which does not run",
        why=f"it keeps disks in use, does not run and holds nothing; {disks} can be examined after that",
        did=f"stopped {listed(paths)}",
        ways=(Way(backend="mdadm", actions=tuple(map(stop_array, paths))),),
    )


def assembly_step(goal: Goal, state: Assembly) -> Step:
    made, paths = state.made, tuple(disk.path for disk in state.disks)
    actions: tuple[Run, ...] = (activate_volume(made.name),)
    why = f"{listed(paths)} have the recorded array {made.name}, which is not running"
    if state.array:
        why = f"{state.array} is part of the recorded array {made.name} of {listed(paths)}, which has not all its parts"
    if made.aggregation == "mdadm":
        start = () if state.array else (assemble_array(made.name, paths, uuid=made.array_uuid),)
        look = (read_partitions(state.array or array_path(made.name)),) if made.table == "gpt" else ()
        actions = (*start, *look)
    return Step(
        name=f"array of the {goal.name}",
        why=why,
        did=f"started the array {made.name}",
        ways=(Way(backend=made.aggregation, actions=actions),),
    )
