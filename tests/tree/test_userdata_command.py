"""`azure-init userdata`: the command on files and standard input, its exit status, and what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from azureinit.cli import main
from support.cli_trees import SRC

CONFIG = "#cloud-config\nruncmd:\n  - echo a: b\nruncm: [a]\nsnap: {}\n"
QUOTE = "a colon and a space make it a mapping: put the whole text in quotation marks"
LAUNCH = f"import sys; sys.path.insert(0, {str(SRC)!r}); from azureinit.cli import main; sys.exit(main(sys.argv[1:]))"
LOADED = LAUNCH.replace("sys.exit(main(sys.argv[1:]))", "status = main(sys.argv[1:])")
LOADED += "; print(*sys.modules); sys.exit(status)"


def validate(*words: str, text: bytes = b"", launch: str = LAUNCH) -> tuple[int, str, str]:
    argv = [sys.executable, "-IS", "-c", launch, "userdata", "validate", *words]
    ran = subprocess.run(argv, input=text, capture_output=True, env={})
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "web.yaml"
    made.write_text(CONFIG)
    return made


def test_findings_are_lines_and_an_error_is_exit_status_1(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["userdata", "validate", str(file)]) == 1
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        f"{file}:3:5: error: runcmd[0] must be text, a list of simple values or empty, and is a mapping; {QUOTE}",
        f"{file}:4:1: error: unknown key runcm; did you mean runcmd?",
        f"{file}:5:1: warning: snap is accepted, but azure-init does not do it",
        f"{file}: 2 errors, 1 warning (cloud-config)",
    ]
    assert told.err == ""


def test_a_warning_is_exit_status_0(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("#cloud-config\nsnap: {}\n")
    assert main(["userdata", "validate", str(file)]) == 0
    assert capsys.readouterr().out.endswith(": 0 errors, 1 warning (cloud-config)\n")
    file.write_text("#!/bin/sh\n")
    assert main(["userdata", "validate", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: ok (script)\n"


def test_json_has_parts_and_findings(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["userdata", "validate", "--json", str(file)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["errors"] == 2
    (part,) = told["parts"]
    assert (part["name"], part["kind"], part["inside"], part["bytes"]) == ("part-001", "cloud-config", [], len(CONFIG))
    hint = "did you mean runcmd?"
    expected = {"level": "error", "message": "unknown key runcm", "line": 4, "column": 1, "part": "", "hint": hint}
    assert told["findings"][1] == expected


def test_standard_input_is_read_as_the_installed_command_would() -> None:
    """Without site-packages: PyYAML is the system's, or it is missing, and then the message names it."""
    status, out, err = validate("-", text=b"#cloud-config\nruncm: [a]\n")
    assert (status, err) == (1, "")
    assert "standard input:2:1: error: unknown key runcm; did you mean runcmd?" in out or "python3-yaml" in out


def test_includes_from_http_can_be_allowed() -> None:
    document = b"#include\nhttp://a.example/x\n"
    assert validate("-", text=document)[0] == 1
    assert validate("--allow-http", "-", text=document)[0] == 0


def test_no_url_is_printed() -> None:
    _, out, _ = validate("--json", "-", text=b"#include\nhttps://a.example/x?sig=S3cret\n")
    assert "S3cret" not in out and json.loads(out)["parts"][0]["includes"] == [{"line": 2, "once": False, "sha256": ""}]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["userdata"], 2, "a command is required: validate, explain, run, schema"),
        (["userdata", "validate"], 2, "the following arguments are required: <FILE>"),
        (["userdata", "validate", "/nowhere/at/all"], 1, "there is no /nowhere/at/all"),
        (["userdata", "validate", "/"], 1, "cannot read /"),
        (["userdata", "schema", "x"], 2, "unexpected argument 'x'"),
    ],
)
def test_what_cannot_be_read_is_told(
    words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    told = capsys.readouterr()
    assert message in told.err and told.out == ""


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["userdata", "schema"]) == 0
    assert "runcmd" in json.loads(capsys.readouterr().out)["properties"]


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)  # an import of it fails
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["userdata", "validate", str(file)]) == 1
    assert "1:1: error: PyYAML is not installed" in (told := capsys.readouterr().out) and "python3-yaml" in told
    file.write_text("## template: jinja\n#cloud-config\n")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["userdata", "validate", str(file)]) == 1
    assert "error: jinja2 is not installed" in (told := capsys.readouterr().out) and "python3-jinja2" in told


def test_a_template_is_accepted_where_jinja2_is(tmp_path: Path, file: Path) -> None:
    (tmp_path / "jinja2.py").touch()
    file.write_text("## template: jinja\n#cloud-config\nruncmd: [{{ x }}]\n")
    argv = [sys.executable, "-c", LAUNCH, "userdata", "validate", str(file)]
    ran = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert ran.returncode == 0 and "the template is not rendered" in ran.stdout


def test_a_script_is_checked_without_yaml_and_jinja2() -> None:
    status, out, _ = validate("-", text=b"#!/bin/sh\n", launch=LOADED)
    names = set(out.splitlines()[-1].split())
    assert status == 0 and "azureinit.userdata.parts" in names
    assert not names & {"yaml", "jinja2", "email", "azureinit.userdata.check", "azureinit.userdata.keys", "json"}


def test_hostile_documents_take_little_memory_and_time(tmp_path: Path) -> None:
    """In a child with 1 GiB of address space and 20 s of processor time."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
    limited += "resource.setrlimit(resource.RLIMIT_CPU, (20, 20)); " + LAUNCH
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi")
    )
    documents = {
        "aliases": b"#cloud-config\n" + bomb.encode(),
        "deep": b"#cloud-config\n" + b"[" * 1_000_000,
        "lines": b"#include\n" + b"\n" * 10_000_000,
        "headers": b"MIME-Version: 1.0\n" + b" x\n" * 3_000_000,
        "boundaries": b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n" + b"--X\n\n" * 1_000_000,
        "values": b"#cloud-config\nruncmd:\n" + b"- a\n" * 1_000_000,
        "one line": b"#cloud-config\na: " + b"x" * 10_000_000,
        "long key": b"#cloud-config\n" + b"x" * 1000 + b": 1\n",
        "brackets": b'{"ignition": ' + b"[" * 1_000_000,
    }
    for name, document in documents.items():
        status, out, err = validate("-", text=document, launch=limited)
        assert err == "" and status in (0, 1), (name, status, err)
        assert out.splitlines()[-1].startswith("standard input: "), name
        assert "Traceback" not in out and len(out) < 100_000, name
