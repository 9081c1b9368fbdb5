"""The commands of the key-value tool: options before and after them, text and JSON, exit codes. Never a traceback."""

from __future__ import annotations

import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.cli.kvp import VERBS, main, parse_lines
from azureinit.errors import UsageError
from azureinit.machine import Clock, Machine

DOCS = Path(__file__).parents[2] / "docs"
VM = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


class OwnClock(Clock):
    """Time passes only in sleep()."""

    time = 0.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return 1788179696.789

    def now_ns(self) -> int:
        return 1788179696_789012345

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Bench:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "proc").mkdir(parents=True, exist_ok=True)
        (directory / "proc/stat").write_text("btime 1700000000\n")
        self.machine = Machine(kernel=str(directory), clock=OwnClock(), environ={})

    def run(self, *words: str, stdin: bytes = b"", prog: str = "libazureinit-kvp") -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        argv = ["--dir", str(self.directory), *words]
        status = main(argv, machine=self.machine, out=out, err=err, prog=prog, stdin=io.BytesIO(stdin))
        return status, out.getvalue(), err.getvalue()

    def out(self, *words: str, stdin: bytes = b"") -> str:
        status, out, err = self.run(*words, stdin=stdin)
        assert (status, err) == (0, ""), (words, out, err)
        return out

    def json(self, *words: str) -> Any:
        return json.loads(self.out("--json", *words))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_global_options_stand_before_or_after_the_command(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = str(tmp_path / "other")
    before = Bench(tmp_path / "other").out("--pool", "auto", "--unsafe", "--json", "info")
    assert before == bench.out("info", "--pool=auto", "--unsafe", "--json", "--dir", other)
    assert before == bench.out("--unsafe", "--pool", "external", "info", "--pool", "2", "--json", f"--dir={other}")
    assert json.loads(before) == {
        "pool": "auto", "path": f"{other}/.kvp_pool_2", "mode": "unsafe", "records": 0, "empty": True, "stale": False,
        "max_key_size": 512, "max_value_size": 2048,
    }  # fmt: skip


def test_json_is_compact_sorted_and_not_escaped(bench: Bench) -> None:
    bench.out("write", "é", 'a"b')
    bench.out("write", "a", "1")
    assert bench.out("dump", "--json") == '[{"key":"é","value":"a\\"b"},{"key":"a","value":"1"}]\n'
    assert bench.out("entries", "--json") == '{"a":"1","é":"a\\"b"}\n'
    assert bench.out("read", "--json", "é") == '{"key":"é","value":"a\\"b"}\n'
    assert bench.out("dump", "--text") == 'é=a"b\na=1\n'
    assert bench.out("delete", "--json", "a") == '{"removed":true}\n'
    assert bench.out("delete", "a") == "false\n"
    assert bench.out("delete-multiple", "--json", "a", "é") == '{"removed":1}\n'
    assert bench.run("is-stale", "--json") == (1, '{"stale":false}\n', "")


def test_entries_are_sorted_by_bytes(bench: Bench) -> None:
    bench.out("load", stdin="b=1\n\U0001f600=2\n\uffff=3\nB=4\n".encode())
    assert bench.out("entries") == "B=4\nb=1\n\uffff=3\n\U0001f600=2\n"


def test_a_stale_pool_is_told_and_cleared(bench: Bench) -> None:
    bench.out("write", "k", "v")
    os.utime(bench.directory / ".kvp_pool_1", (1, 1))
    assert bench.run("is-stale") == (0, "true\n", "")
    bench.out("clear", "--if-stale")
    assert bench.out("dump") == ""
    bench.out("write", "k", "v")
    bench.out("clear", "--if-stale")
    assert bench.out("dump") == "k=v\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Usage: libazureinit-kvp"),
        (("nothing",), "nothing"),
        (("--pool", "Guest", "info"), "invalid value 'Guest'"),
        (("--pool", "5", "info"), "invalid value '5'"),
        (("--json", "dump", "--text"), "cannot be used with"),
        (("--text", "--json", "info"), "cannot be used with"),
        (("read",), "<KEY>"),
        (("read", "a", "b"), "unexpected argument 'b'"),
        (("--js", "info"), "--js"),
        (("delete-multiple",), "<KEY>"),
        (("dump", "--name", "x"), "need --parse"),
        (("dump", "--kind", "start"), "need --parse"),
        (("dump", "--parse", "--kind", "begin"), "begin"),
        (("report-failure", "--vm-id", "v"), "--reason"),
        (("report-success",), "unable to determine the current VM ID automatically"),
        (("emit", "--name", "n", "--message", "m"), "unable to determine the current VM ID automatically"),
        (("emit", "--name", "a|b", "--message", "m", "--vm-id", VM), "name must not contain '|'"),
        (("emit", "--name", "n", "--message", "m", "--vm-id", "vm-1"), "vm_id must be a UUID"),
        (("report-success", "--vm-id", "v", "--supporting-data", "k='a"), "has an unterminated quote"),
        (("report-success", "--vm-id", "v", "--agent", "x" * 1000), "KVP value length"),
        (("write", "k", "v" * 1023), "KVP value length (1023) exceeds maximum (1022)"),
        (("write", "k" * 255, "v"), "KVP key length (255) exceeds maximum (254)"),
        (("read", ""), "KVP key must not be empty"),
        (("delete", ""), "KVP key must not be empty"),
        (("watch", "--seconds", "-1"), "--seconds"),
        (("watch", "--seconds", "nan"), "seconds from 0 on"),
    ],
)
def test_what_is_wrong_is_said_on_one_line_with_status_2(bench: Bench, words: tuple[str, ...], said: str) -> None:
    status, out, err = bench.run(*words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1 or not words
    assert not (bench.directory / ".kvp_pool_1").exists()


@pytest.mark.parametrize(
    ("verb", "stdin", "expected"),
    [
        ("load", b"novalue\n", (2, "", "line 1 must be in key=value format\n")),
        ("append-multiple", b"a=1\n\n\nb\n", (2, "", "line 4 must be in key=value format\n")),
        ("load", b"=v\n", (2, "", "KVP key must not be empty\n")),
        ("load", b"k=\xff\n", (3, "", "stream did not contain valid UTF-8\n")),
    ],
)
def test_wrong_lines_change_nothing(bench: Bench, verb: str, stdin: bytes, expected: tuple[int, str, str]) -> None:
    bench.out("write", "k", "v")
    assert bench.run(verb, stdin=stdin) == expected
    assert bench.out("dump") == "k=v\n"


def test_lines_end_at_line_feeds_only() -> None:
    text = "a=1\r\n\nb= x=y \n\r\nc=\u2028\x0b\nd="
    assert parse_lines(text) == [("a", "1"), ("b", " x=y "), ("c", "\u2028\x0b"), ("d", "")]
    assert parse_lines("a=1\r\r\nb=2\r") == [("a", "1\r"), ("b", "2\r")]
    with pytest.raises(UsageError):
        parse_lines("a=1\n \n")
    with pytest.raises(UsageError):
        parse_lines("a=1\n\r")


@pytest.mark.parametrize("boot", [1700000000, 2**31])
def test_staleness_is_decided_by_nanoseconds(bench: Bench, boot: int) -> None:
    """A float of seconds would round the last nanosecond of a second up to the next second."""
    (bench.directory / "proc/stat").write_text(f"btime {boot}\n")
    pool = bench.directory / ".kvp_pool_1"
    for nanoseconds, stale in ((-1, True), (0, True), (999_999_999, True), (10**9, False)):
        bench.out("write", "k", "v")
        os.utime(pool, ns=(0, boot * 10**9 + nanoseconds))
        assert bench.run("is-stale") == (0 if stale else 1, f"{str(stale).lower()}\n", "")
        assert bench.json("info")["stale"] is stale
        bench.out("clear", "--if-stale")
        assert bench.out("dump") == ("" if stale else "k=v\n")


def test_a_pool_before_the_epoch_is_stale(bench: Bench) -> None:
    (bench.directory / "proc/stat").write_text("btime 0\n")
    bench.out("write", "k", "v")
    os.utime(bench.directory / ".kvp_pool_1", ns=(0, -1))
    assert bench.run("is-stale")[0] == 0


def test_a_pool_may_be_larger_than_any_that_the_agent_reads(bench: Bench) -> None:
    """Sparse: records without a key."""
    bench.out("write", "first", "1")
    os.truncate(bench.directory / ".kvp_pool_1", 2560 * 60_000)
    bench.out("write", "--append", "last", "2")
    assert bench.json("info")["records"] == 60_001
    assert bench.out("read", "last") == "2\n"
    bench.out("write", "first", "3")
    assert bench.out("delete-multiple", "last", "nothing") == "1\n"
    assert bench.out("read", "first") == "3\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("help",), 0),
        (("help", "write"), 0),
        (("help", "help"), 0),
        (("--json", "help", "is-stale"), 0),
        (("--pool", "bad", "help"), 0),
        (("--pool", "bad", "info", "-h"), 0),
        (("--pool=bad", "help"), 2),
        (("help", "nothing"), 2),
        (("help", "write", "read"), 2),
        (("help", "--json"), 2),
        (("entries", "--"), 0),
        (("entries", "--", "x"), 2),
        (("--", "entries"), 2),
        (("read", "--", "-1"), 1),
        (("read", "-1"), 2),
        (("write", "k", "-1"), 2),
        (("report-success", "--vm-id", "-1"), 2),
        (("report-success", "--vm-id=-1"), 0),
        (("report-success", "--vm-id", "v", "--supporting-data", "a=\udcff"), 2),
        (("report-success", "--vm-id", "\udcff"), 2),
        (("read", "\udcff"), 2),
        (("load", "--file", ""), 2),
        (("load", "--file="), 2),
        (("--json", "--json", "info"), 2),
        (("--json", "info", "--json"), 0),
        (("info", "--pool", "0", "--pool", "0"), 2),
        (("clear", "--if-stale", "--if-stale"), 2),
        (("--json=1", "info"), 2),
        (("-hx",), 0),
        (("-xh",), 2),
    ],
)
def test_words_are_read_as_clap_reads_them(bench: Bench, words: tuple[str, ...], status: int) -> None:
    got, out, err = bench.run(*words)
    assert got == status
    assert bool(err) == (status == 2)
    assert ("Usage: libazureinit-kvp" in out) == (status == 0 and bool({"help", "-h", "-hx"} & set(words)))


def test_what_the_machine_refuses_has_status_3(bench: Bench) -> None:
    (bench.directory / ".kvp_pool_1").write_bytes(b"torn")
    for words in (("info",), ("dump",), ("entries",), ("read", "k"), ("write", "k", "v"), ("delete", "k"), ("load",)):
        status, out, err = bench.run(*words, stdin=b"k=v")
        assert (status, out) == (3, "")
        assert err.startswith("file size (4) is not a multiple of record size (2560)") and err.count("\n") == 1
    assert bench.out("explain") == ""
    bench.out("clear")
    assert bench.run("load", "--file", str(bench.directory / "none"))[0] == 3


@pytest.mark.parametrize(
    ("words", "status", "out"),
    [
        (("dump",), 0, ""),
        (("read", "k"), 1, ""),
        (("is-stale",), 1, "false\n"),
        (("clear",), 0, ""),
        (("delete", "k"), 0, "false\n"),
        (("write", "k", "v"), 3, ""),
        (("write", "", "v"), 2, ""),
    ],
)
def test_a_missing_directory_holds_no_pools_and_is_warned_about(
    bench: Bench, words: tuple[str, ...], status: int, out: str
) -> None:
    named = str(bench.directory / "none")
    got = bench.run(*words, "--dir", named)
    assert got[:2] == (status, out)
    assert got[2].startswith(f"warning: --dir {named}: there is no such directory\n")


@pytest.mark.parametrize("words", [("info",), ("dump",), ("read", "k"), ("is-stale",), ("clear",), ("write", "k", "v")])
def test_a_directory_that_is_a_file_is_an_error(bench: Bench, words: tuple[str, ...]) -> None:
    (bench.directory / "file").touch()
    status, out, err = bench.run(*words, "--dir", str(bench.directory / "file"))
    assert (status, out) == (3, "") and "Not a directory" in err
    assert bench.run("write", "", "v", "--dir", str(bench.directory / "file"))[0] == 2


def test_a_machine_without_the_usual_directory_has_an_empty_pool(tmp_path: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert main(["info"], machine=Machine(root=str(tmp_path), environ={}), out=out, err=err) == 0
    assert "path=/var/lib/hyperv/.kvp_pool_1\nmode=safe\nrecords=0\n" in out.getvalue() and not err.getvalue()


def test_a_failure_is_reported_in_one_record(bench: Bench) -> None:
    bench.out("report-success", "--vm-id", "v")
    words = ("--vm-id", "v", "--reason", "a|b", "--supporting-data", "k='x,y'", "--supporting-data", "l=1,m=2")
    bench.out("report-failure", *words, "--documentation-url", "https://x", "--agent", "me/1")
    assert bench.out("dump") == (
        'PROVISIONING_REPORT=result=error|"reason=a|b"|agent=me/1|k=x,y|l=1|m=2|pps_type=None|vm_id=v'
        "|timestamp=2026-08-31T12:34:56.789012345+00:00|documentation_url=https://x\n"
    )


def test_the_vm_id_is_the_firmwares(bench: Bench) -> None:
    (bench.directory / "sys/class/dmi/id").mkdir(parents=True)
    (bench.directory / "sys/firmware/efi").mkdir(parents=True)
    (bench.directory / "sys/class/dmi/id/product_uuid").write_text(f"{VM.upper()}\n")
    bench.out("report-success")
    assert f"|vm_id={VM}|" in bench.out("read", "PROVISIONING_REPORT")


def test_events_are_emitted_and_parsed(bench: Bench) -> None:
    bench.out("emit", "--name", "user:create", "--message", "made é" * 400, "--vm-id", VM)
    bench.out("emit", "--name", "imds", "--message", "ok", "--vm-id", VM, "--agent", "me/1")
    bench.out("write", "other", "raw")
    bench.out("report-success", "--vm-id", "v")
    first, second, raw, report = bench.json("dump", "--parse")
    assert (first["name"], first["payload"], first["kind"]) == ("user:create", "made é" * 400, "event")
    assert (second["agent"], second["timestamp"], second["vm_id"]) == ("me/1", "2026-08-31T12:34:56.789Z", VM)
    assert raw == {"type": "raw", "key": "other", "value": "raw"}
    assert (report["type"], report["result"]) == ("PROVISIONING_REPORT", "success")
    assert bench.json("dump", "--parse", "--name", "ims") == [raw, report]
    assert bench.json("dump", "--parse", "--name", "imd", "--kind", "event") == [second, raw, report]
    assert bench.json("dump", "--parse", "--kind", "start") == [raw, report]
    text = bench.out("dump", "--parse", "--name", "imds").splitlines()
    assert text[0].startswith(f"diagnostic kind=event agent=me/1 vm_id={VM} name=imds event_id=")
    assert text[0].endswith(" timestamp=2026-08-31T12:34:56.789Z encoding=none payload=ok")
    assert text[1] == "raw key=other value=raw"
    assert text[2].startswith("PROVISIONING_REPORT=result=success|")
    assert bench.out("explain").splitlines()[1] == "2026-08-31T12:34:56.789Z me/1: imds said: ok"
    assert len(bench.json("explain")) == 4


def test_watch_ends_when_its_time_is_over(bench: Bench) -> None:
    bench.out("write", "k", "v")
    assert bench.out("watch", "--seconds", "3") == "k is v\n"
    assert 3 <= bench.machine.clock.monotonic() < 4
    assert bench.out("watch", "--seconds", "0", "--json") == '"k is v"\n'


def test_watch_says_once_that_a_pool_cannot_be_used(bench: Bench) -> None:
    (bench.directory / ".kvp_pool_1").mkdir()
    status, out, err = bench.run("watch", "--seconds", "3")
    assert (status, out) == (0, "") and err.count("\n") == 1


def test_the_program_goes_by_the_name_it_was_called(bench: Bench) -> None:
    status, out, _ = bench.run("write", "--help", prog="azure-init kvp")
    assert status == 0 and "\n\nUsage: azure-init kvp write " in out


WORDS = st.one_of(
    st.sampled_from(sorted(VERBS.keys() - {"watch", "load", "append-multiple"})),
    st.sampled_from(
        ["--json", "--text", "--unsafe", "--pool", "guest", "--append", "--parse", "--name", "--", "-h", "k"]
    ),
    st.sampled_from(["--vm-id", VM, "--reason", "--supporting-data", "--message", "--if-stale", "a=b", "%s", "-1"]),
    st.text(st.characters(blacklist_characters="\0"), max_size=6),
)


@given(st.lists(WORDS, max_size=6), st.binary(max_size=3000))
@settings(deadline=None)
def test_any_words_and_any_pool_end_in_a_status(words: list[str], data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory))
        (bench.directory / ".kvp_pool_1").write_bytes(data)
        words = [word for word in words if not word.startswith("--d")]  # stays in its directory
        assert bench.run(*words)[0] in (0, 1, 2, 3)


def test_the_manual_names_every_command_and_option() -> None:
    text = (DOCS / "kvp.md").read_text()
    for verb in VERBS:
        assert f"`{verb}" in text, verb
    for option in (
        "--pool", "--dir", "--unsafe", "--json", "--text", "--parse", "--name", "--kind", "--append", "--message",
        "--vm-id", "--agent", "--file", "--if-stale", "--supporting-data", "--reason",
        "--documentation-url", "--seconds",
    ):  # fmt: skip
        assert option in text, option
