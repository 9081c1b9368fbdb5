"""The platform needs Python 3.11; on an older one only the agent's half is collected."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):
    collect_ignore_glob = ["unit/test_fakeazure_*", "sim/*", "boot/*"]
