"""customData run as a program by a real systemd: without the limits of azure-init's unit, and ended at its timeout."""

from __future__ import annotations

import json
import os
import signal

import pytest

from support.installed import Machines

pytestmark = pytest.mark.newer

EXECUTE = "[azure-init.custom_data]\nexecute = true\n"
LOG = "/var/lib/azure-init/custom-data.log"
UNIT = "azure-init-custom-data.service"
FREE = """#!/bin/sh -e
grep -E '^CapBnd:' /proc/self/status
grep -E '^CapBnd:' /proc/1/status
getent passwd azureuser
cat /proc/self/cgroup
(trap '' HUP; exec sleep 1000) >/dev/null 2>&1 &
echo canary
"""
SLOW = """echo begun
setsid sh -c 'sleep 1000' &
sleep 1000
"""


def given(script: str) -> str:
    return f"custom_data = {json.dumps(script)}"


def sleepers(boot: object) -> str:
    return str(boot.run("pgrep", "-f", "^sleep 1000").stdout)  # type: ignore[attr-defined]


@pytest.mark.parametrize("suite", ["bullseye", "trixie"])
def test_a_program_may_do_more_than_our_own_unit(machine: Machines, suite: str) -> None:
    with machine(suite).boot(EXECUTE, vm=given(FREE)) as boot:
        boot.ready()
        said = boot.out("cat", LOG).splitlines()
        own, of_init = (line.split()[1] for line in said if line.startswith("CapBnd"))
        assert own == of_init, "every capability that there is"
        assert any(UNIT in line for line in said)
        assert said[-1] == "canary"
        assert sleepers(boot), "what it left running runs"
        assert "canary" not in boot.journal("-b") + boot.out("cat", "/var/log/azure-init.log")
        assert boot.failed_units() == []


def test_a_program_that_takes_too_long_is_ended_with_all_it_started(machine: Machines) -> None:
    slow = f"{EXECUTE}execute_timeout_secs = 2\n"
    with machine("trixie").boot(slow, vm=given(SLOW)) as boot:
        boot.until(boot.told, "a verdict is told")
        (told,) = boot.verdicts()
        assert told.kind == "failed" and "reason=failed to run customData" in str(told)
        assert boot.out("cat", LOG) == "begun"
        assert not sleepers(boot)


def test_a_program_whose_agent_died_is_ended_before_it_runs_again(machine: Machines) -> None:
    disk = machine("trixie")
    with disk.boot(EXECUTE, vm=given(SLOW), wait=False) as boot:
        boot.until(lambda: boot.run("cat", LOG).stdout, "the program runs")
        os.kill(boot.until(boot.agent, "the agent runs"), signal.SIGKILL)
        boot.until(boot.told, "a verdict is told")
        assert boot.told() == ["failed"]
        before = set(sleepers(boot).split())
        boot.run("systemctl", "start", "--no-block", "azure-init.service")
        boot.until(lambda: boot.out("cat", LOG) == "begun\nbegun", "the program runs again")
        assert before and not before & set(sleepers(boot).split())
