"""ovf-env.xml without its passwords."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from xml.dom import minidom
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.errors import OvfInvalid
from azureinit.sources.ovf import parse_ovf
from azureinit.sources.redact import redact

OVF, WA = "http://schemas.dmtf.org/ovf/environment/1", "http://schemas.microsoft.com/windowsazure"
SECRET = "Kanarienvogel"
CODECS = {
    "utf-8": "utf-8",
    "utf-8 with a mark": "utf-8-sig",
    "utf-16": "utf-16",
    "utf-16 without a mark": "utf-16-le",
    "utf-16, the other way round": "utf-16-be",
    "utf-8 that says utf-16": "utf-8",
    "iso-8859-1": "iso-8859-1",
}


def document(inside: str, *, prefix: str = "", declared: str = "utf-8", outside: str = "") -> str:
    wa, declares = (f"{prefix}:", f"xmlns:{prefix}") if prefix else ("", "xmlns")
    return (
        f'<?xml version="1.0" encoding="{declared}"?>\n<ovf:Environment xmlns:ovf="{OVF}" {declares}="{WA}">\r\n'
        f"  <{wa}ProvisioningSection><{wa}Version>1.0</{wa}Version>\n"
        f"  <{wa}LinuxProvisioningConfigurationSet><{wa}HostName>h\u00f6st</{wa}HostName>"
        f"<{wa}UserName>ada</{wa}UserName>{inside}</{wa}LinuxProvisioningConfigurationSet>"
        f"</{wa}ProvisioningSection><!-- kept -->\n<{wa}PlatformSettingsSection><{wa}Version>1.0</{wa}Version>"
        f"<{wa}PlatformSettings><{wa}ProvisionGuestAgent>False</{wa}ProvisionGuestAgent></{wa}PlatformSettings>"
        f"</{wa}PlatformSettingsSection>{outside}</ovf:Environment>"
    )


def as_the_guest_agent_reads(data: bytes) -> dict[str, str]:
    """UTF-8 after a mark is dropped, by namespace, the first text of the first element."""
    if all(byte > 128 for byte in data[:3]):
        data = data[3:]
    tree = minidom.parseString(data.decode("utf-8").encode("utf-8"))
    found = {}
    for name in ("HostName", "UserName", "UserPassword", "ProvisionGuestAgent"):
        elements = tree.getElementsByTagNameNS(WA, name)
        texts = [node.data for node in elements[0].childNodes if node.nodeType == node.TEXT_NODE] if elements else []
        if texts:
            found[name] = texts[0]
    return found


def test_only_the_password_changes() -> None:
    with_one = document("<UserPassword>{}</UserPassword><CustomData>QUJD</CustomData>")
    data = redact(with_one.format(SECRET).encode())
    assert data == with_one.format("REDACTED").encode()


def test_without_a_password_it_stays_byte_for_byte() -> None:
    for inside in ("", "<UserPassword/>", "<UserPassword></UserPassword>", "<UserPassword a='1' />"):
        data = document(inside).encode()
        assert redact(data) == data


@pytest.mark.parametrize(
    "element",
    [
        "<UserPassword>{}</UserPassword>",
        "<UserPassword>\n  {}\n  {}\n</UserPassword>",
        "<UserPassword><![CDATA[{}]]></UserPassword>",
        "<UserPassword>a<![CDATA[{}]]>b</UserPassword>",
        "<UserPassword><!-- {} --></UserPassword>",
        "<UserPassword><?pi {}?>x</UserPassword>",
        "<UserPassword\n a='>' b=\"/>\">{}</UserPassword\n>",
        "<UserPassword>&lt;&#x41;{}&amp;</UserPassword>",
        "<UserPassword><Inner>{}</Inner><UserPassword>{}</UserPassword>{}</UserPassword>",
        "<x:UserPassword xmlns:x='urn:x'>{}</x:UserPassword><UserPassword>{}</UserPassword>",
        "<x:UserPassword xmlns:x='" + WA + "'>{}</x:UserPassword>",
        "<AdminPassword>{}</AdminPassword><userpassword>{}</userpassword>",
    ],
)
@pytest.mark.parametrize("how", CODECS)
def test_no_password_remains_however_it_is_wrapped(element: str, how: str) -> None:
    declared = "utf-16" if "utf-16" in how else how.split(" ")[0]
    data = document(element.replace("{}", SECRET), declared=declared).encode(CODECS[how])
    redacted = redact(data)
    assert not any(SECRET.encode(codec) in redacted for codec in ("utf-8", "utf-16-le", "utf-16-be"))
    assert b"<!-- kept -->" in redacted
    told = as_the_guest_agent_reads(redacted)
    assert (told["HostName"], told["UserName"], told["ProvisionGuestAgent"]) == ("h\u00f6st", "ada", "False")
    ovf = parse_ovf(redacted)
    assert (ovf.hostname, ovf.username, ovf.password, ovf.provision_guest_agent) == ("h\u00f6st", "ada", None, False)
    assert redact(redacted) == redacted


def test_what_is_no_xml_is_refused_without_telling_what_it_is() -> None:
    with pytest.raises(OvfInvalid, match="is not XML") as raised:
        redact(f"<UserPassword>{SECRET}".encode())
    assert SECRET not in str(raised.value)


LETTERS = st.characters(blacklist_categories=("Cs", "Cc", "Cn"), blacklist_characters="\ufeff\ufffe\uffff")
PIECES = st.sampled_from(["text", "cdata", "comment", "references", "element"])


def wrapped(how: str, text: str) -> str:
    if how == "cdata":
        return f"<![CDATA[{text.replace(']]>', ']] >')}]]>"
    if how == "comment":
        return f"<!--{text.replace('-', '~')}-->"
    if how == "references":
        return "".join(f"&#{ord(letter)};" for letter in text)
    return f"<x>{escape(text)}</x>" if how == "element" else escape(text)


@settings(max_examples=200, deadline=None)
@given(
    password=st.text(LETTERS, min_size=8, max_size=30),
    pieces=st.lists(PIECES, min_size=1, max_size=4),
    prefix=st.sampled_from(["", "ns1", "wa"]),
    blanks=st.sampled_from(["", " ", "\n", "\t \n"]),
    how=st.sampled_from(["utf-8", "utf-8 with a mark", "utf-16", "utf-16 without a mark", "utf-8 that says utf-16"]),
)
def test_whatever_the_wrapping_no_password_is_left(
    password: str, pieces: list[str], prefix: str, blanks: str, how: str
) -> None:
    password = f"q7{password}7q"  # in no other part of the document
    name = f"{prefix}:UserPassword" if prefix else "UserPassword"
    inside = f"<{name}{blanks}>{''.join(wrapped(piece, password) for piece in pieces)}</{name}{blanks}>"
    declared = "utf-16" if "utf-16" in how else "utf-8"
    redacted = redact(document(inside, prefix=prefix, declared=declared).encode(CODECS[how]))
    text = redacted.decode("utf-8-sig")
    assert not any(wrapped(piece, password) in text for piece in pieces)
    assert "q7" not in text and "&#" not in text
    assert redacted == redact(redacted)
    assert as_the_guest_agent_reads(redacted)["UserName"] == "ada"


# ---- in linear time


def many_passwords(size: int) -> str:
    return "<UserPassword2/>" + "<Password>x</Password>" * (size // 22)


def nested_passwords(size: int) -> str:
    return ("<Password>" * 40 + "x" + "</Password>" * 40) * (size // 841)


def many_comments(size: int) -> str:
    return "<AdminPassword>" + "<!--x--><?p q?><![CDATA[y]]>" * (size // 28) + "</AdminPassword>"


def many_references(size: int) -> str:
    return "<AdminPassword>" + "&#120;&amp;" * (size // 11) + "</AdminPassword>"


def many_attributes(size: int) -> str:
    return "<AdminPassword " + " ".join(f"a{number}='1'" for number in range(size // 12)) + ">x</AdminPassword>"


def many_namespaces(size: int) -> str:
    return "".join(
        f"<n{number}:Password xmlns:n{number}='u{number}'>x</n{number}:Password>" for number in range(size // 60)
    )


SHAPES = (many_passwords, nested_passwords, many_comments, many_references, many_attributes, many_namespaces)


@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_document_takes_about_four_times_as_long(shape: Callable[[int], str]) -> None:
    """Quadratic would be sixteen times. Both sizes are measured in turn, and the shortest time of each counts."""
    small, large = (document(shape(size)).encode() for size in (200_000, 800_000))
    taken: dict[int, list[float]] = {len(small): [], len(large): []}
    for data in (small, large) * 5:
        started = process_time()
        redact(data)
        taken[len(data)].append(process_time() - started)
    growth = len(large) / len(small)
    assert min(taken[len(large)]) < 2.5 * growth * min(taken[len(small)])


@pytest.mark.parametrize("read", [redact, parse_ovf])
def test_a_namespace_of_an_endless_name_is_refused(read: Callable[[bytes], object]) -> None:
    """It would be copied for every element: hours for a document of a mebibyte."""
    data = document(f"<x:a xmlns:x='{'u' * 400_000}'>" + "<x:b/>" * 60_000 + "</x:a>").encode()
    with pytest.raises(OvfInvalid, match="namespace of 400000 characters"):
        read(data)


def test_a_document_that_grows_beyond_the_limit_is_still_redacted() -> None:
    data = document("<Password>x</Password>" * 47_000).encode()
    assert len(data) < 1 << 20
    assert len(redact(data)) > 1 << 20
