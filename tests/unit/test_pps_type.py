"""The type of a pre-provisioned VM, and the marker of a pool."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Config
from azureinit.errors import ImdsInvalid
from azureinit.machine import Machine
from azureinit.memory.pool import (
    OFFERED,
    REUSED,
    WAITING,
    Marker,
    begun_moment,
    customers_id,
    read_marker,
    read_moment,
    renamed_id,
    write_marker,
    write_moment,
)
from azureinit.run.readiness import _until
from azureinit.run.state import Context
from azureinit.sources.pps import TYPES, check_reused, decide, media_type
from azureinit.telemetry.events import Events

OWN, OTHER, NEW = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "123")

TABLE = [
    # media's type, media's flag, IMDS's -> type, whether a warning tells why
    (None, False, None, None, False),
    (None, False, "None", None, False),
    (None, True, None, "Running", False),  # P1
    ("Running", True, None, "Running", False),
    ("Running", False, "Savable", "Savable", True),  # P2
    ("Savable", True, "Running", "Savable", True),
    ("Savable", True, None, "Savable", False),  # P3
    ("Savable", True, "None", None, True),  # a heard None outranks the media
    (None, True, "None", None, True),
    ("PreprovisionedOSDisk", True, "Running", "PreprovisionedOSDisk", True),
    (None, False, "PreprovisionedOSDisk", "PreprovisionedOSDisk", False),
    (None, False, "savable", None, True),  # P4
    (None, False, "Unknown", None, True),  # P4
    ("savable", False, None, None, True),
    ("odd", True, None, "Running", False),
    ("Savable", True, "odd", None, True),
    ("savable", True, "savable", None, True),
]


@pytest.mark.parametrize(("media", "flag", "imds", "found", "warned"), TABLE)
def test_the_type(media: str | None, flag: bool, imds: str | None, found: str | None, warned: bool) -> None:
    kind, warnings = decide(imds=imds, media=media_type(media, flag=flag))
    assert (kind, bool(warnings)) == (found, warned), warnings


WORDS = st.one_of(st.none(), st.sampled_from([*TYPES, "None", "none", "Unknown", "savable"]), st.text())


@given(imds=WORDS, media=WORDS, flag=st.booleans())
def test_whatever_they_say_the_type_is_known_and_a_none_of_imds_wins(
    imds: str | None, media: str | None, flag: bool
) -> None:
    kind, warnings = decide(imds=imds, media=media_type(media, flag=flag))
    assert kind is None or kind in TYPES
    assert kind is None or imds is None or imds in TYPES
    assert all(text.startswith("pps_type: ") and text.isprintable() for text in warnings)


@pytest.mark.parametrize("told", [None, "None", "none"])
def test_a_customers_vm_is_in_no_pool(told: str | None) -> None:
    assert check_reused(told) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("told", ["Savable", "Running", "Unknown", "x\ny"])
def test_a_vm_that_imds_still_puts_into_a_pool_is_refused(told: str) -> None:
    with pytest.raises(ImdsInvalid) as caught:
        check_reused(told)
    assert caught.value.reason == "invalid IMDS metadata for key=extended.compute.ppsType"
    assert {"key", "value", "type"} <= {*caught.value.data} and "\n" not in str(caught.value)


# ---- the marker


def test_a_marker_counts_for_its_vm_alone() -> None:
    """P5, P6."""
    marker = Marker(state=WAITING, type="Running", firmware_id=OWN, imds_id=OWN)
    assert marker.is_of(OWN) and not marker.is_of(OTHER) and not marker.is_of(None)
    assert Marker(state=WAITING, type="Running").is_of(None)
    reused = Marker(state=REUSED, type="Running", firmware_id=OWN, imds_id=OWN, new_firmware_id=OWN, new_imds_id=NEW)
    assert reused.is_of(OWN) and reused.is_of(NEW) and not reused.is_of(OTHER)


@pytest.mark.parametrize(
    ("marker", "new"),
    [
        (Marker(state=REUSED, type="Running", firmware_id=OWN, imds_id=OWN, new_imds_id=OWN), ""),
        (Marker(state=REUSED, type="Running", firmware_id=OWN, imds_id=OWN, new_imds_id=NEW), NEW),
        (Marker(state=REUSED, type="Running", firmware_id=OWN, imds_id=OTHER, new_imds_id=OTHER), ""),
        (Marker(state=REUSED, type="Running", firmware_id=OWN, new_imds_id=OWN), ""),
        (Marker(state=REUSED, type="Running", firmware_id=OWN, new_imds_id=NEW), NEW),
        (Marker(state=REUSED, type="Running", firmware_id=OWN, imds_id=OWN), ""),
    ],
)
def test_the_customers_id_is_new_only_where_imds_has_changed_it(tmp_path: Path, marker: Marker, new: str) -> None:
    machine = Machine(root=str(tmp_path))
    (tmp_path / "data").mkdir()
    write_marker(machine, "/data", marker)
    assert read_marker(machine, "/data") == marker
    assert renamed_id(marker) == new
    assert customers_id(machine, "/data", OWN) == (new or OWN)
    assert customers_id(machine, "/data", "4" * 8) == "4" * 8


@pytest.mark.parametrize("state", [OFFERED, WAITING])
def test_in_the_pool_the_id_stays(tmp_path: Path, state: str) -> None:
    machine = Machine(root=str(tmp_path))
    (tmp_path / "data").mkdir()
    write_marker(machine, "/data", Marker(state=state, type="Savable", firmware_id=OWN, imds_id=OWN, new_imds_id=NEW))
    assert customers_id(machine, "/data", OWN) == OWN
    found = read_marker(machine, "/data")
    assert found is not None and found.state == state


def test_no_damaged_marker_says_anything_else(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path))
    (tmp_path / "data").mkdir()
    assert read_marker(machine, "/data") is None
    marker = Marker(state=WAITING, type="Running", firmware_id=OWN, index=3, mac="00:0d:3a:1:2:3")
    write_marker(machine, "/data", marker)
    path = tmp_path / "data/machine.pool"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert read_marker(machine, "/data") in (None, marker), place
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_marker(machine, "/data") is None, length


def test_deadlines_count_from_the_moment_when_the_customer_got_the_vm(tmp_path: Path) -> None:
    """After a week in the pool, a deadline that counts from the boot would be over before the run begins."""
    week = 7 * 86400.0
    machine = Machine(root=str(tmp_path))
    assert read_moment(machine) == 0.0 and begun_moment(machine) < week
    context = Context(machine=machine, config=Config(), events=Events(clock=machine.clock), started=0.0, booted=0.0)
    before = _until(context, None)
    write_moment(machine, week)
    assert begun_moment(machine) == week
    assert _until(context, None) - before > week - 86400
    (tmp_path / "run/azure-init/reused").write_text("soon")
    assert read_moment(machine) == 0.0
