"""What bootcmd, runcmd, scripts, final_message, power_state and phone_home become. No program runs here."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.config.model import Config, Userdata
from azureinit.errors import CustomDataFailed
from azureinit.facts.commands import Commands, Progress, parse_progress
from azureinit.facts.final import Identity, Moment
from azureinit.facts.scripts import ScriptFile, Scripts
from azureinit.modules.bootcmd import plan_bootcmd
from azureinit.modules.commands import commands_of
from azureinit.modules.final_message import plan_final_message
from azureinit.modules.phone_home import plan_phone_home
from azureinit.modules.power_state import PowerFacts, plan_power_state
from azureinit.modules.scripts import file_name, plan_scripts, plan_scripts_user
from azureinit.modules.templates import filled
from azureinit.plan.actions import Caution, Declined, Post, Run, Satisfied, Step, Way, Write
from azureinit.plan.show import as_json, as_text
from azureinit.record import Secret
from azureinit.userdata.values import PER_BOOT, PER_INSTANCE
from support.module_runs import VM_ID, request_of

FACTS = Commands(env=(("PATH", "/bin"),))
POWER = PowerFacts(commands=FACTS, tools=frozenset({"shutdown", "reboot"}))
MOMENT = Moment(uptime="12.34", timestamp="Tue, 17 Nov 2026 09:05:00 +0000")
IDENTITY = Identity(hostname="kernel-name", keys=(("pub_key_rsa", "ssh-rsa AAA+/= root@vm\n"),))
SECRET = "s3cr3t-w0rd"


def step_of(plan: Any) -> Step:
    (step,) = plan
    assert isinstance(step, Step)
    assert step.failure is CustomDataFailed
    return step


def actions_of(step: Step) -> dict[type, Any]:
    (way,) = step.ways
    assert isinstance(way, Way)
    return {type(action): action for action in way.actions}


def script_of(step: Step) -> str:
    (way,) = step.ways
    assert isinstance(way, Way)
    (first, *_) = [one.data for one in way.actions if isinstance(one, Write)]
    assert isinstance(first, Secret)
    return first.text()


def texts(text: str) -> list[str]:
    node = request_of(text).config.get("runcmd")
    assert node is not None
    return [command.text for command in commands_of("runcmd", node)]


def test_a_list_is_words_a_text_is_verbatim_and_what_is_empty_is_left_out() -> None:
    found = texts("runcmd:\n  - echo $HOME\n  - [a, 1, 1.50, true, 2020-01-02, \"it's\"]\n  -\n  - ''\n  - []\n  - x\n")
    assert found == ["echo $HOME", "'a' '1' '1.5' 'True' '2020-01-02' 'it'\\''s'", "x"]


def test_items_are_numbered_as_in_the_document() -> None:
    script = script_of(step_of(plan_scripts_user(request_of("runcmd:\n-\n- b\n- |\n  c\n  d\n", rooted=False), FACTS)))
    assert "azure_init_begin 'runcmd item 2 (line 4)'\neval 'b\n'\n" in script
    assert "azure_init_begin 'runcmd item 3 (line 5)'\neval 'c\nd\n\n'\n" in script


@pytest.mark.parametrize(
    ("chosen", "compatible", "ignore"),
    [("auto", False, False), ("auto", True, True), ("stop", True, False), ("ignore", False, True)],
)
def test_which_errors_end_a_list(chosen: str, compatible: bool, ignore: bool) -> None:
    settings = Config(userdata=Userdata(runcmd_errors=chosen, cloud_init_compat=compatible))
    request = request_of("runcmd: [a, b]\n", rooted=False, settings=settings)
    assert ("\nazure_init_next 'runcmd item 1" in script_of(step_of(plan_scripts_user(request, FACTS)))) is ignore


def test_no_command_is_shown() -> None:
    text = f"runcmd: ['{SECRET}']\nbootcmd: [[{SECRET}]]\npower_state: {{mode: reboot, condition: {SECRET}}}\n"
    text += f"phone_home: {{url: 'http://u:{SECRET}@h.example/{SECRET}?{SECRET}'}}\n"
    request = request_of(text, rooted=False)
    plan = (*plan_scripts_user(request, FACTS), *plan_bootcmd(request, FACTS), *plan_power_state(request, POWER))
    plan += plan_phone_home(request, IDENTITY)
    assert len(plan) == 4
    assert SECRET not in as_text(plan, privileged=True) + as_json(plan) + repr(plan)
    sent = request_of(f"phone_home: {{url: 'http://h.example/{SECRET}?{SECRET}'}}\n", rooted=False)
    assert SECRET not in as_text(plan_phone_home(sent, IDENTITY), privileged=True)
    assert "http://h.example" in as_text(plan_phone_home(sent, IDENTITY), privileged=True)


@pytest.mark.parametrize("item", ['"a\\0b"', '["a", "\\0"]'])
def test_what_no_shell_can_read_is_refused_before_anything_runs(item: str) -> None:
    step = step_of(plan_scripts_user(request_of(f"runcmd:\n- first\n- {item}\n", rooted=False), FACTS))
    assert step.name == "runcmd item 2 (line 4)"
    assert isinstance(step.ways[0], Declined)


def test_on_a_tree_nothing_runs() -> None:
    request = request_of("runcmd: [a, b]\nbootcmd: [a]\npower_state: {mode: halt}\nfinal_message: x\n"
                         "phone_home: {url: 'http://h/'}\n")  # fmt: skip
    plan = (*plan_scripts_user(request, FACTS), *plan_bootcmd(request, FACTS), *plan_power_state(request, POWER),
            *plan_final_message(request, MOMENT), *plan_phone_home(request, IDENTITY))  # fmt: skip
    assert [type(item) for item in plan] == [Caution] * 5


# ---- going on after a restart


def test_finished_items_are_left_out_and_the_interrupted_one_is_named() -> None:
    request = request_of("runcmd: [a, b, c]\n", rooted=False)
    first = step_of(plan_scripts_user(request, FACTS))
    (way,) = first.ways
    assert isinstance(way, Way)
    (key,) = [one.data for one in way.actions if isinstance(one, Write) and isinstance(one.data, bytes)]
    progress = Progress(key=key.decode().strip(), finished=frozenset({1}), begun=2)
    told, *steps = plan_scripts_user(request, Commands(env=(), progress=progress))
    again = step_of(steps)
    assert again.why == "2 of 3 commands: the others ran before the machine restarted"
    assert isinstance(told, Caution)
    assert told.name == "runcmd item 2 (line 2)"
    assert "eval 'a\n'" not in script_of(again)
    assert "eval 'b\n'" in script_of(again)
    all_done = Progress(key=progress.key, finished=frozenset({1, 2, 3}), begun=3)
    assert isinstance(plan_scripts_user(request, Commands(env=(), progress=all_done))[0], Satisfied)
    other = Progress(key="runcmd 00000000", finished=frozenset({1}), begun=2)
    assert plan_scripts_user(request, Commands(env=(), progress=other)) == plan_scripts_user(
        request, Commands(env=(), progress=None)
    )


@given(st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_progress_is_read(data: bytes) -> None:
    assert 3 in parse_progress(b"runcmd 1\nruncmd item 3 (line 4): finished\n" + data).finished


def test_a_torn_progress() -> None:
    data = b"runcmd 0a\nruncmd item 1 (line 4)\nruncmd item 1 (line 4): finished\nruncmd item 2 (li"
    assert parse_progress(data) == Progress(key="runcmd 0a", finished=frozenset({1}), begun=2)


# ---- scripts


def test_names_of_files() -> None:
    assert [file_name(name) for name in ("a b", "../x", "ü(1).sh", "/etc/passwd")] == [
        "ab", ".._x", "(1).sh", "_etc_passwd",
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "once"), [(PER_BOOT, False), (PER_INSTANCE, True)])
def test_scripts_of_directories(kind: str, once: bool) -> None:
    files = (
        ScriptFile(path="/etc/azure-init/scripts/x/b", executable=True, head=b"#!/usr/bin/perl -w\n"),
        ScriptFile(path="/var/lib/cloud/scripts/x/a", executable=True, head=b"\x7fELF"),
        ScriptFile(path="/etc/azure-init/scripts/x/c", executable=False, head=b""),
    )
    plan = plan_scripts(request_of("{}", rooted=False), Scripts(files=files, commands=FACTS), kind=kind)
    assert [item.name for item in plan] == [
        "script /var/lib/cloud/scripts/x/a", "script /etc/azure-init/scripts/x/b", "script /etc/azure-init/scripts/x/c",
    ]  # fmt: skip
    first, second, third = plan
    assert isinstance(first, Step)
    assert isinstance(second, Step)
    assert isinstance(third, Caution)
    assert actions_of(first)[Run].argv == ("/var/lib/cloud/scripts/x/a",)
    assert actions_of(second)[Run].argv == ("/usr/bin/perl", "-w", "/etc/azure-init/scripts/x/b")
    assert second.once is once
    done = request_of("{}", rooted=False, done=frozenset({second.name}))
    again = plan_scripts(done, Scripts(files=files[:1], commands=FACTS), kind=kind)
    assert isinstance(again[0], Satisfied if once else Step)


def test_white_space_before_the_interpreter_is_left_out() -> None:
    step = step_of(plan_scripts_user(request_of("\n \n#!/bin/bash\nx\n", rooted=False), FACTS))
    assert actions_of(step)[Run].argv[0] == "/bin/bash"
    assert script_of(step).startswith("#!/bin/bash\n")


@pytest.mark.parametrize("text", ["#!\nx\n", "#!perl\n"])
def test_a_script_without_an_interpreter_is_refused(text: str) -> None:
    assert isinstance(step_of(plan_scripts_user(request_of(text, rooted=False), FACTS)).ways[0], Declined)


def test_the_first_words_of_a_boothook_are_not_part_of_the_program() -> None:
    step = step_of(plan_bootcmd(request_of("#cloud-boothook\n#!/bin/bash\nx\n", rooted=False), FACTS))
    assert step.name == "boothook part-001 (line 1)"
    assert script_of(step) == "#!/bin/bash\nx\n"
    assert ("INSTANCE_ID", VM_ID) in actions_of(step)[Run].env
    assert not step.once


# ---- the last modules


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("up $UPTIME s, ${version} at $TIMESTAMP", "up 12.34 s, 0 at Tue"),
        ("$UPTIMES ${x} $ $$ 5$ ${UPTIME", "$UPTIMES ${x} $ $$ 5$ ${UPTIME"),
        ("## template: jinja\nup {{ uptime }}{{VERSION}} {{other}} $uptime", "up 12.340 {{other}} $uptime"),
    ],
)
def test_names_in_a_text(given: str, made: str) -> None:
    values = {"uptime": "12.34", "version": "0", "timestamp": "Tue"}
    assert filled(given, {**values, **{name.upper(): value for name, value in values.items()}}) == made


def test_a_final_message_goes_to_the_console_and_the_log() -> None:
    step = step_of(plan_final_message(request_of("final_message: up $UPTIME $DATASOURCE\n", rooted=False), MOMENT))
    console, log = step.ways
    assert isinstance(console, Way)
    assert console.actions == (Write(path="/dev/console", data=b"up 12.34 DataSourceAzure\n"),)
    assert (log, step.did) == (Way(backend="log", actions=()), "up 12.34 DataSourceAzure")


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("mode: reboot", ("shutdown", "-r", "now")),
        ("mode: reboot, delay: now", ("shutdown", "-r", "now")),
        ("mode: poweroff, delay: 3, message: by", ("shutdown", "-P", "+3", "by")),
        ("mode: halt, delay: '+3', condition: true", ("shutdown", "-H", "+3")),
        ("mode: halt, delay: '007', timeout: 5", ("shutdown", "-H", "+7")),
    ],
)
def test_a_power_state(text: str, argv: tuple[str, ...]) -> None:
    step = step_of(plan_power_state(request_of(f"power_state: {{{text}}}\n", rooted=False), POWER))
    way = step.ways[0]
    assert isinstance(way, Way)
    (run,) = way.actions
    assert isinstance(run, Run)
    assert run.argv == argv


def test_a_power_state_where_there_is_no_shutdown() -> None:
    facts = PowerFacts(commands=FACTS, tools=frozenset({"reboot"}))
    step = step_of(plan_power_state(request_of("power_state: {mode: reboot, delay: 2}\n", rooted=False), facts))
    missing, way = step.ways
    assert missing == Declined(backend="shutdown", why="shutdown is not installed")
    assert isinstance(way, Way)
    assert isinstance(way.actions[0], Run)
    assert way.actions[0].argv == ("reboot", "-d", "120")


def test_a_delay_of_too_many_digits_is_refused() -> None:
    plan = plan_power_state(request_of("power_state: {mode: halt, delay: +9999999999}\n", rooted=False), POWER)
    assert isinstance(step_of(plan).ways[0], Declined)


def test_a_false_condition_is_a_reason_to_do_nothing() -> None:
    plan = plan_power_state(request_of("power_state: {mode: halt, condition: false}\n", rooted=False), POWER)
    assert isinstance(plan[0], Satisfied)


def test_the_form_of_phone_home() -> None:
    text = "phone_home: {url: 'http://h.example/$INSTANCE_ID/x', tries: 3}\nfqdn: web.corp.example\n"
    *cautions, step = plan_phone_home(request_of(text, rooted=False), IDENTITY)
    assert [type(item) for item in cautions] == [Caution, Caution]
    post = actions_of(step_of([step]))[Post]
    assert (post.url.text(), post.shown, post.tries) == (f"http://h.example/{VM_ID}/x", "http://h.example", 3)
    assert parse_qs(post.form.text(), strict_parsing=True) == {
        "pub_key_rsa": ["ssh-rsa AAA+/= root@vm\n"], "pub_key_ecdsa": ["N/A"], "pub_key_ed25519": ["N/A"],
        "instance_id": [VM_ID], "hostname": ["web"], "fqdn": ["web.corp.example"],
    }  # fmt: skip


def test_chosen_fields_of_phone_home() -> None:
    text = "phone_home: {url: 'http://h/', post: [hostname, pub_key_rsa], tries: -4}\n"
    post = actions_of(step_of(plan_phone_home(request_of(text, rooted=False), IDENTITY)))[Post]
    assert (post.form.text(), post.tries) == ("hostname=vm1&pub_key_rsa=ssh-rsa+AAA%2B%2F%3D+root%40vm%0A", 1)


@pytest.mark.parametrize(
    "url", ["ftp://h/", "h", "", "http://", "http://a b/", "http://h:x/", "https://", "http://u:p@h/"]
)
def test_a_url_that_cannot_be_told(url: str) -> None:
    plan = plan_phone_home(request_of(f"phone_home: {{url: '{url}'}}\n", rooted=False), IDENTITY)
    assert isinstance(step_of(plan).ways[0], Declined)
