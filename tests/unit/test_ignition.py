"""Ignition's result, and the settings for which it takes precedence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Config
from azureinit.facts.gather import read_facts
from azureinit.facts.ignition import Ignition, parse_result, read_ignition
from azureinit.machine import Machine
from azureinit.plan.actions import Satisfied, Step
from azureinit.plan.ignition import HOSTNAME, PASSWORD, kept_hostname, plan_ignition, without_kept
from azureinit.record import Secret, replace
from azureinit.sources.metadata import Metadata
from support.facts import parts
from support.trees import make_tree

BOOT = "0f0e0d0c-1111-2222-3333-444455556666"
FRESH = Ignition(sign="/etc/.ignition-result.json", fresh=True, wrote_hostname=True)
ASKED = Metadata(
    username="ada", hostname="web-1", password_hash=Secret("$6$platform"), has_password=True, provenance={}
)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    place = tmp_path / "kernel"
    (place / "proc/sys/kernel/random").mkdir(parents=True)
    (place / "proc/sys/kernel/random/boot_id").write_text(BOOT + "\n")
    return place


def found(tmp_path: Path, kernel: Path, **files: str) -> Ignition | None:
    root = make_tree(tmp_path / "root")
    for name, text in files.items():
        (root / name.replace("__", "/")).write_text(text)
    return read_ignition(Machine(root=str(root), kernel=str(kernel)))


def test_most_machines_have_none(tmp_path: Path, kernel: Path) -> None:
    assert found(tmp_path, kernel) is None


def result(**words: Any) -> str:
    return json.dumps({"provisioningBootID": BOOT, "userConfigProvided": True, **words})


@pytest.mark.parametrize(
    ("text", "fresh"),
    [
        (result(), True),
        (result(provisioningBootID=BOOT.replace("-", "")), True),
        (result(provisioningBootID="another"), False),
        (result(provisioningBootID=""), False),
        (result(userConfigProvided=False), False),
        (result(userConfigProvided="yes"), False),
        ("", False),
        ("[]", False),
        ('{"provisioningBootID": null, "userConfigProvided": true}', False),
    ],
)
def test_it_ran_in_this_boot_only_if_its_result_says_so(tmp_path: Path, kernel: Path, text: str, fresh: bool) -> None:
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/.ignition-result.json").write_text(text)
    ignition = found(tmp_path, kernel)
    assert ignition == Ignition(sign="/etc/.ignition-result.json", fresh=fresh, wrote_hostname=fresh)


@given(st.binary() | st.text().map(str.encode))
def test_no_result_breaks_us(data: bytes) -> None:
    assert isinstance(parse_result(data), dict)


def test_nor_does_one_that_is_nested_without_end() -> None:
    assert parse_result(b"[" * 60_000) == {}


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("root=/dev/sda9 flatcar.first_boot=detected quiet", "flatcar.first_boot=detected"),
        ("flatcar.oem.id=azure", "flatcar.oem.id=azure"),
        ("ignition.platform.id=azure", "ignition.platform.id=azure"),
        ("ignition.firstboot rw", "ignition.firstboot"),
        ("quiet notignition.platform.id=azure", None),
    ],
)
def test_the_kernel_s_command_line_tells_it_of_the_running_system(
    tmp_path: Path, kernel: Path, line: str, sign: str | None
) -> None:
    (kernel / "proc/cmdline").write_text(line + "\n")
    running = Machine(kernel=str(kernel))
    if running.stat("/etc/.ignition-result.json") or running.stat("/run/ignition.env"):
        pytest.skip("this computer was made by Ignition")
    assert read_ignition(running) == (Ignition(sign=sign) if sign else None)
    assert found(tmp_path, kernel) is None, "not of a tree that it did not boot"


def test_what_a_boot_loader_left_in_run_tells_it_too(tmp_path: Path, kernel: Path) -> None:
    (tmp_path / "root/run").mkdir(parents=True)
    assert found(tmp_path, kernel, run__ignition__="") is None
    (tmp_path / "root/run/ignition.env").write_text("OEM_ID=azure\n")
    assert found(tmp_path, kernel) == Ignition(sign="/run/ignition.env")


@pytest.mark.parametrize(
    ("file", "ignition", "done", "kept"),
    [
        (b"db-1\n", FRESH, (), "db-1"),
        (b"db-1\n", replace(FRESH, wrote_hostname=False), (), None),
        (b"db-1\n", Ignition(sign="x"), (HOSTNAME,), "db-1"),
        (b"web-1\n", FRESH, (), None),
        (b"localhost\n", FRESH, (), None),
        (b"localhost\n", FRESH, (HOSTNAME,), None),
        (b"-not a name-\n", FRESH, (), None),
        (b"\xff\xfe\n", FRESH, (), None),
        (b"", FRESH, (), None),
        (None, FRESH, (), None),
    ],
)
def test_its_host_name_is_kept(file: bytes | None, ignition: Ignition, done: tuple[str, ...], kept: str | None) -> None:
    assert kept_hostname("web-1", file, ignition, done=frozenset(done)) == kept


@pytest.mark.parametrize(
    ("shadow", "ignition", "done", "kept"),
    [
        ("ada:$6$ignition:19700::::::", FRESH, (), True),
        ("ada:$6$ignition:19700::::::", FRESH, ("password ada",), False),
        ("ada:$6$ignition:19700::::::", Ignition(sign="x"), (), False),
        ("ada:$6$ignition:19700::::::", Ignition(sign="x"), (PASSWORD,), True),
        ("ada:*:19700::::::", FRESH, (), False),
        ("ada:!$6$x:19700::::::", FRESH, (), False),
        ("", FRESH, (), False),
    ],
)
def test_its_password_is_kept(
    tmp_path: Path, shadow: str, ignition: Ignition, done: tuple[str, ...], kept: bool
) -> None:
    root = make_tree(tmp_path)
    if shadow:
        for name, line in (("shadow", shadow), ("passwd", "ada:x:1000:1000::/home/ada:/bin/sh")):
            file = root / "etc" / name
            file.write_text(file.read_text() + line + "\n")
    facts = replace(read_facts(Machine(root=str(root)), Config()), ignition=ignition)
    metadata = without_kept(ASKED, **parts(facts, "ignition", "names", "accounts"), done=frozenset(done))
    assert (metadata.password_hash is None) is kept
    assert metadata.has_password, "sudo asks for it all the same"


def test_a_decision_is_a_step_once_and_then_a_reason() -> None:
    metadata = replace(ASKED, provenance={"hostname": "ignition", "password": "ignition"})
    steps = plan_ignition(metadata, done=frozenset())
    assert [(type(step), step.name) for step in steps] == [(Step, HOSTNAME), (Step, PASSWORD)]
    assert all(isinstance(step, Step) and step.once for step in steps)
    later = plan_ignition(metadata, done=frozenset({HOSTNAME, PASSWORD}))
    assert [type(item) for item in later] == [Satisfied, Satisfied]
    assert plan_ignition(ASKED, done=frozenset()) == ()
