"""The answers of all sources, merged into one `Metadata` with provenance. Pure.

IMDS wins for user, host name, keys and the password switch; the media alone gives password, customData and platform
settings. A disagreement becomes a warning with both values. Keys that are not in OpenSSH's format give way to those
of the next source. A password without a setting for password logins enables them, as in other agents.
"""

from __future__ import annotations

from azureinit.config.model import shown
from azureinit.errors import (
    CustomDataMissing,
    HostnameMissing,
    ImdsUnavailable,
    InvalidKey,
    MediaAbsent,
    MediaRefused,
    MediaUnreadable,
    NoCredentials,
    OvfInvalid,
    ProxyAgentFailed,
    UsernameMissing,
)
from azureinit.pubkey import PublicKey, key_identity, key_name, one_line, parse_key
from azureinit.record import replace
from azureinit.sources.identity import parse_vm_id
from azureinit.sources.metadata import KeyPair, Metadata, is_enough, lacks_custom_data, lacks_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azureinit.errors import AzureInitError, MetadataError
    from azureinit.sources.imds import Imds
    from azureinit.sources.ovf import Ovf


def from_imds(imds: Imds) -> Metadata:
    return Metadata(
        vm_id=imds.vm_id,
        username=imds.username,
        hostname=imds.hostname,
        disable_password=imds.disable_password,
        keys=tuple(key for told in imds.keys for key in _spelt_out(told)),
        has_custom_data=bool(imds.has_custom_data),
        pps_type=imds.pps_type,  # also "None", which outranks what the media say
        has_profile=imds.has_profile,
        user_data=imds.user_data,
        network=imds.network,
        about=imds.about,
    )


def _spelt_out(key: PublicKey) -> tuple[PublicKey, ...]:
    """The keys of the certificates inside the text, if any; otherwise the key itself."""
    if "-----BEGIN CERTIFICATE-----" not in key.data:
        return (key,)
    from azureinit.sources.certified import keys_inside

    return tuple(PublicKey(data=line, path=key.path) for line in keys_inside(key.data)) or (key,)


def from_ovf(ovf: Ovf) -> Metadata:
    return Metadata(
        vm_id=ovf.vm_id,
        username=ovf.username,
        hostname=ovf.hostname,
        disable_password=ovf.disable_password,
        keys=tuple(PublicKey(data=key.value, path=key.path) for key in ovf.keys if key.value),
        password=ovf.password,
        has_password=ovf.password is not None,
        custom_data=ovf.custom_data_text,
        guest_agent_off=ovf.provision_guest_agent is False,
        pps_type=_media_type(ovf),
        proxy_agent=ovf.proxy_agent,
        thumbprints=tuple((key.fingerprint, key.path) for key in ovf.keys if key.fingerprint and not key.value),
        key_pairs=tuple(KeyPair(thumbprint=pair.fingerprint or "", path=pair.path) for pair in ovf.pairs),
        warnings=ovf.warnings,
    )


def _media_type(ovf: Ovf) -> str | None:
    if ovf.pps_type is None and not ovf.preprovisioned:
        return None
    from azureinit.sources.pps import media_type

    return media_type(ovf.pps_type, flag=ovf.preprovisioned)


def _pps_type(answers: Mapping[str, Metadata], warnings: list[str]) -> str | None:
    imds, media = (answers[name].pps_type if name in answers else None for name in ("imds", "media"))
    if (imds or "None") == "None" and media is None:
        return None
    from azureinit.sources.pps import decide

    found, told = decide(imds=imds, media=media)
    warnings += told
    return found


SOURCES = ("imds", "media", "saved")  # in order of precedence
IN_WORDS = {"imds": "IMDS", "media": "the provisioning media", "saved": "the provisioning media"}
LONGEST_TOLD = 1000
COMPARED = ("username", "hostname", "disable_password", "keys", "pps_type")


def merge(answers: Mapping[str, Metadata]) -> Metadata:
    """For each field the value of the first source that has one; a different later value becomes a warning."""
    values: dict[str, object] = {}
    provenance: dict[str, str] = {}
    warnings = [warning for name in SOURCES if name in answers for warning in answers[name].warnings]
    skipped = _sources_of_bad_keys(answers, warnings)
    for field in Metadata.fields_:
        if field in ("about", "provenance", "warnings", "pps_type"):
            continue
        names = [name for name in SOURCES if name in answers and not (field == "keys" and name in skipped)]
        told = [(name, getattr(answers[name], field)) for name in names]
        told = [(name, value) for name, value in told if _says(field, value)]
        if not told:
            continue
        provenance[field], values[field] = told[0]
        for name, value in told[1:]:
            if field in COMPARED and _comparable(value) != _comparable(values[field]):
                first, other = _in_words(values[field]), _in_words(value)
                warnings.append(f"{field}: {provenance[field]} says {first}, {name} says {other}; using the first")
    values["pps_type"] = _pps_type(answers, warnings)
    if "disable_password" not in values and "has_password" in values:
        values["disable_password"], provenance["disable_password"] = False, provenance["has_password"]
    values["about"] = next((answers[name].about for name in SOURCES if name in answers and answers[name].about), {})
    return Metadata(**values, provenance=provenance, warnings=tuple(warnings))  # type: ignore[arg-type]


def disagreements(imds: Metadata, media: Metadata) -> tuple[str, ...]:
    """The differences between the two, one sentence each."""
    found = []
    imds, media = (replace(each, keys=_good(each.keys)) for each in (imds, media))
    for field in COMPARED:
        one, other = getattr(imds, field), getattr(media, field)
        if _says(field, one) and _says(field, other) and _comparable(one) != _comparable(other):
            found.append(f"{field}: IMDS says {_in_words(one)}, the media say {_in_words(other)}")
    return tuple(found)


def _good(keys: tuple[PublicKey, ...]) -> tuple[PublicKey, ...]:
    bad = {number for number, _why in bad_keys(keys)}
    return tuple(key for number, key in enumerate(keys, 1) if number not in bad)


def needs_no_network(media: Metadata) -> bool:
    """Sufficient for a login, and neither pre-provisioning nor a certificate of the wireserver is requested."""
    waits = media.pps_type or media.thumbprints or media.key_pairs
    return is_enough(media) and not needs_media(media) and not waits


def _sources_of_bad_keys(answers: Mapping[str, Metadata], warnings: list[str]) -> list[str]:
    """The sources whose keys are skipped because a later source has better ones.

    Best: all keys are usable, or still to be made from certificates. Then: some are usable. Then: none.
    """
    names = [name for name in SOURCES if name in answers and (answers[name].keys or answers[name].thumbprints)]
    bad = {name: bad_keys(answers[name].keys) for name in names}
    chosen = min(names, key=lambda name: _badness(len(bad[name]), len(answers[name].keys)), default="")
    skipped = names[: names.index(chosen)] if chosen else []
    for name in skipped:
        number, error = bad[name][0]
        told = key_name(number, answers[name].keys[number - 1].data)
        warnings.append(f"keys: {told} of {name} is not used: {error.message}; using those of {chosen}")
    return skipped


def _badness(bad: int, keys: int) -> int:
    return 0 if not bad else 1 if bad < keys else 2


def bad_keys(keys: tuple[PublicKey, ...]) -> list[tuple[int, InvalidKey]]:
    """The number, from 1, of each key that sshd would refuse, and why."""
    found = []
    for number, key in enumerate(keys, 1):
        try:
            parse_key(key.data)
        except InvalidKey as error:
            found.append((number, error))
    return found


def with_usable_keys(metadata: Metadata, warn: Callable[[str], None]) -> Metadata:
    """Metadata without keys that sshd would refuse, each with a warning; an error if none is left."""
    bad = bad_keys(metadata.keys)
    if not bad:
        return metadata
    source = IN_WORDS.get(metadata.provenance.get("keys", ""), "the platform")
    told = [
        f"{key_name(number, metadata.keys[number - 1].data)} from {source}: {error.message}" for number, error in bad
    ]
    if len(bad) == len(metadata.keys):
        many = "no key can be used: " if len(bad) > 1 else ""
        raise InvalidKey(many + "; ".join(told)[:LONGEST_TOLD], hint=bad[0][1].hint)
    for line in told:
        warn(f"{line}; it is not used")
    numbers = {number for number, _ in bad}
    return replace(metadata, keys=tuple(key for n, key in enumerate(metadata.keys, 1) if n not in numbers))


def contradiction(media: Metadata, imds: Metadata | None, *, vm_id: str | None) -> str:
    """Why this medium belongs to another VM; "" if nothing contradicts it.

    Names that differ from IMDS's are not a reason: the VM may have been renamed since, and IMDS wins.
    """
    known = {one for one in (vm_id, None if imds is None else imds.vm_id) if one}
    if media.vm_id and known and known.isdisjoint((media.vm_id, parse_vm_id(media.vm_id, swapped=True))):
        return f"it is of VM {media.vm_id}, and this is VM {', '.join(sorted(known))}"
    switch = None if imds is None else imds.disable_password
    if switch is not None and media.disable_password is not None and switch != media.disable_password:
        on, off = ("the medium", "IMDS") if switch else ("IMDS", "the medium")
        return f"{on} switches password logins on, and {off} switches them off"
    return ""


def _says(field: str, value: object) -> bool:
    return value is not None and value != () and not (value is False and field != "disable_password")


def _comparable(value: object) -> object:
    """Keys compare equal regardless of order and comments."""
    if not isinstance(value, tuple):
        return value
    return {key_identity(one_line(key.data)) or tuple(key.data.split()[:2]) for key in value}


def _in_words(value: object) -> str:
    if isinstance(value, tuple):
        # Keys differ at their end.
        words = [f"{kind} ...{blob[-12:]}" for kind, blob in ((*key.data.split()[:2], "", "")[:2] for key in value)]
        return shown(", ".join(words), longest=300)
    return repr(shown(value)) if isinstance(value, str) else str(value).lower()


def lacks_usable_key(metadata: Metadata) -> bool:
    """Keys were given, none of them is usable, and there is no other credential."""
    other = metadata.thumbprints or metadata.has_password
    return bool(metadata.keys) and not other and len(bad_keys(metadata.keys)) == len(metadata.keys)


def needs_media(metadata: Metadata) -> bool:
    """Whether something is only on the media: IMDS announces a password or customData, or has no usable key."""
    return lacks_password(metadata) or lacks_custom_data(metadata) or lacks_usable_key(metadata)


def check_complete(metadata: Metadata, failures: Mapping[str, AzureInitError], *, knows_saved: bool = True) -> None:
    """Raise an error for missing values, with every source's failure.

    `knows_saved`: whether the saved media could be read; if not, missing media are no error.
    """
    given_up = {name: error for name, error in failures.items() if "setting" not in error.data}
    if "proxy agent" in failures:
        raise _caused(failures["proxy agent"], "the media ask for the guest proxy agent", failures)
    who = shown(metadata.username or "")
    if not metadata.username:
        raise _missing(UsernameMissing, "no source names the admin user", failures, given_up)
    if not metadata.hostname:
        raise _missing(HostnameMissing, "no source names the host", failures, given_up)
    if not (metadata.keys or metadata.has_password):
        raise _missing(NoCredentials, f"neither a key nor a password was given for {who!r}", failures, given_up)
    if not knows_saved:
        return
    if lacks_password(metadata) and "media" in given_up:
        raise _missing(NoCredentials, "a password was given, but it is on the provisioning media", failures, given_up)
    if lacks_custom_data(metadata) and ("media" in given_up or "media" not in failures):
        why = "the media have none" if "media" not in failures else "it is on the provisioning media"
        raise _missing(CustomDataMissing, f"IMDS says that there is customData, and {why}", failures, {})


# Which of two failed sources is the cause: a broken source before an absent one.
CAUSES = (MediaUnreadable, OvfInvalid, MediaRefused, ProxyAgentFailed, ImdsUnavailable, MediaAbsent)


def _missing(
    kind: type[MetadataError],
    what: str,
    failures: Mapping[str, AzureInitError],
    given_up: Mapping[str, AzureInitError],
) -> AzureInitError:
    """The failure of the source that should have had the value, or `kind` if every source answered."""
    for cause in CAUSES:
        for error in given_up.values():
            if isinstance(error, cause):
                return _caused(error, what, failures)
    return kind(_because(what, failures), **{name: str(error) for name, error in failures.items()})


def _caused(error: AzureInitError, what: str, failures: Mapping[str, AzureInitError]) -> AzureInitError:
    told = {**error.data, **{name: str(failure) for name, failure in failures.items()}}
    return type(error)(_because(what, failures), hint=error.hint, reason=error.reason, **told)


def _because(what: str, failures: Mapping[str, AzureInitError]) -> str:
    return what + "".join(f"; {name}: {error}" for name, error in failures.items())
