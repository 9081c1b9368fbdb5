"""The VM's id, from firmware or configuration, and whether the machine is on Azure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.errors import ConfigInvalid
from azureinit.machine import Machine
from azureinit.sources.identity import ASSET_TAG, is_azure, parse_vm_id, read_vm_id, stand_down

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


# ---- whose job it is


class Running(Machine):
    """A made-up tree that counts as the running system."""

    @property
    def rooted(self) -> bool:
        return False


def placed(tree: Path, *, tag: str = ASSET_TAG, words: str = "", cloud_init: str | None = None) -> Running:
    """`words`: the kernel's command line. `cloud_init`: it is enabled, and its detection wrote that."""
    machine(tree, chassis_asset_tag=tag)
    (tree / "proc").mkdir()
    (tree / "proc/cmdline").write_text(f"BOOT_IMAGE=/vmlinuz root=/dev/sda1 {words} ro\n")
    if cloud_init is not None:
        (tree / "run/cloud-init").mkdir(parents=True)
        (tree / "run/cloud-init/enabled").touch()
        if cloud_init:
            (tree / "run/cloud-init/cloud.cfg").write_text(cloud_init)
    return Running(root=str(tree), kernel=str(tree), environ={})


ON_AZURE = "datasource_list: [ Azure, None ]\n"
ELSEWHERE = "datasource_list: [ NoCloud, None ]\n"
OFF, NOT_AZURE, CLOUD_INIT = "azure-init=off", "not an Azure VM", "cloud-init is enabled"


@pytest.mark.parametrize(
    ("words", "tag", "cloud_init", "reason"),
    [
        ("", ASSET_TAG, None, None),
        ("", "another", None, NOT_AZURE),
        ("azure-init=off", ASSET_TAG, None, OFF),
        ("azure-init=off", "another", ON_AZURE, OFF),
        ("azure-init=force", "another", None, None),
        ("azure-init=force", ASSET_TAG, ON_AZURE, None),
        ("azure-init=force azure-init=off", ASSET_TAG, None, OFF),  # the last one counts
        ("azure-init=off azure-init=force", "another", None, None),
        ("azure-init=", ASSET_TAG, ON_AZURE, CLOUD_INIT),
        ("azure-init=offf azure-initforce", ASSET_TAG, None, None),
        ("not-azure-init=off xazure-init=force", "another", None, NOT_AZURE),
        ("", ASSET_TAG, ON_AZURE, CLOUD_INIT),
        ("", ASSET_TAG, "", CLOUD_INIT),  # its detection has told nothing: it may be us whom it means
        ("", ASSET_TAG, "network: {config: disabled}\n", CLOUD_INIT),
        ("", ASSET_TAG, ELSEWHERE, None),
        ("", "another", ON_AZURE, NOT_AZURE),
    ],
)
def test_the_kernel_s_word_then_the_firmware_then_cloud_init_decide(
    tmp_path: Path, words: str, tag: str, cloud_init: str | None, reason: str | None
) -> None:
    told = stand_down(placed(tmp_path, tag=tag, words=words, cloud_init=cloud_init), require_azure=True)
    assert told is None if reason is None else told is not None and reason in told


def test_cloud_init_that_is_installed_but_not_enabled_is_no_matter(tmp_path: Path) -> None:
    one = placed(tmp_path, cloud_init=ON_AZURE)
    (tmp_path / "run/cloud-init/enabled").unlink()
    assert stand_down(one, require_azure=True) is None


def test_the_tag_counts_only_where_it_is_asked_for_and_cloud_init_always(tmp_path: Path) -> None:
    one = placed(tmp_path, tag="another", cloud_init=ON_AZURE)
    assert CLOUD_INIT in (stand_down(one, require_azure=False) or "")
    (tmp_path / "run/cloud-init/enabled").unlink()
    assert stand_down(one, require_azure=False) is None


def test_the_running_system_s_cloud_init_has_no_say_in_a_file_tree(tmp_path: Path) -> None:
    placed(tmp_path, cloud_init=ON_AZURE)
    assert stand_down(Machine(root=str(tmp_path), kernel=str(tmp_path), environ={}), require_azure=True) is None


def test_a_machine_without_a_command_line_is_judged_by_the_rest(tmp_path: Path) -> None:
    one = placed(tmp_path)
    (tmp_path / "proc/cmdline").unlink()
    assert stand_down(one, require_azure=True) is None


def test_work_that_cloud_init_leaves_alone_is_done_beside_it(tmp_path: Path) -> None:
    one = placed(tmp_path, cloud_init="")
    assert stand_down(one, require_azure=True) is not None
    assert stand_down(one, require_azure=True, beside_cloud_init=True) is None
    off = placed(tmp_path / "off", words=OFF, cloud_init="")
    assert OFF in (stand_down(off, require_azure=True, beside_cloud_init=True) or "")
