"""Documents that are nested, encoded or broken in odd ways: exit status and message of `azure-init userdata validate`,
and `run` in a file tree, which carries out nothing of a document with an error."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

import pytest

from azureinit.cli import main
from support.need import need_root
from support.user_modules import make_vm

CONFIG = b"#cloud-config\nwrite_files: [{path: /etc/odd, content: x}]\n"
DEFECT = re.compile(r"Traceback|[A-Z]\w+(Error|Exception): .* at \w+\.py:\d+")
BASE64 = "Content-Transfer-Encoding: base64\n"


def mime(*parts: tuple[str, bytes], before: bytes = b"", end: bytes = b"--B--\n") -> bytes:
    head = before + b'Content-Type: multipart/mixed; boundary="B"\nMIME-Version: 1.0\n\n'
    return head + b"".join(b"--B\n" + name.encode() + b"\n" + data + b"\n" for name, data in parts) + end


def nested(data: bytes, levels: int) -> bytes:
    for _level in range(levels):
        data = base64.b64encode(gzip.compress(data))
    return data


AS_CONFIG, AS_GZIP = "Content-Type: text/cloud-config\n", "Content-Type: application/x-gzip\n"
INDENTED = b"".join(b"  " + line + b"\n" for line in CONFIG.splitlines())
# Those that write the file.
GOOD = {
    "gzip in base64 in MIME": mime((AS_GZIP + BASE64, base64.b64encode(gzip.compress(CONFIG)))),
    "gzip with the type of a config": mime((AS_CONFIG + BASE64, base64.b64encode(gzip.compress(CONFIG)))),
    "MIME in gzip in base64, twice": nested(mime((AS_CONFIG, CONFIG)), 2),
    "MIME in gzip in MIME": mime((AS_GZIP + BASE64, base64.b64encode(gzip.compress(mime((AS_CONFIG, CONFIG)))))),
    "an envelope": mime((AS_CONFIG, CONFIG), before=b"From nobody Sat Dec 11 17:29:27 2010\n"),
    "blank lines before the headers": mime((AS_CONFIG, CONFIG), before=b"\n \n"),
    "an empty part": mime((AS_CONFIG, b""), (AS_CONFIG, CONFIG)),
    "parts without headers": mime(("", CONFIG), ("", b"#!/bin/sh\n")),
    "no last boundary": mime((AS_CONFIG, CONFIG), end=b""),
    "a script that is a config": mime(("Content-Type: text/x-shellscript\n", CONFIG)),
    "Windows line ends in MIME": mime((AS_CONFIG, CONFIG)).replace(b"\n", b"\r\n"),
    "byte-order marks": b"\xef\xbb\xbf" + mime((AS_CONFIG, b"\xef\xbb\xbf" + CONFIG)),
    "old line ends": CONFIG.replace(b"\n", b"\r"),
    "a binary entry of an archive": b"#cloud-config-archive\n- !!binary " + base64.b64encode(gzip.compress(CONFIG)),
    "an archive in an archive": b"#cloud-config-archive\n- |\n  #cloud-config-archive\n  - |\n"
    + b"".join(b"  " + line + b"\n" for line in INDENTED.splitlines()),
    "a template in an archive": b"#cloud-config-archive\n- |\n  ## template: jinja\n" + INDENTED,
    "members of gzip": gzip.compress(CONFIG[:20]) + gzip.compress(CONFIG[20:]),
    "base64 without its padding": base64.b64encode(CONFIG).rstrip(b"="),
    "base64 for URLs": base64.urlsafe_b64encode(CONFIG + "# ÿ\xbf~~~\n".encode() * 9),
    "anchors": b"#cloud-config\nx-a: &a {path: /etc/odd}\nwrite_files: [{<<: *a, content: x}]\n",
    "a directive": b"#cloud-config\n%YAML 1.1\n---\nwrite_files: [{path: /etc/odd, content: x}]\n...\n",
}
# Those of which nothing is carried out, and what is told.
WRONG = {
    "another charset": (mime((AS_CONFIG, b"#cloud-config\nx-a: \xe9\n")), ":8:6: error: the text is not UTF-8"),
    "UTF-16 in MIME": (
        mime((AS_CONFIG + BASE64, base64.b64encode(CONFIG.decode().encode("utf-16")))),
        "1:1: error: the text is UTF-16",
    ),
    "an unknown encoding": (mime((f"{AS_CONFIG}Content-Transfer-Encoding: x-uue\n", CONFIG)), ":8:1: error: the part"),
    "a boundary that is no part's": (mime((AS_CONFIG, CONFIG)).replace(b'"B"', b"C"), "has no part"),
    "twelve containers": (nested(CONFIG, 6), "nested more than 10 levels"),
    "gzip that is cut": (gzip.compress(CONFIG)[:-6], ":1:1: error: the gzip data cannot be decompressed"),
    "three dashes before the header": (b"---\n" + CONFIG, ":2:1: error: this looks like a cloud-config"),
    "a template of an archive": (b"## template: jinja\n#cloud-config-archive\n- x\n", ":2:1: error: the template does"),
    "a template that is undefined": (
        b"#cloud-config-archive\n- |\n" + INDENTED + b"- |\n  ## template: jinja\n  #!/bin/sh\n  echo {{ nope }}\n",
        ":8:3: error: the template cannot be rendered: 'nope' is undefined",
    ),
    "an archive of odd things": (b"#cloud-config-archive\n- null\n- 5\n- {}\n", ":3:3: error: an entry must be text"),
    "keys given twice": (CONFIG + b"write_files: []\n", ":3:1: error: the key write_files is given twice"),
    "a second document": (CONFIG + b"---\n{}\n", ":3:1: error: a second YAML document"),
    "an alias that contains itself": (CONFIG + b"x-a: &a {b: *a}\n", ":3:13: error: an alias contains itself"),
    "a bomb of aliases": (
        CONFIG + b"x-0: &0 [a]\n" + b"".join(b"x-%d: &%d [%s]\n" % (n, n, b",".join([b"*%d" % (n - 1)] * 9))
                                             for n in range(1, 12)),
        "more than 200000 values",
    ),
    "a bomb of brackets": (CONFIG + b"x-a: " + b"[" * 5000 + b"\n", "nested more than 64 levels"),
    "a number without an end": (b"#cloud-config\nruncmd: [[%s]]\n" % (b"9" * 9999), ":2:11: error: a number has more"),
    "values that are no commands": (
        b"#cloud-config\nbootcmd: [5, null, '', [1, 2], [], true, [null]]\n",
        ":2:11: error: bootcmd[0] must be text",
    ),
    "a code object": (b"#cloud-config\nruncmd: !!python/object/apply:os.system ['id']\n", ":2:9: error: a YAML tag"),
    "a control character": (b"#cloud-config\nruncmd: [a\x07]\n", ":2:11: error: invalid YAML: a control character"),
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    need_root()
    return make_vm(tmp_path / "root")


@pytest.mark.parametrize("name", GOOD)
def test_an_odd_document_is_carried_out(
    root: Path, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "document"
    file.write_bytes(GOOD[name])
    assert main(["userdata", "validate", str(file)]) == 0
    assert main(["userdata", "run", "--root", str(root), str(file)]) == 0
    assert not DEFECT.search("".join(capfd.readouterr()))
    assert (root / "etc/odd").read_text() == "x"


@pytest.mark.parametrize("name", WRONG)
def test_nothing_of_a_wrong_document_is_carried_out(
    root: Path, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file, (data, told) = tmp_path / "document", WRONG[name]
    file.write_bytes(data)
    assert main(["userdata", "run", "--root", str(root), str(file)]) == 1
    said = "".join(capfd.readouterr())
    assert told in said and not DEFECT.search(said), said
    assert not (root / "etc/odd").exists()
