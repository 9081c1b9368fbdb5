"""The command line: accepted words and their meaning, output, and exit codes. Never a traceback."""

from __future__ import annotations

import json
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
from azureinit.cli.show import NO_PLAN, TRY, plan as show_plan
from azureinit.cli.words import Invocation, parse_args
from azureinit.config.model import Config
from azureinit.errors import UsageError
from azureinit.machine import Machine
from azureinit.version import ANSWERS_FOR, VERSION
from support.need import need_root
from support.trees import changed, listing, make_tree

SRC = Path(__file__).parents[2] / "src"
ID = "c0ffee00-1111-2222-3333-444444444444"
# No source answers, and timeouts are short.
ALONE = f"""\
[platform]
require_azure = false
vm_id = "{ID}"
[imds]
endpoint = "http://127.0.0.1:9"
total_retry_timeout_secs = 0.1
[wireserver]
health_endpoint = "http://127.0.0.1:9/"
total_retry_timeout_secs = 0.1
[provisioning_media]
wait_secs = 0.1
"""


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
    assert capsys.readouterr().out.startswith("Remove the marker")


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


# ---- verbs


def test_not_on_azure_nothing_is_to_be_done(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(tree)
    no_plan = f"{NO_PLAN}{TRY}\n"
    for words, out in ((["plan"], no_plan), (["plan", "--json", "--check"], "[]\n"), ([], "")):
        assert main(["--root", str(tree), *words]) == 0
        told = capsys.readouterr()
        assert told.out == out
        assert "not an Azure VM" in told.err
    assert changed(before, listing(tree)) <= {"var/log/azure-init.log"}


def test_where_the_kernel_s_command_line_forbids_it_no_setting_is_offered(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernel/proc").mkdir(parents=True)
    (tmp_path / "kernel/proc/cmdline").write_text("quiet azure-init=off\n")
    machine = Machine(root=str(tree), kernel=str(tmp_path / "kernel"), environ={})
    assert show_plan([], machine=machine, configured=Config) == 0
    told = capsys.readouterr()
    assert told.out == f"{NO_PLAN}\n" and "azure-init=off" in told.err


def test_a_plan_that_cannot_be_made_says_why(tree: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(tree)
    assert main(["--config", config, "--root", str(tree), "plan", "--check"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "no source names the admin user" in told.err and "imds" in told.err and "media" in told.err
    assert changed(before, listing(tree)) == set()


def test_a_wrong_configuration_stops_every_verb_that_needs_one(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "etc/azure-init.toml").write_text("[imds]\nretry_interval_secs = -1\n")
    for verb in ("plan", "facts", "clean", "provision"):
        assert main(["--root", str(tree), verb]) == 78, verb
        told = capsys.readouterr().err
        assert f"{tree}/etc/azure-init.toml:2: imds.retry_interval_secs" in told, verb


def test_an_unknown_key_is_a_warning_to_every_verb(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "etc/azure-init.toml").write_text("[imds]\nretry_interval_sec = 1\n")
    for verb in ("plan", "facts", "provision"):
        assert main(["--root", str(tree), verb]) == 0, verb
        assert "imds.retry_interval_secs" in capsys.readouterr().err, verb


def test_facts_are_json_without_a_secret(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "etc/shadow").write_text("root:$6$salt$verysecret:19700:0:99999:7:::\n")
    (tree / "etc/gshadow").write_text("root:$6$salt$verysecret::\n")
    (tree / "etc/hosts").write_bytes(b"127.0.0.1 caf\xe9\n")
    assert main(["--root", str(tree), "facts"]) == 0
    told = capsys.readouterr().out
    assert "verysecret" not in told and "$6$" not in told
    facts = json.loads(told)
    assert facts["host"]["rooted"] is True
    assert facts["names"]["hostname_file"] == "localhost\n"


# ---- clean


def cleanable(tree: Path) -> Path:
    data = tree / "var/lib/azure-init"
    data.mkdir(parents=True)
    for kind in ("provisioned", "pending", "saved", "journal"):
        (data / f"{ID}.{kind}").touch()
    (data / "vm-id.provisioned").touch()
    (data / "lock").touch()
    (data / "note.txt").touch()
    (tree / "var/log/azure-init.log").write_text("old\n")
    return data


def test_clean_forgets_every_vm_and_keeps_the_log(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = cleanable(tree)
    assert main(["--root", str(tree), "clean"]) == 0
    assert sorted(path.name for path in data.iterdir()) == ["lock", "note.txt"]
    assert "vm-id.provisioned" in capsys.readouterr().out
    assert (tree / "var/log/azure-init.log").exists()
    assert main(["--root", str(tree), "clean"]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"


def test_clean_with_logs_removes_the_log_too(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cleanable(tree)
    assert main(["--root", str(tree), "clean", "--logs"]) == 0
    assert not (tree / "var/log/azure-init.log").exists()
    assert main(["--root", str(tree), "clean", "--logs"]) == 0, "a log that is not there is no failure"


def test_clean_heeds_the_configured_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/vm-id.provisioned").touch()
    (tmp_path / "log").touch()
    file = tmp_path / "c.toml"
    file.write_text(
        f'[azure_init_data_dir]\npath = "{tmp_path}/data"\n[azure_init_log_path]\npath = "{tmp_path}/log"\n'
    )
    assert main(["--config", str(file), "clean"]) == 0
    assert (tmp_path / "log").exists() and not list((tmp_path / "data").iterdir())
    assert main(["--config", str(file), "clean", "--logs"]) == 0
    assert not (tmp_path / "log").exists()


def test_clean_without_a_data_directory_fails_by_name(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "var/log/azure-init.log").touch()
    assert main(["--root", str(tree), "clean", "--logs"]) == 1
    told = capsys.readouterr().err
    assert told == f"azure-init: cannot clean {tree}/var/lib/azure-init/: it does not exist\n"
    assert (tree / "var/log/azure-init.log").exists(), "the log is not touched where the rest failed"


def test_clean_leaves_what_only_looks_like_ours(tree: Path) -> None:
    data = cleanable(tree)
    for name in ("journal", "provisioned", "a.provisioned.bak", "journal.old"):
        (data / name).touch()
    assert main(["--root", str(tree), "clean"]) == 0
    left = {path.name for path in data.iterdir()}
    assert left == {"lock", "note.txt", "journal", "provisioned", "a.provisioned.bak", "journal.old"}


def test_clean_that_may_not_fails_by_name(tree: Path) -> None:
    need_root()
    data = cleanable(tree)
    inside = f"mount --bind {data} {data} && mount -o remount,ro,bind {data} && exec {sys.executable} -m azureinit"
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{inside} --root {tree} clean --logs"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)},
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"azure-init: cannot remove {tree}/var/lib/azure-init/")
    assert ran.stderr.endswith("Read-only file system\n")
    assert (tree / "var/log/azure-init.log").exists()


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
