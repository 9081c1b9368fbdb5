"""Key pairs that the media name by a certificate: parsed, matched, and written for the admin only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from azureinit.errors import CertificatesMissing, KeysFailed, OvfInvalid
from azureinit.facts.key_files import read_keys_files, read_pair_files
from azureinit.memory.journal import Journal
from azureinit.memory.saved import metadata_from_saved
from azureinit.plan.actions import Caution, Declined, MakeDir, Satisfied, Step, Write
from azureinit.plan.keypairs import pair_paths
from azureinit.plan.show import as_json, as_text
from azureinit.record import Secret, replace
from azureinit.sources.certificates import Certificate, Certificates
from azureinit.sources.certified import certified
from azureinit.sources.imds import PublicKey
from azureinit.sources.merge import from_ovf, merge
from azureinit.sources.metadata import KeyPair, Metadata
from azureinit.sources.ovf import parse_ovf
from support.key_pairs import ID, PRIVATE, PUBLIC, THUMBPRINT, actions, apply, given, plan
from support.ssh_trees import KEYS, ed25519, own, tree


def declined(plan: tuple[Any, ...]) -> str:
    (step,) = (item for item in plan if isinstance(item, Step))
    assert step.failure is KeysFailed
    (way,) = step.ways
    assert isinstance(way, Declined)
    return way.why


# ---- what the media say


def ovf(pairs: str) -> bytes:
    azure = "http://schemas.microsoft.com/windowsazure"
    return (
        f'<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1" xmlns:wa="{azure}"><wa:ProvisioningSection>'
        f"<wa:LinuxProvisioningConfigurationSet><wa:HostName>h</wa:HostName><wa:SSH>{pairs}</wa:SSH>"
        "</wa:LinuxProvisioningConfigurationSet></wa:ProvisioningSection></Environment>"
    ).encode()


def element(name: str, *parts: str) -> str:
    return f"<wa:{name}>{''.join(parts)}</wa:{name}>"


def test_each_pair_is_a_thumbprint_and_a_path() -> None:
    one = element("KeyPair", element("Fingerprint", " ab "), element("Path", "/home/ada/x"))
    two = element("KeyPair", element("Fingerprint", "cd"))
    key = element("PublicKeys", element("PublicKey", element("Fingerprint", "ef"), element("Path", "p")))
    metadata = from_ovf(parse_ovf(ovf(key + element("KeyPairs", one, two, element("KeyPair")))))
    assert metadata.key_pairs == (KeyPair(thumbprint="ab", path="/home/ada/x"), KeyPair(thumbprint="cd"))
    assert metadata.thumbprints == (("ef", "p"),)
    assert merge({"media": metadata}).key_pairs == metadata.key_pairs


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        (element("KeyPairs", element("KeyPair", element("Path", "/x"))), "a Path and no Fingerprint"),
        (element("KeyPairs") * 2, "more than one KeyPairs"),
        (element("KeyPairs", element("KeyPair", element("Path", "/x") * 2)), "more than one Path"),
    ],
)
def test_what_cannot_be_meant_is_refused(pairs: str, told: str) -> None:
    with pytest.raises(OvfInvalid, match=told):
        parse_ovf(ovf(pairs))


def test_an_earlier_run_kept_their_names_and_not_their_keys() -> None:
    saved = metadata_from_saved(
        {"username": "ada", "key_pairs": [["AB", "/x"], ["CD", None]], "thumbprints": [["EF", None]]}
    )
    assert saved is not None
    assert saved.key_pairs == (KeyPair(thumbprint="AB", path="/x"), KeyPair(thumbprint="CD"))
    assert saved.thumbprints == (("EF", None),)
    bare = metadata_from_saved({"username": "ada"})
    assert bare is not None and bare.key_pairs == ()


# ---- which certificate


def found(**changes: Any) -> Certificates:
    one = Certificate(thumbprint=THUMBPRINT, pem="", public_key=PUBLIC, private_key=Secret(PRIVATE))
    return Certificates(found=(replace(one, **changes),))


@pytest.mark.parametrize("spelt", [THUMBPRINT, THUMBPRINT.lower(), ":".join(["ab"] * 20), " ".join(["Ab"] * 20)])
def test_a_thumbprint_is_the_same_however_it_is_spelt(spelt: str) -> None:
    named = Metadata(key_pairs=(KeyPair(thumbprint=spelt, path="/x"),), thumbprints=((spelt, None),))
    made = certified(named, found())
    assert made.key_pairs == (given("/x", thumbprint=spelt),)
    assert (made.keys, made.thumbprints) == ((PublicKey(data=PUBLIC),), ())


def test_keys_that_imds_spells_out_are_not_made_again() -> None:
    metadata = Metadata(
        keys=(PublicKey(data=ed25519()),),
        thumbprints=(("00", None),),
        key_pairs=(KeyPair(thumbprint=THUMBPRINT),),
        provenance={"keys": "imds"},
    )
    assert certified(metadata, found()).keys == metadata.keys


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (
            Certificates(),
            f"no certificate {THUMBPRINT} to make a key from: the platform sent none with that thumbprint",
        ),
        (Certificates(why="no openssl"), f"no certificate {THUMBPRINT} to make a key from: no openssl"),
        (found(private_key=None), f"no private key of the certificate {THUMBPRINT}: the platform sent the certificate"),
        (
            found(public_key=None),
            f"no certificate {THUMBPRINT} to make a key from: OpenSSH does not support its key type",
        ),
    ],
)
def test_one_that_is_not_there_is_an_error_that_names_it(known: Certificates, told: str) -> None:
    with pytest.raises(CertificatesMissing, match=told):
        certified(Metadata(key_pairs=(KeyPair(thumbprint=THUMBPRINT),)), known)


# ---- where they go


def test_both_halves_are_written_for_the_admin_beneath_the_home(tmp_path: Path) -> None:
    machine = tree(tmp_path, {})
    make, private, public = actions(plan(machine, given()))
    assert make == MakeDir(path="/home/ada/.ssh", mode=0o700, owner="ada", beneath="/home/ada")
    assert private == Write(path=ID, data=Secret(PRIVATE), mode=0o600, owner="ada", beneath="/home/ada")
    assert public.path == f"{ID}.pub" and public.data == b"ssh-rsa AAAA\n"
    assert (public.mode, public.owner, public.beneath) == (0o644, "ada", "/home/ada")


def test_done_it_is_satisfied_and_whatever_is_wrong_is_put_right(tmp_path: Path) -> None:
    machine = tree(tmp_path, {})
    apply(machine, plan(machine, given()))
    assert plan(machine, given()) == (Satisfied(name="key pairs ada", why=f"in {ID}"),)
    file = tmp_path / ID[1:]
    assert (file.stat().st_mode & 0o7777, (tmp_path / f"{ID}.pub"[1:]).stat().st_mode & 0o7777) == (0o600, 0o644)
    if os.geteuid() == 0:
        assert [path.stat().st_uid for path in (file, file.parent)] == [1000, 1000]
    file.chmod(0o640)
    (write,) = actions(plan(machine, given()))
    assert (write.path, write.was) == (ID, Secret(PRIVATE))
    file.write_text("another")
    (write,) = actions(plan(machine, given()))
    assert write.was == Secret("another")
    apply(machine, plan(machine, given()))
    assert file.read_text() == PRIVATE


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        (None, "/home/ada/.ssh/id_rsa"),
        (".ssh/deploy", "/home/ada/.ssh/deploy"),
        ("$HOME/.ssh/deploy", "/home/ada/.ssh/deploy"),
        ("$HOME/ada/.ssh/deploy", "/home/ada/.ssh/deploy"),
        ("/home/ada/a/b/key", "/home/ada/a/b/key"),
    ],
)
def test_a_path_is_in_the_home(tmp_path: Path, asked: str | None, place: str) -> None:
    planned = plan(tree(tmp_path, {}), given(asked))
    assert not [item for item in planned if isinstance(item, Caution)]
    assert [action.path for action in actions(planned) if isinstance(action, Write)] == [place, f"{place}.pub"]


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256"])
def test_without_a_path_it_is_where_ssh_looks_for_its_kind(tmp_path: Path, kind: str) -> None:
    write = actions(plan(tree(tmp_path, {}), given(None, public_key=f"{kind} AAAA")))[1]
    assert write.path == "/home/ada/.ssh/id_" + ("ed25519" if kind == "ssh-ed25519" else "ecdsa")


def test_a_home_elsewhere_is_meant_by_the_one_in_home(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/etc/passwd": "ada:x:1000:1000::/srv/ada:/bin/sh\n", "/srv/ada/.x": ""}, home=False)
    own(tmp_path / "srv/ada")
    write = actions(plan(machine, given(), home="/srv/ada"))[1]
    assert write.path == "/srv/ada/.ssh/id_rsa"


@pytest.mark.parametrize("asked", ["/etc/ssl/private/web.key", "/root/.ssh/web.key", "/home/ada/../bob/web.key"])
def test_a_path_outside_of_the_home_is_told_and_not_used(tmp_path: Path, asked: str) -> None:
    caution, step = plan(tree(tmp_path, {}), given(asked))
    why = f"the key pair's path {asked} is not in /home/ada: /home/ada/.ssh/web.key is used"
    assert caution == Caution(name="key pairs ada", why=why)
    assert step.why == "given by the platform -> /home/ada/.ssh/web.key"


@pytest.mark.parametrize("asked", ["/etc/..", "/x/\u00e9", "/x/\n", "/x/"])
def test_a_name_that_is_none_becomes_the_usual_one(tmp_path: Path, asked: str) -> None:
    caution, step = plan(tree(tmp_path, {}), given(asked))
    assert isinstance(caution, Caution) and caution.why.isprintable()
    assert step.why == f"given by the platform -> {ID}"


def test_two_pairs_share_their_directory_and_no_file(tmp_path: Path) -> None:
    machine = tree(tmp_path, {})
    pairs = (given(), given("/home/ada/.ssh/other"))
    assert [type(action) for action in actions(plan(machine, *pairs))] == [MakeDir, Write, Write, Write, Write]
    apply(machine, plan(machine, *pairs))
    assert [type(item) for item in plan(machine, *pairs)] == [Satisfied]
    assert declined(plan(machine, given(), given())) == f"two key pairs have the same path {ID}"
    assert declined(plan(machine, given(), given(f"{ID}.pub"))) == f"two key pairs have the same path {ID}.pub"


def test_the_list_of_who_may_log_in_is_never_overwritten(tmp_path: Path) -> None:
    machine = tree(tmp_path, {KEYS: ed25519()})
    seen = read_keys_files(machine, home="/home/ada", paths=(KEYS,))
    why = declined(plan(machine, given(KEYS), keys_files=seen))
    assert why == f"sshd reads authorized keys from {KEYS}"


@pytest.mark.parametrize("what", ["link", "directory link", "hard link", "directory"])
def test_nothing_is_written_through_what_the_user_put_there(tmp_path: Path, what: str) -> None:
    machine = tree(tmp_path, {"/etc/target": "old"})
    ssh = tmp_path / "home/ada/.ssh"
    if what == "directory link":
        ssh.symlink_to("/etc")
    else:
        ssh.mkdir()
        own(ssh)
    if what == "link":
        (ssh / "id_rsa").symlink_to("/etc/target")
    elif what == "hard link":
        os.link(tmp_path / "etc/target", ssh / "id_rsa")
    elif what == "directory":
        (ssh / "id_rsa").mkdir()
    assert declined(plan(machine, given())).endswith("the keys are not written there")
    assert (tmp_path / "etc/target").read_text() == "old"


def test_neither_the_plan_nor_the_facts_nor_the_journal_show_the_key(tmp_path: Path) -> None:
    machine = tree(tmp_path, {ID: PRIVATE})
    planned = plan(machine, given(private_key=Secret(PRIVATE.replace("c2Vj", "bmV3"))))
    paths = pair_paths(username="ada", home="/home/ada", pairs=(given(),))
    seen = read_pair_files(machine, home="/home/ada", paths=paths)
    journal = Journal("/journal", [])
    journal.open_run(machine, planned)
    texts = (as_text(planned, privileged=True), as_json(planned), repr(planned), repr(seen), repr(given()))
    for text in (*texts, (tmp_path / "journal").read_text()):
        assert "c2Vj" not in text and "bmV3" not in text
    assert f"write {ID} mode 0600 owner ada" in texts[0] and "(contents not shown)" in texts[0]


# ---- with the real tools
