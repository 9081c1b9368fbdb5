"""The report if the agent cannot be loaded, and cases where nothing is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.need import need_root
from support.wire import Server, answer

PROGRAM = Path(__file__).parents[2] / "packaging/last-resort"
ENABLED = {"cloud-init/enabled": ""}


def tell(place: Path, server: Server, files: dict[str, str]) -> None:
    """The program as the launcher runs it, with its files in a directory of the test's own."""
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    program: dict[str, Any] = {}
    exec(compile(PROGRAM.read_text(), str(PROGRAM), "exec"), program)
    program.update(
        WIRESERVER=server.url.partition("//")[2].rstrip("/"),
        MARKERS=str(place / "markers"),
        VERDICT=str(place / "verdict/verdict"),
        CMDLINE=str(place / "cmdline"),
        CLOUD_INIT=str(place / "cloud-init"),
    )
    program["tell"](ImportError("no module"))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, True),
        ({**ENABLED, "cmdline": "ro azure-init=force"}, True),
        ({**ENABLED, "cloud-init/cloud.cfg": "datasource_list: [ NoCloud, None ]\n"}, True),
        (ENABLED, False),
        ({**ENABLED, "cloud-init/cloud.cfg": "datasource_list: [ Azure, None ]\n"}, False),
        ({"verdict/verdict": "ready"}, False),
        ({"markers/c0ffee00-1111-4222-8333-444444444444.provisioned": ""}, False),
    ],
)
def test_a_failure_is_told_only_where_no_other_verdict_is_or_will_be(
    tmp_path: Path, files: dict[str, str], told: bool
) -> None:
    need_root()
    with Server(answer(200)) as server:
        tell(tmp_path, server, files)
        bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in server.requests]
    assert [body["state"] for body in bodies] == (["NotReady"] if told else [])
