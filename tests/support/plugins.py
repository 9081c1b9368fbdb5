"""fakeazure's pytest plugin, if it is not installed: pytest loads an installed one itself, and refuses a second."""

from __future__ import annotations

from importlib.metadata import entry_points

PLUGIN = "fakeazure.pytest_plugin"
UNKNOWN_TO_PYTEST = [] if any(entry.value == PLUGIN for entry in entry_points(group="pytest11")) else [PLUGIN]
