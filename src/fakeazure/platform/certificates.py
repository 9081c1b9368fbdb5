"""The machine's certificate and key: a PKCS#12 file in a CMS envelope, encrypted for the transport certificate."""

from __future__ import annotations

import base64
import binascii
import hashlib
import ssl
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fakeazure.platform.goal_state import DECLARATION, INCARNATION, XSI
from fakeazure.platform.openssl import MAKING, OpensslFailed, key_pair, openssl, scratch
from fakeazure.platform.vm import Vm

TENANT = "Windows Azure CRP Certificate Generator"
# x-ms-cipher-name -> the cipher, and the padding of its key.
CIPHERS = {
    "AES128_CBC": ["-aes-128-cbc", "-keyopt", "rsa_padding_mode:oaep"],
    "DES_EDE3_CBC": ["-des-ede3-cbc", "-keyopt", "rsa_padding_mode:pkcs1"],
}
# As in Azure: also the oldest agents can open it.
LEGACY_ENCRYPTION = ["-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES", "-macalg", "sha1", "-iter", "2000"]


class BadTransport(ValueError):
    """The agent's transport certificate or cipher cannot be used."""


def certificate_file(*, transport: str, cipher: str, directory: Path | None) -> str:
    """The response body. `transport`: the agent's certificate from the header, base64 without line breaks."""
    envelope = sealed(pkcs12(directory), transport=transport, cipher=cipher)
    return (
        f'{DECLARATION}<CertificateFile {XSI} xsi:noNamespaceSchemaLocation="certificates10.xsd">'
        f"<Version>2010-12-15</Version><Incarnation>{INCARNATION}</Incarnation>"
        f"<Format>Pkcs7BlobWithPfxContents</Format><Data>{lines(envelope)}</Data>"
        "</CertificateFile>"
    )


def pkcs12(directory: Path | None) -> bytes:
    with scratch() as place:
        certificate, key = key_pair(TENANT, directory=directory or Path(place))
        both, bag = ["-in", str(certificate), "-inkey", str(key)], certificate.with_suffix(".p12")
        with MAKING:
            if not bag.exists():
                openssl("pkcs12", "-export", *both, "-passout", "pass:", *LEGACY_ENCRYPTION, "-out", str(bag))
            return bag.read_bytes()


def with_thumbprints(vm: Vm, place: Callable[[], Path]) -> Vm:
    """Fills in the fingerprint of the machine's certificate for keys without data and key pairs without fingerprint."""
    if all(key.data for key in vm.public_keys) and all(pair.fingerprint for pair in vm.key_pairs):
        return vm
    certificate, _ = key_pair(TENANT, directory=place())
    der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    own = hashlib.sha1(der, usedforsecurity=False).hexdigest().upper()
    return replace(
        vm,
        keys=tuple(key if key.data else replace(key, fingerprint=own) for key in vm.public_keys),
        key_pairs=tuple(replace(pair, fingerprint=pair.fingerprint or own) for pair in vm.key_pairs),
    )


def sealed(content: bytes, *, transport: str, cipher: str) -> bytes:
    if cipher not in CIPHERS:
        raise BadTransport(f"cipher {cipher!r} is none of {', '.join(CIPHERS)}")
    with scratch() as place:
        recipient = Path(place, "transport.crt")
        recipient.write_text(pem(transport))
        seal = ["cms", "-encrypt", "-binary", "-outform", "DER", "-recip", str(recipient), *CIPHERS[cipher]]
        try:
            return openssl(*seal, "-keyid", stdin=content)
        except OpensslFailed:  # without a key identifier: the recipient is named by issuer and serial number
            return openssl(*seal, stdin=content)


def pem(transport: str) -> str:
    try:
        der = base64.b64decode("".join(transport.split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadTransport("the transport certificate is not base64") from None
    return f"-----BEGIN CERTIFICATE-----\n{lines(der)}-----END CERTIFICATE-----\n"


def lines(data: bytes) -> str:
    """Base64 in lines of 64: agents wrap it as S/MIME for openssl, which cannot read one long line."""
    return "".join(f"{line}\n" for line in textwrap.wrap(base64.b64encode(data).decode(), 64))
