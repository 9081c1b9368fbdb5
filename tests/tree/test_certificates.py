"""Certificates by thumbprint: envelopes encrypted by the real openssl, decrypted, matched; and failures of each."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from azureinit.config.model import Config
from azureinit.errors import SourceError
from azureinit.sources.certificates import (
    Certificate,
    Certificates,
    read_certificates,
)
from support.certificate_runs import (
    OLD_FASHIONED,
    Pairs,
    Wire,
    ask,
    certificate_file,
    goal_state,
    make_pairs,
    openssl,
    pkcs12,
    thumbprint,
    tree,
)
from support.need import need, unfit
from support.wire import Answer, answer, reset


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return make_pairs(tmp_path_factory.mktemp("pairs"))


def only_key(key: Path) -> bytes:
    return openssl("pkcs12", "-export", "-nocerts", "-inkey", key, "-passout", "pass:", *OLD_FASHIONED)


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
