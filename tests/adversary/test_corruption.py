"""Every state file of azure-init, damaged in every way: the next run still makes the requested machine.

In this process the readers are given every truncation and every flipped bit of every file; the program itself is given
a sample of them. Valid JSON of the wrong shape, and things that are not files, go to the program one by one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.journal import clear_leftovers, read_journal
from azureinit.memory.pending import read_pending
from azureinit.memory.saved import read_saved
from fakeazure import Expect, Vm
from support.bench import Bench, Benches
from support.bounds import ALL, SEED, sample
from support.trees import listing

PASSWORD = "correct horse"
VM = Vm(password=PASSWORD, disable_password=False, custom_data="#!/bin/sh\n")
SECRET = re.compile(rb"\$6\$[^:]*")
PLACES = ("var/lib/azure-init", "var/log", "var/lib/hyperv")
READY = Expect(verdict="ready")
HEALTH = "/provisioning/health"


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A machine in the middle of its life: everything was done, and the platform has not accepted Ready yet."""
    benches = Benches(tmp_path_factory.mktemp("wanted"))
    one = made(benches, faults=[{"path": HEALTH, "answers": ["503*"]}])
    try:
        assert one.agent().status != 0, "nobody has accepted Ready"
        assert {"journal", "saved", "pending"} <= {path.suffix[1:] for path in one.data.iterdir()}
        yield one.tree
    finally:
        for fabric in benches.fabrics:
            fabric.stop()


def made(benches: Benches, **options: Any) -> Bench:
    one = benches(vm=VM, expect=READY, kvp=True, **options)
    one.install_sshd()
    return one


def copied(bench: Benches, tree: Path) -> Bench:
    one = made(bench)
    shutil.rmtree(one.tree)
    shutil.copytree(tree, one.tree, symlinks=True)
    for path in tree.rglob("*"):
        status = path.lstat()
        os.lchown(one.tree / path.relative_to(tree), status.st_uid, status.st_gid)
    return one


def ours(tree: Path) -> list[str]:
    """Every file that the agent keeps for itself."""
    places = [tree / place for place in PLACES]
    return sorted(
        str(path.relative_to(tree)) for place in places for path in (tree / place).rglob("*") if path.is_file()
    )


def comparable(tree: Path) -> Mapping[str, tuple[str, str, bytes]]:
    return {
        name: (mode, owner, SECRET.sub(b"$6$...", content))
        for name, (mode, owner, content) in listing(tree).items()
        if not name.startswith(PLACES)
        and not (name.startswith("etc/") and name.endswith("-"))
        and not name.startswith("etc/ssh/ssh_host_")
    }


def check(one: Bench, wanted: Path, what: str) -> None:
    """A run that provisions: Ready in the ledger, and the machine that was asked for."""
    ran = one.agent()
    assert ran.status == 0, f"{what}: {ran.err}"
    assert [told.kind for told in one.fabric.ledger.verdicts] == ["ready"], f"{what}: {ran.err}"
    assert one.state("provisioned").exists(), what
    assert comparable(one.tree) == comparable(wanted), what


def test_the_files_are_these(wanted: Path) -> None:
    vm_id = VM.id
    kept = {f"var/lib/azure-init/{vm_id}.{kind}" for kind in ("journal", "saved", "pending")}
    assert kept | {"var/lib/azure-init/lock", "var/log/azure-init.log"} <= set(ours(wanted))


# ---- the readers, at every byte


@pytest.mark.parametrize("kind", ["journal", "saved", "pending"])
def test_a_damaged_record_is_absent_or_says_the_same(wanted: Path, tmp_path: Path, kind: str) -> None:
    """No truncation, no flipped bit and no lost block is ever taken for another content."""
    machine = Machine(root=str(tmp_path), environ={})
    instance = Instance(data_dir="/data", vm_id=VM.id)
    (tmp_path / "data").mkdir()
    path = tmp_path / instance.path(kind)[1:]
    whole = (wanted / "var/lib/azure-init" / path.name).read_bytes()

    def remembered() -> set[str]:
        if kind == "journal":
            journal = read_journal(machine, instance.path("journal"))
            assert clear_leftovers(machine, journal) == ()
            return set(journal.done)
        if kind == "pending":
            pending = read_pending(machine, instance)
            return {"null" if pending is None else repr(pending)}
        saved = read_saved(machine, instance.path("saved"))
        secrets = (
            [] if saved is None else [secret and secret.reveal() for secret in (saved.password_hash, saved.custom_data)]
        )
        return {"null" if saved is None else f"{saved!r} {secrets}"}

    path.write_bytes(whole)
    said = remembered()
    assert said not in (set(), {"null"})
    for damaged in damages(whole):
        path.write_bytes(damaged)
        assert remembered() <= {*said, "null"}, damaged


def damages(whole: bytes) -> Iterator[bytes]:
    for at in range(len(whole)):
        yield whole[:at]
        for bit in range(8):
            yield whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
    for at in range(0, len(whole), 64):
        yield whole[:at] + bytes(64) + whole[at + 64 :]
    yield bytes(4096)


# ---- the program


def test_the_program_provisions_whatever_byte_is_damaged(bench: Benches, wanted: Path) -> None:
    points = [
        (name, at, bit)
        for name in ours(wanted)
        for at in range((wanted / name).stat().st_size)
        for bit in (-1, *range(8))
    ]
    # A random sample alone would be of the longest file.
    chosen = [point for name in ours(wanted) for point in sample([point for point in points if point[0] == name], 3)]
    for name, at, bit in chosen:
        one = copied(bench, wanted)
        path = one.tree / name
        whole = path.read_bytes()
        path.write_bytes(whole[:at] if bit < 0 else whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        check(one, wanted, f"{name}: {'cut off' if bit < 0 else f'bit {bit} flipped'} at {at} (seed {SEED})")
        one.fabric.stop()
        if ALL:
            shutil.rmtree(one.directory)


TEXTS = {
    "empty": b"",
    "zeros": bytes(4096),
    "not UTF-8": b"\xff\xfe{}\n",
    "torn in a string": b'{"done',
    "a list": b"[1]\n",
    "a number": b"3\n",
    "null": b"null\n",
    "deep": b"[" * 100_000 + b"\n" + b'{"done":' * 100_000,
    "a huge number": b'{"pid":' + b"9" * 5000 + b"}\n" + b'{"locks":["/etc/passwd.lock"],"pid":' + b"9" * 400 + b"}\n",
    "infinite": b'{"run":1e999,"crc32":1e999,"pid":1e999,"locks":["/etc/passwd.lock"]}\n',
    "a lone surrogate": b'{"username":"\\ud800","hostname":"\\udfff","done":"\\ud800","failure":"\\ud800"}\n',
    "nulls": b'{"done":null,"locks":null,"temporaries":null,"pid":null,"boot":null,"end":null,"verdict":null,'
    b'"failure":null,"username":null,"keys":null,"key_pairs":null,"thumbprints":null,"password_hash":null,"has_password":null}\n',
    "other types": b'{"done":["x"],"locks":{"a":1},"temporaries":3,"pid":"1","boot":[],"verdict":["ready"],'
    b'"failure":{"a":1},"username":["x"],"hostname":7,"keys":[["a"],3],"key_pairs":"ab","thumbprints":[[1,2]],"password_hash":"x",'
    b'"custom_data":{"base64":7},"has_password":"yes","disable_password":"no"}\n',
    "other types inside": b'{"locks":[null,3,["/etc/passwd.lock"]],"temporaries":[null,{}],"pid":-1,"keys":[[null,3]],'
    b'"password_hash":{"base64":"***"},"custom_data":{"other":1}}\n',
    "an object as a step": b'{"done":{"a":[]}}\n{"done":[[]]}\n',
}


@pytest.mark.parametrize("text", TEXTS)
def test_the_program_provisions_whatever_its_files_say(bench: Benches, wanted: Path, text: str) -> None:
    for name in sample(ours(wanted), 4 if text != "other types" else 100):
        one = copied(bench, wanted)
        (one.tree / name).write_bytes(TEXTS[text])
        check(one, wanted, f"{name} is {text}")
        one.fabric.stop()


@pytest.mark.parametrize("kind", ["directory", "full directory", "dangling link", "link", "pipe", "link to itself"])
def test_the_program_provisions_whatever_stands_in_the_place_of_its_files(
    bench: Benches, wanted: Path, kind: str
) -> None:
    # The pools are Hyper-V's: a link is followed there, and the host reads whatever it finds.
    for name in sample([name for name in ours(wanted) if "hyperv" not in name], 5):
        one = copied(bench, wanted)
        path = one.tree / name
        path.unlink()
        if kind.endswith("directory"):
            path.mkdir()
            if kind.startswith("full"):
                (path / "x").write_text("x")
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            targets = {"link": "/etc/hosts", "dangling link": "/nowhere", "link to itself": path.name}
            path.symlink_to(targets[kind])
        check(one, wanted, f"{name} is a {kind}")
        one.fabric.stop()


# ---- what a journal can make the agent remove


PRECIOUS = ("/etc/passwd", "/etc/shadow", "/etc/passwd.lock", "/home/.x.azure-init~/../../etc/hosts", "etc/hosts")


@pytest.mark.parametrize("path", PRECIOUS)
@pytest.mark.parametrize("key", ["temporaries", "locks"])
def test_a_journal_removes_nothing_but_what_a_run_leaves(bench: Benches, path: str, key: str) -> None:
    one = bench(expect=READY)
    before = listing(one.tree)
    entry: dict[str, object] = {"run": 1.0, "boot": "another", "pid": 4242, "temporaries": [], "locks": []}
    (one.tree / "etc/passwd.lock").write_text("1\0")  # held by a process of somebody else
    one.data.mkdir(parents=True, exist_ok=True)
    one.state("journal").write_text(json.dumps({**entry, key: [path, path + "\0", "", "/", ".."]}) + "\n")
    machine = Machine(root=str(one.tree), environ={})
    assert clear_leftovers(machine, read_journal(machine, f"/var/lib/azure-init/{one.fabric.vm.id}.journal")) == ()
    assert {name for name in before if name not in listing(one.tree)} == set()
