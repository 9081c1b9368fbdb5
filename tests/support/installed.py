"""Machines with the package installed: whole distributions, booted by their own systemd, the platform around them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import fakeazure
from fakeazure.platform.events import Event, Lease, Request, Told, read_events
from support.container import PROJECT, debian_root, find_init, inside, lay_agent

Found = TypeVar("Found")

NEEDED = ("systemd-nspawn", "mmdebstrap", "ip", "unshare", "nsenter", "setpriv", "ssh", "ssh-keygen", "dpkg-deb")
SOURCE = str(Path(fakeazure.__file__).parent.parent)
NETWORK = "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n"
ADDRESS = "10.0.0.4"
PAUSE = 0.02
# A machine's disk consists of layers, mounted together in a private mount namespace.
JOINED = """
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root" || exit 1
place=$2
shift 2
"""
CHANGE = 'mount -t proc proc "$place/root/proc"; exec chroot "$place/root" sh -ec "$1"'
BOOT = 'exec "$@"'
INSTALL = """
dpkg --force-unsafe-io -i /azure-init.deb >&2
rm /azure-init.deb
systemctl enable systemd-networkd.service >&2
"""


def once(place: Path, make: Callable[[Path], object]) -> Path:
    """A directory that `make` fills, in the first worker of a test run that needs it."""
    unfinished = place.with_name(f"{place.name}.unfinished")
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(place)
    return place


def build_package(place: Path) -> None:
    """Built from a copy of the sources, so that edits during the test run have no effect."""
    sources = place / "sources"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "dist", "build", "tests", "bench")
    shutil.copytree(PROJECT, sources, ignore=ignore, ignore_dangling_symlinks=True)
    command = (sys.executable, str(sources / "scripts/package"), "--out", str(place / "dist"), "deb")
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    shutil.rmtree(sources)


class Images:
    """Each distribution with azure-init, installed once in a test run; machines are layers over it."""

    def __init__(self, place: Path) -> None:
        self.place = place

    @property
    def package(self) -> Path:
        (package,) = (once(self.place / "package", build_package) / "dist").glob("azure-init_*.deb")
        return package

    def without_package(self, suite: str, *extra: str) -> tuple[Path, ...]:
        """Only the command and its modules."""

        def lay(place: Path) -> None:
            lay_agent(place / "usr/lib/azure-init", suite)
            (place / "usr/bin").mkdir()
            shutil.copy(PROJECT / "packaging/azure-init", place / "usr/bin/azure-init")

        return once(self.place / f"agent-{suite}", lay), debian_root(suite, *extra)

    def __call__(self, suite: str, *extra: str) -> tuple[Path, ...]:
        """With the package installed."""
        root = debian_root(suite, *extra)
        image = once(self.place / "-".join((suite, *extra)), lambda place: self._install(root, place))
        return image / "upper", root

    def _install(self, root: Path, place: Path) -> None:
        disk = Disk((root,), place)
        shutil.copy(self.package, disk.layer / "azure-init.deb")
        disk.write("etc/systemd/network/10-eth0.network", NETWORK)
        disk.change(INSTALL)


class Disk:
    """The state that a machine keeps from boot to boot: its own layer over others, and its VM id at the platform."""

    def __init__(self, lower: tuple[Path, ...], place: Path) -> None:
        self.lower, self.place = lower, place
        self.layer = place / "upper"
        for name in ("upper", "work", "root", "tmp"):
            (place / name).mkdir(parents=True)
        self.boots = 0
        self.vm_id, self.name = str(uuid.uuid4()), "floor-1"
        self.key = place / "id"
        subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", str(self.key)), check=True)

    def write(self, name: str, text: str, *, mode: int = 0o644) -> None:
        path = self.layer / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def change(self, script: str) -> str:
        """Runs a program as root in a machine that is not running, and returns its output."""
        words = self._joined(CHANGE, script, pid=True)
        ran = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert ran.returncode == 0, f"{script}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def files(self, pattern: str) -> list[str]:
        """The files of this layer."""
        return sorted(str(path.relative_to(self.layer)) for path in self.layer.glob(pattern))

    @contextlib.contextmanager
    def boot(
        self, scenario: str = "", *, vm: str = "", keys: tuple[str, ...] = (), wait: bool = True
    ) -> Iterator[Boot]:
        """One boot, with an orderly shutdown. `scenario`, `vm`, `keys`: added to the scenario file, as TOML."""
        self.boots += 1
        file = self.place / f"scenario-{self.boots}.toml"
        own = f'"{self.key.with_suffix(".pub").read_text().strip()}"'
        machine = f'[vm]\nid = "{self.vm_id}"\nname = "{self.name}"\nkeys = [{", ".join((own, *keys))}]\n'
        file.write_text(f"{machine}{vm}\n{scenario}")
        boot = self.turn_on(file, self.place / f"ledger-{self.boots}.jsonl", self.place / f"console-{self.boots}")
        try:
            if wait:
                boot.wait_until_up()
            yield boot
        finally:
            boot.end()

    def turn_on(self, scenario: Path, ledger: Path, console: Path) -> Boot:
        return Boot(self, scenario, ledger, console)

    def start(self, scenario: Path, *options: str) -> subprocess.Popen[str]:
        fake = (sys.executable, "-B", "-m", "fakeazure", "container", str(self.place / "root"), str(scenario))
        return subprocess.Popen(
            self._joined(BOOT, *fake, "--keep", "--stay", *options),
            env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(self.place / "tmp")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _joined(self, then: str, *words: str, pid: bool = False) -> tuple[str, ...]:
        spaces = ("--mount", "--pid", "--fork", "--kill-child") if pid else ("--mount",)
        lower = ":".join(map(str, self.lower))
        return ("unshare", *spaces, "sh", "-c", JOINED + then, "sh", lower, str(self.place), *words)


class Boot:
    """A running machine, and what the platform has seen of it so far."""

    soon = 60.0

    def __init__(self, disk: Disk, scenario: Path, ledger: Path, console: Path) -> None:
        self.disk, self.ledger, self.console = disk, ledger, console
        self._platform = disk.start(scenario, "--ledger", str(ledger), "--console", str(console))
        self._init = 0

    @property
    def platform_pid(self) -> int:
        """The process of fakeazure, in whose network namespace the platform is."""
        return self._platform.pid

    def wait_until_up(self) -> None:
        """Waits until systemd has started all units of the boot."""
        init = self.init
        self.until(lambda: Path(f"/proc/{init}/root/run/dbus/system_bus_socket").exists(), "there is a system bus")
        self.run("systemctl", "is-system-running", "--wait")

    @property
    def init(self) -> int:
        self._init = self._init or self.until(lambda: find_init(self._platform.pid), "systemd is running")
        return self._init

    def until(self, seen: Callable[[], Found], what: str) -> Found:
        """The first answer that is not empty."""
        deadline = time.monotonic() + self.soon
        looked = time.monotonic()
        while not (found := seen()):
            now = time.monotonic()
            if self._platform.poll() is not None or now > deadline:
                raise AssertionError(f"never came to this: {what}\n{self.last_words()}")
            time.sleep(max(PAUSE, 2 * (now - looked)))  # a check must leave the machine time to work
            looked = time.monotonic()
        return found

    def last_words(self) -> str:
        said = self.console.read_text(errors="replace")[-3000:] if self.console.exists() else ""
        ended = "".join(self._platform.communicate()) if self._platform.poll() is not None else ""
        return f"{said}\n{ended}\n{self.ledger.read_text() if self.ledger.exists() else ''}"

    def run(self, *argv: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return inside(self.init, *argv, timeout=timeout)

    def out(self, *argv: str) -> str:
        ran = self.run(*argv)
        assert ran.returncode == 0, f"{argv}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}\n{self.last_words()}"
        return ran.stdout.strip()

    def shown(self, unit: str, name: str) -> str:
        return self.out("systemctl", "show", "--value", "-p", name, unit)

    def moment(self, unit: str, name: str) -> int:
        """A time stamp such as `ActiveEnter` or `ExecMainStart`, in microseconds; 0: it has not happened."""
        return int(self.shown(unit, f"{name}TimestampMonotonic"))

    def journal(self, *words: str) -> str:
        return self.out("journalctl", "--no-pager", "-o", "cat", *words)

    def failed_units(self) -> list[str]:
        lines = self.out("systemctl", "--failed", "--no-legend", "--plain", "--no-pager").splitlines()
        return [line.split()[0] for line in lines]

    def ssh(
        self, command: str, *, user: str = "azureuser", key: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A login over SSH from outside."""
        settings = {
            "BatchMode": "yes",
            "ConnectTimeout": "10",
            "ConnectionAttempts": "5",
            "GlobalKnownHostsFile": "/dev/null",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
        }
        options = [
            "-F",
            "none",
            "-T",
            "-i",
            str(key or self.disk.key),
            *(f"-o{name}={value}" for name, value in settings.items()),
        ]
        command_line = (
            "nsenter",
            f"--target={self._platform.pid}",
            "--net",
            "ssh",
            *options,
            f"{user}@{ADDRESS}",
            command,
        )
        return subprocess.run(command_line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def login(self, command: str) -> list[str]:
        ran = self.ssh(command)
        assert ran.returncode == 0, ran.stderr + self.journal("-u", "ssh") + self.last_words()
        return ran.stdout.split()

    def agent(self) -> int:
        """The host's PID of the running agent; 0: there is none, or it has not executed the agent's program yet."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
                own = os.path.samefile(entry / "root", f"/proc/{self.init}/root")
                if own and words[-1:] == [b"/usr/bin/azure-init"]:
                    return int(entry.name)
            except OSError:
                continue
        return 0

    def events(self) -> tuple[Event, ...]:
        return read_events(self.ledger) if self.ledger.exists() and self.ledger.stat().st_size else ()

    def verdicts(self) -> list[Told]:
        return [event for event in self.events() if isinstance(event, Told) and event.kind != "progress"]

    def told(self) -> list[str]:
        return [event.kind for event in self.verdicts()]

    def requests(self) -> list[Request]:
        return [event for event in self.events() if isinstance(event, Request)]

    def leases(self) -> list[Lease]:
        return [event for event in self.events() if isinstance(event, Lease)]

    def ready(self) -> None:
        """Waits for the verdict, which must be Ready."""
        self.until(self.told, "a verdict is told")
        assert self.told() == ["ready"], self.verdicts()

    def ended(self, unit: str = "azure-init.service") -> str:
        """Waits for the end of the unit's process, and returns its result in systemd's words."""
        self.until(lambda: self.moment(unit, "ExecMainExit"), f"{unit} has run")
        return f"{self.shown(unit, 'Result')} {self.shown(unit, 'ExecMainStatus')}"

    def gone(self) -> None:
        """Waits until the machine has gone down by itself."""
        try:
            self._platform.wait(self.soon)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the machine is still up\n{self.last_words()}") from None

    def cut_power(self) -> None:
        """Kills machine and platform at once; data that are not on the disk yet are lost."""
        self._platform.kill()
        self._platform.wait()
        deadline = time.monotonic() + self.soon
        while any((self.disk.place / "tmp").iterdir()):
            assert time.monotonic() < deadline, "something is left of the platform"
            time.sleep(PAUSE)

    def end(self) -> None:
        if self._platform.poll() is None:
            self._platform.send_signal(signal.SIGINT)
        try:
            _said, complaints = self._platform.communicate(timeout=self.soon)
        finally:
            self._platform.kill()
            self._platform.wait()
        assert "Traceback" not in complaints, complaints


Machines = Callable[..., Disk]
