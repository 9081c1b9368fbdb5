"""ovf-env.xml, the document of the provisioning media. Names are matched by namespace URI, not by prefix."""

from __future__ import annotations

from azureinit.errors import OvfInvalid
from azureinit.record import Record, Secret
from azureinit.sources.expat import MOST_BYTES as MOST_BYTES, MOST_NAME, walk
from azureinit.sources.identity import parse_vm_id

NAMESPACES = ("http://schemas.dmtf.org/ovf/environment/1", "http://schemas.microsoft.com/windowsazure")
NIL = "http://www.w3.org/2001/XMLSchema-instance nil"
BLANKS = " \t\r\n"
REDACTED = "REDACTED"  # what agents write into saved copies; never a real password

LINUX = "ProvisioningSection/LinuxProvisioningConfigurationSet"
KEYS = LINUX + "/SSH/PublicKeys"
KEY = KEYS + "/PublicKey"
PAIRS = LINUX + "/SSH/KeyPairs"
PAIR = PAIRS + "/KeyPair"
PLATFORM = "PlatformSettingsSection/PlatformSettings"
ALIASES = {PLATFORM + "/PreprovisionedVmType": PLATFORM + "/PreprovisionedVMType"}
KEY_PARTS = (KEY + "/Fingerprint", KEY + "/Path", KEY + "/Value", PAIR + "/Fingerprint", PAIR + "/Path")
BRANCHES = frozenset(
    (LINUX.partition("/")[0], LINUX, LINUX + "/SSH", KEYS, PAIRS, PLATFORM.partition("/")[0], PLATFORM)
)
LINUX_LEAVES = ("HostName", "UserName", "UserPassword", "DisableSshPasswordAuthentication", "CustomData")
PLATFORM_LEAVES = ("PreprovisionedVm", "PreprovisionedVMType", "ProvisionGuestProxyAgent", "ProvisionGuestAgent")
LEAVES = {
    **{f"{LINUX}/{name}": name for name in LINUX_LEAVES},
    **{f"{PLATFORM}/{name}": name for name in PLATFORM_LEAVES},
    **dict.fromkeys(ALIASES, "PreprovisionedVMType"),
    **{path: path.rpartition("/")[2] for path in KEY_PARTS},
}


class OvfKey(Record):
    fingerprint: str | None
    path: str | None
    value: str | None


class Ovf(Record):
    hostname: str | None
    username: str | None
    password: Secret | None
    disable_password: bool | None
    keys: tuple[OvfKey, ...]
    pairs: tuple[OvfKey, ...] = ()
    custom_data_text: Secret | None  # as received: normally base64
    preprovisioned: bool
    pps_type: str | None
    proxy_agent: bool
    provision_guest_agent: bool | None
    warnings: tuple[str, ...] = ()
    vm_id: str | None = None

    @property
    def custom_data(self) -> Secret | None:
        """Decoded; None if absent or not base64."""
        from azureinit.sources.metadata import decoded

        return None if self.custom_data_text is None else decoded(self.custom_data_text)


class Document:
    """Collects the text of known elements. Subtrees of other namespaces are skipped."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.keys: list[dict[str, str]] = []
        self.pairs: list[dict[str, str]] = []
        self.seen: set[str] = set()
        self.id = ""  # of the environment, which the OVF standard allows and Azure's own media do not have
        self._path: list[str] = []
        self._texts: list[list[str] | None] = []  # for every open element; None if its text is not needed

    def start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        known = not namespace or namespace in NAMESPACES
        self._path.append(local[:MOST_NAME] if known else "?")
        if len(self._path) == 1:
            self.id = attributes.get(f"{NAMESPACES[0]} id", attributes.get("id", ""))
        path = "/".join(self._path[1:])
        wanted = path in LEAVES and attributes.get(NIL, "").strip(BLANKS) not in ("true", "1")
        self._texts.append([] if wanted else None)
        if path in (KEY, PAIR):
            (self.keys if path == KEY else self.pairs).append({})
            self.seen.difference_update(KEY_PARTS)
        elif path in BRANCHES or path in LEAVES:
            self._once(ALIASES.get(path, path))

    def _once(self, path: str) -> None:
        if path in self.seen:
            raise OvfInvalid(f"ovf-env.xml has more than one {path.rpartition('/')[2]}")
        self.seen.add(path)

    def data(self, text: str) -> None:
        texts = self._texts[-1]
        if texts is not None:
            texts.append(text)

    def end(self, _name: str) -> None:
        path, texts = "/".join(self._path[1:]), self._texts.pop()
        if texts is not None:
            into = self.texts
            if path in KEY_PARTS:
                into = (self.keys if path.startswith(KEYS) else self.pairs)[-1]
            into[LEAVES[path]] = "".join(texts)
        self._path.pop()


def parse_ovf(data: bytes, *, limit: int = MOST_BYTES) -> Ovf:
    document = parse_xml(data, limit=limit)
    for section in LINUX.split("/")[0], LINUX:
        if section not in document.seen:
            raise OvfInvalid(f"ovf-env.xml has no {section.rpartition('/')[2]}: it is not Azure's for Linux")
    texts = document.texts
    pps_type = trimmed(texts, "PreprovisionedVMType")
    warnings: list[str] = []
    return Ovf(
        hostname=trimmed(texts, "HostName"),
        username=trimmed(texts, "UserName"),
        password=password(texts),
        disable_password=boolean(texts, "DisableSshPasswordAuthentication"),
        keys=tuple(key for key in map(public_key, document.keys) if key.fingerprint or key.path or key.value),
        pairs=tuple(pair for pair in map(key_pair, document.pairs) if pair.fingerprint),
        custom_data_text=custom_data(texts),
        preprovisioned=boolean(texts, "PreprovisionedVm") or False,
        pps_type=None if pps_type is None or pps_type.lower() == "none" else pps_type,
        proxy_agent=boolean(texts, "ProvisionGuestProxyAgent") or False,
        provision_guest_agent=lenient_boolean(texts, "ProvisionGuestAgent", warnings),
        warnings=tuple(warnings),
        vm_id=parse_vm_id(document.id, swapped=False),
    )


def parse_xml(data: bytes, *, limit: int) -> Document:
    document = Document()
    walk(data, document, name="ovf-env.xml", invalid=OvfInvalid, limit=limit)
    return document


def trimmed(texts: dict[str, str], name: str) -> str | None:
    return texts.get(name, "").strip(BLANKS) or None


def boolean(texts: dict[str, str], name: str) -> bool | None:
    text = (trimmed(texts, name) or "").lower()
    if text not in ("", "true", "1", "false", "0"):
        raise OvfInvalid(f"{name} in ovf-env.xml is neither true nor false")
    return text in ("true", "1") if text else None


def lenient_boolean(texts: dict[str, str], name: str, warnings: list[str]) -> bool | None:
    """For a setting of another agent: an invalid value counts as absent, with a warning."""
    try:
        return boolean(texts, name)
    except OvfInvalid as error:
        warnings.append(f"{error.message}: taken as absent")
        return None


def password(texts: dict[str, str]) -> Secret | None:
    """Not trimmed, since every character counts; blanks alone count as empty."""
    text = texts.get("UserPassword", "")
    return Secret(text) if text.strip(BLANKS) not in ("", REDACTED) else None


def custom_data(texts: dict[str, str]) -> Secret | None:
    text = texts.get("CustomData", "")
    return Secret(text) if text.strip(BLANKS) else None


def public_key(texts: dict[str, str]) -> OvfKey:
    value = trimmed(texts, "Value")
    if value is not None:  # XML parsers turn CR LF, with which keys are wrapped, into LF
        value = value.replace("\r\n", "\n").replace("\n", "\r\n")
    return OvfKey(fingerprint=trimmed(texts, "Fingerprint"), path=trimmed(texts, "Path"), value=value)


def key_pair(texts: dict[str, str]) -> OvfKey:
    pair = public_key(texts)
    if pair.path and not pair.fingerprint:
        raise OvfInvalid("a KeyPair in ovf-env.xml has a Path and no Fingerprint: the key is unknown")
    return pair
