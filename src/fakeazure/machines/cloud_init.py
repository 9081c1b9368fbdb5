"""Whether cloud-init would be enabled on Azure in an image with this root directory, from its files.

In a container cloud-init detects no Azure firmware and stays off, so that another agent of the image provisions. On
Azure the same image has cloud-init enabled, and azure-init stands down. cloud-init's generator and ds-identify decide
from the files that are read here, and from the kernel command line, which a root directory does not have. Masked units
do not matter where the generator runs: it still enables cloud-init.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

PROGRAMS = ("usr/bin/cloud-init", "bin/cloud-init", "usr/local/bin/cloud-init")
OFF = "etc/cloud/cloud-init.disabled"
UNITS = ("cloud-init-local.service", "cloud-init-main.service", "cloud-init.target")
GENERATOR = "cloud-init-generator"
GENERATORS = ("etc/systemd/system-generators", "usr/local/lib/systemd/system-generators",
              "usr/lib/systemd/system-generators", "lib/systemd/system-generators")  # fmt: skip
OVERRIDES = "etc/systemd/system"
WANTS = ("etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")
DATASOURCES = re.compile(r"^datasource_list:(?P<list>.*(?:\n[ \t]*-[^\n]*)*)", re.MULTILINE)
ONLY = re.compile(r"^datasource:[ \t]*(?P<name>\w+)", re.MULTILINE)
POLICY = re.compile(r"^policy:[ \t]*(?P<policy>[a-z-]+)", re.MULTILINE)


def is_enabled(root: Path) -> bool:
    if not any(os.path.lexists(root / program) for program in PROGRAMS) or (root / OFF).is_file():
        return False
    return is_started(root) and asks_azure(root)


def is_started(root: Path) -> bool:
    """By its generator, or by units that are enabled."""
    for place in GENERATORS:  # systemd uses the first generator of a name
        if os.path.lexists(root / place / GENERATOR):
            return not is_masked(root / place / GENERATOR)
    units = [unit for unit in UNITS if not is_masked(root / OVERRIDES / unit)]
    return any(os.path.lexists(wanted) for place in WANTS for unit in units for wanted in wants(root / place, unit))


def wants(place: Path, unit: str) -> list[Path]:
    return [directory / unit for directory in place.glob("*.wants")]


def is_masked(path: Path) -> bool:
    try:
        return os.readlink(path) == os.devnull if path.is_symlink() else path.stat().st_size == 0
    except OSError:
        return False


def asks_azure(root: Path) -> bool:
    """Whether Azure is among the datasources: by default yes; the last file with a datasource list decides."""
    detection = read(root / "etc/cloud/ds-identify.cfg")
    if (policy := POLICY.search(detection)) and policy["policy"] == "disabled":
        return False
    if only := ONLY.search(detection):
        return only["name"] == "Azure"
    files = [root / "etc/cloud/cloud.cfg", *sorted((root / "etc/cloud/cloud.cfg.d").glob("*.cfg"))]
    named = [found["list"] for file in files for found in DATASOURCES.finditer(read(file))]
    return not named or "Azure" in named[-1]


def read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
