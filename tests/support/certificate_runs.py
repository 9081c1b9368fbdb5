"""What the tests of certificates share."""

from __future__ import annotations

import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

from azureinit.config.model import Config, Wireserver
from azureinit.machine import Machine
from azureinit.sources.certificates import (
    Certificates,
    read_certificates,
)
from azureinit.sources.goalstate import GoalState
from support.need import need
from support.wire import Answer, Server, answer

CIPHERS = {
    "AES128_CBC": ("-aes-128-cbc", "-keyopt", "rsa_padding_mode:oaep"),
    "DES_EDE3_CBC": ("-des-ede3-cbc", "-keyopt", "rsa_padding_mode:pkcs1"),
}
OLD_FASHIONED = ("-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES", "-macalg", "sha1", "-iter", "2000")
KINDS = {
    "rsa": ("rsa:2048",),
    "p256": ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    "p384": ("ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"),
    "p521": ("ec", "-pkeyopt", "ec_paramgen_curve:secp521r1"),
    "ed25519": ("ed25519",),
    "ed448": ("ed448",),
    "brainpool": ("ec", "-pkeyopt", "ec_paramgen_curve:brainpoolP256r1"),
}
Pairs = dict[str, tuple[Path, Path]]  # of each kind a certificate and its key


def openssl(*arguments: str | Path, stdin: bytes = b"") -> bytes:
    return subprocess.run([need("openssl"), *arguments], input=stdin, capture_output=True, check=True).stdout


def thumbprint(certificate: Path) -> str:
    told = openssl("x509", "-in", certificate, "-noout", "-fingerprint", "-sha1").decode()
    return told.strip().partition("=")[2].replace(":", "")


def pkcs12(*, certificates: list[Path], key: Path | None = None, kind: tuple[str, ...] = OLD_FASHIONED) -> bytes:
    text = b"".join(certificate.read_bytes() for certificate in certificates)
    keys = ("-inkey", key) if key else ("-nokeys",)
    return openssl("pkcs12", "-export", "-in", "/dev/stdin", *keys, "-passout", "pass:", *kind, stdin=text)


def sealed(bag: bytes, recipient: Path, cipher: str) -> bytes:
    seal = ("cms", "-encrypt", "-binary", "-outform", "DER", "-recip", recipient, *CIPHERS[cipher], "-keyid")
    return openssl(*seal, stdin=bag)


def certificate_file(envelope: bytes | None, *, kind: str = "Pkcs7BlobWithPfxContents") -> bytes:
    data = "" if envelope is None else f"<Data>{b64encode(envelope).decode()}</Data>"
    return f"<CertificateFile><Version>2010-12-15</Version><Format>{kind}</Format>{data}</CertificateFile>".encode()


class Wire:
    """A wireserver that seals a bag for whoever asks, or gives the answers it is told to give first."""

    def __init__(self, bag: bytes, place: Path, *first: Answer, recipient: Path | None = None) -> None:
        self.bag, self.recipient = bag, recipient
        self.theirs = place / "transport-of-the-agent.pem"
        self.server = Server(*first, self.seal)

    def headers(self) -> list[dict[str, str]]:
        heads = [request.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")[1:] for request in self.server.requests]
        return [dict(line.split(": ", 1) for line in head) for head in heads]

    @property
    def ciphers(self) -> list[str | None]:
        return [headers.get("x-ms-cipher-name") for headers in self.headers()]

    def seal(self, connection: Any) -> None:
        headers = self.headers()[-1]
        header = headers["x-ms-guest-agent-public-x509-cert"]
        lines = [header[at : at + 64] for at in range(0, len(header), 64)]
        self.theirs.write_text("\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""]))
        envelope = sealed(self.bag, self.recipient or self.theirs, headers["x-ms-cipher-name"])
        connection.sendall(answer(200, certificate_file(envelope)))


def tree(tmp_path: Path) -> Machine:
    (tmp_path / "root").mkdir(exist_ok=True)
    return Machine(root=str(tmp_path / "root"))


def goal_state(url: str, link: str | None = "/certificates?incarnation=1") -> GoalState:
    return GoalState(
        endpoint=url,
        incarnation="1",
        container_id="c",
        instance_id="i",
        certificates_url=None if link is None else url + link,
    )


def ask(wire: Wire, machine: Machine, *, secs: float = 30.0) -> Certificates:
    quick = Config(wireserver=Wireserver(retry_interval_secs=0.05, total_retry_timeout_secs=5.0))
    with wire.server:
        deadline = machine.clock.monotonic() + secs
        return read_certificates(machine, quick, goal_state(wire.server.url), deadline=deadline)


def make_pairs(place: Path) -> Pairs:
    """A certificate and its key, of every kind."""
    made = {}
    for kind, words in KINDS.items():
        certificate, key = place / f"{kind}.crt", place / f"{kind}.key"
        made[kind] = (certificate, key)
        openssl(
            "req", "-x509", "-nodes", "-subj", f"/CN={kind}", "-newkey", *words, "-keyout", key, "-out", certificate
        )
    return made
