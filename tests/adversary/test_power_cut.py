"""A power cut at any instant: the files that Ready depends on, and the marker, are on the disk.

The machine's root lies on a loop device, /home on another one. While the agent runs, the devices' backing files are
copied: what is in them is what has left the page cache of the mounted file system. A copy is mounted by itself, which
replays its journal as a boot does. The kernel flushes by itself after seconds only, so that nothing is there by chance.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakeazure import Expect, Vm
from support.bench import PYTHON, SRC, Bench, Benches
from support.bounds import SEED, sample
from support.need import need, need_root, unfit
from support.trees import listing

MAKE = {"ext4": ("mkfs.ext4", "-q", "-F"), "xfs": ("mkfs.xfs", "-q", "-f")}
SIZES = {"ext4": 24 << 20, "xfs": 320 << 20}
READY = Expect(verdict="ready")
Make = Callable[..., "Disks"]
ACCOUNTS = ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")


class Device:
    """A file system in a file, mounted through a loop device that bypasses the page cache of that file."""

    def __init__(self, kind: str, place: Path, name: str) -> None:
        self.kind, self.image, self.mount = kind, place / f"{name}.img", place / f"{name}.mount"
        self.mount.mkdir(parents=True)
        with self.image.open("wb") as image:
            image.truncate(SIZES[kind])
        subprocess.run((*MAKE[kind], str(self.image)), check=True, capture_output=True, timeout=60)
        self._mount(self.image, self.mount)

    def _mount(self, image: Path, where: Path) -> None:
        # Two copies of one XFS have one id; a commit of its own accord comes late enough not to help.
        options = {"ext4": "loop,commit=600", "xfs": "loop,nouuid"}[self.kind]
        subprocess.run(("mount", "-o", options, str(image), str(where)), check=True, timeout=60)

    def cut(self, copy: Path) -> None:
        """What a power cut would leave now."""
        subprocess.run(("cp", "--sparse=always", str(self.image), str(copy)), check=True, timeout=60)

    @contextlib.contextmanager
    def after(self, copy: Path) -> Iterator[Path]:
        where = copy.with_suffix(".mount")
        where.mkdir()
        self._mount(copy, where)
        try:
            yield where
        finally:
            subprocess.run(("umount", str(where)), check=True, timeout=60)

    def close(self) -> None:
        subprocess.run(("umount", str(self.mount)), check=False, timeout=60)


class Disks:
    """A machine on devices of its own, and what is left of it at each cut."""

    def __init__(self, one: Bench, kind: str, place: Path) -> None:
        self.one, self.place = one, place
        self.root, self.home = Device(kind, place, "root"), Device(kind, place, "home")
        subprocess.run(("cp", "-a", f"{one.tree}/.", str(self.root.mount)), check=True)
        shutil.rmtree(one.tree)
        one.tree.symlink_to(self.root.mount)
        (self.root.mount / "home").mkdir(exist_ok=True)
        subprocess.run(("mount", "--bind", str(self.home.mount), str(self.root.mount / "home")), check=True)
        os.sync()
        self.cuts, self.said = 0, place / "said"

    def start(self, *before: str, tree: Path | None = None) -> subprocess.Popen[bytes]:
        root = str(tree or self.root.mount)
        command = [*before, PYTHON, "-B", "-m", "azureinit", "--config", str(self.one.config), "--root", root]
        environ = {"PATH": f"{self.one.tools}:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(SRC)}
        with self.said.open("wb") as said:
            return subprocess.Popen(command, env=environ, stdout=said, stderr=said)

    def cut(self) -> tuple[Path, Path]:
        self.cuts += 1
        copies = self.place / f"cut-{self.cuts}-root.img", self.place / f"cut-{self.cuts}-home.img"
        for device, copy in zip((self.root, self.home), copies, strict=True):
            device.cut(copy)
        return copies

    @contextlib.contextmanager
    def after(self, copies: tuple[Path, Path]) -> Iterator[dict[str, tuple[str, str, bytes]]]:
        with self.root.after(copies[0]) as root, self.home.after(copies[1]) as home:
            yield {**listing(root), **{f"home/{name}": entry for name, entry in listing(home).items()}}

    def close(self) -> None:
        subprocess.run(("umount", str(self.root.mount / "home")), check=False, timeout=60)
        self.root.close()
        self.home.close()


@pytest.fixture(params=["ext4", "xfs"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    need_root()
    need("losetup")
    need("strace")
    need(MAKE[found][0])
    if found not in Path("/proc/filesystems").read_text().split():
        unfit(f"this kernel has no {found}")
    return found


@pytest.fixture
def disks(bench: Benches, tmp_path: Path, kind: str) -> Iterator[Make]:
    made: list[Disks] = []

    def make(**options: Any) -> Disks:
        one = bench(**options)
        one.install_sshd()
        made.append(Disks(one, kind, tmp_path / f"disks-{len(made)}"))
        return made[-1]

    yield make
    for one in made:
        one.close()


def vouched(found: dict[str, tuple[str, str, bytes]], one: Bench) -> dict[str, tuple[str, str, bytes]]:
    """What Ready promises: not the log, not the pool, and the journal as far as it tells what was done."""
    wanted = ("etc/", "home/", f"var/lib/azure-init/{one.fabric.vm.id}.saved")
    return {
        name: entry
        for name, entry in found.items()
        if name.startswith(wanted)
        and not name.endswith((".lock", "-"))
        and "rsa_key" not in name
        and "lost+found" not in name
    }


VM = {
    "keys": Vm(),
    "password": Vm(password="correct horse", disable_password=False, custom_data="#!/bin/sh\n"),
}
HEALTH = "/provisioning/health"


# The platform thinks for as long as a copy may take: nothing that follows an accepted Ready can help.
THINKING = [{"path": HEALTH, "answers": ["ok", "slow 20s"]}]


def cut_when_ready_leaves(machine: Disks) -> tuple[Path, Path]:
    one, trace = machine.one, machine.place / "sent"
    one.configure(wireserver={"read_timeout_secs": 30, "total_retry_timeout_secs": 60})
    run = machine.start("strace", "-f", "-qq", "-o", str(trace), "-e", "trace=sendto")
    try:
        while not trace.exists() or trace.read_text().count(f"POST {HEALTH}") < 2:
            assert run.poll() is None, machine.said.read_text()
            time.sleep(0.01)
        return machine.cut()
    finally:
        end(run)


@pytest.mark.parametrize("vm", VM)
def test_what_ready_vouches_for_survives(disks: Make, vm: str) -> None:
    machine = disks(vm=VM[vm], expect=READY, faults=THINKING)
    one = machine.one
    copies = cut_when_ready_leaves(machine)
    now = vouched(listing(machine.root.mount), one)
    assert {f"etc/{name}" for name in ACCOUNTS} <= set(now)
    assert {"home/azureuser/.profile", "etc/ssh/ssh_host_ed25519_key.pub", "etc/hostname"} <= set(now)
    with machine.after(copies) as found:
        assert vouched(found, one) == now
        assert f"var/lib/azure-init/{one.fabric.vm.id}.journal" in found


def test_a_second_run_in_the_same_boot_vouches_for_what_the_first_one_did(disks: Make) -> None:
    """The first is killed when everything is done and nothing is told: the second finds nothing left to do."""
    machine = disks(expect=READY, faults=[{"path": HEALTH, "answers": ["ok", "ok", "slow 20s"]}])
    one = machine.one
    trace = one.directory / "trace"
    etc = machine.root.mount / "etc"
    # The first directory that is synced: all steps are taken then.
    run = machine.start(
        "strace", "-f", "-qq", "-o", str(trace), "-P", str(etc), "-e", "inject=fsync:signal=KILL:when=1"
    )
    run.wait(timeout=60)
    copies = cut_when_ready_leaves(machine)
    now = vouched(listing(machine.root.mount), one)
    with machine.after(copies) as found:
        assert vouched(found, one) == now


def test_the_marker_survives_a_power_cut_a_moment_after_ready(disks: Make) -> None:
    """The RSA host key takes its time: the marker does not wait for it."""
    machine = disks(expect=READY)
    one = machine.one
    keygen = one.tools / "ssh-keygen"
    keygen.write_text(keygen.read_text().replace("#!/bin/sh\n", '#!/bin/sh\n[ "$3" != rsa ] || sleep 5\n'))
    run = machine.start()
    while not one.fabric.ledger.wait(lambda ledger: bool(ledger.verdicts), timeout=0.2):
        assert run.poll() is None, machine.said.read_text()
    time.sleep(0.2)
    copies = machine.cut()
    run.kill()
    run.wait()
    with machine.after(copies) as found:
        assert f"var/lib/azure-init/{one.fabric.vm.id}.provisioned" in found
        assert "etc/ssh/ssh_host_rsa_key" not in found


CHANGING = "fsync,rename,renameat,mkdir,mkdirat,link,unlink,fchmod"


def test_cut_anywhere_the_next_boot_arrives_at_the_same_machine(disks: Make) -> None:
    """The agent ends at a system call, and so does the power; the next boot's agent runs on the copies."""
    whole = disks(vm=VM["password"], expect=READY)
    trace = whole.one.directory / "trace"
    command = ("strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={CHANGING}")
    assert whole.start(*command).wait(timeout=60) == 0
    wanted = settled(listing(whole.root.mount))
    calls = Counter(re.findall(r"^\d+ +(\w+)\(", trace.read_text(), flags=re.MULTILINE))
    points = [(call, n) for call, times in sorted(calls.items()) for n in range(1, times + 1)]
    assert len(points) > 50
    whole.close()
    for call, n in sample(points, 5):
        machine = disks(vm=VM["password"], expect=READY)
        run = machine.start("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={n}")
        run.wait(timeout=60)
        copies = machine.cut()
        machine.close()
        what = f"cut before {call} {n} (seed {SEED})"
        after = machine.root.after(copies[0]), machine.home.after(copies[1])
        with after[0] as root, after[1] as home, bound(home, root / "home"):
            machine.one.fabric.reboot()
            assert machine.start(tree=root).wait(timeout=60) == 0, what
            assert settled(listing(root)) == wanted, what


def settled(found: dict[str, tuple[str, str, bytes]]) -> dict[str, tuple[str, str, bytes]]:
    return {
        name: (mode, owner, re.sub(rb"\$6\$[^:]*", b"$6$...", content))
        for name, (mode, owner, content) in found.items()
        if name.startswith(("etc", "home")) and not name.endswith("-") and "lost+found" not in name
    }


def end(run: subprocess.Popen[bytes]) -> None:
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    with contextlib.suppress(OSError):
        for pid in children.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    run.kill()
    run.wait()


@contextlib.contextmanager
def bound(what: Path, where: Path) -> Iterator[None]:
    subprocess.run(("mount", "--bind", str(what), str(where)), check=True, timeout=60)
    try:
        yield
    finally:
        subprocess.run(("umount", str(where)), check=True, timeout=60)
