"""What the tests of `fakeazure run` share."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import fakeazure

SOURCE = str(Path(fakeazure.__file__).parent.parent)


AGENT = """
import os, sys, urllib.request
def ask(url, data=None):
    request = urllib.request.Request(url, data, {"Metadata": "true", "Content-Type": "application/json"})
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).read()
def imds():
    return ask(os.environ["FAKEAZURE_IMDS"] + "/metadata/instance?api-version=2023-11-15&extended=true")
def tell(body):
    ask(os.environ["FAKEAZURE_WIRESERVER"] + "/provisioning/health", body.encode())
READY = '{"state":"Ready"}'
FAILED = '{"state":"NotReady","details":{"subStatus":"ProvisioningFailed","description":"result=error|reason=no luck"}}'
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fakeazure", *arguments]


def environment(tmp_path: Path) -> dict[str, str]:
    place = tmp_path / "place"
    place.mkdir(exist_ok=True)
    return {**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(place)}


def agent(body: str) -> list[str]:
    return ["--", sys.executable, "-c", AGENT + textwrap.dedent(body)]
