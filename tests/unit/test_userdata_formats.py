"""customData in every format -> its parts and findings."""

from __future__ import annotations

import base64
import gzip
import zlib

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.userdata.parts import file_name, parse_userdata
from azureinit.userdata.values import MOST_BYTES, MOST_DEPTH, MOST_PARTS, Finding, Part


def zipped(data: bytes) -> bytes:
    """Without the time, which would make names of tests differ between processes."""
    return gzip.compress(data, mtime=0)


CONFIG = b"#cloud-config\nruncmd: [a]\n"
SCRIPT = b"#!/bin/sh\necho\n"
ENCODING = "Content-Transfer-Encoding: "
BASE64 = f"{ENCODING}base64"


def parsed(data: bytes) -> tuple[tuple[Part, ...], list[str]]:
    userdata = parse_userdata(data)
    return userdata.parts, [told(one) for one in userdata.findings]


def told(one: Finding) -> str:
    return f"{one.part}:{one.line}:{one.column} {one.level} {one.message}"


def message(*parts: bytes, end: bytes = b"--X--\n") -> bytes:
    head = b'Content-Type: multipart/mixed; boundary="X"\nMIME-Version: 1.0\n\n'
    return head + b"".join(b"--X\n" + part + b"\n" for part in parts) + end


def mime_part(content_type: str, content: bytes, *more: str) -> bytes:
    return "\n".join((f"Content-Type: {content_type}", *more, "", "")).encode() + content


KINDS = [
    (CONFIG, "cloud-config"),
    (b"\n\n #Cloud-Config\na: 1\n", "cloud-config"),
    (SCRIPT, "script"),
    (b"#cloud-boothook\n#!/bin/sh\n", "boothook"),
    (b"#part-handler\nimport x\n", "part-handler"),
    (b"#cloud-config-jsonp\n[]\n", "cloud-config-jsonp"),
    (b'{"ignition": {"version": "3.4.0"}}', "ignition"),
    (b'{"ignition": 5}', "unknown"),
    (b'{"ignition": {"version"', "unknown"),
    (b"hello\n", "unknown"),
    (b"\x00\x01\x02", "unknown"),
    (b"#include https://a.example/x\n", "include"),
    (b"#include-once\nhttps://a.example/x\n", "include"),
    (b"## template: jinja\n#cloud-config\n", "jinja template"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "kind"), KINDS)
def test_the_first_line_decides(data: bytes, kind: str) -> None:
    ((part,), _) = parsed(data)
    assert part.kind == kind and part.content == data and part.inside == ()


WRAPPED = [
    (zipped(CONFIG), ("gzip",)),
    (zipped(CONFIG[:5]) + zipped(CONFIG[5:]) + b"\0\0", ("gzip",)),
    (base64.b64encode(CONFIG), ("base64",)),
    (base64.encodebytes(zipped(CONFIG)), ("base64", "gzip")),
    (zipped(zipped(base64.b64encode(CONFIG))), ("gzip", "gzip", "base64")),
    (message(mime_part("text/plain", CONFIG[:-1])), ("MIME",)),
    (zipped(message(mime_part("text/plain", CONFIG[:-1]))), ("gzip", "MIME")),
    (message(mime_part("text/cloud-config", base64.b64encode(zipped(CONFIG)), BASE64)), ("MIME", "gzip")),
    (message(mime_part("application/x-gzip", base64.b64encode(zipped(CONFIG)), BASE64)), ("MIME", "gzip")),
    (message(mime_part("multipart/mixed; boundary=Y", b"--Y\n" + mime_part("text/cloud-config", CONFIG) + b"\n--Y--")),
     ("MIME", "MIME")),
]  # fmt: skip


@pytest.mark.parametrize(("data", "inside"), WRAPPED)
def test_wrapped_content_is_unpacked(data: bytes, inside: tuple[str, ...]) -> None:
    (part,), findings = parsed(data)
    assert (part.kind, part.inside, part.content.rstrip()) == ("cloud-config", inside, CONFIG.rstrip())
    assert findings == []


NAMED = 'Content-Disposition: attachment; filename="a b.yaml"'
PICTURE = b"\x89PNG"


def test_parts_of_a_message_keep_their_names_types_and_lines() -> None:
    data = (
        message(
            mime_part("text/cloud-config", CONFIG, NAMED, "Merge-Type: list(append)"),
            mime_part("text/x-shellscript-per-boot", SCRIPT),
            mime_part("text/x-shellscript", CONFIG),
            mime_part("text/x-shellscript", b"echo\n"),
            mime_part("text/cloud-boothook", base64.b64encode(b"#cloud-boothook\n"), BASE64),
            mime_part("text/cloud-config", b"runcmd: [=E2=82=AC]\n", f"{ENCODING}quoted-printable"),
            mime_part("image/png", PICTURE),
        )
    )  # fmt: skip
    parts, findings = parsed(data)
    assert [part.kind for part in parts] == [
        "cloud-config", "script-per-boot", "cloud-config", "script", "boothook", "cloud-config", "unknown"
    ]  # fmt: skip
    assert [part.name for part in parts] == ["a b.yaml", *(f"part-{n:03d}" for n in range(2, 8))]
    assert parts[0].merge_type == "list(append)"
    lines = data.split(b"\n")
    assert [part.place.line for part in parts[:2]] == [lines.index(b"#cloud-config"), lines.index(b"#!/bin/sh")]
    assert parts[5].content == "runcmd: [€]\n".encode() and parts[5].place.part == "part-006"
    assert findings == [
        f":{lines.index(b'echo', 20) + 1}:1 warning the script does not begin with #!",
        f":{lines.index(PICTURE) + 1}:1 warning the format is unknown: the content is kept, and nothing is done",
    ]


def test_an_archive_is_a_list_of_parts() -> None:
    text = (
        b"#cloud-config-archive\n"
        b"- type: text/cloud-config\n  filename: ../x/one.cfg\n  merge-type: dict(replace)\n"
        b"  content: |\n    #cloud-config\n    a: 1\n"
        b"- |\n  #!/bin/sh\n  echo\n"
        b"- content: 'runcmd: [a]'\n"
        b"- 5\n"
        b"- type: text/plain\n"
    )  # fmt: skip
    parts, findings = parsed(text)
    assert [(part.kind, part.name) for part in parts] == [
        ("cloud-config", "one.cfg"), ("script", "part-002"), ("cloud-config", "part-003")
    ]  # fmt: skip
    assert (parts[0].place.line, parts[0].place.column, parts[0].merge_type) == (5, 4, "dict(replace)")
    assert parts[2].place.part == "part-003"
    assert findings == [f":{line}:3 error an entry must be text, or a mapping with content" for line in (12, 13)]
    assert parsed(b"#cloud-config-archive\na: 1\n")[1] == [":2:1 error a cloud-config-archive must be a list"]


def test_a_template_says_what_it_becomes() -> None:
    (part,), findings = parsed(b"## template: jinja\n#cloud-config\nruncmd: [{{ x }}]\n")
    assert (part.kind, part.renders) == ("jinja template", "cloud-config")
    assert not any("does not say" in one for one in findings)
    assert ":2:1 error the template does not say what it becomes" in parsed(b"## template: jinja\nx\n")[1]


LOOKS = "this looks like a cloud-config, but "


@pytest.mark.parametrize("before", [b"From nobody Thu Jan  1 00:00:00 1970\n", b"\n\n", b" \r\n", b"\xef\xbb\xbf\n"])
def test_a_message_may_begin_with_an_envelope_or_blank_lines(before: bytes) -> None:
    """As `email.message.Message.as_string(unixfrom=True)` and here-documents make it."""
    found = parse_userdata(before + message(mime_part("text/x-shellscript", b"#!/bin/sh\n# \xff\n")))
    (part,) = found.parts
    assert part.kind == "script" and part.inside == ("MIME",)
    (told,) = [one for one in found.findings if "UTF-8" in one.message]
    assert told.line == before.count(b"\n") + 8, "lines are those of the file"


UNPACKED = "the gzip data cannot be decompressed: "
MISTAKES = [
    (b"", ":1:1 warning there is no content"),
    (b" \n\n", ":1:1 warning there is no content"),
    (b"\xef\xbb\xbf" + CONFIG, ":1:1 warning the text begins with a byte-order mark"),
    (CONFIG.decode().encode("utf-16"), ":1:1 error the text is UTF-16"),
    (b"#!/bin/sh\r\necho\r\n", ":1:10 warning the text has Windows line ends; they are converted"),
    (b"\n#!/bin/sh\n", ":2:1 warning #! is not at the beginning"),
    (b"#!/bin/sh\n# \xff\n", ":2:3 warning the text is not UTF-8: byte 0xff"),
    (b"#include\nhttps://a/\xe9\n", ":2:11 error the text is not UTF-8: byte 0xe9"),
    (b"packages: [a]\n", f":1:1 error {LOOKS}the first line #cloud-config is missing"),
    (b"# cloud-config\npackages: [a]\n", f":1:1 error {LOOKS}this line is not #cloud-config"),
    (b"# mine\n\n#cloud-config\na: 1\n", f":3:1 error {LOOKS}#cloud-config is not in the first line"),
    (b"---\n#cloud-config\npackages: [a]\n", f":2:1 error {LOOKS}#cloud-config is not in the first line"),
    (b"---\npackages: [a]\n", f":1:1 error {LOOKS}the first line #cloud-config is missing"),
    (zipped(CONFIG)[:-4], f":1:1 error {UNPACKED}the data end too early"),
    (b"\x1f\x8bnonsense", f":1:1 error {UNPACKED}the data are damaged"),
    (zipped(CONFIG) + b"x", f":1:1 error {UNPACKED}other data follow the compressed data"),
    (b"MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx", ":1:1 error the multipart message names no boundary"),
    (message(), ":4:1 error the multipart message has no part"),
    (message(mime_part("text/plain", SCRIPT), end=b""),
     ":4:1 warning the multipart message has no end: its last boundary is missing"),
    (message(mime_part("text/plain", b"", f"{ENCODING}rot13")),
     ":8:1 error the part has an unknown Content-Transfer-Encoding"),
    (message(mime_part("text/plain", b"abc", BASE64)),
     ":8:1 error the part cannot be decoded: the base64 text is damaged"),
    (b"#part-handler\n", ":1:1 warning a part handler is not run: azure-init loads no code into itself"),
    (b"#cloud-config-jsonp\n[]", ":1:1 warning a JSON patch is not applied"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), MISTAKES, ids=[one[1] for one in MISTAKES])
def test_a_mistake_is_told_with_its_place(data: bytes, expected: str) -> None:
    assert expected in parsed(data)[1]


def test_windows_line_ends_of_a_message_are_not_a_mistake_of_its_parts() -> None:
    (part,), findings = parsed(message(mime_part("text/plain", CONFIG[:-1])).replace(b"\n", b"\r\n"))
    assert findings == [] and part.content == CONFIG[:-1]


# ---- limits


def gzip_bomb(size: int) -> bytes:
    """One member of that size. Each block ends in a full flush, and can be repeated."""
    block = 1 << 24
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = packer.compress(bytes(block)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(block)) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + again * (size // block - 1) + packer.flush()


TOO_LARGE = f"the parts are larger than {MOST_BYTES >> 20} MiB together"


@pytest.mark.parametrize(
    "data",
    [
        gzip_bomb(4 << 30),
        zipped(bytes(1 << 24)) * 256,
        zipped(gzip_bomb(4 << 30)),
        message(*[mime_part("application/gzip", base64.b64encode(zipped(b"#!/bin/sh\n" + bytes(1 << 24))),
                            BASE64)] * 8),
        b"#cloud-config-archive\n- &a |\n  #!" + b"x" * (1 << 16) + b"\n" + b"- *a\n" * 2000,
    ],
    ids=["one member", "many members", "twice", "many parts", "aliases"],
)  # fmt: skip
def test_a_bomb_is_refused(data: bytes) -> None:
    parts, findings = parsed(data)
    assert [one.partition(" error ")[2] for one in findings if " error " in one] in (
        [TOO_LARGE], [f"there are more than {MOST_PARTS} parts"]
    )  # fmt: skip
    assert sum(len(part.content) for part in parts) <= MOST_BYTES


def nested(levels: int) -> bytes:
    inner = mime_part("text/plain", SCRIPT)
    for level in range(levels):
        inner = mime_part(f"multipart/mixed; boundary=L{level}", b"--L%d\n%s\n--L%d--\n" % (level, inner, level))
    return b"MIME-Version: 1.0\n" + inner


@pytest.mark.parametrize("levels", [MOST_DEPTH + 1, 100])
def test_a_message_that_is_nested_too_deeply_is_refused(levels: int) -> None:
    parts, findings = parsed(nested(levels))
    assert parts == () and [one.partition(" ")[2] for one in findings] == [
        f"error containers are nested more than {MOST_DEPTH} levels deep"
    ]


def test_a_message_may_be_nested() -> None:
    assert [part.kind for part in parsed(nested(MOST_DEPTH))[0]] == ["script"]


def test_archives_in_archives_are_bounded() -> None:
    inner = b"#cloud-config-archive\n- '#!/bin/sh'\n"
    for _ in range(MOST_DEPTH + 2):
        inner = b"#cloud-config-archive\n- |\n  " + inner.replace(b"\n", b"\n  ").rstrip(b" ")
    assert "nested more than" in parsed(inner)[1][0]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a.sh", "a.sh"),
        ("../../etc/passwd", "passwd"),
        ("..", ""),
        ("a\nb", ""),
        ("C:\\x\\y.ps1", "y.ps1"),
        ("x" * 999, "x" * 255),
    ],
)
def test_a_given_name_is_safe_in_a_directory(given: str, name: str) -> None:
    assert file_name(given) == name


# ---- any input

PIECES = [
    b"#cloud-config\n", b"#!", b"#include\n", b"https://a\n", b"\x1f\x8b", b"MIME-Version: 1.0\n", b"Content-Type: ",
    b"multipart/mixed; boundary=X\n", b"text/plain\n", b"\n", b"--X\n", b"--X--\n", b"a: ", b"- ", b"|\n  ", b"\xff",
    b"\xef\xbb\xbf", b"\r\n", b"#cloud-config-archive\n", b"Content-Transfer-Encoding: base64\n", b"\0",
    b"IyEvYmluL3NoCg==", b"## template: jinja\n", b'{"ignition": {}}', zipped(CONFIG), base64.b64encode(CONFIG),
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join), st.binary(max_size=200)))
def test_any_bytes_give_parts_or_findings(data: bytes) -> None:
    userdata = parse_userdata(data)
    assert userdata.parts or userdata.findings
    for one in userdata.findings:
        assert one.line >= 1 and one.column >= 1 and one.message.isprintable() and one.part.isprintable()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 200))
def test_damaged_gzip_is_a_finding(data: bytes, cut: int) -> None:
    packed = zipped(data)
    assert parse_userdata(packed[: 2 + cut] + data).findings or not data.strip()
