"""What [kernel] asks for: the kernel's patience with disks, udev's rules, random numbers, the command line."""

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
# A disk without such a file has no such limit: a head of several paths, a paravirtual one.
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
    """By a rule for the disks to come, and at once for those that are here."""
    name = "disk timeout"
    if seconds > LONGEST:
        return (Caution(name=name, why=f"{seconds} s is more than a day, and more than a kernel counts: left alone"),)
    data = HEADER + RULE.format(seconds=seconds, milliseconds=seconds * 1000).encode()
    others = [one for one in timeouts if one.value.strip() != b"%d" % (seconds * one.scale)]
    items: list[Item] = []
    if rules != data:
        write = Write(path=TIMEOUT_RULES, data=data, mode=0o644, was=rules)
        items.append(_step(f"{name} rule", f"every disk that appears has {seconds} s to answer", RULES_DIR, write))
    if others:
        writes = (Write(path=one.path, data=b"%d\n" % (seconds * one.scale), was=one.value) for one in others)
        items.append(_step(name, f"the disks that are here have {seconds} s to answer", *writes))
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
        return Caution(name=name, why=f"{rules.path} is the administrator's own: left alone")
    note = HEADER + b"# It masked this one" + (b", which was:\n" + rules.data if rules.data is not None else b".\n")
    # Never over what an earlier, shorter run put there.
    keep = (Write(path=rules.path + NOTED, data=note, mode=0o644),) if rules.data is not None or not rules.noted else ()
    link = Link(path=rules.path, target=NULL)
    why = "an interface's name does not hang on its address"
    return _step(name, why, RULES_DIR, *keep, link, did=f"masked {rules.path}: {why}")


# ---- random numbers


def plan_entropy(entropy: Entropy) -> Plan:
    """Not credited: how much there is in it, only the host knows."""
    name = "entropy"
    if entropy.release >= SEEDS_ITSELF:
        return (Satisfied(name=name, why="the kernel takes it itself"),)
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
    did = f"gave the kernel's random numbers {size} bytes of the host's"
    return (_step(name, f"the host offers a table of {size} bytes", *actions, did=did),)


# ---- the command line


def arguments(asked: Kernel, *, arm: bool) -> tuple[str, ...]:
    serial = SERIAL_ARM if arm else SERIAL
    return (*(NUMA_OFF if asked.numa_off else ()), *(serial if asked.serial_console else ()))


def plan_arguments(wanted: tuple[str, ...], loader: Loader) -> Plan:
    name, told = "kernel command line", " ".join(wanted)
    if not loader.kind:
        return (Caution(name=name, why=f"no boot loader that we know is here: add {told} yourself"),)
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
    return f"{' '.join(lost)} would not arrive: {why}: {todo}"


def _is_stale(wanted: tuple[str, ...], loader: Loader) -> bool:
    return loader.menu is not None and bool(lacking(wanted, loader.menu))


def _cautions(wanted: tuple[str, ...], loader: Loader, *, written: bool) -> Plan:
    """Where only half of it can be done here."""
    makes_menu = loader.kind in ("grub drop-in", "grub defaults", "kernel-install")
    if not makes_menu or loader.remake or not (written or _is_stale(wanted, loader)):
        return ()
    tool = "kernel-install add" if loader.kind == "kernel-install" else "update-grub or grub2-mkconfig"
    why = f"counts when the boot menu is made anew, which cannot be done here: {tool} does it"
    return (Caution(name="boot menu", why=why),)


# ---- and back


def plan_kernel_undo(*, timeout_rules: bytes | None, rules: tuple[Rules, ...], loader: Loader) -> Plan:
    """Only what says of itself, or of which we wrote down, that it is ours."""
    items: list[Item] = []
    if timeout_rules is not None and timeout_rules.startswith(HEADER):
        items.append(_step("disk timeout rule", "was ours", Remove(path=TIMEOUT_RULES)))
    for one in rules:
        if one.noted:
            link = (Remove(path=one.path),) if one.link == NULL else ()
            name = f"mask {one.path.rpartition('/')[2]}"
            items.append(_step(name, "was ours", *link, Remove(path=one.path + NOTED)))
    if loader.ours and not (loader.kind == "grubby" and loader.rooted):
        actions = TAKE[loader.kind](loader)
        items.append(Step(name="kernel command line", why="has words of ours", ways=(way(loader, actions),)))
    elif loader.ours:
        items.append(Caution(name="kernel command line", why="grubby works on the running system only: left alone"))
    return tuple(items)
