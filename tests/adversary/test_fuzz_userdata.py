"""Mutations of customData in every format: each one is parts or findings, and no finding contains a secret value."""

from __future__ import annotations

import base64
import gzip

import pytest

from azureinit.cli.userdata import as_json, as_text
from azureinit.userdata.validate import validate
from support.bounds import SEED, bounded
from support.fuzz import SECRET, Target, run


def zipped(data: bytes) -> bytes:
    """Without the time, which would make names of tests differ between processes."""
    return gzip.compress(data, mtime=0)


FEW, MANY = 1500, 60_000
CONFIG = f"""#cloud-config
# a comment
package_update: true
packages: [nginx, [curl, 8.0], {{apt: [jq]}}]
users:
  - default
  - name: web
    groups: [www-data, adm]
    plain_text_passwd: '{SECRET}'
    ssh_authorized_keys: &keys
      - ssh-ed25519 AAAA web
chpasswd: {{expire: false, users: [{{name: web, password: {SECRET}, type: text}}]}}
write_files:
  - path: /etc/secret
    permissions: '0600'
    content: |
      password={SECRET}
    defer: true
runcmd:
  - [systemctl, restart, nginx]
  - "curl -u x:{SECRET} https://a.example/"
  - |
    set -e
    echo {SECRET}
swap: {{filename: /swap.img, size: 2G}}
merge_how: list(append)+dict(no_replace,recurse_list)+str()
""".encode()
MESSAGE = b"".join((
    b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="==X=="\n\n--==X==\n',
    b'Content-Type: text/cloud-config; charset="utf-8"\nMerge-Type: list(append)+dict(recurse_list)\n\n',
    CONFIG,
    b'\n--==X==\nContent-Type: text/x-shellscript\nContent-Disposition: attachment; filename="a.sh"\n\n',
    f"#!/bin/sh\necho {SECRET}\n".encode(),
    b"\n--==X==\nContent-Type: application/gzip\nContent-Transfer-Encoding: base64\n\n",
    base64.encodebytes(zipped(CONFIG)),
    b"--==X==--\n",
))  # fmt: skip
FIRST = b"#cloud-config-archive\n- type: text/x-shellscript\n  content: |\n    #!/bin/sh\n    echo\n- |\n  "
ARCHIVE = FIRST + CONFIG.replace(b"\n", b"\n  ")
INCLUDE = f"#include\nhttps://a.example/x?sig={SECRET}\n#include-once\nhttps://b.example/#sha256={'0a' * 32}\n".encode()
WORDS = (
    b"#cloud-config\n", b"- ", b": ", b"\n", b"\n  ", b"|\n", b"&keys ", b"*keys", b"<<: ", b"{", b"}", b"[", b"]",
    b"'", b'"', b"!!int ", b"runcmd:", b"users:", b"write_files:", b"--==X==", b"Content-Type: ", b"#!", b"---\n",
    b"\t", b"~",
)  # fmt: skip


def try_userdata(data: bytes) -> None:
    report = validate(data)
    assert report.parts or report.findings
    for one in report.findings:
        assert one.line >= 1 and one.column >= 1 and one.message.isprintable() and one.hint.isprintable()
    assert as_text(report, "x").count("\n") == len(report.findings) + 1
    assert as_json(report)


def try_whole(data: bytes) -> None:
    """The values of the document are whole here: a key may become the secret, a value may not be told."""
    for one in validate(data).findings:
        assert SECRET not in one.message + one.hint


TARGETS = [
    Target("userdata", try_userdata, (CONFIG, MESSAGE, ARCHIVE, INCLUDE, zipped(CONFIG)), WORDS, cost=2),
    Target("cloud-config", try_userdata, (CONFIG,), WORDS, cost=2),
    Target("mime", try_userdata, (MESSAGE,), WORDS, cost=2),
]


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_no_document_breaks_the_check(target: Target) -> None:
    tally = run(target, bounded(FEW, MANY) // target.cost, SEED)
    assert tally.tried > 100


def test_values_are_not_told() -> None:
    lines = CONFIG.split(b"\n")
    for number, line in enumerate(lines):
        for change in (b"\t" + line, b" " + line, line.replace(b"'", b""), b"x" + line.strip()):
            try_whole(b"\n".join([*lines[:number], change, *lines[number + 1 :]]))
        try_whole(b"\n".join([*lines[:number], *lines[number + 1 :]]))
    for document in (MESSAGE, ARCHIVE, INCLUDE):
        try_whole(document)
