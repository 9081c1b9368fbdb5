"""`ssh_keys`, `ssh_genkeytypes` and `ssh_deletekeys`: host keys, before sshd starts.

The run has replaced the image's host keys already. Keys in the document replace those; types that are neither given nor
asked for are removed, as cloud-init does, unless `ssh_deletekeys` is false or sshd would have no key left.
"""

from __future__ import annotations

from azureinit.backends.ssh_keygen import TOOL, make_public_half
from azureinit.errors import CustomDataFailed
from azureinit.facts.ssh import DEFAULT_KEYS, KEYS_CHOSEN, HostKey
from azureinit.modules.steps import named, refused, where
from azureinit.modules.users_asked import flag_of, text_of, words_of
from azureinit.plan.actions import Caution, Declined, MakeDir, Remove, Satisfied, Step, Way, Write
from azureinit.plan.hostkeys import plan_host_keys
from azureinit.plan.sshd import BEGIN, END, HEADER, with_block
from azureinit.record import Record, Secret, replace
from azureinit.userdata.decoding import ALPHABET, Undecodable, parse_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.facts.users import Users
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Action, Item, Plan
    from azureinit.userdata.node import Node

MODULE = "ssh"
TYPES = ("rsa", "ecdsa", "ed25519")
PATHS = {path.rpartition("/")[2][len("ssh_host_") : -len("_key")]: path for path in DEFAULT_KEYS}
PRIVATE, PUBLIC, CERTIFICATE = "private", "public", "certificate"
SUFFIX = {PRIVATE: "", PUBLIC: ".pub", CERTIFICATE: "-cert.pub"}
OPENSSH, UNENCRYPTED = b"openssh-key-v1\0", b"\0\0\0\4none"  # the name of its cipher follows
SEQUENCE = b"\x30"  # how the older formats begin
ENCRYPTED = "it is protected by a passphrase"
RUNNING = "sshd is running: host keys are replaced only before it starts"


class GivenKey(Record):
    type: str
    parts: Mapping[str, Node]

    @property
    def path(self) -> str:
        return PATHS[self.type]

    def data(self, part: str) -> Secret:
        """With a line end: ssh-keygen cannot read a private key without one."""
        return Secret(text_of(self.parts[part]).rstrip("\n") + "\n")


def given_keys(request: Request) -> tuple[GivenKey, ...]:
    node = request.config.get("ssh_keys")
    found = []
    for kind in TYPES if node is not None else ():
        parts = {part: node.get(f"{kind}_{part}") for part in SUFFIX} if node is not None else {}
        said = {part: one for part, one in parts.items() if one is not None and text_of(one).strip()}
        if said:
            found.append(GivenKey(type=kind, parts=said))
    return tuple(found)


def plan_asked_host_keys(request: Request, facts: Users) -> Plan:
    config = request.config
    given, types = given_keys(request), config.get("ssh_genkeytypes")
    node = config.get("ssh_keys") if given else types
    delete = config.get("ssh_deletekeys")
    if node is None:
        return _plan_deletion_alone(delete) if delete is not None else ()
    name = named(MODULE, node, "host keys")
    if not facts.ssh.installed:
        return (Caution(name=name, why="sshd is not installed: no host key is written"),)
    refusals = tuple(item for key in given for item in _refusals(key))
    if refusals:
        return refusals
    wanted = tuple(key.type for key in given if PRIVATE in key.parts) if given else words_of(types)
    removed = _removed(wanted, facts) if flag_of(delete, default=True) else ()
    plan = tuple(item for key in given for item in _plan_given(key, facts))
    if not given:
        plan = tuple(_renamed(item, node) for item in _plan_made(wanted, facts))
    if removed:
        way = Way(backend="native", actions=tuple(Remove(path=path) for path in removed))
        why, did = "host keys of other types", f"removed {', '.join(removed)}"
        gone = named(MODULE, node, "other host keys")
        plan = (*plan, Step(name=gone, why=why, did=did, ways=(way,), failure=CustomDataFailed))
    plan = (*plan, *_plan_certificates(given, node, facts))
    if facts.ssh.running and any(isinstance(item, Step) for item in plan):
        return (Caution(name=name, why=RUNNING),)
    return (*plan, *_plan_record(request, node, facts)) if flag_of(delete, default=True) else plan


def _plan_record(request: Request, node: Node, facts: Users) -> Plan:
    """The agent makes types that no login needs after Ready: not where the document decides which there are."""
    if facts.keys_chosen:
        return ()
    actions = (
        MakeDir(path=request.directory, mode=0o700, kept=True),
        Write(path=f"{request.directory}/{KEYS_CHOSEN}", data=b"", mode=0o600),
    )
    name, why = named(MODULE, node, "record"), "no other host keys are made after Ready"
    return (Step(name=name, why=why, ways=(Way(backend="native", actions=actions),), failure=CustomDataFailed),)


def _plan_deletion_alone(delete: Node) -> Plan:
    name = named(MODULE, delete, "ssh_deletekeys")
    if flag_of(delete):
        return (Satisfied(name=name, why="the run has replaced the image's host keys"),)
    why = "the run replaces the image's host keys before customData is read: set ssh.regenerate_host_keys to never"
    return (Caution(name=name, why=why),)


def _plan_made(wanted: tuple[str, ...], facts: Users) -> Plan:
    types = tuple(kind for kind in TYPES if kind in wanted)
    return plan_host_keys(types=types, host=facts.host, ssh=facts.ssh) if types else ()


def _renamed(item: Item, node: Node) -> Item:
    name = named(MODULE, node, item.name)
    return replace(item, name=name, failure=CustomDataFailed) if isinstance(item, Step) else replace(item, name=name)


def _refusals(key: GivenKey) -> Plan:
    private = key.parts.get(PRIVATE)
    if private is None:
        return ()
    why = why_not_loaded(text_of(private))
    if not why:
        return ()
    name, reason = named(MODULE, private, f"{key.type} host key"), f"{where(private)} is no private key"
    return (refused(name, f"sshd would not load it: {why}", reason=reason),)


def why_not_loaded(text: str) -> str:
    """The container is looked at, not the key. Without a key that it can load, sshd does not start."""
    lines = [line.strip() for line in text.strip().split("\n")]
    if len(lines) < 3 or not lines[0].startswith("-----BEGIN ") or not lines[-1].startswith("-----END "):
        return "it lacks its first or its last line"
    if "ENCRYPTED" in lines[0] or any("ENCRYPTED" in line for line in lines if ":" in line):
        return ENCRYPTED
    packed = "".join(line for line in lines[1:-1] if ":" not in line).encode("utf-8", "replace")
    try:
        data = parse_base64(packed)
    except Undecodable:
        data = b""
    if not data or not ALPHABET.issuperset(packed):
        return "what is between its first and its last line is not base64"
    if "OPENSSH" not in lines[0]:
        return "" if data[:1] == SEQUENCE else "its content is damaged"
    if not data.startswith(OPENSSH):
        return "its content is damaged"
    return "" if data[len(OPENSSH) :].startswith(UNENCRYPTED) else ENCRYPTED


def _plan_given(key: GivenKey, facts: Users) -> Plan:
    node = next(iter(key.parts.values()))
    name = named(MODULE, node, f"{key.type} host key")
    actions: list[Action] = []
    for part in (part for part in SUFFIX if part in key.parts):
        path, data = key.path + SUFFIX[part], key.data(part)
        if facts.host_files.get(path) != data:
            mode = 0o600 if part == PRIVATE else 0o644
            actions.append(Write(path=path, data=data, mode=mode, owner="0:0"))
    ways: tuple[Way | Declined, ...] = (Way(backend="native", actions=tuple(actions)),)
    public = key.path + SUFFIX[PUBLIC]
    if PRIVATE in key.parts and PUBLIC not in key.parts and (actions or not facts.host_files.get(public)):
        if TOOL not in facts.host.tools:
            why = f"{TOOL} is not installed: the public half is removed, and not made"
            removal = Way(backend="native", actions=(*actions, Remove(path=public)))
            step = Step(name=name, why="given", ways=(removal,), failure=CustomDataFailed)
            return (Caution(name=name, why=why), step)
        half = make_public_half(_host_key(key, facts), facts.host, given=True)
        ways = (Way(backend=half.backend, actions=(*actions, *half.actions)),)
    elif not actions:
        return (Satisfied(name=name, why=f"is in {key.path}"),)
    did = f"wrote the {key.type} host key {key.path}"
    return (Step(name=name, why="given", did=did, ways=ways, failure=CustomDataFailed),)


def _host_key(key: GivenKey, facts: Users) -> HostKey:
    found = next((one for one in facts.ssh.host_keys if one.path == key.path), None)
    real = found.real if found is not None else facts.host.root + key.path
    return HostKey(type=key.type, path=key.path, real=real, there=True, whole=True)


def _removed(wanted: tuple[str, ...], facts: Users) -> tuple[str, ...]:
    """Files of other types. None where sshd would load no key then."""
    loaded = {key.type for key in facts.ssh.host_keys}
    if not loaded.intersection(wanted):
        return ()
    kept = tuple(PATHS[kind] for kind in wanted if kind in PATHS)
    return tuple(path for path in sorted(facts.host_files) if not path.startswith(kept))


def _plan_certificates(given: tuple[GivenKey, ...], node: Node, facts: Users) -> Plan:
    """sshd presents a certificate only if its configuration names it."""
    ssh, paths = facts.ssh, [key.path + SUFFIX[CERTIFICATE] for key in given if CERTIFICATE in key.parts]
    said = {word for one in ssh.directives if one.keyword == "hostcertificate" for word in one.arguments}
    missing = [path for path in paths if path not in said]
    if not missing:
        return ()
    name = named(MODULE, node, "host certificates")
    lines = "".join(f"HostCertificate {path}\n" for path in missing).encode()
    dropin = facts.host.distro.sshd_dropin
    was = ssh.data(dropin)
    data, path = (HEADER if was is None else was) + lines, dropin
    if "hostcertificate" not in ssh.values_with(dropin, data):
        path = ssh.config_path or ""
        was = ssh.data(path)
        if was is None or ssh.vendor:
            why = f"neither {dropin} nor {path} can be used: sshd does not present the certificate"
            return (Caution(name=name, why=why),)
        data = with_block(was, was.partition(BEGIN)[2].partition(END)[0] + lines)
    write = Write(path=path, data=data, mode=0o600 if was is None else None, was=was)
    did = f"sshd presents {', '.join(missing)}: wrote {path}"
    ways = (Way(backend="native", actions=(write,)),)
    return (Step(name=name, why=f"HostCertificate -> {path}", did=did, ways=ways, failure=CustomDataFailed),)
