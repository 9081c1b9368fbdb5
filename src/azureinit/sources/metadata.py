"""What the platform asks for, as one value, and what follows from it alone. Pure. `merge` makes it."""

from __future__ import annotations

from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.pubkey import PublicKey


class KeyPair(Record):
    """A key pair for the admin's own use. `path`: of the private key."""

    thumbprint: str
    path: str | None = None
    public_key: str = ""  # in OpenSSH's format
    private_key: Secret | None = None  # PEM


class Metadata(Record):
    vm_id: str | None = None
    username: str | None = None
    hostname: str | None = None
    disable_password: bool | None = None
    keys: tuple[PublicKey, ...] = ()
    password: Secret | None = None
    # Made from the password before planning, or saved by an earlier run.
    password_hash: Secret | None = None
    has_password: bool = False
    custom_data: Secret | None = None  # as received: normally base64
    has_custom_data: bool = False  # IMDS announces it; only the media carry it
    user_data: Secret | None = None  # of IMDS, as received: base64
    # ovf-env.xml from the media; without the password once it is accepted, and None if it is not needed.
    document: Secret | None = None
    guest_agent_off: bool = False
    pps_type: str | None = None
    proxy_agent: bool = False
    # Keys that the media name only by a certificate's thumbprint: thumbprint and path.
    thumbprints: tuple[tuple[str, str | None], ...] = ()
    # Key pairs that the media name by a certificate; their keys come from the wireserver, before planning.
    key_pairs: tuple[KeyPair, ...] = ()
    # IMDS has an osProfile: an empty one means that nothing is requested.
    has_profile: bool = False
    # IMDS's `network` as received: parsed only where it asks for more than DHCP gives.
    network: Mapping[str, Any] | None = None
    about: Mapping[str, str] = {}  # more of IMDS's document, for telemetry
    provenance: dict[str, str] = {}  # noqa: RUF012 - frozen by Record, never changed
    warnings: tuple[str, ...] = ()


def named_keys(metadata: Metadata) -> tuple[tuple[str, str | None], ...]:
    """The keys to make from certificates; none if the keys are IMDS's, which are complete."""
    return () if metadata.provenance.get("keys") == "imds" else metadata.thumbprints


def is_enough(metadata: Metadata) -> bool:
    """Whether user, host name and a credential are present."""
    credential = metadata.keys or metadata.thumbprints or metadata.password or metadata.has_password
    return bool(metadata.username and metadata.hostname and credential)


def lacks_password(metadata: Metadata) -> bool:
    """Password logins are enabled only with a password, which only the media carry."""
    return metadata.disable_password is False and not metadata.has_password


def lacks_custom_data(metadata: Metadata) -> bool:
    return metadata.has_custom_data and metadata.custom_data is None


def is_specialised(metadata: Metadata) -> bool:
    """The platform asks for nothing, and says so: the disk was captured with its users in it."""
    asked = metadata.username or metadata.hostname or metadata.keys or metadata.has_password or metadata.pps_type
    return metadata.has_profile and not asked and metadata.disable_password is None


def asks_anything(metadata: Metadata) -> bool:
    """Whether any source has more than the VM's id."""
    return not {"vm_id", "has_profile", "user_data", "network"}.issuperset(metadata.provenance)


def is_simple(network: object) -> bool:
    """One NIC with one address of each family: DHCP configures everything, and nothing else of it is read."""
    entries = network.get("interface") if isinstance(network, dict) else None
    if not isinstance(entries, list) or len(entries) != 1 or not isinstance(entries[0], dict):
        return False
    families = [entries[0].get(family) for family in ("ipv4", "ipv6")]
    lists = [family.get("ipAddress") for family in families if isinstance(family, dict)]
    return all(isinstance(found, list) and len(found) <= 1 for found in lists)


BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def decoded(custom_data: Secret) -> Secret | None:
    """Decoded; None if it is not base64."""
    from binascii import a2b_base64

    text = b"".join(custom_data.reveal().split())
    digits = text.rstrip(b"=")
    if len(text) % 4 or len(text) - len(digits) > 2 or digits.translate(None, BASE64):
        return None
    return Secret(a2b_base64(text))


def needs_saving(metadata: Metadata) -> bool:
    """Whether a later run needs something that IMDS cannot give again."""
    media_only = metadata.has_password or metadata.custom_data is not None or metadata.guest_agent_off
    media_only = media_only or metadata.proxy_agent or bool(metadata.key_pairs)
    return media_only or metadata.provenance.get("username", "imds") != "imds"
