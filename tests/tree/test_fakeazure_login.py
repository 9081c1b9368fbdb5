"""A login at a port where nothing answers."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fakeazure.machines.login import try_login
from support.need import need

pytestmark = pytest.mark.newer
PASSWORD = "Correct-horse 7'\"$battery"


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_machine_that_does_not_answer_refuses_every_login_and_no_secret_is_left(tmp_path: Path) -> None:
    need("ssh")
    logins = try_login(
        address="127.0.0.1", port=closed_port(), user="azureuser", private_key=tmp_path / "id", password=PASSWORD,
        directory=tmp_path, timeout=0.1, now=lambda: 7.0,
    )  # fmt: skip
    assert [(one.t, one.how, one.user, one.ok) for one in logins] == [
        (7.0, "key", "azureuser", False),
        (7.0, "password", "azureuser", False),
    ]
    assert "Connection refused" in logins[0].text
    assert not any(PASSWORD in file.read_text() for file in tmp_path.iterdir())
