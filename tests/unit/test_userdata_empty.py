"""Keys that have no value, as templates leave them: nothing is asked for."""

from __future__ import annotations

import pytest

from azureinit.userdata.document import read_document
from azureinit.userdata.keys import ALL, KEYS, Key
from azureinit.userdata.node import plain

TUTORIAL = """\
users:
  - default
  - name: terraform
    sudo:
    ssh_import_id:
    lock_passwd: false
    ssh_authorized_keys: &keys [k]
write_files: [{path: /a, content: , owner: , source: }, {path: /b, content: x}]
apt: {conf: , sources: {a: {source: s, keyid: , append: }}}
yum_repos: {a: {baseurl: b, gpgkey: }}
mounts: [[a, null]]
ntp:
"""


def test_keys_without_a_value_inside_others_ask_for_nothing() -> None:
    """`sudo`, `mounts` and `ntp` say something by it."""
    document = read_document(f"#cloud-config\n{TUTORIAL}".encode())
    assert document.errors == ()
    assert plain(document.config) == {
        "users": ["default", {"name": "terraform", "sudo": None, "lock_passwd": False, "ssh_authorized_keys": ["k"]}],
        "write_files": [{"path": "/a"}, {"path": "/b", "content": "x"}],
        "apt": {"sources": {"a": {"source": "s"}}},
        "yum_repos": {"a": {"baseurl": "b", "gpgkey": None}},
        "mounts": [["a", None]],
        "ntp": None,
    }


@pytest.mark.parametrize("row", [row for row in KEYS if row.module and row.stage != ALL], ids=lambda row: row.name)
def test_a_key_without_a_value_asks_for_nothing(row: Key) -> None:
    document = read_document(f"#cloud-config\n{row.name}:\nbootcmd:\n- 'true'\n".encode())
    if row.name in ("bootcmd", "ntp"):  # ntp is complete without a value
        return
    assert set(plain(document.config)) == {"bootcmd"}
    head = b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n"
    part = "--X\nContent-Type: text/cloud-config\n\nruncmd: {}\n"
    assert "runcmd" not in plain(
        read_document(head + (part.format("[a]") + part.format("") + "--X--\n").encode()).config
    )
