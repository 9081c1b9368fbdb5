"""The `waagent` command, called as in templates of image builders."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.cli.waagent_command import USAGE, main, parse_words
from azureinit.errors import UsageError
from azureinit.version import VERSION


@pytest.mark.parametrize(
    ("words", "asked", "given", "path"),
    [
        (["-deprovision"], "deprovision", set(), ""),
        (["-force", "-deprovision+user"], "deprovision+user", {"force"}, ""),
        (["--deprovision+user", "--force", "-verbose"], "deprovision+user", {"force", "verbose"}, ""),
        (["/deprovision"], "deprovision", set(), ""),
        (["deprovision"], "deprovision", set(), ""),
        (["--version"], "version", set(), ""),
        (["-?"], "help", set(), ""),
        ([], "help", set(), ""),
        (["-configuration-path:/x/y.conf", "-deprovision"], "deprovision", set(), "/x/y.conf"),
    ],
)
def test_words_are_taken_as_walinuxagent_takes_them(words: list[str], asked: str, given: set[str], path: str) -> None:
    assert parse_words(words) == (asked, frozenset(given), path)


@pytest.mark.parametrize("word", ["-daemon", "-start", "-run-exthandlers", "-register-service", "-collect-logs"])
def test_what_is_not_ours_is_told_so(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    told = capsys.readouterr().err
    assert f"waagent: {word} is not supported" in told and "install WALinuxAgent beside it for extensions" in told


@pytest.mark.parametrize("word", ["-Deprovision", "-install", "-serialconsole", "", "-"])
def test_an_unknown_word_is_a_usage_error(word: str) -> None:
    with pytest.raises(UsageError, match="unknown word"):
        parse_words([word])


def test_version_and_help_name_azure_init(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"azure-init {VERSION}, called as waagent\n"
    assert main(["-help"]) == 0
    assert capsys.readouterr().out == USAGE


def test_the_configuration_is_shown_as_walinuxagent_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "waagent.conf"
    conf.write_text("Lib.Dir=/x # y\nLogs.Verbose=yes\n")
    assert main([f"-configuration-path:{conf}", "-show-configuration"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == sorted(lines)
    assert {"Lib.Dir = /x", "Logs.Verbose = False", "Extensions.GoalStatePeriod = 6"} <= set(lines)


def test_a_configuration_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"-configuration-path:{tmp_path}/none", "-deprovision"]) == 1
    assert capsys.readouterr().err.startswith(f"waagent: there is no {tmp_path}/none\nUsage: waagent")
