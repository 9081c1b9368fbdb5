"""NTFS volumes made by ntfs-3g's tools, as the platform ships them and otherwise."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.need import need, need_root, unfit

LABEL = "Temporary Storage"
README = "DATALOSS_WARNING_README.txt"
INFORMATION = "System Volume Information"
WARNING = b"WARNING: THIS IS A TEMPORARY DISK.\r\n"


def make_volume(path: Path, *, mib: int = 16, label: str = LABEL, options: tuple[str, ...] = ()) -> Path:
    tool = need("mkntfs")
    with path.open("wb") as file:
        file.truncate(mib << 20)
    quick = (tool, "--quiet", "--fast", "--force", "--no-indexing", "--label", label, *options, str(path))
    subprocess.run(quick, check=True, capture_output=True, timeout=60)
    return path


def copy_in(volume: Path, name: str, data: bytes, *options: str) -> None:
    """Without mounting: ntfscp writes into the root directory or an existing one."""
    source = volume.with_name("copied")
    source.write_bytes(data)
    command = (need("ntfscp"), "--quiet", "--force", *options, str(volume), str(source), name)
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@contextmanager
def mounted(volume: Path) -> Iterator[Path]:
    """By FUSE, for directories, deleted files, links and streams."""
    need_root()
    need("ntfs-3g")
    if not Path("/dev/fuse").exists():
        unfit("no FUSE here")
    point = volume.with_name("mounted")
    point.mkdir(exist_ok=True)
    options = "big_writes,streams_interface=windows"
    ran = subprocess.run(
        ("ntfs-3g", "-o", options, str(volume), str(point)), capture_output=True, text=True, timeout=60
    )
    if ran.returncode:
        unfit(f"NTFS cannot be mounted: {ran.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(("umount", str(point)), check=True, timeout=60)


def shipped(path: Path, **options: object) -> Path:
    """With the platform's file, and what Windows puts beside it."""
    make_volume(path, **options)  # type: ignore[arg-type]
    with mounted(path) as point:
        (point / README).write_bytes(WARNING)
        (point / INFORMATION / "deeper").mkdir(parents=True)
        (point / INFORMATION / "tracking.log").write_bytes(bytes(20480))
        (point / INFORMATION / "deeper" / "file").write_bytes(b"x")
    return path
