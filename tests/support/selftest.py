"""azure-vm-utils' own self-test: fetched from Debian's source package when it is needed, and never kept with us."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

from support.container import CACHE, debian_root
from support.need import need, unfit

SUITE, PACKAGE, NAME = "trixie", "azure-vm-utils", "selftest/selftest.py"
OTHER = "AZURE_INIT_TEST_SELFTEST"  # the path of another version
FETCH_SECONDS = 300.0
# Everything of apt's in one directory, but the keys of the machine.
SETTINGS = """\
Dir::State "{place}";
Dir::State::lists "{place}/lists";
Dir::State::status "/dev/null";
Dir::Cache "{place}/cache";
Dir::Etc::sourcelist "{place}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Acquire::Languages "none";
"""


def selftest() -> Path:
    """Of the version that Debian's stable release has, from the mirror that the tests' Debian comes from."""
    chosen = os.environ.get(OTHER)
    if chosen:
        return Path(chosen)
    apt, kept = need("apt-get"), CACHE / f"{PACKAGE}-{SUITE}.py"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{PACKAGE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=CACHE, prefix="unfinished-") as place:
                fetch(apt, Path(place)).rename(kept)
    return kept


def fetch(apt: str, place: Path) -> Path:
    lines = (debian_root(SUITE) / "etc/apt/sources.list").read_text().splitlines()
    sources = [line.replace("deb ", "deb-src ", 1) for line in lines if line.startswith("deb ")]
    (place / "sources.list").write_text("\n".join([*sources, ""]))
    (place / "apt.conf").write_text(SETTINGS.format(place=place))
    for name in ("lists/partial", "cache/archives/partial"):
        (place / name).mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "APT_CONFIG": str(place / "apt.conf"), "LC_ALL": "C"}
    for words in (("update",), ("source", "--download-only", "--tar-only", PACKAGE)):
        ran = subprocess.run(
            (apt, "--quiet", *words), cwd=place, env=environment, capture_output=True, text=True, timeout=FETCH_SECONDS
        )
        if ran.returncode:
            unfit(f"the source of {PACKAGE} could not be fetched: {ran.stderr[-500:]}")
    (archive,) = place.glob(f"{PACKAGE}_*.orig.tar.*")
    with tarfile.open(archive) as inside:
        (member,) = (one for one in inside if one.name.endswith(f"/{NAME}"))
        file = inside.extractfile(member)
        assert file is not None
        (place / "selftest.py").write_bytes(file.read())
    return place / "selftest.py"
