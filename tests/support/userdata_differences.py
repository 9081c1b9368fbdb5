"""Two file trees that the same customData made: every difference, after a listed table of normalisations."""

from __future__ import annotations

from support.userdata_trees import Entry

# What each program keeps for itself.
OWN = (
    "etc/azure-init/", "etc/cloud/", "mnt/", "var/lib/azure-init/", "var/lib/cloud/", "var/log/", "var/lib/waagent/",
    "var/cache/", "var/lib/apt/", "var/lib/dpkg/", "run/", "tmp/", "var/tmp/",
)  # fmt: skip
# Made by tools, with a lock, a backup or a random value in it.
NOISE = ("etc/.pwd.lock", "etc/passwd-", "etc/shadow-", "etc/group-", "etc/gshadow-", "etc/subuid-", "etc/subgid-")
HOST_KEYS = "etc/ssh/ssh_host_"  # both make their own
ACCOUNTS = ("etc/passwd", "etc/shadow", "etc/group", "etc/gshadow")


def differences(theirs: dict[str, Entry], ours: dict[str, Entry], *, always: dict[str, Entry]) -> dict[str, str]:
    """Path -> what differs. `always`: what cloud-init changes for an empty document."""
    theirs, ours, always = normalised(theirs), normalised(ours), normalised(always)
    found: dict[str, str] = {}
    for path in sorted({*theirs, *ours}):
        one, other = theirs.get(path), ours.get(path)
        if one == other or (other is None and one == always.get(path)):
            continue
        found[path] = f"cloud-init: {_told(one)}\nazure-init: {_told(other)}"
    return found


def normalised(entries: dict[str, Entry]) -> dict[str, Entry]:
    kept: dict[str, Entry] = {}
    for path, entry in entries.items():
        if f"{path}/".startswith(OWN) or path in NOISE or path.startswith(HOST_KEYS):
            continue
        if entry.kind == "directory" and any(f"{path}/" in own or own.startswith(f"{path}/") for own in OWN):
            continue  # a directory above one of those
        kept[path] = _account_file(path, entry) if path in ACCOUNTS else entry
    return {path: entry for path, entry in kept.items() if entry.kind != "directory" or not _is_common(path)}


def _is_common(path: str) -> bool:
    """A directory of the root that the layer copies when a file in it changes."""
    return path in ("etc", "etc/ssh", "home", "root", "opt", "srv", "usr", "var", "var/lib", "etc/ssh/sshd_config.d")


def _account_file(path: str, entry: Entry) -> Entry:
    """Lines in any order; a password hash by its method, as its salt is random; no dates of changes."""
    lines = []
    for line in entry.content.decode().splitlines():
        fields = line.split(":")
        if path == "etc/shadow" and len(fields) > 2:
            fields[1] = "$".join(fields[1].split("$")[:2]) if fields[1].startswith("$") else fields[1]
            fields[2] = "0" if fields[2] == "0" else "day"
        if path in ("etc/group", "etc/gshadow") and fields[-1]:
            fields[-1] = ",".join(sorted(fields[-1].split(",")))
        lines.append(":".join(fields))
    return Entry(kind=entry.kind, mode=entry.mode, owner=entry.owner, content="\n".join(sorted(lines)).encode())


def _told(entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    return f"{entry.kind} {entry.mode:04o} {entry.owner} {entry.content[:2000]!r}"
