"""Lists of commands, compared with the script that cloud-init of Debian 13 makes of them: both are run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from azureinit.backends.shell import commands_script
from azureinit.modules.commands import commands_of
from support.module_runs import request_of
from support.peer_cloud_init import imported
from support.shells import SHELLS

# Lists that end the same way in both, with failing commands ignored.
LISTS: dict[str, list[Any]] = {
    "texts": ["echo one", "echo two; echo three"],
    "words": [["echo", "a b", "$HOME", "it's", '"', "\\", "*", "ü"], ["printf", "%s-", 1, 1.5, True, "x\ny"]],
    "empty": [None, "echo a", [], "", None, "echo b"],
    "shared": ["X=1", "cd /usr", "f() { echo $X $PWD; }", "f"],
    "a failure in the middle": ["false", "echo status $?", "echo on"],
    "a failure at the end": ["echo a", "(exit 7)"],
    "exit": ["echo a", "exit 3", "echo b"],
    "exit 0": ["echo a", "exit 0", "echo b"],
    "set -e": ["set -e", "true", "false", "echo b"],
    "set -u": ["set -u", "echo a; : $nothing", "echo b"],
    "redirection": ["exec >out", "echo hidden", "exec >&2", "echo shown"],
    "here document": ["cat <<EOF\na $((1 + 1))\nEOF", "cat <<'EOF'\n$x\nEOF\n"],
    "several lines": ["if true\nthen\n  echo yes\nfi\n", "for i in 1 2; do\necho $i\ndone"],
    "comments": ["# nothing", "echo a # b", "   echo indented"],
    "functions and traps": ["trap 'echo bye' EXIT", "f() { return 5; }", "f", "echo $?"],
    "a signal": ["echo a", "kill -9 $$", "echo b"],
    "a syntax error": ["echo a", "if", "echo b"],
    "an error of the shell": ["echo a", "readonly A=1", "A=2", "echo b"],
    "missing program": ["no-such-program-here", "echo $?"],
    "positional": ["set -- a b", "echo $# $2"],
    "exec": ["echo a", "exec echo b", "echo c"],
    "a pipe": ["yes | head -n 2", "false | true", "echo $?"],
    "a process in the background": ["sleep 0.01 & wait", "echo $?"],
    "many": [f"X{one}={one}" for one in range(300)] + ["echo $X7 $X299"],
}


@pytest.fixture(scope="module")
def shellify(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    with imported("trixie", "cloudinit.util", tmp_path_factory.mktemp("peer")) as util:
        yield util.shellify


def outcome(shell: str, place: Path, script: str) -> tuple[int, str, dict[str, str]]:
    place.mkdir()
    (place / "script").write_text(script)
    argv = [*SHELLS[shell], "script"]
    done = subprocess.run(argv, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    files = {path.name: path.read_text() for path in place.iterdir() if path.name not in ("script", "progress")}
    return done.returncode, done.stdout.decode(), files


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", LISTS)
def test_the_same_comes_of_it(name: str, shell: str, shellify: Callable[..., str], tmp_path: Path) -> None:
    items = LISTS[name]
    node = request_of(yaml.safe_dump({"runcmd": items}, allow_unicode=True)).config.get("runcmd")
    assert node is not None
    pairs = tuple((command.label, command.text) for command in commands_of("runcmd", node))
    ours = commands_script(pairs, progress=str(tmp_path / "ours/progress"), ignore=True).text()
    assert outcome(shell, tmp_path / "ours", ours) == outcome(shell, tmp_path / "theirs", shellify(items))


def test_a_list_cut_into_items_is_a_syntax_error_in_ours(shellify: Callable[..., str], tmp_path: Path) -> None:
    """cloud-init joins the items to one text, so that one command may begin in one item and end in another."""
    items = ["if true; then", "echo yes", "fi"]
    pairs = tuple((f"item {number}", text) for number, text in enumerate(items))
    ours = commands_script(pairs, progress=str(tmp_path / "ours/progress"), ignore=False).text()
    shell = next(iter(SHELLS))
    assert outcome(shell, tmp_path / "theirs", shellify(items))[:2] == (0, "yes\n")
    status, out, _files = outcome(shell, tmp_path / "ours", ours)
    assert (status, out) == (2, "")
