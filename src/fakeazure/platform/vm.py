"""The virtual machine that was asked for, and how its medium and its metadata are to look."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Interface
from typing import Any

# A real key; nobody has its private half. `fakeazure run` makes a fresh pair instead and keeps both halves.
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINoCsQdIS32POjvm9byMTtRl8q7kOXdIRRV0i0g0OP4O azureuser@fakeazure"


@dataclass(frozen=True, slots=True)
class Key:
    data: str  # empty: only the medium names it, by the machine's own certificate
    path: str = ""  # empty: the user's authorized_keys
    fingerprint: str = ""  # of that certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """Named by a certificate: its private key is to be at `path`, the public half beside it."""

    path: str
    fingerprint: str = ""  # empty: that of the machine's own certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    mac: str = ""  # as 00:0d:3a:12:34:56; empty: one of Azure's, always the same for the same machine
    address: str = ""  # empty: 10.0.0.4, the next one 10.0.0.5 and so on
    prefix: int = 24
    public_address: str = ""

    @property
    def subnet(self) -> str:
        return str(IPv4Interface(f"{self.address}/{self.prefix}").network.network_address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A data disk."""

    lun: int
    size_gb: int = 4
    name: str = ""  # empty: after the machine and the LUN
    caching: str = "None"

    CACHING = ("None", "ReadOnly", "ReadWrite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vm:
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    name: str = "fake-vm"
    username: str = "azureuser"
    password: str | None = None
    disable_password: bool | None = None  # None: passwords are off unless there is one
    keys: tuple[Key | str, ...] = (PUBLIC_KEY,)
    key_pairs: tuple[KeyPair, ...] = ()  # only the medium names them
    custom_data: str | bytes | None = None
    user_data: str | bytes | None = None
    pps_type: str = "None"
    generation: int = 2
    location: str = "westeurope"
    tags: Mapping[str, str] = field(default_factory=dict)
    specialised: bool = False
    proxy_agent: bool = False
    nics: tuple[Interface, ...] = (Interface(),)  # as they were asked for; `interfaces` says what they became
    disks: tuple[Disk, ...] = ()
    temporary_disk: str = "scsi"
    temporary_disk_gb: int = 16

    TEMPORARY_DISKS = ("scsi", "nvme", "none")

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        return tuple(
            replace(nic, mac=nic.mac or self._azure_mac(n), address=nic.address or f"10.0.0.{n + 4}")
            for n, nic in enumerate(self.nics)
        )

    def _azure_mac(self, n: int) -> str:
        return "00:0d:3a:" + hashlib.sha256(f"{self.id}/{n}".encode()).digest()[:3].hex(":")

    @property
    def password_disabled(self) -> bool:
        return self.password is None if self.disable_password is None else self.disable_password

    @property
    def public_keys(self) -> tuple[Key, ...]:
        keys = (Key(key) if isinstance(key, str) else key for key in self.keys)
        usual = f"/home/{self.username}/.ssh/authorized_keys"
        return tuple(key if key.path else replace(key, path=usual) for key in keys)

    @property
    def dmi_uuid(self) -> str:
        """What the firmware says: a generation 1 machine stores the first three groups byte-swapped."""
        return str(uuid.UUID(bytes_le=uuid.UUID(self.id).bytes)) if self.generation == 1 else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    enable: bool | None = None  # None: yes, unless the machine is specialised
    format: str = "udf"
    prefixes: str = "wa"
    hostname: str | None = None  # each of these: None says what the metadata says
    username: str | None = None
    vm_id: str | None = None  # the environment's id, which Azure's own discs do not have
    keys: bool = True
    ovf: str | bytes | None = None  # the whole of ovf-env.xml, instead of ours
    texts: Mapping[str, str] = field(default_factory=dict)  # what an element says instead, by its name
    omit: tuple[str, ...] = ()  # elements that are left out, by their names
    bom: bool = False  # a byte order mark before the XML
    late_secs: float = 0.0  # appears only so long after the machine's start
    eject: bool = True  # gone after a verdict, where the fabric ejects at all

    FORMATS = ("udf", "iso", "bridge")
    PREFIXES = ("wa", "default", "ns1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imds:
    enable: bool = True
    api_versions: tuple[str, ...] | None = None  # None: all that the real service knows
    set: Mapping[str, Any] = field(default_factory=dict)  # laid over the document
    remove: tuple[str, ...] = ()  # dotted paths taken out of it
    rate_limit: int = 0  # requests a second, beyond which it answers 429; the real service's is 5; 0: none
    protected: bool = False  # the metadata security protocol: 401 until the guest proxy agent has run
    proxy_agent: str | None = None  # how the stub of it behaves; None: ready where it is asked for, else absent
    latency_secs: float = 0.0  # before each answer
    bytes_per_sec: int = 0  # how fast an answer comes; 0: as fast as it can

    PROXY_AGENTS = ("ready", "fails", "absent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wireserver:
    enable: bool = True
    address: str = ""  # where it is instead, in networks of our own, for DHCP to tell; empty: where Azure's is
    goal_state_after_secs: float = 0.0  # until then 503
    latency_secs: float = 0.0  # before each answer
    bytes_per_sec: int = 0  # how fast an answer comes; 0: as fast as it can


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """How what DHCP says differs from Azure's."""

    omit: tuple[int, ...] = ()  # options that are never sent, by their numbers
    wireserver: str = ""  # what option 245 says instead


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """The truth: what an honest agent tells the platform about this machine, and by when."""

    verdict: str = "ready"
    reason: str = ""  # a part of the reported reason
    says: tuple[str, ...] = ()  # parts of the whole report
    asks: tuple[str, ...] = ()  # paths without whose answer Ready cannot be true
    within_secs: float = 600.0

    VERDICTS = ("ready", "failure", "none", "either")


def as_bytes(data: str | bytes) -> bytes:
    return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
