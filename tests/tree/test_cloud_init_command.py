"""The commands `cloud-init` and `cloud-init-per` with the arguments that scripts use: answers and exit statuses of
cloud-init 25.1."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from azureinit.cli.cloud_init import parser
from azureinit.errors import AzureInitError, LocalError
from azureinit.machine import Machine

KNOWN = {
    "v1": {"region": "westeurope", "cloud_name": "azure"},
    "ds": {"meta_data": {"a": 1}},
    "userdata": "#!/bin/sh\n",
}
PER = Path(__file__).parents[2] / "packaging/cloud-init-per"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "run/azure-init"
    place.mkdir(parents=True)
    for name in ("instance-data.json", "instance-data-sensitive.json"):
        (place / name).write_text(json.dumps({**KNOWN, "sensitive_keys": []}))
    return tmp_path


def status(root: Path, *words: str) -> int:
    """The exit status. An error is told as the command's last line, and has a status of its own."""
    asked = parser().parse_args(words)
    try:
        return int(asked.run(asked, Machine(root=str(root), environ={})))
    except AzureInitError as error:
        return error.exit_code


def finish(root: Path) -> None:
    place = root / "run/cloud-init"
    place.mkdir()
    ended = {"errors": [], "recoverable_errors": {}, "start": 1.0, "finished": 2.0}
    stages = dict.fromkeys(("init-local", "init", "modules-config", "modules-final"), ended)
    (place / "status.json").write_text(json.dumps({"v1": {"datasource": "x", "stage": None, **stages}}))
    (place / "result.json").write_text("{}")


@pytest.mark.parametrize("options", [(), ("-d",), ("--debug",), ("--force",)])
def test_a_wait_for_what_is_done_prints_one_line(
    root: Path, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts compare the whole output."""
    finish(root)
    assert status(root, *options, "status", "--wait") == 0
    assert capsys.readouterr().out == "status: done\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("v1.region",), "westeurope\n"),
        (("ds.meta_data",), '{\n "a": 1\n}\n'),
        (("-l", "v1"), "cloud_name\nregion\n"),
        (("userdata",), "#!/bin/sh\n\n"),
        (("-d", "v1.region"), "westeurope\n"),
        (("--vendor-data", "/none", "region"), "westeurope\n"),
    ],
)
def test_queries(root: Path, words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(root, "query", *words) == 0
    assert capsys.readouterr().out == told


def test_a_query_of_other_files(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, data = tmp_path / "other.json", tmp_path / "data"
    other.write_text('{"v1": {"region": "elsewhere"}}')
    data.write_text("#cloud-config\n")
    assert status(root, "query", "-i", str(other), "v1.region") == 0
    assert status(root, "query", "--user-data", str(data), "userdata") == 0
    assert capsys.readouterr().out == "elsewhere\n#cloud-config\n\n"
    other.write_text("[]")
    assert status(root, "query", "--instance-data", str(other), "v1") == 1
    assert status(root, "query", "-i", str(tmp_path / "none"), "v1") == 1


def test_a_query_for_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(root, "query") == 1
    assert capsys.readouterr().out.startswith("usage: ")
    assert status(root, "query", "v1.nothing") == 1


@pytest.mark.parametrize(
    ("text", "code", "last"),
    [
        ("runcmd: [a]\n", 0, "Valid schema"),
        ("apt_update: true\n", 0, "Valid schema"),
        ("runcmd: 3\n", 1, "1 error"),
    ],
)
def test_schema(root: Path, text: str, code: int, last: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = root / "given"
    path.write_text(f"#cloud-config\n{text}")
    assert status(root, "schema", "-c", str(path), "--annotate", "-t", "cloud-config") == code
    told = capsys.readouterr()
    assert last in told.out.splitlines()[-1]
    assert told.err == ("Error: Invalid schema: user-data\n" if code else "")


def test_schema_without_a_file(root: Path) -> None:
    asked = parser().parse_args(["schema"])
    with pytest.raises(LocalError, match="--config-file or --system") as told:
        asked.run(asked, Machine(root=str(root), environ={}))
    assert told.value.exit_code == 1


def test_the_stage_before_the_network_is_the_runs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(root, "init", "--local") == 0
    assert "azure-init.service" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "stage"),
    [
        (("init",), "network"),
        (("modules",), "config"),
        (("modules", "--mode=final"), "final"),
        (("modules", "-m", "init"), "init"),
    ],
)
def test_stages_by_hand(words: tuple[str, ...], stage: str) -> None:
    asked = parser().parse_args(words)
    assert (asked.stage, asked.local, asked.run.__name__) == (stage, False, "run_stage")


# ---- cloud-init-per

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace of its own")


def per(place: Path, *words: str) -> int:
    """With the directory in the place of /var/lib."""
    script = 'mount --make-rprivate / && mount --bind "$0" /var/lib && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, str(place), str(PER), *words]
    return subprocess.run(command, check=False, capture_output=True).returncode


@needs_root
@pytest.mark.parametrize(
    ("frequency", "ran", "mark"),
    [
        ("once", 1, "cloud/sem/bootper.my_name.once"),
        ("instance", 1, "cloud/instance/sem/bootper.my_name.instance"),
        ("always", 2, "cloud/sem/bootper.my_name.always"),
    ],
)
def test_a_command_runs_as_often_as_asked(tmp_path: Path, frequency: str, ran: int, mark: str) -> None:
    place, log = tmp_path / "lib", tmp_path / "log"
    place.mkdir()
    for _ in range(2):
        assert per(place, frequency, "my-name", "sh", "-c", f'echo "$1" >>{log}', "x", "two words") == 0
    assert log.read_text() == "two words\n" * ran
    assert (place / mark).read_text().startswith("0\t")


@needs_root
def test_its_exit_status_and_its_mistakes(tmp_path: Path) -> None:
    place = tmp_path / "lib"
    place.mkdir()
    assert per(place, "once", "a", "sh", "-c", "exit 7") == 7
    assert per(place, "once", "a", "sh", "-c", "exit 7") == 0, "as with cloud-init, it is not tried again"
    assert [per(place, *words) for words in (("once", "a"), ("never", "b", "true"), ("once", "a/b", "true"))] == [1] * 3
    assert per(place, "--help") == 0
