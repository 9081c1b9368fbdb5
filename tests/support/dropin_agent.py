"""Random command lines and configurations for the agent and its Rust counterpart: are they accepted, how do they end?

    python -m support.dropin_agent --rust PATH [--cases N] [--seed N] [--record FILE]

Only `clean`, help and the version run, never provisioning. A Rust agent that refuses its configuration reports that
to the platform; it is ended at that point.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path

import azureinit
from azureinit.cli import main as azure_init
from azureinit.cli.commands import VERBS
from azureinit.cli.words import parse_args
from azureinit.errors import UsageError

SOURCE = str(Path(azureinit.__file__).parents[1])
REFUSED = "refused"  # the configuration
PATIENCE = 10.0  # seconds; none of these commands waits for anything
WORDS = [
    "clean", "clean", "clean", "--logs", "--config", "@DIR@/config", "--config=@DIR@/config", "-g", "--groups", "a,b",
    "-ga", "-g=", "--groups=x", "-V", "--version", "-h", "--help", "-hV", "-Vh", "-VV", "-Vga", "help", "--", "-", "",
    "-1", "-x", "--nosuch", "nosuch", "--config=", "--logs=1", "--version=1", "-gV", "\udcff", "-g\udcff", "--conf",
]  # fmt: skip
SECONDS = [
    "1", "2.5", "86401", "0", "86400", "1e9", "1e300", "inf", "-inf", "nan", "-1", "-0.0", "true", '"2"', "[1]", "0x10",
    "1979-05-27", "1_000", "9223372036854775807", "{}", "{a = 1}",
]  # fmt: skip
SWITCHES = ["true", "false", '"true"', "1", "0", "[]", "{}", "True"]
TEXTS = [
    '"/x"', "'''/y'''", '""', '"a\\nb"', "'x'", "1", "true", "[]", '"/%h/x"', '"\\u0000"', '"' + "x" * 5000 + '"',
    '"\u00e9"',
]  # fmt: skip
URLS = [
    '"http://h/x"', '"HTTP://h/x"', '"https://h"', '"h"', '""', "1", '"http://"', '"http://h:0"', '"http://h:99999"',
    '"ftp://h"', '"http://[::1]:80/x"', '"http://u:p@h"', '"http://h/#x"', '"http://h/a b"',
]  # fmt: skip


def lists(*names: str) -> list[str]:
    known = ['["' + name + '"]' for name in names]
    return [
        *known,
        *known,
        "[]",
        '["magic"]',
        "[1]",
        f'"{names[0]}"',
        f'["{names[0]}", "{names[0]}"]',
        f'["{names[0].upper()}"]',
    ]


KEYS = {
    "ssh": {
        "authorized_keys_path": TEXTS,
        "query_sshd_config": SWITCHES,
        "configure_sshd_password_authentication": SWITCHES,
    },
    "hostname_provisioners": {"backends": lists("hostnamectl")},
    "user_provisioners": {"backends": lists("useradd")},
    "password_provisioners": {"backends": lists("passwd")},
    "imds": dict.fromkeys(
        ("connection_timeout_secs", "request_timeout_secs", "retry_interval_secs", "total_retry_timeout_secs"), SECONDS
    ),
    "provisioning_media": {"enable": SWITCHES},
    "azure_proxy_agent": {"enable": SWITCHES},
    "wireserver": {
        **dict.fromkeys(("connection_timeout_secs", "read_timeout_secs", "total_retry_timeout_secs"), SECONDS),
        "health_endpoint": URLS,
    },
    "telemetry": {"kvp_diagnostics": SWITCHES, "kvp_filter": [*TEXTS, '"info"', '"x=y=z"']},
    "azure_init_log_path": {"path": TEXTS},
    "nosuch": {"key": TEXTS},
}  # fmt: skip
FAULTS = [
    *[""] * 30,
    "= 1",
    "[ssh]",
    "[ssh",
    "\ufeff",
    "\x00",
    "key",
    "ssh = 1",
    "[[imds]]",
    "# \u00e9",
    "nosuch = 1",
    "\r",
]
NAMES = ["a.toml", "b.toml", ".hidden.toml", ".toml", "c.toml.bak", "d.conf", "E.TOML", "\u00e9.toml"]
ODD_ENTRIES = ["directory", "dangling", "loop", "large"]
CONFIG = "@DIR@/config"
DATA = '[azure_init_data_dir]\npath = "@DIR@/data"\n[waagent]\nlib_dir = "@DIR@/waagent"\n'


@dataclass(frozen=True)
class Case:
    words: list[str]
    files: dict[str, str]  # name -> text: one file called config, or files in a directory of that name
    entries: dict[str, str]  # names in that directory that are no ordinary files


def cases(seed: int) -> Iterator[Case]:
    chance = random.Random(seed)
    while True:
        if chance.random() < 0.4:
            case = Case([chance.choice(WORDS) for _word in range(chance.randrange(1, 6))], {"config": DATA}, {})
            if not _reaches_this_machine(case):
                yield case
            continue
        words = ["--config", "@DIR@/config", "clean"]
        if chance.random() < 0.6:
            yield Case(words, {"config": _toml(chance) + DATA}, {})
            continue
        named = {f"config/{chance.choice(NAMES)}": _toml(chance) for _file in range(chance.randrange(4))}
        odd = {f"config/{kind}.toml": kind for kind in ODD_ENTRIES if chance.random() < 0.1}
        yield Case(words, {**named, "config/zz.toml": DATA}, odd)


def _reaches_this_machine(case: Case) -> bool:
    """Whether it would provision, or clean files that are not the test's."""
    try:
        command = parse_args(list(case.words))
    except UsageError:
        return False
    if command.verb == "help" or command.version:
        return False
    return command.verb != "clean" or command.config not in (None, CONFIG)


def _toml(chance: random.Random) -> str:
    lines = [chance.choice(FAULTS)]
    for section in chance.sample(list(KEYS), chance.randrange(4)):
        lines.append(f"[{section}]")
        for key in chance.sample(list(KEYS[section]), chance.randrange(1, len(KEYS[section]) + 1)):
            values = KEYS[section][key]
            lines.append(f"{key} = {chance.choice(values if chance.random() < 0.2 else values[:2])}")
    return "\n".join(lines) + "\n"


def prepared(case: Case, place: Path) -> list[str]:
    subprocess.run(["rm", "-rf", "--", *place.iterdir()], check=True)
    (place / "data").mkdir()
    (place / "data/vm.provisioned").touch()
    for name, text in case.files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(text.replace("@DIR@", str(place)).encode())
    for name, kind in case.entries.items():
        if kind == "directory":
            (place / name).mkdir()
        elif kind == "large":
            (place / name).write_text("#" * (1 << 21))
        else:
            (place / name).symlink_to(name.rpartition("/")[2] if kind == "loop" else "/nowhere/at/all")
    return [word.replace("@DIR@", str(place)) for word in case.words]


def outcome(place: Path, status: int | str, out: bytes) -> list[object]:
    """The exit code or REFUSED, what kind of output, whether the marker is still there."""
    kind = "help" if b"sage: " in out else "version" if b"0.1.1" in out else ""
    return [status, kind, (place / "data/vm.provisioned").exists()]


def run_rust(rust: str, case: Case, place: Path) -> list[object]:
    words = prepared(case, place)
    environ = {"PATH": os.environ["PATH"], "AZURE_INIT_CONFIG": str(place / "config")}
    with subprocess.Popen(
        [rust, *map(os.fsencode, words)], env=environ, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None and process.stdout is not None
        told = b""
        while line := process.stderr.readline():
            told += line
            if b"Failed to load configuration" in told:
                process.kill()
                process.wait(PATIENCE)
                return outcome(place, REFUSED, b"")
        out = process.stdout.read()
        return outcome(place, process.wait(PATIENCE), out)


def run_ours(case: Case, place: Path) -> list[object]:
    words = prepared(case, place)
    out, err = io.StringIO(), io.StringIO()
    here, environ = os.getcwd(), dict(os.environ)
    os.chdir(place)
    os.environ.clear()
    os.environ["AZURE_INIT_CONFIG"] = str(place / "config")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = azure_init(words)
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(environ)
    return outcome(place, REFUSED if status == 78 else status, out.getvalue().encode("utf-8", "surrogateescape"))


def deliberate(case: Case, theirs: list[object], ours: list[object]) -> str:
    """Why a difference is deliberate, or "": docs/configuration.md and docs/commands.md, "What differs"."""
    if theirs[0] == 2:
        return _accepted_here(case.words)
    if theirs[0] == 0 and ours[0] == REFUSED:
        text = "\n".join(case.files.values())
        for mark, why in REFUSED_HERE.items():
            if mark in text:
                return why
        if {"-", "-1"} & set(case.words):
            return "a name that no group can have"
        if len(case.files) > 2:
            return "a wrong value that a later file replaces"
    return ""


def _accepted_here(words: list[str]) -> str:
    if set(words) & set(VERBS) - {"clean", "help"}:
        return "an addition"
    verb = next((place for place, word in enumerate(words) if word == "clean"), len(words))
    if any(word.startswith(("--config", "-g", "--groups")) for word in words[verb:]):
        return "options may stand behind the command"
    if "help" in words and {"-h", "--help"} & set(words):
        return "help --help is help"
    return ""


REFUSED_HERE = {
    '"https://h"': "a URL that is not plain http",
    '"h"': "a URL that is not plain http",
    'health_endpoint = ""': "a URL that is not plain http",
    '"http://"': "a URL that is not plain http",
    '"http://h:0"': "a URL that is not plain http",
    '"http://h:99999"': "a URL that is not plain http",
    '"ftp://h"': "a URL that is not plain http",
    '"http://u:p@h"': "a URL that is not plain http",
    '"http://h/#x"': "a URL that is not plain http",
    '"http://h/a b"': "a URL that is not plain http",
    "= -1": "a duration that could not have worked",
    "= -inf": "a duration that could not have worked",
    "= nan": "a duration that could not have worked",
    "timeout_secs = 0\n": "a duration that could not have worked",
    "timeout_secs = -0.0": "a duration that could not have worked",
    'path = ""': "a path that could not have worked",
    '"a\\nb"': "a text with control characters",
    '"\\u0000"': "a text with control characters",
    "x" * 5000: "a text of more than 4,096 characters",
}


def load_vectors(file: Path) -> list[tuple[Case, list[object]]]:
    split = len(fields(Case))
    return [(Case(*row[:split]), row[split:]) for row in json.loads(file.read_text())]


def save_vectors(file: Path, vectors: list[tuple[Case, list[object]]]) -> None:
    rows = [[*vars(case).values(), *did] for case, did in vectors]
    file.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rust", required=True)
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path)
    asked = parser.parse_args()
    vectors = []
    differ, meant = 0, 0
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for case in islice(cases(asked.seed), asked.cases):
            theirs, ours = run_rust(asked.rust, case, place), run_ours(case, place)
            if theirs != ours and deliberate(case, theirs, ours):
                meant += 1
                continue
            vectors.append((case, theirs))
            if theirs != ours:
                differ += 1
                if differ <= 20:
                    print(f"{case}\n  theirs {theirs}\n  ours   {ours}")
    print(f"{asked.cases} cases: {differ} differ, {meant} more deliberately")
    if asked.record:
        save_vectors(asked.record, vectors)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
