"""Certificates by thumbprint: envelopes encrypted by the real openssl, decrypted, matched; and failures of each."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.config.model import Config, Wireserver
from azureinit.errors import InvalidKey, SourceError
from azureinit.machine import Machine
from azureinit.pubkey import parse_key
from azureinit.record import Secret
from azureinit.sources.certificates import (
    Certificate,
    Certificates,
    pair,
    parse_certificate_file,
    read_certificates,
)
from azureinit.sources.der import certificate_key, openssh_key
from azureinit.sources.envelope import body_of, decoded, make_transport, pem_blocks
from azureinit.sources.goalstate import GoalState
from azureinit.sources.imds import parse_imds
from azureinit.sources.metadata import from_imds, merge
from support.need import need, unfit
from support.wire import Answer, Server, answer, reset

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


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    place = tmp_path_factory.mktemp("pairs")
    made = {}
    for kind, words in KINDS.items():
        certificate, key = place / f"{kind}.crt", place / f"{kind}.key"
        made[kind] = (certificate, key)
        openssl(
            "req", "-x509", "-nodes", "-subj", f"/CN={kind}", "-newkey", *words, "-keyout", key, "-out", certificate
        )
    return made


def thumbprint(certificate: Path) -> str:
    told = openssl("x509", "-in", certificate, "-noout", "-fingerprint", "-sha1").decode()
    return told.strip().partition("=")[2].replace(":", "")


def pkcs12(*, certificates: list[Path], key: Path | None = None, kind: tuple[str, ...] = OLD_FASHIONED) -> bytes:
    text = b"".join(certificate.read_bytes() for certificate in certificates)
    keys = ("-inkey", key) if key else ("-nokeys",)
    return openssl("pkcs12", "-export", "-in", "/dev/stdin", *keys, "-passout", "pass:", *kind, stdin=text)


def only_key(key: Path) -> bytes:
    return openssl("pkcs12", "-export", "-nocerts", "-inkey", key, "-passout", "pass:", *OLD_FASHIONED)


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


def test_a_key_pair_comes_through_the_envelope(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    wire = Wire(pkcs12(certificates=[certificate], key=key), tmp_path)
    certificates = ask(wire, tree(tmp_path))
    assert (len(certificates.found), certificates.why) == (1, "")
    one = certificates.get(thumbprint(certificate))
    assert one is not None and one.private_key is not None
    assert one.pem == certificate.read_text()
    assert openssl("pkey", "-pubout", stdin=one.private_key.reveal()) == openssl("pkey", "-pubout", "-in", key)
    assert wire.ciphers == ["AES128_CBC"]
    theirs = openssl("x509", "-in", wire.theirs, "-noout", "-subject", "-ext", "subjectKeyIdentifier").decode()
    assert "LinuxTransport" in theirs and "Subject Key Identifier" in theirs


def test_a_host_that_refuses_one_cipher_is_asked_for_the_other(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    wire = Wire(pkcs12(certificates=[certificate], key=key), tmp_path, answer(400))
    assert ask(wire, tree(tmp_path)).get(thumbprint(certificate))
    assert wire.ciphers == ["AES128_CBC", "DES_EDE3_CBC"]


@pytest.mark.parametrize("kind", ["rsa", "p256", "p384", "p521", "ed25519"])
def test_every_kind_of_key_that_sshd_takes_is_written_as_openssh_has_it(
    kind: str, pairs: Pairs, tmp_path: Path
) -> None:
    certificate, key = pairs[kind]
    found = ask(Wire(pkcs12(certificates=[certificate], key=key), tmp_path), tree(tmp_path)).found[0]
    assert found.private_key is not None
    spki = openssl("x509", "-in", certificate, "-noout", "-pubkey")
    assert openssl("pkey", "-pubout", stdin=found.private_key.reveal()) == spki
    if kind == "ed25519":  # which ssh-keygen does not import
        assert found.public_key is not None and found.public_key.startswith("ssh-ed25519 ")
        line = tmp_path / "line"
        line.write_text(found.public_key + "\n")
        assert subprocess.run([need("ssh-keygen"), "-lf", line], capture_output=True).returncode == 0
        return
    (tmp_path / "spki").write_bytes(spki)
    imported = subprocess.run(
        [need("ssh-keygen"), "-i", "-m", "PKCS8", "-f", tmp_path / "spki"], check=True, capture_output=True, text=True
    ).stdout
    assert found.public_key == imported.strip()


@pytest.mark.parametrize("kind", ["ed448", "brainpool"])
def test_a_kind_of_key_that_sshd_does_not_take_has_no_line(kind: str, pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs[kind]
    found = ask(Wire(pkcs12(certificates=[certificate], key=key), tmp_path), tree(tmp_path)).found[0]
    assert found.thumbprint == thumbprint(certificate)
    assert found.public_key is None and found.private_key is not None


def test_a_certificate_needs_no_private_key(pairs: Pairs, tmp_path: Path) -> None:
    (first, key), (second, _) = pairs["rsa"], pairs["p256"]
    certificates = ask(Wire(pkcs12(certificates=[first, second], key=key), tmp_path), tree(tmp_path))
    with_key, without = certificates.get(thumbprint(first)), certificates.get(thumbprint(second))
    assert with_key is not None and with_key.private_key is not None
    assert without is not None and without.private_key is None and without.public_key is not None
    assert certificates.why == ""
    assert ask(Wire(pkcs12(certificates=[second]), tmp_path), tree(tmp_path)).get(thumbprint(second)) == without


def test_a_private_key_without_certificate_is_told_and_nothing_more(pairs: Pairs, tmp_path: Path) -> None:
    certificates = ask(Wire(only_key(pairs["rsa"][1]), tmp_path), tree(tmp_path))
    assert certificates == Certificates(why="private keys without a certificate: 1")


@pytest.mark.parametrize("spelt", ["{0}", "{1}", " {2} ", "{3}"])
def test_a_thumbprint_is_found_however_it_is_spelt(spelt: str) -> None:
    plain = "0123456789ABCDEF0123456789ABCDEF01234567"
    couples = [plain[at : at + 2] for at in range(0, 40, 2)]
    one = Certificate(thumbprint=plain, pem="", public_key=None, private_key=None)
    name = spelt.format(plain, plain.lower(), ":".join(couples).lower(), " ".join(couples))
    assert Certificates(found=(one,)).get(name) is one
    assert Certificates(found=(one,)).get(plain[:-1]) is None


def test_modern_bags_open_too(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    wire = Wire(pkcs12(certificates=[certificate], key=key, kind=()), tmp_path)
    assert ask(wire, tree(tmp_path)).get(thumbprint(certificate))


def test_bags_of_the_oldest_hosts_open_too(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    try:
        bag = pkcs12(certificates=[certificate], key=key, kind=("-legacy", "-certpbe", "PBE-SHA1-RC2-40"))
    except subprocess.CalledProcessError:
        unfit("this openssl has no -legacy")
    assert ask(Wire(bag, tmp_path), tree(tmp_path)).get(thumbprint(certificate))


def test_an_envelope_for_someone_else_is_no_certificates_with_a_sentence(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    wire = Wire(pkcs12(certificates=[certificate], key=key), tmp_path, recipient=certificate)
    certificates = ask(wire, tree(tmp_path))
    assert certificates.found == ()
    assert "cannot be decrypted here" in certificates.why
    assert certificates.why.count("openssl cms failed") == 2
    assert wire.ciphers == ["AES128_CBC", "DES_EDE3_CBC"]


def test_a_bag_that_is_none_is_no_certificates_with_a_sentence(tmp_path: Path) -> None:
    certificates = ask(Wire(b"not a bag", tmp_path), tree(tmp_path))
    assert certificates.found == () and "openssl pkcs12 failed" in certificates.why


@pytest.mark.parametrize(
    "first",
    [
        answer(503), answer(429), reset, answer(200, b"garbage"), answer(200, b"<!DOCTYPE html><html/>"),
        answer(200, certificate_file(b"whole"))[:-30],
        answer(200, certificate_file(b"whole").replace(b"<Data>", b"<Data>!")),
    ],
)  # fmt: skip
def test_what_may_pass_is_asked_for_again(first: Answer, pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    wire = Wire(pkcs12(certificates=[certificate], key=key), tmp_path, first)
    assert ask(wire, tree(tmp_path)).get(thumbprint(certificate))
    assert len(wire.server.requests) == 2


def test_a_goal_state_that_is_gone_is_asked_for_again(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    versions = b"<Versions><Preferred><Version>2012-11-30</Version></Preferred></Versions>"
    goal = (
        "<GoalState><Incarnation>2</Incarnation><Container><ContainerId>c</ContainerId><RoleInstanceList><RoleInstance>"
        "<InstanceId>i</InstanceId><Configuration><Certificates>{}/new</Certificates></Configuration></RoleInstance>"
        "</RoleInstanceList></Container></GoalState>"
    )
    wire = Wire(pkcs12(certificates=[certificate], key=key), tmp_path, answer(410), answer(200, versions))
    wire.server.answers.insert(2, answer(200, goal.format(wire.server.url).encode()))
    assert ask(wire, tree(tmp_path)).get(thumbprint(certificate))
    targets = [request.split(b" ")[1] for request in wire.server.requests]
    assert targets == [b"/certificates?incarnation=1", b"/?comp=versions", b"/machine/?comp=goalstate", b"/new"]


@pytest.mark.parametrize(("first", "says"), [(answer(404), "status 404"), (answer(400), "status 400")])
def test_a_wireserver_that_gives_none_is_an_error(first: bytes, says: str, tmp_path: Path) -> None:
    wire = Wire(b"", tmp_path, first)
    wire.server.answers = [first]
    with pytest.raises(SourceError, match=f"sent no certificates: .*{says}"):
        ask(wire, tree(tmp_path))


def test_a_wireserver_that_tells_nonsense_is_an_error_in_time(tmp_path: Path) -> None:
    wire = Wire(b"", tmp_path)
    wire.server.answers = [answer(200, b"nonsense")]
    with pytest.raises(SourceError, match="the certificate file is not XML"):
        ask(wire, tree(tmp_path), secs=1.5)


def test_a_machine_with_no_certificates_is_told_why(tmp_path: Path) -> None:
    machine = tree(tmp_path)
    none = read_certificates(machine, Config(), goal_state("http://w", None), deadline=1e9)
    assert none == Certificates(why="the goal state names no certificates")
    wire = Wire(b"", tmp_path)
    wire.server.answers = [answer(200, certificate_file(None))]
    assert ask(wire, machine).why == "the wireserver has no certificates for this machine"


@pytest.mark.parametrize("data", ["eA==", "not base64 !", "<Entry>1</Entry>", ""])
def test_a_format_that_is_not_known_is_told_at_once_whatever_its_data(tmp_path: Path, data: str) -> None:
    wire = Wire(b"", tmp_path)
    body = f"<CertificateFile><Format>Tarball</Format><Data>{data}</Data></CertificateFile>"
    wire.server.answers = [answer(200, body.encode())]
    assert "come as 'Tarball'" in ask(wire, tree(tmp_path)).why
    assert len(wire.server.requests) == 1


# ---- certificates that IMDS gives instead of keys


@pytest.mark.parametrize("kind", ["rsa", "p256", "p384", "p521"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_certificate_in_imds_is_its_key(pairs: Pairs, tmp_path: Path, kind: str, end: str) -> None:
    certificate, key = pairs[kind]
    text = (key.read_text() + certificate.read_text()).replace("\n", end)
    body = json.dumps({"compute": {"publicKeys": [{"keyData": text, "path": "/home/a/.ssh/authorized_keys"}]}})
    (found,) = from_imds(parse_imds(body.encode())).keys
    public = tmp_path / "public.pem"
    public.write_bytes(openssl("x509", "-in", certificate, "-noout", "-pubkey"))
    converted = subprocess.run([need("ssh-keygen"), "-i", "-m", "PKCS8", "-f", public], capture_output=True, check=True)
    assert found.data == converted.stdout.decode().strip()
    assert found.path == "/home/a/.ssh/authorized_keys"
    assert parse_key(found.data) == found.data + "\n"


@pytest.mark.parametrize("inside", ["", "TUlJ", "not base64"])
def test_what_is_no_certificate_stays_and_is_told_without_its_content(inside: str) -> None:
    text = f"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\n{inside}\n"
    metadata = merge(
        {"imds": from_imds(parse_imds(json.dumps({"compute": {"publicKeys": [{"keyData": text}]}}).encode()))}
    )
    (found,) = metadata.keys
    with pytest.raises(InvalidKey, match="PEM") as refused:
        parse_key(found.data)
    assert "c2VjcmV0" not in str(refused.value)


# ---- machines that cannot


def test_without_openssl_there_are_no_certificates_and_no_crash(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path), search=(str(tmp_path),))
    certificates = read_certificates(machine, Config(), goal_state("http://127.0.0.1:9"), deadline=1e9)
    assert certificates == Certificates(why="certificates cannot be requested: openssl is not installed")


def shim(tmp_path: Path, script: str) -> Machine:
    """A machine whose openssl first does what the script says; "$@" is what it was asked, $REAL the real one."""
    tools = tmp_path / "tools"
    tools.mkdir()
    tool = tools / "openssl"
    tool.write_text(f'#!/bin/sh\nREAL={need("openssl")}\n{script}\nexec $REAL "$@"\n')
    tool.chmod(0o755)
    (tmp_path / "root").mkdir()
    return Machine(root=str(tmp_path / "root"), search=(str(tools), *os.environ["PATH"].split(":")))


@pytest.mark.parametrize("verb", ["req", "cms", "pkcs12"])
def test_a_fips_machine_that_cannot_do_a_step_has_no_certificates_with_a_sentence(
    verb: str, pairs: Pairs, tmp_path: Path
) -> None:
    refuses = f'[ "$1" = {verb} ] && {{ echo "disabled for FIPS" >&2; exit 1; }}'
    certificate, key = pairs["rsa"]
    certificates = ask(Wire(pkcs12(certificates=[certificate], key=key), tmp_path), shim(tmp_path, refuses))
    assert certificates.found == ()
    assert f"openssl {verb} failed: disabled for FIPS" in certificates.why


def test_a_machine_that_cannot_check_the_bag_opens_it_unchecked(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    refuses = 'case "$*" in pkcs12*-nomacver*) ;; pkcs12*) exit 1 ;; esac'
    wire = Wire(pkcs12(certificates=[certificate], key=key), tmp_path)
    assert ask(wire, shim(tmp_path, refuses)).get(thumbprint(certificate))


def test_openssl_that_hangs_is_ended_with_the_deadline(tmp_path: Path) -> None:
    machine = shim(tmp_path, "exec sleep 60")
    deadline = machine.clock.monotonic() + 0.3
    certificates = read_certificates(machine, Config(), goal_state("http://127.0.0.1:9"), deadline=deadline)
    assert "openssl was killed" in certificates.why


def test_no_private_key_is_ever_in_a_file_or_on_a_command_line(pairs: Pairs, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    run = tmp_path / "root/run/azure-init"
    spy = (
        f'printf "%s\\n" "$*" >>{seen}/argv; env >>{seen}/env; ls -lR {run} >>{seen}/modes; cat {run}/* >>{seen}/files'
    )
    machine = shim(tmp_path, f"{{ {spy}; }} 2>/dev/null")
    certificate, key = pairs["rsa"]
    certificates = ask(Wire(pkcs12(certificates=[certificate], key=key), tmp_path), machine)
    assert certificates.found[0].private_key is not None
    told = b"".join(path.read_bytes() for path in seen.iterdir())
    assert b"BEGIN CERTIFICATE" in told and b"cms -decrypt" in told  # the spy did see something
    assert b"PRIVATE KEY" not in told
    for line in key.read_text().split("\n")[1:-2]:
        assert line.encode() not in told
    modes = [line.split()[0] for line in (seen / "modes").read_text().split("\n") if line.startswith("-")]
    assert modes and set(modes) == {"-rw-------"}
    assert (run.stat().st_mode & 0o777, list(run.iterdir())) == (0o700, [])


def test_nothing_is_left_behind_when_it_fails(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    machine = shim(tmp_path, '[ "$1" = cms ] && kill -9 $$')
    certificates = ask(Wire(pkcs12(certificates=[certificate], key=key), tmp_path), machine)
    assert "signal: 9" in certificates.why
    assert list((tmp_path / "root/run/azure-init").iterdir()) == []


def test_what_a_run_that_died_left_is_cleared_and_what_another_uses_is_not(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    wire = Wire(pkcs12(certificates=[certificate], key=key), tmp_path)
    machine = shim(tmp_path, ":")
    place = tmp_path / "root/run/azure-init"
    place.mkdir(parents=True, exist_ok=True)
    dead, other = 2**22 + 1, os.getppid()  # above any number that the kernel gives
    left = (f"transport.{dead}.pem", f"transport.{dead}.cms", f".transport.{dead}.pem.azure-init~")
    kept = {f"transport.{other}.pem", "verdict", "transport.pem"}
    for name in (*left, *kept):
        (place / name).touch()
    assert ask(wire, machine).found
    assert {path.name for path in place.iterdir()} == kept


def test_private_keys_do_not_show_themselves(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    certificates = ask(Wire(pkcs12(certificates=[certificate], key=key), tmp_path), tree(tmp_path))
    transport = make_transport(tree(tmp_path), deadline=1e9)
    assert "PRIVATE" not in f"{certificates!r}{certificates}{transport!r}"


# ---- the parsers, whatever they are fed


def test_a_certificate_s_key_is_the_one_openssl_finds(pairs: Pairs) -> None:
    for certificate, key in pairs.values():
        der = openssl("x509", "-in", certificate, "-outform", "DER")
        assert certificate_key(der) == openssl("pkey", "-in", key, "-pubout", "-outform", "DER")


def test_a_key_that_hides_half_of_itself_has_no_line(pairs: Pairs) -> None:
    shape = ("-ec_conv_form", "compressed")
    short = openssl("pkey", "-in", pairs["p256"][1], "-pubout", "-outform", "DER", *shape)
    assert openssh_key(short) is None


@given(st.data())
@settings(max_examples=300)
def test_a_damaged_certificate_is_none_or_a_certificate(pairs: Pairs, data: st.DataObject) -> None:
    block = pairs[data.draw(st.sampled_from(["rsa", "p256", "ed25519"]))][0].read_text()
    der = bytearray(decoded(body_of(block)) or b"")
    for at in data.draw(st.lists(st.integers(0, len(der) - 1), max_size=4)):
        der[at] = data.draw(st.integers(0, 255))
    spki = certificate_key(bytes(der[: data.draw(st.integers(0, len(der)))]))
    line = openssh_key(spki) if spki else None
    assert line is None or line.split(" ")[0] in ("ssh-rsa", "ecdsa-sha2-nistp256", "ssh-ed25519")


@given(st.binary(max_size=300))
def test_whatever_comes_no_parser_breaks(noise: bytes) -> None:
    certificate_key(noise)
    openssh_key(noise)
    assert pair(Secret(noise), lambda _: None).found == ()
    try:
        parse_certificate_file(noise)
    except SourceError as error:
        assert str(error)


def test_blocks_are_found_between_commentary_and_halves_are_not() -> None:
    whole = "-----BEGIN X-----\nAAAA\n-----END X-----\n"
    other = whole.replace("X", "Z")
    text = f"Bag Attributes\r\n{whole}-----BEGIN Y-----\nBBBB\n{other}-----END Y-----\n-----BEGIN W-----\n"
    assert pem_blocks(text.encode()) == [("X", whole), ("Z", other)]
    assert body_of(whole) == "AAAA"


@given(st.binary(max_size=100))
def test_base64_is_read_back_with_any_line_ends(data: bytes) -> None:
    text = b64encode(data).decode()
    assert decoded("\r\n ".join(text[at : at + 7] for at in range(0, len(text), 7))) == data
    assert decoded(text + "!") is None
