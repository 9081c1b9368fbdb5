"""Unit names compared with systemd-escape's."""

from __future__ import annotations

import subprocess

from azureinit.facts.mounts import unit_name
from support.need import need


def test_units_are_named_as_systemd_names_them() -> None:
    paths = ("/var", "/var/lib/azure-init", "/a b", "/.hidden/x", "/ü", "/a.b_c:d", "/x\\y", "/a/.b")
    tool = need("systemd-escape")
    ran = subprocess.run((tool, "--path", "--suffix=mount", *paths), capture_output=True, text=True, check=True)
    assert [unit_name(path) for path in paths] == ran.stdout.split()
