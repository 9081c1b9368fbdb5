"""A stub of azure-proxy-agent: it reports to the platform that it ran, or fails if the scenario says so."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from fakeazure.platform.imds import PROXY_AGENT_RAN
from fakeazure.platform.vm import Imds, Vm

NAME = "azure-proxy-agent"
# Provisioning agents only use `--status --wait N`. Isolated mode, and the address is part of the script: agents start
# it with another environment.
STUB = """\
#!{python} -IS
import http.client, sys
if "--status" not in sys.argv:
    sys.exit("fakeazure: this stub of azure-proxy-agent knows --status [--wait SECONDS] alone")
if {fails}:
    print("OVERALL STATUS: ERROR")
    sys.exit("fakeazure: the scenario wants azure-proxy-agent to fail")
platform = http.client.HTTPConnection({host!r}, timeout=10)
platform.request("POST", {path!r}, body=" ".join(sys.argv[1:]))
platform.getresponse().read()
print("OVERALL STATUS: SUCCESS")
"""


def behaviour(vm: Vm, imds: Imds) -> str:
    if imds.proxy_agent is not None:
        return imds.proxy_agent
    return "ready" if imds.protected or vm.proxy_agent else "absent"


def write_stub(directory: Path, how: str, *, imds: str, python: str = sys.executable) -> Path | None:
    if how == "absent":
        return None
    directory.mkdir(parents=True, exist_ok=True)
    stub = directory / NAME
    host, path = urlsplit(imds).netloc, urlsplit(imds).path + PROXY_AGENT_RAN
    stub.write_text(STUB.format(python=python, fails=how == "fails", host=host, path=path))
    stub.chmod(0o755)
    return stub
