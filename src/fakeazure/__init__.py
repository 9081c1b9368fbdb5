"""Azure's provisioning platform on a laptop: metadata, health reports, provisioning media, and an honest judge."""

from __future__ import annotations

from fakeazure.events import Request, Told
from fakeazure.fabric import Fabric
from fakeazure.judge import Judgement
from fakeazure.ledger import Ledger
from fakeazure.vm import Expect, Imds, Key, Media, Vm, Wireserver

__all__ = ["Expect", "Fabric", "Imds", "Judgement", "Key", "Ledger", "Media", "Request", "Told", "Vm", "Wireserver"]
