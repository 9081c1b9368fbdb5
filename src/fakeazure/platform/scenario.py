"""The scenario: one VM, its platform with all faults, and the verdict that a truthful agent reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fakeazure.platform.clock import Clock
from fakeazure.platform.faults import Script
from fakeazure.platform.pool import Pool
from fakeazure.platform.vm import Expect, Imds, Leases, Media, Vm, Wireserver


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    description: str = ""
    vm: Vm = field(default_factory=Vm)
    media: Media = field(default_factory=Media)
    imds: Imds = field(default_factory=Imds)
    wireserver: Wireserver = field(default_factory=Wireserver)
    dhcp: Leases = field(default_factory=Leases)
    pool: Pool = field(default_factory=Pool)
    clock: Clock = field(default_factory=Clock)
    faults: tuple[Script, ...] = ()
    expect: Expect | None = None
    azure_init: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # merged into azure-init's configuration
    own_keys: bool = False  # the scenario file lists SSH keys, so fakeazure generates none
    own_vm: bool = False  # the scenario file has a [vm] table
