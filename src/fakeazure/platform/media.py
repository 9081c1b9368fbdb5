"""The provisioning medium: ovf-env.xml as Azure writes it, and the disc image that carries it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from xml.sax.saxutils import escape

from fakeazure.platform import iso, udf
from fakeazure.platform.vm import Key, KeyPair, Media, Vm, as_bytes

LABEL = "rd_rdfe_stable.250115-1234"  # cloud-init's ds-identify detects Azure by this form
OVF = "http://schemas.dmtf.org/ovf/environment/1"
AZURE = "http://schemas.microsoft.com/windowsazure"
BOM = b"\xef\xbb\xbf"
XSI = "http://www.w3.org/2001/XMLSchema-instance"


def wants_media(vm: Vm, media: Media) -> bool:
    return not vm.specialised if media.enable is None else media.enable


def image(vm: Vm, media: Media, *, made: datetime | None = None) -> bytes:
    return disc(files(vm, media), form=media.format, made=made or datetime.now(UTC))


def files(vm: Vm, media: Media) -> dict[str, bytes]:
    result = {"ovf-env.xml": ovf_env(vm, media)}
    if vm.custom_data is not None:
        result["CustomData.bin"] = as_bytes(vm.custom_data)
    return result


def disc(contents: Mapping[str, bytes], *, form: str, made: datetime) -> bytes:
    """The image. `form`: udf as in Azure, iso, or bridge, where both file systems share the data."""
    has_iso, has_udf = form in ("iso", "bridge"), form in ("udf", "bridge")
    sector = udf.data_start(list(contents)) if has_udf else iso.TABLES_END
    layout: dict[int, bytes] = {}
    extents: dict[str, tuple[int, int]] = {}
    for name, data in contents.items():
        extents[name] = (sector if data else 0, len(data))
        layout[sector] = data
        sector += udf.sectors(len(data))
    if has_udf:
        layout |= udf.structures(extents, label=LABEL, made=made, end=sector)
        layout |= udf.recognition(19 if has_iso else 16)
        sector += 1  # the last anchor
    if has_iso:
        layout |= iso.structures(extents, label=LABEL, made=made, end=sector)
    whole = bytearray(sector * udf.SECTOR)
    for start, data in layout.items():
        whole[start * udf.SECTOR : start * udf.SECTOR + len(data)] = data
    return bytes(whole)


def ovf_env(vm: Vm, media: Media) -> bytes:
    if media.ovf is not None:
        return as_bytes(media.ovf)
    # CRLF line ends, as Azure's hosts write.
    text = document(vm, media).replace("\n", "\r\n")
    whole = ('<?xml version="1.0" encoding="utf-8"?>\r\n' + text).encode("utf-8", "surrogateescape")
    return BOM + whole if media.bom else whole


def reprovisioned(vm: Vm, media: Media) -> bytes:
    """The customer's document. Deviations of the medium do not apply to it: the medium is of the VM in the pool."""
    return ovf_env(replace(vm, pps_type="None"), Media(prefixes=media.prefixes, bom=media.bom))


def document(vm: Vm, media: Media) -> str:
    """ovf-env.xml with one of three styles of namespace prefixes; Azure uses `wa`."""
    match media.prefixes:
        case "wa":  # prefixed sections with a default namespace inside
            top, outer, inner = "", "wa:", ""
            on_top, on_section, on_set = f'xmlns="{OVF}"', f' xmlns:wa="{AZURE}"', f' xmlns="{AZURE}"'
        case "default":
            top, outer, inner = "", "", ""
            on_top, on_section, on_set = f'xmlns="{OVF}"', f' xmlns="{AZURE}"', ""
        case _:
            top, outer, inner = "ns0:", "ns1:", "ns1:"
            on_top, on_section, on_set = f'xmlns:ns0="{OVF}" xmlns:ns1="{AZURE}"', "", ""

    def section(name: str, body_name: str, body: str) -> str:
        if name in media.omit:
            return ""
        return (
            f"<{outer}{name}{on_section}><{outer}Version>1.0</{outer}Version>"
            f"<{inner}{body_name}{on_set}>{body}</{inner}{body_name}></{outer}{name}>\n"
        )

    own = "" if media.vm_id is None else f' xmlns:oe="{OVF}" oe:id="{media.vm_id}"'
    return (
        f'<{top}Environment {on_top} xmlns:i="{XSI}"{own}>\n'
        + section("ProvisioningSection", "LinuxProvisioningConfigurationSet", configuration(vm, media, inner))
        + section("PlatformSettingsSection", "PlatformSettings", platform_settings(vm, media, inner))
        + f"</{top}Environment>\n"
    )


def configuration(vm: Vm, media: Media, prefix: str) -> str:
    def public_key(key: Key) -> str:
        digest = hashlib.sha1(as_bytes(key.data), usedforsecurity=False).hexdigest().upper()
        parts = {"Fingerprint": key.fingerprint or digest, "Path": escape(key.path)}
        parts |= {"Value": escape(key.data)} if key.data else {}
        return elements({"PublicKey": elements(parts, media, prefix)}, media, prefix)

    def key_pair(pair: KeyPair) -> str:
        parts = {"Fingerprint": escape(pair.fingerprint), "Path": escape(pair.path)}
        return elements({"KeyPair": elements(parts, media, prefix)}, media, prefix)

    parts = {
        "ConfigurationSetType": "LinuxProvisioningConfiguration",
        "HostName": escape(vm.name if media.hostname is None else media.hostname),
        "UserName": escape(vm.username if media.username is None else media.username),
    }
    if vm.password is not None:
        parts["UserPassword"] = escape(vm.password)
    parts["DisableSshPasswordAuthentication"] = flag(vm.password_disabled)
    ssh = {}
    if media.keys and vm.keys:
        ssh["PublicKeys"] = "".join(public_key(key) for key in vm.public_keys)
    if vm.key_pairs:
        ssh["KeyPairs"] = "".join(map(key_pair, vm.key_pairs))
    if ssh:
        parts["SSH"] = elements(ssh, media, prefix)
    if vm.custom_data is not None:
        parts["CustomData"] = base64.b64encode(as_bytes(vm.custom_data)).decode()
    return elements(parts, media, prefix)


def platform_settings(vm: Vm, media: Media, prefix: str) -> str:
    settings = {
        "KmsServerHostname": "kms.core.windows.net",
        "ProvisionGuestAgent": "true",
        "RetainWindowsPEPassInUnattend": "true",
        "RetainOfflineServicingPassInUnattend": "true",
        "PreprovisionedVm": flag(vm.pps_type in Vm.POOLED),
        "PreprovisionedVMType": escape(vm.pps_type) or "None",
        "ProvisionGuestProxyAgent": flag(vm.proxy_agent),
    }
    return f'<{prefix}GuestAgentPackageName i:nil="true"/>' + elements(settings, media, prefix)


def elements(contents: Mapping[str, str], media: Media, prefix: str) -> str:
    """The elements, with texts replaced or left out as the scenario says."""
    return "".join(
        f"<{prefix}{name}>{escape(media.texts[name]) if name in media.texts else content}</{prefix}{name}>"
        for name, content in contents.items()
        if name not in media.omit
    )


def flag(value: bool) -> str:
    return "true" if value else "false"
