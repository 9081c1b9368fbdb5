"""`fakeazure boot` with whole machines: Debian's packaged agents, and azure-init. The ledger is judged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import fakeazure
from fakeazure.platform.events import Ejected, Event, Kvp, Lease, Login, MediaMade, Request, Told, read_events
from support.disks import debian_disk, with_tree
from support.need import need, need_root
from support.staged import staged

SOURCE = str(Path(fakeazure.__file__).parent.parent)
SLOW = 540.0  # a busy host emulates slowly


@pytest.fixture(autouse=True)
def needed() -> None:
    need_root()
    for tool in ("qemu-system-x86_64", "qemu-img", "debugfs", "ssh"):
        need(tool)


def scenario(tmp_path: Path, text: str) -> str:
    file = tmp_path / "scenario.toml"
    file.write_text(f"{text}\n[expect]\nwithin_secs = {SLOW - 60:g}\n")
    return str(file)


def command(tmp_path: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    place = tmp_path / "t"
    place.mkdir()
    kept = ["--ledger", str(tmp_path / "ledger"), "--console", str(tmp_path / "console"), "--accel", "tcg"]
    return [sys.executable, "-m", "fakeazure", "boot", *arguments, *kept], {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "TMPDIR": str(place),
    }


def boot(tmp_path: Path, *arguments: str) -> tuple[str, tuple[Event, ...]]:
    """What it printed, and the ledger, of a machine that tells the truth and can be used."""
    words, environ = command(tmp_path, *arguments)
    done = subprocess.run(
        words, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * SLOW
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert list((tmp_path / "t").iterdir()) == []
    return done.stdout, read_events(tmp_path / "ledger")


def paths(events: tuple[Event, ...], service: str) -> list[str]:
    return [event.path for event in events if isinstance(event, Request) and event.service == service]


def logins(events: tuple[Event, ...]) -> list[tuple[str, bool]]:
    return [(event.how, event.ok) for event in events if isinstance(event, Login)]


def positions(events: tuple[Event, ...], wanted: Callable[[Event], bool]) -> list[int]:
    return [number for number, event in enumerate(events) if wanted(event)]


def is_ready(event: Event) -> bool:
    return isinstance(event, Told) and event.kind == "ready"


def test_cloud_init_reaches_ready_from_uefi_firmware(tmp_path: Path) -> None:
    disk = debian_disk("cloud-init").image
    before = disk.stat().st_mtime_ns
    text = '[vm]\nname = "foreign-1"\ntemporary_disk = "nvme"\n[[vm.disks]]\nlun = 3\nsize_gb = 7\n'
    shown, events = boot(tmp_path, str(disk), scenario(tmp_path, text))
    (ready,) = positions(events, is_ready)
    assert "/metadata/instance" in paths(events[:ready], "imds")
    assert "/machine" in "".join(paths(events[:ready], "wireserver"))
    assert any(isinstance(event, Ejected) for event in events[ready:])
    assert logins(events) == [("key", True)]
    names = {event.hostname for event in events if isinstance(event, Lease)}
    assert "foreign-1" in names
    reports = [event.value for event in events if isinstance(event, Kvp) and event.kind == "report"]
    assert len(reports) == 1 and reports[0].startswith("result=success|agent=Cloud-Init/25")
    assert "Verdict: Ready after " in shown
    console = (tmp_path / "console").read_text(errors="replace")
    assert "Detected virtualization microsoft" in console
    assert "nvme0n1" in console or "nvme nvme0" in console
    assert "] 14680064 512-byte logical blocks" in console  # the data disk of 7 GB, as whichever letter
    assert disk.stat().st_mtime_ns == before  # all was written to a layer


def test_waagent_reaches_ready_with_a_password_and_a_key(tmp_path: Path) -> None:
    disk = debian_disk("waagent")
    text = '[vm]\nname = "foreign-2"\ngeneration = 1\npassword = "Fa1r&Square <enough>"\n'
    shown, events = boot(tmp_path, str(disk.image), scenario(tmp_path, text), *disk.direct)
    (ready,) = positions(events, is_ready)
    asked = [event.target for event in events[:ready] if isinstance(event, Request)]
    for document in ("goalstate", "certificates", "type=sharedConfig", "type=extensionsConfig", "health"):
        assert any(document in target for target in asked), document
    assert [event.kind for event in events if isinstance(event, Told)] == ["progress", "ready"]
    refused = [event for event in events if isinstance(event, Request) and (event.status or 0) >= 400]
    assert refused == []
    assert logins(events) == [("key", True), ("password", True)]
    assert "Fa1r" not in shown + (tmp_path / "ledger").read_text()


def test_our_agent_reaches_ready_with_a_late_disc_and_a_wrong_clock(tmp_path: Path) -> None:
    tree = staged(tmp_path / "tree")
    text = '[vm]\nname = "ours"\ngeneration = 1\npassword = "0nly-0n-the-Disc"\n'
    text += '[media]\nlate_secs = 40\n[clock]\noffset = "2019-02-03"\n'
    with with_tree(debian_disk("plain"), tree, tmp_path) as disk:
        _, events = boot(tmp_path, str(disk), scenario(tmp_path, text))
    (ready,) = positions(events, is_ready)
    (inserted,) = positions(events, lambda event: isinstance(event, MediaMade))
    assert inserted < ready
    assert any(isinstance(event, Ejected) for event in events[ready:])
    assert sorted(logins(events)) == [("key", True), ("password", True)]
    console = (tmp_path / "console").read_text(errors="replace")
    assert "setting system clock to 2019-02-03T" in console
    told = [line.partition("azure-init: ")[2] for line in console.splitlines() if "azure-init: " in line]
    told = [line for line in told if not line.startswith("waiting for ")]  # as long as the disc is late
    # The kernel may say something at the end of a line of ours.
    assert " started" in told[0] and told[1].startswith("provisioned; reported Ready: the platform accepted it")
    assert told[2:] and all(line.startswith("host key ") for line in told[2:]), "nothing else on the console"


def test_nothing_outlives_fakeazure_when_it_is_killed(tmp_path: Path) -> None:
    disk = debian_disk("plain")
    words, environ = command(tmp_path, str(disk.image), scenario(tmp_path, "[vm]\ngeneration = 1\n"), *disk.direct)
    process = subprocess.Popen(words, env=environ, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    console = tmp_path / "console"
    wait_until(lambda: console.exists() and console.stat().st_size > 0)
    assert machines(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not machines(tmp_path) and not list((tmp_path / "t").iterdir()))


def machines(tmp_path: Path) -> list[int]:
    """The processes of QEMU that serve this test."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                line = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if b"qemu-system" in line.partition(b"\0")[0] and str(tmp_path).encode() in line:
                found.append(int(process.name))
    return found


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)


UNLIMITED = r"""#!/bin/sh -e
python3 - <<'END'
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\xb8\x2a\x00\x00\x00\xc3")
assert ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))() == 42
END
modprobe loop
dd if=/dev/zero of=/swap bs=1M count=16 2>/dev/null
chmod 600 /swap
mkswap /swap
swapon /swap
grep -q '^/swap ' /proc/swaps
useradd --create-home made-by-custom-data
echo everything was allowed > /dev/console
"""


def test_custom_data_may_do_what_the_agent_itself_may_not(tmp_path: Path) -> None:
    """Code that writes code, a kernel module, swap and an account. Ready waits for its end, so that this is judged."""
    tree = staged(tmp_path / "tree")
    settings = tree / "etc/azure-init/azure-init.toml.d/final.toml"
    settings.write_text('[readiness]\nat = "final"\n')
    text = f"[vm]\nname = \"unlimited\"\ngeneration = 1\ncustom_data = '''\n{UNLIMITED}'''\n"
    with with_tree(debian_disk("plain"), tree, tmp_path) as disk:
        _, events = boot(tmp_path, str(disk), scenario(tmp_path, text))
    assert [event.kind for event in events if isinstance(event, Told)][-1] == "ready"
    assert "everything was allowed" in (tmp_path / "console").read_text(errors="replace")
