"""Whether the admin can log in, decided from facts: real logins are tried in tests/adversary/test_policies.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Access as AccessConfig, Config
from azureinit.errors import LoginImpossible
from azureinit.facts.access import Access, Module, Node, Pam, Start, read_access
from azureinit.facts.gather import Facts
from azureinit.facts.key_files import read_keys_files
from azureinit.facts.sshd_units import read_start
from azureinit.plan.access import (
    Account,
    closed,
    is_modern,
    pam_problem,
    paths_of,
    plan_access,
    questions,
    strict_problem,
)
from azureinit.plan.actions import Caution, Declined, Step
from azureinit.plan.login_keys import rsa_bits
from azureinit.record import Secret, replace
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from support.facts import altered, parts
from support.need import need_root
from support.ssh_trees import DEBIAN, ed25519, facts_of, own, running, tree

MAIN = "/etc/ssh/sshd_config"
WHOLE = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
SHADOW = "ada:*:20000:0:99999:7:::\n"
ADA = Metadata(username="ada", hostname="h", keys=(PublicKey(data=ed25519()),), disable_password=True)
TODAY = 20100
PAM = "account required pam_nologin.so\n@include common-account\n"
FILES = {
    MAIN: DEBIAN,
    "/etc/shadow": SHADOW,
    "/etc/ssh/ssh_host_ed25519_key": WHOLE,
    "/etc/pam.d/sshd": PAM,
    "/etc/pam.d/common-account": "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so\n",
    "/home/ada/.ssh/authorized_keys": ed25519() + "\n",
}


def access_of(facts: Facts) -> Access:
    assert facts.access is not None
    return facts.access


def machine_facts(tmp_path: Path, files: dict[str, str], **access: Any) -> Facts:
    """A machine on which everything else is done."""
    machine = tree(tmp_path, {**FILES, **files})
    tmp_path.chmod(0o755)  # the machine's /
    shell = tmp_path / "bin/bash"
    shell.parent.mkdir()
    shell.touch(mode=0o755)
    for path in (tmp_path / "home/ada/.ssh", tmp_path / "home/ada/.ssh/authorized_keys"):
        own(path)
        path.chmod(0o700 if path.is_dir() else 0o600)
    facts = facts_of(machine)
    paths = paths_of(metadata=ADA, **parts(facts, "accounts", "ssh", "admin"), config=Config())
    found = read_access(machine, facts.ssh, systemd=False, shell="/bin/bash", paths=paths)
    facts = running(facts, version=(9, 3))
    facts = altered(facts, keys_files=read_keys_files(machine, home="/home/ada", paths=paths), privileged=True)
    return replace(facts, access=replace(found, **access))


def plan(facts: Facts, *, metadata: Metadata = ADA, required: str = "auto", pending: bool = False) -> tuple[Any, ...]:
    config = Config(access=AccessConfig(required=required))
    return plan_access(
        metadata=metadata,
        **parts(facts, "host", "accounts", "ssh", "admin", "access"),
        config=config,
        today=TODAY,
        pending=pending,
    )


def answered(config: str) -> dict[str, Any]:
    """As sshd would say it for the only address that matters here."""
    values: dict[str, tuple[str, ...]] = {"usepam": ("yes",)}
    for line in config.splitlines():
        word, *arguments = line.split()
        values.setdefault(word.lower(), tuple(arguments))
    return {"answers": (("203.0.113.9", values),)}


@pytest.fixture(autouse=True)
def needed() -> None:
    need_root()  # only root gives files to others


def test_an_ordinary_machine_is_not_worth_a_word(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, {})
    assert plan(facts) == ()
    assert questions(metadata=ADA, **parts(facts, "host", "accounts", "ssh"), config=Config()) == ()


def test_a_certain_refusal_names_file_line_and_directive(tmp_path: Path) -> None:
    text = "UsePAM yes\nAllowUsers bob\n"
    facts = machine_facts(tmp_path, {MAIN: text}, **answered("AllowUsers bob"))
    (step,) = plan(facts)
    assert isinstance(step, Step)
    assert step.failure is LoginImpossible
    (way,) = step.ways
    assert isinstance(way, Declined)
    assert "/etc/ssh/sshd_config line 2: 'AllowUsers bob' refuses ada" in way.why
    assert "access.required = false" in way.why
    (asked,) = questions(metadata=ADA, **parts(facts, "host", "accounts", "ssh"), config=Config())
    assert asked == "user=ada,host=203.0.113.9,addr=203.0.113.9,laddr=10.0.0.4,lport=22"


@pytest.mark.parametrize(("required", "kind"), [("auto", Step), ("true", Step), ("false", Caution)])
def test_what_is_certain_fails_unless_it_never_may(tmp_path: Path, required: str, kind: type) -> None:
    text = "UsePAM yes\nPubkeyAuthentication no\n"
    facts = machine_facts(tmp_path, {MAIN: text}, **answered("PubkeyAuthentication no"))
    (item,) = plan(facts, required=required)
    assert isinstance(item, kind)


@pytest.mark.parametrize(("required", "kind"), [("auto", Caution), ("true", Step), ("false", Caution)])
@pytest.mark.parametrize("doubt", ["customData", "silent sshd", "address", "command"])
def test_a_doubt_fails_only_where_a_login_is_required(tmp_path: Path, doubt: str, required: str, kind: type) -> None:
    text, metadata, access = "UsePAM yes\nAllowUsers bob\n", ADA, answered("AllowUsers bob")
    if doubt == "customData":
        metadata = replace(ADA, custom_data=Secret("#!"))
    elif doubt == "silent sshd":
        access = {"unanswered": "sshd -T did not say: no"}
    elif doubt == "address":
        text, access = "UsePAM yes\nMatch Address 10.0.0.0/8\nDenyUsers *\n", {}
    else:
        text = "UsePAM yes\nAuthorizedKeysFile none\nAuthorizedKeysCommand /bin/x\n"
        access = answered("AuthorizedKeysFile none\nAuthorizedKeysCommand /bin/x")
    (item,) = plan(machine_facts(tmp_path, {MAIN: text}, **access), metadata=metadata, required=required)
    assert isinstance(item, kind) and isinstance(item, (Step, Caution))
    assert "ada may not be able to log in" in item.why


MANY = "".join(f"AllowUsers u{number}@10.{number}.0.0/16\n" for number in range(100))


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        # One answer of sshd's is so for all addresses that no Match block tells apart.
        ("AllowUsers alice@10.0.0.0/8", Step),
        ("AllowUsers alice@10.0.0.0/8 bob@192.168.0.0/16 carol@172.16.0.0/12", Step),
        ("AllowUsers alice\nMatch LocalAddress 10.9.9.9\nX11Forwarding no", Step),
        ("AllowUsers alice\nMatch Address 10.1.0.0/16,192.0.2.0/24\nX11Forwarding no", Step),
        # There are other addresses than those that are tried first.
        ("DenyUsers *@203.* *@10.*", Caution),
        ("DenyUsers ada@203.0.113.0/24 ada@10.0.0.0/8", Caution),
        ("DenyUsers ada@0.0.0.0/0", Caution),
        (f"{MANY}AllowUsers ada@192.168.7.0/24", Caution),
    ],
)
def test_every_address_is_thought_of(tmp_path: Path, config: str, kind: type) -> None:
    facts = machine_facts(tmp_path, {MAIN: f"UsePAM yes\n{config}\n"})
    asked = questions(metadata=ADA, **parts(facts, "host", "accounts", "ssh"), config=Config())
    assert len(asked) == 1
    words = [(line.split()[0].lower(), tuple(line.split()[1:])) for line in config.split("\nMatch")[0].splitlines()]
    answer = {"usepam": ("yes",), words[0][0]: tuple(word for _, given in words for word in given)}
    (item,) = plan(replace(facts, access=replace(access_of(facts), answers=(("203.0.113.9", answer),))))
    assert isinstance(item, kind), item


def test_sshd_is_asked_once_for_all_that_its_match_blocks_do_not_tell_apart(tmp_path: Path) -> None:
    config = "AllowUsers alice\nMatch Address 10.0.0.0/8,192.168.0.0/16,172.16.0.0/12\nPasswordAuthentication yes\n"
    facts = machine_facts(tmp_path, {MAIN: f"UsePAM yes\n{config}"})
    asked = questions(metadata=ADA, **parts(facts, "host", "accounts", "ssh"), config=Config())
    assert [word for one in asked for word in one.split(",") if word.startswith("addr=")] == [
        "addr=203.0.113.9",
        "addr=10.0.0.9",
    ]
    answer = {"usepam": ("yes",), "allowusers": ("alice",)}
    answers = (("203.0.113.9", answer), ("10.0.0.9", answer))
    (item,) = plan(replace(facts, access=replace(access_of(facts), answers=answers)))
    assert isinstance(item, Step)


@pytest.mark.parametrize(
    "ports", ["Port 2222\nPort 22", "Port 2222\nListenAddress 0.0.0.0:22", "ListenAddress [::]:22"]
)
def test_a_port_that_is_open_is_a_way_in(tmp_path: Path, ports: str) -> None:
    config = f"UsePAM yes\n{ports}\nMatch LocalPort 2222\nDenyUsers *\n"
    facts = machine_facts(tmp_path, {MAIN: config})
    answer = {"usepam": ("yes",), **({"denyusers": ("*",)} if "2222\n" in ports else {})}
    found = plan(replace(facts, access=replace(access_of(facts), answers=(("203.0.113.9", answer),))))
    assert [type(item) for item in found] == ([Caution] if "2222\n" in ports else [])


@pytest.mark.parametrize(
    ("stack", "kind"),
    [
        ("account required pam_deny.so\n", Step),
        ("account optional pam_motd.so\naccount requisite pam_deny.so\n", Step),
        ("account [success=1 default=ignore] pam_unix.so\naccount requisite pam_deny.so\n", None),
        ("account sufficient pam_unix.so\naccount required pam_deny.so\n", None),
        ("account optional pam_deny.so\n", None),
        ("account required pam_unix.so\naccount sufficient pam_succeed_if.so uid < 1000 quiet\n", None),
        ("account required pam_succeed_if.so user ingroup ops\n", Caution),
        ("account required pam_exec.so /usr/local/bin/check\n", Caution),
    ],
)
def test_what_pam_lets_in(tmp_path: Path, stack: str, kind: type | None) -> None:
    found = plan(machine_facts(tmp_path, {"/etc/pam.d/sshd": stack}))
    assert [type(item) for item in found] == ([] if kind is None else [kind])


@pytest.mark.parametrize(("words", "kind"), [("", Step), (" successok", Step), (" file=/run/closed", None)])
def test_the_nologin_file_that_pam_looks_at(tmp_path: Path, words: str, kind: type | None) -> None:
    files = {"/etc/pam.d/sshd": f"account required pam_nologin.so{words}\n", "/etc/nologin": ""}
    assert [type(item) for item in plan(machine_facts(tmp_path, files))] == ([] if kind is None else [kind])


@pytest.mark.parametrize(
    ("line", "found"),
    [  # what getent of glibc 2.31, 2.35 and 2.41 finds
        ("ada:*:20000:0:99999:7:::", True),
        ("ada:*:::::::", True),
        ("ada:*:20000:0:99999", True),
        ("ada:*:20000:0:99999:", True),
        ("ada:*: 20000:0:99999:7:::", True),
        ("ada:*:20000:0:99999:7::-1:", False),
        ("ada:*:-5:0:99999:7:::", False),
        ("ada:*:", False),
        ("ada:*:20000:0:99999:7:", False),
        ("ada:*:20000:0:99999:7", False),
        ("ada:*:20000:0:99999:7::never:", False),
        ("ada:*:20000:0:99999:7:::x", False),
        ("ada:*:20000:0:99999:7::: ", False),
        ("ada:*:20000:0:99999:7:::9", True),
        ("ada:*:20000:0:99999:7::99999", True),
        ("ada:*:20000:0:99999:7::", False),
        ("ada:*:20000 :0:99999:7:::", False),
        ("ada:*:20000:0:99999:7::::::", False),
        ("ada:*:20000:0:99999:7::99999999999:", False),
        pytest.param(f"ada:*:20000:0:99999:7::{'9' * 5000}:", False, id="more digits than Python converts"),
    ],
)
def test_a_line_of_shadow_that_the_c_library_does_not_read(tmp_path: Path, line: str, found: bool) -> None:
    items = plan(machine_facts(tmp_path, {"/etc/shadow": f"{line}\n"}))
    assert [type(item) for item in items] == ([] if found else [Step])
    assert all("/etc/shadow is malformed" in item.why for item in items)


def test_sshds_own_answer_counts_more_than_our_reading(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, {MAIN: "UsePAM yes\nAllowUsers bob\n"}, **answered("AllowUsers ada"))
    assert plan(facts) == ()


def test_a_key_that_is_refused_beside_a_password_that_works_is_a_warning(tmp_path: Path) -> None:
    text = "UsePAM yes\nPubkeyAuthentication no\n"
    facts = machine_facts(tmp_path, {MAIN: text}, **answered("PubkeyAuthentication no"))
    both = replace(ADA, has_password=True, disable_password=False)
    (caution,) = plan(facts, metadata=both, required="true")
    assert isinstance(caution, Caution)
    assert caution.why.startswith("the key that was given does not let ada in: /etc/ssh/sshd_config line 2")


@pytest.mark.parametrize(
    ("methods", "noted"),
    [
        ("publickey", ["password"]),
        ("password keyboard-interactive:pam", ["key"]),
        ("publickey,password", []),
        ("publickey password", []),
        ("any", []),
    ],
)
def test_a_credential_that_no_list_of_methods_asks_for_is_a_warning(
    tmp_path: Path, methods: str, noted: list[str]
) -> None:
    config = f"UsePAM yes\nAuthenticationMethods {methods}\n"
    facts = machine_facts(tmp_path, {MAIN: config}, **answered(config))
    both = replace(ADA, has_password=True, disable_password=False)
    found = plan(facts, metadata=both)
    assert all(isinstance(item, Caution) for item in found)
    assert [item.why.split()[1] for item in found] == noted
    assert all("AuthenticationMethods" in item.why for item in found)


def test_no_sshd_and_no_credential_are_no_failure(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, {MAIN: "AllowUsers bob\n"})
    assert plan(replace(facts, ssh=replace(facts.ssh, installed=False))) == ()
    assert plan(facts, metadata=replace(ADA, keys=())) == ()


@pytest.mark.parametrize(
    ("shadow", "says"),
    [
        ("ada:*:20000:0:99999:7::100:\n", "expired"),
        ("ada:*:20000:0:99999:7::20100:\n", "expired"),
        ("ada:*:20000:0:99999:7::20101:\n", ""),
        ("ada:*:0:0:99999:7:::\n", "must change a password first"),
        ("ada:*:20000:0:50:7:10::\n", "expired and can no longer be changed"),
        ("ada:*:20000:0:50:7:::\n", "must change"),
        ("ada:*:20000:0:101:7:::\n", ""),
        ("ada:!:20000:0:99999:7:::\n", ""),
    ],
)
def test_the_account_itself(tmp_path: Path, shadow: str, says: str) -> None:
    found = plan(machine_facts(tmp_path, {"/etc/shadow": shadow}))
    assert [says in item.why for item in found] == ([True] if says else [])
    assert all(isinstance(item, Step) for item in found)


def test_another_source_of_accounts_is_a_doubt(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, {"/etc/shadow": "ada:*:20000:0:99999:7::100:\n"})
    (item,) = plan(replace(facts, accounts=replace(facts.accounts, nss_why="nsswitch.conf asks sss for passwd")))
    assert isinstance(item, Caution)


def test_a_unit_that_nothing_starts(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, {}, start=Start(why="ssh.service is disabled", certain=True))
    (item,) = plan(facts)
    assert isinstance(item, Step)
    assert "sshd does not start: ssh.service is disabled" in item.why


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
