"""SELinux labels: by restorecon on the running system, by setfiles in a tree under --root."""

from __future__ import annotations

from azureinit.plan.actions import Declined, Run, Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.host import Host
    from azureinit.facts.labels import Labels
    from azureinit.plan.actions import Action

RESTORECON, SETFILES = "restorecon", "setfiles"


def relabel(paths: tuple[str, ...], host: Host) -> tuple[Action, ...]:
    """Actions that label new files; none where the kernel has no SELinux or the tool is missing."""
    if not host.selinux or RESTORECON not in host.tools:
        return ()
    return (Run(argv=(RESTORECON, "-F", *paths)),)


def restorecon(paths: tuple[str, ...], *, host: Host) -> Way | Declined:
    """Everything below these paths. -i: not every machine has every one of them."""
    if RESTORECON not in host.tools:
        return Declined(backend=RESTORECON, why=f"{RESTORECON} is not installed")
    return Way(backend=RESTORECON, actions=(Run(argv=(RESTORECON, "-i", "-R", "-F", *paths)),))


def setfiles(paths: tuple[str, ...], *, home_base: str, host: Host, labels: Labels) -> Way | Declined:
    """By the policy of the tree itself."""
    if not host.privileged:
        return Declined(backend=SETFILES, why="only root labels files")
    if labels.tool is None:
        return Declined(backend=SETFILES, why=f"{SETFILES} is not installed here")
    below = f"{home_base}/"
    real = [labels.homes + path[len(home_base) :] if path.startswith(below) else host.root + path for path in paths]
    # -i: not every tree has every one of them.
    run = Run(argv=(labels.tool, "-i", "-F", "-r", host.root, labels.contexts, *real))
    return Way(backend=labels.tool, actions=(run,))
