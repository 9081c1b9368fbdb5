"""Ready means that the admin can log in: image policies, each with a real login after the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakeazure.platform.events import Login
from support.bounds import sample
from support.container import debian_root, lay_agent
from support.need import need, need_root
from support.policies import BOTH, DOUBT, FAILED, NOTE, READY, ROWS, Row
from support.policy_machine import Tried, try_policy

pytestmark = pytest.mark.newer


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_root()
    for tool in ("unshare", "mmdebstrap", "ip", "ssh", "ssh-keygen"):
        need(tool)
    directory = tmp_path_factory.mktemp("agent")
    lay_agent(directory, "trixie")
    return directory


@pytest.mark.parametrize("row", sample(ROWS, 24), ids=lambda row: row.name)
def test_the_verdict_and_a_real_login_agree(row: Row, agent: Path, tmp_path: Path) -> None:
    tried = try_policy(row.policy, debian_root("trixie"), agent, tmp_path)
    assert outcome(tried, row) == row.outcome, tried.said
    assert row.says in (tried.error or tried.doubts), tried.said
    works = row.works if row.works is not None else row.outcome != FAILED
    assert any(tried.logins.values()) == works, tried.said
    if row.outcome == READY:
        assert all(tried.logins.values()), tried.said
    # The platform's own judgement, which knocks at the door, is the same.
    if row.policy.required == "auto":
        assert tried.honest == (row.outcome == FAILED or works), tried.said


def outcome(tried: Tried, row: Row) -> str:
    if tried.verdict != "ready":
        return FAILED if tried.reason == row.reason else tried.reason
    if "that was given does not let" in tried.doubts:
        return NOTE
    if tried.doubts:
        return DOUBT
    return BOTH if Login.BOTH in tried.logins else READY
