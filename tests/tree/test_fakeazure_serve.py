"""`fakeazure serve` as a command: its addresses, the verdicts, and the judgements."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fakeazure

SOURCE = str(Path(fakeazure.__file__).parent.parent)
READY = b'{"state":"Ready"}'
METADATA = "/metadata/instance?api-version=2023-11-15"


class Serving:
    """The running command, and its output so far."""

    def __init__(self, tmp_path: Path, *arguments: str) -> None:
        self.place = tmp_path / "place"
        self.place.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fakeazure", "serve", *arguments],
            env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(self.place)},
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.said: list[str] = []

    def until(self, pattern: str) -> str:
        """Reads up to the first line that matches."""
        assert self.process.stdout
        while line := self.process.stdout.readline():
            self.said.append(line)
            if re.search(pattern, line):
                return line
        raise AssertionError(f"never said {pattern!r}, but {''.join(self.said)}")

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in map(json.loads, self.said) if event["event"] == kind]

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process.stdout
        self.process.send_signal(number)
        self.said += self.process.stdout.readlines()
        return self.process.wait(20)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    started: list[Serving] = []

    def start(*arguments: str) -> Serving:
        started.append(Serving(tmp_path, *arguments))
        return started[-1]

    yield start
    for serving in started:
        serving.process.kill()
        serving.process.wait()
        assert serving.process.stdout
        serving.process.stdout.close()


def ask(base: str, target: str, *, body: bytes | None = None, source: str = "") -> int:
    place = urlsplit(base)
    connection = http.client.HTTPConnection(place.netloc, timeout=20, source_address=(source, 0) if source else None)
    try:
        connection.request(
            "GET" if body is None else "POST", place.path + target, body=body, headers={"Metadata": "true"}
        )
        return connection.getresponse().status
    finally:
        connection.close()


def refused(*arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "fakeazure", "serve", *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 2 and "Traceback" not in ran.stderr, ran.stderr
    return ran.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_machine_from_its_doors_to_its_verdict(serve: Callable[..., Serving], number: int) -> None:
    serving = serve()
    serving.until("^machine ")
    doors = dict(line.split(maxsplit=1) for line in serving.said)
    assert list(doors) == ["imds", "wireserver", "hostplugin", "media", "key", "machine"]
    disc = Path(doors["media"].strip()) / "fake-vm.iso"
    assert disc.stat().st_mode & 0o077 == 0 and "PRIVATE KEY" in Path(doors["key"].strip()).read_text()
    assert doors["imds"].strip() in disc.with_suffix(".toml").read_text()
    assert ask(doors["imds"].strip(), METADATA) == 200
    assert ask(doors["wireserver"].strip(), "/provisioning/health", body=READY) == 201
    assert re.fullmatch(r" +[\d.]+ s  fake-vm  Ready\n", serving.until("Ready"))
    assert not disc.exists()
    assert serving.end(number) == 0
    assert "  fake-vm  Ready after" in "".join(serving.said) and serving.said[-1] == "1 of 1 as expected\n"
    assert list(serving.place.iterdir()) == []


def test_many_machines_in_json(serve: Callable[..., Serving], tmp_path: Path) -> None:
    ledgers, media = tmp_path / "ledgers", tmp_path / "media"
    serving = serve("--vms", "3", "--json", "--ledger", str(ledgers), "--media", str(media))
    serving.until('"serving"')
    assert [door["service"] for door in serving.events("door")] == ["imds", "wireserver", "hostplugin"]
    machines = serving.events("machine")
    assert [machine["name"] for machine in machines] == ["fake-vm-1", "fake-vm-2", "fake-vm-3"]
    assert len({machine["id"] for machine in machines}) == 3
    assert sorted(path.name for path in media.iterdir()) == sorted(
        f"fake-vm-{n}.{kind}" for n in (1, 2, 3) for kind in ("iso", "toml")
    )
    for machine in machines:
        assert ask(machine["imds"], METADATA) == 200
    for machine in machines[:2]:
        assert ask(machine["wireserver"], "/provisioning/health", body=READY) == 201
    assert ask(serving.events("door")[0]["url"], METADATA) == 404
    assert serving.end() == 1
    assert [(told["machine"], told["kind"]) for told in serving.events("told")] == [
        ("fake-vm-1", "ready"),
        ("fake-vm-2", "ready"),
    ]
    assert [(one["state"], one["ok"]) for one in serving.events("judgement")] == [
        ("ready", True), ("ready", True), ("waiting", False)
    ]  # fmt: skip
    (stranger,) = serving.events("stranger")
    assert "the path names no machine" in stranger["note"]
    assert sorted(path.name for path in ledgers.iterdir()) == [
        "@strangers.jsonl", "fake-vm-1.jsonl", "fake-vm-2.jsonl", "fake-vm-3.jsonl"
    ]  # fmt: skip
    judge = [sys.executable, "-m", "fakeazure", "judge", "--brief"]
    for name, status in (("fake-vm-1", 0), ("fake-vm-3", 1)):
        command = [*judge, str(ledgers / f"{name}.jsonl")]
        ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.DEVNULL, check=False)
        assert ran.returncode == status
    assert not (media / "fake-vm-1.iso").exists() and (media / "fake-vm-3.iso").exists()


def test_machines_of_their_own_by_address(serve: Callable[..., Serving], tmp_path: Path) -> None:
    for name, user in (("web", "ada"), ("db", "root")):
        verdict = "failure" if user == "root" else "ready"
        (tmp_path / f"{name}.toml").write_text(
            f'[vm]\nname = "{name}"\nusername = "{user}"\n[expect]\nverdict = "{verdict}"\n'
        )
    files = [f"{tmp_path}/web.toml@127.9.0.1", f"{tmp_path}/db.toml@127.9.0.2"]
    serving = serve("--by", "address", "--vm", files[0], "--vm", files[1])
    serving.until("db +at address 127.9.0.2")
    places = dict(line.split(maxsplit=1) for line in serving.said)
    for address in ("127.9.0.1", "127.9.0.2"):
        assert ask(places["wireserver"].strip(), "/provisioning/health", body=READY, source=address) == 201
    assert serving.end() == 1
    said = "".join(serving.said)
    assert re.search(r"^  web  Ready after [\d.]+ s \(as expected\)$", said, re.MULTILINE)
    assert re.search(r"^  db   lied: told Ready where the truth is a failure$", said, re.MULTILINE)
    assert serving.said[-1] == "1 of 2 as expected\n"


def test_a_failure_is_told_with_its_reason_and_without_its_escapes(serve: Callable[..., Serving]) -> None:
    serving = serve("key-line-feed")
    serving.until("^machine ")
    wireserver = next(line.split()[1] for line in serving.said if line.startswith("wireserver"))
    report = {"subStatus": "ProvisioningFailed", "description": "result=error|reason=bad \x1b[31mkey"}
    body = json.dumps({"state": "NotReady", "details": report}).encode()
    assert ask(wireserver, "/provisioning/health", body=body) == 201
    assert "failed: bad  [31mkey" in serving.until("failed")
    assert serving.end() == 0


def test_a_ledger_of_one_machine_is_a_file(serve: Callable[..., Serving], tmp_path: Path) -> None:
    serving = serve("--ledger", str(tmp_path / "one.jsonl"))
    serving.until("^machine ")
    assert serving.end() == 1
    assert (tmp_path / "one.jsonl").read_text().startswith('{"event": "boot"')


def test_nothing_is_left_of_one_that_was_killed(serve: Callable[..., Serving]) -> None:
    serving = serve()
    serving.until("^machine ")
    assert list(serving.place.iterdir())
    serving.process.kill()
    serving.process.wait()
    deadline = time.monotonic() + 60
    while list(serving.place.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(serving.place.iterdir()) == []


def test_a_port_can_be_had_again_at_once(serve: Callable[..., Serving]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for _ in range(2):
        serving = serve("--imds", f"127.0.0.1:{port}")
        serving.until("^machine ")
        assert ask(f"http://127.0.0.1:{port}", METADATA) == 200
        serving.end()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--imds", "8080"], "--imds 8080: not an IPv4 address and a port, such as 127.0.0.1:8080"),
        (["--imds", "localhost:80"], "--imds localhost:80: not an IPv4 address"),
        (["--wireserver", "127.0.0.1:65536"], "--wireserver 127.0.0.1:65536: not an IPv4 address"),
        (
            ["--imds", "192.0.2.7:8080"],
            "192.0.2.7 is not an address of this host: choose another, or add it",
        ),
        (["--vms", "0"], "--vms 0: not a number from 1 to 1000000"),
        (["--vms", "many"], "--vms many: not a number"),
        (["no-such"], "there is no scenario no-such"),
        (["imds-html", "--vm", "a.toml"], "imds-html and --vm exclude each other: each --vm names its scenario file"),
        (["--vm", "no-such.toml@127.0.0.1"], "no-such.toml: No such file or directory"),
        (["--ledger", "/no/such/place"], "--ledger /no/such/place: no such directory"),
        (["--media", "/dev/null/x"], "cannot set up the platform: "),
        (["--vm", "ordinary", "--vm", "ordinary"], "two machines are known as 'fake-vm'"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(arguments: list[str], says: str) -> None:
    complaint = refused(*arguments)
    assert complaint.startswith(f"fakeazure: {says}") and complaint.count("\n") == 1


def test_a_busy_port_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        complaint = refused("--wireserver", f"127.0.0.1:{port}")
    assert complaint == f"fakeazure: another program listens at 127.0.0.1:{port}: end it, or choose another port\n"
