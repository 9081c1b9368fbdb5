"""The settings of [kernel]: disk timeouts, udev rules, entropy, the kernel command line."""

from __future__ import annotations

from azureinit.backends.bootloader import ADD, TAKE, lacking, way
from azureinit.facts.kernel import FED, GENERATOR, HEADER, NOTED, NULL, RULES, SEEDS_ITSELF, TIMEOUT_RULES
from azureinit.plan.actions import Caution, Link, MakeDir, Remove, Satisfied, Step, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Kernel
    from azureinit.facts.bootloader import Loader
    from azureinit.facts.kernel import Entropy, Rules, Timeout
    from azureinit.plan.actions import Action, Item, Plan

RULES_DIR = MakeDir(path=RULES, mode=0o755)
LONGEST = 86400  # seconds
NUMA_OFF = ("numa=off",)
SERIAL = ("console=ttyS0", "earlyprintk=ttyS0")
SERIAL_ARM = ("console=ttyAMA0", "earlycon=pl011,0xeffec000")
# Some disks have no such file, and no timeout: multipath and paravirtual ones.
RULE = (
    'ACTION=="add|change", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", KERNEL=="sd*", TEST=="device/timeout", '
    'ATTR{{device/timeout}}="{seconds}"\n'
    'ACTION=="add|change", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", KERNEL=="nvme*", TEST=="queue/io_timeout", '
    'ATTR{{queue/io_timeout}}="{milliseconds}"\n'
)


def _step(name: str, why: str, *actions: Action, did: str = "") -> Step:
    return Step(name=name, why=why, did=did or why, ways=(Way(backend="native", actions=actions),))


# ---- disks


def plan_timeouts(*, seconds: int, rules: bytes | None, timeouts: tuple[Timeout, ...]) -> Plan:
    """By a udev rule for disks that appear later, and at once for present ones."""
    name = "disk timeout"
    if seconds > LONGEST:
        return (Caution(name=name, why=f"{seconds} s is more than a day: the disk timeouts stay as they are"),)
    data = HEADER + RULE.format(seconds=seconds, milliseconds=seconds * 1000).encode()
    others = [one for one in timeouts if one.value.strip() != b"%d" % (seconds * one.scale)]
    items: list[Item] = []
    if rules != data:
        write = Write(path=TIMEOUT_RULES, data=data, mode=0o644, was=rules)
        items.append(_step(f"{name} rule", f"every new disk gets a timeout of {seconds} s", RULES_DIR, write))
    if others:
        writes = (Write(path=one.path, data=b"%d\n" % (seconds * one.scale), was=one.value) for one in others)
        items.append(_step(name, f"the present disks get a timeout of {seconds} s", *writes))
    return tuple(items) or (Satisfied(name=name, why=f"is {seconds} s"),)


# ---- udev's rules


def plan_persistent_net(rules: tuple[Rules, ...]) -> Plan:
    name = "persistent net rules"
    return tuple(_plan_mask(one) for one in rules if _is_there(one)) or (Satisfied(name=name, why="there are none"),)


def _is_there(rules: Rules) -> bool:
    return rules.packaged or rules.noted or rules.link is not None or rules.data is not None


def _plan_mask(rules: Rules) -> Item:
    name = f"mask {rules.path.rpartition('/')[2]}"
    if rules.link == NULL:
        return Satisfied(name=name, why="is masked")
    if rules.link is not None or (rules.data is not None and rules.path.endswith(GENERATOR)):
        return Caution(name=name, why=f"{rules.path} is the administrator's: not changed")
    note = HEADER + b"# It masked this one" + (b", which was:\n" + rules.data if rules.data is not None else b".\n")
    # Never over the note of an earlier, interrupted run.
    keep = (Write(path=rules.path + NOTED, data=note, mode=0o644),) if rules.data is not None or not rules.noted else ()
    link = Link(path=rules.path, target=NULL)
    why = "an interface's name must not depend on its address"
    return _step(name, why, RULES_DIR, *keep, link, did=f"masked {rules.path}: {why}")


# ---- random numbers


def plan_entropy(entropy: Entropy) -> Plan:
    """Written without crediting entropy: this machine cannot know how much it is."""
    name = "entropy"
    if entropy.release >= SEEDS_ITSELF:
        return (Satisfied(name=name, why="the kernel reads it itself"),)
    if entropy.table is None:
        return (Satisfied(name=name, why="the host offers none"),)
    if entropy.fed:
        return (Satisfied(name=name, why="was fed in this boot"),)
    actions = (
        Write(path="/dev/random", data=entropy.table),
        MakeDir(path=FED.rpartition("/")[0], mode=0o700),
        Write(path=FED, data=b"", mode=0o600),
    )
    size = len(entropy.table)
    did = f"fed {size} bytes of the host's entropy to the kernel"
    return (_step(name, f"the host offers {size} bytes", *actions, did=did),)


# ---- the command line


def arguments(asked: Kernel, *, arm: bool) -> tuple[str, ...]:
    serial = SERIAL_ARM if arm else SERIAL
    return (*(NUMA_OFF if asked.numa_off else ()), *(serial if asked.serial_console else ()))


def plan_arguments(wanted: tuple[str, ...], loader: Loader) -> Plan:
    name, told = "kernel command line", " ".join(wanted)
    if not loader.kind:
        return (Caution(name=name, why=f"no known boot loader was found: add {told} by hand"),)
    if loader.kind == "grubby" and loader.rooted:
        return (Caution(name=name, why=f"grubby works on the running system only: {told} is not added"),)
    lost = lacking(wanted, loader.words) if loader.overrider else ()
    if lost:
        return (Caution(name=name, why=_overridden(lost, loader)),)
    actions = ADD[loader.kind](wanted, loader)
    items: tuple[Item, ...] = (Satisfied(name=name, why=f"has {told}"),)
    if actions:
        did = f"added {told} to the kernel command line, from the next boot on"
        items = (Step(name=name, why=f"{told}: from the next boot on", did=did, ways=(way(loader, actions),)),)
    elif _is_stale(wanted, loader):
        items = ()
    return (*items, *_cautions(wanted, loader, written=bool(actions)))


def _overridden(lost: tuple[str, ...], loader: Loader) -> str:
    why = f"{loader.overrider} is read after {loader.path} and sets the whole GRUB_CMDLINE_LINUX"
    name = loader.path.rpartition("/")[2]
    todo = f"begin its value with $GRUB_CMDLINE_LINUX, or give it a name before {name}"
    return f"{' '.join(lost)} would have no effect: {why}: {todo}"


def _is_stale(wanted: tuple[str, ...], loader: Loader) -> bool:
    return loader.menu is not None and bool(lacking(wanted, loader.menu))


def _cautions(wanted: tuple[str, ...], loader: Loader, *, written: bool) -> Plan:
    """Where the configuration can be written, but the boot menu cannot be made."""
    makes_menu = loader.kind in ("grub drop-in", "grub defaults", "kernel-install")
    if not makes_menu or loader.remake or not (written or _is_stale(wanted, loader)):
        return ()
    tool = "kernel-install add" if loader.kind == "kernel-install" else "update-grub or grub2-mkconfig"
    why = f"takes effect when the boot menu is made anew, which is not possible here: run {tool}"
    return (Caution(name="boot menu", why=why),)


# ---- undo


def plan_kernel_undo(*, timeout_rules: bytes | None, rules: tuple[Rules, ...], loader: Loader) -> Plan:
    """Only files and words that are marked or recorded as azure-init's."""
    items: list[Item] = []
    if timeout_rules is not None and timeout_rules.startswith(HEADER):
        items.append(_step("disk timeout rule", "was written by azure-init", Remove(path=TIMEOUT_RULES)))
    for one in rules:
        if one.noted:
            link = (Remove(path=one.path),) if one.link == NULL else ()
            name = f"mask {one.path.rpartition('/')[2]}"
            items.append(_step(name, "was written by azure-init", *link, Remove(path=one.path + NOTED)))
    if loader.removable and not (loader.kind == "grubby" and loader.rooted):
        actions = TAKE[loader.kind](loader)
        items.append(
            Step(name="kernel command line", why="has words that azure-init added", ways=(way(loader, actions),))
        )
    elif loader.removable:
        items.append(Caution(name="kernel command line", why="grubby works on the running system only: not changed"))
    return tuple(items)
