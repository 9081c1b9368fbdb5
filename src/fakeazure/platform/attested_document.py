"""The attested document, signed by a self-signed certificate."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fakeazure.platform.imds_document import SUBSCRIPTION
from fakeazure.platform.openssl import key_pair, openssl, scratch
from fakeazure.platform.vm import Vm

SIGNER = "metadata.azure.com"
VALID = timedelta(hours=6)


def signature(vm: Vm, *, nonce: str, directory: Path | None = None) -> str:
    """A CMS signature around the document, in base64. `directory`: keeps the signer's key."""
    with scratch() as place:
        certificate, key = key_pair(SIGNER, directory=directory or Path(place))
        content = json.dumps(statement(vm, nonce=nonce, now=datetime.now(UTC))).encode()
        how = ["-sign", "-binary", "-nodetach", "-outform", "DER"]
        signed = openssl("cms", *how, "-signer", str(certificate), "-inkey", str(key), stdin=content)
    return base64.b64encode(signed).decode()


def statement(vm: Vm, *, nonce: str, now: datetime) -> dict[str, object]:
    return {
        "nonce": nonce or now.strftime("%Y%m%d-%H%M%S"),
        "plan": {"name": "", "product": "", "publisher": ""},
        "timeStamp": {"createdOn": stamp(now), "expiresOn": stamp(now + VALID)},
        "vmId": vm.id,
        "licenseType": "",
        "subscriptionId": SUBSCRIPTION,
        "sku": "13" if vm.generation == 1 else "13-gen2",
    }


def stamp(moment: datetime) -> str:
    return moment.strftime("%m/%d/%y %H:%M:%S -0000")
