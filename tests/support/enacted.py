"""The names of the steps that a run took, in order, from its trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# Spans of the run itself, which no plan names.
PHASES = ("metadata", "certificates", "report Ready", "report failure")


def enacted_steps(tree: Path) -> list[str]:
    """Each name once: a step is repeated if another program has undone it."""
    trace = tree / "var/lib/azure-init/trace.jsonl"
    lines = [json.loads(line) for line in trace.read_text().splitlines()] if trace.exists() else []
    names = [line["name"] for line in lines if line["kind"] == "start" and line["name"] not in PHASES]
    return list(dict.fromkeys(names))


def planned_steps(output: str) -> list[str]:
    """The names of the steps in the output of `azure-init plan --json`."""
    items: list[dict[str, Any]] = json.loads(output)
    return [item["name"] for item in items if item["kind"] == "step"]
