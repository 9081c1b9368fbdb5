"""The journald listener with a real journald: journalctl shows every line of a run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.container import Container
from support.installed import Images

pytestmark = pytest.mark.newer

DEBIANS = ("bookworm", "trixie")
VM_ID = "11111111-2222-4333-8444-555555555555"
OVERSIZED = 3_000_000
SPEAKER = f"""
import sys
sys.path.insert(0, "/usr/lib/azure-init")
from azureinit.machine import Machine
from azureinit.machine.outlets import stderr_is_journal
from azureinit.telemetry.events import ERROR, INFO, WARN, Events
from azureinit.telemetry.journald import JournalListener
from azureinit.telemetry.log import DEFAULT, stream_listener

machine = Machine()
if not stderr_is_journal(machine):
    sys.exit(5)
events = Events(clock=machine.clock, seed="0123456789abcdef" * 2)
stream = stream_listener(sys.stderr.write, chosen=DEFAULT, colour=False)
events.listeners = (JournalListener(machine, chosen=DEFAULT, about=events.about, otherwise=stream),)
events.tell(INFO, "plain", "one line")
events.about["vm_id"] = "{VM_ID}"
if "short" in sys.argv:
    sys.exit()
events.tell(WARN, "lines", "first\\n  second\\r\\n\\nlast \\x1b[31m=\\u20ac", url="http://x/?a=b", odd="\\n=\\n")
events.tell(INFO, "oversized", "x" * {OVERSIZED}, big="y" * 1000)
try:
    with events.step("outer"):
        with events.step("inner") as step:
            step.text = "done"
        raise ValueError("no\\nway")
except ValueError:
    pass
"""
FLOOD = """
import sys
sys.path.insert(0, "/usr/lib/azure-init")
from azureinit.machine.outlets import Datagrams
journal = Datagrams("/run/systemd/journal/socket", patience=0.2)
for _ in range(20000):
    journal.send(b"MESSAGE=flood\\nX=" + b"x" * 9000 + b"\\n")
print(journal.patience)
"""
UNIT = """
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 -IS /usr/lib/speaker.py %I
"""
ASIDE = "[Service]\nType=oneshot\nExecStart=/bin/sh -c '/usr/bin/python3 -IS /usr/lib/speaker.py 2>/run/aside'\n"


@pytest.fixture
def machine(images: Images, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Container]:
    one = Container(images.without_package(request.param), tmp_path)
    one.write("usr/lib/speaker.py", SPEAKER)
    one.write("etc/systemd/system/speaker@.service", UNIT)
    one.write("etc/systemd/system/aside.service", ASIDE)
    try:
        one.boot(agent=False)
        yield one
    finally:
        one.stop()
        shutil.rmtree(tmp_path, ignore_errors=True)


def entries(machine: Container, *matches: str) -> list[dict[str, Any]]:
    machine.out("journalctl", "--sync")
    told = machine.out("journalctl", "--no-pager", "--all", "-o", "json", *matches)
    return [json.loads(line) for line in told.splitlines()]


@pytest.mark.parametrize("machine", DEBIANS, indirect=True)
def test_every_event_is_an_entry_with_its_fields(machine: Container) -> None:
    machine.out("systemctl", "start", "speaker@whole")
    plain, lines, oversized, inner, outer = entries(machine, "-u", "speaker@whole", "-t", "azure-init")
    assert (plain["MESSAGE"], plain["PRIORITY"], plain["AZURE_INIT_STEP"]) == ("one line", "6", "plain")
    assert "AZURE_INIT_VM_ID" not in plain
    assert plain["_TRANSPORT"] == "journal"
    assert plain["_SYSTEMD_UNIT"] == plain["OBJECT_SYSTEMD_UNIT"] == "speaker@whole.service"

    assert lines["MESSAGE"] == "lines: first\n  second\n\nlast ?[31m=\u20ac"
    assert (lines["PRIORITY"], lines["AZURE_INIT_KIND"], lines["AZURE_INIT_VM_ID"]) == ("4", "event", VM_ID)
    assert (lines["AZURE_INIT_URL"], lines["AZURE_INIT_ODD"]) == ("http://x/?a=b", "\n=\n")

    assert oversized["MESSAGE"] == "x" * OVERSIZED
    assert oversized["AZURE_INIT_BIG"] == "y" * 1000

    assert (inner["AZURE_INIT_PARENT"], inner["AZURE_INIT_RESULT"]) == (outer["AZURE_INIT_ID"], "success")
    assert (outer["AZURE_INIT_KIND"], outer["AZURE_INIT_RESULT"], outer["PRIORITY"]) == ("finish", "failed", "3")
    assert outer["MESSAGE"].startswith("outer failed: no\nway (")
    assert float(outer["AZURE_INIT_SECONDS"]) >= float(inner["AZURE_INIT_SECONDS"])
    assert [one["AZURE_INIT_STEP"] for one in entries(machine, "AZURE_INIT_RESULT=failed")] == ["outer"]


@pytest.mark.parametrize("machine", DEBIANS, indirect=True)
def test_a_unit_is_known_for_what_it_said_though_it_ended_before_journald_asked(machine: Container) -> None:
    """journald is stopped meanwhile, as it seems to be to a program of ten milliseconds on a busy machine."""
    pid = machine.out("systemctl", "show", "--value", "-p", "MainPID", "systemd-journald")
    machine.out("kill", "-STOP", pid)
    try:
        machine.out("systemctl", "start", "speaker@short")
    finally:
        machine.out("kill", "-CONT", pid)
    (told,) = entries(machine, "-u", "speaker@short", "-t", "azure-init")
    assert told["MESSAGE"] == "one line"
    assert "one line" in machine.run("systemctl", "status", "speaker@short").stdout


@pytest.mark.parametrize("machine", DEBIANS[:1], indirect=True)
def test_a_journald_that_takes_nothing_holds_up_no_run(machine: Container) -> None:
    pid = machine.out("systemctl", "show", "--value", "-p", "MainPID", "systemd-journald")
    machine.out("kill", "-STOP", pid)
    try:
        # Ends at all: every one of them waited for would take more than an hour, and `out` gives it a minute.
        assert machine.out("python3", "-IS", "-c", FLOOD) == "0.0"
    finally:
        machine.out("kill", "-CONT", pid)


@pytest.mark.parametrize("machine", DEBIANS[:1], indirect=True)
def test_whose_standard_error_was_led_elsewhere_does_not_speak_to_the_journal(machine: Container) -> None:
    machine.run("systemctl", "start", "aside")
    assert machine.out("systemctl", "show", "--value", "-p", "ExecMainStatus", "aside") == "5"
    assert entries(machine, "-t", "azure-init") == []
