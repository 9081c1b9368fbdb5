"""Our pytest plugin, where nobody installed it: pytest finds an installed one by itself, and takes none twice."""

from __future__ import annotations

from importlib.metadata import entry_points

PLUGIN = "fakeazure.pytest_plugin"
UNKNOWN_TO_PYTEST = [] if any(entry.value == PLUGIN for entry in entry_points(group="pytest11")) else [PLUGIN]
