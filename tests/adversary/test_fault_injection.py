"""A fault at any system call that changes something, in any thread or child; then a run without one.

The first run's verdict is true: Ready only if the machine is complete, a failure only with its cause, or nothing at
all. The second run arrives at the same machine and leaves nothing behind.

strace counts for each thread and child by itself: the n-th call of every one of them fails. Where a run has no such
call it is a run without a fault, and has to be as good as one.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from fakeazure import Expect, Vm
from fakeazure.platform.events import Told
from support.bench import PYTHON, SRC, Bench, Benches
from support.bounds import SEED, sample
from support.need import need
from support.trees import listing

MADE = "link,linkat,symlink,symlinkat,mkdir,mkdirat"
RENAMED = "rename,renameat,renameat2,unlink,unlinkat"
ADJUSTED = "chmod,fchmod,fchmodat,chown,fchown,fchownat,lchown,ftruncate,setxattr,fsetxattr"
SYNCED = "fsync,fdatasync,syncfs"
WRITTEN = "write,pwrite64"
STARTED = "clone,clone3,vfork"
CALLS = {
    "KILL": f"{WRITTEN},{MADE},{RENAMED},{ADJUSTED},{SYNCED},sendto",
    "ENOSPC": f"{WRITTEN},{MADE},rename,renameat,{SYNCED}",
    "EIO": f"{WRITTEN},{MADE},{RENAMED},{ADJUSTED},{SYNCED}",
    "EROFS": f"{MADE},{RENAMED},{ADJUSTED}",
    "EINTR": f"{WRITTEN},{SYNCED}",
    "EDQUOT": f"{WRITTEN},{MADE}",
    "EAGAIN": STARTED,
}
CREATED = ("ENOSPC", "EIO", "EROFS", "EMFILE", "EACCES")
CAUSES = {
    "ENOSPC": "No space left on device",
    "EIO": "Input/output error",
    "EROFS": "Read-only file system",
    "EINTR": "Interrupted system call",
    "EDQUOT": "Disk quota exceeded",
    "EMFILE": "Too many open files",
    "EAGAIN": "cannot start a thread",
    "EACCES": "Permission denied",
}
VM = Vm(password="correct horse", disable_password=False, custom_data="#!/bin/sh\n")
FEW = 12


def made(bench: Benches) -> Bench:
    one = bench(vm=VM, expect=Expect(verdict="any"))
    one.install_sshd()
    (one.tree / "etc/waagent.conf").touch()
    return one


def run(one: Bench, *options: str) -> int:
    agent = [PYTHON, "-B", "-m", "azureinit", "--config", str(one.config), "--root", str(one.tree)]
    environ = {"PATH": f"{one.tools}:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(SRC)}
    ran = subprocess.run(["strace", "-f", "-qq", *options, *agent], env=environ, capture_output=True, timeout=120)
    assert b"Traceback" not in ran.stderr, ran.stderr.decode()
    return ran.returncode


def machine(tree: Path, *, late: bool = True) -> Mapping[str, tuple[str, str, bytes]]:
    """Less what tells the history of a run; `late`: with what is made after Ready."""
    return {
        name: (mode, owner, re.sub(rb"\$6\$[^:]*", b"$6$...", content))
        for name, (mode, owner, content) in listing(tree).items()
        if not name.startswith(("var/lib/azure-init/", "var/log/"))
        # What an account file was before its last change depends on how many runs it took.
        and not (name.startswith("etc/") and name.endswith("-"))
        and (late or "rsa_key" not in name)
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A run without a fault, and every call that it made."""
    need("strace")
    benches = Benches(tmp_path_factory.mktemp("whole"))
    one = made(benches)
    trace = one.directory / "trace"
    assert run(one, "-o", str(trace), "-e", f"trace=openat,{STARTED},{CALLS['KILL']}") == 0
    one.fabric.stop()
    return one


def points(one: Bench, calls: str) -> list[tuple[str, int]]:
    """Each call, and how often one thread or child made it at most."""
    found = re.findall(r"^(\d+) +(\w+)\(", (one.directory / "trace").read_text(), flags=re.MULTILINE)
    most: Counter[str] = Counter()
    for (_thread, call), times in Counter(found).items():
        most[call] = max(most[call], times)
    return [(call, n) for call in calls.split(",") for n in range(1, most[call] + 1)]


def check(one: Bench, whole: Bench, fault: str, what: str) -> None:
    """After the first run: its verdict, and a second one."""
    verdicts = one.fabric.ledger.verdicts
    assert len({told.kind for told in verdicts}) <= 1, f"{what}: {verdicts}"
    for told in verdicts:
        if told.kind == "ready":
            assert machine(one.tree, late=False) == machine(whole.tree, late=False), f"{what}: Ready, and not whole"
        else:
            assert names_cause(told, fault), f"{what}: {told}"
    one.fabric.reboot()
    ran = one.agent()
    assert ran.status == 0, f"{what}: {ran.err}"
    assert machine(one.tree) == machine(whole.tree), what
    left = [name for name in machine(one.tree) if name.endswith(("~", ".lock", ".new")) and name != "etc/.pwd.lock"]
    left += [path.name for path in one.data.iterdir() if path.name.endswith("~")]
    assert left == [], what
    saved = one.state("saved")  # removed where it could not be written without the hash
    assert not saved.exists() or b"password_hash" not in saved.read_bytes(), what
    assert one.state("provisioned").exists(), what
    one.fabric.stop()


def names_cause(told: Told, fault: str) -> bool:
    """The kernel's word, or the tool that failed: a child tells its own end."""
    return CAUSES.get(fault, "\0") in str(told) or "ssh-keygen" in str(told)


@pytest.mark.parametrize("fault", CALLS)
def test_a_fault_anywhere_is_told_honestly_and_got_over(bench: Benches, whole: Bench, fault: str) -> None:
    found = points(whole, CALLS[fault])
    assert len(found) > FEW or (fault == "EAGAIN" and found), "the run no longer changes anything?"
    how = "signal=KILL" if fault == "KILL" else f"error={fault}"
    for call, n in sample(found, FEW if fault != "KILL" else 2 * FEW):
        one = made(bench)
        run(one, "-o", "/dev/null", "-e", f"inject={call}:{how}:when={n}")
        check(one, whole, fault, f"{fault} at {call} {n} (seed {SEED})")


@pytest.mark.parametrize("fault", CREATED)
def test_a_file_that_cannot_be_made_is_told_honestly_and_got_over(bench: Benches, whole: Bench, fault: str) -> None:
    """By its path: most files that are opened are the interpreter's own."""
    text = (whole.directory / "trace").read_text()
    opened = re.findall(r'openat\([^,]*, "([^"]*)", [^,)]*O_CREAT', text)
    paths = sorted({path[len(str(whole.tree)) :] for path in opened if path.startswith(str(whole.tree))})
    assert "/etc/.passwd.azure-init~" in paths
    for path in sample(paths, 4):
        one = made(bench)
        run(one, "-o", "/dev/null", "-P", f"{one.tree}{path}", "-e", f"inject=openat:error={fault}")
        check(one, whole, fault, f"{fault} at {path} (seed {SEED})")
