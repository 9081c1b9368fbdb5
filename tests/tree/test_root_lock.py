"""Root's password is removed with all copies of its hash; and system accounts as admins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from azureinit import Machine
from azureinit.apply.executor import apply_plan
from azureinit.config.model import Config, PasswordProvisioners, User
from azureinit.errors import InvalidUsername, PasswordFailed
from azureinit.facts.gather import Facts, read_facts
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.account import plan_account
from azureinit.plan.actions import Caution, Declined, Remove, Run, Satisfied, Step, Way, work_left
from azureinit.plan.plan import Wanted, make_plan
from azureinit.plan.provision import PROVISION
from azureinit.plan.rootlock import plan_root_lock
from azureinit.plan.show import as_text
from azureinit.record import Secret, replace
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import Events
from support.facts import altered, parts
from support.need import need, need_root, unfit
from support.ssh_trees import ed25519
from support.trees import GROUP, PASSWD, changed, listing, make_tree

LOCK = Config(user=User(lock_root=True))
SYSTEM = Config(user=User(allow_system_user=True))
HASH = "$6$salt$" + "h" * 86
SRC = Path(__file__).parents[2] / "src"


def with_root(root: Path, field: str) -> Machine:
    make_tree(root)
    (root / "etc/shadow").write_text(f"root:{field}:19700:0:99999:7:::\ndaemon:*:19700:0:99999:7:::\n")
    return Machine(root=str(root))


def lock(machine: Machine, config: Config = LOCK) -> Any:
    return plan_root_lock(
        **parts(read_facts(machine, config), "host", "accounts", "old_root"), config=config, today=20000
    )


def apply(machine: Machine, *items: Any) -> None:
    events = Events(clock=machine.clock)
    apply_plan(machine, items, journal=MemoryJournal(), events=events, deadline=float("inf"))


@pytest.mark.parametrize("field", ["", HASH, f"!{HASH}", f"!!{HASH}", "plain"])
def test_whatever_could_open_is_replaced_whole_and_stays_so(tmp_path: Path, field: str) -> None:
    machine = with_root(tmp_path, field)
    before = listing(tmp_path)
    step = lock(machine)
    assert isinstance(step, Step) and step.failure is PasswordFailed
    apply(machine, step)
    after = listing(tmp_path)
    assert changed(before, after) == {"etc/shadow", "etc/.pwd.lock"}
    assert after["etc/shadow"][2] == b"root:*:20000:0:99999:7:::\ndaemon:*:19700:0:99999:7:::\n"
    assert after["etc/shadow"][:2] == before["etc/shadow"][:2]
    assert not [name for name, (_, _, content) in after.items() if b"$6$salt" in content]
    assert lock(machine) == Satisfied(name="password root", why="is locked already")


@pytest.mark.parametrize("field", ["*", "!", "!!", "!*", "*LOCK*"])
def test_what_holds_no_password_is_left_as_it_is(tmp_path: Path, field: str) -> None:
    assert lock(with_root(tmp_path, field)) == Satisfied(name="password root", why="is locked already")


def test_a_run_that_died_before_it_removed_the_old_file_is_completed(tmp_path: Path) -> None:
    machine = with_root(tmp_path, HASH)
    step = lock(machine)
    way = step.ways[-1]
    *edits, last = way.actions
    assert last == Remove(path="/etc/shadow-")
    apply(machine, replace(step, ways=(replace(way, actions=tuple(edits)),)))
    assert HASH in (tmp_path / "etc/shadow-").read_text()
    rest = lock(machine)
    assert isinstance(rest, Step) and rest.why == "is locked, but /etc/shadow- has the old hash"
    assert rest.ways == (Way(backend="native", actions=(last,)),), "whoever edits the file leaves another one"
    apply(machine, rest)
    assert not (tmp_path / "etc/shadow-").exists()
    assert isinstance(lock(machine), Satisfied)


@pytest.mark.parametrize("old", ["root:*:1::::::\n", "root:!!:1::::::\n", "daemon:*:1::::::\n", "root\n", ""])
def test_an_old_file_without_a_password_of_root_s_stays(tmp_path: Path, old: str) -> None:
    machine = with_root(tmp_path, "*")
    (tmp_path / "etc/shadow-").write_text(old)
    assert isinstance(lock(machine), Satisfied)


def test_nobody_looks_into_the_old_file_unless_root_is_to_be_locked(tmp_path: Path) -> None:
    machine = with_root(tmp_path, "*")
    (tmp_path / "etc/shadow-").write_text(f"root:{HASH}:1::::::\n")
    assert read_facts(machine, Config()).old_root is None
    assert read_facts(machine, LOCK).old_root == Secret(HASH)


def test_without_an_entry_it_is_told_and_no_more(tmp_path: Path) -> None:
    machine = with_root(tmp_path, HASH)
    (tmp_path / "etc/shadow").write_text("daemon:*:19700:0:99999:7:::\n")
    item = lock(machine)
    assert isinstance(item, Caution) and "/etc/shadow has no entry for root" in item.why
    (tmp_path / "etc/shadow").unlink()
    assert lock(machine) == item


def test_the_plan_shows_it_without_the_hash_and_last(tmp_path: Path) -> None:
    machine = with_root(tmp_path, HASH)
    plan = whole(machine, LOCK)
    text = as_text(plan, privileged=True)
    assert "+ password root: is to be locked" in text and "h" * 20 not in text
    assert "remove /etc/shadow-" in text
    assert [step.name for step in work_left(plan)][-1] == "password root", "where something fails it may be needed"


def whole(machine: Machine, config: Config, **asked: Any) -> Any:
    metadata = Metadata(**{"username": "ada", "hostname": "vm", "keys": (PublicKey(data=ed25519()),), **asked})
    facts = altered(read_facts(machine, config))
    return make_plan(PROVISION, Wanted(metadata=metadata, config=config, done=frozenset(), today=20000), facts)


def test_it_is_nobodys_wish_unless_somebody_says_so(tmp_path: Path) -> None:
    assert "password root" not in {item.name for item in whole(with_root(tmp_path, HASH), Config())}


def test_root_as_the_admin_keeps_the_password_it_was_given(tmp_path: Path) -> None:
    config = Config(user=User(lock_root=True, allow_system_user=True))
    plan = whole(with_root(tmp_path, HASH), config, username="root", password_hash=Secret(HASH), has_password=True)
    found = [item for item in plan if item.name == "password root"]
    assert [type(item) for item in found] == [Satisfied, Caution]
    assert "root is the admin with a password" in found[1].why


def running(facts: Facts) -> Facts:
    return altered(facts, root="", rooted=False, privileged=True, tools=frozenset(("chpasswd", "usermod")))


def test_on_the_running_machine_its_own_tools_do_it(tmp_path: Path) -> None:
    config = Config(user=LOCK.user, password_provisioners=PasswordProvisioners(backends=("chpasswd", "passwd")))
    facts = running(read_facts(with_root(tmp_path, HASH), config))
    step = plan_root_lock(**parts(facts, "host", "accounts", "old_root"), config=config, today=1)
    assert isinstance(step, Step)
    first, second = step.ways
    assert isinstance(first, Way) and isinstance(second, Way)
    gone = Remove(path="/etc/shadow-")
    assert first.actions == (Run(argv=("chpasswd", "-e"), stdin=Secret("root:*\n")), gone)
    assert second.actions == (Run(argv=("usermod", "--password", "*", "--", "root")), gone)


# ---- accounts of the system's own


def account(machine: Machine, name: str, config: Config) -> Any:
    return plan_account(
        username=name,
        groups=(),
        password_hash=Secret(HASH),
        password_done=False,
        **parts(read_facts(machine, config), "host", "accounts"),
        config=config,
        today=20000,
    )


@pytest.mark.parametrize("name", ["root", "daemon"])
def test_one_is_refused_unless_allowed_and_the_way_out_is_named(tmp_path: Path, name: str) -> None:
    machine = Machine(root=str(make_tree(tmp_path)))
    with pytest.raises(InvalidUsername, match=f"'{name}' belongs to the system") as refused:
        account(machine, name, Config())
    assert "the image does not use itself" in refused.value.hint
    if name == "daemon":
        assert refused.value.hint.endswith("or set user.allow_system_user")


@pytest.mark.parametrize("name", ["root", "daemon"])
def test_allowed_it_gets_its_password_and_nothing_else_changes(tmp_path: Path, name: str) -> None:
    machine = Machine(root=str(make_tree(tmp_path)))
    before = listing(tmp_path)
    plan = account(machine, name, SYSTEM)
    assert [step.name for step in work_left(plan)] == [f"password {name}"]
    apply(machine, *plan)
    after = listing(tmp_path)
    assert changed(before, after) == {"etc/shadow", "etc/shadow-", "etc/.pwd.lock"}
    assert f"\n{name}:{HASH}:20000:" in "\n" + after["etc/shadow"][2].decode()
    assert work_left(account(machine, name, SYSTEM)) == ()


@pytest.mark.parametrize("line", ["nobody:x:65534:65534::/:/bin/sh\n", "nobody:x:99:99::/:/bin/sh\n"])
def test_nobody_is_refused_whatever_is_allowed(tmp_path: Path, line: str) -> None:
    make_tree(tmp_path)
    (tmp_path / "etc/passwd").write_text(PASSWD + line)
    (tmp_path / "etc/group").write_text(GROUP + "nobody:x:65534:\n")
    with pytest.raises(InvalidUsername, match="belongs to the system") as refused:
        account(Machine(root=str(tmp_path)), "nobody", SYSTEM)
    assert "allow_system_user" not in refused.value.hint


@pytest.mark.parametrize("name", ["-root", "ro:ot", "root\n", ""])
def test_what_is_no_name_stays_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidUsername):
        account(Machine(root=str(make_tree(tmp_path))), name, SYSTEM)


# ---- chpasswd itself


def every_utf8_byte() -> str:
    """Every byte that UTF-8 can have and XML may hold, in whole letters: first bytes, continuations, plain ones."""
    two = [bytes((0xC2 + at % 30, 0x80 + at)) for at in range(64)]
    three = [bytes((first, 0x9F if first == 0xED else 0xA0 + first % 16, 0x81)) for first in range(0xE0, 0xF0)]
    four = [bytes((first, 0x8F if first == 0xF4 else 0x90, 0x80, 0x80)) for first in range(0xF0, 0xF5)]
    plain = bytes((*b"\t\n\r", *range(0x20, 0x80)))
    return (plain + b"".join((*two, *three, *four))).decode()


CHANGE = """
import sys
from azureinit import set_user_password
from azureinit.config.model import Config, PasswordProvisioners
config = Config(password_provisioners=PasswordProvisioners(backends=("chpasswd",)))
print(set_user_password("ada", sys.stdin.buffer.read().decode(), config=config))
"""
LOCK_ROOT = """
from azureinit import Machine
from azureinit.apply.executor import apply_step
from azureinit.memory.journal import MemoryJournal
from azureinit.config.model import Config, PasswordProvisioners, User
from azureinit.facts.gather import read_facts
from azureinit.plan.rootlock import plan_root_lock
machine = Machine()
backends = PasswordProvisioners(backends=("BACKEND",))
config = Config(user=User(lock_root=True), password_provisioners=backends)
def plan():
    facts = read_facts(machine, config)
    return plan_root_lock(
        host=facts.host, accounts=facts.accounts, old_root=facts.old_root, config=config, today=20000
    )
print(apply_step(machine, plan(), journal=MemoryJournal(), deadline=float("inf")))
print(plan().why)
"""
VERIFY = """
import ctypes, sys
library = ctypes.CDLL("libcrypt.so.1")
library.crypt.restype = ctypes.c_char_p
field = next(line.split(b":")[1] for line in open("/etc/shadow", "rb") if line.startswith(b"ada:"))
assert library.crypt(sys.stdin.buffer.read(), field) == field, "another password"
print(field.decode())
"""


def test_the_password_covers_what_it_should() -> None:
    data = every_utf8_byte().encode()
    assert b":" in data
    never = {*range(0x20), 0xC0, 0xC1, *range(0xF5, 0x100)} - {*b"\t\n\r"}
    assert set(range(256)) - set(data) == never


def inside(etc: Path, code: str, stdin: str = "") -> list[str]:
    """On this very machine, but for its /etc."""
    need_root()
    unshare = need("unshare")
    if subprocess.run([unshare, "-m", "true"], capture_output=True, check=False).returncode:
        unfit("no mount namespaces here")
    argv = [unshare, "-m", "sh", "-c", f'mount --bind {etc} /etc && exec "$@"', "sh", sys.executable, "-c", code]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)}
    ran = subprocess.run(argv, input=stdin.encode(), env=environ, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode().splitlines()


@pytest.mark.parametrize(("backend", "tool"), [("chpasswd", "chpasswd"), ("passwd", "usermod"), ("files", "true")])
def test_the_systems_own_tools_leave_nothing_of_roots_password(tmp_path: Path, backend: str, tool: str) -> None:
    need(tool)
    with_root(tmp_path, HASH)
    told = inside(tmp_path / "etc", LOCK_ROOT.replace("BACKEND", backend))
    assert told == [backend, "is locked already"]
    after = listing(tmp_path / "etc")
    assert after["shadow"][2].startswith(b"root:*:")
    assert not [name for name, (_, _, content) in after.items() if b"$6$salt" in content]


@pytest.mark.parametrize("password", [every_utf8_byte(), ":", "a:b", " ", "\\"])
def test_chpasswd_sets_any_password_and_libcrypt_knows_it_again(tmp_path: Path, password: str) -> None:
    need("chpasswd")
    etc = make_tree(tmp_path / "root") / "etc"
    (etc / "passwd").write_text(PASSWD + "ada:x:1000:1000::/home/ada:/bin/sh\n")
    (etc / "group").write_text(GROUP + "ada:x:1000:\n")
    with (etc / "shadow").open("a") as shadow:
        shadow.write("ada:!:19700:0:99999:7:::\n")
    before = (etc / "shadow").read_text()
    assert inside(etc, CHANGE, password) == ["('password ada',)"]
    (field,) = inside(etc, VERIFY, password)
    assert field.startswith("$y$")
    after = (etc / "shadow").read_text()
    assert [line for line in after.splitlines() if line not in before] == [
        line for line in after.splitlines() if line.startswith("ada:")
    ]


def test_a_backend_that_only_locks_says_so(tmp_path: Path) -> None:
    config = Config(password_provisioners=PasswordProvisioners(backends=("passwd",)))
    plan = account(with_root(tmp_path, "*"), "ada", config)
    (step,) = (item for item in plan if item.name == "password ada")
    assert isinstance(step, Step) and isinstance(step.ways[0], Declined)
