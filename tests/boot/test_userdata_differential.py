"""customData under Debian 13's cloud-init and under azure-init: the file trees that they leave are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.bounds import sample
from support.userdata_defects import DEFECTS
from support.userdata_differences import differences
from support.userdata_documents import TRIALS
from support.userdata_trees import Entry, by_azure_init, by_cloud_init
from support.userdata_trial import Trial


@pytest.fixture(scope="module")
def always(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entry]:
    """What cloud-init changes for an empty document."""
    layer = by_cloud_init(tmp_path_factory.mktemp("empty") / "peer", b"#cloud-config\n{}\n")
    return layer.entries()


def test_there_are_as_many_documents_as_the_table_promises() -> None:
    assert len(TRIALS) - len(DEFECTS) >= 40
    assert len(DEFECTS) >= 10
    assert len({trial.name for trial in TRIALS}) == len(TRIALS)


@pytest.mark.parametrize("trial", sample(TRIALS, 12), ids=lambda trial: trial.name)
def test_both_leave_the_same_tree(trial: Trial, always: dict[str, Entry], tmp_path: Path) -> None:
    ours = by_azure_init(tmp_path / "ours", trial.data)
    if trial.refused:
        assert differences(always, ours.entries(), always=always) == {}, ours.said
        return
    theirs = by_cloud_init(tmp_path / "theirs", trial.data)
    found = differences(theirs.entries(), ours.entries(), always=always)
    assert set(found) == set(trial.differs), "\n".join(
        [*(f"{path}\n{told}" for path, told in found.items()), ours.said]
    )
