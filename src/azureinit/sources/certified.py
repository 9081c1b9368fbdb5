"""Keys and key pairs that the media name by a certificate, made from the platform's certificates. Pure."""

from __future__ import annotations

from azureinit.errors import CertificatesMissing
from azureinit.record import replace
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import named_keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.sources.certificates import Certificate, Certificates
    from azureinit.sources.metadata import KeyPair, Metadata


def certified(metadata: Metadata, known: Certificates) -> Metadata:
    """Metadata with all of those keys, or an error that names the first one that cannot be made."""
    keys = (
        PublicKey(data=_public_key(_find(known, thumbprint)), path=path) for thumbprint, path in named_keys(metadata)
    )
    return replace(
        metadata,
        keys=(*metadata.keys, *keys),
        thumbprints=(),
        key_pairs=tuple(_with_keys(pair, known) for pair in metadata.key_pairs),
    )


def keys_inside(text: str) -> tuple[str, ...]:
    """The public key of every PEM certificate, in OpenSSH's format. Other text is skipped."""
    from azureinit.sources.der import certificate_key, openssh_key
    from azureinit.sources.envelope import body_of, decoded, pem_blocks

    blocks = [body_of(block) for label, block in pem_blocks(text.encode()) if label == "CERTIFICATE"]
    spkis = [certificate_key(decoded(body) or b"") for body in blocks]
    keys = [openssh_key(spki) for spki in spkis if spki is not None]
    return tuple(dict.fromkeys(key for key in keys if key is not None))


def _with_keys(pair: KeyPair, known: Certificates) -> KeyPair:
    found = _find(known, pair.thumbprint)
    if found.private_key is None:
        why = known.why or "the platform sent the certificate without it"
        raise CertificatesMissing(f"no private key of the certificate {pair.thumbprint}: {why}")
    return replace(pair, public_key=_public_key(found), private_key=found.private_key)


def _find(known: Certificates, thumbprint: str) -> Certificate:
    found = known.get(thumbprint)
    if found is None:
        why = known.why or "the platform sent none with that thumbprint"
        raise CertificatesMissing(f"no certificate {thumbprint} to make a key from: {why}")
    return found


def _public_key(found: Certificate) -> str:
    if found.public_key is None:
        why = "OpenSSH does not support its key type"
        raise CertificatesMissing(f"no certificate {found.thumbprint} to make a key from: {why}")
    return found.public_key
