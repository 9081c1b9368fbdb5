"""Settings that Ignition made: they stay, and the journal remembers that in boots when Ignition does not run."""

from __future__ import annotations

from azureinit.errors import InvalidHostname
from azureinit.plan.actions import Satisfied, Step, Way
from azureinit.plan.names import check_hostname
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.hostnames import HostNames
    from azureinit.facts.ignition import Ignition
    from azureinit.plan.actions import Plan
    from azureinit.sources.metadata import Metadata

IGNITION = "ignition"
HOSTNAME, PASSWORD = "hostname of Ignition", "password of Ignition"
NAMELESS = ("localhost", "localhost.localdomain")


def without_kept(
    metadata: Metadata, *, ignition: Ignition | None, names: HostNames, accounts: Accounts, done: frozenset[str]
) -> Metadata:
    """The metadata without what a user's Ignition configuration has set already."""
    if ignition is None:
        return metadata
    provenance = dict(metadata.provenance)
    name = kept_hostname(metadata.hostname, names.hostname_file, ignition, done=done)
    if name is not None:
        provenance["hostname"] = IGNITION
    if _keeps_password(metadata, accounts, ignition, done):
        provenance["password"] = IGNITION
        metadata = replace(metadata, password_hash=None)
    return replace(metadata, hostname=name or metadata.hostname, provenance=provenance)


def kept_hostname(
    asked: str | None, hostname_file: bytes | None, ignition: Ignition, *, done: frozenset[str]
) -> str | None:
    """The name in /etc/hostname, where it is to stay; else None."""
    name = (hostname_file or b"").decode("ascii", "replace").strip()
    if name in NAMELESS or name == asked or not (HOSTNAME in done or ignition.wrote_hostname):
        return None
    try:
        return check_hostname(name)
    except InvalidHostname:
        return None


def _keeps_password(metadata: Metadata, accounts: Accounts, ignition: Ignition, done: frozenset[str]) -> bool:
    """Whether the account had a password before azure-init set one."""
    username = metadata.username or ""
    if metadata.password_hash is None or f"password {username}" in done:
        return False
    return PASSWORD in done or (ignition.fresh and accounts.password_state(username) == "set")


def plan_ignition(metadata: Metadata, *, done: frozenset[str]) -> Plan:
    """Steps that only record a decision in the journal."""
    kept = []
    if metadata.provenance.get("hostname") == IGNITION:
        kept.append((HOSTNAME, f"{metadata.hostname} stays, not the platform's"))
    if metadata.provenance.get("password") == IGNITION:
        kept.append((PASSWORD, f"that of {metadata.username} stays, not the platform's"))
    return tuple(
        Satisfied(name=name, why=why)
        if name in done
        else Step(
            name=name,
            why=why,
            did=f"kept a setting of Ignition: {why}",
            ways=(Way(backend="journal", actions=()),),
            once=True,
        )
        for name, why in kept
    )
