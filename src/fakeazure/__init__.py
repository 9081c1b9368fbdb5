"""Azure's provisioning platform on a laptop: metadata, health reports, provisioning media, and an honest judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fakeazure.estate import Estate
    from fakeazure.events import Request, Told
    from fakeazure.fabric import Fabric
    from fakeazure.judge import Judgement
    from fakeazure.ledger import Ledger
    from fakeazure.machine import Machine
    from fakeazure.spec import Scenario
    from fakeazure.vm import Disk, Expect, Imds, Interface, Key, KeyPair, Media, Vm, Wireserver
else:
    HOMES = {
        "estate": ("Estate",),
        "events": ("Request", "Told"),
        "fabric": ("Fabric",),
        "judge": ("Judgement",),
        "ledger": ("Ledger",),
        "machine": ("Machine",),
        "spec": ("Scenario",),
        "vm": ("Disk", "Expect", "Imds", "Interface", "Key", "KeyPair", "Media", "Vm", "Wireserver"),
    }

    def __getattr__(name):
        """Nothing is imported until it is used: pytest loads our plugin everywhere, and most tests are not about us."""
        home = next((home for home, names in HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"fakeazure has no {name}")
        import sys
        from importlib import import_module

        if sys.version_info < (3, 11):  # noqa: UP036 - one sentence instead of a riddle
            raise ImportError("fakeazure needs Python 3.11 or newer; the agent itself runs on 3.9")
        return getattr(import_module(f"fakeazure.{home}"), name)


__all__ = [
    "Disk",
    "Estate",
    "Expect",
    "Fabric",
    "Imds",
    "Interface",
    "Judgement",
    "Key",
    "KeyPair",
    "Ledger",
    "Machine",
    "Media",
    "Request",
    "Scenario",
    "Told",
    "Vm",
    "Wireserver",
]
