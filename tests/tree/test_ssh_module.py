"""Keys of the admin and of root, host keys and passwords, in a file tree as the run leaves it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from azureinit.errors import AzureInitError
from azureinit.machine import Machine
from azureinit.plan.actions import Satisfied
from azureinit.run.user_modules import SET_PASSWORDS, SSH, SSH_IMPORT_ID
from support.ssh_trees import DROPIN
from support.user_modules import (
    HASH,
    KEY,
    PLATFORM,
    WITH_KEY,
    WITH_PASSWORD,
    applied,
    cautions,
    line_of,
    make_vm,
    planned,
    steps,
)

GIVEN = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU=\n-----END OPENSSH PRIVATE KEY-----\n"
GIVEN_KEYS = """\
ssh_keys:
  ed25519_private: |
    -----BEGIN OPENSSH PRIVATE KEY-----
    b3BlbnNzaC1rZXktdjEAAAAABG5vbmU=
    -----END OPENSSH PRIVATE KEY-----
  ed25519_public: ssh-ed25519 BBBB me
  ed25519_certificate: ssh-ed25519-cert CCCC
"""


def host_keys(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "etc/ssh").glob("ssh_host_*"))


def test_keys_of_the_document_are_added_to_the_admins(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    text = f"ssh_authorized_keys:\n  - {KEY}\n"
    applied(SSH, root, text)
    assert (root / "home/ada/.ssh/authorized_keys").read_text() == f"{PLATFORM}\n{KEY}\n"
    assert not (root / "root/.ssh").exists()
    assert steps(planned(SSH, root, text)) == []


def test_disable_root_replaces_lines_that_would_let_root_in(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    (root / "root/.ssh").mkdir(mode=0o700)
    (root / "root/.ssh/authorized_keys").write_text(f"# image\n{PLATFORM} me\n")
    text = f"disable_root: true\nssh_authorized_keys: ['{KEY}']\n"
    applied(SSH, root, text)
    first, second, third = (root / "root/.ssh/authorized_keys").read_text().splitlines()
    assert first == "# image"
    assert all(
        line.startswith("no-port-forwarding,") and 'as the user \\"ada\\" rather' in line for line in (second, third)
    )
    assert second.endswith(PLATFORM) and third.endswith(KEY)
    assert steps(planned(SSH, root, text)) == []
    applied(SSH, root, "disable_root: false\n")
    assert (root / "root/.ssh/authorized_keys").read_text().splitlines()[1] == PLATFORM


def test_given_host_keys_replace_the_runs_and_other_types_go(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    applied(SSH, root, GIVEN_KEYS)
    name = "ssh_host_ed25519_key"
    assert host_keys(root) == [name, f"{name}-cert.pub", f"{name}.pub"]
    private = root / "etc/ssh" / name
    assert private.read_text() == GIVEN and stat.S_IMODE(private.stat().st_mode) == 0o600
    assert (root / "etc/ssh" / f"{name}.pub").read_text() == "ssh-ed25519 BBBB me\n"
    assert (root / DROPIN[1:]).read_text().endswith(f"HostCertificate /etc/ssh/{name}-cert.pub\n")
    assert steps(planned(SSH, root, GIVEN_KEYS)) == []


def test_other_types_stay_where_deletion_is_off_or_sshd_would_have_none(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    before = host_keys(root)
    applied(SSH, root, GIVEN_KEYS + "ssh_deletekeys: false\n")
    assert set(before) < set(host_keys(root))
    (root / "etc/ssh/sshd_config").write_text("HostKey /etc/ssh/ssh_host_rsa_key\n")
    assert "other host keys" not in " ".join(steps(planned(SSH, root, GIVEN_KEYS)))


def test_types_to_make_and_what_the_run_has_done_already(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    applied(SSH, root, "ssh_genkeytypes: [ed25519, ecdsa]\n")
    assert host_keys(root) == [
        f"ssh_host_{kind}" for kind in ("ecdsa_key", "ecdsa_key.pub", "ed25519_key", "ed25519_key.pub")
    ]
    (alone,) = planned(SSH, root, "ssh_deletekeys: true\n")
    assert isinstance(alone, Satisfied)
    assert "regenerate_host_keys" in next(iter(cautions(planned(SSH, root, "ssh_deletekeys: false\n")).values()))


def test_a_broken_private_key_is_refused(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    before = host_keys(root)
    with pytest.raises(AzureInitError, match="lacks its first or its last line") as told:
        applied(SSH, root, "ssh_keys: {rsa_private: sekrit}\n")
    assert "sekrit" not in str(told.value)
    assert host_keys(root) == before


ENCRYPTED = "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0"


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        ("OPENSSH", "sekrit...", "is not base64"),
        ("OPENSSH", "c2Vrcml0c2Vrcml0", "its content is damaged"),
        ("OPENSSH", ENCRYPTED, "protected by a passphrase"),
        ("RSA", "c2Vrcml0c2Vrcml0", "its content is damaged"),
        ("RSA", "Proc-Type: 4,ENCRYPTED\\n\\nMIIEpAIBAAKCAQEA", "protected by a passphrase"),
    ],
)
def test_a_private_key_that_sshd_cannot_load_does_not_take_the_others_away(
    tmp_path: Path, kind: str, body: str, why: str
) -> None:
    root = make_vm(tmp_path)
    before = host_keys(root)
    text = f"-----BEGIN {kind} PRIVATE KEY-----\\n{body}\\n-----END {kind} PRIVATE KEY-----\\n"
    with pytest.raises(AzureInitError, match=why) as told:
        applied(SSH, root, f'ssh_keys: {{rsa_private: "{text}"}}\n')
    assert "sekrit" not in str(told.value)
    assert host_keys(root) == before


def test_passwords_are_hashed_and_expire_by_default(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    text = f"""\
chpasswd:
  users:
    - {{name: ada, password: sekrit, type: text}}
    - {{name: legacy, password: "{HASH[:-1]}x"}}
    - {{name: root, type: RANDOM}}
"""
    plan = applied(SET_PASSWORDS, root, text)
    assert line_of(root, "shadow", "ada").split(":")[1].startswith("$6$")
    assert line_of(root, "shadow", "ada").split(":")[2] == "20000"  # the admin must be able to log in
    assert line_of(root, "shadow", "legacy") == f"legacy:{HASH[:-1]}x:0:0:99999:7:::"
    assert line_of(root, "shadow", "root").startswith("root:*:")
    assert "shown on the console only" in cautions(plan)["set_passwords root (line 6)"]
    assert "sekrit" not in repr(plan)
    assert steps(planned(SET_PASSWORDS, root, text)) == []


def test_the_older_list_and_the_admins_password(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    applied(SET_PASSWORDS, root, f"chpasswd:\n  expire: false\n  list: |\n    legacy:one:two\n    ada:{HASH[:-1]}y\n")
    assert line_of(root, "shadow", "ada") == f"ada:{HASH[:-1]}y:20000:0:99999:7:::"
    assert line_of(root, "shadow", "legacy").split(":")[1].startswith("$6$")
    applied(SET_PASSWORDS, root, "password: swordfish\nchpasswd: {expire: false}\n")
    assert HASH[:-1] not in line_of(root, "shadow", "ada")


@pytest.mark.parametrize("salt", ["$y$j9T$", "$gy$j9T$", "$7$CU..../....$", "$2b$12$", "$5$rounds=5000$"])
def test_a_hash_in_the_older_list_is_no_plain_password(tmp_path: Path, salt: str) -> None:
    """yescrypt is what mkpasswd makes on Debian and Ubuntu."""
    root = make_vm(tmp_path)
    given = f"{salt}abcdefghijklmnop$GPZVW4NLFbBr6Ne3kd2t9zrL6cWfqf3aDf5ecsBcCN0"
    plan = applied(SET_PASSWORDS, root, f"chpasswd: {{expire: false, list: ['legacy:{given}']}}\npassword: '{given}'\n")
    assert line_of(root, "shadow", "legacy").split(":")[1] == given
    assert cautions(plan) == {}


def test_a_line_without_a_colon_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(AzureInitError, match="NAME:PASSWORD") as told:
        applied(SET_PASSWORDS, make_vm(tmp_path), "chpasswd: {list: [sekrit]}\n")
    assert "sekrit" not in str(told.value)


def test_a_random_password_is_printed_before_it_is_set(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    from azureinit.plan.actions import Run, Step, Way

    plan = planned(SET_PASSWORDS, root, "chpasswd: {list: ['legacy:RANDOM']}\n", rooted=False)
    (step,) = (item for item in plan if isinstance(item, Step))
    way = next(way for way in step.ways if isinstance(way, Way))
    console = way.actions[0]
    assert isinstance(console, Run) and console.argv[-1] == "cat >/dev/console"
    assert console.stdin is not None and len(console.stdin.text().strip().rpartition(" ")[2]) == 20
    assert "password of legacy: " in console.stdin.text()


def test_pwauth_is_written_where_the_run_writes_the_platforms_setting(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    (root / DROPIN[1:]).write_text(
        "# Written by azure-init. sshd takes the first value it reads.\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nClientAliveInterval 180\n"
    )
    applied(SET_PASSWORDS, root, "ssh_pwauth: true\n")
    text = (root / DROPIN[1:]).read_text()
    assert "PasswordAuthentication yes\n" in text and "no\n" not in text and "ClientAliveInterval 180\n" in text
    assert [path.name for path in (root / "etc/ssh/sshd_config.d").iterdir()] == ["00-azure-init.conf"]
    assert steps(planned(SET_PASSWORDS, root, "ssh_pwauth: 'yes'\n")) == []
    assert planned(SET_PASSWORDS, root, "ssh_pwauth: unchanged\n") == ()
    assert cautions(planned(SET_PASSWORDS, root, "ssh_pwauth: maybe\n"))


def test_ids_are_imported_only_online_and_by_the_tool(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    from azureinit.modules.ssh_import_id import ImportFacts, plan_ssh_import_id
    from azureinit.plan.actions import Run, Step, Way
    from azureinit.record import replace
    from support.user_modules import asked

    text = "ssh_import_id: [gh:ada]\nusers: [{name: legacy, ssh_import_id: [lp:leg]}]\n"
    plan = planned(SSH_IMPORT_ID, root, text)
    assert len(cautions(plan)) == 2 and steps(plan) == []
    request = asked(text, rooted=False)
    facts: ImportFacts = SSH_IMPORT_ID.facts(Machine(root=str(root)), request)
    facts = replace(facts, host=replace(facts.host, tools=frozenset(("ssh-import-id", "sudo"))), online=True)
    first, second = plan_ssh_import_id(request, facts)
    assert isinstance(first, Step) and isinstance(second, Step)
    way = first.ways[0]
    assert isinstance(way, Way) and isinstance(way.actions[0], Run)
    assert way.actions[0].argv == ("sudo", "--preserve-env=https_proxy", "-Hu", "ada", "ssh-import-id", "gh:ada")
    offline, _ = plan_ssh_import_id(request, replace(facts, online=False))
    assert isinstance(offline, Step) and not any(isinstance(way, Way) for way in offline.ways)
    without = plan_ssh_import_id(request, replace(facts, host=replace(facts.host, tools=frozenset())))
    assert "is not installed" in next(iter(cautions(without).values()))
    hostile = asked("ssh_import_id: ['--remove']\n", rooted=False)
    (refusal,) = plan_ssh_import_id(hostile, facts)
    assert isinstance(refusal, Step) and not any(isinstance(way, Way) for way in refusal.ways)
    assert not SSH_IMPORT_ID.asked(asked("users: [bob]\n"))
    assert WITH_PASSWORD != WITH_KEY


def test_passwords_stay_on_where_the_admins_key_was_not_written(tmp_path: Path) -> None:
    """The module ssh may have failed before it wrote the key that admin_check counted on."""
    root = make_vm(tmp_path)
    (root / "home/ada/.ssh/authorized_keys").unlink()
    text = f"ssh_pwauth: false\nssh_authorized_keys: ['{KEY}']\n"
    with pytest.raises(AzureInitError, match="has no key yet"):
        applied(SET_PASSWORDS, root, text, metadata=WITH_PASSWORD)
    applied(SSH, root, text, metadata=WITH_PASSWORD)
    applied(SET_PASSWORDS, root, text, metadata=WITH_PASSWORD)
    assert "PasswordAuthentication no\n" in (root / DROPIN[1:]).read_text()
