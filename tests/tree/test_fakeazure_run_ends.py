"""`fakeazure run` on signals, terminals and full disks."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.fakeazure_runs import agent, command, environment
from support.need import need


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(*processes: int, place: Path) -> None:
    deadline = time.monotonic() + 60
    while any(map(alive, processes)) or list(place.iterdir()):
        assert time.monotonic() < deadline, "something outlived fakeazure"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_outlives_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 300 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
    running = subprocess.Popen(
        command("run", "--", "sh", "-c", script), env=environment(tmp_path),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not pids.exists():
        time.sleep(0.001)  # the signal is to come as early as possible
    shell, sleeper = map(int, pids.read_text().split())
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert running.returncode == (-number if number == signal.SIGKILL else 128 + number)
    wait_until_gone(shell, sleeper, place=tmp_path / "place")
    assert "Traceback" not in err
    if number != signal.SIGKILL:
        assert "the command is stopped: fakeazure got a signal" in out
        assert "Verdict: none, the platform is still waiting" in out
        assert re.search(r"Deadline: a verdict within 600 s, but it was stopped after [\d.]+ s\n", out)


@pytest.mark.parametrize("number", [None, signal.SIGKILL])
def test_a_daemon_does_not_outlive_us_although_it_has_left_its_group(
    number: signal.Signals | None, tmp_path: Path
) -> None:
    need("setsid")
    pids = tmp_path / "pids"
    daemon = f"echo $$ > {pids}.new; mv {pids}.new {pids}; exec sleep 300"
    script = f"setsid sh -c '{daemon}' & while ! test -e {pids}; do sleep 0.01; done; {'sleep 300' if number else ''}"
    running = subprocess.Popen(
        command("run", "--", "sh", "-c", script), env=environment(tmp_path),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not pids.exists():
        time.sleep(0.01)
    if number:
        running.send_signal(number)
    running.wait(20)
    wait_until_gone(int(pids.read_text()), place=tmp_path / "place")


def test_a_reader_without_the_machines_letters_is_shown_their_numbers(tmp_path: Path) -> None:
    failure = '{"state":"NotReady","details":{"subStatus":"ProvisioningFailed","description":"f\\u00fcnf"}}'
    done = subprocess.run(
        command("run", *agent(f"tell({failure!r})")), env=environment(tmp_path) | {"PYTHONIOENCODING": "ascii"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "f\\xfcnf" in done.stdout and "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["scenarios"], ["new"], ["run", "--", "true"]])
def test_a_full_disk_is_told_in_a_line(arguments: list[str], tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(*arguments), env=environment(tmp_path), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2 and done.stderr.splitlines()[-1].endswith("no space left on device")
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def on_terminal(tmp_path: Path, *arguments: str, keys: bytes = b"", **variables: str) -> tuple[int, bytes]:
    child, terminal = pty.fork()
    if child == 0:
        place = environment(tmp_path) | {"TERM": "xterm"} | variables
        os.execve(sys.executable, command(*arguments), {k: v for k, v in place.items() if v or k != "NO_COLOR"})
    received = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        received += part
        if keys and b"started" in received:
            os.write(terminal, keys)
            keys = b""
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), received


def test_a_terminal_gets_colour_unless_it_says_no(tmp_path: Path) -> None:
    code, received = on_terminal(tmp_path, "run", *agent("tell(READY)"), NO_COLOR="")
    assert code == 0 and b"\033[32mVerdict: Ready" in received
    code, received = on_terminal(tmp_path, "run", *agent("tell(READY)"), NO_COLOR="1")
    assert code == 0 and b"\033" not in received


def test_the_command_may_read_the_terminal(tmp_path: Path) -> None:
    body = "print('sta' + 'rted', flush=True); assert input() == 'hello'; tell(READY)"
    code, received = on_terminal(tmp_path, "run", *agent(body), keys=b"hello\n")
    assert code == 0 and b"the command ends with status 0" in received


def test_ctrl_c_ends_the_command_and_shows_what_was_told(tmp_path: Path) -> None:
    body = "import time; print('sta' + 'rted', flush=True); time.sleep(60)"
    code, received = on_terminal(tmp_path, "run", *agent(body), keys=b"\x03")
    assert code == 130 and b"still waiting" in received
    wait_until_gone(place=tmp_path / "place")


def test_the_shell_example_of_the_documentation_works(tmp_path: Path) -> None:
    need("curl")
    page = Path(__file__).parents[2] / "docs/fakeazure.md"
    shell, shown = re.findall(r"```sh\n(.*?)```\n\n```\n(.*?)```", page.read_text(), re.DOTALL)[0]
    script = f'fakeazure() {{ "{sys.executable}" -m fakeazure "$@"; }}\n{shell}'
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0

    def timeless(text: str) -> str:
        return re.sub(r" +[\d.]+ s", " T", text).strip()

    assert timeless(done.stdout) == timeless(shown)
