"""/etc/default/grub as a real shell reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from azureinit.facts.bootloader import (
    GRUB,
    overrides,
    parse_assignments,
)
from support.need import need


@pytest.mark.parametrize(
    "lines",
    [
        'GRUB_CMDLINE_LINUX="a b=c"',
        "GRUB_CMDLINE_LINUX=a",
        "GRUB_CMDLINE_LINUX=a # b",
        'GRUB_CMDLINE_LINUX="a"\nGRUB_CMDLINE_LINUX="b"',
        'GRUB_CMDLINE_LINUX="a"\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX b"',
        'GRUB_CMDLINE_LINUX="a"\nexport GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX} b"',
        'GRUB_CMDLINE_LINUX_DEFAULT="a"\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX_DEFAULT"',
        "# GRUB_CMDLINE_LINUX=a\nGRUB_CMDLINE_LINUX_DEFAULT='b'",
        'GRUB_CMDLINE="a"\n  GRUB_CMDLINE_LINUX="b"  ',
        "",
    ],
)
def test_defaults_are_read_as_a_shell_reads_them(tmp_path: Path, lines: str) -> None:
    file = tmp_path / "grub"
    file.write_text(lines)
    script = '. "$1"; echo "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"'
    told = subprocess.run((need("sh"), "-c", script, "sh", str(file)), capture_output=True, text=True, check=True)
    assert parse_assignments((lines.encode(),), GRUB) == set(told.stdout.split())


@pytest.mark.parametrize(
    "line",
    [
        "GRUB_CMDLINE_LINUX=",
        'GRUB_CMDLINE_LINUX="a"',
        'export GRUB_CMDLINE_LINUX="a"',
        'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX_DEFAULT a"',
        'GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX_DEFAULT}"',
        'GRUB_CMDLINE_LINUX_DEFAULT="a"',
        "#GRUB_CMDLINE_LINUX=a",
        'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX a"',
        'GRUB_CMDLINE_LINUX="a $GRUB_CMDLINE_LINUX"',
        'GRUB_CMDLINE_LINUX="a"" $GRUB_CMDLINE_LINUX"',
        'GRUB_CMDLINE_LINUX=$GRUB_CMDLINE_LINUX" a"',
        'GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }a"',
        'GRUB_CMDLINE_LINUX="$(echo "$GRUB_CMDLINE_LINUX" | tr a b)"',
        "",
    ],
)
def test_what_a_file_drops_is_what_a_shell_would_drop(tmp_path: Path, line: str) -> None:
    file = tmp_path / "zz.cfg"
    file.write_text(line)
    script = 'GRUB_CMDLINE_LINUX=ours; . "$1"; echo "$GRUB_CMDLINE_LINUX"'
    told = subprocess.run((need("sh"), "-c", script, "sh", str(file)), capture_output=True, text=True, check=True)
    assert overrides(line.encode(), GRUB[0]) == ("ours" not in told.stdout.split())
