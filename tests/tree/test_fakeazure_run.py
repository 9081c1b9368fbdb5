"""`fakeazure run`, `judge` and `new`, as commands."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import fakeazure
from azureinit import version as agent_version
from fakeazure import version
from fakeazure.machines import azure_init_command
from support.need import need
from support.trees import make_tree

SOURCE = str(Path(fakeazure.__file__).parent.parent)
AGENT = """
import os, sys, urllib.request
def ask(url, data=None):
    request = urllib.request.Request(url, data, {"Metadata": "true", "Content-Type": "application/json"})
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).read()
def imds():
    return ask(os.environ["FAKEAZURE_IMDS"] + "/metadata/instance?api-version=2023-11-15&extended=true")
def tell(body):
    ask(os.environ["FAKEAZURE_WIRESERVER"] + "/provisioning/health", body.encode())
READY = '{"state":"Ready"}'
FAILED = '{"state":"NotReady","details":{"subStatus":"ProvisioningFailed","description":"result=error|reason=no luck"}}'
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fakeazure", *arguments]


def environment(tmp_path: Path) -> dict[str, str]:
    place = tmp_path / "place"
    place.mkdir(exist_ok=True)
    return {**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(place)}


def agent(body: str) -> list[str]:
    return ["--", sys.executable, "-c", AGENT + textwrap.dedent(body)]


def fake(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*arguments), env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert list((tmp_path / "place").iterdir()) == []
    assert "Traceback" not in done.stderr
    return done


def scenario(tmp_path: Path, text: str) -> str:
    file = tmp_path / "scenario.toml"
    file.write_text(text)
    return str(file)


def test_an_honest_agent_is_believed(tmp_path: Path) -> None:
    done = fake(tmp_path, "run", *agent("imds(); tell(READY)"))
    assert done.returncode == 0
    assert "GET  /metadata/instance?api-version=2023-11-15&extended=true  200 OK\n" in done.stdout
    assert "tells: Ready" in done.stdout and "(as expected)" in done.stdout
    assert "\033" not in done.stdout + done.stderr


def test_the_command_finds_everything_in_its_environment(tmp_path: Path) -> None:
    done = fake(tmp_path, "run", *agent("""
        import tomllib
        e = os.environ
        config = tomllib.load(open(e["AZURE_INIT_CONFIG"], "rb"))
        assert e["AZURE_INIT_CONFIG"] == e["FAKEAZURE_CONFIG"]
        assert config["imds"]["endpoint"] == e["FAKEAZURE_IMDS"]
        assert config["wireserver"]["health_endpoint"] == e["FAKEAZURE_WIRESERVER"] + "/provisioning/health"
        assert config["provisioning_media"]["path"] == e["FAKEAZURE_MEDIA"]
        assert open(e["FAKEAZURE_MEDIA"], "rb").read()[16 * 2048 + 1 :][:5] == b"BEA01"
        imds()
        assert open(e["FAKEAZURE_LEDGER"]).read().count('"event": "request"') == 1
        tell(READY)
    """))  # fmt: skip
    assert "the command ends with status 0" in done.stdout
    assert done.returncode == 0


def test_without_media_the_named_file_is_not_there(tmp_path: Path) -> None:
    file = scenario(tmp_path, "[media]\nenable = false\n")
    done = fake(tmp_path, "run", file, *agent('assert not os.path.exists(os.environ["FAKEAZURE_MEDIA"]); tell(READY)'))
    assert done.returncode == 0 and "disc" not in done.stdout


def test_the_commands_status_is_shown_and_does_not_count(tmp_path: Path) -> None:
    done = fake(tmp_path, "run", *agent("tell(READY); sys.exit(7)"))
    assert done.returncode == 0 and "the command ends with status 7" in done.stdout


UNJUDGED = "No verdict: this command does not provision, and it reported nothing"


@pytest.mark.parametrize("words", [["plan"], ["plan", "--check"], ["config", "show"], ["--help"]])
def test_a_verb_of_azure_init_that_does_not_provision_is_not_judged(words: list[str], tmp_path: Path) -> None:
    root = [] if words[0] == "config" else ["--root", str(make_tree(tmp_path / "root"))]
    done = fake(tmp_path, "run", "--", sys.executable, "-m", "azureinit", *root, *words)
    assert UNJUDGED in done.stdout and "Verdict" not in done.stdout and "Wrong" not in done.stdout
    assert done.returncode == (3 if "--check" in words else 0)


def test_another_command_that_does_not_provision_has_its_own_status(tmp_path: Path) -> None:
    done = fake(tmp_path, "run", "--no-verdict", *agent("imds(); sys.exit(7)"))
    assert done.returncode == 7 and done.stdout.endswith(f"{UNJUDGED}\n")
    ended = fake(tmp_path, "run", "--no-verdict", *agent("os.kill(os.getpid(), 15)"))
    assert ended.returncode == 128 + signal.SIGTERM


def test_a_command_that_was_not_to_report_and_does_is_wrong(tmp_path: Path) -> None:
    done = fake(tmp_path, "run", "--no-verdict", *agent("tell(READY)"))
    assert done.returncode == 1 and "Wrong: told Ready where the truth is silence" in done.stdout


def test_an_agent_that_ends_well_and_reports_nothing_is_judged_all_the_same(tmp_path: Path) -> None:
    done = fake(tmp_path, "run", *agent("imds()"))
    assert done.returncode == 1 and "Wrong: Ready was expected, but the platform was told no verdict" in done.stdout
    assert "use --no-verdict before the --" in done.stdout


@pytest.mark.parametrize(
    ("command", "provisions"),
    [
        ("azure-init", True),
        ("azure-init --root plan", True),
        ("azure-init -g help --root /x provision", True),
        ("azure-init --root=/x plan", False),
        ("sudo /usr/bin/azure-init --config plan plan --json", False),
        ("python3 -m azureinit --version", False),
        ("my-agent plan", True),
        ("sh -c true", True),
    ],
)
def test_what_provisions_is_told_by_the_words_of_azure_init_alone(command: str, provisions: bool) -> None:
    assert azure_init_command.provisions(command.split()) is provisions


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("imds()", "Wrong: Ready was expected, but the platform was told no verdict"),
        ("tell(FAILED)", "Wrong: Ready was expected, but the platform was told of a failure"),
        ("tell(READY); tell(FAILED)", "Wrong: told Ready, and then a failure, in one boot"),
        ("tell(READY); tell(READY)", "Wrong: told Ready twice in one boot"),
    ],
)
def test_what_is_not_the_truth_ends_with_1(body: str, says: str, tmp_path: Path) -> None:
    done = fake(tmp_path, "run", *agent(body))
    assert done.returncode == 1 and says in done.stdout


def test_a_failure_is_right_where_it_is_expected(tmp_path: Path) -> None:
    file = scenario(tmp_path, '[expect]\nverdict = "failure"\nreason = "luck"\n')
    done = fake(tmp_path, "run", file, *agent("tell(FAILED)"))
    assert done.returncode == 0 and "tells: failed: no luck" in done.stdout
    done = fake(tmp_path, "run", file, *agent("tell(READY)"))
    assert done.returncode == 1 and "Wrong: told Ready where the truth is a failure" in done.stdout


def test_faults_are_played_and_shown(tmp_path: Path) -> None:
    file = scenario(tmp_path, '[[faults]]\npath = "/metadata/instance"\nanswers = [503, "ok", 500]\n')
    body = """
        try: imds()
        except urllib.error.HTTPError: imds()
        tell(READY)
    """
    done = fake(tmp_path, "run", file, *agent("import urllib.error\n" + textwrap.dedent(body)))
    assert done.returncode == 0
    assert "503 Service Unavailable  (scripted: 503)" in done.stdout
    assert "1 of the scripted answers for /metadata/instance were not used" in done.stdout


def test_a_command_that_says_nothing_in_time_is_stopped(tmp_path: Path) -> None:
    file = scenario(tmp_path, "[expect]\nwithin_secs = 0.3\n")
    done = fake(tmp_path, "run", file, "--", "sleep", "60")
    assert done.returncode == 1 and "at the deadline" in done.stdout


def test_a_daemon_is_ended_once_it_has_told_its_verdict(tmp_path: Path) -> None:
    done = fake(tmp_path, "run", "--until-verdict", *agent("tell(READY)\nimport time; time.sleep(60)"))
    assert done.returncode == 0


def test_a_kept_ledger_can_be_judged_again(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ran = fake(tmp_path, "run", "--ledger", str(ledger), *agent("imds(); tell(READY); tell(FAILED)"))
    judged = fake(tmp_path, "judge", str(ledger))
    assert (ran.returncode, judged.returncode) == (1, 1)
    assert judged.stdout.strip() == ran.stdout.strip()
    assert fake(tmp_path, "judge", "--brief", str(ledger)).stdout.startswith("Verdict: the machine lied\n")


def test_scenarios_are_listed_one_a_line_and_run_by_name(tmp_path: Path) -> None:
    lines = fake(tmp_path, "scenarios").stdout.splitlines()
    assert len(lines) >= 30
    name, verdict, description = re.split(r" {2,}", next(line for line in lines if line.startswith("user-root ")))
    assert (name, verdict, description) == ("user-root", "failure", "the user's name is the system's own")
    assert fake(tmp_path, "run", "user-root", *agent("imds(); tell(FAILED)")).returncode == 0
    assert fake(tmp_path, "run", "user-root", *agent("imds(); tell(READY)")).returncode == 1
    assert 'username = "root"' in fake(tmp_path, "scenarios", "user-root").stdout


def test_a_scenario_adds_to_azure_inits_configuration(tmp_path: Path) -> None:
    file = scenario(tmp_path, "[azure-init]\nimds = { retry_interval_secs = 0.5 }\nsources = { grace_secs = 1 }\n")
    done = fake(tmp_path, "run", file, *agent("""
        import tomllib
        config = tomllib.load(open(os.environ["FAKEAZURE_CONFIG"], "rb"))
        assert config["imds"] == {"endpoint": os.environ["FAKEAZURE_IMDS"], "retry_interval_secs": 0.5}
        assert config["sources"] == {"grace_secs": 1}
        tell(READY)
    """))  # fmt: skip
    assert done.returncode == 0 and "the command ends with status 0" in done.stdout


def test_the_disc_is_gone_after_the_verdict_unless_the_scenario_keeps_it(tmp_path: Path) -> None:
    body = (
        'disc = os.environ["FAKEAZURE_MEDIA"]; assert os.path.exists(disc); tell(READY); assert {} os.path.exists(disc)'
    )
    done = fake(tmp_path, "run", *agent(body.format("not")))
    assert "the platform ejects the disc" in done.stdout and "the command ends with status 0" in done.stdout
    done = fake(tmp_path, "run", scenario(tmp_path, "[media]\neject = false\n"), *agent(body.format("")))
    assert "the command ends with status 0" in done.stdout


def test_the_proxy_agents_stub_is_found_on_the_path_where_the_scenario_has_one(tmp_path: Path) -> None:
    body = """
        import subprocess
        subprocess.run(["azure-proxy-agent", "--status", "--wait", "5"], check=True)
        imds(); tell(READY)
    """
    done = fake(tmp_path, "run", "imds-protected", *agent(body))
    assert done.returncode == 0 and "POST /fakeazure/proxy-agent" in done.stdout
    body = "import shutil; assert not shutil.which('azure-proxy-agent'); tell(READY)"
    assert "the command ends with status 0" in fake(tmp_path, "run", *agent(body)).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "required: VERB"),
        (["run", "ordinry", "--", "true"], "there is no scenario ordinry; did you mean ordinary?"),
        (["scenarios", "none"], "there is no scenario none"),
        (["scenarios", "--", "true"], "scenarios takes no command"),
        (["fly"], "invalid choice"),
        (["run"], "no command to run: give the command after --, as in: fakeazure run -- azure-init --root DIR"),
        (["run", "azure-init", "--root", "dir"], "unrecognized arguments: --root dir: give the command after --"),
        (["run", "sh", "agent.sh"], "unrecognized arguments: agent.sh: give the command after --"),
        (["run", "--fast", "--", "true"], "unrecognized arguments: --fast\n"),
        (["serve", "--fast"], "unrecognized arguments: --fast\n"),
        (["run", "--"], "no command to run"),
        (["run", "/no/such.toml", "--", "true"], "/no/such.toml: No such file or directory"),
        (["run", "--ledger", "/no/such/file", "--", "true"], "--ledger /no/such/file: no such directory"),
        (["run", "--", "/no/such/command"], "cannot run /no/such/command: no such file or directory; install it"),
        (["run", "--", "/etc/passwd"], "cannot run /etc/passwd: permission denied; make it executable (chmod +x)"),
        (["run", "--ledger", "/", "--", "true"], "cannot set up the platform: /: is a directory"),
        (["judge", "/no/such/ledger"], "/no/such/ledger: No such file or directory"),
        (["judge", "x", "--", "true"], "judge takes no command"),
        (["new", "/no/such/file"], "/no/such/file: no such file or directory"),
    ],
)
def test_wrong_usage_is_told_in_a_line_and_ends_with_2(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = fake(tmp_path, *arguments)
    assert done.returncode == 2 and says in done.stderr


def test_a_wrong_scenario_is_told_line_by_line_and_ends_with_2(tmp_path: Path) -> None:
    file = scenario(tmp_path, "[vm]\nnmae = 1\n[media]\nformat = 2\n")
    done = fake(tmp_path, "run", file, "--", "true")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"fakeazure: {file}:2: vm.nmae: is not known; did you mean name?",
        f"fakeazure: {file}:4: media.format: 2 is not one of udf, iso, bridge",
    ]


def test_new_writes_a_scenario_once(tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    done = fake(tmp_path, "new", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    play = f"fakeazure run {file} -- azure-init --root DIR"
    assert done.stderr == f"fakeazure: {file} is written; to run it: {play}\n"
    assert file.read_text() == fake(tmp_path, "new").stdout
    again = fake(tmp_path, "new", str(file))
    assert again.returncode == 2 and "already exists" in again.stderr
    assert fake(tmp_path, "run", str(file), *agent("imds(); tell(READY)")).returncode == 0


def test_its_version_is_the_agents(tmp_path: Path) -> None:
    assert version.VERSION == agent_version.VERSION
    assert fake(tmp_path, "--version").stdout == f"fakeazure {agent_version.VERSION}\n"


def test_every_verb_that_takes_a_scenario_names_the_default_and_run_warns_whoever_is_root(tmp_path: Path) -> None:
    helps = {verb: fake(tmp_path, verb, "--help").stdout for verb in ("run", "serve", "boot", "container")}
    for text in helps.values():
        assert "[SCENARIO]" in text and "default: ordinary" in " ".join(text.split())
    assert "an agent that runs as root changes this host" in helps["run"]
    assert "DISK is not changed, unless --keep" in helps["boot"]


def test_no_example_lets_the_agent_provision_the_readers_own_computer(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/fakeazure.md").read_text()
    texts = (page, fake(tmp_path, "run", "--help").stdout, fake(tmp_path, "run").stderr)
    for text in texts:
        examples = re.findall(r"-- azure-init\b.*", text)
        assert examples
        assert all(re.match("-- azure-init (--root DIR|plan)", example) for example in examples)


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(*processes: int, place: Path) -> None:
    deadline = time.monotonic() + 60
    while any(map(alive, processes)) or list(place.iterdir()):
        assert time.monotonic() < deadline, "something outlived fakeazure"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_outlives_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 300 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
    running = subprocess.Popen(
        command("run", "--", "sh", "-c", script), env=environment(tmp_path),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not pids.exists():
        time.sleep(0.001)  # the signal is to come as early as possible
    shell, sleeper = map(int, pids.read_text().split())
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert running.returncode == (-number if number == signal.SIGKILL else 128 + number)
    wait_until_gone(shell, sleeper, place=tmp_path / "place")
    assert "Traceback" not in err
    if number != signal.SIGKILL:
        assert "the command is stopped: fakeazure got a signal" in out
        assert "Verdict: none, the platform is still waiting" in out
        assert re.search(r"Deadline: a verdict within 600 s, but it was stopped after [\d.]+ s\n", out)


@pytest.mark.parametrize("number", [None, signal.SIGKILL])
def test_a_daemon_does_not_outlive_us_although_it_has_left_its_group(
    number: signal.Signals | None, tmp_path: Path
) -> None:
    need("setsid")
    pids = tmp_path / "pids"
    daemon = f"echo $$ > {pids}.new; mv {pids}.new {pids}; exec sleep 300"
    script = f"setsid sh -c '{daemon}' & while ! test -e {pids}; do sleep 0.01; done; {'sleep 300' if number else ''}"
    running = subprocess.Popen(
        command("run", "--", "sh", "-c", script), env=environment(tmp_path),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not pids.exists():
        time.sleep(0.01)
    if number:
        running.send_signal(number)
    running.wait(20)
    wait_until_gone(int(pids.read_text()), place=tmp_path / "place")


def test_a_reader_without_the_machines_letters_is_shown_their_numbers(tmp_path: Path) -> None:
    failure = '{"state":"NotReady","details":{"subStatus":"ProvisioningFailed","description":"f\\u00fcnf"}}'
    done = subprocess.run(
        command("run", *agent(f"tell({failure!r})")), env=environment(tmp_path) | {"PYTHONIOENCODING": "ascii"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "f\\xfcnf" in done.stdout and "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["scenarios"], ["new"], ["run", "--", "true"]])
def test_a_full_disk_is_told_in_a_line(arguments: list[str], tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(*arguments), env=environment(tmp_path), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2 and done.stderr.splitlines()[-1].endswith("no space left on device")
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def on_terminal(tmp_path: Path, *arguments: str, keys: bytes = b"", **variables: str) -> tuple[int, bytes]:
    child, terminal = pty.fork()
    if child == 0:
        place = environment(tmp_path) | {"TERM": "xterm"} | variables
        os.execve(sys.executable, command(*arguments), {k: v for k, v in place.items() if v or k != "NO_COLOR"})
    received = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        received += part
        if keys and b"started" in received:
            os.write(terminal, keys)
            keys = b""
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), received


def test_a_terminal_gets_colour_unless_it_says_no(tmp_path: Path) -> None:
    code, received = on_terminal(tmp_path, "run", *agent("tell(READY)"), NO_COLOR="")
    assert code == 0 and b"\033[32mVerdict: Ready" in received
    code, received = on_terminal(tmp_path, "run", *agent("tell(READY)"), NO_COLOR="1")
    assert code == 0 and b"\033" not in received


def test_the_command_may_read_the_terminal(tmp_path: Path) -> None:
    body = "print('sta' + 'rted', flush=True); assert input() == 'hello'; tell(READY)"
    code, received = on_terminal(tmp_path, "run", *agent(body), keys=b"hello\n")
    assert code == 0 and b"the command ends with status 0" in received


def test_ctrl_c_ends_the_command_and_shows_what_was_told(tmp_path: Path) -> None:
    body = "import time; print('sta' + 'rted', flush=True); time.sleep(60)"
    code, received = on_terminal(tmp_path, "run", *agent(body), keys=b"\x03")
    assert code == 130 and b"still waiting" in received
    wait_until_gone(place=tmp_path / "place")


def test_the_shell_example_of_the_documentation_works(tmp_path: Path) -> None:
    need("curl")
    page = Path(__file__).parents[2] / "docs/fakeazure.md"
    shell, shown = re.findall(r"```sh\n(.*?)```\n\n```\n(.*?)```", page.read_text(), re.DOTALL)[0]
    script = f'fakeazure() {{ "{sys.executable}" -m fakeazure "$@"; }}\n{shell}'
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0

    def timeless(text: str) -> str:
        return re.sub(r" +[\d.]+ s", " T", text).strip()

    assert timeless(done.stdout) == timeless(shown)
