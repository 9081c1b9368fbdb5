"""ovf-env.xml: every variant that Azure and its peers write, and every kind of invalid document."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.errors import InvalidKey, OvfInvalid
from azureinit.pubkey import parse_key
from azureinit.record import Secret, replace
from azureinit.sources.merge import from_ovf, merge
from azureinit.sources.ovf import OvfKey, parse_ovf
from support.ssh_trees import ed25519

OVF = "http://schemas.dmtf.org/ovf/environment/1"
WA = "http://schemas.microsoft.com/windowsazure"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
PASSWORD = " p&ss <w>ord "
AZURE = f"""<?xml version="1.0" encoding="utf-8"?>
<ns0:Environment xmlns="{OVF}" xmlns:ns0="{OVF}" xmlns:ns1="{WA}" xmlns:xsi="{XSI}">
  <ns1:ProvisioningSection>
    <ns1:Version>1.0</ns1:Version>
    <ns1:LinuxProvisioningConfigurationSet>
      <ns1:ConfigurationSetType>LinuxProvisioningConfiguration</ns1:ConfigurationSetType>
      <ns1:UserName> azureuser </ns1:UserName>
      <ns1:UserPassword><![CDATA[ p&ss <w>]]>ord </ns1:UserPassword>
      <ns1:DisableSshPasswordAuthentication>False</ns1:DisableSshPasswordAuthentication>
      <ns1:HostName>
        myhost
      </ns1:HostName>
      <ns1:SSH>
        <ns1:PublicKeys>
          <ns1:PublicKey>
            <ns1:Fingerprint>EB0C0AB4B2D5FC35F2F0658D19F44C8283E2DD62</ns1:Fingerprint>
            <ns1:Path>/home/azureuser/.ssh/authorized_keys</ns1:Path>
            <ns1:Value>ssh-ed25519 AAAA one</ns1:Value>
          </ns1:PublicKey>
          <ns1:PublicKey><ns1:Value>ssh-rsa BBBB two</ns1:Value><ns1:Path xsi:nil="true"/></ns1:PublicKey>
          <ns1:PublicKey/>
        </ns1:PublicKeys>
        <ns1:KeyPairs><ns1:KeyPair><ns1:Fingerprint>X</ns1:Fingerprint></ns1:KeyPair></ns1:KeyPairs>
      </ns1:SSH>
      <ns1:CustomData>
        I2Nsb3VkLWNv
        bmZpZwo=
      </ns1:CustomData>
    </ns1:LinuxProvisioningConfigurationSet>
  </ns1:ProvisioningSection>
  <ns1:PlatformSettingsSection>
    <ns1:Version>1.0</ns1:Version>
    <ns1:PlatformSettings>
      <ns1:KmsServerHostname>kms.core.windows.net</ns1:KmsServerHostname>
      <ns1:ProvisionGuestAgent>true</ns1:ProvisionGuestAgent>
      <ns1:GuestAgentPackageName xsi:nil="true"/>
      <ns1:PreprovisionedVm>true</ns1:PreprovisionedVm>
      <ns1:PreprovisionedVMType>Savable</ns1:PreprovisionedVMType>
      <ns1:ProvisionGuestProxyAgent>1</ns1:ProvisionGuestProxyAgent>
    </ns1:PlatformSettings>
  </ns1:PlatformSettingsSection>
</ns0:Environment>
"""


def document(linux: str = "", *, platform: str = "", namespace: str = f' xmlns="{WA}"') -> bytes:
    return (
        f"<Environment{namespace}><ProvisioningSection><LinuxProvisioningConfigurationSet>{linux}"
        "</LinuxProvisioningConfigurationSet></ProvisioningSection>"
        f"<PlatformSettingsSection><PlatformSettings>{platform}</PlatformSettings></PlatformSettingsSection></Environment>"
    ).encode()


def test_azures_own_document_is_read_whole() -> None:
    ovf = parse_ovf(AZURE.encode())
    assert (ovf.hostname, ovf.username, ovf.disable_password) == ("myhost", "azureuser", False)
    assert ovf.password == Secret(PASSWORD)
    assert ovf.custom_data == Secret(b"#cloud-config\n")
    assert ovf.keys == (
        OvfKey(
            fingerprint="EB0C0AB4B2D5FC35F2F0658D19F44C8283E2DD62",
            path="/home/azureuser/.ssh/authorized_keys",
            value="ssh-ed25519 AAAA one",
        ),
        OvfKey(fingerprint=None, path=None, value="ssh-rsa BBBB two"),
    )
    assert (ovf.preprovisioned, ovf.pps_type, ovf.proxy_agent, ovf.provision_guest_agent) == (
        True,
        "Savable",
        True,
        True,
    )


def test_nothing_secret_shows_in_its_repr() -> None:
    shown = repr(parse_ovf(AZURE.encode()))
    assert "p&ss" not in shown
    assert "cloud-config" not in shown


@pytest.mark.parametrize("other", ["wa", "a", "ns0x"])
def test_prefixes_do_not_matter(other: str) -> None:
    assert parse_ovf(AZURE.replace("ns1:", f"{other}:").replace(":ns1=", f":{other}=").encode()) == parse_ovf(
        AZURE.encode()
    )


def test_a_default_namespace_will_do() -> None:
    plain = AZURE.replace("ns1:", "").replace(f'xmlns="{OVF}"', f'xmlns="{WA}"')
    assert parse_ovf(plain.encode()) == parse_ovf(AZURE.encode())


def test_no_namespace_will_do() -> None:
    assert parse_ovf(document("<HostName>h</HostName>", namespace="")).hostname == "h"


def test_an_element_of_another_namespace_is_not_ours() -> None:
    ovf = parse_ovf(document('<x:HostName xmlns:x="urn:other">h</x:HostName><y><UserName>u</UserName></y>'))
    assert ovf.hostname is None
    assert ovf.username is None


def test_the_order_is_free_and_platform_settings_may_be_missing() -> None:
    data = (
        "<Environment><ProvisioningSection><LinuxProvisioningConfigurationSet><New>1</New><UserName>u</UserName>"
        "<HostName>h</HostName></LinuxProvisioningConfigurationSet></ProvisioningSection></Environment>"
    )
    ovf = parse_ovf(data.encode())
    assert (ovf.hostname, ovf.username, ovf.preprovisioned, ovf.pps_type) == ("h", "u", False, None)
    assert (ovf.password, ovf.custom_data, ovf.keys, ovf.disable_password) == (None, None, (), None)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1"])
def test_every_encoding_is_read(encoding: str) -> None:
    declared = {"utf-8-sig": "utf-8", "utf-16-le": "utf-16", "utf-16-be": "utf-16"}.get(encoding, encoding)
    text = f'<?xml version="1.0" encoding="{declared}"?>' + document("<HostName>hö</HostName>").decode()
    assert parse_ovf(text.encode(encoding)).hostname == "hö"


@pytest.mark.parametrize(("declared", "encoding"), [("utf-16", "utf-8"), ("utf-8", "utf-16"), ("utf-16", "utf-8-sig")])
def test_the_bytes_outweigh_the_declaration(declared: str, encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{declared}"?>' + document("<HostName>hö</HostName>").decode()
    assert parse_ovf(text.encode(encoding)).hostname == "hö"


def test_blanks_and_padding_around_the_document_are_dropped() -> None:
    assert parse_ovf(b"\r\n " + AZURE.encode() + b"\0\0\n").hostname == "myhost"


@pytest.mark.parametrize("name", ["bogus", "base64", "idna", "utf-7", "punycode", "..", "cp932", "unicode_escape"])
def test_an_unknown_encoding_is_invalid(name: str) -> None:
    with pytest.raises(OvfInvalid, match=r"encoding|not XML"):
        parse_ovf(f'<?xml version="1.0" encoding="{name}"?>'.encode() + document())


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "1", " true\n"])
def test_true_in_every_spelling(text: str) -> None:
    tag = "DisableSshPasswordAuthentication"
    assert parse_ovf(document(f"<{tag}>{text}</{tag}>")).disable_password is True


@pytest.mark.parametrize("text", ["false", "False", "0"])
def test_false_in_every_spelling(text: str) -> None:
    tag = "DisableSshPasswordAuthentication"
    assert parse_ovf(document(f"<{tag}>{text}</{tag}>")).disable_password is False


@pytest.mark.parametrize("element", ["<{}/>", "<{}></{}>", "<{}>  </{}>", '<{} xmlns:x="' + XSI + '" x:nil="1">1</{}>'])
@pytest.mark.parametrize(
    ("tag", "field"),
    [
        ("HostName", "hostname"),
        ("UserName", "username"),
        ("UserPassword", "password"),
        ("DisableSshPasswordAuthentication", "disable_password"),
        ("CustomData", "custom_data"),
    ],
)
def test_an_empty_or_nil_element_is_absent(element: str, tag: str, field: str) -> None:
    assert getattr(parse_ovf(document(element.format(tag, tag))), field) is None


@pytest.mark.parametrize("tag", ["PreprovisionedVm", "ProvisionGuestProxyAgent"])
@pytest.mark.parametrize("text", ["yes", "2", "maybe"])
def test_a_boolean_that_is_neither_is_invalid(tag: str, text: str) -> None:
    with pytest.raises(OvfInvalid, match=tag):
        parse_ovf(document(platform=f"<{tag}>{text}</{tag}>"))


@pytest.mark.parametrize("text", ["yes", "2", "maybe", "tru\u00e9", "true false"])
def test_a_guest_agent_wish_that_is_neither_is_told_and_spoils_nothing_else(text: str) -> None:
    whole = parse_ovf(document("<HostName>web-1</HostName>"))
    ovf = parse_ovf(
        document("<HostName>web-1</HostName>", platform=f"<ProvisionGuestAgent>{text}</ProvisionGuestAgent>")
    )
    assert ovf.warnings == ("ProvisionGuestAgent in ovf-env.xml is neither true nor false: taken as absent",)
    assert replace(ovf, warnings=()) == whole
    assert from_ovf(ovf).guest_agent_off is False
    assert merge({"media": from_ovf(ovf)}).warnings == ovf.warnings


@pytest.mark.parametrize("wrap", ["\r\n", "\n", "&#13;&#10;", "&#13;\n"])
@pytest.mark.parametrize("width", [40, 64, 76])
def test_a_wrapped_key_is_joined(wrap: str, width: int) -> None:
    key = ed25519(comment="ada@example")
    wrapped = wrap.join(key[at : at + width] for at in range(0, len(key), width))
    inside = f"<SSH><PublicKeys><PublicKey><Value>\r\n {wrapped}\r\n</Value></PublicKey></PublicKeys></SSH>"
    (found,) = from_ovf(parse_ovf(document(inside))).keys
    assert parse_key(found.data) == key + "\n"


def test_two_keys_in_one_value_are_not_joined() -> None:
    both = f"{ed25519('k')}\n{ed25519('m')}"
    inside = f"<SSH><PublicKeys><PublicKey><Value>{both}</Value></PublicKey></PublicKeys></SSH>"
    (found,) = from_ovf(parse_ovf(document(inside))).keys
    with pytest.raises(InvalidKey, match="several keys"):
        parse_key(found.data)


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_surrogates_that_do_not_belong_together_are_refused(codec: str, mark: str) -> None:
    whole = (mark + document("<HostName>ab</HostName>").decode()).encode(codec)
    assert parse_ovf(whole).hostname == "ab"
    torn = whole.replace("ab".encode(codec), "\ud800b".encode(codec, "surrogatepass"))
    with pytest.raises(OvfInvalid, match="UTF-16 is damaged"):
        parse_ovf(torn)


@pytest.mark.parametrize("tag", ["PreprovisionedVMType", "PreprovisionedVmType"])
@pytest.mark.parametrize(("text", "expected"), [("Running", "Running"), ("None", None), ("none", None), ("", None)])
def test_the_preprovisioning_type_in_both_spellings(tag: str, text: str, expected: str | None) -> None:
    assert parse_ovf(document(platform=f"<{tag}>{text}</{tag}>")).pps_type == expected


def test_a_redacted_password_is_none() -> None:
    assert parse_ovf(document("<UserPassword>REDACTED</UserPassword>")).password is None


def test_a_long_password_is_kept() -> None:
    ovf = parse_ovf(document(f"<UserPassword>{'x' * 300}</UserPassword>"))
    assert ovf.password == Secret("x" * 300)


@pytest.mark.parametrize("text", ["!!!!", "QUJD=", "QUI", "QU=I", "====", "QUJDÄ", "Q", "QQ=====", "QUJ\u200bD"])
def test_custom_data_that_is_not_base64_is_taken_as_it_is(text: str) -> None:
    ovf = parse_ovf(document(f"<CustomData>{text}</CustomData>"))
    assert (ovf.custom_data_text, ovf.custom_data) == (Secret(text), None)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
def test_custom_data_comes_back_as_it_was(data: bytes) -> None:
    text = b64encode(data).decode()
    folded = "\n".join(text[at : at + 10] for at in range(0, len(text), 10))
    ovf = parse_ovf(document(f"<CustomData>{folded}</CustomData>"))
    assert ovf.custom_data_text == (Secret(folded) if data else None)
    assert ovf.custom_data == (Secret(data) if data else None)


@pytest.mark.parametrize("tag", ["HostName", "UserName", "UserPassword", "CustomData", "SSH"])
def test_a_doubled_element_is_invalid_and_named(tag: str) -> None:
    with pytest.raises(OvfInvalid, match=f"more than one {tag}"):
        parse_ovf(document(f"<{tag}></{tag}><{tag}/>"))


@pytest.mark.parametrize("tag", ["ProvisioningSection", "PlatformSettingsSection"])
def test_a_doubled_section_is_invalid_and_named(tag: str) -> None:
    with pytest.raises(OvfInvalid, match=f"more than one {tag}"):
        parse_ovf(document().replace(b"</Environment>", f"<{tag}/></Environment>".encode()))


def test_both_spellings_at_once_are_a_doubled_element() -> None:
    twice = "<PreprovisionedVMType>a</PreprovisionedVMType><PreprovisionedVmType>b</PreprovisionedVmType>"
    with pytest.raises(OvfInvalid, match="more than one PreprovisionedVMType"):
        parse_ovf(document(platform=twice))


def test_a_doubled_part_of_one_key_is_invalid() -> None:
    key = "<PublicKey><Value>a</Value><Value>b</Value></PublicKey>"
    with pytest.raises(OvfInvalid, match="more than one Value"):
        parse_ovf(document(f"<SSH><PublicKeys>{key}</PublicKeys></SSH>"))


def test_a_document_of_another_kind_is_told_as_not_azures() -> None:
    with pytest.raises(OvfInvalid, match=r"no ProvisioningSection.*not Azure's"):
        parse_ovf(f'<Environment xmlns="{OVF}"><PropertySection/></Environment>'.encode())


def test_a_document_for_windows_is_told_as_not_ours() -> None:
    with pytest.raises(OvfInvalid, match="no LinuxProvisioningConfigurationSet"):
        parse_ovf(b"<Environment><ProvisioningSection/></Environment>")


def test_a_doctype_bomb_is_refused() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    with pytest.raises(OvfInvalid, match="DOCTYPE"):
        parse_ovf(bomb.encode() + document("<HostName>&b;</HostName>"))


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"hello", b"<a>", b"<a></b>", b"<a/><b/>", b"&x;", b"\xff\xfe", b"<html>"]
)
def test_what_is_not_xml_is_invalid(data: bytes) -> None:
    with pytest.raises(OvfInvalid, match="not XML"):
        parse_ovf(data)


def test_a_document_above_the_limit_is_invalid() -> None:
    data = document("<HostName>h</HostName>")
    assert parse_ovf(data, limit=len(data)).hostname == "h"
    with pytest.raises(OvfInvalid, match="more than"):
        parse_ovf(data, limit=len(data) - 1)
    with pytest.raises(OvfInvalid, match="more than"):
        parse_ovf(b"x" * ((1 << 20) + 1))


def test_a_document_too_deep_is_invalid() -> None:
    with pytest.raises(OvfInvalid, match="nested"):
        parse_ovf(document("<a>" * 70 + "</a>" * 70))


def test_many_elements_under_long_names_do_not_take_long() -> None:
    name = "n" * 8000
    data = document(f"<{name}>" * 20 + "<a/>" * 100000 + f"</{name}>" * 20)
    assert parse_ovf(data).hostname is None


def test_child_elements_do_not_disturb_the_text_around_them() -> None:
    assert parse_ovf(document("<HostName>ho<!-- c --><x>no</x>st</HostName>")).hostname == "host"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(AZURE) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_damaged_document_is_read_or_invalid_and_never_shown(changes: list[tuple[int, int]]) -> None:
    data = bytearray(AZURE.encode())
    for at, value in changes:
        data[at] = value
    try:
        parse_ovf(bytes(data))
    except OvfInvalid as error:
        assert "ord " not in str(error)
        assert "I2Nsb3" not in str(error)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_noise_is_invalid(data: bytes) -> None:
    with pytest.raises(OvfInvalid):
        parse_ovf(data)
