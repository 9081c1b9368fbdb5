"""`libazureinit-kvp` as a process: drop-in cases, kills at any point, a full disk, and parallel processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from azureinit.kvp.records import RECORD_SIZE, parse_records
from azureinit.kvp.store import Store
from azureinit.machine import Machine
from support.need import need

SRC = Path(__file__).parents[2] / "src"
COMMAND = (sys.executable, "-B", "-c", "from azureinit.cli.kvp import command; command()")
ENVIRON = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)}
CHANGING = ("pwrite64", "ftruncate")


def run(*words: str, before: tuple[str, ...] = (), stdin: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    options = {"env": ENVIRON, "capture_output": True, "timeout": 60, "encoding": "utf-8", **options}
    ran = subprocess.run([*before, *COMMAND, *words], input=stdin, **options)
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran


class Pool:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / ".kvp_pool_1"

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return run("--dir", str(self.directory), *words, **options)

    def out(self, *words: str, stdin: str = "") -> str:
        ran = self.run(*words, stdin=stdin)
        assert (ran.returncode, ran.stderr) == (0, ""), ran
        return str(ran.stdout)

    def pairs(self) -> list[tuple[str, str]]:
        return parse_records(self.file.read_bytes()) if self.file.exists() else []


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    directory = tmp_path / "pools"
    directory.mkdir()
    return Pool(directory)


# ---- the seventeen cases


def test_1_help_names_the_program_and_its_commands() -> None:
    ran = run("--help")
    assert ran.returncode == 0
    for word in ("Usage: libazureinit-kvp", "write", "append-multiple", "delete-multiple", "is-stale"):
        assert word in ran.stdout


def test_2_help_of_a_command_names_its_arguments() -> None:
    ran = run("write", "--help")
    assert ran.returncode == 0
    for word in ("Usage: libazureinit-kvp write", "--append", "<KEY>", "<VALUE>"):
        assert word in ran.stdout


def test_3_info_without_a_directory_is_that_of_the_real_pool() -> None:
    told = run("info")
    assert told.returncode == 0
    for line in ("pool=guest\n", "path=/var/lib/hyperv/.kvp_pool_1\n", "mode=safe\n"):
        assert line in told.stdout


def test_4_info_of_another_pool(pool: Pool) -> None:
    assert pool.out("--pool", "external", "--unsafe", "info") == (
        f"pool=external\npath={pool.directory}/.kvp_pool_0\nmode=unsafe\nrecords=0\nempty=true\nstale=false\n"
        "max_key_size=512\nmax_value_size=2048\n"
    )


def test_5_options_take_an_equals_sign(pool: Pool) -> None:
    told = run(f"--dir={pool.directory}", "--pool=auto", "info").stdout
    assert f"pool=auto\npath={pool.directory}/.kvp_pool_2\n" in told


def test_6_a_life_of_a_pool(pool: Pool) -> None:
    pool.out("write", "a", "1")
    pool.out("write", "--append", "a", "2")
    assert pool.out("read", "a") == "2\n"
    assert pool.out("dump") == "a=1\na=2\n"
    assert pool.out("entries") == "a=2\n"
    assert pool.out("delete", "a") == "true\n"
    assert pool.out("dump") == ""
    pool.out("write", "b", "3")
    assert pool.out("clear") == ""
    assert pool.out("dump") == ""


def test_7_load_from_a_file(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a=1\nb=2\n")
    assert pool.out("load", "--file", str(tmp_path / "lines")) == ""
    assert pool.out("dump") == "a=1\nb=2\n"


def test_8_load_from_standard_input(pool: Pool) -> None:
    pool.out("load", stdin="x=1\ny=2\n")
    assert pool.out("entries") == "x=1\ny=2\n"


def test_9_append_multiple_from_standard_input(pool: Pool) -> None:
    pool.out("write", "x", "1")
    pool.out("append-multiple", stdin="x=2\ny=3\n")
    assert pool.out("dump") == "x=1\nx=2\ny=3\n"


def test_10_append_multiple_from_a_file(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a=1\nb=2\n")
    pool.out("append-multiple", "--file", str(tmp_path / "lines"))
    assert pool.out("dump") == "a=1\nb=2\n"


def test_11_delete_multiple_counts_records(pool: Pool) -> None:
    pool.out("append-multiple", stdin="a=1\nb=2\na=3\n")
    assert pool.out("delete-multiple", "a", "z") == "2\n"
    assert pool.out("entries") == "b=2\n"


def test_12_a_missing_pool_is_not_stale(pool: Pool) -> None:
    assert pool.out("clear", "--if-stale") == ""
    ran = pool.run("is-stale")
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "false\n", "")


def test_13_a_missing_key_is_told_by_the_exit_status_alone(pool: Pool) -> None:
    for words in (("read", "missing"), ("--json", "read", "missing")):
        ran = pool.run(*words)
        assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "")


def test_14_an_empty_key_is_refused(pool: Pool) -> None:
    ran = pool.run("write", "", "value")
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "KVP key must not be empty\n")


def test_15_json_carries_any_value(pool: Pool) -> None:
    value = "https://example.test/q=1\nline2"
    pool.out("write", "url", value)
    assert json.loads(pool.out("--json", "read", "url")) == {"key": "url", "value": value}


def test_16_a_report_of_success(pool: Pool) -> None:
    pool.out("report-success", "--vm-id", "vm-1", "--supporting-data", "build=123,commit=abc")
    told = pool.out("read", "PROVISIONING_REPORT").rstrip("\n")
    assert "agent=libazureinit-kvp/0.1.0" in told and "vm_id=vm-1" in told
    assert told.endswith("|build=123|commit=abc")


def test_17_wrong_supporting_data_is_refused(pool: Pool) -> None:
    ran = pool.run("report-failure", "--vm-id", "vm-1", "--reason", "boom", "--supporting-data", "novalue")
    assert ran.returncode == 2
    assert "key=value" in ran.stderr
    assert not pool.file.exists()


# ---- the world as it is


def test_bytes_that_are_no_text_are_refused(pool: Pool) -> None:
    argv: list[str | bytes] = [*COMMAND, "--dir", str(pool.directory), "write", "k", b"\xff"]
    ran = subprocess.run(argv, env=ENVIRON, capture_output=True)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(b"write: invalid UTF-8 in ") and ran.stderr.count(b"\n") == 1
    ran = subprocess.run(
        [*COMMAND, "--dir", str(pool.directory), "load"], env=ENVIRON, input=b"k=\xff\n", capture_output=True
    )
    assert ran.returncode == 3 and b"Traceback" not in ran.stderr
    assert not pool.file.exists()


def test_whatever_the_terminal_speaks_utf8_comes_out(pool: Pool) -> None:
    pool.out("write", "k", "é€")
    assert (
        pool.run("read", "k", env={**ENVIRON, "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}).stdout
        == "é€\n"
    )


def test_a_reader_that_leaves_and_an_output_that_is_full(pool: Pool) -> None:
    Store(Machine(), directory=str(pool.directory), timeout=5).append_all([("k", "v" * 1000)] * 1000)
    script = 'set -o pipefail; "$@" dump | head -c 10 >/dev/null'
    argv = ["bash", "-c", script, "x", *COMMAND, "--dir", str(pool.directory)]
    ran = subprocess.run(argv, env=ENVIRON, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "--dir", str(pool.directory), "dump"],
            env=ENVIRON,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (3, "cannot write: No space left on device\n")


def test_watch_shows_what_comes(pool: Pool) -> None:
    pool.out("write", "first", "1")
    argv = [*COMMAND, "watch", "--dir", str(pool.directory), "--seconds", "300"]
    with subprocess.Popen(argv, env=ENVIRON, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout
        assert watching.stdout.readline() == "first is 1\n"
        pool.out("write", "second", "2")
        assert watching.stdout.readline() == "second is 2\n"
        pool.out("clear")
        assert watching.stdout.readline() == "(the pool was cleared)\n"
        watching.send_signal(2)
        assert watching.wait(60) == 0


# ---- deaths, full disks, crowds

LIVES: dict[str, tuple[tuple[str, ...], str]] = {
    "append": (("write", "--append", "new", "x"), ""),
    "batch": (("append-multiple",), "".join(f"new{number}=x\n" for number in range(60))),
    "insert": (("write", "new", "x"), ""),
    "replace": (("write", "a", "x"), ""),
    "delete": (("delete-multiple", "a", "c", "e"), ""),
    "load": (("load",), "new1=x\nnew2=y\n"),
    "load more": (("load",), "".join(f"new{number}=x\n" for number in range(20))),
    "clear": (("clear",), ""),
    "report": (("report-success", "--vm-id", "vm-1"), ""),
}
OLD = [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("d", "5"), ("e", "6"), ("a", "7")]


def traced(pool: Pool, trace: Path, words: tuple[str, ...], stdin: str, *inject: str) -> int:
    pool.file.write_bytes(b"")
    Store(Machine(), directory=str(pool.directory), timeout=5).append_all(OLD)
    options = ("strace", "-qq", "-o", str(trace), "-e", f"trace={','.join(CHANGING)}", *inject)
    return int(pool.run(*words, before=options, stdin=stdin).returncode)


@pytest.mark.parametrize("life", LIVES)
def test_killed_before_any_change_the_file_holds_whole_records_and_loses_none(
    pool: Pool, tmp_path: Path, life: str
) -> None:
    need("strace")
    words, stdin = LIVES[life]
    trace = tmp_path / "trace"
    assert traced(pool, trace, words, stdin) == 0
    after = pool.pairs()
    calls = [line.partition("(")[0] for line in trace.read_text().splitlines()]
    assert calls, "it changed nothing?"
    if life in ("append", "batch", "insert", "report"):
        assert calls == ["pwrite64"], "one write, however many records"
    for number in range(1, len(calls) + 1):
        call = calls[number - 1]
        when = calls[:number].count(call)
        status = traced(pool, tmp_path / "killed", words, stdin, "-e", f"inject={call}:signal=KILL:when={when}")
        assert status == -9, f"{call} {when}"
        left = pool.pairs()  # whole records, or this raises
        assert set(left) <= {*OLD, *after}
        if life not in ("clear", "load", "load more"):
            kept = [pair for pair in OLD if pair in after]
            assert set(kept) <= set(left), f"lost before {call} {when}"
        assert pool.run(*words, stdin=stdin).returncode == 0
        assert dict(pool.pairs()).keys() == dict(after).keys()


@pytest.mark.parametrize("life", ["append", "batch", "insert", "replace", "load", "load more"])
def test_a_full_disk_changes_nothing(pool: Pool, tmp_path: Path, life: str) -> None:
    need("strace")
    words, stdin = LIVES[life]
    status = traced(pool, tmp_path / "trace", words, stdin, "-e", "inject=pwrite64:error=ENOSPC:when=1")
    assert status == 3
    assert pool.pairs() == OLD


def test_a_disk_that_fills_up_inside_a_record_leaves_no_part_of_it(pool: Pool) -> None:
    store = Store(Machine(), directory=str(pool.directory), timeout=5)
    store.append_all(OLD)
    size = pool.file.stat().st_size
    script = (
        "import resource, sys; from azureinit.cli.kvp import command;"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 2 * RECORD_SIZE + 100},) * 2); command()"
    )
    argv = [sys.executable, "-c", script, "--dir", str(pool.directory), "append-multiple"]
    ran = subprocess.run(argv, env=ENVIRON, input="a=1\n" * 9, capture_output=True, text=True)
    assert ran.returncode == 3 and "File too large" in ran.stderr
    assert pool.pairs() == OLD


def test_two_writers_of_5000_records_lose_none(pool: Pool) -> None:
    script = (
        "import sys; from azureinit.kvp.store import Store; from azureinit.machine import Machine;"
        "store = Store(Machine(), directory=sys.argv[1], timeout=60);"
        "[store.append(f'{sys.argv[2]}-{number}', 'v') for number in range(5000)]"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(pool.directory), name], env=ENVIRON) for name in "ab"
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    keys = [key for key, _ in pool.pairs()]
    assert len(keys) == 10_000
    for name in "ab":
        assert [key for key in keys if key.startswith(name)] == [f"{name}-{number}" for number in range(5000)]
