"""SELinux labels of a tree under --root: the running kernel does not label new files there."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

TOOL = "setfiles"


class Labels(Record):
    """A tree under --root whose files have labels."""

    contexts: str  # the policy's file that says which label a path has
    homes: str  # where the tree's home directories really lie
    tool: str | None  # None: not installed


def read_labels(machine: Machine, config: str, *, home_base: str) -> Labels | None:
    """None where the tree has no policy, or one that is disabled."""
    settings = parse_config(machine.read(config, limit=64 << 10) or b"")
    contexts = f"/etc/selinux/{settings.get('SELINUXTYPE', '')}/contexts/files/file_contexts"
    if settings.get("SELINUX") not in ("enforcing", "permissive") or not machine.is_file(contexts):
        return None
    found = machine.find(TOOL) is not None
    return Labels(contexts=machine.real(contexts), homes=machine.real(home_base), tool=TOOL if found else None)


def parse_config(data: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in data.decode("utf-8", "replace").split("\n") if not line.startswith("#"))
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}
