"""Who the VM is, from firmware or configuration, and whether this is Azure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.errors import ConfigInvalid
from azureinit.machine import Machine
from azureinit.sources.identity import ASSET_TAG, is_azure, parse_vm_id, read_vm_id

ID = "550e8400-e29b-41d4-a716-446655440000"
SWAPPED = "00840e55-9be2-d441-a716-446655440000"
ZERO = "00000000-0000-0000-0000-000000000000"


def machine(tree: Path, **files: str) -> Machine:
    dmi = tree / "sys/class/dmi/id"
    dmi.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (dmi / name).write_bytes(text.encode("latin-1"))
    return Machine(root=str(tree), kernel=str(tree), environ={})


def with_efi(tree: Path, path: str) -> None:
    (tree / path).mkdir(parents=True)


def test_the_first_generation_swaps_the_bytes_of_three_groups(tmp_path: Path) -> None:
    assert read_vm_id(machine(tmp_path, product_uuid=ID + "\n"), "") == SWAPPED


@pytest.mark.parametrize("efi", ["sys/firmware/efi", "dev/efi"])
def test_the_second_generation_is_read_as_it_is(tmp_path: Path, efi: str) -> None:
    with_efi(tmp_path, efi)
    assert read_vm_id(machine(tmp_path, product_uuid=ID + "\n"), "") == ID


def test_upper_case_becomes_lower_case(tmp_path: Path) -> None:
    with_efi(tmp_path, "sys/firmware/efi")
    assert read_vm_id(machine(tmp_path, product_uuid=ID.upper()), "") == ID


@pytest.mark.parametrize(
    "text",
    [
        "\n",
        "",
        "not-a-uuid",
        ZERO,
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        "../../etc/passwd",
        ID.replace("-", ""),
        ID + "0",
        ID[:-1],
        "550e8400-e29b-41d4-a716_446655440000",
        "550e84  -e29b-41d4-a716-446655440000",
        "550g8400-e29b-41d4-a716-446655440000",
        "\xb5\xb5\xb5\xb5\xb5\xb5\xb5\xb5-e29b-41d4-a716-446655440000",
    ],
)
@pytest.mark.parametrize("generation", [1, 2])
def test_what_is_not_the_id_of_a_vm_is_none(tmp_path: Path, text: str, generation: int) -> None:
    if generation == 2:
        with_efi(tmp_path, "sys/firmware/efi")
    assert read_vm_id(machine(tmp_path, product_uuid=text), "") is None


def test_firmware_without_an_id_is_none(tmp_path: Path) -> None:
    assert read_vm_id(machine(tmp_path), "") is None


def test_firmware_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "sys/class/dmi/id/product_uuid").mkdir(parents=True)  # what root cannot read either
    assert read_vm_id(machine(tmp_path), "") is None


def test_a_configured_id_outranks_the_firmware_and_is_never_swapped(tmp_path: Path) -> None:
    other = "11112222-3333-4444-5555-666677778888"
    assert read_vm_id(machine(tmp_path, product_uuid=ID), f" {other.upper()}") == other


@pytest.mark.parametrize("text", ["vm-1", ZERO, "../../../etc/cron.d/x", "a/b", " ", ID + "\0", "550e8400"])
def test_a_configured_id_that_is_none_is_an_error_that_names_the_key(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"platform\.vm_id"):
        read_vm_id(machine(tmp_path, product_uuid=ID), text)


def test_swapping_twice_gives_the_first_again() -> None:
    assert parse_vm_id(parse_vm_id(ID, swapped=True) or "", swapped=True) == ID


@given(st.text() | st.text("0123456789abcdefABCDEF- \t", min_size=30, max_size=40), st.booleans())
def test_whatever_the_text_the_id_is_a_file_name_or_none(text: str, swapped: bool) -> None:
    found = parse_vm_id(text, swapped=swapped)
    assert found is None or (len(found) == 36 and not set(found) - set("0123456789abcdef-"))


@given(st.uuids(), st.booleans())
def test_every_other_uuid_is_the_id_of_a_vm(value: object, swapped: bool) -> None:
    nobody = str(value).replace("-", "") in ("0" * 32, "f" * 32)
    assert (parse_vm_id(str(value), swapped=swapped) is None) is nobody


def test_azure_is_known_by_its_asset_tag(tmp_path: Path) -> None:
    assert is_azure(machine(tmp_path, chassis_asset_tag=ASSET_TAG + "\n"))


@pytest.mark.parametrize("tag", ["", "\n", "7783-7084", ASSET_TAG + "0", "\xff\xfe"])
def test_any_other_asset_tag_is_not_azure(tmp_path: Path, tag: str) -> None:
    assert not is_azure(machine(tmp_path, chassis_asset_tag=tag))


def test_a_machine_without_firmware_tables_is_not_azure(tmp_path: Path) -> None:
    assert not is_azure(Machine(root=str(tmp_path), kernel=str(tmp_path), environ={}))
