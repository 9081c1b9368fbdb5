"""What the tests of deprovision share."""

from __future__ import annotations

import io
import os
from pathlib import Path

from azureinit.cli.deprovision import main
from azureinit.config.load import load
from azureinit.machine import Machine
from support.trees import make_tree

GONE = {
    "etc/hostname",
    "etc/resolv.conf",
    *(f"etc/ssh/ssh_host_{kind}_key{end}" for kind in ("ed25519", "rsa") for end in ("", ".pub")),
    "var/lib/dbus/machine-id",
    "var/lib/dhcp/dhclient.eth0.leases",
    "var/lib/NetworkManager/internal-1-eth0.lease",
    "var/lib/systemd/random-seed",
    *(f"var/lib/cloud/{name}" for name in ("instance", "instances", "instances/i-1", "instances/i-1/user-data.txt")),
    *(f"var/lib/waagent/{name}" for name in ("provisioned", "events", "events/1.tld")),
    *(f"var/lib/azure-init/{name}" for name in ("1234.provisioned", "1234.saved", "custom-data.log")),
    "var/log/azure-init.log",
    "var/log/waagent.log.1",
    *(f"var/log/{name}{end}" for name in ("cloud-init.log", "cloud-init-output.log") for end in ("", ".1")),
    *(f"var/log/azure/{name}" for name in ("extension", "extension/out.log")),
    "root/.bash_history",
    "home/joe/.bash_history",
}
CHANGED = {"etc/hosts", "etc/machine-id", "var/lib/hyperv/.kvp_pool_1"}


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def add_user(root: Path, name: str, uid: int, home: str = "") -> None:
    lines = {
        "passwd": f"{name}:x:{uid}:{uid}::{home or f'/home/{name}'}:/bin/sh\n",
        "shadow": f"{name}:$6$salt$hash:19700::::::\n",
        "group": f"{name}:x:{uid}:\n",
        "gshadow": f"{name}:!::\n",
        "subuid": f"{name}:100000:65536\n",
        "subgid": f"{name}:100000:65536\n",
    }
    for file, line in lines.items():
        with (root / "etc" / file).open("a") as out:
            out.write(line)
    for file in ("group", "gshadow"):
        path = root / "etc" / file
        path.write_text(path.read_text().replace("sudo:x:27:\n", f"sudo:x:27:eve,{name}\n"))
        path.write_text(path.read_text().replace("sudo:*::\n", f"sudo:*:{name}:eve,{name}\n"))


def own(directory: Path, uid: int) -> None:
    if os.geteuid() == 0:
        for path in (directory, *directory.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)


def run(tree: Path, *argv: str, answer: str = "", **options: str) -> int:
    machine = Machine(root=str(tree), environ={})
    return main(
        list(argv),
        machine=machine,
        configured=lambda: load(machine, config=None, groups=None).config,
        answers=io.StringIO(answer),
        **options,
    )


def make_used_machine(place: Path) -> Path:
    """A machine with the state that two years of service leave behind."""
    root = make_tree(place)
    put(root, "etc/hostname", "web-1\n")
    put(root, "etc/hosts", "127.0.0.1\tlocalhost\n127.0.1.1\tweb-1.corp web-1\n127.0.1.1\tother\n::1\tlocalhost\n")
    put(root, "etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    put(root, "etc/resolv.conf", "nameserver 10.0.0.1\n")
    put(root, "etc/sudoers.d/azure-init-user", "joe ALL=(ALL) NOPASSWD: ALL\n")
    for kind in ("ed25519", "rsa"):
        put(root, f"etc/ssh/ssh_host_{kind}_key", "secret")
        put(root, f"etc/ssh/ssh_host_{kind}_key.pub", "public")
    put(root, "etc/ssh/sshd_config", "UsePAM yes\n")
    put(root, "var/lib/dbus/machine-id", "0123456789abcdef0123456789abcdef\n")
    put(root, "var/lib/dhcp/dhclient.eth0.leases", "lease")
    put(root, "var/lib/NetworkManager/internal-1-eth0.lease", "lease")
    put(root, "var/lib/NetworkManager/NetworkManager.state", "state")
    put(root, "var/lib/systemd/random-seed", "seed")
    put(root, "var/lib/cloud/instances/i-1/user-data.txt", "data")
    put(root, "var/lib/cloud/seed/nocloud/user-data", "the image's own")
    (root / "var/lib/cloud/instance").symlink_to("/var/lib/cloud/instances/i-1")
    put(root, "var/lib/hyperv/.kvp_pool_1", "words")
    put(root, "var/lib/hyperv/.kvp_pool_2", "")
    put(root, "var/lib/waagent/provisioned", "id")
    put(root, "var/lib/waagent/events/1.tld", "{}")
    put(root, "var/lib/azure-init/1234.provisioned", "")
    put(root, "var/lib/azure-init/1234.saved", "{}")
    put(root, "var/lib/azure-init/custom-data.log", "words of somebody's program")
    put(root, "var/log/azure-init.log", "log")
    put(root, "var/log/waagent.log.1", "log")
    for name in ("cloud-init.log", "cloud-init-output.log"):
        put(root, f"var/log/{name}", "log")
        put(root, f"var/log/{name}.1", "what an earlier command printed")
    put(root, "var/log/azure/extension/out.log", "log")
    put(root, "var/log/syslog", "the image builder's own business")
    put(root, "root/.bash_history", "rm -rf /\n")
    add_user(root, "joe", 1000)
    put(root, "home/joe/.bash_history", "ls\n")
    put(root, "home/joe/work/deep/file", "work")
    own(root / "home/joe", 1000)
    put(root, "var/spool/cron/crontabs/joe", "* * * * * true\n")
    return root
