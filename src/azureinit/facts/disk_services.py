"""The units around the setup of temporary disks: azure-init's own, and that of azure-vm-utils; udev's queue."""

from __future__ import annotations

from azureinit.errors import AzureInitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

THEIRS = "azure-ephemeral-disk-setup.service"
DIRECTORIES = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system")
WANTS = ("multi-user.target.wants", "sysinit.target.wants")
QUEUE = "/run/udev/queue"  # exists as long as udev has events to process


def read_other_service(machine: Machine, ours: str) -> str:
    """Where azure-vm-utils' own service is enabled, or ''. A link of its name to `ours` is not its service."""
    for directory in DIRECTORIES:
        target = machine.read_link(f"{directory}/{THEIRS}")
        if target is not None and target.rpartition("/")[2] in (ours, "null"):
            return ""
        if target is not None or machine.stat(f"{directory}/{THEIRS}") is not None:
            break
    else:
        return ""
    links = (f"{directory}/{wants}/{THEIRS}" for directory in DIRECTORIES for wants in WANTS)
    return next((link for link in links if machine.stat(link, follow=False) is not None), "")


def is_started(machine: Machine, unit: str, *, by: str) -> bool | None:
    """Whether systemd has started the unit in this boot, or will do so because `by` wants it; None without systemd."""
    if not machine.is_dir("/run/systemd/system"):
        return None
    if machine.stat(f"/run/systemd/units/invocation:{unit}", follow=False) is not None:
        return True
    return any(machine.stat(f"{directory}/{by}.wants/{unit}", follow=False) is not None for directory in DIRECTORIES)


def is_masked(machine: Machine, unit: str) -> bool:
    return any(machine.read_link(f"{directory}/{unit}") == "/dev/null" for directory in DIRECTORIES[:2])


def await_udev(machine: Machine, *, timeout: float) -> str:
    """Wait until udev has processed what it knows of, so that disks that appear together are seen together.

    Returns why that is not certain, or ''.
    """
    return await_events(machine, timeout=timeout) if machine.stat(QUEUE) is not None else ""


def await_events(machine: Machine, *, timeout: float) -> str:
    """The same, also for a change that udev has not noticed yet: settling begins with a question to udev."""
    if machine.find("udevadm") is None:
        return ""
    try:
        machine.run(("udevadm", "settle", f"--timeout={int(timeout)}"), timeout=timeout + 5).check()
    except AzureInitError as error:
        return str(error)
    return ""
