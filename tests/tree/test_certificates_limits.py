"""Certificates in IMDS, machines without openssl, and damaged certificates."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.config.model import Config
from azureinit.errors import InvalidKey, SourceError
from azureinit.machine import Machine
from azureinit.pubkey import parse_key
from azureinit.record import Secret
from azureinit.sources.certificates import (
    Certificates,
    pair,
    parse_certificate_file,
    read_certificates,
)
from azureinit.sources.der import certificate_key, openssh_key
from azureinit.sources.envelope import body_of, decoded, make_transport, pem_blocks
from azureinit.sources.imds import parse_imds
from azureinit.sources.merge import from_imds, merge
from support.certificate_runs import (
    Pairs,
    Wire,
    ask,
    goal_state,
    make_pairs,
    openssl,
    pkcs12,
    thumbprint,
    tree,
)
from support.need import need


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return make_pairs(tmp_path_factory.mktemp("pairs"))


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
        f"; stat -c %a {run} >>{seen}/place"
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
    assert set((seen / "place").read_text().split()) == {"700"} and not run.exists()


def test_nothing_is_left_behind_when_it_fails(pairs: Pairs, tmp_path: Path) -> None:
    certificate, key = pairs["rsa"]
    machine = shim(tmp_path, '[ "$1" = cms ] && kill -9 $$')
    certificates = ask(Wire(pkcs12(certificates=[certificate], key=key), tmp_path), machine)
    assert "signal: 9" in certificates.why
    assert not (tmp_path / "root/run/azure-init").exists()


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
