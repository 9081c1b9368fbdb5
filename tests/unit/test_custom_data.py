"""customData: the saved file, and the program that is run."""

from __future__ import annotations

import gzip
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.backends.shell import interpreted
from azureinit.config.model import Config, CustomData as Settings, Waagent
from azureinit.errors import CustomDataFailed
from azureinit.facts.custom_data import CustomData
from azureinit.facts.waagent import Kept
from azureinit.plan.actions import Caution, Declined, MakeDir, Run, Satisfied, Step, Way, Write
from azureinit.plan.custom_data import plan_custom_data, plan_program, why_no_program
from azureinit.plan.show import as_json, as_text
from azureinit.record import Secret
from azureinit.sources.metadata import decoded

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

PATH = "/var/lib/waagent/CustomData"
NOTHING = CustomData(kept=None, service=False)
BAD = Secret("not base64!")


def given_as(data: bytes) -> Secret:
    return Secret(b64encode(data))


def planned(given: Secret, facts: CustomData = NOTHING, done: frozenset[str] = frozenset(), **settings: bool) -> Plan:
    config = Config(custom_data=Settings(**settings))
    return plan_custom_data(given=given, config=config, custom_data=facts, done=done)


def program(data: bytes, *, service: bool = False, rooted: bool = False, done: frozenset[str] = frozenset()) -> Any:
    config = Config(custom_data=Settings(execute=True, execute_timeout_secs=30.0))
    facts = CustomData(kept=None, service=service)
    (item,) = plan_program(given=given_as(data), config=config, custom_data=facts, rooted=rooted, done=done)
    return item


def write(plan: Plan) -> Write:
    (step,) = plan
    assert isinstance(step, Step) and isinstance(step.ways[0], Way)
    directory, action = step.ways[0].actions
    assert directory == MakeDir(path="/var/lib/waagent", mode=0o700)
    assert isinstance(action, Write)
    return action


def test_it_is_kept_as_it_was_given() -> None:
    text = Secret("\n  QUJD\n  REVG ")
    assert write(planned(text)) == Write(path=PATH, data=text, mode=0o600)
    assert write(planned(BAD)) == Write(path=PATH, data=BAD, mode=0o600)


@settings(max_examples=50, deadline=None)
@given(st.binary(min_size=1, max_size=200))
def test_it_is_decoded_byte_for_byte(data: bytes) -> None:
    text = b64encode(data)
    folded = b"\r\n".join(text[at : at + 10] for at in range(0, len(text), 10))
    assert write(planned(Secret(folded), decode=True)) == Write(path=PATH, data=Secret(data), mode=0o600)


def test_what_is_to_be_run_is_decoded_and_executable() -> None:
    action = write(planned(given_as(b"#!/bin/sh\n"), execute=True, save=False))
    assert action == Write(path=PATH, data=Secret("#!/bin/sh\n"), mode=0o700)


def test_nothing_is_kept_where_that_is_not_wanted() -> None:
    assert planned(BAD, save=False, decode=True) == ()


def test_it_goes_where_walinuxagent_keeps_its_state() -> None:
    config = Config(waagent=Waagent(lib_dir="/opt/agent/"))
    (step,) = plan_custom_data(given=BAD, config=config, custom_data=NOTHING, done=frozenset())
    assert isinstance(step, Step) and isinstance(step.ways[0], Way)
    assert step.ways[0].actions == (
        MakeDir(path="/opt/agent", mode=0o700, kept=True),
        Write(path="/opt/agent/CustomData", data=BAD, mode=0o600),
    )


@pytest.mark.parametrize("text", ["!!!!", "QUJD=", "QUI", "QU=I", "====", "QUJDÄ", "Q", "QQ=====", "QUJ\u200bD"])
def test_what_is_not_base64_is_kept_with_a_word_about_it(text: str) -> None:
    assert decoded(Secret(text)) is None
    caution, step = planned(Secret(text), decode=True)
    assert isinstance(caution, Caution) and "not base64" in caution.why
    assert write((step,)).data == Secret(text)
    assert text not in caution.why


def test_what_is_not_base64_cannot_be_run_and_that_is_a_failure() -> None:
    (step,) = planned(BAD, execute=True)
    assert isinstance(step, Step) and step.failure is CustomDataFailed
    assert step.ways == (Declined(backend="native", why="it cannot be run: it is not base64"),)


@pytest.mark.parametrize(("mode", "left"), [(0o600, False), (0o644, True), (0o700, True)])
def test_what_is_there_and_private_stays(mode: int, left: bool) -> None:
    facts = CustomData(kept=Kept(data=BAD, mode=mode), service=False)
    (item,) = planned(BAD, facts)
    assert isinstance(item, Step if left else Satisfied)


def test_a_program_that_has_run_may_have_taken_itself_away() -> None:
    (item,) = planned(given_as(b"#!/bin/sh\n"), done=frozenset(("customData program",)), execute=True)
    assert isinstance(item, Satisfied)
    assert isinstance(program(b"#!/bin/sh\n", done=frozenset(("customData program",))), Satisfied)


def test_neither_plan_shows_what_was_given() -> None:
    data = b"#!/bin/sh\necho canary\n"
    for plan in (planned(given_as(data)), planned(given_as(data), execute=True), (program(data),)):
        for shown in (as_text(plan, privileged=True), as_json(plan)):
            assert "canary" not in shown and b64encode(data).decode() not in shown


def test_it_is_run_once_with_its_output_kept_apart() -> None:
    step = program(b"#!/bin/sh\n")
    assert isinstance(step, Step) and step.once and step.failure is CustomDataFailed
    output = "/var/lib/azure-init/custom-data.log"
    assert step.ways == (Way(backend="native", actions=(Run(argv=("/bin/sh", PATH), timeout=30.0, output=output),)),)


def test_under_systemd_it_has_a_service_of_its_own() -> None:
    step = program(b"#!/usr/bin/env -S python3 -I\n", service=True)
    assert isinstance(step, Step) and isinstance(step.ways[0], Way)
    (run,) = step.ways[0].actions
    assert isinstance(run, Run)
    unit = "azure-init-custom-data.service"
    assert f"--unit={unit}" in run.argv
    assert run.cleanup == (("systemctl", "kill", "--signal=KILL", unit), ("systemctl", "stop", unit))
    assert run.argv[0] == "systemd-run"
    assert run.argv[run.argv.index("--") + 1 :] == ("/usr/bin/env", "-S python3 -I", PATH)


def test_in_a_file_tree_nothing_is_run() -> None:
    item = program(b"#!/bin/sh\n", rooted=True)
    assert isinstance(item, Caution)


@pytest.mark.parametrize(
    ("data", "argv"),
    [
        (b"#!/bin/bash\necho\n", ("/bin/bash", PATH)),
        (b"#!  /bin/bash\t-e  x \necho\n", ("/bin/bash", "-e  x", PATH)),
        (b"#!/bin/bash", ("/bin/bash", PATH)),
        (b"echo hello\n", ("/bin/sh", PATH)),
        (b"# a comment\n", ("/bin/sh", PATH)),
        (b"\x7fELF\x02\x01", (PATH,)),
    ],
)
def test_what_runs_it(data: bytes, argv: tuple[str, ...]) -> None:
    assert why_no_program(data) == ""
    assert interpreted(data, PATH) == argv


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (gzip.compress(b"#!/bin/sh\n", mtime=0), "gzip"),
        (b"#cloud-config\nusers: []\n", "cloud-init"),
        (b"Content-Type: multipart/mixed; boundary=x\n", "cloud-init"),
        (b"MIME-Version: 1.0\n", "cloud-init"),
        (b"#!/bin/sh\r\necho\r\n", "CR LF"),
        (b"#!\necho\n", "no interpreter"),
        (b"#!bash\necho\n", "no interpreter"),
        (b"#!/" + b"canary" * 100, "no interpreter"),
        (b" \n", "empty"),
    ],
)
def test_what_is_no_program_is_a_failure_that_says_so(data: bytes, why: str) -> None:
    step = program(data)
    assert isinstance(step, Step) and step.failure is CustomDataFailed
    (way,) = step.ways
    assert isinstance(way, Declined) and why in way.why
    assert "canary" not in way.why


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_whatever_was_given_there_is_a_command_or_a_reason(data: bytes) -> None:
    if not why_no_program(data):
        argv = interpreted(data, PATH)
        assert argv[-1] == PATH and argv[0].startswith("/") and len(argv) <= 3
