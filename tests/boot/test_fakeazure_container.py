"""`fakeazure container` with whole Debian systems: true and false reports, normal ends and kills."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakeazure.judge import judge
from fakeazure.platform.events import Boot as Booted, Ejected, End, Event, Kvp, Lease, Login, Request, Told
from support.container_roots import ONLINE, SOURCE, Root, until
from support.installed import Images
from support.need import need, need_root

pytestmark = pytest.mark.newer

NEEDED = ("systemd-nspawn", "mmdebstrap", "ip", "unshare", "setpriv", "ssh", "ssh-keygen")
# What a machine finds, told on its console before the agent runs.
LOOK = f"""
[Unit]
Before=azure-init.service
{ONLINE}
[Service]
Type=oneshot
StandardOutput=journal+console
ExecStart=/bin/sh -c 'grep OPTION_245 /run/systemd/netif/leases/*; ls /sys/class/net; ip route'
ExecStart=/bin/sh -c 'echo medium $(head -c 33000 /dev/sr0 | tail -c 232 | tr -cd A-Z0-9)'
"""
# Removes the owner's key at shutdown.
FORGET = """
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/bin/rm -rf /home/azureuser/.ssh
"""
LIES = f"""
[Unit]
Before=ssh.service ssh.socket
{ONLINE}
[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -A
ExecStart=/usr/bin/python3 /usr/bin/azure-init
"""
READY = """
import os, urllib.request
def leave(key, value):
    os.makedirs("/var/lib/hyperv", exist_ok=True)
    with open("/var/lib/hyperv/.kvp_pool_1", "ab") as pool:
        pool.write(key.ljust(512, b"\\0") + value.ljust(2048, b"\\0"))
leave(b"PROVISIONING_REPORT", b"result=success|agent=liar/1")
health = "http://168.63.129.16/provisioning/health"
urllib.request.urlopen(urllib.request.Request(health, b'{"state":"Ready"}', {"Content-Type": "application/json"}))
leave(b"afterthought", b"too late")
"""


def fake(*arguments: str, before: tuple[str, ...] = ()) -> tuple[int, str]:
    ran = subprocess.run(
        (*before, sys.executable, "-B", "-m", "fakeazure", "container", *arguments),
        env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.stdout == ""
    return ran.returncode, ran.stderr


@pytest.fixture
def root(images: Images, tmp_path: Path) -> Iterator[Root]:
    yield Root(images, tmp_path)
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_an_honest_machine_finds_its_platform_and_lets_it_in(root: Root, suite: str) -> None:
    root.unit("look.service", LOOK)
    before = root.files()
    code, said = root.boot(suite=suite)
    console = root.console.read_text()
    assert code == 0, said + console
    events = root.events()
    leases = [event for event in events if isinstance(event, Lease)]
    assert [lease.kind for lease in leases][:2] == ["discover", "request"]
    assert {lease.address for lease in leases} == {"10.0.0.4"}
    assert leases[0].mac.startswith("00:0d:3a:")
    asked = [event for event in events if isinstance(event, Request) and event.service == "imds"]
    assert {event.headers["host"] for event in asked} == {"169.254.169.254"}
    assert [event.kind for event in events if isinstance(event, Told)][-1] == "ready"
    assert [(one.how, one.user, one.ok) for one in events if isinstance(one, Login)] == [("key", "azureuser", True)]
    assert any(isinstance(event, Ejected) for event in events)
    assert events[-1] == End(t=events[-1].t, exit_code=0, of="machine")
    assert "the machine is off" in said and f"its console: {root.console}" in said
    assert judge(events).state == "ready"
    assert "OPTION_245=a83f8110" in console
    assert "eth0" in console
    assert "default via 10.0.0.1" in console
    assert "168.63.129.16 via 10.0.0.1" in console
    assert "medium BEA01" in console
    assert root.files() == before, "ROOT itself is not changed"


def test_a_password_that_was_asked_for_is_tried_too(root: Root) -> None:
    scenario = root.place / "scenario.toml"
    scenario.write_text("[vm]\npassword = '''Correct-horse 7'\"$battery'''\n")
    code, said = root.boot(str(scenario))
    assert code == 0, said
    assert [(one.how, one.ok) for one in root.events() if isinstance(one, Login)] == [("key", True), ("password", True)]
    assert "Correct-horse" not in said + root.ledger.read_text()


def test_a_machine_that_only_says_ready_has_lied_whatever_it_left_for_its_host(root: Root) -> None:
    root.unit("azure-init.service", LIES)
    root.write("usr/bin/azure-init", READY)
    code, said = root.boot()
    assert code == 1, said
    assert "Verdict: the machine lied" in said
    (login,) = [event for event in root.events() if isinstance(event, Login)]
    assert (login.how, login.ok) == ("key", False)
    assert "Permission denied" in login.text
    left = [(event.key, event.late) for event in root.events() if isinstance(event, Kvp)]
    assert left == [("PROVISIONING_REPORT", False), ("afterthought", True)]


def test_a_machine_that_says_nothing_in_time_is_shut_down_and_its_console_shown(root: Root) -> None:
    root.unit("azure-init.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n")
    scenario = root.place / "scenario.toml"
    scenario.write_text("[expect]\nwithin_secs = 4\n")
    code, said = root.boot(str(scenario))
    assert code == 1
    assert "Verdict: none, the platform is still waiting" in said
    shown = "\n".join(console_of(said))
    assert shown and not re.search("halt|umount|stopp", shown, re.IGNORECASE)
    assert "the machine is stopped at the deadline" in said
    assert "by DHCP" not in said


def test_a_machine_without_a_network_is_told_so_and_its_console_shown_to_who_cannot_wait(root: Root) -> None:
    (root.layer / "etc/systemd/network/10-eth0.network").unlink()
    root.unit("azure-init.service", "[Service]\nType=oneshot\nStandardOutput=tty\nExecStart=/bin/echo it is up\n")
    running = root.start("--console", str(root.console))
    try:
        until(lambda: root.console.exists() and "it is up" in root.console.read_text(errors="replace"))
        running.send_signal(signal.SIGTERM)
        said, complaints = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 128 + signal.SIGTERM
    assert any("it is up" in line for line in console_of(complaints))
    assert "the machine is stopped: fakeazure got a signal" in said
    assert re.search(r"Deadline: a verdict within 600 s, but it was stopped after [\d.]+ s\n", said)
    assert "Note: the machine sent no DHCP request: does it have a network configuration?" in said


def console_of(complaints: str) -> list[str]:
    return complaints.partition("the end of the machine's console:\n")[2].splitlines()


def test_what_is_kept_is_in_the_root_afterwards(root: Root) -> None:
    code, said = root.boot("--keep")
    assert code == 0, said
    assert list(root.layer.glob("var/lib/azure-init/*.provisioned"))
    assert (root.layer / "home/azureuser/.ssh/authorized_keys").exists()


def test_where_no_login_is_wanted_the_verdict_is_the_end(root: Root) -> None:
    code, said = root.boot("--no-login")
    assert code == 0, said
    assert not [event for event in root.events() if isinstance(event, Login)]


def test_a_machine_that_was_ready_boots_again_and_need_not_say_so(root: Root) -> None:
    before = root.files()
    code, said = root.boot("--boots", "3")
    assert code == 0, said + root.console.read_text()
    first, *later = chapters(root.events())
    assert [event.kind for event in first if isinstance(event, Told)][-1] == "ready"
    for events in later:
        assert [(one.how, one.ok) for one in events if isinstance(one, Login)] == [("key", True)]
        assert not any(isinstance(event, Told | Request) for event in events), "nothing is provisioned again"
        assert any(isinstance(event, Lease) for event in events)
        assert isinstance(events[-1], End) and events[-1].exit_code == 0
    assert "  boot 3\n" in said and "Verdict: Ready" in said and "the end of the machine's console" not in said
    assert root.files() == before


def test_a_machine_that_shuts_its_owner_out_at_its_second_boot_has_lied(root: Root) -> None:
    root.unit("forget.service", FORGET)
    code, said = root.boot("--boots", "2")
    assert code == 1, said
    assert "Wrong: boot 2: was Ready, and now a login as azureuser with the key was refused" in said


def chapters(events: tuple[Event, ...]) -> list[list[Event]]:
    found: list[list[Event]] = []
    for event in events:
        if isinstance(event, Booted):
            found.append([])
        found[-1].append(event)
    return found


def test_an_image_whose_cloud_init_is_enabled_is_refused_and_one_where_it_is_off_is_not(
    images: Images, tmp_path: Path
) -> None:
    """Debian's package: in a container it detects no Azure, and azure-init would provision; on Azure it would not."""
    root = Root(images, tmp_path, "cloud-init")
    code, said = root.boot()
    assert (code, said.splitlines()[-1].partition(": on Azure")[0]) == (
        2,
        f"fakeazure: cloud-init is enabled in {tmp_path}/machine",
    )
    assert f"(touch {tmp_path}/machine/etc/cloud/cloud-init.disabled)" in said
    root.write("etc/cloud/cloud-init.disabled", "")
    code, said = root.boot()
    assert code == 0, said


def test_two_machines_run_at_once_and_know_nothing_of_each_other(
    root: Root, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Root(root.images, tmp_path_factory.mktemp("other"))
    with staying(root) as one, staying(other, suite="bookworm") as two:
        until(lambda: has_logged_in(root) and has_logged_in(other))
        names = [control_groups(process) for process in (one, two)]
        assert [len(found) for found in names] == [1, 1] and names[0] != names[1]
        for process, ended, left in ((two, other, root), (one, root, other)):
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
            assert "Verdict: Ready" in said
            end = End(t=ended.events()[-1].t, exit_code=0, of="machine", stopped=True)
            assert ended.events()[-1] == end, "it was shut down"
            assert left is other or not isinstance(left.events()[-1], End), "and the other one runs on"
    assert not any(directories(*found) for found in names)
    shutil.rmtree(other.place, ignore_errors=True)


def test_nothing_is_left_of_a_platform_that_is_killed(root: Root) -> None:
    with staying(root) as running:
        until(lambda: has_logged_in(root))
        processes, groups = descendants(running.pid), control_groups(running)
        networks = {network_of(pid) for pid in (running.pid, *processes)} - {network_of(os.getpid())}
        assert len(processes) > 5
        assert len(networks) == 2
        assert directories(*groups)
    until(lambda: not any(alive(pid) for pid in processes))
    until(lambda: not list((root.place / "tmp").iterdir()))
    until(lambda: not directories(*groups))
    assert not networks & {network_of(int(pid.name)) for pid in Path("/proc").glob("[0-9]*")}
    assert str(root.place) not in Path("/proc/self/mounts").read_text()
    assert not [
        file for file in Path("/sys/block").glob("loop*/loop/backing_file") if str(root.place) in file.read_text()
    ]


def test_who_is_asked_to_end_shuts_the_machine_down_and_says_what_there_was(root: Root) -> None:
    with staying(root) as running:
        until(lambda: has_logged_in(root))
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGINT
    assert "Verdict: Ready" in said
    assert root.events()[-1] == End(t=root.events()[-1].t, exit_code=0, of="machine", stopped=True)
    assert list((root.place / "tmp").iterdir()) == []


def test_only_root_can_and_everybody_is_told_before_anything_else() -> None:
    need_root()
    nobody = (need("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups")
    assert fake("/nowhere", before=nobody) == (2, "fakeazure: booting a container needs root: run it with sudo\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["/nowhere"], "/nowhere is not a directory: name the root directory of a system"),
        (["/proc"], "/proc cannot boot: it has neither systemd nor another init"),
        (["/", "--ledger", "/nowhere/ledger"], "--ledger /nowhere/ledger: no such directory"),
    ],
)
def test_what_cannot_be_booted_is_said_in_a_sentence(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    need_root()
    for tool in NEEDED:
        need(tool)
    root = tmp_path / "root"
    (root / "sbin").mkdir(parents=True)
    (root / "sbin/init").touch()
    assert fake(*(str(root) if one == "/" else one for one in arguments)) == (2, f"fakeazure: {complaint}\n")


def test_a_wrong_clock_is_not_for_containers(tmp_path: Path) -> None:
    need_root()
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin/init").touch()
    scenario = tmp_path / "scenario.toml"
    scenario.write_text('[clock]\noffset = "-1y"\n')
    code, said = fake(str(tmp_path), str(scenario))
    assert (code, said) == (
        2,
        "fakeazure: a container has its host's clock: for a wrong one, use fakeazure run or fakeazure boot\n",
    )


def test_where_control_groups_cannot_be_made_that_is_said(root: Root) -> None:
    script = "find /sys/fs/cgroup -maxdepth 1 -exec mount --bind -o ro {} {} ';' && exec \"$@\""
    (root.layer / "sbin").mkdir()
    (root.layer / "sbin/init").touch()
    code, said = fake(str(root.layer), before=("unshare", "--mount", "sh", "-ec", script, "sh"))
    last = said.splitlines()[-1]
    assert code == 2 and last.startswith("fakeazure: cannot create a control group for the machine: /sys/fs/cgroup/")
    assert last.endswith(": read-only file system; run it where root may create one")


def has_logged_in(root: Root) -> bool:
    """Whether the platform has logged in."""
    begun = root.ledger.exists() and root.ledger.stat().st_size > 0
    return begun and any(isinstance(event, Login) for event in root.events())


@contextlib.contextmanager
def staying(root: Root, *, suite: str = "trixie") -> Iterator[subprocess.Popen[str]]:
    """A machine with --stay; its platform is killed at the end of the test."""
    running = root.start("--stay", "--ledger", str(root.ledger), suite=suite)
    try:
        yield running
    finally:
        running.kill()
        running.communicate(timeout=60)


def control_groups(running: subprocess.Popen[str]) -> set[str]:
    """The names of the machine's control groups."""
    texts = [Path(f"/proc/{pid}/cgroup").read_text() for pid in descendants(running.pid) if alive(pid)]
    return {part for text in texts for part in re.split(r"[/\n]", text) if part.startswith("fakeazure-")}


def directories(name: str) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/{name}"))


def descendants(pid: int) -> list[int]:
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(one for child in children for one in descendants(child))]


def network_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """False also for a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
