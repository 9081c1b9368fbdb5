"""Commands that run with a wrong clock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fakeazure
from fakeazure.machines.faketime import NoFaketime, find_library
from support.need import unfit

SOURCE = str(Path(fakeazure.__file__).parent.parent)


def with_clock(tmp_path: Path, offset: str, program: str) -> list[str]:
    try:
        find_library()
    except NoFaketime as error:
        unfit(str(error))
    file = tmp_path / "s.toml"
    file.write_text(f'[clock]\noffset = "{offset}"\n[expect]\nverdict = "none"\n')
    done = subprocess.run(
        [sys.executable, "-m", "fakeazure", "run", str(file), "--", sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": SOURCE}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[0].split()


def test_a_command_has_the_wrong_clock_and_its_platform_has_not(tmp_path: Path) -> None:
    program = "import time; print(time.strftime('%Y', time.gmtime()), flush=True)"
    assert with_clock(tmp_path, "2001-06-03", program) == ["2001"]


def test_a_command_with_a_wrong_clock_can_sleep(tmp_path: Path) -> None:
    program = """
import threading, time
start = time.monotonic()
time.sleep(0.1)
threading.Event().wait(0.1)
print(0.2 <= time.monotonic() - start < 30, flush=True)
"""
    assert with_clock(tmp_path, "+10 years", program) == ["True"]


def test_only_the_wall_clock_is_wrong(tmp_path: Path) -> None:
    program = """
import os, subprocess, time
up = float(open("/proc/uptime").read().split()[0])
age = os.stat("/proc/self").st_ctime - time.time()
print(abs(time.clock_gettime(time.CLOCK_BOOTTIME) - up) < 60, age > 1e8, flush=True)
"""
    assert with_clock(tmp_path, "-10 years", program) == ["True", "True"]
