"""The host's own keys: a generalised image has none, and without one sshd neither starts nor answers questions."""

from __future__ import annotations

from azureinit.errors import HostKeysFailed
from azureinit.plan.actions import Declined, MakeDir, Remove, Run, Satisfied, Step, Way, Write
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.gather import Facts
    from azureinit.facts.keyhost import KeyHost
    from azureinit.facts.ssh import HostKey, Ssh
    from azureinit.plan.actions import Action, Item, Plan

TOOL = "ssh-keygen"
NOT_IN_FIPS = "ed25519"
BEFORE_READY = ("ed25519", "ecdsa")
ALGORITHMS = {"ed25519": ("ssh-ed25519",), "ecdsa": ("ecdsa-sha2-nistp256",)}
# The whole line appears at once.
PUBLIC_HALF = 'umask 022; ssh-keygen -y -P "" -f "$1" >"$1.pub.new" && mv -f "$1.pub.new" "$1.pub"'
IMAGE_KEYS = "host keys of the image"


def has_image_keys(ssh: Ssh, *, own: frozenset[str], done: frozenset[str]) -> bool:
    """Whether sshd would load a key at a default path that this VM did not make."""
    return IMAGE_KEYS not in done and any(path not in own for path in ssh.default_keys(whole=True))


def types_before_ready(types: tuple[str, ...], ssh: Ssh) -> tuple[str, ...]:
    """Which of the wanted types are made before logins are possible.

    Where HostKey lines name the keys: every one, since sshd may have no other, and also types that are not wanted if
    only those are named. Else those that are quickly made; all of them where none of those is wanted.
    """
    if not ssh.host_keys_named:
        quick = tuple(kind for kind in types if kind in BEFORE_READY)
        offered = _offered(ssh, quick) if "hostkeyalgorithms" in ssh.said else quick
        return quick if offered else types
    named = tuple(dict.fromkeys(key.type for key in ssh.host_keys if key.type))
    return types if not named or any(kind in types for kind in named) else (*types, *named)


def _offered(ssh: Ssh, types: tuple[str, ...]) -> bool:
    """Whether HostKeyAlgorithms lets sshd show a key of one of these types."""
    from azureinit.plan.sshd_match import match_list

    text = ssh.said["hostkeyalgorithms"][0]
    names = [name for kind in types for name in ALGORITHMS[kind]]
    if text[:1] in ("+", "^"):
        return True
    return any(match_list(name, text.lstrip("-")) == (0 if text[:1] == "-" else 1) for name in names)


def plan_host_keys(*, types: tuple[str, ...], facts: Facts | KeyHost) -> Plan:
    if not facts.ssh.installed:
        return (Satisfied(name="host keys", why="sshd is not installed"),) if types else ()
    typed = tuple(item for kind in types for item in _plan_type(kind, facts))
    free = next((kind for kind in types if kind != NOT_IN_FIPS or not facts.ssh.fips), None)
    untyped = (key for key in facts.ssh.host_keys if not key.type and free)
    return (*typed, *(_plan_key(f"host key {key.path}", replace(key, type=free), facts) for key in untyped))


def _plan_type(kind: str, facts: Facts | KeyHost) -> Plan:
    name = f"host key {kind}"
    keys = [key for key in facts.ssh.host_keys if key.type == kind]
    if not keys:
        return (Satisfied(name=name, why="sshd's HostKey lines name none"),)
    if kind == NOT_IN_FIPS and facts.ssh.fips and not all(key.whole for key in keys):
        return (Satisfied(name=name, why="the kernel is in FIPS mode, which has no such keys"),)
    return tuple(_plan_key(name if len(keys) == 1 else f"{name} {key.path}", key, facts) for key in keys)


def plan_public_halves(facts: Facts) -> Plan:
    """Those that a crash has lost: sshd does without, but fingerprints are read from them."""
    if not facts.ssh.installed or TOOL not in facts.tools:
        return ()
    lost = (key for key in facts.ssh.host_keys if key.whole and key.there and not key.public and not key.public_link)
    return tuple(_plan_public_half(key, facts) for key in lost)


def _plan_public_half(key: HostKey, facts: Facts) -> Step:
    path = f"{key.path}.pub"
    actions: tuple[Action, ...] = (Run(argv=("sh", "-c", PUBLIC_HALF, TOOL, key.real)),)
    if facts.selinux and "restorecon" in facts.tools:
        actions += (Run(argv=("restorecon", "-F", path)),)
    ways = (Way(backend=TOOL, actions=actions),)
    name, did = f"public host key {path}", f"made {path} of its private key"
    return Step(name=name, why="missing or empty", did=did, ways=ways, failure=HostKeysFailed)


def _plan_key(name: str, key: HostKey, facts: Facts | KeyHost) -> Item:
    if key.exposed is not None:
        write = Write(path=key.path, data=key.exposed, mode=0o600, was=key.exposed)
        why = f"others can read {key.path}, and sshd takes no such key"
        ways = (Way(backend="native", actions=(write,)),)
        did = f"took {key.path} away from other readers"
        return Step(name=name, why=why, did=did, ways=ways, failure=HostKeysFailed)
    if key.whole:
        return Satisfied(name=name, why=key.path)
    why = f"{key.path} is torn" if key.there else f"no {key.path}"
    why_not = key.problem or ("" if TOOL in facts.tools else f"{TOOL} is not installed")
    if why_not:
        declined = Declined(backend=TOOL, why=why_not)
        return Step(name=name, why=why, ways=(declined,), failure=HostKeysFailed)
    # It asks before it overwrites, and nobody would answer. Another may be at it too: some distributions' own unit.
    actions: tuple[Action, ...] = (Remove(path=key.path),) if key.there else ()
    if key.public_link:
        actions += (Remove(path=key.public_link),)
    actions += tuple(MakeDir(path=directory, mode=0o755) for directory in key.missing)
    argv = (TOOL, "-q", "-t", key.type, "-N", "", "-C", "", "-f", key.real)
    actions += (Run(argv=argv, makes=key.path),)
    if facts.selinux and "restorecon" in facts.tools:  # one made after Ready comes too late for all the others' labels
        actions += (Run(argv=("restorecon", "-F", key.path, f"{key.path}.pub")),)
    did = f"made the {key.type} host key {key.path}"
    return Step(name=name, why=why, did=did, ways=(Way(backend=TOOL, actions=actions),), failure=HostKeysFailed)
