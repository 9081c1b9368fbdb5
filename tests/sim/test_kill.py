"""SIGKILL at chosen system calls, then a second run to the same machine. tests/adversary tries every call."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fakeazure import Expect, Vm
from support.bench import PYTHON, SRC, Bench, Benches
from support.bounds import sample
from support.need import need
from support.trees import listing

CHANGING = (
    "write,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,chmod,fchmod,fchmodat,"
    "chown,fchown,fchownat,ftruncate,fsync,sendto"
)
KILLED = -9


def strace(one: Bench, *options: str) -> int:
    agent = [PYTHON, "-B", "-m", "azureinit", "--config", str(one.config), "--root", str(one.tree)]
    environ = {"PATH": f"{one.tools}:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(SRC)}
    ran = subprocess.run(["strace", "-qq", *options, *agent], env=environ, capture_output=True, timeout=60)
    return ran.returncode


def comparable(tree: Path) -> Mapping[str, tuple[str, str, bytes]]:
    """The machine, less what tells the history of a run, with the salt of the hash taken out."""
    return {
        name: (mode, owner, re.sub(rb"\$6\$[^:]*", b"$6$...", content))
        for name, (mode, owner, content) in listing(tree).items()
        if not name.startswith(("var/lib/azure-init/", "var/log/"))
        # What an account file was before its last change depends on how many runs it took.
        and not (name.startswith("etc/") and name.endswith("-"))
    }


def count(trace: Path, of: str = "") -> dict[str, int]:
    calls: dict[str, int] = {}
    for name in re.findall(rf"^(\w+)\({of}", trace.read_text(), flags=re.MULTILINE):
        calls[name] = calls.get(name, 0) + 1
    return calls


def test_killed_before_the_old_shadow_goes_the_next_run_leaves_nothing_of_roots_password(
    bench: Benches, tmp_path: Path
) -> None:
    need("strace")
    trace = tmp_path / "trace"
    assert strace(with_root_to_lock(bench()), "-o", str(trace), "-e", "trace=unlink") == 0
    removals = count(trace, of='"[^"]*/etc/shadow-"')["unlink"]
    assert removals > 1, "every edit of the file removes it, and so does the lock"
    for n in range(1, removals + 1):
        one = with_root_to_lock(bench(expect=Expect(verdict="ready")))
        old = str(one.tree / "etc/shadow-")
        assert strace(one, "-o", "/dev/null", "-P", old, "-e", f"inject=unlink:signal=KILL:when={n}") == KILLED
        assert (one.read("etc/shadow").startswith("root:*:")) == (n == removals)
        one.fabric.reboot()
        assert one.agent().status == 0
        assert [name for name, entry in listing(one.tree).items() if b"$6$root" in entry[2]] == []
        one.fabric.stop()


def with_root_to_lock(one: Bench) -> Bench:
    one.configure(user={"lock_root": True})
    shadow = one.tree / "etc/shadow"
    shadow.write_text(shadow.read_text().replace("root:*:", "root:$6$root$hash:"))
    return one


def test_a_machine_that_stays_as_it_is_stays_so_wherever_a_run_is_killed(bench: Benches, tmp_path: Path) -> None:
    need("strace")
    whole, trace = bench(vm=Vm(name="web-1")), tmp_path / "trace"
    provisioned_as_another(whole)
    assert strace(whole, "-o", str(trace), "-e", f"trace={CHANGING}") == 0
    wanted = comparable(whole.tree)
    points = [(call, n) for call, times in sorted(count(trace).items()) for n in range(1, times + 1)]
    for call, n in sample(points, 12):
        one = bench(vm=whole.fabric.vm, expect=Expect(verdict="ready"))
        provisioned_as_another(one)
        if strace(one, "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={n}") == KILLED:
            one.fabric.reboot()
            assert one.agent().status == 0, f"after a kill before {call} {n}"
        assert comparable(one.tree) == wanted, f"after a kill before {call} {n}"
        one.fabric.stop()
    assert "web-1" not in whole.read("etc/hostname")


def provisioned_as_another(one: Bench) -> None:
    one.configure(platform={"changed_vm_id": "keep"})
    library = one.tree / "var/lib/waagent"
    library.mkdir()
    (one.tree / "etc/waagent.conf").touch()
    (library / "provisioned").write_text("c0ffee00-1111-4222-8333-444444444444")
    for name in ("Protocol", "GoalState.1.xml", "ovf-env.xml"):
        (library / name).write_text("x")


def test_killed_anywhere_no_host_key_of_the_image_stays_and_none_is_made_again_later(
    bench: Benches, tmp_path: Path
) -> None:
    """By default: a run that died half-way through the keys is finished by the next one, and by no other."""
    need("strace")
    calls = "unlink,write,fsync"
    whole, trace = with_image_keys(bench()), tmp_path / "trace"
    assert strace(whole, "-o", str(trace), "-e", f"trace={calls}") == 0
    points = [(call, n) for call, times in sorted(count(trace).items()) for n in range(1, times + 1)]
    removals = count(trace, of='"[^"]*/etc/ssh/ssh_host_')["unlink"]
    assert removals >= 6, "private and public halves of three keys"
    for call, n in (*((call, n) for call, n in points if call == "unlink"), *sample(points, 6)):
        one = with_image_keys(bench(expect=Expect(verdict="ready")))
        if strace(one, "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={n}") == KILLED:
            one.fabric.reboot()
            assert one.agent().status == 0, f"after a kill before {call} {n}"
        keys = image_keys(one)
        assert len(keys) >= 3 and not [name for name in keys if IMAGE in keys[name][0]], (
            f"after a kill before {call} {n}"
        )
        one.state("provisioned").unlink()
        one.fabric.reboot()
        assert one.agent().status == 0
        assert image_keys(one) == keys, f"made again after a kill before {call} {n}"
        one.fabric.stop()


IMAGE = b"of the image"


def with_image_keys(one: Bench) -> Bench:
    one.install_sshd()
    for kind in ("ed25519", "ecdsa", "rsa"):
        key = one.tree / f"etc/ssh/ssh_host_{kind}_key"
        key.write_bytes(b"-----BEGIN OPENSSH PRIVATE KEY-----\n%s\n-----END OPENSSH PRIVATE KEY-----\n" % IMAGE)
        key.chmod(0o600)
        key.with_suffix(".pub").write_bytes(b"ssh-%s AAAA %s\n" % (kind.encode(), IMAGE))
    return one


def image_keys(one: Bench) -> dict[str, tuple[bytes, int]]:
    found = (one.tree / "etc/ssh").glob("ssh_host_*_key")
    return {path.name: (path.read_bytes(), path.stat().st_ino) for path in found}
