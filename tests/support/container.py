"""A real Debian with a real systemd in a container: its root made once and kept, each boot on a fresh layer over it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from fakeazure.machines import cgroups
from support.need import need, unfit

PROJECT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("AZURE_INIT_TEST_CACHE", "/var/cache/azure-init-tests"))
PACKAGES = "systemd,systemd-sysv,dbus,openssh-server,sudo,python3,passwd,iproute2"
UBUNTUS = ("jammy", "noble")
# Removes what a gallery image lacks before its first boot, and disables questions on the console.
GENERALISE = """
rm -f "$1"/etc/ssh/ssh_host_* "$1"/var/lib/dbus/machine-id "$1"/var/lib/systemd/random-seed
: > "$1"/etc/machine-id
echo localhost > "$1"/etc/hostname
ln -sf /dev/null "$1"/etc/systemd/system/systemd-firstboot.service
"""
UNIT = """
[Unit]
Description=Provision this machine
Before=ssh.service ssh.socket systemd-user-sessions.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/azure-init
StandardOutput=journal+console
TimeoutStartSec=60

[Install]
WantedBy=multi-user.target
"""
# In private namespaces: the kernel removes the mounts and kills all processes when the first process ends.
BOOT = """
mkdir -p /run/systemd/nspawn && mount -t tmpfs tmpfs /run/systemd/nspawn || exit 1
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root" || exit 1
shift 2
exec systemd-nspawn "$@"
"""
BOOTED = 60.0
PAUSE = 0.02


def debian_root(suite: str, *extra: str) -> Path:
    """A generalised root file system, made at the first call on this machine; with `extra` packages in it."""
    packages = ",".join((PACKAGES, *extra))
    options = ["--variant=minbase", f"--include={packages}", f"--customize-hook={GENERALISE}"]
    if suite in UBUNTUS:
        options.append(f"--keyring={ubuntu_keys()}")
    recipe = hashlib.sha256(f"{packages}{GENERALISE}".encode()).hexdigest()[:12]
    return made_once("-".join((suite, *extra)), recipe, *options, suite)


def lay_agent(directory: Path, suite: str) -> Path:
    """A copy of the agent, compiled by that distribution's Python: compiling under emulation would take long."""
    shutil.copytree(PROJECT / "src/azureinit", directory / "azureinit", ignore=shutil.ignore_patterns("__pycache__"))
    # Compiled files that do not depend on the time stamps of the sources.
    options = ("-q", "--invalidation-mode", "unchecked-hash", "-s", "/mnt", "-p", "/usr/lib/azure-init")
    run_over(directory, suite, "python3", "-m", "compileall", *options, "/mnt/azureinit")
    return directory / "azureinit"


def run_over(directory: Path, suite: str, *command: str) -> None:
    """Runs a program of that distribution, with the directory mounted at /mnt."""
    script = 'mount --bind "$1" "$2/mnt" && root=$2 && shift 2 && exec chroot "$root" "$@"'
    words = ("unshare", "--mount", "sh", "-c", script, "sh", str(directory), str(debian_root(suite)), *command)
    subprocess.run(words, check=True, capture_output=True)


def ubuntu_keys() -> Path:
    """Ubuntu's archive keys. Debian packages them, but not in every release."""
    root = made_once("ubuntu-keys", "1", "--variant=extract", "--include=ubuntu-keyring", "trixie")
    return root / "usr/share/keyrings/ubuntu-archive-keyring.gpg"


def made_once(name: str, recipe: str, *words: str) -> Path:
    """The root that mmdebstrap makes from its options and a suite; cached until the recipe changes."""
    mmdebstrap = need("mmdebstrap")
    root = CACHE / f"{name}-{recipe}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            unfinished = CACHE / f"{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            # Its mounts end with it also where it is killed, and what it has left can be removed.
            argv = ("unshare", "--mount", mmdebstrap, "--quiet", *words, str(unfinished))
            ran = subprocess.run(argv, capture_output=True, text=True)
            if ran.returncode:
                unfit(f"no {name} root could be made: {ran.stderr[-500:]}")
            unfinished.rename(root)
    return root


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Container:
    """One machine. Until `boot` its disk is only the layer that `write` puts files on."""

    def __init__(self, lower: tuple[Path, ...], place: Path) -> None:
        self.lower, self.place = ":".join(map(str, lower)), place
        self.layer = place / "upper"
        for name in ("upper", "work", "root"):
            (place / name).mkdir()
        self.port = free_port()
        self.console = place / "console"
        self._groups = cgroups.below_ours(f"azure-init-test-{secrets.token_hex(5)}")
        self._outer: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self.write("etc/ssh/sshd_config.d/90-port.conf", f"Port {self.port}\nListenAddress 127.0.0.1\n")
        # As in vendors' cloud images; the platform may ask for the opposite.
        self.write("etc/ssh/sshd_config.d/50-vendor.conf", "PasswordAuthentication no\n")

    def write(self, name: str, text: str, *, mode: int = 0o644) -> None:
        path = self.layer / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def read(self, name: str) -> str:
        """A file of the running machine."""
        return Path(f"/proc/{self._pid}/root", name).read_text()

    def files(self, pattern: str) -> list[Path]:
        return sorted(Path(f"/proc/{self._pid}/root").glob(pattern))

    def prepare(self, *argv: str) -> None:
        """Changes the disk before the first boot."""
        script = 'mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root" || exit 1\n'
        script += 'root=$2/root; shift 2; exec chroot "$root" "$@"'
        command = ("unshare", "--mount", "sh", "-c", script, "sh", self.lower, str(self.place), *argv)
        subprocess.run(command, check=True, capture_output=True)

    def boot(self, *, agent: bool, bind: tuple[Path, ...] = ()) -> None:
        """Returns when systemd has started all units of the boot."""
        if agent:
            self.write("etc/systemd/system/azure-init.service", UNIT)
            wants = self.layer / "etc/systemd/system/multi-user.target.wants"
            wants.mkdir(parents=True, exist_ok=True)
            link = wants / "azure-init.service"
            link.unlink(missing_ok=True)
            link.symlink_to("/etc/systemd/system/azure-init.service")
        options = ["--boot", "--register=no", "--keep-unit", "--quiet", f"--directory={self.place}/root"]
        options += ["--machine=azure-init-test", "--console=pipe", "--resolv-conf=off", "--timezone=off"]
        options += [f"--bind-ro={path}" for path in bind]
        cgroups.make(self._groups)
        lone = (
            *cgroups.joining(self._groups),
            "setpriv",
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        )
        with self.console.open("wb") as console:
            self._outer = subprocess.Popen(
                (*lone, "sh", "-c", BOOT, "sh", self.lower, str(self.place), *options),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        self._pid = self._wait(self._find_init, "systemd did not start")
        self._wait(lambda: Path(f"/proc/{self._pid}/root/run/dbus/system_bus_socket").exists(), "no system bus")
        self.run("systemctl", "is-system-running", "--wait")

    def settled(self) -> None:
        """Returns when systemd has no jobs left, such as those of `systemctl --no-block`."""
        self._wait(lambda: not self.out("systemctl", "list-jobs", "--no-legend"), "jobs are left")

    def _find_init(self) -> int:
        assert self._outer is not None
        return find_init(self._outer.pid)

    def _wait(self, ready: Callable[[], int], otherwise: str) -> int:
        assert self._outer is not None
        until = time.monotonic() + BOOTED
        while not (found := ready()):
            if self._outer.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{otherwise}: {self.console.read_text(errors='replace')[-3000:]}")
            time.sleep(PAUSE)
        return found

    def run(
        self, *argv: str, user: str = "", before: tuple[str, ...] = (), timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program in the container, by default as root; `before`: a prefix of the command on the host."""
        return inside(self._pid, *argv, user=user, before=before, timeout=timeout)

    def out(self, *argv: str, user: str = "") -> str:
        ran = self.run(*argv, user=user)
        assert ran.returncode == 0, f"{argv}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout.strip()

    def ssh(
        self, user: str, *argv: str, key: Path | None = None, password: str = "", timeout: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """A login over SSH from outside, with the key or with the password."""
        options = {
            "BatchMode": "no" if password else "yes",
            "ConnectTimeout": "10",
            "ConnectionAttempts": "5",  # sshd accepts no connection for a moment while it reloads
            "GlobalKnownHostsFile": "/dev/null",
            "IdentitiesOnly": "yes",
            "NumberOfPasswordPrompts": "1",
            "PreferredAuthentications": "publickey" if key else "password,keyboard-interactive",
            "StrictHostKeyChecking": "accept-new",
            "UserKnownHostsFile": str(self.place / "known_hosts"),
        }
        command = ["ssh", "-F", "none", "-p", str(self.port), *(f"-o{name}={value}" for name, value in options.items())]
        command += ["-i", str(key)] if key else []
        ask = self.place / "ask"
        ask.write_text('#!/bin/sh\nprintf "%s\\n" "$ASKED_FOR"\n')
        ask.chmod(0o700)
        environ = {"PATH": os.environ["PATH"], "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
        return subprocess.run(
            (*command, f"{user}@127.0.0.1", *argv),
            env={**environ, "ASKED_FOR": password},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def stop(self) -> None:
        """Kills the machine at once, like a power cut."""
        if self._outer is None:
            return
        # Killing the first process ends the namespace; the outer process ends when everything in it is gone.
        for child in _children(self._outer.pid):
            os.kill(child, signal.SIGKILL)
        try:
            self._outer.wait(timeout=BOOTED)
        finally:
            self._outer.kill()
            self._outer.wait()
            self._outer = None
            cgroups.remove(self._groups)


def find_init(outer: int) -> int:
    """The host's PID of a container's first process: the systemd below `outer` that has PID 1 inside; 0: not yet."""
    pending = [outer]
    while pending:
        pid = pending.pop()
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if status.startswith("Name:\tsystemd\n"):
            return pid
        pending += _children(pid)
    return 0


def inside(
    init: int, *argv: str, user: str = "", before: tuple[str, ...] = (), timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Runs a program in the container of that first process."""
    spaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd")
    enter = [*before, "nsenter", f"--target={init}", *spaces]
    enter += ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "SYSTEMD_PAGER="]
    if user:
        enter += ["setpriv", f"--reuid={user}", "--clear-groups", "--"]
    return subprocess.run((*enter, *argv), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
