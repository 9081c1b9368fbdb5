"""No secret leaks: a whole provisioning with marked secrets, and a search for them in every byte that it wrote.

Searched are the tree after the run, every write, send and execve that strace saw, both streams, the journal's socket,
the collector's requests and the platform's ledger.
"""

from __future__ import annotations

import base64
import gzip
import re
import select
import shutil
import socket
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from fakeazure import Expect, Imds, Media, Vm
from fakeazure.platform.pool import Pool
from fakeazure.platform.vm import PUBLIC_KEY
from support.bench import KEYGEN, Bench, Benches
from support.need import need, need_root
from support.secret_search import sung
from support.trees import listing

PASSWORD = "Kanarienvogel+93/Qz&<Voliere>=Nest"
CUSTOM_DATA = b"#!/bin/sh\n" + b"echo custom-canary-sings-in-the-mine-7f3a\n" * 40
USER_DATA = b"51bc/another/bird/on/the/roof/for/user/data"
PRIVATE = "cHJpdmF0ZS1jYW5hcnktaW4tdGhlLWNhZ2UtNjZkZQ"  # the private half of a host key
PEM = b"-----BEGIN PRIVATE KEY-----\nMIIcanary0in0the0customers0own0key0QmFyZA==\n-----END PRIVATE KEY-----\n"
BIRD = Vm(password=PASSWORD, disable_password=False, custom_data=CUSTOM_DATA + PEM, user_data=USER_DATA)
CALLS = "execve,write,pwrite64,writev,pwritev,pwritev2,sendto,sendmsg,sendmmsg"
TEXT = re.compile(rb'"((?:\\x[0-9a-f]{2})*)"')
PLACE = re.compile(rb"^\d+ +(\w+)\((?:\d+<([^>]*)>)?")


def pool_values(pool: bytes) -> bytes:
    """A KVP pool's values joined: long ones are cut into many records."""
    return b"".join(pool[n + 512 : n + 2560].rstrip(b"\0") for n in range(0, len(pool), 2560))


# ---- the run


@dataclass
class Cage:
    """A machine with an sshd, and everybody a run may talk to."""

    bench: Bench
    trace: Path
    journal: socket.socket
    collector: ThreadingHTTPServer
    heard: list[bytes] = field(default_factory=list)
    collected: list[bytes] = field(default_factory=list)
    streams: list[bytes] = field(default_factory=list)

    def configure(self, **tables: Any) -> None:
        endpoint = f"http://127.0.0.1:{self.collector.server_port}"
        self.bench.configure(telemetry={"otlp_endpoint": endpoint}, **tables)

    def run(self, *words: str, variables: str = "") -> int:
        place = self.bench.tree / "run/systemd/journal"
        # In a mount namespace of its own: there the machine's journal is ours.
        mounts = (
            f"mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind {place} /run/systemd/journal;"
        )
        variables = variables.replace("JOURNAL", mounts, 1)
        options = f"-f -y -v -xx -s 1048576 -e trace={CALLS}"
        inside = f'{variables} set -- {need("strace")} {options} -A -o {self.trace} -- "$@"'
        ran = self.bench.agent(*words, inside=inside, timeout=120)
        self.streams += [ran.out.encode(), ran.err.encode()]
        return ran.status

    def written(self) -> Iterator[tuple[str, bytes]]:
        """Everything that left the process, with the place it went to."""
        for name, (mode, _owner, content) in listing(self.bench.tree).items():
            yield f"file {name} {mode}", content
            if "kvp_pool" in name:
                yield f"values of {name}", pool_values(content)
        for line in self.trace.read_bytes().splitlines():
            if (place := PLACE.match(line)) is not None:
                path = unhexed(place[2] or b"").decode("utf-8", "replace").removeprefix(f"{self.bench.tree}/")
                texts = [unhexed(text) for text in TEXT.findall(line)]
                yield f"{place[1].decode()} {path}", b"\n".join(texts) if path else b"\0".join(texts)
        while select.select([self.journal], [], [], 0)[0]:
            time.sleep(0.01)  # until the thread has read everything
        for name, pieces in (("journal", self.heard), ("collector", self.collected), ("stream", self.streams)):
            for piece in pieces:
                yield name, piece
        for request in self.bench.fabric.ledger.requests:
            yield "platform", f"{request.target} {request.headers} {request.body}".encode()

    def hear_journal(self) -> None:
        """In a thread: the kernel keeps only ten messages for a socket that is not read."""
        while True:
            try:
                self.heard.append(self.journal.recv(1 << 20))
            except TimeoutError:
                continue
            except OSError:
                return  # it is closed

    def secrets(self) -> dict[str, bytes]:
        """With the password's hash, once it is known."""
        hashes = re.findall(r"\$[0-9a-z]+\$[^:\"\n]{20,}", self.bench.read("etc/shadow") + self.saved())
        known = {
            "password": PASSWORD.encode(),
            "custom data": CUSTOM_DATA[10:60],
            "user data": USER_DATA,
            "host key": PRIVATE.encode(),
            "private key": PEM[28:70],
        }
        return {**known, **{f"hash {n}": text.encode() for n, text in enumerate(sorted(set(hashes)))}}

    def saved(self) -> str:
        path = self.bench.state("saved")
        text = path.read_text() if path.exists() else ""
        return text + "".join(
            base64.b64decode(blob).decode("latin-1") for blob in re.findall(r'"base64": "([^"]*)"', text)
        )

    def songs(self) -> dict[str, set[str]]:
        """Where each secret was heard, and all of it must be where it belongs."""
        secrets = self.secrets()
        heard: dict[str, set[str]] = {}
        places: dict[bytes, set[str]] = {}  # the same bytes go to many places, and are searched once
        for place, data in self.written():
            places.setdefault(data, set()).add(place)
        for data, where in places.items():
            for name in sung(data, secrets):
                heard.setdefault(name.split(" ")[0] if name.startswith("hash") else name, set()).update(where)
        return heard


def unhexed(text: bytes) -> bytes:
    return bytes.fromhex(text.replace(b"\\x", b"").decode()) if text.startswith(b"\\x") else text


@pytest.fixture
def cage() -> Iterator[Callable[..., Cage]]:
    """In a place with a short name: a socket's path must not be long."""
    need_root()
    need("strace")
    place = Path(tempfile.mkdtemp(prefix="c"))
    benches = Benches(place)
    made: list[Cage] = []

    def make(*, vm: Vm = BIRD, **platform: Any) -> Cage:
        bench = benches(vm=vm, **platform)
        bench.install_sshd()
        bench.tools.joinpath("ssh-keygen").write_text(KEYGEN.replace("%s", f"{PRIVATE}%s"))
        (bench.tree / "run/systemd/journal").mkdir(parents=True)
        journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        journal.bind(str(bench.tree / "run/systemd/journal/socket"))
        pools = bench.tree / "var/lib/hyperv"
        pools.mkdir()
        for number in range(5):
            (pools / f".kvp_pool_{number}").touch(mode=0o600)
        one = Cage(bench, place / "trace", journal, ThreadingHTTPServer(("127.0.0.1", 0), collector_for(made)))
        made.append(one)
        journal.settimeout(0.1)
        for work in (one.collector.serve_forever, one.hear_journal):
            threading.Thread(target=work, daemon=True).start()
        one.configure()
        return one

    yield make
    for one in made:
        one.collector.shutdown()
        one.collector.server_close()
        one.journal.close()
        one.bench.fabric.stop()
    shutil.rmtree(place)


def collector_for(made: list[Cage]) -> type[BaseHTTPRequestHandler]:
    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            made[-1].collected.append(str(self.headers).encode() + body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            pass

    return Collector


AS_A_SERVICE = "JOURNAL export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2);"
LOUD = "export AZURE_INIT_LOG=trace AZURE_INIT_KVP_FILTER=trace;"
NO_IMDS = Imds(enable=False)
NO_BASE64 = CUSTOM_DATA.decode()
LINES = f"{PASSWORD}\n" * 9


def ours(one: Cage, *names: str) -> set[str]:
    """A file of the data directory, root's alone, and the writes that make it."""
    files = [f"var/lib/azure-init/{one.bench.fabric.vm.id}.{name}" for name in names]
    temporary = [f"var/lib/azure-init/.{one.bench.fabric.vm.id}.{name}.azure-init~" for name in names]
    return {*(f"file {file} -rw-------" for file in files), *(f"write {file}" for file in temporary)}


def kept(*names: str) -> set[str]:
    """The same in WALinuxAgent's directory."""
    files = {f"file var/lib/waagent/{name} -rw-------" for name in names}
    return files | {f"write var/lib/waagent/.{name}.azure-init~" for name in names}


SHADOW = {"file etc/shadow -rw-r-----", "file etc/shadow- -rw-r-----", "write etc/.shadow.azure-init~"}
HOST_KEYS = {f"file etc/ssh/ssh_host_{kind}_key -rw-------" for kind in ("ed25519", "ecdsa", "rsa")}


@pytest.mark.parametrize("variables", ["", AS_A_SERVICE, AS_A_SERVICE + LOUD], ids=["terminal", "service", "loud"])
def test_a_provisioned_machine_keeps_every_secret_in_its_place(cage: Callable[..., Cage], variables: str) -> None:
    one = cage()
    (one.bench.tree / "etc/waagent.conf").touch()
    assert one.run(variables=variables) == 0, one.streams
    for verb in (("plan",), ("plan", "--json"), ("facts",), ("config", "show", "--json")):
        one.run(*verb)
    heard = one.songs()
    assert heard.keys() <= {"custom data", "private key", "hash", "host key"}, heard
    assert {place for place in heard["hash"] if place.startswith("file")} <= SHADOW
    assert heard["hash"] <= SHADOW | ours(one, "saved"), "kept for a failure, forgotten once Ready is accepted"
    for name in ("custom data", "private key"):
        assert heard[name] == ours(one, "saved") | ours(one, "userdata") | kept("CustomData", "ovf-env.xml")
    assert {place for place in heard["host key"] if place.startswith("file")} == HOST_KEYS
    assert all("ssh_host_" in place for place in heard["host key"])
    kinds = {place.split(" ")[0] for place, _data in one.written()}
    assert kinds >= {"file", "write", "execve", "sendto", "platform", "collector"}, "there was something to search"
    assert ("journal" if variables else "stream") in kinds
    pool = (one.bench.tree / "var/lib/hyperv/.kvp_pool_1").read_bytes()
    assert b"PROVISIONING_REPORT" in pool and pool.count(b"DIAG|azure-init/") > 10


BROKEN = "<Environment><UserPassword>" + PASSWORD.replace("&", "&amp;").replace("<", "&lt;") + "</User"


@pytest.mark.parametrize(
    ("status", "options"),
    [
        pytest.param(1, {"keys": ("not a key",)}, id="a key that is none"),
        pytest.param(1, {"backends": ["useradd"]}, id="no backend makes the account"),
        pytest.param(75, {"faults": [{"path": "/provisioning/health", "answers": ["503*"]}]}, id="undelivered"),
        pytest.param(1, {"media": Media(ovf=BROKEN), "imds": NO_IMDS}, id="a medium cut short"),
        pytest.param(1, {"media": Media(ovf=BROKEN)}, id="a medium cut short beside IMDS"),
        pytest.param(
            0, {"media": Media(texts={"CustomData": NO_BASE64}), "imds": NO_IMDS}, id="custom data not base64"
        ),
        pytest.param(0, {"media": Media(texts={"UserPassword": LINES}), "imds": NO_IMDS}, id="a password of lines"),
        pytest.param(1, {"media": Media(texts={"HostName": "-"}), "imds": NO_IMDS}, id="no IMDS, a bad name"),
    ],
)
def test_bad_input_and_a_bad_platform_bring_no_secret_out(
    cage: Callable[..., Cage], status: int, options: dict[str, Any]
) -> None:
    keys, backends = options.get("keys", (PUBLIC_KEY,)), options.get("backends")
    platform = {name: value for name, value in options.items() if name not in ("keys", "backends")}
    one = cage(vm=replace(BIRD, keys=keys), expect=Expect(verdict="either"), **platform)
    if backends:
        one.configure(user_provisioners={"backends": backends})
    assert one.run(variables=AS_A_SERVICE + LOUD) == status, one.streams
    heard = one.songs()
    assert heard.get("hash", set()) <= SHADOW | ours(one, "saved")
    for name in ("custom data", "private key"):
        assert heard.get(name, set()) <= ours(one, "saved") | ours(one, "userdata") | kept("CustomData")
    assert heard.keys() <= {"custom data", "private key", "hash", "host key"}, heard


POOL_PASSWORD = "Papageno*47%Glockenspiel"
CUT = {"status": 200, "body": BROKEN}


@pytest.mark.parametrize(
    ("status", "answers", "after"),
    [
        pytest.param(0, [404, CUT, "truncate 900", CUT, "ok*"], "None", id="provisioned"),
        pytest.param(1, [404, CUT, "ok*"], "Savable", id="failed after the data"),
    ],
)
def test_the_data_of_a_vm_from_a_pool_bring_no_secret_out(
    cage: Callable[..., Cage], status: int, answers: list[Any], after: str
) -> None:
    """P30: the customer's data have the password, as has the medium of the pool's VM. None of it is written."""
    pool = Pool(password=POOL_PASSWORD, pps_type_after=after)
    one = cage(
        vm=replace(BIRD, pps_type="Running"),
        pool=pool,
        faults=[{"path": "/metadata/reprovisiondata", "answers": answers}],
        expect=Expect(verdict="either"),
    )
    (one.bench.tree / "etc/waagent.conf").touch()
    one.configure(boot={"pool_poll_secs": 1})
    assert one.run(variables=AS_A_SERVICE + LOUD) == status, one.streams
    heard = one.songs()
    assert heard.keys() <= {"custom data", "private key", "hash", "host key"}, heard
    assert heard.get("hash", set()) <= SHADOW | ours(one, "saved")
    assert ("hash" in heard) == (status == 0)
    for name in ("custom data", "private key"):
        assert heard.get(name, set()) <= ours(one, "saved", "userdata") | kept("CustomData", "ovf-env.xml")
    assert not [place for place, data in one.written() if sung(data, {"pool": POOL_PASSWORD.encode()})]
    told = b"".join(data for place, data in one.written() if place == "journal")
    assert b"got an answer that is no ovf-env.xml: " in told, "there was something to search"


# ---- the search can fail


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "base64": base64.b64encode,
    "base64 in the middle": lambda secret: b"abc" + base64.b64encode(b"x" + secret)[1:],
    "base64 for URLs": base64.urlsafe_b64encode,
    "base64 in lines": lambda secret: base64.encodebytes(secret * 3),
    "hex": lambda secret: secret.hex().encode(),
    "hex with colons": lambda secret: secret.hex(":").upper().encode(),
    "utf-16": lambda secret: secret.decode().encode("utf-16-le"),
    "utf-16, the other way": lambda secret: secret.decode().encode("utf-16-be"),
    "percent": lambda secret: quote(secret).encode(),
    "JSON": lambda secret: secret.decode().replace("<", "\\u003c").encode(),
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "zlib in base64": lambda secret: base64.b64encode(zlib.compress(secret)),
    "the first half": lambda secret: secret[: len(secret) // 2],
    "the last half": lambda secret: secret[len(secret) // 2 :],
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_leak_in_any_form_is_found(encoding: str) -> None:
    secrets = {"password": PASSWORD.encode(), "custom data": CUSTOM_DATA[10:60]}
    for name, secret in secrets.items():
        leak = ENCODINGS[encoding](secret)
        for data in (leak, b"before " + leak + b" after", b"\xff\0" + leak + b"\0\0"):
            assert sung(data, secrets) == {name}, data
    assert sung(b"nothing here, and quite a lot of it: " * 40, secrets) == set()


def test_a_leak_across_records_of_a_pool_is_found() -> None:
    packed = base64.b64encode(zlib.compress(bytes(range(256)) * 8 + PASSWORD.encode()))
    halves = (packed[: len(packed) // 2], packed[len(packed) // 2 :])
    pool = b"".join(b"key".ljust(512, b"\0") + half.ljust(2048, b"\0") for half in halves)
    assert sung(pool_values(pool), {"password": PASSWORD.encode()}) == {"password"}


def test_a_planted_leak_in_a_run_is_found(cage: Callable[..., Cage]) -> None:
    one = cage()
    leak = base64.b64encode(PASSWORD.encode()).decode()
    assert one.run(variables=f"export LEAK={leak};") == 0, one.streams
    places = {place.split(" ")[0] for place in one.songs()["password"]}
    assert places == {"execve"}, "in the environment of the agent and its children"
    (one.bench.tree / "var/log/planted").write_bytes(gzip.compress(CUSTOM_DATA, mtime=0))
    one.journal.connect(one.journal.getsockname())
    one.journal.send(b"MESSAGE=" + CUSTOM_DATA)
    connection = HTTPConnection("127.0.0.1", one.collector.server_port)
    connection.request("POST", "/v1/traces", gzip.compress(b'{"x":"' + CUSTOM_DATA.hex().encode() + b'"}'))
    connection.getresponse().read()
    connection.close()
    assert one.songs()["custom data"] - ours(one, "saved") - ours(one, "userdata") - kept("CustomData") == {
        "file var/log/planted -rw-r--r--",
        "journal",
        "collector",
    }
