"""A key of a package source from a key server: the real gpg, and a server on the loopback of its own network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from azureinit.backends.packages_apt import receive_key
from azureinit.modules.apt_keys import dearmoured
from azureinit.plan.actions import Run
from support.apt_repository import Repository
from support.need import need, need_root

PORT = 11371
SERVER = f"""
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        known = "search=0x" + sys.argv[2] in self.path
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(open(sys.argv[1], "rb").read() if known else b"")

time.sleep(1)  # the first attempt finds no server
HTTPServer(("127.0.0.1", {PORT}), Answer).serve_forever()
"""
ENTER = """
ip link set lo up || exit 125
"$1" -c "$2" "$3" "$4" 2>/dev/null &
shift 4
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"
"""


class Keys:
    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "repository").mkdir()
        made = Repository(place / "repository", architecture="amd64")
        made.publish()
        self.armoured = made.sign(place / "home")
        (place / "key.asc").write_text(self.armoured)
        command = (need("gpg"), "--homedir", str(place / "home"), "--with-colons", "--list-keys")
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        (self.fingerprint,) = [line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr")]

    def receive(self, key: str, *, tools: str = "") -> subprocess.CompletedProcess[str]:
        """`tools`: a directory whose programs come before the system's."""
        way = receive_key(key, server=f"hkp://127.0.0.1:{PORT}", path=str(self.path), directory=str(self.place))
        run = way.actions[-1]
        assert isinstance(run, Run)
        (self.place / "tmp").mkdir(exist_ok=True)
        server = (sys.executable, SERVER, str(self.place / "key.asc"), self.fingerprint)
        spaces = ("unshare", "--net", "--pid", "--fork", "--kill-child")
        environ = (f"TMPDIR={self.place}/tmp", f"PATH={tools}:/usr/sbin:/usr/bin:/sbin:/bin")
        command = (*spaces, "sh", "-c", ENTER, "sh", *server, *environ, *run.argv)
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    @property
    def path(self) -> Path:
        return self.place / "received.gpg"


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    need_root()
    need("dirmngr")
    return Keys(tmp_path)


def test_a_key_is_received_and_nothing_else_is_left(keys: Keys) -> None:
    ran = keys.receive(keys.fingerprint)
    assert ran.returncode == 0, ran.stderr
    assert keys.path.read_bytes() == dearmoured(keys.armoured)
    assert keys.path.stat().st_mode & 0o777 == 0o644
    assert list((keys.place / "tmp").iterdir()) == []


def test_a_key_that_the_server_does_not_have_is_a_failure(keys: Keys) -> None:
    ran = keys.receive("0" * 40)
    assert ran.returncode == 2
    assert "gpg: keyserver receive failed" in ran.stderr
    assert not keys.path.exists()
    assert list((keys.place / "tmp").iterdir()) == []


def test_a_gpg_that_cannot_start_its_agent_has_received_the_key_all_the_same(keys: Keys) -> None:
    """gpg then ends with 2 after it has imported the key."""
    (keys.place / "tools").mkdir()
    shim = keys.place / "tools/gpg"
    shim.write_text(f'#!/bin/sh\n{need("gpg")} "$@" || exit\ncase "$*" in *--recv-keys*) exit 2 ;; esac\n')
    shim.chmod(0o755)
    ran = keys.receive(keys.fingerprint, tools=str(shim.parent))
    assert ran.returncode == 0, ran.stderr
    assert keys.path.read_bytes() == dearmoured(keys.armoured)
