"""Trees with SELinux labels, on a kernel without SELinux: replaced files keep theirs, new files get one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from azureinit.apply.executor import apply_plan, perform
from azureinit.config.model import Config, UserProvisioners
from azureinit.facts.gather import Facts, read_facts
from azureinit.machine import Machine
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import Caution, EditLine, Locked, Satisfied, Step, Write
from azureinit.plan.plan import Wanted, make_plan
from azureinit.plan.provision import PROVISION
from azureinit.record import replace
from azureinit.run.admin import with_keys_files
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import Events
from support.facts import altered
from support.immutable_trees import OTHER_KEY
from support.need import need, need_root, unfit
from support.trees import make_tree

LABEL = "security.selinux"
CONTEXTS = """\
/.*\tsystem_u:object_r:default_t:s0
/etc(/.*)?\tsystem_u:object_r:etc_t:s0
/etc/shadow.*\t--\tsystem_u:object_r:shadow_t:s0
/etc/hostname\t--\tsystem_u:object_r:hostname_etc_t:s0
"""
HOMES = """\
/home/[^/]+\t-d\tunconfined_u:object_r:user_home_dir_t:s0
/home/[^/]+/.+\tunconfined_u:object_r:user_home_t:s0
/home/[^/]+/\\.ssh(/.*)?\tunconfined_u:object_r:ssh_home_t:s0
"""
CONFIG = Config(user_provisioners=UserProvisioners(backends=("files",)))


def set_label(path: Path, kind: str) -> None:
    try:
        os.setxattr(path, LABEL, f"system_u:object_r:{kind}:s0\0".encode())
    except OSError as error:
        unfit(f"this file system takes no labels: {error}")


def label(path: Path) -> str:
    """The part of it that differs, or nothing."""
    if LABEL not in os.listxattr(path, follow_symlinks=False):
        return ""
    return os.getxattr(path, LABEL, follow_symlinks=False).rstrip(b"\0").decode().split(":")[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    need_root()
    root = make_tree(tmp_path / "root")
    files = root / "etc/selinux/targeted/contexts/files"
    files.mkdir(parents=True)
    (root / "etc/selinux/config").write_text("# SELINUX=disabled\nSELINUX=enforcing\nSELINUXTYPE=targeted\n")
    (files / "file_contexts").write_text(CONTEXTS)
    (files / "file_contexts.homedirs").write_text(HOMES)
    for name, kind in (("shadow", "shadow_t"), ("passwd", "passwd_file_t"), ("hosts", "net_conf_t")):
        set_label(root / "etc" / name, kind)
    return root


def plan_of(machine: Machine, done: frozenset[str] = frozenset(), **changes: Any) -> tuple[Any, ...]:
    metadata = Metadata(username="ada", hostname="web-1", keys=(PublicKey(data=OTHER_KEY),), disable_password=True)
    facts: Facts = altered(read_facts(machine, CONFIG), **changes)
    facts = with_keys_files(machine, CONFIG, facts, username="ada", keys=metadata.keys)
    return make_plan(PROVISION, Wanted(metadata=metadata, config=CONFIG, done=done, today=20000), facts)


def labels_of(plan: tuple[Any, ...]) -> Any:
    return next((item for item in plan if item.name == "selinux labels"), None)


# ---- what is replaced


def test_a_replaced_file_keeps_its_label(tree: Path) -> None:
    machine = Machine(root=str(tree))
    perform(machine, Write(path="/etc/hosts", data=b"127.0.0.1 localhost\n", mode=0o600), journal=MemoryJournal())
    assert label(tree / "etc/hosts") == "net_conf_t"


def test_an_account_file_keeps_its_label_and_so_does_its_old_self(tree: Path) -> None:
    machine = Machine(root=str(tree))
    edit = EditLine(path="/etc/shadow", key="root", fields=((1, "!"),))
    perform(machine, Locked(edits=(edit,)), journal=MemoryJournal())
    assert label(tree / "etc/shadow") == label(tree / "etc/shadow-") == "shadow_t"


def test_in_somebody_s_own_directory_too(tree: Path) -> None:
    home = tree / "home/ada"
    home.mkdir()
    (home / "file").write_text("old")
    set_label(home / "file", "user_home_t")
    Machine(root=str(tree)).write("/home/ada/file", b"new", beneath="/home/ada")
    assert (home / "file").read_text() == "new" and label(home / "file") == "user_home_t"


def test_access_lists_and_the_owner_s_notes_are_kept_and_what_seals_the_content_is_not(tree: Path) -> None:
    hosts = tree / "etc/hosts"
    os.setxattr(hosts, "user.note", b"mine")
    capability = bytes.fromhex("0000000200040000000000000000000000000000")  # as setcap writes cap_net_bind_service
    os.setxattr(hosts, "security.capability", capability)
    # Version 2: owner rw, user 1234 r, group r, mask r, others none.
    rows = ((1, 6, -1), (2, 4, 1234), (4, 4, -1), (16, 4, -1), (32, 0, -1))
    access = b"\2\0\0\0" + b"".join(
        tag.to_bytes(2, "little") + may.to_bytes(2, "little") + (who & 0xFFFFFFFF).to_bytes(4, "little")
        for tag, may, who in rows
    )
    os.setxattr(hosts, "system.posix_acl_access", access)
    Machine(root=str(tree)).write("/etc/hosts", b"new\n")
    assert os.getxattr(hosts, "user.note") == b"mine"
    assert os.getxattr(hosts, "system.posix_acl_access") == access
    assert "security.capability" not in os.listxattr(hosts)


def test_a_new_file_has_nothing_to_keep(tree: Path) -> None:
    Machine(root=str(tree)).write("/etc/new", b"x")
    assert os.listxattr(tree / "etc/new") == []


# ---- what is new


def test_new_files_are_labelled_by_the_tree_s_own_policy(tree: Path) -> None:
    need("setfiles")
    machine = Machine(root=str(tree))
    plan = plan_of(machine)
    step = labels_of(plan)
    assert isinstance(step, Step) and step.once
    apply_plan(machine, plan, journal=MemoryJournal(), events=Events(clock=machine.clock), deadline=float("inf"))
    assert label(tree / "etc/hostname") == "hostname_etc_t"
    assert label(tree / "etc/shadow") == "shadow_t" and label(tree / "etc/passwd") == "passwd_file_t"
    assert label(tree / "etc/sudoers.d/azure-init-user") == "etc_t"
    assert label(tree / "home/ada") == "user_home_dir_t"
    assert label(tree / "home/ada/.bashrc") == "user_home_t"
    assert label(tree / "home/ada/.ssh/authorized_keys") == "ssh_home_t"
    assert isinstance(labels_of(plan_of(machine, frozenset({"selinux labels"}))), Satisfied)


def test_homes_behind_a_link_are_labelled_where_they_lie_and_nowhere_else(tree: Path, tmp_path: Path) -> None:
    need("setfiles")
    (tree / "home").rmdir()
    (tree / "var/home").mkdir()
    (tree / "home").symlink_to("/var/home")  # absolute: on this computer that is another place
    files = tree / "etc/selinux/targeted/contexts/files"
    (files / "file_contexts.subs_dist").write_text("/var/home /home\n")
    machine = Machine(root=str(tree))
    apply_plan(
        machine, plan_of(machine), journal=MemoryJournal(), events=Events(clock=machine.clock), deadline=float("inf")
    )
    assert label(tree / "var/home/ada/.ssh/authorized_keys") == "ssh_home_t"


def test_without_the_tool_or_the_right_the_builder_is_told(tree: Path) -> None:
    facts = read_facts(Machine(root=str(tree)), CONFIG)
    assert facts.labels is not None
    for changes, why in (
        ({"labels": replace(facts.labels, tool=None)}, "setfiles is not installed here"),
        ({"privileged": False}, "only root labels files"),
    ):
        told = labels_of(plan_of(Machine(root=str(tree)), **changes))
        assert isinstance(told, Caution) and why in told.why and "/.autorelabel" in told.why


@pytest.mark.parametrize("config", ["SELINUX=disabled\nSELINUXTYPE=targeted\n", "SELINUX=enforcing\n", "", "\xff="])
def test_a_tree_without_a_policy_in_force_is_left_alone(tree: Path, config: str) -> None:
    (tree / "etc/selinux/config").write_text(config, encoding="latin-1")
    assert labels_of(plan_of(Machine(root=str(tree)))) is None
