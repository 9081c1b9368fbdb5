"""The pool store on real files: changes, refusals without a change, and locking."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.errors import LocalError, LockTimeout
from azureinit.kvp.records import RECORD_SIZE, SAFE, KvpInvalid, record
from azureinit.kvp.store import POOLS, Store
from azureinit.machine import Clock, Machine

SRC = Path(__file__).parents[2] / "src"
BOOT = 1_700_000_000


class OwnClock(Clock):
    """Moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def make_store(directory: Path, *, timeout: float = 2.0, **options: Any) -> Store:
    (directory / "proc").mkdir(exist_ok=True)
    (directory / "proc/stat").write_text(f"cpu 1 2 3\nbtime {BOOT}\nprocesses 1\n")
    machine = Machine(kernel=str(directory), clock=OwnClock())
    return Store(machine, directory=str(directory), timeout=timeout, **options)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path)


def content(store: Store) -> bytes | None:
    path = Path(store.path)
    return path.read_bytes() if path.exists() else None


# ---- what it does


@pytest.mark.parametrize(("pool", "number"), [(pool, number) for number, pool in enumerate(POOLS)])
def test_every_pool_has_its_file(tmp_path: Path, pool: str, number: int) -> None:
    make_store(tmp_path, pool=pool).append("k", "v")
    assert (tmp_path / f".kvp_pool_{number}").stat().st_size == RECORD_SIZE


def test_a_new_pool_is_for_its_owner_only(store: Store) -> None:
    before = os.umask(0)
    try:
        store.append("k", "v")
    finally:
        os.umask(before)
    assert Path(store.path).stat().st_mode & 0o777 == 0o600


def test_appending_keeps_what_is_there(store: Store) -> None:
    store.append("a", "1")
    store.append("a", "2")
    store.append_all([("b", "3"), ("a", "4")])
    assert store.pairs() == [("a", "1"), ("a", "2"), ("b", "3"), ("a", "4")]
    assert store.entries() == {"a": "4", "b": "3"}
    assert (store.read("a"), store.read("c"), store.count()) == ("4", None, 4)


def test_an_upsert_replaces_the_first_and_removes_the_others(store: Store) -> None:
    store.append_all([("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("a", "5"), ("d", "6")])
    store.upsert("a", "new")
    assert store.pairs() == [("a", "new"), ("b", "2"), ("d", "6"), ("c", "4")]
    store.upsert("e", "7")
    assert store.pairs()[-1] == ("e", "7")
    store.upsert("e", "")
    assert store.read("e") == ""


def test_a_shorter_value_leaves_nothing_of_the_longer(store: Store) -> None:
    store.upsert("k", "x" * 1000)
    store.upsert("k", "y")
    assert content(store) == record("k", "y", SAFE)


@pytest.mark.parametrize(
    ("keys", "deleted", "left", "removed"),
    [
        ("abc", "a", "cb", 1),
        ("abc", "c", "ab", 1),
        ("abab", "a", "bb", 2),
        ("aab", "a", "b", 2),
        ("baa", "a", "b", 2),
        ("aaa", "a", "", 3),
        ("abcde", "ace", "db", 3),
        ("abc", "zz", "abc", 0),
        ("abcdef", "abc", "fed", 3),
    ],
)
def test_deleting_fills_the_holes_from_the_end(store: Store, keys: str, deleted: str, left: str, removed: int) -> None:
    store.append_all([(key, str(place)) for place, key in enumerate(keys)])
    assert store.delete(*deleted) == removed
    assert "".join(key for key, _ in store.pairs()) == left


@given(st.lists(st.sampled_from("abcde"), max_size=12), st.sets(st.sampled_from("abcdef")))
@settings(max_examples=60, deadline=None)
def test_deleting_loses_nothing_else(keys: list[str], deleted: set[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = make_store(Path(directory))
        pairs = [(key, str(place)) for place, key in enumerate(keys)]
        store.append_all(pairs)
        store.delete(*deleted)
        assert sorted(store.pairs()) == sorted(pair for pair in pairs if pair[0] not in deleted)


def test_nothing_to_do_makes_no_file(store: Store) -> None:
    store.append_all([])
    assert store.delete() == 0
    assert store.delete("a") == 0
    store.clear()
    assert store.clear_if_stale() is False
    assert (store.pairs(), store.count(), store.is_stale(), store.read("a")) == ([], 0, False, None)
    assert content(store) is None


@pytest.mark.parametrize("before", [0, 1, 3, 9])
def test_loading_replaces_everything(store: Store, before: int) -> None:
    store.append_all([("old", str(number)) for number in range(before)])
    store.load([("a", "1"), ("b", "2"), ("a", "3")])
    assert store.pairs() == [("a", "1"), ("b", "2"), ("a", "3")]
    store.load([])
    assert content(store) == b""


def test_a_pool_has_1024_keys(store: Store) -> None:
    store.load([(str(number), "") for number in range(1024)])
    before = content(store)
    refusals: list[Any] = [
        lambda: store.upsert("one more", ""),
        lambda: store.load([(str(number), "") for number in range(1025)]),
    ]
    for refused in refusals:
        with pytest.raises(KvpInvalid, match=r"KVP unique key count exceeded maximum \(1024\)"):
            refused()
    assert content(store) == before
    store.upsert("7", "x")
    store.append("appended", "y")
    assert store.count() == 1025


def test_unsafe_limits_are_the_records_own(tmp_path: Path) -> None:
    make_store(tmp_path, unsafe=True).upsert("k" * 512, "v" * 2048)
    assert make_store(tmp_path).delete("k" * 512) == 1
    with pytest.raises(KvpInvalid):
        make_store(tmp_path).append("k", "v" * 2048)


@pytest.mark.parametrize(("age", "stale"), [(-1, True), (0, True), (1, False)])
def test_what_was_written_before_this_boot_is_stale(store: Store, age: int, stale: bool) -> None:
    store.append("k", "v")
    os.utime(store.path, (BOOT + age, BOOT + age))
    assert store.is_stale() is stale
    assert store.clear_if_stale() is stale
    assert store.count() == (0 if stale else 1)
    assert store.is_stale() is False


@pytest.mark.parametrize(("stat", "why"), [("cpu 1\n", "no btime"), ("btime x\n", "not a number"), (None, "no btime")])
def test_a_boot_time_that_cannot_be_told_is_an_error(store: Store, tmp_path: Path, stat: str | None, why: str) -> None:
    store.append("k", "v")
    (tmp_path / "proc/stat").unlink()
    if stat is not None:
        (tmp_path / "proc/stat").write_text(stat)
    for ask in (store.is_stale, store.clear_if_stale):
        with pytest.raises(LocalError, match=why):
            ask()
    assert store.count() == 1


# ---- what it refuses


def changes(store: Store) -> list[Any]:
    return [
        lambda: store.append("k", "v"),
        lambda: store.append_all([("k", "v"), ("l", "w")]),
        lambda: store.upsert("k", "v"),
        lambda: store.delete("k"),
        lambda: store.delete("k", "l"),
        lambda: store.load([("k", "v")]),
    ]


def readings(store: Store) -> list[Any]:
    return [store.pairs, store.entries, store.count, lambda: store.read("k"), store.readable_pairs]


@given(
    st.one_of(
        st.binary(max_size=3 * RECORD_SIZE),
        st.lists(st.sampled_from([b"k", b"l", b"\xff", b"", b"a\0b"]), max_size=5).map(
            lambda keys: b"".join(key.ljust(512, b"\0") + key.ljust(2048, b"\0") for key in keys)
        ),
        st.integers(0, 3).map(lambda number: bytes(number * RECORD_SIZE + 1)),
    )
)
@settings(max_examples=100, deadline=None)
def test_whatever_the_file_holds_a_refusal_changes_nothing(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = make_store(Path(directory))
        for operation in (*readings(store), *changes(store)):
            Path(store.path).write_bytes(data)
            try:
                operation()
            except LocalError:
                assert content(store) == data
            after = content(store) or b""
            assert len(after) % RECORD_SIZE == 0 or after == data
        store.clear()
        assert content(store) == b""


@pytest.mark.parametrize("size", [1, RECORD_SIZE - 1, 2 * RECORD_SIZE + 7])
def test_a_torn_pool_is_refused_and_not_made_worse(store: Store, size: int) -> None:
    data = b"x" * size
    Path(store.path).write_bytes(data)
    for operation in (*readings(store)[:-1], *changes(store)):
        with pytest.raises(LocalError) as refused:
            operation()
        assert str(refused.value).startswith(f"file size ({size}) is not a multiple of record size (2560)")
        assert content(store) == data
    store.clear()
    store.append("k", "v")


def test_records_of_others_that_are_no_utf8_do_not_silence_us(store: Store) -> None:
    other = b"\xff".ljust(RECORD_SIZE, b"\0")
    Path(store.path).write_bytes(other)
    store.upsert("k", "v")
    store.upsert("k", "w")
    assert content(store) == other + record("k", "w", SAFE)
    assert store.readable_pairs()[1] == ("k", "w")
    with pytest.raises(LocalError, match="record 0 is not valid UTF-8"):
        store.pairs()


@pytest.mark.parametrize(("key", "value"), [("", "v"), ("a\0", "v"), ("k" * 255, "v"), ("k", "\0"), ("k", "v" * 1023)])
def test_invalid_input_is_refused_before_the_file_is_touched(store: Store, key: str, value: str) -> None:
    refusals: list[Any] = [
        lambda: store.append(key, value),
        lambda: store.append_all([("good", "1"), (key, value)]),
        lambda: store.upsert(key, value),
        lambda: store.load([("good", "1"), (key, value)]),
    ]
    for operation in refusals:
        with pytest.raises(KvpInvalid):
            operation()
    assert content(store) is None


@pytest.mark.parametrize("value", ["a|b", "a\r\nb", "é€😀", "=", ' "quoted" '])
def test_any_text_goes_in_and_comes_out(store: Store, value: str) -> None:
    store.upsert(value, value)
    assert store.pairs() == [(value, value)]


def test_a_directory_that_is_missing_is_not_made(tmp_path: Path) -> None:
    store = Store(Machine(), directory=str(tmp_path / "none"), timeout=1)
    assert store.pairs() == []
    with pytest.raises(LocalError, match="No such file or directory"):
        store.append("k", "v")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(store: Store, make: Any) -> None:
    make(store.path)
    for operation in (store.pairs, lambda: store.append("k", "v"), store.clear):
        with pytest.raises(LocalError):
            operation()


def test_a_huge_file_is_not_read(store: Store) -> None:
    with open(store.path, "wb") as file:
        file.truncate(RECORD_SIZE * 1_000_000)
    for operation in (store.pairs, lambda: store.upsert("k", "v"), lambda: store.delete("k")):
        with pytest.raises(LocalError, match="larger than"):
            operation()
    store.append("k", "v")
    assert store.count() == 1_000_001


# ---- locks


@contextmanager
def held(path: str, how: str) -> Iterator[None]:
    """By another process, as others do it."""
    ways = {
        "flock": "fcntl.flock(file, fcntl.LOCK_EX)",
        "flock shared": "fcntl.flock(file, fcntl.LOCK_SH)",
        "fcntl": "fcntl.lockf(file, fcntl.LOCK_EX)",
        "fcntl shared": "fcntl.lockf(file, fcntl.LOCK_SH)",
    }
    script = f"import fcntl, sys; file = open(sys.argv[1], 'r+b'); {ways[how]}; print(flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", script, path]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin and child.stdout
        child.stdout.readline()
        yield
        child.stdin.close()


@pytest.mark.parametrize("how", ["flock", "fcntl"])
def test_a_pool_that_others_hold_is_given_up_after_the_budget(store: Store, how: str) -> None:
    store.append("k", "v")
    before = content(store)
    verb = "flock" if how == "flock" else "fcntl-lock"
    with held(store.path, how):
        for operation in (store.pairs, store.clear, *changes(store)):
            started = store.machine.clock.monotonic()
            with pytest.raises(LockTimeout, match=f"^failed to {verb} KVP file .*has held it for 2 s"):
                operation()
            assert 2 <= store.machine.clock.monotonic() - started < 2.1
    assert content(store) == before
    store.append("k", "w")


@pytest.mark.parametrize("how", ["flock shared", "fcntl shared"])
def test_readers_do_not_wait_for_readers(store: Store, how: str) -> None:
    store.append("k", "v")
    with held(store.path, how):
        assert store.pairs() == [("k", "v")]
        with pytest.raises(LockTimeout):
            store.append("k", "w")


def test_the_holder_of_a_record_lock_is_named(store: Store) -> None:
    store.append("k", "v")
    with held(store.path, "fcntl"), pytest.raises(LockTimeout, match=r"process \d+ has held it"):
        store.append("k", "w")


def test_both_locks_are_held_while_we_write(store: Store) -> None:
    """Asked from inside, through another open file."""
    from azureinit.machine.pools import open_pool

    store.append("k", "v")
    file = open_pool(store.machine, store.path, change=True, timeout=1)
    assert file is not None
    with file, open(store.path, "r+b") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        with pytest.raises(OSError):
            fcntl.fcntl(other, fcntl.F_OFD_SETLK, request)
    with open(store.path, "r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_no_descriptor_is_left_open(store: Store) -> None:
    before = os.listdir("/proc/self/fd")
    for operation in (*changes(store), *readings(store), store.clear):
        operation()
    Path(store.path).write_bytes(b"torn")
    for operation in changes(store):
        with pytest.raises(LocalError):
            operation()
    assert len(os.listdir("/proc/self/fd")) == len(before)
