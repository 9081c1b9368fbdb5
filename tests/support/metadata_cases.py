"""What the tests of the merged metadata share."""

from __future__ import annotations

from azureinit.errors import (
    ImdsUnavailable,
    MediaAbsent,
)
from azureinit.sources.imds import Imds, PublicKey

ID = "550e8400-e29b-41d4-a716-446655440000"
KEY = PublicKey(data="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfirst admin@one")
OTHER_KEY = PublicKey(data="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAother admin@one")
IMDS = Imds(
    vm_id=ID,
    username="azureuser",
    hostname="web-1",
    disable_password=True,
    keys=(KEY,),
    pps_type="None",
    has_custom_data=False,
)
FAILURES = {"imds": ImdsUnavailable("nobody answered"), "media": MediaAbsent("no drive")}
