"""One image policy on a real system: a Debian root under a layer, the agent, its sshd, and a login from outside.

Started as a program by `try_policy` in namespaces of its own (network, mounts, processes), so that sshd has port 22 and
the addresses of an Azure network, and nothing outlives it. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SRC = Path(__file__).parents[2] / "src"
ADDRESS, OUTSIDE = "10.0.0.4", "203.0.113.9"
PASSWORD = "Correct-Horse-7"
# Short timeouts, so that no test waits for something that it does not test.
QUICK: dict[str, dict[str, Any]] = {"provisioning_media": {"wait_secs": 2}, "sources": {"grace_secs": 1}}
MOUNT = """
set -e
ip link set lo up
ip address add 10.0.0.4/32 dev lo
ip address add 203.0.113.9/32 dev lo
mount -t tmpfs tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
mkdir -p "$2/root/usr/lib/azure-init"
mount --bind "$3" "$2/root/usr/lib/azure-init"
mount -t proc proc "$2/root/proc"
mount --rbind /dev "$2/root/dev"
mount -t tmpfs -o mode=755 tmpfs "$2/root/run"
"""


@dataclass
class Policy:
    """`setup`: shell in the image, before its first boot. `after`: shell after the agent, as later in a boot."""

    setup: str = ""
    password: bool = False
    key: bool = True
    key_type: str = "ed25519"
    key_bits: int = 0
    custom_data: str = ""
    required: str = "auto"
    port: int = 22
    after: str = ""
    config: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Tried:
    verdict: str  # ready or failed
    reason: str
    error: str
    doubts: str  # the warnings about logins in the success report
    logins: dict[str, bool]
    judged: str
    honest: bool
    said: str


def try_policy(policy: Policy, root: Path, agent: Path, place: Path, *, timeout: float = 120) -> Tried:
    place.mkdir(parents=True, exist_ok=True)
    spec = place / "policy.json"
    spec.write_text(json.dumps(asdict(policy)))
    command = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", sys.executable, __file__)
    environ = {**os.environ, "PYTHONPATH": f"{SRC}:{SRC.parent / 'tests'}"}
    words = (*command, str(spec), str(root), str(agent), str(place))
    ran = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return Tried(**json.loads(ran.stdout.splitlines()[-1]))


def main(spec: str, lower: str, agent: str, place: str) -> None:
    from fakeazure import Expect, Fabric, Vm
    from fakeazure.judge import judge
    from fakeazure.machines.login import prove_login
    from fakeazure.platform.events import Login
    from fakeazure.platform.report import parse_report

    policy = Policy(**json.loads(Path(spec).read_text()))
    top = Path(place) / "top"
    top.mkdir()
    subprocess.run(["sh", "-c", MOUNT, "sh", lower, str(top), agent], check=True, stdout=sys.stderr)
    root, work = top / "root", top / "platform"
    work.mkdir()
    private = work / "id"
    bits = ["-b", str(policy.key_bits)] if policy.key_bits else []
    keygen = ["ssh-keygen", "-q", "-t", policy.key_type, *bits, "-N", "", "-C", "test", "-f", str(private)]
    subprocess.run(keygen, check=True, stdin=subprocess.DEVNULL)
    public = private.with_suffix(".pub").read_text().strip()
    (root / "given.pub").write_text(public + "\n")
    enter(root, "sh", "-ec", policy.setup, check=True)
    vm = Vm(
        keys=(public,) if policy.key else (),
        password=PASSWORD if policy.password else None,
        custom_data=policy.custom_data or None,
    )
    pools = root / "var/lib/hyperv"
    pools.mkdir(parents=True)
    with Fabric(vm=vm, expect=Expect(verdict="either"), directory=work, pools=pools) as fabric:
        medium = fabric.write_media(root / "medium.iso")
        assert medium is not None
        required: Any = {"true": True, "false": False}.get(policy.required, policy.required)
        tables = {**QUICK, "access": {"required": required}, **policy.config}
        text = fabric.config_text(**tables).replace(str(medium), "/medium.iso").replace(str(pools), "/var/lib/hyperv")
        (root / "azure-init.toml").write_text(text)
        ran = enter(root, "/usr/bin/python3", "-m", "azureinit", "--config", "/azure-init.toml", check=False)
        told = fabric.ledger.verdicts
        assert len(told) == 1, ran.stdout + ran.stderr
        enter(root, "sh", "-ec", "mkdir -p /run/sshd; " + policy.after, check=True)
        with sshd(root, policy.port):
            prove_login(
                fabric,
                address=ADDRESS,
                port=policy.port,
                private_key=private if policy.key else None,
                directory=work,
                timeout=3,
            )
        events = fabric.ledger.events
        judged = judge(events)
        report = parse_report(told[0].description)
    doubts = " ".join(line for line in (ran.stdout + ran.stderr).splitlines() if "login azureuser" in line)
    logins = {event.how: event.ok for event in events if isinstance(event, Login)}
    tried = Tried(
        verdict=told[0].kind,
        reason=report.get("reason", ""),
        error=" ".join(report.values()),
        doubts=doubts if told[0].kind == "ready" else "",
        logins=logins,
        judged=judged.state,
        honest=judged.ok,
        said=ran.stdout + ran.stderr + str(judged) + str([str(event) for event in events[-3:]]),
    )
    print(json.dumps(asdict(tried)))


def enter(root: Path, *command: str, check: bool) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": "/usr/lib/azure-init", "LC_ALL": "C.UTF-8"}
    words = ("chroot", str(root), *command)
    return subprocess.run(
        words, env=environ, check=check, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100
    )


class sshd:  # noqa: N801 - used as a block
    """Started as by its unit; an sshd that does not start is not an error here."""

    def __init__(self, root: Path, port: int) -> None:
        words = ("chroot", str(root), "/usr/sbin/sshd", "-D", "-e")
        log = open(root / "sshd.log", "w")  # noqa: SIM115 - the child's
        self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.port = f"{port:04X}"

    def __enter__(self) -> None:
        until = time.monotonic() + 5
        while time.monotonic() < until and self.child.poll() is None:
            lines = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
            if f":{self.port} " in lines:
                return
            time.sleep(0.02)

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        self.child.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
