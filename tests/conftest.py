"""The platform needs Python 3.11; on an older one only the agent's half is collected."""

from __future__ import annotations

import sys

pytest_plugins: list[str] = []

if sys.version_info < (3, 11):
    collect_ignore_glob = ["unit/test_fakeazure_*", "sim/*", "boot/*"]
else:
    from plugins import UNKNOWN_TO_PYTEST

    pytest_plugins += ["pytester", *UNKNOWN_TO_PYTEST]
