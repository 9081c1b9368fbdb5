"""What each answer to a request for the customer's data means."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from azureinit.http import Response
from azureinit.record import Secret
from azureinit.sources.reprovision import (
    DATA,
    LONGEST_PAUSE,
    MOST_BYTES,
    NOT_YET,
    REFUSED,
    UNUSABLE,
    meaning,
    parse_medium,
)

OVF = b"""<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1" xmlns:wa="http://schemas.microsoft.com/windowsazure">
<wa:ProvisioningSection><wa:LinuxProvisioningConfigurationSet><wa:HostName>carols</wa:HostName>
<wa:UserName>carol</wa:UserName><wa:UserPassword>Rosebud-5</wa:UserPassword></wa:LinuxProvisioningConfigurationSet>
</wa:ProvisioningSection><wa:PlatformSettingsSection><wa:PlatformSettings><wa:PreprovisionedVm>true</wa:PreprovisionedVm>
<wa:PreprovisionedVMType>Savable</wa:PreprovisionedVMType></wa:PlatformSettings></wa:PlatformSettingsSection></Environment>
"""


def response(status: int, body: bytes = b"", **headers: str) -> Response:
    return Response(status=status, headers={key.replace("_", "-"): value for key, value in headers.items()}, body=body)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, OVF, DATA),
        (200, b"", UNUSABLE),
        (200, b" \r\n", UNUSABLE),
        (200, b"<html><body>busy</body></html>", UNUSABLE),
        (200, OVF[:200], UNUSABLE),
        (200, b"<Environment/>", UNUSABLE),
        (200, b'<!DOCTYPE x [<!ENTITY a "b">]>' + OVF, UNUSABLE),
        (200, OVF.replace(b"<wa:HostName>", b"<wa:HostName>" + b"x" * MOST_BYTES), UNUSABLE),
        (204, b"", UNUSABLE),
        (404, b"", NOT_YET),
        (410, b"", NOT_YET),
        (429, b"", NOT_YET),
        (500, b"", NOT_YET),
        (501, b"", NOT_YET),
        (503, b"", NOT_YET),
        (301, b"", REFUSED),
        (400, b"", REFUSED),
        (401, b"", REFUSED),
        (403, b"", REFUSED),
    ],
)
def test_an_answer(status: int, body: bytes, kind: str) -> None:
    found = meaning(response(status, body))
    assert found.kind == kind and found.pause >= 1.0
    assert (found.medium is not None) is (kind == DATA)
    assert "Rosebud" not in f"{found} {found.told}"


@pytest.mark.parametrize(
    ("told", "pause"), [("", 1.0), ("0", 1.0), ("7", 7.0), ("99999", LONGEST_PAUSE), ("-1", 1.0), ("soon", 1.0)]
)
def test_the_pause_that_the_server_asks_for(told: str, pause: float) -> None:
    assert meaning(response(503, retry_after=told)).pause == pause


def test_the_data_do_not_put_the_vm_into_a_pool_again() -> None:
    medium = parse_medium(Secret(OVF))
    assert (medium.ovf.username, medium.ovf.hostname) == ("carol", "carols")
    assert medium.ovf.pps_type is None and not medium.ovf.preprovisioned
    assert medium.device is None and medium.document is not None


@given(status=st.integers(100, 599), body=st.binary(max_size=300), after=st.text(max_size=12))
def test_whatever_the_answer_it_means_something_and_is_asked_over_with_a_pause(
    status: int, body: bytes, after: str
) -> None:
    found = meaning(Response(status=status, headers={"retry-after": after}, body=body))
    assert found.kind in (NOT_YET, REFUSED, UNUSABLE) and 1.0 <= found.pause <= LONGEST_PAUSE
