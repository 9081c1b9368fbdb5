"""Azure's provisioning platform on a laptop: metadata service, wireserver, provisioning media, and a judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fakeazure.judge import Judgement
    from fakeazure.platform.events import Request, Told
    from fakeazure.platform.fabric import Fabric
    from fakeazure.platform.fleet import Fleet
    from fakeazure.platform.ledger import Ledger
    from fakeazure.platform.machine import Machine
    from fakeazure.platform.pool import Pool
    from fakeazure.platform.scenario import Scenario
    from fakeazure.platform.vm import Change, Disk, Expect, Imds, Interface, Key, KeyPair, Media, Vm, Wireserver

    Estate = Fleet
else:
    MODULES = {
        "judge": ("Judgement",),
        "platform.events": ("Request", "Told"),
        "platform.fabric": ("Fabric",),
        "platform.fleet": ("Fleet",),
        "platform.ledger": ("Ledger",),
        "platform.machine": ("Machine",),
        "platform.pool": ("Pool",),
        "platform.scenario": ("Scenario",),
        "platform.vm": ("Change", "Disk", "Expect", "Imds", "Interface", "Key", "KeyPair", "Media", "Vm", "Wireserver"),
    }

    def __getattr__(name):
        """Imports a module on first use: pytest loads the plugin in every run, and most tests need no platform."""
        name = "Fleet" if name == "Estate" else name  # the former name
        module = next((module for module, names in MODULES.items() if name in names), None)
        if module is None:
            raise AttributeError(f"fakeazure has no {name}")
        import sys
        from importlib import import_module

        if sys.version_info < (3, 11):  # noqa: UP036 - one sentence instead of a traceback
            raise ImportError("fakeazure needs Python 3.11 or newer; the agent itself runs on 3.9")
        return getattr(import_module(f"fakeazure.{module}"), name)


__all__ = [
    "Change",
    "Disk",
    "Estate",
    "Expect",
    "Fabric",
    "Fleet",
    "Imds",
    "Interface",
    "Judgement",
    "Key",
    "KeyPair",
    "Ledger",
    "Machine",
    "Media",
    "Pool",
    "Request",
    "Scenario",
    "Told",
    "Vm",
    "Wireserver",
]
