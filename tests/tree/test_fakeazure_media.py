"""The provisioning media: read back by an independent reader, and checked by file system tools."""

from __future__ import annotations

import struct
import subprocess
import xml.etree.ElementTree as ElementTree
from base64 import b64decode
from binascii import crc_hqx
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from fakeazure import Fabric, Key, Media, Vm
from fakeazure.platform.media import LABEL, disc, image, ovf_env
from support.need import need

SECTOR = 2048
MADE = datetime(2025, 1, 15, 12, 34, 56, tzinfo=UTC)
WA = "{http://schemas.microsoft.com/windowsazure}"
OVF = "{http://schemas.dmtf.org/ovf/environment/1}"


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Udf:
    """A strict reader: it checks the tag, checksum and CRC of every descriptor."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        last = len(data) // SECTOR - 1
        assert self.tagged(last, 2)[16:32] == self.tagged(256, 2)[16:32]
        length, start = struct.unpack_from("<II", self.tagged(256, 2), 16)
        self.sequence: dict[int, bytes] = {}
        for sector in range(start, start + length // SECTOR):
            tag = struct.unpack_from("<H", data, sector * SECTOR)[0]
            self.sequence[tag] = self.tagged(sector, tag)
            if tag == 8:
                break
        partition = self.sequence[5]
        self.access, self.start, self.length = struct.unpack_from("<III", partition, 184)
        volume = self.sequence[6]
        _, file_set_block, reference = struct.unpack_from("<IIH", volume, 248)
        assert reference == 0
        self.file_set = self.block(file_set_block, 256)
        self.integrity = self.tagged(struct.unpack_from("<II", volume, 432)[1], 9)

    def tagged(self, sector: int, tag: int, *, relative_to: int = 0) -> bytes:
        return self.check(self.data[sector * SECTOR : (sector + 1) * SECTOR], tag, sector - relative_to)

    def check(self, data: bytes, tag: int, location: int) -> bytes:
        found, version, checksum, _, _, crc, crc_length, place = struct.unpack_from("<HHBBHHHI", data)
        assert (found, place) == (tag, location)
        assert version in (2, 3)
        assert checksum == (sum(data[:16]) - checksum) & 0xFF
        assert crc == crc_hqx(data[16 : 16 + crc_length], 0)
        return data

    def block(self, number: int, tag: int) -> bytes:
        return self.tagged(self.start + number, tag, relative_to=self.start)

    def content(self, entry: bytes) -> bytes:
        (size,) = struct.unpack_from("<Q", entry, 56)
        attributes, descriptors = struct.unpack_from("<II", entry, 168)
        (flags,) = struct.unpack_from("<H", entry, 34)
        area = entry[176 + attributes : 176 + attributes + descriptors]
        if flags & 7 == 3:
            return area[:size]
        assert flags & 7 == 0
        result = b""
        for offset in range(0, len(area), 8):
            length, block = struct.unpack_from("<II", area, offset)
            result += self.data[(self.start + block) * SECTOR :][:length]
        assert len(result) == size
        return result

    def files(self) -> dict[str, bytes]:
        (root,) = struct.unpack_from("<I", self.file_set, 404)
        entry = self.block(root, 261)
        assert entry[27] == 4
        listing, offset, result = self.content(entry), 0, {}
        first_block = struct.unpack_from("<I", entry, 180 + struct.unpack_from("<I", entry, 168)[0])[0]
        while offset < len(listing):
            flags, name_length = listing[offset + 18 : offset + 20]
            use = struct.unpack_from("<H", listing, offset + 36)[0]
            end = offset + 38 + use + name_length
            end += -(end - offset) % 4
            in_icb = struct.unpack_from("<H", entry, 34)[0] & 7 == 3
            self.check(listing[offset:end], 257, root if in_icb else first_block + offset // SECTOR)
            name = listing[offset + 38 + use : offset + 38 + use + name_length]
            (block,) = struct.unpack_from("<I", listing, offset + 24)
            if flags & 0x08:
                assert block == root
            elif not flags & 0x02:
                text = name[1:].decode("latin-1" if name[0] == 8 else "utf-16-be")
                result[text] = self.content(self.block(block, 261))
            offset = end
        return result


def test_the_default_image_is_udf_alone_as_azures_is() -> None:
    data = image(Vm(), Media(), made=MADE)
    names = [data[n * SECTOR + 1 : n * SECTOR + 6] for n in (16, 17, 18)]
    assert names == [b"BEA01", b"NSR02", b"TEA01"]
    assert b"CD001" not in data


@pytest.mark.parametrize("form", ["udf", "bridge"])
def test_a_udf_image_reads_back_to_the_last_byte(form: str) -> None:
    vm = Vm(custom_data=b"\x00\xff" * 5000)
    files = Udf(image(vm, Media(format=form))).files()
    assert files == {"ovf-env.xml": ovf_env(vm, Media()), "CustomData.bin": b"\x00\xff" * 5000}


def test_the_udf_volume_is_closed_read_only_and_says_what_it_holds() -> None:
    udf = Udf(disc({"a": b"1", "b": b"2"}, form="udf", made=MADE))
    assert udf.access == 1
    assert struct.unpack_from("<I", udf.integrity, 28)[0] == 1
    assert struct.unpack_from("<II", udf.integrity, 88 + 32) == (2, 1)
    assert udf.length == len(udf.data) // SECTOR - 257 - 1


def test_the_reserve_sequence_is_as_good_as_the_main_one() -> None:
    udf = Udf(image(Vm(), Media()))
    for n, tag in enumerate((1, 4, 5, 6, 7, 8)):
        assert udf.tagged(48 + n, tag)[16:] == udf.tagged(32 + n, tag)[16:]


def test_the_tests_reader_also_accepts_the_reference_writers_image(tmp_path: Path) -> None:
    tool, file = need("mkudffs"), tmp_path / "reference"
    file.write_bytes(b"\0" * 2**20)
    subprocess.run([tool, "--blocksize=2048", "--udfrev=1.02", file], check=True, capture_output=True)
    assert Udf(file.read_bytes()).files() == {}


@given(contents=st.dictionaries(st.sampled_from(["a", "ovf-env.xml", "CustomData.bin", "schlüssel", "ключ"]),
                                st.binary(max_size=5000), max_size=5))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_any_files_survive_udf(contents: dict[str, bytes]) -> None:
    assert Udf(disc(contents, form="udf", made=MADE)).files() == contents


def test_more_files_than_one_sector_lists_survive_udf() -> None:
    contents = {f"a-rather-long-file-name-{n:04}": str(n).encode() for n in range(100)}
    assert Udf(disc(contents, form="udf", made=MADE)).files() == contents


@pytest.mark.parametrize("form", ["udf", "bridge"])
def test_udfinfo_finds_nothing_wrong(form: str, tmp_path: Path) -> None:
    file = tmp_path / "image"
    file.write_bytes(image(Vm(custom_data="x"), Media(format=form)))
    done = subprocess.run([need("udfinfo"), file], check=True, capture_output=True, text=True)
    assert done.stderr == ""
    told = dict(line.split("=", 1) for line in done.stdout.splitlines() if "," not in line)
    assert (told["label"], told["udfrev"], told["numfiles"], told["numdirs"]) == (LABEL, "1.02", "2", "1")
    assert (told["integrity"], told["accesstype"], told["blocksize"]) == ("closed", "readonly", "2048")
    assert done.stdout.count("type=ANCHOR") == 2


@pytest.mark.parametrize(("form", "kind"), [("udf", "udf"), ("bridge", "udf"), ("iso", "iso9660")])
def test_blkid_names_the_format(form: str, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "image"
    file.write_bytes(image(Vm(), Media(format=form)))
    assert output(need("blkid"), "-p", "-o", "value", "-s", "TYPE", str(file)).strip() == kind
    assert output(need("blkid"), "-p", "-o", "value", "-s", "LABEL", str(file)).strip() == LABEL


@pytest.mark.parametrize("form", ["iso", "bridge"])
def test_isoinfo_lists_and_extracts_the_files(form: str, tmp_path: Path) -> None:
    vm, tool, file = Vm(custom_data=b"\x01" * 3000), need("isoinfo"), tmp_path / "image"
    file.write_bytes(image(vm, Media(format=form)))
    assert output(tool, "-J", "-f", "-i", str(file)).split() == ["/CustomData.bin", "/ovf-env.xml"]
    assert output(tool, "-R", "-f", "-i", str(file)).split() == ["/CustomData.bin", "/ovf-env.xml"]
    assert output(tool, "-f", "-i", str(file)).split() == ["/CUSTOMDA.BIN;1", "/OVF_ENV.XML;1"]
    listed = output(tool, "-R", "-l", "-i", str(file))
    assert "-r--r--r--   1    0    0            3000 " in listed and "dr-xr-xr-x   2" in listed
    assert "Rock Ridge signatures version 1 found" in output(tool, "-d", "-i", str(file))
    for name in ("-J -x /ovf-env.xml", "-R -x /ovf-env.xml", "-x /OVF_ENV.XML;1"):
        found = subprocess.run([tool, *name.split(), "-i", file], check=True, capture_output=True).stdout
        assert found == ovf_env(vm, Media())


def test_file_calls_the_iso_an_iso(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(image(Vm(), Media(format="iso")))
    assert f"ISO 9660 CD-ROM filesystem data '{LABEL}'" in output(need("file"), str(tmp_path / "image"))


@pytest.mark.parametrize("prefixes", Media.PREFIXES)
def test_the_document_is_the_same_whatever_the_prefixes(prefixes: str) -> None:
    vm = Vm(password="a<b&c", keys=(Key("ssh-rsa AAAA <me>", "/x/keys"),), custom_data="hi", proxy_agent=True)
    root = ElementTree.fromstring(ovf_env(vm, Media(prefixes=prefixes, hostname="elsewhere")))
    assert root.tag == f"{OVF}Environment"
    config = root.find(f"{WA}ProvisioningSection/{WA}LinuxProvisioningConfigurationSet")
    settings_ = root.find(f"{WA}PlatformSettingsSection/{WA}PlatformSettings")
    assert config is not None and settings_ is not None
    assert config.findtext(f"{WA}HostName") == "elsewhere"
    assert config.findtext(f"{WA}UserName") == "azureuser"
    assert config.findtext(f"{WA}UserPassword") == "a<b&c"
    assert config.findtext(f"{WA}DisableSshPasswordAuthentication") == "false"
    assert config.findtext(f"{WA}SSH/{WA}PublicKeys/{WA}PublicKey/{WA}Value") == "ssh-rsa AAAA <me>"
    assert config.findtext(f"{WA}SSH/{WA}PublicKeys/{WA}PublicKey/{WA}Path") == "/x/keys"
    assert b64decode(config.findtext(f"{WA}CustomData") or "") == b"hi"
    assert settings_.findtext(f"{WA}PreprovisionedVm") == "false"
    assert settings_.findtext(f"{WA}ProvisionGuestProxyAgent") == "true"
    assert root.findtext(f"{WA}ProvisioningSection/{WA}Version") == "1.0"


def test_the_three_ways_to_name_namespaces_differ_in_bytes() -> None:
    texts = {prefixes: ovf_env(Vm(id="0"), Media(prefixes=prefixes)) for prefixes in Media.PREFIXES}
    assert b"<wa:ProvisioningSection" in texts["wa"] and b"<LinuxProvisioningConfigurationSet" in texts["wa"]
    assert b"<ProvisioningSection" in texts["default"] and b"<ns1:UserName>" in texts["ns1"]


def test_a_literal_document_goes_onto_the_medium_unchanged() -> None:
    assert Udf(image(Vm(), Media(ovf="<!DOCTYPE bomb>"))).files() == {"ovf-env.xml": b"<!DOCTYPE bomb>"}


def test_a_specialised_machine_has_no_medium(tmp_path: Path) -> None:
    with Fabric(vm=Vm(specialised=True)) as fabric:
        assert not fabric.write_media(tmp_path / "image").exists()
        assert [event.name for event in fabric.ledger.events] == ["boot"]


def test_elements_can_be_changed_and_left_out() -> None:
    changed = Media(texts={"PreprovisionedVm": "", "UserName": "a<b"}, omit=("ProvisionGuestAgent", "SSH"))
    tree = ElementTree.fromstring(ovf_env(Vm(), changed))
    assert tree.findtext(f".//{WA}PreprovisionedVm") == "" and tree.findtext(f".//{WA}UserName") == "a<b"
    assert tree.find(f".//{WA}ProvisionGuestAgent") is None and tree.find(f".//{WA}SSH") is None
    assert tree.findtext(f".//{WA}HostName") == "fake-vm"


def test_a_whole_section_can_be_left_out_and_a_mark_put_before() -> None:
    document = ovf_env(Vm(), Media(omit=("PlatformSettingsSection",), bom=True))
    assert document.startswith(b"\xef\xbb\xbf<?xml")
    tree = ElementTree.fromstring(document)
    assert tree.find(f"{WA}PlatformSettingsSection") is None and tree.find(f"{WA}ProvisioningSection") is not None


def test_a_key_without_data_is_named_by_the_machine_s_certificate_alone() -> None:
    need("openssl")
    with Fabric(vm=Vm(keys=(Key("ssh-rsa A"), Key("")))) as fabric:
        spelt, named = ElementTree.fromstring(ovf_env(fabric.vm, fabric.media)).iter(f"{WA}PublicKey")
        own = fabric.vm.public_keys[1].fingerprint
        assert spelt.findtext(f"{WA}Value") == "ssh-rsa A"
        assert named.findtext(f"{WA}Fingerprint") == own and len(bytes.fromhex(own)) == 20
        assert named.find(f"{WA}Value") is None
        assert named.findtext(f"{WA}Path") == "/home/azureuser/.ssh/authorized_keys"
        assert own != spelt.findtext(f"{WA}Fingerprint")
