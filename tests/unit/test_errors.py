"""The error classes agree with the table in errors.py and with docs/exit-codes.md."""

from __future__ import annotations

import re
from pathlib import Path

from azureinit import errors
from azureinit.errors import AzureInitError, LocalError, StepFailed

DOCS = Path(__file__).parents[2] / "docs"


def tree(cls: type[AzureInitError] = AzureInitError) -> list[type[AzureInitError]]:
    return [cls, *(one for child in cls.__subclasses__() for one in tree(child))]


def drawing() -> dict[str, tuple[str, int]]:
    lines = re.findall(r"^    [ |+-]*([A-Z]\w+) {2,}(.+?) {2,}(\d+) ", errors.__doc__ or "", flags=re.MULTILINE)
    return {name: (reason, int(code)) for name, reason, code in lines}


def test_every_reason_is_unique() -> None:
    reasons = [cls.reason for cls in tree()]
    assert len(reasons) == len(set(reasons))


def test_the_drawing_shows_the_tree_and_nothing_else() -> None:
    assert drawing() == {cls.__name__: (cls.reason, cls.exit_code) for cls in tree()}


def test_the_manual_names_every_reason_and_exit_code_and_nothing_else() -> None:
    text = (DOCS / "exit-codes.md").read_text()
    told = dict(re.findall(r"^\| `([^`]+)` \| (\d+) \|", text, flags=re.MULTILINE))
    assert {reason: int(code) for reason, code in told.items()} == {cls.reason: cls.exit_code for cls in tree()}
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)}
    assert codes == {0, 3, 4, *(cls.exit_code for cls in tree())}


def test_a_failed_step_keeps_every_backends_failure() -> None:
    failure = StepFailed("hostname", {"native": LocalError("disk full"), "hostnamectl": LocalError("no bus")})
    assert failure.supporting() == {"step": "hostname", "native": "disk full", "hostnamectl": "no bus"}
    assert "disk full" in str(failure) and "no bus" in str(failure)
