"""Host keys: a generalised image has none, and without one sshd does not start."""

from __future__ import annotations

from azureinit.errors import HostKeysFailed
from azureinit.plan.actions import Satisfied, Step, Way, Write
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.host import Host
    from azureinit.facts.ssh import HostKey, Ssh
    from azureinit.plan.actions import Item, Plan

NOT_IN_FIPS = "ed25519"
BEFORE_READY = ("ed25519", "ecdsa")
ALGORITHMS = {"ed25519": ("ssh-ed25519",), "ecdsa": ("ecdsa-sha2-nistp256",)}
IMAGE_KEYS = "host keys of the image"


def has_image_keys(ssh: Ssh, *, own: frozenset[str], done: frozenset[str]) -> bool:
    """Whether sshd would load a key at a default path that this VM did not make."""
    return IMAGE_KEYS not in done and any(path not in own for path in ssh.default_keys(whole=True))


def types_before_ready(types: tuple[str, ...], ssh: Ssh) -> tuple[str, ...]:
    """The types that are made before Ready.

    Where HostKey lines name the keys: all wanted types, since sshd loads no others, and the named types if none of them
    is wanted. Else the types that are made quickly; all wanted types where none of those is wanted.
    """
    if not ssh.host_keys_named:
        quick = tuple(kind for kind in types if kind in BEFORE_READY)
        offered = _offered(ssh, quick) if "hostkeyalgorithms" in ssh.configured else quick
        return quick if offered else types
    named = tuple(dict.fromkeys(key.type for key in ssh.host_keys if key.type))
    return types if not named or any(kind in types for kind in named) else (*types, *named)


def _offered(ssh: Ssh, types: tuple[str, ...]) -> bool:
    """Whether HostKeyAlgorithms allows a key of one of these types."""
    from azureinit.plan.sshd_match import match_list

    text = ssh.configured["hostkeyalgorithms"][0]
    names = [name for kind in types for name in ALGORITHMS[kind]]
    if text[:1] in ("+", "^"):
        return True
    return any(match_list(name, text.lstrip("-")) == (0 if text[:1] == "-" else 1) for name in names)


def plan_host_keys(*, types: tuple[str, ...], host: Host, ssh: Ssh, late: bool = False) -> Plan:
    """`late`: after Ready."""
    if not ssh.installed:
        return (Satisfied(name="host keys", why="sshd is not installed"),) if types else ()
    typed = tuple(item for kind in types for item in _plan_type(kind, host=host, ssh=ssh, late=late))
    free = next((kind for kind in types if kind != NOT_IN_FIPS or not ssh.fips), None)
    untyped = (key for key in ssh.host_keys if not key.type and free)
    return (*typed, *(_plan_key(f"host key {key.path}", replace(key, type=free), host, late=late) for key in untyped))


def _plan_type(kind: str, *, host: Host, ssh: Ssh, late: bool) -> Plan:
    name = f"host key {kind}"
    keys = [key for key in ssh.host_keys if key.type == kind]
    if not keys:
        return (Satisfied(name=name, why="sshd's HostKey lines name none"),)
    if kind == NOT_IN_FIPS and ssh.fips and not all(key.whole for key in keys):
        return (Satisfied(name=name, why="the kernel is in FIPS mode, which has no such keys"),)
    return tuple(_plan_key(name if len(keys) == 1 else f"{name} {key.path}", key, host, late=late) for key in keys)


def plan_public_halves(*, host: Host, ssh: Ssh) -> Plan:
    """Public halves that a crash has lost: sshd does not need them, but fingerprints are read from them."""
    lost = [key for key in ssh.host_keys if key.whole and key.there and not key.public and not key.public_link]
    if not ssh.installed or not lost:
        return ()
    from azureinit.backends.ssh_keygen import TOOL

    return tuple(_plan_public_half(key, host) for key in lost) if TOOL in host.tools else ()


def _plan_public_half(key: HostKey, host: Host) -> Step:
    from azureinit.backends.ssh_keygen import make_public_half

    path = f"{key.path}.pub"
    ways = (make_public_half(key, host),)
    name, did = f"public host key {path}", f"made {path} from its private key"
    return Step(name=name, why="missing or empty", did=did, ways=ways, failure=HostKeysFailed)


def _plan_key(name: str, key: HostKey, host: Host, *, late: bool) -> Item:
    if key.exposed is not None:
        write = Write(path=key.path, data=key.exposed, mode=0o600, was=key.exposed)
        why = f"others can read {key.path}, and sshd refuses such a key"
        ways = (Way(backend="native", actions=(write,)),)
        did = f"made {key.path} readable for root only"
        return Step(name=name, why=why, did=did, ways=ways, failure=HostKeysFailed)
    if key.whole:
        return Satisfied(name=name, why=key.path)
    from azureinit.backends.ssh_keygen import make_key

    why = f"{key.path} is incomplete" if key.there else f"no {key.path}"
    did = f"made the {key.type} host key {key.path}"
    return Step(name=name, why=why, did=did, ways=(make_key(key, host, late=late),), failure=HostKeysFailed)
