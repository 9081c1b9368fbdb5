"""The VM of a scenario, and the settings of its medium, its services and its expected verdict."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Interface
from typing import Any

# A valid key without a known private key. `fakeazure run` generates a key pair instead.
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINoCsQdIS32POjvm9byMTtRl8q7kOXdIRRV0i0g0OP4O azureuser@fakeazure"


@dataclass(frozen=True, slots=True)
class Key:
    data: str  # empty: only on the medium, by the fingerprint of the machine's certificate
    path: str = ""  # empty: the user's authorized_keys
    fingerprint: str = ""  # of that certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A key pair named by a certificate: its private key belongs at `path`, the public key beside it."""

    path: str
    fingerprint: str = ""  # empty: that of the machine's certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    mac: str = ""  # as 00:0d:3a:12:34:56; empty: one with Azure's prefix, derived from the VM id
    address: str = ""  # empty: 10.0.0.4 for the first, 10.0.0.5 for the next
    prefix: int = 24
    public_address: str = ""
    primary: bool = False  # without one, the first interface is the primary one
    secondary: tuple[str, ...] = ()  # further IPv4 addresses: in the metadata, not in the lease
    ipv6: tuple[str, ...] = ()  # in the metadata; the first also by DHCPv6
    ipv6_prefix: int = 0  # 0: the metadata have no IPv6 subnet, as usual
    router: bool = True  # false: the lease has no router
    vf: bool = False  # a second link with the same MAC address and another driver

    @property
    def addresses(self) -> tuple[str, ...]:
        """All IPv4 addresses, the primary one first."""
        return (self.address, *self.secondary)

    @property
    def subnet(self) -> str:
        return str(IPv4Interface(f"{self.address}/{self.prefix}").network.network_address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A data disk."""

    lun: int
    size_gb: int = 4
    name: str = ""  # empty: made of the VM's name and the LUN
    caching: str = "None"

    CACHING = ("None", "ReadOnly", "ReadWrite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vm:
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    name: str = "fake-vm"
    username: str = "azureuser"
    password: str | None = None
    disable_password: bool | None = None  # None: true without a password
    keys: tuple[Key | str, ...] = (PUBLIC_KEY,)
    key_pairs: tuple[KeyPair, ...] = ()  # only on the medium
    custom_data: str | bytes | None = None
    user_data: str | bytes | None = None
    pps_type: str = "None"
    generation: int = 2
    location: str = "westeurope"
    tags: Mapping[str, str] = field(default_factory=dict)
    specialised: bool = False
    proxy_agent: bool = False
    nics: tuple[Interface, ...] = (Interface(),)  # as given; `interfaces` has the defaults filled in
    disks: tuple[Disk, ...] = ()
    temporary_disk: str = "scsi"
    temporary_disk_gb: int = 16

    TEMPORARY_DISKS = ("scsi", "nvme", "none")
    POOLED = ("Running", "Savable", "PreprovisionedOSDisk")  # types of pre-provisioned VMs

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        chosen = next((n for n, nic in enumerate(self.nics) if nic.primary), 0)
        return tuple(
            replace(
                nic, mac=nic.mac or self._azure_mac(n), address=nic.address or f"10.0.0.{n + 4}", primary=n == chosen
            )
            for n, nic in enumerate(self.nics)
        )

    @property
    def primary(self) -> Interface:
        return next(nic for nic in self.interfaces if nic.primary)

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
        """The UUID in the firmware. Generation 1 stores the first three groups byte-swapped."""
        return str(uuid.UUID(bytes_le=uuid.UUID(self.id).bytes)) if self.generation == 1 else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    enable: bool | None = None  # None: yes, unless the machine is specialised
    format: str = "udf"
    prefixes: str = "wa"
    hostname: str | None = None  # None, here and below: as in the metadata
    username: str | None = None
    vm_id: str | None = None  # the id of the OVF environment, which Azure's discs do not have
    keys: bool = True
    ovf: str | bytes | None = None  # replaces ovf-env.xml
    texts: Mapping[str, str] = field(default_factory=dict)  # element name -> its text instead
    omit: tuple[str, ...] = ()  # names of elements that are left out
    bom: bool = False  # a byte order mark before the XML
    late_secs: float = 0.0  # appears so many seconds after the machine's start
    eject: bool = True  # removed after a verdict, if the fabric ejects at all

    FORMATS = ("udf", "iso", "bridge")
    PREFIXES = ("wa", "default", "ns1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the metadata while the machine runs. Without `after_...` it happens by its name, on command."""

    name: str = ""
    after_requests: int = 0  # to /metadata/instance, answered since the first boot
    after_ready: bool = False
    set: Mapping[str, Any] = field(default_factory=dict)  # this and what follows: as in Imds
    set_json: str = ""
    remove: tuple[str, ...] = ()
    listed: tuple[int, ...] | None = None
    secondary: tuple[tuple[str, ...], ...] | None = None  # of each interface


@dataclass(frozen=True, slots=True, kw_only=True)
class Imds:
    enable: bool = True
    api_versions: tuple[str, ...] | None = None  # None: all versions of the real service
    set: Mapping[str, Any] = field(default_factory=dict)  # merged into the document
    set_json: str = ""  # the same as JSON, which has null; merged after `set`
    remove: tuple[str, ...] = ()  # dotted paths removed from it
    nic_order: str = "listed"  # of the interfaces; random: another one for each boot
    listed: tuple[int, ...] | None = None  # numbers of the interfaces in the document; None: all
    secondary: tuple[tuple[str, ...], ...] | None = None  # of each interface; None: those of the VM
    changes: tuple[Change, ...] = ()
    rate_limit: int = 0  # requests per second, then 429; Azure: 5; 0: no limit
    protected: bool = False  # the metadata security protocol: 401 until the guest proxy agent has run
    proxy_agent: str | None = None  # behaviour of the stub; None: ready if the VM asks for it, else absent
    latency_secs: float = 0.0  # before each answer
    bytes_per_sec: int = 0  # of answers; 0: no limit

    PROXY_AGENTS = ("ready", "fails", "absent")
    NIC_ORDERS = ("listed", "reversed", "random")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wireserver:
    enable: bool = True
    address: str = ""  # in container and boot; DHCP announces it; empty: Azure's address
    goal_state_after_secs: float = 0.0  # until then 503
    latency_secs: float = 0.0  # before each answer
    bytes_per_sec: int = 0  # of answers; 0: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """Deviations of DHCP from Azure's."""

    omit: tuple[int, ...] = ()  # numbers of options that are not sent
    wireserver: str = ""  # the address in option 245 instead


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """The verdict that a truthful agent reports for this machine, and its deadline."""

    verdict: str = "ready"
    reason: str = ""  # a substring of the reported reason
    says: tuple[str, ...] = ()  # substrings of the report
    asks: tuple[str, ...] = ()  # paths that must have been answered before Ready
    within_secs: float = 600.0

    VERDICTS = ("ready", "failure", "none", "either")


def as_bytes(data: str | bytes) -> bytes:
    return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
