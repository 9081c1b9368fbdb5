"""LoopDrive: a real loop device, insertion and ejection, and its release by the kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fakeazure
from fakeazure.machines.loop_drive import LoopDrive, NoDrive
from support.need import need_root, unfit

pytestmark = pytest.mark.newer

SOURCE = str(Path(fakeazure.__file__).parent.parent)


def backing(device: str) -> Path:
    return Path("/sys/block", Path(device).name, "loop/backing_file")


@pytest.fixture
def tray(tmp_path: Path) -> LoopDrive:
    need_root()
    try:
        return LoopDrive(tmp_path / "disc")
    except NoDrive as error:
        unfit(str(error))
        raise


def test_a_disc_comes_and_goes_and_the_device_is_given_back(tray: LoopDrive, tmp_path: Path) -> None:
    image = tmp_path / "image"
    device = Path(tray.device)
    assert device.read_bytes() == b""
    image.write_bytes(b"disc" * 1024)
    tray.follow(image)
    assert device.read_bytes() == b"disc" * 1024
    image.unlink()
    tray.follow(image)
    assert device.read_bytes() == b""
    assert backing(tray.device).read_text().strip() == str(tmp_path / "disc")
    tray.close()
    assert not backing(tray.device).exists()


def test_a_killed_platform_leaves_no_device_behind(tray: LoopDrive, tmp_path: Path) -> None:
    tray.close()
    script = "import os, pathlib, sys; from fakeazure.machines.loop_drive import LoopDrive\n"
    script += "t = LoopDrive(pathlib.Path(sys.argv[1]))\n"
    script += "print(t.device, flush=True); os.kill(os.getpid(), 9)"
    ran = subprocess.run(
        (sys.executable, "-c", script, str(tmp_path / "other")),
        env={"PYTHONPATH": SOURCE}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == -9, ran.stderr
    file = backing(ran.stdout.strip())
    assert not file.exists() or file.read_text().strip() != str(tmp_path / "other")
