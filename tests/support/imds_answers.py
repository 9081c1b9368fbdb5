"""What the tests of IMDS share."""

from __future__ import annotations

import json
from typing import Any

from azureinit.sources.imds import Imds, PublicKey

ID = "550e8400-e29b-41d4-a716-446655440000"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA admin"
DOCUMENT: dict[str, Any] = {
    "compute": {
        "vmId": ID,
        "osProfile": {
            "adminUsername": "azureuser",
            "computerName": "web-1",
            "disablePasswordAuthentication": "true",
        },
        "publicKeys": [{"keyData": KEY, "path": "/home/azureuser/.ssh/authorized_keys"}],
        "unknown": [1, {"two": 3}],
    },
    "extended": {"compute": {"hasCustomData": "false", "ppsType": "None"}},
    "network": {},
}
WHOLE = Imds(
    vm_id=ID,
    username="azureuser",
    hostname="web-1",
    disable_password=True,
    keys=(PublicKey(data=KEY, path="/home/azureuser/.ssh/authorized_keys"),),
    pps_type="None",
    has_custom_data=False,
)


def changed(**compute: object) -> bytes:
    return json.dumps({"compute": {**DOCUMENT["compute"], **compute}}).encode()


def profile(**values: object) -> bytes:
    return changed(osProfile={**DOCUMENT["compute"]["osProfile"], **values})
