"""The admin's key pairs: the private half for the admin only, the public half beside it as OpenSSH writes it."""

from __future__ import annotations

from azureinit.errors import KeysFailed
from azureinit.facts.key_files import KeysFile, PairFile
from azureinit.plan.actions import Caution, Declined, Satisfied, Step, Way, Write
from azureinit.plan.keyplaces import inside_home, shown
from azureinit.plan.keys import BACKEND, is_owner, owner_of, plan_directories
from azureinit.record import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host
    from azureinit.facts.key_files import AdminFiles
    from azureinit.plan.actions import Action, Plan
    from azureinit.sources.metadata import KeyPair

PRIVATE, PUBLIC = 0o600, 0o644
# ssh's default file names, by the first word of the public half.
USUAL = {"ssh-rsa": "id_rsa", "ssh-ed25519": "id_ed25519", "ssh-dss": "id_dsa"}


def pair_paths(*, username: str, home: str, pairs: tuple[KeyPair, ...]) -> tuple[str, ...]:
    """The files that must be read before the pairs can be planned."""
    return tuple(half for pair in pairs for half in _halves(_place(pair, username, home)))


def plan_key_pairs(
    *, username: str, home: str, pairs: tuple[KeyPair, ...], host: Host, accounts: Accounts, admin: AdminFiles
) -> Plan:
    if not pairs:
        return ()
    name = f"key pairs {username}"
    places = [_place(pair, username, home) for pair in pairs]
    cautions = tuple(
        Caution(name=name, why=f"the key pair's path {shown(pair.path)} is not in {home}: {place} is used")
        for pair, place in zip(pairs, places)
        if pair.path and inside_home(pair.path, username, home) is None
    )
    seen = {half.file.path: half for half in admin.pair_files}
    wanted = [half for place in places for half in _halves(place)]
    halves = {path: seen.get(path) or PairFile(file=KeysFile.absent(path, home)) for path in wanted}
    why = _why_not(wanted, halves, admin)
    if why:
        declined = Declined(backend=BACKEND, why=why)
        return (*cautions, Step(name=name, why=why, ways=(declined,), failure=KeysFailed))
    actions: list[Action] = []
    for pair, place in zip(pairs, places):
        assert pair.private_key is not None
        private, public = (halves[path] for path in _halves(place))
        line = pair.public_key.strip().encode() + b"\n"
        actions += _plan_half(private, pair.private_key, PRIVATE, username, host=host, accounts=accounts)
        actions += _plan_half(public, line, PUBLIC, username, host=host, accounts=accounts)
    where = ", ".join(places)
    if not actions:
        return (*cautions, Satisfied(name=name, why=f"in {where}"))
    way = Way(backend=BACKEND, actions=tuple(dict.fromkeys(actions)))
    did = f"wrote the key pairs of {username}: {where}"
    why = f"given by the platform -> {where}"
    return (*cautions, Step(name=name, why=why, did=did, ways=(way,), failure=KeysFailed))


def _halves(place: str) -> tuple[str, str]:
    return place, f"{place}.pub"


def _place(pair: KeyPair, username: str, home: str) -> str:
    """The platform's path if it is in the home; else ssh's default."""
    own = inside_home(pair.path, username, home) if pair.path else None
    if own is not None:
        return own
    name = (pair.path or "").rpartition("/")[2]
    kind = pair.public_key.partition(" ")[0]
    usual = USUAL.get(kind, "id_ecdsa" if kind.startswith("ecdsa-") else "id_key")
    return inside_home(f".ssh/{name or usual}", username, home) or f"{home.rstrip('/')}/.ssh/{usual}"


def _why_not(wanted: list[str], halves: dict[str, PairFile], admin: AdminFiles) -> str:
    twice = next((path for path in wanted if wanted.count(path) > 1), None)
    if twice is not None:
        return f"two key pairs have the same path {twice}"
    read = {file.path for file in admin.keys_files}
    taken = next((path for path in wanted if path in read), None)
    if taken is not None:
        return f"sshd reads authorized keys from {taken}"
    problem = next((half.file.problem for half in halves.values() if half.file.problem), None)
    return f"{problem}: the keys are not written there" if problem else ""


def _plan_half(
    half: PairFile, data: Secret | bytes, mode: int, username: str, *, host: Host, accounts: Accounts
) -> list[Action]:
    file = half.file
    owner, uid = owner_of(file, username, accounts)
    actions = plan_directories(file, username, host=host, accounts=accounts)
    wanted = data if isinstance(data, Secret) else Secret(data)
    if half.data != wanted or file.mode != mode or not is_owner(file.uid, uid, host):
        actions.append(Write(path=file.path, data=data, mode=mode, owner=owner, beneath=file.beneath, was=half.data))
    return actions
