"""customData on a running system: this host's files under a layer of the test, with its kernel and network."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakeazure import Expect, Media
from support.need import need_root
from support.overlay_system import System


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Any]:
    need_root()
    made: list[System] = []

    def make(script: bytes, **platform: Any) -> System:
        made.append(System(tmp_path, script, **platform))
        return made[-1]

    yield make
    for one in made:
        one.fabric.stop()


def test_a_program_runs_once_after_the_account_is_there_and_before_ready(system: Any) -> None:
    one = system(b"#!/bin/sh\ngetent passwd azureuser && echo ran >>/root/ran && echo canary >&2\n")
    ran = one.agent()
    assert ran.returncode == 0, ran.stderr
    assert one.fabric.judge().ok
    assert one.read("root/ran") == "ran\n"
    output = one.log.read_text()
    assert output.startswith("azureuser:x:") and output.endswith("canary\n")
    assert one.log.stat().st_mode & 0o777 == 0o600
    assert (one.upper / "var/lib/waagent/CustomData").stat().st_mode & 0o777 == 0o700
    assert (one.upper / "var/lib/waagent").stat().st_mode & 0o777 == 0o700
    assert "canary" not in one.told() + ran.stderr
    (one.upper / f"var/lib/azure-init/{one.fabric.vm.id}.provisioned").unlink()
    one.fabric.reboot()
    shown = one.agent("plan").stdout
    assert "= customData: was saved, and run" in shown and "= customData program: ran, and succeeded" in shown
    assert one.agent().returncode == 0
    assert one.read("root/ran") == "ran\n"


def test_the_plan_names_the_program_and_runs_nothing(system: Any) -> None:
    one = system(b"#!/bin/sh -e\necho canary >/root/ran\n")
    shown = one.agent("plan").stdout
    assert "+ customData program: " in shown and "run /bin/sh -e /var/lib/waagent/CustomData" in shown
    assert "canary" not in shown
    assert not (one.upper / "root/ran").exists()


def test_a_program_that_changes_what_was_provisioned_has_the_last_word(system: Any) -> None:
    one = system(b'#!/bin/sh\necho other >/etc/hostname\nrm -- "$0" /var/lib/waagent/CustomData\n:\n')
    ran = one.agent()
    assert ran.returncode == 0, ran.stderr
    assert one.read("etc/hostname") == "other\n"
    assert one.fabric.judge().ok


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (b"#!/bin/sh\necho canary-1; echo canary-2 >&2; exit 3\n", "sh failed (exit status: 3)"),
        (b"echo canary-1; kill -9 $$\n", "sh failed (signal: 9)"),
        (b"#!/no/such/interpreter\ncanary\n", "cannot run /no/such/interpreter: No such file or directory"),
        (b"\x1f\x8b\x08canary", "it is gzip data, which azure-init does not unpack"),
    ],
    ids=["status", "signal", "no interpreter", "gzip"],
)
def test_a_program_that_fails_is_a_failure_with_its_own_name(system: Any, script: bytes, told: str) -> None:
    one = system(script, expect=Expect(verdict="failure", reason="failed to run customData"))
    ran = one.agent()
    assert ran.returncode == 1
    assert one.fabric.judge().ok, one.fabric.judge()
    assert told in ran.stderr
    assert "canary" not in one.told() + ran.stderr
    if "failed (" in told:
        assert "its output is in /var/lib/azure-init/custom-data.log" in ran.stderr
        assert "canary-1" in one.log.read_text()
    one.fabric.reboot()
    assert one.agent().returncode == 1, "until it has succeeded it is run again"


def test_what_is_not_base64_is_a_failure_where_it_is_to_be_run(system: Any) -> None:
    expect = Expect(verdict="failure", reason="failed to run customData")
    one = system(b"x", media=Media(texts={"CustomData": "canary!"}), expect=expect)
    ran = one.agent()
    assert ran.returncode == 1 and "it cannot be run: it is not base64" in ran.stderr
    assert one.fabric.judge().ok
    assert "canary" not in one.told() + ran.stderr


def test_a_program_that_takes_too_long_is_ended_with_all_it_started(system: Any) -> None:
    script = b"echo begun; sh -c 'sleep 30; echo child >/root/child' & sleep 30; echo late >/root/late\n"
    one = system(script, expect=Expect(verdict="failure", reason="failed to run customData"))
    one.configure(execute=True, execute_timeout_secs=0.5)
    ran = one.agent()
    assert ran.returncode == 1 and "sh was killed after 0.5 s: its output is in" in ran.stderr
    assert one.fabric.judge().ok
    assert one.log.read_text() == "begun\n"


def test_a_program_whose_agent_is_killed_runs_again(system: Any) -> None:
    one = system(b"#!/bin/sh\necho begun >>/root/begun\n[ -e /root/again ] || sleep 30\n")
    process = subprocess.Popen(one.command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    begun = one.upper / "root/begun"
    until = time.monotonic() + 30
    while not begun.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert begun.read_text() == "begun\n"
    (one.upper / "root/again").touch()
    one.fabric.reboot()
    assert one.agent().returncode == 0
    assert begun.read_text() == "begun\nbegun\n"
    assert one.fabric.judge().ok


def test_a_program_may_say_as_much_as_it_likes(system: Any) -> None:
    one = system(b"#!/bin/sh\nhead -c 5000000 /dev/zero | tr '\\0' x; echo; echo end\n")
    assert one.agent().returncode == 0
    kept = [one.log, Path(f"{one.log}.1")]
    assert sum(path.stat().st_size for path in kept) <= 2 << 20
    assert one.log.read_text().endswith("x\nend\n")
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in kept)


def test_a_machine_without_the_key_value_daemon_is_told_of_it_at_info_and_provisioned(system: Any) -> None:
    one = system(b"#!/bin/sh\n")
    ran = one.agent()
    assert ran.returncode == 0, ran.stderr
    (line,) = [line for line in ran.stderr.splitlines() if "key-value daemon" in line]
    assert line.startswith("azure-init: the host does not get all records of this run: ") and "hyperv-daemons" in line
    assert "warning" not in line and one.fabric.judge().ok
