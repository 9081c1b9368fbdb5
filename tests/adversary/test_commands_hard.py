"""Commands and scripts: floods of output, many items, daemons that write on, and any document for the planners."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings, strategies as st

from azureinit.config.model import Config, Userdata
from azureinit.facts.commands import Commands
from azureinit.facts.final import Identity, Moment
from azureinit.machine import Machine
from azureinit.machine.processes import LOGGED
from azureinit.modules.bootcmd import plan_bootcmd
from azureinit.modules.final_message import plan_final_message
from azureinit.modules.phone_home import plan_phone_home
from azureinit.modules.power_state import PowerFacts, plan_power_state
from azureinit.modules.scripts import plan_scripts_user
from azureinit.plan.show import as_text
from azureinit.run.enact import enact
from azureinit.run.final_modules import MODULES
from azureinit.telemetry.events import Events
from azureinit.userdata.document import read_document
from support.bounds import bounded
from support.module_runs import plan_module, request_of

FACTS = Commands(env=(("PATH", "/bin"),))
POWER = PowerFacts(commands=FACTS, tools=frozenset({"shutdown"}))
MOMENT = Moment(uptime="1", timestamp="now")
IDENTITY = Identity(hostname="vm", keys=())
(ROW,) = [module for module in MODULES if module.name == "scripts_user"]


def carry_out(place: Path, text: str) -> Path:
    machine = Machine()
    request = request_of(text, rooted=False, directory=str(place / "d"), settings=Config(userdata=Userdata()))
    plan = plan_module(ROW, machine, request)
    enact(machine, plan, events=Events(clock=machine.clock), deadline=machine.clock.monotonic() + 120)
    return place / "d/runcmd.log"


def test_a_thousand_items(tmp_path: Path) -> None:
    log = carry_out(
        tmp_path, "runcmd:\n" + "".join(f"  - X=$((X + 1)) # {one}\n" for one in range(999)) + "  - echo $X\n"
    )
    assert log.read_text() == "999\n"


def test_a_flood_of_output_is_bounded_and_its_end_is_kept(tmp_path: Path) -> None:
    log = carry_out(tmp_path, "runcmd: ['head -c 52428800 /dev/zero', 'echo; echo the end']\n")
    sizes = [path.stat().st_size for path in tmp_path.glob("d/runcmd.log*")]
    assert sum(sizes) <= 2 * LOGGED + (1 << 17)
    assert log.read_bytes().endswith(b"the end\n")


def test_a_daemon_that_floods_is_neither_ended_nor_kept_whole(tmp_path: Path) -> None:
    # More than the 2 MiB that the log takes at most, however few reads they arrive in.
    text = "line $i of a daemon that writes more than is kept"
    lines = f"i=0; while [ $i -lt 60000 ]; do echo {text}; i=$((i + 1)); done"
    (tmp_path / "daemon").write_text(f"echo $$ >{tmp_path}/pid; sleep 0.2; {lines}; echo >{tmp_path}/end; sleep 60\n")
    log = carry_out(tmp_path, f"runcmd: ['sh {tmp_path}/daemon & until [ -s {tmp_path}/pid ]; do sleep 0.01; done']\n")
    pid = int((tmp_path / "pid").read_text())
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (tmp_path / "end").exists():
            time.sleep(0.05)
        os.kill(pid, 0)
        assert (tmp_path / "end").exists()
    finally:
        os.kill(pid, signal.SIGKILL)
    text = log.read_text()
    assert text.startswith("line 0 of ")
    assert "line 59999 " not in text


SIMPLE = st.one_of(
    st.text(max_size=5), st.integers(-9, 9), st.booleans(), st.floats(), st.dates(), st.binary(max_size=3)
)
COMMANDS = st.one_of(
    st.none(), st.lists(st.one_of(st.text(max_size=9), st.none(), st.lists(SIMPLE, max_size=3)), max_size=4)
)
ANY = st.one_of(
    st.none(), SIMPLE, st.lists(SIMPLE, max_size=2), st.dictionaries(st.text(max_size=3), SIMPLE, max_size=2)
)
DOCUMENTS = st.fixed_dictionaries({}, optional={
    "runcmd": COMMANDS, "bootcmd": COMMANDS, "final_message": ANY, "hostname": ANY,
    "power_state": st.one_of(ANY, st.fixed_dictionaries({}, optional={
        "mode": st.one_of(ANY, st.sampled_from(["halt", "reboot"])), "delay": ANY, "message": ANY, "condition": ANY,
        "timeout": ANY})),
    "phone_home": st.one_of(ANY, st.fixed_dictionaries({"url": st.one_of(ANY, st.just("http://h/$x"))}, optional={
        "post": ANY, "tries": ANY})),
})  # fmt: skip


@given(DOCUMENTS)
@settings(max_examples=bounded(60, 3000), deadline=None)
def test_no_document_without_errors_breaks_a_planner(document: dict[str, Any]) -> None:
    text = "#cloud-config\n" + yaml.safe_dump(document, allow_unicode=True)
    if read_document(text.encode("utf-8", "surrogatepass")).errors:
        return
    request = request_of(text, rooted=False)
    plan = (*plan_scripts_user(request, FACTS), *plan_bootcmd(request, FACTS), *plan_power_state(request, POWER),
            *plan_final_message(request, MOMENT), *plan_phone_home(request, IDENTITY))  # fmt: skip
    assert as_text(plan, privileged=True)
