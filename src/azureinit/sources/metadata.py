"""What was asked for, merged from every source, with where each value came from. Pure.

IMDS wins for user, host name, keys and the password switch; the media alone gives password, customData and platform
settings. A disagreement is kept as a warning with both values.
"""

from __future__ import annotations

from azureinit.errors import HostnameMissing, NoCredentials, PpsUnsupported, UsernameMissing
from azureinit.record import Record
from azureinit.sources.imds import PublicKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.errors import AzureInitError, MetadataError
    from azureinit.record import Secret
    from azureinit.sources.imds import Imds
    from azureinit.sources.ovf import Ovf


class Metadata(Record):
    vm_id: str | None = None
    username: str | None = None
    hostname: str | None = None
    disable_password: bool | None = None
    keys: tuple[PublicKey, ...] = ()
    password: Secret | None = None
    # Made from the password before planning, or saved by an earlier run whose media are gone.
    password_hash: Secret | None = None
    has_password: bool = False
    custom_data: Secret | None = None
    pps_type: str | None = None
    proxy_agent: bool = False
    provenance: dict[str, str] = {}  # noqa: RUF012 - frozen by Record, never changed
    warnings: tuple[str, ...] = ()


def from_imds(imds: Imds) -> Metadata:
    return Metadata(
        vm_id=imds.vm_id,
        username=imds.username,
        hostname=imds.hostname,
        disable_password=imds.disable_password,
        keys=imds.keys,
        pps_type=imds.pps_type,
    )


def from_ovf(ovf: Ovf) -> Metadata:
    return Metadata(
        username=ovf.username,
        hostname=ovf.hostname,
        disable_password=ovf.disable_password,
        keys=tuple(PublicKey(data=key.value, path=key.path) for key in ovf.keys if key.value),
        password=ovf.password,
        has_password=ovf.password is not None,
        custom_data=ovf.custom_data,
        pps_type=ovf.pps_type or ("Running" if ovf.preprovisioned else None),
        proxy_agent=ovf.proxy_agent,
    )


SOURCES = ("imds", "media", "saved")  # who wins, in order


def merge(answers: Mapping[str, Metadata]) -> Metadata:
    """The first source that says something, per field; a different word of a later one is a warning."""
    values: dict[str, object] = {}
    provenance: dict[str, str] = {}
    warnings: list[str] = []
    for field in Metadata.fields_:
        if field in ("provenance", "warnings"):
            continue
        told = [(name, getattr(answers[name], field)) for name in SOURCES if name in answers]
        told = [(name, value) for name, value in told if _says(field, value)]
        if not told:
            continue
        provenance[field], values[field] = told[0]
        for name, value in told[1:]:
            if field in ("username", "hostname", "disable_password", "pps_type") and value != values[field]:
                warnings.append(
                    f"{field}: {provenance[field]} says {values[field]!r}, {name} says {value!r}; using the first"
                )
    return Metadata(**values, provenance=provenance, warnings=tuple(warnings))  # type: ignore[arg-type]


def _says(field: str, value: object) -> bool:
    return value is not None and value != () and not (value is False and field != "disable_password")


def is_enough(metadata: Metadata) -> bool:
    """User, host name, and a way to log in."""
    credential = metadata.keys or metadata.password or metadata.has_password
    return bool(metadata.username and metadata.hostname and credential)


def wants_password(metadata: Metadata) -> bool:
    """Passwords are on and there is no key: only the media can tell the password."""
    return metadata.disable_password is False and not metadata.keys


def is_specialised(metadata: Metadata) -> bool:
    """Neither source asks for anything: the disk was captured with its users in it."""
    return not (metadata.username or metadata.hostname or metadata.keys or metadata.has_password)


def check_complete(metadata: Metadata, failures: Mapping[str, AzureInitError]) -> None:
    """Raise what is missing, with every source's failure."""
    if (metadata.pps_type or "None").lower() != "none":
        raise PpsUnsupported(
            f"the platform asks for pre-provisioning of type {metadata.pps_type}, which this agent cannot do yet",
            hint="deploy without pre-provisioning",
        )
    told = {name: str(error) for name, error in failures.items()}
    because = "".join(f"; {name}: {text}" for name, text in told.items())
    missing: type[MetadataError] | None = None
    if not metadata.username:
        missing, text = UsernameMissing, "no source names the admin user"
    elif not metadata.hostname:
        missing, text = HostnameMissing, "no source names the host"
    elif not (metadata.keys or metadata.has_password):
        missing, text = NoCredentials, f"neither a key nor a password was given for {metadata.username!r}"
    if missing is not None:
        raise missing(text + because, **told)
