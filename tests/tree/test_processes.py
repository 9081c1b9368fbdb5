"""Programs that succeed, fail, hang, flood, ignore their input, or leave a daemon behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from azureinit.errors import LocalError, SubprocessFailed, SubprocessTimeout, ToolMissing
from azureinit.machine import Machine, processes
from azureinit.machine.processes import KEPT, Ran

MACHINE = Machine(search=("/usr/bin", "/bin"), environ={"PATH": "/nowhere", "SECRET": "inherited", "HOME": "/root"})


def sh(script: str, *, stdin: bytes = b"", timeout: float = 20.0, env: dict[str, str] | None = None) -> Ran:
    return MACHINE.run(("sh", "-c", script), stdin=stdin, timeout=timeout, env=env)


def gone(pid: int) -> bool:
    """Dead, at most after a moment: the kill of a group is not waited for beyond its leader."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True  # its new parent's to reap
        time.sleep(0.01)
    return False


@pytest.fixture(params=["pidfd", "no pidfd"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels before 5.3 and some containers have no pidfd."""
    if request.param == "no pidfd":
        monkeypatch.delattr(os, "pidfd_open")


# ---- what comes back


def test_both_streams_and_the_status_are_kept(either_way: None) -> None:
    ran = sh("echo out; echo err >&2; exit 3")
    assert (ran.status, ran.out, ran.err) == (3, b"out\n", b"err\n")


def test_success_is_passed_through() -> None:
    assert sh("echo fine").check().out == b"fine\n"


@pytest.mark.parametrize(
    ("script", "text", "ending"),
    [
        ("exit 7", "sh failed (exit status: 7)", "exit status: 7"),
        ("echo why >&2; exit 1", "sh failed (exit status: 1): why", "exit status: 1"),
        ("echo a secret that was read; exit 1", "sh failed (exit status: 1)", "exit status: 1"),
        ("kill -9 $$", "sh failed (signal: 9)", "signal: 9"),
        ("kill -SEGV $$", "sh failed (signal: 11)", "signal: 11"),
        ("printf 'bad \\377 byte' >&2; exit 1", "sh failed (exit status: 1): bad \ufffd byte", "exit status: 1"),
    ],
)
def test_a_failure_tells_how_it_ended_and_what_it_said(script: str, text: str, ending: str) -> None:
    with pytest.raises(SubprocessFailed) as caught:
        sh(script).check()
    assert str(caught.value) == text
    assert caught.value.data == {"command": "sh", "exit_status": ending}


def test_of_a_long_complaint_the_end_is_told() -> None:
    with pytest.raises(SubprocessFailed) as caught:
        sh("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1").check()
    assert str(caught.value).endswith("line 1999")
    assert len(str(caught.value)) < 600


def test_output_larger_than_a_pipe_is_kept_whole() -> None:
    ran = sh("head -c 1000000 /dev/zero; head -c 300000 /dev/zero >&2")
    assert (len(ran.out), len(ran.err)) == (1_000_000, 300_000)


def test_output_beyond_the_cap_is_read_and_dropped() -> None:
    ran = sh(f"head -c {KEPT + 1_000_000} /dev/zero; echo end >&2")
    assert (len(ran.out), ran.err, ran.status) == (KEPT, b"end\n", 0)


# ---- what goes in


def test_input_larger_than_a_pipe_arrives_whole(either_way: None) -> None:
    data = os.urandom(700_000)
    assert sh("cat", stdin=data).out == data


def test_without_input_the_child_sees_its_end() -> None:
    assert sh("cat; echo done").out == b"done\n"


@pytest.mark.parametrize("script", ["exit 0", "exec <&-; sleep 0.05", "head -c 1 >/dev/null"])
def test_a_child_that_does_not_read_its_input_is_no_error(script: str) -> None:
    assert sh(script, stdin=b"x" * 1_000_000).status == 0


def test_the_environment_is_made_from_scratch() -> None:
    told = set(sh("env", env={"GIVEN": "yes"}).out.decode().split("\n"))
    told = {line for line in told if line and line.partition("=")[0] not in ("PWD", "_", "OLDPWD", "SHLVL")}
    assert told == {"PATH=/usr/bin:/bin", "LC_ALL=C", "LANG=C", "GIVEN=yes"}


def test_what_is_fed_stands_neither_in_the_arguments_nor_in_the_environment() -> None:
    ran = sh("cat > /dev/null; tr '\\0' '\\n' < /proc/$$/cmdline; cat /proc/$$/environ", stdin=b"s3cret-input")
    assert b"cmdline" in ran.out
    assert b"s3cret" not in ran.out


def test_the_child_gets_three_files_and_its_own_group() -> None:
    passed_on = {name for name in os.listdir("/proc/self/fd") if Path(f"/proc/self/fd/{name}").exists()}
    passed_on = {name for name in passed_on if os.get_inheritable(int(name))}  # by whoever started us
    files = set(sh("ls /proc/self/fd").out.decode().split()) - passed_on - {"0", "1", "2"}
    assert len(files) <= 1  # ls' own, of the directory
    assert sh("kill -0 -$$ && echo leader").out == b"leader\n"


def test_a_broken_pipe_ends_the_child_as_it_should() -> None:
    assert sh("yes | head -n 1; true").out == b"y\n"


# ---- what cannot be run


def test_a_program_that_is_not_there_is_told_by_name() -> None:
    with pytest.raises(ToolMissing, match="no-such-tool is not installed") as caught:
        MACHINE.run(("no-such-tool",), timeout=5)
    assert caught.value.data == {"command": "no-such-tool"}


def test_a_path_that_is_not_there_is_a_missing_program_too() -> None:
    with pytest.raises(ToolMissing, match="cannot run /no/such/tool"):
        MACHINE.run(("/no/such/tool",), timeout=5)


def test_a_script_without_its_interpreter_is_told(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/no/such/interpreter\n")
    (tmp_path / "tool").chmod(0o755)
    with pytest.raises(ToolMissing, match="cannot run"):
        MACHINE.run((str(tmp_path / "tool"),), timeout=5)


def test_what_is_no_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"\x00\x01\x02")
    (tmp_path / "tool").chmod(0o755)
    with pytest.raises(LocalError, match=r"cannot run .*: Exec format error"):
        MACHINE.run((str(tmp_path / "tool"),), timeout=5)
    with pytest.raises(LocalError, match=r"cannot run .*: Permission denied"):
        MACHINE.run((str(tmp_path),), timeout=5)


def test_an_argument_with_a_nul_is_told() -> None:
    with pytest.raises(LocalError, match=r"cannot run .*embedded null"):
        MACHINE.run(("sh", "-c", "\0"), timeout=5)


def test_only_what_can_be_executed_is_found(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    (tmp_path / "directory").mkdir()
    (tmp_path / "tool").write_text("")
    (tmp_path / "tool").chmod(0o755)
    machine = Machine(search=(str(tmp_path / "missing"), str(tmp_path)), environ={})
    assert machine.find("tool") == str(tmp_path / "tool")
    assert [machine.find(name) for name in ("plain", "directory", "other")] == [None, None, None]


# ---- what takes too long

LONGER = (0.5, 2.0, 8.0, 32.0)  # until a child has come to its first words: on a busy machine that takes its time


def test_a_child_that_hangs_is_ended_with_all_its_children(either_way: None, tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/child; echo started >&2; wait"
    said = ""
    for seconds in LONGER:
        with pytest.raises(SubprocessTimeout, match=f"sh was killed after {seconds:g} s") as raised:
            sh(script, timeout=seconds)
        said = str(raised.value)
        if "started" in said:
            break
    assert said.endswith(" s: started")
    assert gone(int((tmp_path / "child").read_text()))


def test_a_child_that_floods_is_still_ended_in_time(either_way: None) -> None:
    with pytest.raises(SubprocessTimeout, match=r"yes was killed after 0\.3 s"):
        MACHINE.run(("yes",), timeout=0.3)


def test_a_child_that_ignores_its_input_and_hangs_is_ended() -> None:
    with pytest.raises(SubprocessTimeout):
        sh("exec sleep 1000", stdin=b"x" * 1_000_000, timeout=0.3)


def test_a_child_that_will_not_be_terminated_is_killed() -> None:
    with pytest.raises(SubprocessTimeout):
        sh("trap '' TERM INT HUP; while :; do sleep 0.1; done", timeout=0.3)


def test_no_time_at_all_is_no_time() -> None:
    with pytest.raises(SubprocessTimeout, match="killed after 0 s"):
        sh("exec sleep 1000", timeout=-5.0)


def test_a_daemon_left_behind_is_not_waited_for(either_way: None, tmp_path: Path) -> None:
    ran = sh(f"echo before; sleep 1000 & echo $! > {tmp_path}/daemon", timeout=15.0)
    daemon = int((tmp_path / "daemon").read_text())
    try:
        assert (ran.status, ran.out) == (0, b"before\n")
        os.kill(daemon, 0)  # it lives on, as daemons do
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_a_daemon_that_floods_is_not_read_for_ever(either_way: None, tmp_path: Path) -> None:
    ran = sh(f"yes & echo $! > {tmp_path}/daemon", timeout=15.0)
    os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)
    assert ran.status == 0
    assert len(ran.out) <= KEPT


# ---- what is left


def test_no_file_and_no_zombie_is_left(either_way: None, tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"\x00\x01\x02")
    (tmp_path / "tool").chmod(0o755)
    before = sorted(os.listdir("/proc/self/fd"))
    sh("exit 0")
    sh("exit 1", stdin=b"x" * 1_000_000)
    for argv, kind in (
        (("sleep", "1000"), SubprocessTimeout),
        (("yes",), SubprocessTimeout),
        ((str(tmp_path / "tool"),), LocalError),
        (("/no/such/tool",), ToolMissing),
        (("sh", "\0"), LocalError),
    ):
        with pytest.raises(kind):
            MACHINE.run(argv, timeout=0.1)
    assert sorted(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_an_interruption_ends_the_child_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(processes._Child):
        def move(self, end: int) -> bool:
            raise KeyboardInterrupt

    monkeypatch.setattr(processes, "_Child", Interrupted)
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt):
        MACHINE.run(("sleep", "1000"), timeout=20)
    assert sorted(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.usefixtures("either_way")
def test_a_log_of_its_own_takes_both_streams_in_order_and_nothing_is_told(tmp_path: Path) -> None:
    log, before = tmp_path / "log", sorted(os.listdir("/proc/self/fd"))
    runs = [
        MACHINE.run(("sh", "-c", "echo 1; echo 2 >&2; echo 3; exit 4"), timeout=20, output=str(log)) for _ in range(2)
    ]
    assert [(ran.status, ran.out, ran.err) for ran in runs] == [(4, b"", b"")] * 2
    with pytest.raises(SubprocessFailed) as raised:
        runs[-1].check()
    assert str(raised.value) == f"sh failed (exit status: 4): its output is in {log}"
    assert log.read_text() == "1\n2\n3\n" * 2
    assert log.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_log_of_its_own_is_written_as_it_comes_and_outlives_a_timeout(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for seconds in LONGER:
        with pytest.raises(SubprocessTimeout, match="its output is in") as raised:
            MACHINE.run(("sh", "-c", "echo begun; sleep 1000"), timeout=seconds, output=str(log))
        assert "begun" not in str(raised.value)
        if log.read_text():
            break
    assert log.read_text() == "begun\n"


def test_a_log_of_its_own_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    assert MACHINE.run(("sh", "-c", "echo x"), timeout=20, output=str(tmp_path / "none/log")).status == 0


def test_the_agent_leaves_no_core_and_its_children_keep_their_limit() -> None:
    script = """
import resource, sys
sys.path.insert(0, sys.argv[1])
resource.setrlimit(resource.RLIMIT_CORE, (4096, 8192))
from azureinit.machine import Machine
from azureinit.machine.limits import forbid_core_dumps
forbid_core_dumps()
assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 8192)
ran = Machine(search=("/usr/bin", "/bin")).run(("sh", "-c", "read go; ulimit -Sc; ulimit -Hc"), stdin=b"go", timeout=20)
print(ran.out.split())
"""
    source = str(Path(processes.__file__).parents[2])
    ran = subprocess.run([sys.executable, "-c", script, source], capture_output=True, text=True)
    assert ran.stdout.strip() in ("[b'8', b'16']", "[b'4', b'8']"), ran.stderr  # blocks of 512 or 1024 bytes


def test_a_program_with_a_log_has_the_signals_and_the_input_of_a_service(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "grep SigIgn /proc/self/status; readlink /proc/self/fd/0"
    assert MACHINE.run(("sh", "-c", script), timeout=20, output=str(log)).status == 0
    _, ignored, stdin = log.read_text().split()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores both
        assert not int(ignored, 16) >> (number - 1) & 1
    assert stdin == "/dev/null"
