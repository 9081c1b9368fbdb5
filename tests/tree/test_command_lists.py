"""The script that a list of commands becomes, by every shell that may be /bin/sh."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from azureinit.backends.shell import commands_script, quoted
from azureinit.facts.commands import parse_progress
from support.shells import SHELLS


class Ran:
    def __init__(self, done: subprocess.CompletedProcess[bytes], progress: Path) -> None:
        self.status, self.out, self.err = done.returncode, done.stdout.decode(), done.stderr.decode()
        self.lines = progress.read_text().splitlines() if progress.exists() else []
        self.at = self.lines[-1] if self.lines else ""


def sh(shell: str, place: Path, items: list[str], *, ignore: bool = False) -> Ran:
    script, progress = place / "script's", place / "pro'gress"
    pairs = tuple((f"item {number}", text) for number, text in enumerate(items, 1))
    script.write_bytes(commands_script(pairs, progress=str(progress), ignore=ignore).reveal())
    argv = [*SHELLS[shell], str(script)]
    done = subprocess.run(argv, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    return Ran(done, progress)


each_shell = pytest.mark.parametrize("shell", SHELLS)


@each_shell
def test_items_share_directory_variables_functions_and_redirections(shell: str, tmp_path: Path) -> None:
    items = ["cd sub", "f() { echo $1 $X; }", "X='a b'", "f one >out", "exec >all", "echo two", "set -- p q", "echo $#"]
    (tmp_path / "sub").mkdir()
    ran = sh(shell, tmp_path, items)
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "sub/out").read_text() == "one a b\n"
    assert (tmp_path / "sub/all").read_text() == "two\n2\n"
    assert ran.at == "item 8: finished"


@each_shell
@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("false", 1), ("sh -c 'exit 7'", 7), ("exit 3", 3), ("if", None), ("echo 'open", None), (")", None),
        ("set -e; false; true", 1), ("return 4", None), ("no-such-program-here", 127), ("true | false", 1),
        ("kill -9 $$", -9), ("exec sh -c 'exit 5'", 5), ("shift 9", None), ("f() {", None), ("{ true; false; }", 1),
        ("cat <<EOF\nx\nEOF\nfalse", 1),
    ],
)  # fmt: skip
def test_an_item_that_fails_ends_the_list_and_is_named(
    shell: str, text: str, status: int | None, tmp_path: Path
) -> None:
    ran = sh(shell, tmp_path, ["echo before", text, "echo after"])
    assert ran.status != 0
    assert ran.status == status or status is None
    assert (ran.out.splitlines()[0], "after" in ran.out, ran.at) == ("before", False, "item 2")


@each_shell
def test_with_set_e_the_failing_item_is_named(shell: str, tmp_path: Path) -> None:
    ran = sh(shell, tmp_path, ["set -e", "true", "false; echo unreached", "echo after"], ignore=True)
    assert (ran.status, ran.out, ran.at) == (1, "", "item 3")


@each_shell
def test_a_failing_pipe_inside_an_item_is_no_failure(shell: str, tmp_path: Path) -> None:
    assert sh(shell, tmp_path, ["false; true", "false | true", "! false", "if false; then :; fi"]).status == 0


@each_shell
def test_exit_0_ends_the_list_with_success(shell: str, tmp_path: Path) -> None:
    ran = sh(shell, tmp_path, ["echo a", "exit 0", "echo b"])
    assert (ran.status, ran.out, ran.at) == (0, "a\n", "item 2")


@each_shell
def test_ignored_failures_are_noted_and_only_the_last_one_counts(shell: str, tmp_path: Path) -> None:
    ran = sh(shell, tmp_path, ["false", "echo $?", "(exit 8)", "(exit 9)", "echo $?"], ignore=True)
    assert (ran.status, ran.out) == (0, "1\n9\n")
    assert "item 1: exit status 1, ignored" in ran.lines
    assert parse_progress(b"\n" + b"\n".join(f"runcmd {one} ()".encode() for one in ran.lines)).begun == 5
    (tmp_path / "pro'gress").unlink()
    ran = sh(shell, tmp_path, ["true", "(exit 9)"], ignore=True)
    assert (ran.status, ran.at) == (9, "item 2")


@each_shell
def test_words_reach_the_program_unchanged(shell: str, tmp_path: Path) -> None:
    words = ["a'b", 'c"d', "$HOME `id` \\ *", "two\nlines", "ümläut 🎉", "", "-n", "'", "\\'", "a\tb", "!x"]
    text = " ".join(map(quoted, ["printf", r"%s\0", *words]))
    assert sh(shell, tmp_path, [text]).out.split("\0")[:-1] == words


@each_shell
def test_here_documents_comments_and_an_item_without_an_end(shell: str, tmp_path: Path) -> None:
    items = [
        "cat <<'X'\n$a 'b'\nX\n",
        "echo one # comment",
        "echo two \\",
        "# nothing",
        "echo a; echo b",
        "cat <<E\nopen",
    ]
    assert sh(shell, tmp_path, items).out == "$a 'b'\none\ntwo\na\nb\nopen\n"


@each_shell
def test_a_progress_that_cannot_be_written_stops_nothing(shell: str, tmp_path: Path) -> None:
    script = commands_script((("one", "set -e; echo a"), ("two", "echo b")), progress="/no/such/place", ignore=False)
    (tmp_path / "s").write_bytes(script.reveal())
    done = subprocess.run([*SHELLS[shell], str(tmp_path / "s")], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"a\nb\n", b"")


@each_shell
def test_what_a_user_sets_does_not_break_the_checks(shell: str, tmp_path: Path) -> None:
    items = ["IFS=0123", "set -f -u", "PATH=", "set -- 'a b'", 'echo "$1"', "unset HOME", "umask 777", "false"]
    ran = sh(shell, tmp_path, items)
    assert (ran.status, ran.out, ran.at) == (1, "a b\n", "item 8")
