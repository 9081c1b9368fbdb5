"""Azure's provisioning platform on a laptop: metadata, health reports, provisioning media, and an honest judge."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - one sentence instead of a traceback
    sys.exit("fakeazure needs Python 3.11 or newer; the agent itself runs on 3.9")

from fakeazure.events import Request, Told
from fakeazure.fabric import Fabric
from fakeazure.judge import Judgement
from fakeazure.ledger import Ledger
from fakeazure.vm import Expect, Imds, Key, Media, Vm, Wireserver

__all__ = ["Expect", "Fabric", "Imds", "Judgement", "Key", "Ledger", "Media", "Request", "Told", "Vm", "Wireserver"]
