"""Mounting what a row of fstab describes."""

from __future__ import annotations

from azureinit.plan.actions import Run

WAIT = 90.0  # seconds: a server may answer late


def mount_row(point: str) -> Run:
    """By its row. Not by systemd's unit: that waits for the service in which this runs."""
    return Run(argv=("mount", point), timeout=WAIT, changes=False)
