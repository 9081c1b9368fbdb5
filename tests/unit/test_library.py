"""The library on a file tree, and its manual, whose examples are run."""

from __future__ import annotations

import doctest
import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import azureinit
from azureinit import library
from azureinit.config.model import Config, User as UserConfig
from azureinit.errors import (
    ConfigInvalid,
    InvalidHostname,
    InvalidKey,
    InvalidUsername,
    MediaAbsent,
    PasswordFailed,
    StepFailed,
    UserMissing,
    VmIdUnknown,
)
from azureinit.library import Provision, User
from azureinit.machine import Machine
from azureinit.record import Secret
from support.trees import changed, listing, make_tree

MANUAL = Path(__file__).parents[2] / "docs/library.md"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINoCsQdIS32POjvm9byMTtRl8q7kOXdIRRV0i0g0OP4O ada@example"
ID = "c0ffee00-1111-2222-3333-444444444444"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(root=str(make_tree(tmp_path / "root")), kernel=str(tmp_path / "kernel"))


def at(machine: Machine, path: str) -> Path:
    return Path(machine.root + path)


def native(name: str, user: User, machine: Machine) -> Provision:
    return (
        Provision(name, user, machine=machine)
        .hostname_provisioners(["native"])
        .user_provisioners(["files"])
        .password_provisioners(["files"])
    )


def test_every_example_of_the_manual_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    failed, tried = doctest.testfile(str(MANUAL), module_relative=False, encoding="utf-8")
    assert tried > 30
    assert not failed


def test_the_manual_names_every_public_name() -> None:
    text = MANUAL.read_text()
    missing = [name for name in azureinit.__all__ if name not in text]
    assert missing == []


def test_every_public_function_says_what_it_does() -> None:
    silent = [name for name in azureinit.__all__ if not inspect.getdoc(getattr(library, name))]
    assert [name for name in silent if name not in ("Config", "Machine", "PublicKey")] == []


def test_a_machine_in_one_go(machine: Machine) -> None:
    user = User("ada", [KEY]).with_groups("adm", "sudo").with_password("correct horse")
    taken = native("web-1", user, machine).provision()
    assert taken == ("hostname", "hosts", "user ada", "password ada", "sudo", "ssh keys ada")
    assert at(machine, "/etc/hostname").read_text() == "web-1\n"
    assert at(machine, "/etc/sudoers.d/azure-init-user").read_text() == "ada ALL=(ALL) ALL\n"
    assert "ada:$6$" in at(machine, "/etc/shadow").read_text()
    assert "correct horse" not in "".join(path.read_text() for path in at(machine, "/etc").rglob("*") if path.is_file())
    assert "adm:x:4:ada\nsudo:x:27:ada\n" in at(machine, "/etc/group").read_text()


def test_the_second_time_there_is_nothing_to_do(machine: Machine) -> None:
    web = native("web-1", User("ada", [KEY], groups=["adm"]), machine)
    assert web.provision()
    before = listing(Path(machine.root))
    assert web.provision() == ()
    assert changed(before, listing(Path(machine.root))) == set()


def test_a_plan_changes_nothing(machine: Machine) -> None:
    before = listing(Path(machine.root))
    assert native("web-1", User("ada", [KEY]).with_password("x"), machine).plan()
    assert changed(before, listing(Path(machine.root))) == set()


def test_groups_are_the_users_else_the_configurations(machine: Machine) -> None:
    config = Config(user=UserConfig(groups=("adm",)))
    Provision("h", User("ada", [KEY]), machine=machine, config=config).provision()
    Provision("h", User("grace", [KEY]).with_groups("sudo"), machine=machine, config=config).provision()
    library.create_user("edsger", machine=machine, config=config)
    assert "adm:x:4:ada,edsger\nsudo:x:27:grace\n" in at(machine, "/etc/group").read_text()


def test_sshd_is_asked_for_only_where_somebody_says_so(machine: Machine) -> None:
    at(machine, "/etc/ssh/sshd_config.d").mkdir(parents=True)
    at(machine, "/etc/ssh/sshd_config").write_text("Include /etc/ssh/sshd_config.d/*.conf\n")
    plan = native("h", User("ada", [KEY]), machine).password_authentication(False).plan()
    assert "sshd" in [item.name for item in plan if type(item).__name__ == "Step"]
    plan = native("h", User("ada", [KEY]), machine).plan()
    assert "sshd" not in [item.name for item in plan if type(item).__name__ == "Step"]


def test_one_key_is_a_key_and_not_its_letters(machine: Machine) -> None:
    assert User("ada", KEY).keys == (KEY,)
    library.create_user("ada", groups="adm", machine=machine)
    assert library.install_ssh_keys("ada", KEY, machine=machine) == ("ssh keys ada",)
    assert at(machine, "/home/ada/.ssh/authorized_keys").read_text() == KEY + "\n"
    assert "adm:x:4:ada\n" in at(machine, "/etc/group").read_text()


def test_a_password_never_shows_itself() -> None:
    user = User("ada").with_password("hunter2")
    assert "hunter2" not in f"{user!r} {user} {user.as_dict()}"
    assert user == User("ada").with_password(Secret("hunter2"))


def test_a_password_is_set_and_taken_away(machine: Machine) -> None:
    library.create_user("ada", machine=machine)
    shadow = at(machine, "/etc/shadow")
    assert library.set_user_password("ada", "first", machine=machine) == ("password ada",)
    first = shadow.read_text()
    assert "ada:$6$" in first
    assert library.set_user_password("ada", Secret("second"), machine=machine) == ("password ada",)
    assert shadow.read_text() != first
    assert library.lock_user("ada", machine=machine) == ("password ada",)
    assert "ada:*:" in shadow.read_text()
    assert library.lock_user("ada", machine=machine) == ()


@pytest.mark.parametrize(
    ("hostname", "user", "error"),
    [
        ("", User("ada", [KEY]), InvalidHostname),
        ("two words", User("ada", [KEY]), InvalidHostname),
        ("web-1", User("", [KEY]), InvalidUsername),
        ("web-1", User("root", [KEY]), InvalidUsername),
        ("web-1", User("-rf", [KEY]), InvalidUsername),
        ("web-1", User("daemon", [KEY]), InvalidUsername),
        ("web-1", User("ada", ["not a key"]), InvalidKey),
        ("web-1", User("ada", [KEY]).with_password(""), PasswordFailed),
        ("web-1", User("ada", [KEY]).with_password("a\0b"), PasswordFailed),
    ],
)
def test_what_cannot_be_is_refused_before_anything_changes(
    machine: Machine, hostname: str, user: User, error: type[Exception]
) -> None:
    before = listing(Path(machine.root))
    with pytest.raises(error):
        native(hostname, user, machine).provision()
    assert changed(before, listing(Path(machine.root))) == set()


def test_a_backend_nobody_knows_is_named() -> None:
    with pytest.raises(ConfigInvalid, match="useradd"):
        Provision("h", User("ada")).user_provisioners(["adduser"])


def test_no_backend_at_all_is_a_failure_that_says_so(machine: Machine) -> None:
    with pytest.raises(StepFailed, match="no backend is configured"):
        native("web-1", User("ada", [KEY]), machine).user_provisioners([]).provision()


def test_a_part_that_needs_an_account_says_whose_is_missing(machine: Machine) -> None:
    parts: tuple[Callable[[], object], ...] = (
        lambda: library.install_ssh_keys("nobody-yet", [KEY], machine=machine),
        lambda: library.set_user_password("nobody-yet", "x", machine=machine),
        lambda: library.lock_user("nobody-yet", machine=machine),
    )
    for missing in parts:
        with pytest.raises(UserMissing, match="nobody-yet"):
            missing()


def test_the_vm_id_is_the_firmwares(tmp_path: Path) -> None:
    firmware = tmp_path / "sys/class/dmi/id"
    firmware.mkdir(parents=True)
    (tmp_path / "sys/firmware/efi").mkdir(parents=True)
    (firmware / "product_uuid").write_text(ID.upper() + "\n")
    assert library.vm_id(machine=Machine(kernel=str(tmp_path))) == ID
    with pytest.raises(VmIdUnknown):
        library.vm_id(machine=Machine(kernel=str(tmp_path / "nothing")))


def test_media_that_are_not_there_are_said_to_be_absent(tmp_path: Path) -> None:
    with pytest.raises(MediaAbsent):
        library.read_media(str(tmp_path / "nothing"), wait_secs=0.0)
