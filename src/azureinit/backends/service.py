"""Placeholder until the merge."""

from __future__ import annotations

from azureinit.plan.actions import Run


def start_unit(unit: str, *, wait: bool) -> Run:
    words = () if wait else ("--no-block",)
    return Run(argv=("systemctl", *words, "start", unit), timeout=10.0, changes=False)
