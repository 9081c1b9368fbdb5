"""Mutated documents of the platform: parsers return a value or the declared error, in bounded time and memory."""
# ruff: noqa: E501 - documents are kept as they are written

from __future__ import annotations

import json
import struct
import subprocess
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from azureinit.addresses import has_host_route, has_route_to, parse_ipv4
from azureinit.errors import (
    CertificatesMissing,
    GoalStateInvalid,
    ImdsInvalid,
    InvalidKey,
    MediaUnreadable,
    OvfInvalid,
)
from azureinit.facts.dhcp_client import platform_link
from azureinit.facts.leases import parse_leases
from azureinit.http import _Broken, _response, _Stream
from azureinit.jsontext import dumps, loads
from azureinit.machine.dhcp import parse_classless_routes, parse_offer, parse_options, parse_reply
from azureinit.machine.netlink import parse_addresses, parse_links, parse_routes
from azureinit.machine.packets import CLIENT, SERVER, parse_udp, udp_packet
from azureinit.pubkey import parse_key
from azureinit.record import Secret, replace
from azureinit.sources.certificates import parse_certificate_file
from azureinit.sources.der import certificate_key, openssh_key
from azureinit.sources.envelope import body_of, decoded, pem_blocks
from azureinit.sources.goalstate import parse_goal_state, parse_versions
from azureinit.sources.identity import parse_vm_id
from azureinit.sources.imds import parse_imds
from azureinit.sources.iso9660 import is_iso9660, read_iso_file
from azureinit.sources.merge import from_imds, from_ovf, merge
from azureinit.sources.metadata import decoded as decoded_custom_data
from azureinit.sources.ovf import Ovf, parse_ovf
from azureinit.sources.redact import redact
from azureinit.sources.udf import is_udf, read_udf_file
from fakeazure.platform.media import disc
from support.bounds import SEED, bounded
from support.fuzz import SECRET, Target, run
from support.images import Memory
from support.need import need
from support.ssh_trees import ed25519

FEW, MANY = 1500, 60_000
VM_ID = "550e8400-e29b-41d4-a716-446655440000"


def text(data: bytes) -> str:
    """Any string, half of them with bytes that were no characters."""
    return data.decode("utf-8", "surrogateescape" if len(data) % 2 else "replace")


# ---- what the platform says

OVF = f"""<?xml version="1.0" encoding="utf-8"?>
<ns0:Environment xmlns="http://schemas.dmtf.org/ovf/environment/1" xmlns:ns0="http://schemas.dmtf.org/ovf/environment/1"
 xmlns:ns1="http://schemas.microsoft.com/windowsazure" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
<ns1:ProvisioningSection><ns1:Version>1.0</ns1:Version><ns1:LinuxProvisioningConfigurationSet>
<ns1:HostName>web-1</ns1:HostName><ns1:UserName>azureuser</ns1:UserName><ns1:UserPassword>{SECRET}</ns1:UserPassword>
<ns1:DisableSshPasswordAuthentication>false</ns1:DisableSshPasswordAuthentication><ns1:CustomData>I2Nsb3Vk</ns1:CustomData>
<ns1:SSH><ns1:PublicKeys><ns1:PublicKey><ns1:Fingerprint>AB12</ns1:Fingerprint><ns1:Path>/home/a/.ssh/authorized_keys</ns1:Path>
<ns1:Value>{ed25519()}</ns1:Value></ns1:PublicKey></ns1:PublicKeys><ns1:KeyPairs><ns1:KeyPair><ns1:Fingerprint>CD</ns1:Fingerprint>
<ns1:Path>k</ns1:Path></ns1:KeyPair></ns1:KeyPairs></ns1:SSH></ns1:LinuxProvisioningConfigurationSet></ns1:ProvisioningSection>
<ns1:PlatformSettingsSection><ns1:PlatformSettings><ns1:ProvisionGuestAgent>true</ns1:ProvisionGuestAgent>
<ns1:PreprovisionedVm>false</ns1:PreprovisionedVm><ns1:PreprovisionedVMType i:nil="true"/></ns1:PlatformSettings>
</ns1:PlatformSettingsSection></ns0:Environment>""".encode()
XML_WORDS = tuple(
    b"<?xml version='1.0' encoding='utf-16'?>|<!DOCTYPE a [<!ENTITY b 'c'>]>|<![CDATA[|]]>|<!--|-->|<?p|?>|&#0;|&#x41;|&b;"
    b"|</|/>|<a>|</a>| a='1'| xmlns='u'| xmlns:x='u'|<x:a|<Environment>|<ProvisioningSection>|</UserPassword>|<UserPassword>"
    b"|<LinuxProvisioningConfigurationSet>|<HostName>|true|false|<PublicKey><Value>|</Value></PublicKey>".split(b"|")
)


def try_ovf(data: bytes) -> None:
    ovf = parse_ovf(data)
    metadata = merge({"media": from_ovf(ovf)})
    assert not metadata.has_password or metadata.disable_password is not None
    without = parse_ovf(redact(data))
    assert without.password is None
    same = replace(ovf, password=None)
    if ovf.password is None or SECRET in ovf.password.reveal().decode("utf-8", "replace"):
        assert facts(same) == facts(without), "taking the password out changed something else"


def facts(ovf: Ovf) -> tuple[object, ...]:
    return (ovf.hostname, ovf.username, ovf.disable_password, ovf.keys, ovf.pairs, ovf.preprovisioned, ovf.pps_type)


IMDS = json.dumps(
    {
        "compute": {
            "vmId": VM_ID,
            "name": "web-1",
            "location": "westeurope",
            "osProfile": {
                "adminUsername": "azureuser",
                "computerName": "web-1",
                "disablePasswordAuthentication": "true",
            },
            "publicKeys": [{"keyData": ed25519(), "path": "/home/azureuser/.ssh/authorized_keys"}],
        },
        "extended": {"compute": {"hasCustomData": False, "ppsType": "None"}},
        "network": {"interface": [{"macAddress": "000D3A123456", "ipv4": {"ipAddress": []}}]},
    }
).encode()
JSON_WORDS = tuple(
    b'{|}|[|]|:|,|"a"|"compute"|"osProfile"|"publicKeys"|"keyData"|"vmId"|null|true|false|"\\ud800"|"\\u0000"|NaN|-Infinity|1e400'
    b'|"ppsType"|"extended"|"hasCustomData"|""|[[[[[[[[|{"a":{"a":|\\u0041|\\x'.split(b"|")
)


def try_imds(data: bytes) -> None:
    imds = parse_imds(data)
    assert imds.vm_id is None or parse_vm_id(imds.vm_id, swapped=False) == imds.vm_id
    for value in (imds.username, imds.hostname, imds.pps_type, *(key.data for key in imds.keys)):
        assert value is None or value.encode()
    merge({"imds": from_imds(imds), "media": from_ovf(parse_ovf(OVF))})


def try_json(data: bytes) -> None:
    """Where we read a value, the standard library reads the same."""
    try:
        string = data.decode()
    except UnicodeDecodeError:
        return
    try:
        value = loads(string)
    except (ValueError, RecursionError):
        with pytest.raises((ValueError, RecursionError)):
            refuse_constants(string)
        return
    assert repr(value) == repr(json.loads(string))
    if "inf" not in repr(value):  # of 1e400, which cannot be written
        assert repr(loads(dumps(value))) == repr(value)


def refuse_constants(string: str) -> object:
    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(string, parse_constant=refuse)


GOAL_STATE = f"""<?xml version="1.0" encoding="utf-8"?><GoalState xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<Version>2012-11-30</Version><Incarnation>1</Incarnation><Machine><ExpectedState>Started</ExpectedState></Machine>
<Container><ContainerId>{VM_ID}</ContainerId><RoleInstanceList><RoleInstance><InstanceId>_web-1</InstanceId>
<State>Started</State><Configuration><Certificates>http://168.63.129.16:80/machine/x?comp=certificates</Certificates>
</Configuration></RoleInstance></RoleInstanceList></Container></GoalState>""".encode()
VERSIONS = b"<Versions><Preferred><Version>2015-04-05</Version></Preferred><Supported><Version>2012-11-30</Version></Supported></Versions>"
CERTIFICATES = (
    b"<CertificateFile><Version>2010-12-15</Version><Format>Pkcs7BlobWithPfxContents</Format><Data>"
    + b64encode(SECRET.encode() * 9)
    + b"</Data></CertificateFile>"
)


def certificate(*kind: str) -> bytes:
    made = ("req", "-x509", "-nodes", "-subj", "/CN=x", "-newkey", *kind, "-keyout", "/dev/null", "-outform", "DER")
    return subprocess.run([need("openssl"), *made], capture_output=True, check=True).stdout


def try_der(data: bytes) -> None:
    spki = certificate_key(data)
    for one in (data, spki):
        key = openssh_key(one) if one is not None else None
        if key is not None:
            try:
                assert parse_key(key) == key + "\n"
            except InvalidKey:
                pass


PEM = b"-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\nBag Attributes\n-----BEGIN PRIVATE KEY-----\n" + (
    b64encode(SECRET.encode()) + b"\n-----END PRIVATE KEY-----\n"
)


def try_pem(data: bytes) -> None:
    for label, block in pem_blocks(data):
        assert label and block.startswith(f"-----BEGIN {label}-----")
        decoded(body_of(block))
    decoded_custom_data(Secret(data))


# ---- leases and packets

NETWORKD = b"""# This is private data. Do not parse.
ADDRESS=10.0.0.4\nNETMASK=255.255.255.0\nROUTER=10.0.0.1\nSERVER_ADDRESS=168.63.129.16\nLIFETIME=4294967295
CLASSLESS_ROUTES=0.0.0.0/0,10.0.0.1 168.63.129.16/32,10.0.0.1\nOPTION_245=a83f8110\n"""
DHCLIENT = b"""lease {\n  interface "eth0";\n  fixed-address 10.0.0.4;\n  option dhcp-lease-time 3600;
  option classless-static-routes 0 10.0.0.1,32.168.63.129.16 10.0.0.1;\n  option unknown-245 a8:3f:81:10;
  option rfc3442-classless-static-routes 0,10,0,0,1,32,168,63,129,16,10,0,0,1;\n  option unknown-249 "\\250?\\201\\020";
  expire 4 2162/12/23 11:19:05; # a remark\n}\n"""
MANAGER = b"[dhcp4]\ndhcp4.ip_address=10.0.0.4\ndhcp4.private_245=a8:3f:81:10\ndhcp4.expiry=1700000000\n"
LEASE_WORDS = tuple(
    b'lease {|}|;|option |unknown-245 |unknown-121 |fixed-address |expire |never|epoch 5|"|\\377|\\|#|interface |a8:3f:81:10'
    b"|10.0.0.4|0,10,0,0,1|ADDRESS=|OPTION_245=|CLASSLESS_ROUTES=|0.0.0.0/0,10.0.0.1 |LIFETIME=|infinity|\n".split(b"|")
)
MAC, XID = bytes.fromhex("000d3a123456"), 0x1234
OFFER = (
    b"\2\1\6\0" + XID.to_bytes(4, "big") + bytes(8) + bytes((10, 0, 0, 4)) + bytes(8) + MAC + bytes(10 + 192)
    + b"\x63\x82\x53\x63\x35\1\2\x36\4\xa8\x3f\x81\x10\x33\4\0\0\x0e\x10\x34\1\3\xf5\4\xa8\x3f\x81\x10\x79\x05\0\x0a\0\0\1"
    + b"\xf9\x05\0\x0a\0\0\2\xff"
)  # fmt: skip


def try_leases(data: bytes) -> None:
    for lease in parse_leases(data, client="c", link="eth0", written=5.0):
        assert parse_ipv4(lease.address)
        assert lease.wireserver == "" or parse_ipv4(lease.wireserver) is not None
        check_routes(lease.routes)


def check_routes(routes: tuple[tuple[str, int, str], ...]) -> None:
    for destination, prefix, gateway in routes:
        assert parse_ipv4(destination) is not None and 0 <= prefix <= 32
        assert gateway == "" or parse_ipv4(gateway)


def try_packet(data: bytes) -> None:
    parse_reply(data)
    offer = parse_offer(data, mac=MAC, transaction=XID)
    if offer is not None:
        check_routes(offer.routes)
    parse_options(data)
    check_routes(parse_classless_routes(data))
    try_leases(data)
    parse_udp(data, port=CLIENT)
    assert parse_udp(udp_packet(data[:60000], source=SERVER, destination=CLIENT), port=CLIENT) == data[:60000]


def try_netlink(data: bytes) -> None:
    parse_links(data)
    parse_addresses(data)
    parse_routes(data)


NETLINK = b"".join(
    struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + body
    for kind, body in (
        (
            16,
            struct.pack("=BxHiII", 0, 1, 2, 0x1043, 0) + b"\x09\0\3\0eth0\0\0\0\0\x0a\0\1\0\0\x0d\x3a\x12\x34\x56\0\0",
        ),
        (20, struct.pack("=BBBBi", 2, 24, 128, 0, 2) + b"\x08\0\1\0\x0a\0\0\4"),
        (24, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 16, 0, 1, 0) + b"\x08\0\5\0\x0a\0\0\1\x08\0\4\0\2\0\0\0"),
    )
)
ROUTE_TABLE = b"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neth0\t00000000\t0100000A\t0003\t0\t0\t5\t00000000\n"


def try_route_table(data: bytes) -> None:
    platform_link(data)
    table = text(data)
    for address in (parse_ipv4("168.63.129.16"), parse_ipv4(table[:20])):
        if address is not None:
            has_route_to(data, address)
            has_host_route(data, address)


# ---- HTTP


class Wire:
    """A connection that gives what it has in pieces, and then ends."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def settimeout(self, _seconds: float) -> None:
        pass

    def recv(self, length: int) -> bytes:
        length = min(length, 1 + len(self.data) // 3)
        piece, self.data = self.data[:length], self.data[length:]
        return piece


def try_http(data: bytes) -> None:
    limit = 4096
    connection: Any = Wire(data)
    response = _response(_Stream(connection, lambda: 1.0, limit))
    assert 200 <= response.status <= 999
    assert len(response.body) <= limit
    assert all("\r\n" not in name + value for name, value in response.headers.items())


HTTP = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nRetry-After: 3\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 503 Busy\r\nConnection: close\r\n\r\nno",
    b"HTTP/1.1 204 No Content\r\n\r\n",
)
HTTP_WORDS = (b"\r\n", b"\r\n\r\n", b"HTTP/1.1 ", b"200", b" OK", b"Content-Length: ", b"Transfer-Encoding: chunked", b"0\r\n",
              b"ffffffff", b"-5", b"HTTP/2", b"\xb2", b": ", b"1;a\r\nx\r\n")  # fmt: skip

# ---- media

DOCUMENT = b"<Environment/>" * 40
MADE = {
    form: disc({"ovf-env.xml": DOCUMENT}, form=form, made=datetime(2026, 1, 1, tzinfo=UTC)) for form in ("udf", "iso")
}


def structures(image: bytes) -> list[int]:
    return [
        at
        for at in range(0, len(image), 512)
        if any(image[at : at + 512]) and DOCUMENT[:100] not in image[at : at + 512]
    ]


def try_media(form: str) -> Callable[[bytes], None]:
    """The input is a list of changes to the structures of an image: where, and to what."""
    image = MADE[form]
    blocks = structures(image)

    def call(data: bytes) -> None:
        changed = bytearray(image)
        for at in range(0, min(len(data), 400) - 4, 5):
            block, place, kind, value = data[at], data[at + 1] | data[at + 2] << 8, data[at + 3], data[at + 4]
            start = blocks[block % len(blocks)] + place % 512
            width = 1 if kind < 200 else 4
            changed[start : start + width] = bytes((value,)) * min(width, len(changed) - start)
        memory = Memory(changed)
        recognised, read = (is_udf, read_udf_file) if form == "udf" else (is_iso9660, read_iso_file)
        recognised(memory)
        found = read(memory, "ovf-env.xml", limit=1 << 20)
        assert found is None or len(found) <= 1 << 20

    return call


# ---- the table

TARGETS = (
    Target("ovf", try_ovf, (OVF, OVF.decode().encode("utf-16")), errors=(OvfInvalid,), words=XML_WORDS, secret=True),
    Target("redact", redact, (OVF, OVF.decode().encode("utf-16")), errors=(OvfInvalid,), words=XML_WORDS, secret=True),
    Target("imds", try_imds, (IMDS,), JSON_WORDS, (ImdsInvalid,)),
    Target("json", try_json, (IMDS, b'{"done":"password ada","backend":"files","n":[1.5e3,-0]}\n'), JSON_WORDS),
    Target("goal state", lambda d: parse_goal_state(d, endpoint="e"), (GOAL_STATE,), XML_WORDS, (GoalStateInvalid,)),
    Target("versions", parse_versions, (VERSIONS,), XML_WORDS, (GoalStateInvalid,)),
    Target("certificates", parse_certificate_file, (CERTIFICATES,), XML_WORDS, (CertificatesMissing,), secret=True),
    Target("pem", try_pem, (PEM,), (b"-----BEGIN ", b"-----END ", b"-----\n", b"PRIVATE KEY", b"=")),
    Target("leases", try_leases, (NETWORKD, DHCLIENT, MANAGER, OFFER), LEASE_WORDS),
    Target("packets", try_packet, (OFFER, udp_packet(OFFER, source=SERVER, destination=CLIENT))),
    Target("netlink", try_netlink, (NETLINK,)),
    Target("route table", try_route_table, (ROUTE_TABLE,), (b"\t", b"\n", b"eth0", b"10813FA8", b"FFFFFFFF", b"0003")),
    Target("http", try_http, HTTP, HTTP_WORDS, (_Broken, OSError)),
    Target("udf", try_media("udf"), (bytes(5), b"\x20" * 5), errors=(MediaUnreadable,), cost=8),
    Target("iso", try_media("iso"), (bytes(5), b"\x20" * 5), errors=(MediaUnreadable,), cost=8),
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_only_values_and_declared_errors(target: Target) -> None:
    tally = run(target, bounded(FEW, MANY) // target.cost, SEED)
    assert tally.tried > tally.refused, f"{target.name}: nothing was accepted, so little was tried: {tally}"


def test_certificates_of_every_kind() -> None:
    kinds = (("rsa:2048",), ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), ("ed25519",))
    seeds = tuple(certificate(*kind) for kind in kinds)
    assert all(openssh_key(certificate_key(seed) or b"") for seed in seeds)
    run(Target("der", try_der, seeds), bounded(FEW, MANY), SEED)


def test_the_fuzzer_finds_what_is_there_to_be_found() -> None:
    """A parser with an undeclared error, one that tells a secret, one that says too much and one without an end."""

    def leaks(data: bytes) -> None:
        raise OvfInvalid(data.decode("latin-1")[:500])

    def breaks(data: bytes) -> None:
        struct.unpack_from("<I", data, 60)

    seeds = (SECRET.encode() + bytes(60),)
    with pytest.raises(AssertionError, match="tells a secret"):
        run(Target("leaks", leaks, seeds, errors=(OvfInvalid,), secret=True), 500, 1)
    with pytest.raises(struct.error):
        run(Target("breaks", breaks, seeds), 500, 1)
    with pytest.raises(AssertionError, match="an error of"):
        run(Target("long", leaks, seeds, errors=(OvfInvalid,), longest_error=10), 500, 1)
