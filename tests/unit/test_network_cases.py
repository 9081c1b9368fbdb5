"""The cases of the network's specification by number, and the tests that prove each: none is lost unnoticed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Floors: unit is decisions and bytes, tree is real files, a real systemd-networkd and the kernel in namespaces, boot is
# Debian under systemd with each network manager.
PLAN, MANAGERS, FILES, DOUBTS, NICS = (
    f"unit/test_{name}.py" for name in ("network_plan", "network_managers", "network_files", "network_doubts", "nics")
)
SHARED = "unit/test_network_shared.py"
ROWS, LAB, FOLLOWED = (f"tree/test_network_{name}.py" for name in ("rows", "networkd", "followed"))
BOOT, FOREIGN = "boot/test_network_boot.py", "boot/test_network_foreign_boot.py"
LAB_SECOND = f"{LAB}::test_a_secondary_nic_gets_policy_routing_and_the_primary_notices_nothing"
LAB_ADDRESSES = f"{LAB}::test_secondary_addresses_of_the_primary_come_at_once_and_only_they_go_again"
LAB_PRIMARY = f"{LAB}::test_the_primary_is_the_nic_that_leads_to_the_platform_whatever_its_name"
ALONE = f"{BOOT}::test_one_interface_with_one_address_of_a_family_is_left_alone"
TRAFFIC = f"{BOOT}::test_traffic_from_each_address_leaves_by_its_interface"
READY = f"{BOOT}::test_ready_leaves_by_the_primary_interface_also_where_it_is_the_second"
GOLDEN = f"{FILES}::test_the_file_of_a_secondary_nic"
BAD_ENTRY = f"{FILES}::test_one_bad_entry_spoils_no_other"
FOREIGN_LINK = f"{FOREIGN}::test_an_interface_that_somebody_else_configures_is_left_alone"
OTHERS_STAY = f"{MANAGERS}::test_configuration_of_others_stays_and_is_told"

CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "N1": ("one NIC, one IPv4 address", (f"{PLAN}::test_one_nic_with_one_address_is_left_as_it_is", ALONE)),
    "N2": ("one NIC, one address of each family", (f"{PLAN}::test_one_nic_with_one_address_is_left_as_it_is", ALONE)),
    "N3": ("two NICs, networkd: one file, no event on the primary", (GOLDEN, LAB_SECOND, TRAFFIC)),
    "N4": ("IMDS lists the other NIC first", (f"{FILES}::test_the_order_of_imds_changes_nothing", LAB_SECOND, TRAFFIC)),
    "N5": ("the same again: nothing is written or reloaded", (LAB_SECOND, TRAFFIC)),
    "N6": ("secondary addresses of the primary", (LAB_ADDRESSES, TRAFFIC)),
    "N7": (
        "one of them is gone from IMDS",
        (f"{PLAN}::test_an_address_goes_after_two_answers_and_only_if_azure_init_set_it", LAB_ADDRESSES),
    ),
    "N8": ("an administrator's address stays", (LAB_ADDRESSES,)),
    "N9": ("the primary is eth1", (READY, LAB_PRIMARY)),
    "N10": ("packaged defaults, the primary is eth1: one route to the wireserver", (LAB_PRIMARY, READY)),
    "N11": ("an empty list", (f"{PLAN}::test_a_document_without_nics_leaves_everything",)),
    "N12": ("no network part", (f"{PLAN}::test_a_document_without_nics_leaves_everything",)),
    "N13": ("a NIC without addresses", (f"{PLAN}::test_a_nic_without_addresses_keeps_its_defaults",)),
    "N14": ("ipv4 is null", (BAD_ENTRY,)),
    "N15": ("two IPv6 addresses, no subnet", (f"{FILES}::test_two_ipv6_addresses_need_no_subnet", LAB_ADDRESSES)),
    "N16": (
        "an empty prefix",
        (
            f"{FILES}::test_a_missing_prefix_leaves_out_the_subnet_only",
            f"{SHARED}::test_a_subnet_that_imds_does_not_give_is_told_of",
        ),
    ),
    "N17": ("a prefix that is none", (BAD_ENTRY, f"{PLAN}::test_an_entry_that_cannot_be_used_spoils_no_other")),
    "N18": (
        "addresses with blanks, empty, out of range",
        (
            f"{FILES}::test_addresses_are_trimmed_and_given_once",
            BAD_ENTRY,
            f"{DOUBTS}::test_what_no_nic_can_have_is_left_out_with_a_warning",
        ),
    ),
    "N19": ("an address twice", (f"{FILES}::test_addresses_are_trimmed_and_given_once",)),
    "N20": ("a MAC address in lower case with colons", (f"{FILES}::test_mac_addresses_in_every_spelling",)),
    "N21": ("a MAC address that is none", (BAD_ENTRY,)),
    "N22": ("two entries with one MAC address", (BAD_ENTRY,)),
    "N23": (
        "a MAC address that no link has yet",
        (
            f"{FILES}::test_an_entry_without_a_link_has_no_file",
            f"{FOLLOWED}::test_a_nic_that_is_attached_while_the_machine_runs_is_configured_and_one_that_is_gone_is_forgotten",
        ),
    ),
    "N24": ("a NIC that IMDS lacks", (f"{PLAN}::test_a_nic_that_imds_does_not_list_is_told_and_stays",)),
    "N25": (
        "a virtual function without the flag of a slave",
        (
            f"{NICS}::test_a_virtual_function_is_no_nic_whatever_its_flags",
            f"{BOOT}::test_a_vf_is_neither_configured_nor_counted",
        ),
    ),
    "N26": (
        "a mana NIC without a synthetic twin",
        (
            f"{NICS}::test_a_mana_nic_without_a_synthetic_twin_is_one_and_is_managed",
            f"{ROWS}::test_a_mana_nic_without_a_synthetic_twin_is_managed_from_the_start",
        ),
    ),
    "N27": (
        "InfiniBand with the driver of a virtual function",
        (
            f"{NICS}::test_infiniband_and_members_of_a_bond_are_no_nics",
            "tree/test_staging.py::test_virtual_functions_stay_unmanaged_on_azure",
        ),
    ),
    "N28": ("a file of netplan's matches the NIC", (OTHERS_STAY, FOREIGN_LINK)),
    "N29": (
        "netplan for NetworkManager",
        (
            f"{NICS}::test_netplan_for_networkmanager_is_networkmanager",
            f"{FOREIGN}::test_netplan_for_networkmanager_gets_a_profile_and_no_file_of_netplan",
        ),
    ),
    "N30": ("NetworkManager", (GOLDEN, f"{MANAGERS}::test_networkmanager_gets_a_keyfile_and_activates_it", TRAFFIC)),
    "N31": (
        "networkd and NetworkManager both run",
        (
            f"{NICS}::test_the_program_that_holds_the_link_counts_before_one_that_is_enabled",
            f"{FOREIGN}::test_of_two_managers_the_one_that_holds_the_link_gets_the_file",
        ),
    ),
    "N32": ("ifupdown has a stanza", (f"{NICS}::test_ifupdown_follows_its_sources", FOREIGN_LINK)),
    "N33": ("wicked, cloud-netconfig", (OTHERS_STAY, f"{MANAGERS}::test_cloud_netconfig_does_all_of_it")),
    "N34": ("the gateway of 10.0.2.128/25", (f"{FILES}::test_the_gateway_is_the_first_address_of_the_subnet", TRAFFIC)),
    "N35": (
        "killed between file and reload",
        (
            LAB_SECOND,
            f"{FOREIGN}::test_a_run_that_is_killed_between_the_file_and_its_loading_ends_in_the_next_boot",
        ),
    ),
    "N36": (
        "a read-only /etc",
        (
            f"{ROWS}::test_a_read_only_etc_is_a_warning_and_addresses_are_set_all_the_same",
            f"{FOREIGN}::test_ready_is_reported_also_where_the_files_cannot_be_written",
        ),
    ),
    "N37": (
        "a NIC that is gone at the next boot",
        (
            f"{ROWS}::test_imds_is_asked_again_before_anything_is_removed",
            LAB_SECOND,
            f"{BOOT}::test_an_interface_that_is_gone_leaves_no_file_and_no_rule",
        ),
    ),
    "N38": (
        "deprovision",
        ("tree/test_deprovision.py::test_no_network_configuration_of_this_machine_reaches_the_image",),
    ),
    "N39": ("--root", (f"{PLAN}::test_under_root_files_are_written_and_the_kernel_is_left_alone",)),
    "N40": ("eight NICs in any order", (f"{FILES}::test_eight_nics_have_the_same_tables_in_any_order",)),
    "N41": (
        "a lease without a router",
        (
            f"{FILES}::test_a_lease_without_router_names_the_gateway",
            LAB_PRIMARY,
            f"{BOOT}::test_a_lease_without_a_router_is_given_the_first_address_of_its_subnet",
        ),
    ),
}


def test_all_41_cases_are_listed() -> None:
    assert [*CASES] == [f"N{number}" for number in range(1, 42)]


@pytest.mark.parametrize("number", CASES)
def test_the_tests_of_a_case_exist(number: str) -> None:
    for one in CASES[number][1]:
        file, _, name = one.partition("::")
        functions = [
            node.name for node in ast.parse((TESTS / file).read_text()).body if isinstance(node, ast.FunctionDef)
        ]
        assert name in functions, one
