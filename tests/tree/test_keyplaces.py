"""A file of keys that its user may not read."""

from __future__ import annotations

from pathlib import Path

from azureinit.plan.actions import Caution, Write
from support.need import need_root
from support.ssh_trees import GROUP, actions_of, ed25519, plan_ada, tree

MAIN = "/etc/ssh/sshd_config"


def test_a_file_that_the_user_cannot_read_gives_way_to_the_next(tmp_path: Path) -> None:
    need_root()
    config = "AuthorizedKeysFile /etc/ssh/closed/%u /etc/ssh/open/%u\n"
    machine = tree(tmp_path, {MAIN: config, "/etc/group": GROUP})
    (tmp_path / "etc/ssh/closed").mkdir(mode=0o700)
    plan = plan_ada(machine, ed25519())
    assert [action.path for action in actions_of(plan) if isinstance(action, Write)] == ["/etc/ssh/open/ada"]
    assert any("the user may not enter /etc/ssh/closed" in item.why for item in plan if isinstance(item, Caution))
