"""Images with the package installed, shared by all modules and workers of a test run; and machines made from them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.installed import NEEDED, Disk, Images, Machines
from support.need import need, need_root


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    need_root()
    for tool in NEEDED:
        need(tool)
    place = tmp_path_factory.getbasetemp()
    place = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "images"
    place.mkdir(exist_ok=True)
    return Images(place)


@pytest.fixture
def machine(images: Images, tmp_path: Path) -> Iterator[Machines]:
    """A new one, with its first boot before it."""
    yield lambda *system: Disk(images(*system), tmp_path / "machine")
    shutil.rmtree(tmp_path, ignore_errors=True)
