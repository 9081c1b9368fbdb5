"""What the provisioning media said, kept for a later run: the host ejects the media after any verdict.

One codec: `saved_values` and `metadata_from_saved` are pure, `write_saved` and `read_saved` add the file. The file is
sealed (memory/sealed.py) and 0600; a damaged one counts as absent.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64

from azureinit.errors import LocalError
from azureinit.machine import MOST_BYTES
from azureinit.memory.sealed import seal, unseal
from azureinit.pubkey import PublicKey
from azureinit.record import Secret
from azureinit.sources.metadata import KeyPair, Metadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.machine import Machine

# Fields that are saved as they are, and their types. Keys, key pairs, thumbprints and the hash have rules of their own.
PLAIN: dict[str, type] = {
    "username": str,
    "hostname": str,
    "disable_password": bool,
    "has_password": bool,
    "custom_data": Secret,
    "pps_type": str,
    "guest_agent_off": bool,
    "proxy_agent": bool,
}
TYPES = {**PLAIN, "password_hash": Secret}


def saved_values(metadata: Metadata, *, with_secrets: bool) -> dict[str, Any]:
    """The JSON object that is saved. `with_secrets`: the password's hash and the names of the key pairs too.

    Key pairs are saved by thumbprint: the wireserver has their keys.
    """
    values = {field: getattr(metadata, field) for field in PLAIN if getattr(metadata, field) is not None}
    values["keys"] = [[key.data, key.path] for key in metadata.keys]
    if metadata.thumbprints:
        values["thumbprints"] = [[thumbprint, path] for thumbprint, path in metadata.thumbprints]
    if with_secrets and metadata.key_pairs:
        values["key_pairs"] = [[pair.thumbprint, pair.path] for pair in metadata.key_pairs]
    if with_secrets and metadata.password_hash is not None:
        values["password_hash"] = metadata.password_hash
    return {key: _encoded(value) for key, value in sorted(values.items())}


def _encoded(value: object) -> object:
    """Secrets are revealed here and nowhere else: into a 0600 file of this agent."""
    return {"base64": b2a_base64(value.reveal(), newline=False).decode()} if isinstance(value, Secret) else value


def metadata_from_saved(values: Mapping[str, object]) -> Metadata | None:
    """None for an object that `saved_values` cannot have made. Unknown keys of a later version are skipped."""
    try:
        kept = {key: _decoded(value) for key, value in values.items() if key in TYPES and value is not None}
    except (KeyError, TypeError, ValueError):
        return None
    keys, named, thumbprints = (_pairs(values.get(key, ())) for key in ("keys", "key_pairs", "thumbprints"))
    if not all(type(value) is TYPES[key] for key, value in kept.items()):
        return None
    if keys is None or named is None or thumbprints is None:
        return None
    return Metadata(
        **kept,
        keys=tuple(PublicKey(data=data, path=path) for data, path in keys),
        key_pairs=tuple(KeyPair(thumbprint=thumbprint, path=path) for thumbprint, path in named),
        thumbprints=tuple(thumbprints),
    )


def _decoded(value: Any) -> Any:
    return Secret(a2b_base64(value["base64"])) if isinstance(value, dict) else value


def _pairs(value: object) -> list[tuple[str, str | None]] | None:
    """A list of a text and an optional second text each; None for anything else."""
    pairs: tuple[Any, ...] = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        return None
    if not all(isinstance(text, str) and (path is None or isinstance(path, str)) for text, path in pairs):
        return None
    return [(text, path) for text, path in pairs]


def write_saved(machine: Machine, path: str, metadata: Metadata, *, with_secrets: bool) -> None:
    """Leaves a file that already holds the same alone."""
    data = seal(saved_values(metadata, with_secrets=with_secrets))
    if machine.read(path, limit=MOST_BYTES) != data:
        machine.write(path, data, mode=0o600)


def read_saved(machine: Machine, path: str) -> Metadata | None:
    """None where there is no such file, or it cannot be read or is damaged: the run then does without it."""
    try:
        data = machine.read(path, limit=MOST_BYTES)
    except LocalError:
        return None
    values = unseal(data) if data else None
    return None if values is None else metadata_from_saved(values)
