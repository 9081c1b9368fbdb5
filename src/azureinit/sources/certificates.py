"""The VM's certificates: fetched from the wireserver and found by thumbprint, each with its private key."""

from __future__ import annotations

from azureinit.errors import AzureInitError, CertificatesMissing, HttpFailed
from azureinit.record import Record, Secret
from azureinit.sources.der import certificate_key, openssh_key
from azureinit.sources.envelope import (
    PRIVATE,
    body_of,
    decoded,
    make_transport,
    open_envelope,
    pem_blocks,
    public_half,
)
from azureinit.sources.expat import texts
from azureinit.sources.goalstate import RETRIED, ask, read_goal_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azureinit.config.model import Config
    from azureinit.http import Observe
    from azureinit.machine import Clock, Machine
    from azureinit.sources.goalstate import GoalState

CIPHERS = ("AES128_CBC", "DES_EDE3_CBC")  # in the order of preference
REFUSED, GONE = 400, 410
FORMAT, DATA = "CertificateFile/Format", "CertificateFile/Data"
PKCS12 = "Pkcs7BlobWithPfxContents"


class Certificate(Record):
    thumbprint: str  # SHA-1 in capitals
    pem: str
    public_key: str | None  # in OpenSSH's format; None for a key type that OpenSSH does not support
    private_key: Secret | None  # PEM


class Certificates(Record):
    found: tuple[Certificate, ...] = ()
    why: str = ""  # why certificates are missing, in a sentence

    def get(self, thumbprint: str) -> Certificate | None:
        """Normalised: `ab:cd`, `AB CD` and `ABCD` are the same thumbprint."""
        wanted = "".join(thumbprint.replace(":", " ").split()).upper()
        return next((one for one in self.found if one.thumbprint == wanted), None)


class CertificateFile(Record):
    format: str
    envelope: bytes | None


def read_certificates(
    machine: Machine, config: Config, goal_state: GoalState, *, deadline: float, observe: Observe | None = None
) -> Certificates:
    """Empty, with the reason, if this machine cannot decrypt them; an error if the wireserver does not send them."""
    if goal_state.certificates_url is None:
        return Certificates(why="the goal state names no certificates")
    try:
        transport = make_transport(machine, deadline=deadline)
    except AzureInitError as error:
        return Certificates(why=f"certificates cannot be requested: {error}")
    told: list[str] = []
    for cipher in CIPHERS:
        try:
            headers = {"x-ms-guest-agent-public-x509-cert": transport.one_line, "x-ms-cipher-name": cipher}
            file = _fetch(config, goal_state, headers, clock=machine.clock, deadline=deadline, observe=observe)
        except HttpFailed as error:
            told.append(f"{cipher}: {error}")
            if error.status == REFUSED and cipher != CIPHERS[-1]:
                continue
            text = f"the wireserver sent no certificates: {'; '.join(told)}"
            raise CertificatesMissing(text, endpoint=goal_state.endpoint) from error
        if file.format not in ("", PKCS12):
            return Certificates(why=f"the certificates come as {file.format[:60]!r}, which is not read here")
        if file.envelope is None:
            return Certificates(why="the wireserver has no certificates for this machine")
        try:
            opened = open_envelope(machine, file.envelope, transport, deadline=deadline)
            return pair(opened, lambda key: public_half(machine, key, deadline=deadline))
        except AzureInitError as error:
            told.append(f"{cipher}: {error}")
    return Certificates(why=f"the certificates cannot be decrypted here: {'; '.join(told)}")


def _fetch(
    config: Config,
    goal_state: GoalState,
    headers: Mapping[str, str],
    *,
    clock: Clock,
    deadline: float,
    observe: Observe | None,
) -> CertificateFile:
    """Fetch, and retry with the new URL if the goal state was replaced meanwhile."""

    def get(url: str) -> CertificateFile:
        return ask(
            config,
            url,
            parse_certificate_file,
            headers=headers,
            statuses=RETRIED - {GONE},
            clock=clock,
            deadline=deadline,
            observe=observe,
        )

    assert goal_state.certificates_url is not None
    try:
        return get(goal_state.certificates_url)
    except HttpFailed as error:
        if error.status != GONE:
            raise
    again = read_goal_state(config, endpoint=goal_state.endpoint, clock=clock, deadline=deadline, observe=observe)
    return get(again.certificates_url or goal_state.certificates_url)


def parse_certificate_file(body: bytes) -> CertificateFile:
    """Data in an unknown format are not decoded: they may not be base64."""
    found = texts(body, (FORMAT, DATA), name="the certificate file", invalid=CertificatesMissing)
    form = found[FORMAT][0] if found[FORMAT] else ""
    if form not in ("", PKCS12):
        return CertificateFile(format=form, envelope=None)
    envelope = decoded(found[DATA][0]) if found[DATA] else None
    if found[DATA] and envelope is None:
        raise CertificatesMissing("the certificate file's data are not base64")
    return CertificateFile(format=form, envelope=envelope)


def pair(opened: Secret, public_half: Callable[[str], bytes | None]) -> Certificates:
    """Each certificate with its matching private key."""
    keys: dict[object, Secret] = {}
    found: dict[str, Certificate] = {}
    paired: set[object] = set()
    blocks = pem_blocks(opened.reveal())
    for label, block in blocks:
        if label.endswith(PRIVATE):
            keys.setdefault(_identity(public_half(block) or b""), Secret(block))
    for label, block in blocks:
        der = decoded(body_of(block)) if label == "CERTIFICATE" else None
        spki = certificate_key(der) if der else None
        if der is not None and spki is not None:
            paired.add(_identity(spki))
            key = keys.get(_identity(spki))
            thumbprint = _thumbprint(der)
            public = openssh_key(spki)
            found[thumbprint] = Certificate(thumbprint=thumbprint, pem=block, public_key=public, private_key=key)
    alone = len(keys.keys() - paired)
    why = f"private keys without a certificate: {alone}" if alone else "" if found else "the envelope is empty"
    return Certificates(found=tuple(found.values()), why=why)


def _identity(spki: bytes) -> object:
    """Compares keys in OpenSSH's format, so that different encodings of one key are equal."""
    return openssh_key(spki) or spki


def _thumbprint(der: bytes) -> str:
    import hashlib

    return hashlib.sha1(der, usedforsecurity=False).hexdigest().upper()
