"""Files of package sources: which of them exist."""

from __future__ import annotations

from azureinit.facts.system_files import Target, read_target
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.machine import Machine


class RepoFiles(Record):
    supported: bool  # a package manager that reads them is installed
    existing: frozenset[str]
    targets: Mapping[str, Target] = {}
    configuration: Secret | None = None


def read_repo_files(
    machine: Machine, paths: tuple[str, ...], *, directories: tuple[str, ...], configuration: str = ""
) -> RepoFiles:
    """`directories`: one of them is there where the package manager is. `configuration`: its own file."""
    data = machine.read(configuration) if configuration else None
    return RepoFiles(
        supported=any(machine.is_dir(path) for path in directories),
        existing=frozenset(path for path in paths if machine.stat(path, follow=False) is not None),
        targets={path: read_target(machine, path) for path in paths},
        configuration=None if data is None else Secret(data),
    )
