"""Selects the tests for an older Python, starts the slow ones first, and sets up signals as tests expect them."""

from __future__ import annotations

import sys

import pytest
from hypothesis import settings

from support.signals import pass_on_signals

# No test depends on how fast or how busy the machine is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

pytest_plugins: list[str] = []

if sys.version_info < (3, 11):
    collect_ignore_glob = ["*/test_fakeazure_*", "unit/test_peers_*", "sim/*", "boot/*", "adversary/*"]
else:
    from support.plugins import UNKNOWN_TO_PYTEST

    pytest_plugins += ["pytester", *UNKNOWN_TO_PYTEST]

# The slowest modules, the longest first: started last, one of them would delay the end of the whole run.
SLOWEST = (
    "test_scenarios_boot",
    "test_boot_disks",
    "test_real_machine",
    "test_units",
    "test_disks_scenarios",
    "test_disks_kernel",
    "test_network_boot",
    "test_pps_kernel",
    "test_disks_reboot",
    "test_network_kernel",
    "test_pps_boot",
    "test_selftest",
    "test_network_watch_boot",
    "test_userdata_boot",
    "test_userdata_differential",
    "test_disk_names_kernel",
    "test_tuning_kernel",
    "test_grow_kernel",
    "test_packages",
    "test_container",
    "test_publish_boot",
    "test_endpoint_boot",
    "test_kernel",
    "test_migration_boot",
    "test_hostname_boot",
    "test_peers_bench",
    "test_fakeazure_container",
    "test_responsibilities",
    "test_scenarios",
    "test_host_keys_sim",
    "test_canary",
    "test_kill",
    "test_waagent_sim",
    "test_changed_id_sim",
    "test_faults",
    "test_stages",
)
# Tests of texts, packages and scripts: Pythons between the oldest and the newest need not repeat them.
ONCE = frozenset(
    ("test_assertions", "test_azure_e2e", "test_config_docs", "test_docs_map", "test_docs_tables", "test_linters",
     "test_manual", "test_package", "test_scripts", "test_staging", "test_suite", "test_units_security",
     "test_units_text", "test_walls")
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rust", metavar="PATH", help="a binary of Azure's own azure-init or libazureinit-kvp, or their directory"
    )


def pytest_configure(config: pytest.Config) -> None:
    """xdist must hand out modules in the order of collection, not by the number of tests in them."""
    pass_on_signals()
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers, the slow modules come first."""
    for item in items:
        if item.path.stem in ONCE:
            item.add_marker("once")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: SLOWEST.index(item.path.stem) if item.path.stem in SLOWEST else len(SLOWEST))
