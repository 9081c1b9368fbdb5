"""The SSH login without a server; tests/boot has real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakeazure.machines.login import NoSsh, try_login, write_answerer
from fakeazure.platform.events import Login
from support.need import need

pytestmark = pytest.mark.newer

PASSWORD = "Correct-horse 7'\"$battery"


def test_nothing_is_tried_without_a_key_and_a_password(tmp_path: Path) -> None:
    need("ssh")
    nothing: list[Login] = []
    assert nothing == try_login(
        address="127.0.0.1", user="azureuser", private_key=None, password=None, directory=tmp_path, timeout=1,
        now=lambda: 0.0,
    )  # fmt: skip


def test_a_password_lies_in_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    answerer = write_answerer(tmp_path, PASSWORD)
    assert PASSWORD not in answerer.read_text()
    assert {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()} == {
        "answer": "0o700",
        "answer.secret": "0o600",
    }


def test_without_ssh_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoSsh, match="ssh is missing: install openssh-client"):
        try_login(
            address="127.0.0.1", user="azureuser", private_key=None, password="x", directory=tmp_path, timeout=1,
            now=lambda: 0.0,
        )  # fmt: skip
