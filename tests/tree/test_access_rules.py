"""The single rules of a login: paths, shells, PAM, units, keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.facts.access import Module, Node, Pam, Start, read_access
from azureinit.facts.sshd_units import read_start
from azureinit.plan.access import (
    Account,
    closed,
    is_modern,
    pam_problem,
    strict_problem,
)
from azureinit.plan.actions import Caution, Step
from azureinit.plan.login_keys import rsa_bits
from azureinit.record import replace
from support.access_machines import MAIN, access_of, machine_facts, plan
from support.need import need_root
from support.ssh_trees import facts_of, tree


@pytest.fixture(autouse=True)
def needed() -> None:
    need_root()  # only root gives files to others


def node(path: str, uid: int, mode: int, gid: int = 0) -> Node:
    return Node(path=path, uid=uid, gid=gid, mode=mode)


ACCOUNT = Account(
    name="ada", uid=1000, gid=1000, groups=frozenset(("ada",)), gids=frozenset((1000,)), home="/home/ada", shell="",
    private_group=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("way", "certain"),
    [
        ((node("/", 0, 0o777), node("/home/ada", 1000, 0o755), node("/home/ada/k", 1000, 0o600)), None),
        ((node("/home/ada", 1000, 0o777), node("/home/ada/k", 1000, 0o600)), True),
        ((node("/home/ada", 7, 0o755), node("/home/ada/k", 1000, 0o600)), True),
        ((node("/home/ada", 0, 0o755), node("/home/ada/k", 0, 0o644)), None),
        ((node("/home/ada", 1000, 0o770, gid=1000), node("/home/ada/k", 1000, 0o600)), False),
        ((node("/home/ada", 1000, 0o770, gid=50), node("/home/ada/k", 1000, 0o600)), True),
        ((node("/", 0, 0o777), node("/etc", 0, 0o755), node("/etc/k", 0, 0o644)), True),
    ],
)
def test_strict_modes(way: tuple[Node, ...], certain: bool | None) -> None:
    found = strict_problem(way, ACCOUNT)
    assert (found[1] if found else None) is certain


@pytest.mark.parametrize(
    ("mode", "directory", "kind"),
    [(0o755, 0o755, None), (0o700, 0o755, Step), (0o711, 0o700, Step), (0o711, 0o711, None)],
)
def test_a_shell_that_the_user_may_not_run(tmp_path: Path, mode: int, directory: int, kind: type | None) -> None:
    facts = machine_facts(tmp_path, {"/opt/sh": ""})
    way = (node("/", 0, 0o755), node("/opt", 0, directory), node("/opt/sh", 0, mode))
    found = plan(replace(facts, access=replace(access_of(facts), shell_way=way)))
    assert [type(item) for item in found] == ([] if kind is None else [kind])


def test_a_shell_that_is_a_link_is_what_it_leads_to(tmp_path: Path) -> None:
    machine = tree(tmp_path, {MAIN: "", "/usr/sbin/nologin": "", "/opt/x": ""})
    for path in ("usr/sbin/nologin", "opt/x"):
        (tmp_path / path).chmod(0o755)
    for name, target in (("one", "two"), ("two", "/usr/sbin/nologin"), ("good", "../opt/x")):
        (tmp_path / "opt" / name).symlink_to(target)

    def shell(path: str) -> str:
        return read_access(machine, facts_of(machine).ssh, systemd=False, shell=path, paths=()).shell

    assert shell("/opt/one") == "its shell /opt/one refuses logins"
    assert shell("/opt/good") == ""


def test_a_way_that_is_closed_to_the_user() -> None:
    file = node("/home/ada/k", 1000, 0o600)
    assert closed((node("/home", 0, 0o700), file), ACCOUNT) == "ada may not enter /home"
    assert closed((node("/home", 0, 0o710, gid=1000), file), ACCOUNT) == ""
    assert closed((node("/home", 0, 0o701), file), ACCOUNT) == ""
    assert closed((node("/home", 0, 0o701, gid=1000), file), ACCOUNT) != ""
    assert closed((node("/k", 0, 0o600),), ACCOUNT) == "ada may not read /k"


def test_the_pam_stack_is_read_with_its_includes(tmp_path: Path) -> None:
    machine = tree(
        tmp_path,
        {
            MAIN: "UsePAM yes\n",
            "/etc/pam.d/sshd": "# x\n@include common\naccount include password-auth\n-account optional a.so \\\n b\n",
            "/etc/pam.d/common": "auth [success=1 default=ignore] /lib/security/pam_unix.so nullok\n@include sshd\n",
            "/usr/lib/pam.d/password-auth": "account required pam_unix.so no_pass_expiry\nauth required pam_deny.so\n",
        },
    )
    found = read_access(machine, facts_of(machine).ssh, systemd=False, shell="/bin/sh", paths=())
    assert isinstance(found.pam, Pam)
    assert found.pam.auth[0] == Module(control="[success=1 default=ignore]", name="pam_unix", arguments=("nullok",))
    assert found.pam.account[-2:] == (
        Module(control="required", name="pam_unix", arguments=("no_pass_expiry",)),
        Module(control="optional", name="a", arguments=("b",)),
    )
    assert found.shell == "its shell /bin/sh does not exist"


UNIT = "[Unit]\nConditionPathExists=!/etc/ssh/sshd_not_to_be_run\n[Service]\nExecStart=/usr/sbin/sshd -D\n"


def test_a_vendors_link_counts_among_any_number_of_units(tmp_path: Path) -> None:
    units = {f"/usr/lib/systemd/system/{name}.service": "" for name in (f"a{number}" for number in range(700))}
    machine = tree(tmp_path, {**units, "/usr/lib/systemd/system/sshd.socket": "[Socket]\nListenStream=22\n"})
    wants = tmp_path / "usr/lib/systemd/system/sockets.target.wants"
    wants.mkdir()
    (wants / "sshd.socket").symlink_to("../sshd.socket")
    assert read_start(machine) is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/systemd/system/multi-user.target.d/ssh.conf", "[Unit]\nWants=ssh.service\n"),
        ("/etc/systemd/system/appliance.target", "[Unit]\nRequires=basic.target ssh.service\n"),
        ("/usr/lib/systemd/system/door.service", "[Unit]\n[Service]\nExecStart=/usr/bin/systemctl start ssh\n"),
        ("/etc/systemd/system/door.service", "[Unit]\nBindsTo=ssh.service\n"),
    ],
)
def test_another_unit_may_start_sshd(tmp_path: Path, path: str, text: str) -> None:
    machine = tree(tmp_path, {"/usr/lib/systemd/system/ssh.service": UNIT, path: text})
    wants = tmp_path / "etc/systemd/system/default.target.wants"
    wants.mkdir(parents=True)
    (wants / "door.service").symlink_to("../door.service")
    (tmp_path / "etc/systemd/system/default.target").symlink_to("appliance.target")
    found = read_start(machine)
    assert found is not None
    assert not found.certain


@pytest.mark.parametrize(
    ("name", "accept", "certain"),
    [("ssh", "no", True), ("sshd", "yes", None), ("sshd", "true", None), ("sshd", "no", True)],
)
def test_a_socket_needs_no_service_if_it_accepts(tmp_path: Path, name: str, accept: str, certain: bool | None) -> None:
    vendor = "/usr/lib/systemd/system"
    socket = f"[Socket]\nListenStream=22\nAccept={accept}\n"
    units = {f"{vendor}/{name}.service": UNIT, f"{vendor}/{name}@.service": UNIT, f"{vendor}/{name}.socket": socket}
    machine = tree(tmp_path, {MAIN: "", **units})
    wants = tmp_path / "etc/systemd/system/sockets.target.wants"
    wants.mkdir(parents=True)
    (wants / f"{name}.socket").symlink_to(f"{vendor}/{name}.socket")
    (tmp_path / f"etc/systemd/system/{name}.service").symlink_to("/dev/null")
    start = read_access(machine, facts_of(machine).ssh, systemd=True, shell="/bin/sh", paths=()).start
    assert (start.certain if start else None) is certain


def test_whether_systemd_starts_sshd(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/usr/lib/systemd/system/ssh.service": UNIT})
    disabled = read_start(machine)
    assert disabled == Start(why="ssh.service is disabled (systemctl enable ssh.service)", certain=True)
    wants = tmp_path / "etc/systemd/system/basic.target.wants"
    wants.mkdir(parents=True)
    (wants / "own.service").symlink_to("/etc/systemd/system/own.service")
    own_unit = tmp_path / "etc/systemd/system/own.service"
    own_unit.write_text("[Unit]\nAfter=ssh.service\n")
    assert read_start(machine) == disabled  # an order starts nothing
    own_unit.write_text("[Service]\nExecStart=/usr/libexec/openssh/sshd-keygen rsa\n")
    assert read_start(machine) == disabled
    own_unit.write_text("[Unit]\nWants=x.service ssh.service\n")
    assert read_start(machine) == replace(disabled, why=f"{disabled.why}, but own.service may start one", certain=False)
    own_unit.write_text("[Service]\nExecStart=/opt/sshd\n")
    other = read_start(machine)
    assert other is not None
    assert not other.certain
    (wants / "ssh.service").symlink_to("/usr/lib/systemd/system/ssh.service")
    assert read_start(machine) is None
    (tmp_path / "etc/ssh").mkdir()
    (tmp_path / "etc/ssh/sshd_not_to_be_run").touch()
    forbidden = read_start(machine)
    assert forbidden is not None
    assert forbidden.why.startswith("/etc/ssh/sshd_not_to_be_run exists")
    (tmp_path / "etc/systemd/system/ssh.service").symlink_to("/dev/null")
    masked = read_start(machine)
    assert masked is not None
    assert masked.why.startswith("ssh.service is masked")


def test_the_bits_of_an_rsa_key() -> None:
    from support.ssh_trees import blob

    assert rsa_bits(blob("ssh-rsa", bytes((1, 0, 1)), b"\x00" + b"\xc5" * 256)) == 2048


REQUIRED = Module(control="required", name="pam_unix", arguments=())


DENY = Module(control="requisite", name="pam_deny", arguments=())


def test_an_age_that_only_newer_pam_refuses_is_a_doubt(tmp_path: Path) -> None:
    (found,) = plan(machine_facts(tmp_path, {"/etc/shadow": "ada:*:20000:0:100:7:::\n"}))
    assert isinstance(found, Caution)
    assert "must change" in found.why


@pytest.mark.parametrize(
    ("pam", "certain"),
    [
        (Pam(account=(REQUIRED,), auth=(DENY,)), None),
        (Pam(account=(REQUIRED, DENY), auth=()), True),
        (Pam(account=(replace(REQUIRED, control="[success=1 default=ignore]"), DENY), auth=()), None),
        (Pam(account=(replace(REQUIRED, control="sufficient"), DENY), auth=()), None),
        (Pam(account=(REQUIRED,), auth=(), session=(replace(REQUIRED, control="[default=1]"), DENY)), None),
        (Pam(account=(REQUIRED,), auth=(), session=(DENY,)), True),
        (Pam(account=(REQUIRED, replace(DENY, name="pam_house")), auth=()), False),
        (Pam(account=(REQUIRED, replace(DENY, name="pam_house", control="optional")), auth=()), None),
        (Pam(account=(), auth=()), False),
    ],
)
def test_what_pam_refuses_to_everyone(pam: Pam, certain: bool | None) -> None:
    found = pam_problem(pam)
    assert (found and found[1]) == certain


@pytest.mark.parametrize(
    ("keyword", "listed", "modern"),
    [
        ("ciphers", "3des-cbc,aes128-cbc", False),
        ("ciphers", "3des-cbc,aes192-ctr", True),
        ("ciphers", "-aes128-ctr", True),
        ("kexalgorithms", "diffie-hellman-group14-sha1", False),
        ("kexalgorithms", "diffie-hellman-group14-sha256", True),
        ("kexalgorithms", "mlkem768x25519-sha256", True),
        ("hostkeyalgorithms", "ssh-rsa,ssh-dss", False),
        ("hostkeyalgorithms", "rsa-sha2-256", True),
        ("hostkeyalgorithms", "*", True),
    ],
)
def test_lists_that_no_client_of_our_time_agrees_to(keyword: str, listed: str, modern: bool) -> None:
    assert is_modern(keyword, listed) == modern
