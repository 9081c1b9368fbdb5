"""`fakeazure run`, `judge` and `new`, as commands."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from azureinit import version as agent_version
from fakeazure import version
from fakeazure.machines import azure_init_command
from support.fakeazure_runs import agent, command, environment
from support.trees import make_tree


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
    assert (name, verdict, description) == ("user-root", "failure", "the user name is root")
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
