"""Random commands for the KVP tool and its Rust counterpart, run on copies of one random pool, and their results.

    python -m support.dropin --rust PATH [--commands N] [--seed N] [--record FILE]

PATH is a libazureinit-kvp of Azure's own. Prints the share that differs and the first commands that do. --record writes
what the Rust tool did, as vectors for where there is no such binary.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path

import azureinit
from azureinit.cli.kvp import main as kvp_main
from azureinit.machine import Machine

SOURCE = str(Path(azureinit.__file__).parents[1])
RECORD = 2560
POOLS = [f".kvp_pool_{number}" for number in range(5)]
DIRECTORY = b"@DIR@"  # stands for the directory of the pools in words and output
STAMP = re.compile(rb"timestamp=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00")
LONG = re.compile(r"([kvx])\1{19,}")
FOLDED = re.compile(r"<([kvx])\*(\d+)>")
GLOBAL_FLAGS = [b"--json", b"--unsafe"]
VERBS = {
    b"info": [], b"dump": [], b"entries": [], b"read": [], b"write": [b"--append"], b"load": [b"--file"],
    b"append-multiple": [b"--file"], b"delete": [], b"delete-multiple": [], b"clear": [b"--if-stale"],
    b"is-stale": [], b"report-success": [b"--vm-id", b"--agent", b"--supporting-data"],
    b"report-failure": [b"--vm-id", b"--agent", b"--supporting-data", b"--reason", b"--documentation-url"], b"help": [],
}  # fmt: skip
ARGUMENTS = {b"read": 1, b"write": 2, b"delete": 1, b"delete-multiple": 2}
FLAGS = (b"--append", b"--if-stale", *GLOBAL_FLAGS, b"--help")
KEYS = [b"a", b"b", b"k1", b"PROVISIONING_REPORT", "\u00e9".encode(), b"a b", b"key=x", b"-1", b"help", b"info", b"A"]
ODD = [
    b"", b"-", b"--", b"-1", b"-1.5", b"-x", b"-h", b"--help", b"--help=1", b"\xff", b"-\xff", b"--\xff", b"k\xffy",
    b"--json", b"--json=", b"--jso", b"--pool", b"--pool=", b"--dir", b"--dir=", b"-hx", b"---", b"--=", b"=",
    b"help", b"nosuch", b"--append", b"--file", b"--supporting-data", b"a=b", b"--vm-id=", b"-V", b"--version",
]  # fmt: skip
SUPPORTING = [
    b"a=1", b"a=1,b=2", b"k='x,y',l=2", b'k="x,y"', b"k='x", b"k='x'y", b"=v", b"novalue", b"", b",", b"a=1,", b"a='b",
    b"a=b'c", b"a=''", b"a='", b"a=\xff", b"\xff", b"a=x|y", b'a=x"y', b"a=\r", b"a=1\n", b"a==", b"a='b'='c'", b"-a=1",
    b"a=\"'\"", b" a = 1 ", "\u00e9=\U0001f600".encode(), b"result=success",
]  # fmt: skip
LINES = [
    b"a=1", b"b=2", b"a=1\r", b"\r", b"", b"novalue", b"=v", b"k=\xff", b" ", b"a=x=y", b"k=\x0bz", b"k=\xc2\x85",
    "k=\u2028x".encode(), b"k=\x00", b"\x00=v", b"k" * 255 + b"=v", b"k=" + b"v" * 1023, b"k=" + b"v" * 1022, b"a=\r\r",
]  # fmt: skip


CHANGES = ("write", "delete", "delete-multiple", "report-success", "report-failure")


@dataclass(frozen=True)
class Case:
    """One command and its pool. Bytes are stored as text, so that they can be written as JSON."""

    words: list[str]
    stdin: str = ""
    pool: list[list[str]] | None = None  # records of key and value; None: there is no pool
    torn: str = ""  # what is behind the last whole record
    since_boot_ns: int = 10**9  # when the pool was last written, from the second of the boot on


@dataclass(frozen=True)
class Did:
    status: int
    out: str  # the text, or its hash where it is long; "help" for any help
    err: bool  # whether anything was said on standard error
    pools: dict[str, str] = field(default_factory=dict)  # name -> hash of what it holds


def cases(seed: int) -> Iterator[Case]:
    chance = random.Random(seed)
    while True:
        words = _words(chance)
        if not _names_a_directory(words):
            continue  # it would change this machine's own pools
        yield Case(
            words=[folded(word) for word in words],
            stdin=folded(_stdin(chance)),
            pool=_pool(chance) if chance.random() < 0.9 else None,
            torn="torn" if chance.random() < 0.03 else "",
            since_boot_ns=chance.choice(
                [-(10**18), -(10**9), -1, 0, 1, 999_999_999, 10**9, 10**9 - 1, 2 * 10**9, 10**12, -(10**9) - 1]
            ),
        )


def _names_a_directory(words: list[bytes]) -> bool:
    options = words[: words.index(b"--")] if b"--" in words else words
    return any(word == b"--dir" or word.startswith(b"--dir=") for word in options)


def _words(chance: random.Random) -> list[bytes]:
    verb = chance.choice(list(VERBS))
    before: list[bytes] = [b"--dir", DIRECTORY]
    after: list[bytes] = []
    for flag in GLOBAL_FLAGS:
        if chance.random() < 0.2:
            chance.choice((before, after)).append(flag)
    if chance.random() < 0.3:
        pool = chance.choice(
            [b"guest", b"guest", b"external", b"1", b"4", b"auto-external", b"Guest", b"", b"5", b"01"]
        )
        chance.choice((before, after)).extend([b"--pool=" + pool] if chance.random() < 0.4 else [b"--pool", pool])
    for option in VERBS[verb]:
        if option == b"--reason" or chance.random() < 0.5:
            for _again in range(2 if chance.random() < 0.1 else 1):
                after += _option(option, chance)
    for _argument in range(ARGUMENTS.get(verb, 0)):
        after.insert(chance.randrange(len(after) + 1), chance.choice(KEYS + [b"v" * 1022, b"k" * 255, b""]))
    words = [*before, verb, *after]
    if chance.random() < 0.5:
        for _damage in range(chance.randrange(1, 3)):
            _damaged(words, chance)
    return words


def _option(option: bytes, chance: random.Random) -> list[bytes]:
    if option in FLAGS:
        return [option]
    values = {
        b"--file": [b"@DIR@/lines", b"@DIR@/none", b"@DIR@", b"", b"@DIR@/lines/x"],
        b"--supporting-data": SUPPORTING,
    }
    value = chance.choice(values.get(option, [b"v", b"a|b", b'"', b"", b"-1", b"\xff", b"x" * 900, b"vm-1", b"a\nb"]))
    return [option + b"=" + value] if chance.random() < 0.4 else [option, value]


def _damaged(words: list[bytes], chance: random.Random) -> None:
    place = chance.randrange(len(words) + 1)
    kind = chance.randrange(4)
    if kind == 0 or not words:
        words.insert(place, chance.choice(ODD))
    elif kind == 1:
        words.insert(place, chance.choice(words))
    elif kind == 2:
        gone = [index for index, word in enumerate(words) if word not in (b"--dir", DIRECTORY)]
        if gone:
            del words[chance.choice(gone)]
    else:
        one, other = chance.randrange(len(words)), chance.randrange(len(words))
        words[one], words[other] = words[other], words[one]


def _stdin(chance: random.Random) -> bytes:
    lines = [chance.choice(LINES[: 3 if chance.random() < 0.5 else None]) for _line in range(chance.randrange(5))]
    return chance.choice([b"\n", b"\n", b"\r\n"]).join(lines) + chance.choice([b"", b"\n", b"\r", b"\r\n", b"\n\n"])


def _pool(chance: random.Random) -> list[list[str]]:
    records = []
    for _record in range(chance.choice([0, 0, 1, 2, 3, 5, 8])):
        value = chance.choice(
            [b"1", b"", b"v" * 2048, "\u00e9\U0001f600".encode(), b"x\ny", b'"\\\x01\x7f', b"a\0b", b"2"]
        )
        key = chance.choice([*KEYS[:6], b"k" * 512, b"", b"a\0b"] if chance.random() < 0.2 else KEYS[:6])
        if chance.random() < 0.04:
            value = chance.choice([b"\xff", b"\xc3", b"\xed\xa0\x80"])
        records.append([folded(key), folded(value)])
    if chance.random() < 0.004:
        records = [["*", str(chance.choice([1023, 1024, 1025]))]]
    return records


def folded(data: bytes) -> str:
    return LONG.sub(lambda run: f"<{run[1]}*{len(run[0])}>", data.decode("latin-1"))


def unfolded(text: str) -> bytes:
    return FOLDED.sub(lambda run: run[1] * int(run[2]), text).encode("latin-1")


def packed(case: Case) -> bytes:
    """A record whose key is an asterisk stands for so many keys."""
    data = b""
    for key, value in case.pool or ():
        keys = [f"key{number}" for number in range(int(value))] if key == "*" else [key]
        data += b"".join(unfolded(key).ljust(512, b"\0") + unfolded(value).ljust(2048, b"\0") for key in keys)
    return data + case.torn.encode()


def boot_time() -> int:
    found = re.search(r"^btime (\d+)$", Path("/proc/stat").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def prepared(case: Case, place: Path) -> list[bytes]:
    """Writes the pools and the input of the command, and returns its arguments."""
    for old in place.iterdir():
        old.unlink()
    data = packed(case)
    if case.pool is not None:
        for name in POOLS[:2]:
            (place / name).write_bytes(data)
            changed = boot_time() * 10**9 + case.since_boot_ns
            os.utime(place / name, ns=(changed, changed))
    (place / "lines").write_bytes(unfolded(case.stdin))
    return [unfolded(word).replace(DIRECTORY, os.fsencode(place)) for word in case.words]


def run_tool(command: list[str], case: Case, place: Path) -> Did:
    words = prepared(case, place)
    done = subprocess.run(
        [*command, *words],
        input=unfolded(case.stdin),
        capture_output=True,
        timeout=60,
        cwd=place,
        env={**os.environ, "PYTHONPATH": SOURCE},
        check=False,
    )
    return did(place, done.returncode, done.stdout, done.stderr)


def run_ours(case: Case, place: Path) -> Did:
    """Runs in this process: a hundred times faster than a new interpreter for each command."""
    words = [os.fsdecode(word) for word in prepared(case, place)]
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape", newline="\n")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape", newline="\n")
    here = os.getcwd()
    os.chdir(place)
    try:
        stdin = io.BytesIO(unfolded(case.stdin))
        status = kvp_main(words, machine=Machine(environ={}), out=out, err=err, stdin=stdin)
    finally:
        os.chdir(here)
    out.flush()
    err.flush()
    return did(place, status, out.buffer.getvalue(), err.buffer.getvalue())


def did(place: Path, status: int, out: bytes, err: bytes) -> Did:
    pools = {}
    for name in POOLS:
        if (place / name).exists():
            data = (place / name).read_bytes()
            pools[name] = _short(b"".join(_stamped(data[at : at + RECORD]) for at in range(0, len(data), RECORD)))
    if b"Usage: libazureinit-kvp" in out:
        out = b"help"
    out = STAMP.sub(b"timestamp=", out).replace(os.fsencode(place), DIRECTORY)
    return Did(status=status, out=_short(out), err=bool(err), pools=pools)


def _stamped(record: bytes) -> bytes:
    return STAMP.sub(b"timestamp=", record).rstrip(b"\0") + b"\0"


def _short(data: bytes) -> str:
    return data.decode("latin-1") if len(data) <= 100 else hashlib.sha256(data).hexdigest()[:16]


def deliberate(case: Case, theirs: Did, ours: Did) -> str:
    """Why a difference is deliberate, or "": docs/kvp.md, "What differs"."""
    if ours.err and ours == replace(theirs, err=True):
        return "a directory that does not exist is warned about"
    texts = [unfolded(text) for record in case.pool or () for text in record]
    if set(CHANGES) & set(case.words) and not all(map(_is_utf8, texts)):
        return "records of others that are not UTF-8 do not stop a change"
    return ""


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def load_vectors(file: Path) -> list[tuple[Case, Did]]:
    """A row is the fields of a Case and then those of a Did."""
    rows = json.loads(file.read_text())
    split = len(fields(Case))
    return [(Case(*row[:split]), Did(*row[split:])) for row in rows]


def save_vectors(file: Path, vectors: list[tuple[Case, Did]]) -> None:
    rows = [[*vars(case).values(), *vars(did).values()] for case, did in vectors]
    file.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


def _asks_the_firmware(case: Case) -> bool:
    """Whether the command reads the VM's id from the firmware: it differs between machines."""
    words = " ".join(case.words)
    return "report-" in words and "--vm-id" not in words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rust", required=True)
    parser.add_argument("--commands", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path)
    asked = parser.parse_args()
    differing: list[tuple[Case, Did, Did]] = []
    meant = 0
    vectors: list[tuple[Case, Did]] = []
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for number, case in enumerate(islice(cases(asked.seed), asked.commands)):
            theirs = run_tool([asked.rust], case, place)
            ours = run_ours(case, place)
            vectors.append((case, theirs))
            if theirs == ours:
                continue
            if deliberate(case, theirs, ours):
                meant += 1
                vectors.pop()
            else:
                differing.append((case, theirs, ours))
                if len(differing) <= 20:
                    print(f"--- {number}: {case}\n  theirs {theirs}\n  ours   {ours}")
    share = 100 * len(differing) / asked.commands
    print(f"{asked.commands} commands: {len(differing)} differ ({share:.3f} %), {meant} more deliberately")
    if asked.record:
        save_vectors(asked.record, [row for row in vectors if not _asks_the_firmware(row[0])])
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
