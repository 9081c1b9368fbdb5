"""Include documents: which URLs are taken, and which are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from azureinit.userdata.include import NOT_HTTPS, OF_THE_PLATFORM, parse_includes
from azureinit.userdata.values import MOST_URLS, Include, Place

SUM = "ab" * 32


def test_urls_with_their_lines_checksums_and_caching() -> None:
    text = f"#include\nhttps://a.example/x\n# a comment\n#include-once https://b/y#sha256={SUM.upper()}\n  https://c:8443/?q=1#\n#include\nhttps://d\n"
    found, findings = parse_includes(text, place=Place(part="p", line=5, column=2))
    assert findings == ()
    assert found == (
        Include(url="https://a.example/x", line=7, column=3, part="p"),
        Include(url="https://b/y", line=9, column=17, part="p", sha256=SUM, once=True),
        Include(url="https://c:8443/?q=1#", line=10, column=5, part="p", once=True),
        Include(url="https://d", line=12, column=3, part="p"),
    )  # fmt: skip


REFUSED = [
    ("http://a/x", NOT_HTTPS),
    ("file:///etc/shadow", NOT_HTTPS),
    ("/etc/shadow", NOT_HTTPS),
    ("ftp://a/x", NOT_HTTPS),
    ("https://", "no valid host and port"),
    ("https://a:0/", "no valid host and port"),
    ("https://a:99999/", "no valid host and port"),
    ("https://:443/", "no valid host and port"),
    ("https://user:password@a/", "a user name or password"),
    ("https://a/b c", "contains a blank"),
    ("https://a/\u00fc", "contains a blank"),
    ("https://a/#sha256=12", "not a checksum"),
    (f"https://a/#sha512={SUM}", "not a checksum"),
    (f"https://a/#sha256={SUM[:-1]}x", "not a checksum"),
    ("https://169.254.169.254/metadata", OF_THE_PLATFORM),
    ("https://168.63.129.16/machine", OF_THE_PLATFORM),
    ("https://168.63.129.16:80/machine", OF_THE_PLATFORM),
    ("HTTPS://169.254.169.254./", OF_THE_PLATFORM),
    ("https://[fe80::1]/", OF_THE_PLATFORM),
    ("https://[::ffff:169.254.169.254]/", OF_THE_PLATFORM),
    ("https://[::ffff:a9fe:a9fe]:443/", OF_THE_PLATFORM),
    ("https://2852039166/", OF_THE_PLATFORM),
    ("https://0xa9fea9fe/", OF_THE_PLATFORM),
    ("https://169.254.43518/", OF_THE_PLATFORM),
    ("https://169.254.169.254\\@a.example/", OF_THE_PLATFORM),
]


@pytest.mark.parametrize(("url", "message"), REFUSED)
def test_a_url_is_refused_and_not_repeated(url: str, message: str) -> None:
    found, (finding,) = parse_includes(f"#include\n{url}\n", place=Place())
    assert found == () and message in finding.message and (finding.line, finding.column) == (2, 1)
    assert "password@" not in finding.message and "shadow" not in finding.message


def test_plain_http_can_be_allowed_but_not_to_the_platform() -> None:
    found, findings = parse_includes("#include\nhttp://a/x\nhttp://169.254.169.254/\n", place=Place(), allow_http=True)
    assert [one.url for one in found] == ["http://a/x"]
    assert [one.message for one in findings] == [OF_THE_PLATFORM]


def test_the_number_of_urls_is_bounded() -> None:
    found, (finding,) = parse_includes("#include\n" + "https://a/\n" * 1000, place=Place())
    assert len(found) == MOST_URLS and finding.line == MOST_URLS + 2
    _, findings = parse_includes("#include\n" + "x\n" * 1000, place=Place())
    assert len(findings) == MOST_URLS + 1
    _, (finding,) = parse_includes("#include\n" * 100_000, place=Place())
    assert "longer than" in finding.message
    assert "names no URL" in parse_includes("#include\n", place=Place())[1][0].message


PIECES = ["https://", "a", ":", "@", "[", "]", "#sha256=", "#include", "\n", "169.254."]


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_text_is_taken_or_refused(text: str) -> None:
    found, findings = parse_includes(text, place=Place())
    assert found or findings
    assert all(one.url.lower().startswith("https://") for one in found)
