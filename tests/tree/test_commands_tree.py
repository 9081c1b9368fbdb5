"""Lists of commands and scripts, carried out: what a failure names, what is left running, what a restart leaves."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from azureinit.backends.shell import SHELL
from azureinit.config.model import Config, Userdata
from azureinit.errors import CustomDataFailed
from azureinit.facts.commands import parse_progress
from azureinit.machine import Machine
from azureinit.plan.actions import Satisfied
from azureinit.record import replace
from azureinit.run.enact import enact
from azureinit.run.final_modules import MODULES as FINAL
from azureinit.run.modules import Module
from azureinit.run.network_modules import MODULES as NETWORK
from azureinit.telemetry.events import Events
from support.https import HOST, Resolving, make_authority, serving
from support.module_runs import VM_ID, plan_module, request_of
from support.wire import Server, Ticking, answer

ROWS = {module.name: module for module in (*NETWORK, *FINAL)}
MACHINE = Machine(environ={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/root"})


def carry_out(row: str, place: Path, text: str, *, errors: str = "auto", limit: float = 60.0, **fields: Any) -> Path:
    """Returns the directory of the VM's files. The facts are those of an empty tree: this machine may have scripts."""
    directory = place / "d"
    settings = Config(userdata=Userdata(runcmd_errors=errors, final_secs=limit, network_secs=limit))
    request = request_of(text, rooted=False, directory=str(directory), settings=settings, **fields)
    facts = MACHINE if row == "scripts_user" else Machine(root=str(place), environ=MACHINE.environ)
    plan = plan_module(ROWS[row], facts, request)
    enact(MACHINE, plan, events=Events(clock=MACHINE.clock), deadline=MACHINE.clock.monotonic() + 60)
    return directory


def test_a_failure_names_item_line_status_and_log(tmp_path: Path) -> None:
    text = "runcmd:\n  - echo fine\n  - [sh, -c, 'echo wrong >&2; exit 6']\n  - echo after\n"
    with pytest.raises(
        CustomDataFailed, match=r"runcmd item 2 \(line 4\) \(exit status: 6\): its output is in"
    ) as raised:
        carry_out("scripts_user", tmp_path, text)
    log = tmp_path / "d/runcmd.log"
    assert str(log) in str(raised.value)
    assert log.read_text() == "fine\nwrong\n"
    assert {path.name: path.stat().st_mode & 0o777 for path in log.parent.iterdir()} == {
        "runcmd": 0o700, "runcmd.log": 0o600, "runcmd.progress": 0o600,
    }  # fmt: skip


def test_an_item_that_never_ends_is_named(tmp_path: Path) -> None:
    with pytest.raises(CustomDataFailed, match=r"runcmd item 2 \(line 4\): sh was killed after 0.3 s"):
        carry_out("scripts_user", tmp_path, "runcmd:\n  - 'true'\n  - sleep 60\n", limit=0.3)


def test_ignored_errors_go_on(tmp_path: Path) -> None:
    directory = carry_out("scripts_user", tmp_path, "runcmd: ['false', 'echo on']\n", errors="ignore")
    assert (directory / "runcmd.log").read_text() == "on\n"


def test_variables_are_those_of_a_service(tmp_path: Path) -> None:
    directory = carry_out("scripts_user", tmp_path, "runcmd: [env]\n")
    names = {line.partition("=")[0] for line in (directory / "runcmd.log").read_text().splitlines()}
    assert names - {"PWD", "OLDPWD", "_", "SHLVL"} == {"PATH", "LANG"}
    directory = carry_out("bootcmd", tmp_path, "bootcmd: ['echo $INSTANCE_ID']\n")
    assert (directory / "bootcmd.log").read_text() == f"{VM_ID}\n"


def test_a_daemon_keeps_writing_after_the_list_has_ended(tmp_path: Path) -> None:
    """A pipe without a reader would end it at its next line."""
    loop = "for i in 1 2 3; do sleep 0.1; echo line $i; done; sleep 30"
    directory = carry_out("scripts_user", tmp_path, f"runcmd: ['({loop}) & echo $! >{tmp_path}/pid', 'echo done']\n")
    log, pid = directory / "runcmd.log", int((tmp_path / "pid").read_text())
    try:
        assert log.read_text() == "done\n"
        for _try in range(200):
            if "line 3" in log.read_text():
                break
            time.sleep(0.02)
        assert log.read_text() == "done\nline 1\nline 2\nline 3\n"
        os.kill(pid, 0)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_list_goes_on_after_the_restart_that_interrupted_it(tmp_path: Path) -> None:
    text = f"runcmd: ['echo 1 >>{tmp_path}/r', 'echo 2 >>{tmp_path}/r; kill -9 $$', 'echo 3 >>{tmp_path}/r']\n"
    with pytest.raises(CustomDataFailed, match=r"runcmd item 2 \(line 2\) \(signal: 9\)"):
        carry_out("scripts_user", tmp_path, text)
    progress = parse_progress((tmp_path / "d/runcmd.progress").read_bytes())
    assert (sorted(progress.finished), progress.begun) == ([1], 2)
    with pytest.raises(CustomDataFailed):
        carry_out("scripts_user", tmp_path, text)
    assert (tmp_path / "r").read_text() == "1\n2\n2\n"


def test_a_list_whose_last_item_restarts_the_machine_is_not_repeated(tmp_path: Path) -> None:
    """The stage is stopped by the restart that the item asks for, while the item still runs."""

    def stop(_number: int, _frame: object) -> None:
        raise RuntimeError("stopped")

    text = (
        f"runcmd: ['echo 1 >>{tmp_path}/r', 'sleep 0.1; kill -USR1 {os.getpid()}; sleep 0.1; echo 2 >>{tmp_path}/r']\n"
    )
    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(RuntimeError, match="stopped"):
            carry_out("scripts_user", tmp_path, text)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        carry_out("scripts_user", tmp_path, text)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (tmp_path / "r").read_text() == "1\n2\n"


def test_a_list_that_ran_to_its_end_does_not_run_again(tmp_path: Path) -> None:
    text = f"runcmd: ['echo 1 >>{tmp_path}/r']\n"
    carry_out("scripts_user", tmp_path, text)
    carry_out("scripts_user", tmp_path, text)
    assert (tmp_path / "r").read_text() == "1\n"
    carry_out("scripts_user", tmp_path, text.replace("echo 1", "echo 2"))
    assert (tmp_path / "r").read_text() == "1\n2\n"


def test_bootcmd_runs_at_every_boot(tmp_path: Path) -> None:
    for _boot in range(2):
        carry_out("bootcmd", tmp_path, f"bootcmd: ['echo 1 >>{tmp_path}/r']\n")
    assert (tmp_path / "r").read_text() == "1\n1\n"


MIME = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="=="

--==
Content-Type: text/cloud-config

bootcmd: ["echo bootcmd >>@/r"]
runcmd: ["echo runcmd >>@/r"]
--==
Content-Type: text/x-shellscript
Content-Disposition: attachment; filename="z last"

#!/bin/sh
echo last >>@/r
--==
Content-Type: text/x-shellscript

#!/usr/bin/env -S PYTHONDONTWRITEBYTECODE=1 python3
open("@/r", "a").write("python\\n")
--==
Content-Type: text/cloud-boothook

#cloud-boothook
#!/bin/sh
echo hook $INSTANCE_ID >>@/r
--==
Content-Type: text/x-shellscript-per-boot

#!/bin/sh
echo per boot >>@/r
--==--
"""


def test_scripts_run_in_the_order_of_their_names_with_runcmd_among_them(tmp_path: Path) -> None:
    text = MIME.replace("@", str(tmp_path))
    for row in ("bootcmd", "scripts_per_boot", "scripts_user"):
        carry_out(row, tmp_path, text)
    ran = (tmp_path / "r").read_text().splitlines()
    assert ran == [f"hook {VM_ID}", "bootcmd", "per boot", "python", "runcmd", "last"]
    below = tmp_path / "d"
    files = {str(path.relative_to(below)): path.stat().st_mode & 0o777 for path in below.rglob("*-*") if path.is_file()}
    assert {name: mode for name, mode in files.items() if not name.endswith(".log")} == {
        "boothooks/003-part-004": 0o700, "scripts/001-zlast": 0o700, "scripts/002-part-003": 0o700,
        "per-boot/004-part-005": 0o700,
    }  # fmt: skip


def test_a_script_runs_whatever_its_name_is(tmp_path: Path) -> None:
    """A name that is longer than the file system allows, one that leads elsewhere, one that a shell would read."""
    text = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n"
    for name in ("x" * 300, "../../up", "$(id)", "-rf"):
        text += f'--b\nContent-Type: text/x-shellscript\nContent-Disposition: attachment; filename="{name}"\n\n'
        text += f"#!/bin/sh\necho ran >>{tmp_path}/r\n"
    carry_out("scripts_user", tmp_path, f"{text}--b--\n")
    assert (tmp_path / "r").read_text() == "ran\n" * 4
    assert len(list((tmp_path / "d/scripts").iterdir())) == 4


def test_a_failing_script_is_named_with_its_status(tmp_path: Path) -> None:
    with pytest.raises(CustomDataFailed, match=r"script part-001 \(line 1\): script: sh failed \(exit status: 9\)"):
        carry_out("scripts_user", tmp_path, "#!/bin/sh\nexit 9\n")


def test_script_directories(tmp_path: Path) -> None:
    top = tmp_path / "etc/azure-init/scripts/per-boot"
    top.mkdir(parents=True)
    for name, mode in (("20-b", 0o755), ("10-a", 0o700), ("README", 0o644)):
        (top / name).write_text("#!/bin/sh\n")
        (top / name).chmod(mode)
    (top / "sub").mkdir()
    (top / "gone").symlink_to("nowhere")
    row = ROWS["scripts_per_boot"]
    plan = plan_module(row, Machine(root=str(tmp_path)), request_of("#!/bin/sh\n", rooted=False))
    assert [(type(item).__name__, item.name.rpartition("/")[2]) for item in plan] == [
        ("Step", "10-a"), ("Step", "20-b"), ("Caution", "README"),
    ]  # fmt: skip


def test_the_condition_of_a_power_state_decides(tmp_path: Path) -> None:
    shims = tmp_path / "bin"
    shims.mkdir()
    (shims / "shutdown").write_text(f'#!{SHELL}\necho "$@" >>{tmp_path}/told\n')
    (shims / "shutdown").chmod(0o755)
    machine = Machine(search=(str(shims), "/usr/bin", "/bin"), environ={"PATH": f"{shims}:/usr/bin:/bin"})

    def ask(text: str) -> str:
        request = request_of(f"power_state:\n{text}", rooted=False, directory=str(tmp_path / "d"))
        plan = plan_module(ROWS["power_state"], machine, request)
        enact(machine, plan, events=Events(clock=machine.clock), deadline=machine.clock.monotonic() + 60)
        told = tmp_path / "told"
        text = told.read_text() if told.exists() else ""
        told.unlink(missing_ok=True)
        return text

    assert ask("  mode: reboot\n") == "-r now\n"
    assert ask("  mode: poweroff\n  delay: 5\n  message: it's CHECK over\n") == "-P +5 it's CHECK over\n"
    assert ask("  mode: halt\n  delay: '+7'\n  condition: exit 0\n  message: a CHECK\n") == "-H +7 a CHECK\n"
    assert ask("  mode: halt\n  condition: [test, -e, /no such]\n") == ""
    assert ask("  mode: halt\n  condition: false\n") == ""
    with pytest.raises(CustomDataFailed, match="power_state halt"):
        ask("  mode: halt\n  condition: exit 5\n")
    with pytest.raises(CustomDataFailed, match="power_state halt"):
        ask("  mode: halt\n  condition: if\n")
    assert not (tmp_path / "told").exists()


def test_a_final_message_is_on_the_console_or_else_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/uptime").write_text("12.34 56.78\n")
    machine = Machine(kernel=str(tmp_path))
    plan = plan_module(ROWS["final_message"], machine, request_of("final_message: up ${UPTIME} s\n", rooted=False))
    enact(machine, plan, events=Events(clock=machine.clock), deadline=1e9)
    (tmp_path / "dev/console").touch()
    enact(machine, plan, events=Events(clock=machine.clock), deadline=1e9)
    assert (tmp_path / "dev/console").read_text() == "up 12.34 s\n"


def test_phone_home_sends_a_form_until_it_is_accepted(tmp_path: Path) -> None:
    with Server(answer(500), answer(204)) as server:
        text = f"phone_home: {{url: '{server.url}/a?token=s3cr3t', post: [hostname, instance_id]}}\n"
        plan = plan_module(ROWS["phone_home"], MACHINE, request_of(text, rooted=False))
        machine = Machine(clock=Ticking())
        enact(machine, plan, events=Events(clock=machine.clock), deadline=1e9)
    assert len(server.requests) == 2
    head, _, body = server.requests[1].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /a?token=s3cr3t HTTP/1.1\r\n")
    assert b"\r\nContent-Type: application/x-www-form-urlencoded\r\n" in head
    assert body == f"hostname=vm1&instance_id={VM_ID}".encode()


def test_phone_home_over_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, certificate = make_authority(tmp_path)
    machine = Resolving({HOST: ("127.0.0.1",), "platform.example": ("169.254.169.254",)}, tmp_path)

    def tell(url: str) -> None:
        request = request_of(f"phone_home: {{url: '{url}', post: [hostname], tries: 1}}\n", rooted=False)
        plan = plan_module(ROWS["phone_home"], machine, request)
        enact(machine, plan, events=Events(clock=machine.clock), deadline=machine.clock.monotonic() + 20)

    with serving({"/told": b""}, certificate) as site:
        with pytest.raises(CustomDataFailed, match="certificate cannot be trusted"):
            tell(site.url("/told"))
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        tell(site.url("/told"))
    assert (site.requests[0][0], site.bodies) == ("/told", [b"hostname=vm1"])
    with pytest.raises(CustomDataFailed, match="link-local or the platform's own"):
        tell("http://platform.example/metadata")


def test_a_refused_form_is_a_failure_that_shows_no_secret(tmp_path: Path) -> None:
    with Server(answer(403), answer(403), answer(200)) as server:
        text = f"phone_home: {{url: '{server.url}/a?token=s3cr3t', tries: 2}}\n"
        plan = plan_module(ROWS["phone_home"], MACHINE, request_of(text, rooted=False))
        machine = Machine(clock=Ticking())
        with pytest.raises(CustomDataFailed, match=r"status 403 \(2 times\)") as raised:
            enact(machine, plan, events=Events(clock=machine.clock), deadline=1e9)
    assert "s3cr3t" not in str(raised.value)
    assert "s3cr3t" not in str(raised.value.supporting())


def test_nothing_is_planned_after_it_ran(tmp_path: Path) -> None:
    row: Module = ROWS["scripts_user"]
    text = "runcmd: ['true']\n"
    carry_out("scripts_user", tmp_path, text)
    request = request_of(text, rooted=False, directory=str(tmp_path / "d"))
    (item,) = plan_module(row, MACHINE, request)
    assert isinstance(item, Satisfied)
    (item,) = plan_module(row, MACHINE, replace(request, directory="/none", done=frozenset({item.name})))
    assert isinstance(item, Satisfied)
