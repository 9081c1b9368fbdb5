"""The command line: accepted words and their meaning, output, and exit codes. Never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from azureinit.cli import main
from azureinit.cli.commands import VERBS
from azureinit.cli.help import azure_init_help
from azureinit.cli.words import Invocation, parse_args
from azureinit.errors import UsageError
from azureinit.version import ANSWERS_FOR, VERSION
from support.cli_trees import ALONE, ID, SRC
from support.trees import make_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "root")


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "azure-init.toml"
    file.write_text(ALONE)
    return str(file)


def run(*words: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command in a child process."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC), **(env or {})}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60, **options}
    ran = subprocess.run([sys.executable, "-m", "azureinit", *words], text=True, env=environ, **options)
    assert "Traceback" not in (ran.stderr or ""), ran.stderr
    return ran


# ---- words


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("", Invocation()),
        ("provision", Invocation()),
        ("-g a", Invocation(groups=("a",))),
        ("-ga", Invocation(groups=("a",))),
        ("-g=a", Invocation(groups=("a",))),
        ("-g a -g b,c", Invocation(groups=("a", "b", "c"))),
        ("--groups a,b --groups=c", Invocation(groups=("a", "b", "c"))),
        ("--groups=", Invocation(groups=())),
        ("-g a,,b,", Invocation(groups=("a", "b"))),
        ("--config F", Invocation(config="F")),
        ("--config=F", Invocation(config="F")),
        ("--config=a=b", Invocation(config="a=b")),
        ("--config=-F", Invocation(config="-F")),
        ("--config -", Invocation(config="-")),
        ("--root /r", Invocation(root="/r")),
        ("--root=r", Invocation(root="r")),
        # Global options are accepted before and after the verb.
        ("--config F clean --logs", Invocation(verb="clean", rest=("--logs",), config="F")),
        ("clean --logs --config F", Invocation(verb="clean", rest=("--logs",), config="F")),
        ("clean --config F --logs", Invocation(verb="clean", rest=("--logs",), config="F")),
        ("plan --json --root /r -g x", Invocation(verb="plan", rest=("--json",), root="/r", groups=("x",))),
        ("provision --config F", Invocation(config="F")),
        ("config check F --config G", Invocation(verb="config", rest=("check", "F"), config="G")),
        # After a verb, help is that of the verb.
        ("help", Invocation(verb="help")),
        ("-h", Invocation(verb="help")),
        ("--help", Invocation(verb="help")),
        ("--help plan", Invocation(verb="plan", rest=("--help",))),
        ("help plan", Invocation(verb="plan", rest=("--help",))),
        ("help config show", Invocation(verb="config", rest=("show", "--help"))),
        ("plan --help", Invocation(verb="plan", rest=("--help",))),
        ("clean -h", Invocation(verb="clean", rest=("-h",))),
        ("config --help", Invocation(verb="config", rest=("--help",))),
        ("provision --help", Invocation(verb="help")),
        ("provision -h", Invocation(verb="help")),
        ("help provision", Invocation(verb="help")),
        ("help help", Invocation(verb="help")),
        ("help --help", Invocation(verb="help")),
        ("-V", Invocation(version=True)),
        ("--version", Invocation(version=True)),
        ("--config F --version", Invocation(version=True, config="F")),
        ("--version clean", Invocation(verb="clean", version=True)),
        ("-Vga", Invocation(version=True, groups=("a",))),
        ("-Vg a", Invocation(version=True, groups=("a",))),
        ("-gV", Invocation(groups=("V",))),
        ("-hV", Invocation(verb="help")),
        ("-Vh", Invocation(verb="help", version=False)),
        ("-hx --bogus", Invocation(verb="help")),
        ("-h bogus", Invocation(verb="help")),
        ("-V help", Invocation(verb="help", version=True)),
        ("--config a --config b help", Invocation(verb="help", config="a")),
        ("--", Invocation()),
        ("clean --", Invocation(verb="clean", rest=("--",))),
        ("clean -- --config x", Invocation(verb="clean", rest=("--", "--config", "x"))),
    ],
)
def test_what_the_words_mean(words: str, command: Invocation) -> None:
    assert parse_args(words.split()) == command


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--bogus", "unknown option: --bogus"),
        ("-x", "unknown option: -x"),
        ("--group a", "unknown option: --group"),
        ("-", "unknown option: -"),
        ("bogus", "unknown command: bogus"),
        ("Plan", "unknown command: Plan; the nearest known is plan"),
        ("help deprovison", "unknown command: deprovison; the nearest known is deprovision"),
        ("provision now", "provision takes no argument: now"),
        ("provision --json", "unknown option: --json"),
        ("provision plan", "provision takes no argument: plan"),
        ("-g", "a value is required for -g"),
        ("--groups", "a value is required for --groups"),
        ("--config", "a value is required for --config"),
        ("--config=", "a value is required for --config"),
        ("--root", "a value is required for --root"),
        ("--root=", "a value is required for --root"),
        ("--config --root /r", "a value is required for --config"),
        ("-g --config F", "a value is required for -g"),
        ("help bogus", "unknown command: bogus"),
        ("--version --bogus", "unknown option: --bogus"),
        ("--bogus --help", "unknown option: --bogus"),
        ("--config a --config b", "--config can be given once only"),
        ("--config a clean --config b", "--config can be given once only"),
        ("--config a --config=b help", "--config can be given once only"),
        ("-V --version", "--version can be given once only"),
        ("-VV", "--version can be given once only"),
        ("-Vx", "unknown option: -x"),
        ("--version=1", "unknown option: --version=1"),
        ("-- plan", "unknown command: plan; the nearest known is plan"),
        ("help clean x", "unknown command: x"),
        ("-g \udcff", "the value of -g is not UTF-8"),
    ],
)
def test_what_is_no_command_line(words: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_args(words.split())
    assert str(caught.value) == told
    assert caught.value.hint == "see azure-init --help"
    assert main(words.split()) == 2


WORDS = st.one_of(
    st.sampled_from(
        ["-g", "--groups", "--config", "--root", "--help", "-h", "-V", "--json", "--logs", "-", "--", *VERBS]
    ),
    st.text(max_size=6),
)


@given(st.lists(WORDS, max_size=6))
def test_any_words_are_a_command_or_a_usage_error(words: list[str]) -> None:
    try:
        command = parse_args(words)
    except UsageError as error:
        assert error.exit_code == 2
    else:
        assert command.verb in VERBS
        assert command.root


# ---- help and version


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_needs_no_manual(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    told = capsys.readouterr().out
    assert told == azure_init_help()
    assert "-g, --groups <GROUPS>" in told
    assert "password" not in told.lower()
    assert told.isascii()
    assert max(map(len, told.splitlines())) <= 120
    for known in (*VERBS, "--config", "--root", "--version", "AZURE_INIT_CONFIG", "AZURE_INIT_USER_GROUPS", "75", "78"):
        assert known in told


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_the_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out == f"azure-init {VERSION}, a drop-in for Azure's azure-init {ANSWERS_FOR}\n"


def test_the_version_is_told_of_right_words_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-V", "clean", "--logs"]) == 0
    assert capsys.readouterr().out.startswith(f"azure-init {VERSION},")
    assert main(["-V", "clean", "--logs", "--logs"]) == 2
    assert main(["-V", "clean", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Remove the records of every VM")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("plan", "--help"), ("azure-init plan", "--json", "--check")),
        (("help", "plan"), ("azure-init plan", "--json", "--check")),
        (("plan", "--json", "-h"), ("azure-init plan", "--check")),
        (("clean", "--help"), ("azure-init clean", "--logs")),
        (("help", "clean"), ("azure-init clean", "--logs")),
        (("facts", "--help"), ("azure-init facts",)),
        (("config", "--help"), ("azure-init config", "show", "check", "schema")),
        (("help", "config", "show"), ("azure-init config show", "--json")),
        # With --help, other values are not checked.
        (("--config", "/nowhere", "clean", "--help"), ("--logs",)),
    ],
)
def test_a_verbs_own_help(words: tuple[str, ...], options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(words)) == 0
    told = capsys.readouterr().out
    assert all(option in told for option in options)


@pytest.mark.parametrize(
    "words", [("plan", "--bogus"), ("plan", "extra"), ("clean", "--log"), ("facts", "x"), ("config",), ("config", "x")]
)
def test_a_verbs_wrong_arguments_are_a_usage_error(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(words)) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert words[0] in told.err and "--help" in told.err


# ---- the root


def test_a_root_that_is_not_there_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for name, told in (("nowhere", "there is no such directory"), ("file", "it is not a directory")):
        assert main(["--root", str(tmp_path / name)]) == 2
        assert f"--root {tmp_path / name}: {told}\n" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["provision", "plan", "facts", "clean", "deprovision"])
def test_a_root_without_a_system_in_it_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    assert main(["--root", str(tmp_path), verb]) == 2
    told = f"azure-init: --root {tmp_path}: the directory contains no system: it has no etc directory\n"
    assert capsys.readouterr() == ("", told)
    assert list(tmp_path.iterdir()) == []
    assert main(["--root", str(tmp_path), "config", "show"]) == 0, "a file needs no system"


def test_a_root_may_be_relative(tree: Path, config: str) -> None:
    (tree / f"var/lib/azure-init/{ID}.provisioned").parent.mkdir()
    (tree / f"var/lib/azure-init/{ID}.provisioned").touch()
    for root in ("root", "./root/", "root/../root"):
        ran = run("--config", config, "--root", root, cwd=tree.parent)
        assert ran.returncode == 0, ran.stderr
        assert f"VM {ID} is already provisioned" in ran.stderr


# ---- the log file


@pytest.mark.parametrize("path", ["/nowhere/at/all/log", "/etc", "/etc/passwd/log", "/var/log/loop"])
def test_a_log_that_cannot_be_written_stops_nothing(tree: Path, config: str, path: str) -> None:
    (tree / "var/log/loop").symlink_to("loop")
    with open(config, "a") as file:
        file.write(f'[azure_init_log_path]\npath = "{path}"\n')
    (tree / "var/lib/azure-init").mkdir()
    (tree / f"var/lib/azure-init/{ID}.provisioned").touch()
    ran = run("--config", config, "--root", str(tree))
    assert ran.returncode == 0
    assert "already provisioned" in ran.stderr


def test_the_log_tells_a_wrong_configuration_too(tree: Path, config: str) -> None:
    (tree / "etc/azure-init.toml").write_text('[imds]\nretry_interval_secs = "soon"\n')
    assert run("--config", config, "--root", str(tree)).returncode == 78
    assert "imds.retry_interval_secs" in (tree / "var/log/azure-init.log").read_text()


@pytest.mark.parametrize(("level", "told"), [("error", False), ("off", False), ("info", True), ("debug", True)])
def test_the_environment_says_how_much_is_told(tree: Path, level: str, told: bool) -> None:
    ran = run("--root", str(tree), env={"AZURE_INIT_LOG": level})
    assert ran.returncode == 0
    assert ("not an Azure VM" in ran.stderr) is told


# ---- who listens


def test_a_reader_that_has_seen_enough_is_no_failure(tree: Path) -> None:
    for words in (["facts"], ["--help"], ["config", "schema"], ["plan"]):
        read, write = os.pipe()
        os.close(read)
        try:
            ran = run("--root", str(tree), *words, stdout=write)
        finally:
            os.close(write)
        assert ran.returncode == 0, words
        assert "rror" not in ran.stderr, ran.stderr


def test_the_exit_code_is_right_when_standard_error_is_closed() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        assert run("bogus", stderr=write).returncode == 2
    finally:
        os.close(write)


def test_output_that_cannot_be_written_is_a_failure() -> None:
    with open("/dev/full", "w") as full:
        ran = run("--help", stdout=full)
    assert ran.returncode == 1
    assert ran.stderr == "azure-init: cannot write: No space left on device\n"


@pytest.mark.parametrize(("words", "status"), [("--help", 0), ("bogus", 2), ("", 0), ("plan", 0)])
def test_closed_streams_change_nothing(tree: Path, words: str, status: int) -> None:
    script = f'exec "$0" -m azureinit --root "$1" {words} >&- 2>&-'
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)}
    assert subprocess.run(["sh", "-c", script, sys.executable, str(tree)], env=environ).returncode == status


def test_a_name_the_terminal_cannot_show_is_shown_somehow(tree: Path) -> None:
    (tree / "etc/hosts").write_bytes("127.0.0.1 b\u00fccher \u4e66\n".encode())
    environ = {"PYTHONIOENCODING": "ascii"}
    ran = run("--root", str(tree), "config", "show", env=environ)
    assert ran.returncode == 0
    ran = run("--root", str(tree), "facts", env=environ)
    assert ran.returncode == 0


def test_words_that_are_no_text_are_a_usage_error(tree: Path) -> None:
    ran = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"azureinit", b"caf\xe9"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)},
        capture_output=True,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"azure-init: unknown command: caf")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_signal_ends_it_without_a_traceback(tree: Path, config: str, number: int, status: int) -> None:
    """The next run finds what this one has done."""
    text = Path(config).read_text().replace("timeout_secs = 0.1", "timeout_secs = 60")
    Path(config).write_text(text)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC), "AZURE_INIT_LOG": "debug"}
    words = [sys.executable, "-m", "azureinit", "--config", config, "--root", str(tree)]
    with subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, text=True) as agent:
        try:
            assert agent.stderr is not None
            assert agent.stderr.readline().startswith("azure-init: ")
            agent.send_signal(number)
            told = agent.stderr.read()
        finally:
            agent.kill()
    assert agent.returncode == status, told
    assert "Traceback" not in told
