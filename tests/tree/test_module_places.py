"""Places that a document names below a directory of another user: links there are not followed by any module."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from azureinit.errors import AzureInitError
from azureinit.run.module_tables import modules_of
from azureinit.run.modules import Module
from support.module_runs import apply_module
from support.need import need_root
from support.user_modules import make_vm

EVE = 4000
# The owner of /srv/eve has made the link /srv/eve/link -> /etc/victim.
DOCUMENTS = {
    "apt_configure": 'apt: {sources: {x: {source: "deb http://a b c", filename: /srv/eve/link/x}}}',
    "apt_configure by dots": 'apt: {sources: {x: {source: "deb http://a b c", filename: ../../../srv/eve/link/x}}}',
    "yum_add_repo": "{yum_repo_dir: /srv/eve/link, yum_repos: {x: {baseurl: 'http://a'}}}",
    "zypper_add_repo": "zypper: {config: {reposdir: /srv/eve/link}, repos: [{id: x, baseurl: 'http://a'}]}",
    "users_groups": "users: [{name: bob, homedir: /srv/eve/link/bob}]",
    "mounts": "mounts: [[tmpfs, /srv/eve/link/cache, tmpfs]]",
    "mounts of the link itself": "mounts: [[tmpfs, /srv/eve/link, tmpfs]]",
    "mounts and swap": "swap: {filename: /srv/eve/link/swap, size: 1M}",
}


def module(name: str) -> Module:
    rows = (row for stage in ("network", "config") for row in modules_of(stage))
    return next(row for row in rows if row.name == name)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    need_root()
    root = make_vm(tmp_path)
    for name in ("etc/apt/sources.list.d", "etc/yum.repos.d", "etc/zypp", "etc/victim", "srv/eve", "var/lib/dpkg"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/zypp/zypp.conf").write_text("# none\n")
    os.chown(root / "srv/eve", EVE, EVE)
    return root


def state(root: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_link_of_another_user_is_not_followed(tree: Path, name: str) -> None:
    (tree / "srv/eve/link").symlink_to("/etc/victim")
    fstab = tree / "etc/fstab"
    fstab.write_text("# none\n")
    with pytest.raises(AzureInitError, match="/srv/eve/link is a symbolic link"):
        apply_module(module(name.split()[0]), tree, DOCUMENTS[name])
    assert state(tree / "etc/victim") == {}
    assert fstab.read_text() == "# none\n", "a later boot would follow the link too"
    assert "bob" not in (tree / "etc/passwd").read_text()


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if "swap" not in name])
def test_a_directory_of_another_user_may_be_used(tree: Path, name: str) -> None:
    (tree / "srv/eve/link").mkdir()
    before = state(tree)
    apply_module(module(name.split()[0]), tree, DOCUMENTS[name])
    assert state(tree) != before
    assert (tree / "srv/eve/link").stat().st_uid == 0, "nothing but what is asked for changes"
