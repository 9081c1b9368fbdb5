"""File systems that hold the data directory and the log, and are not mounted yet when a unit starts."""

from __future__ import annotations

from azureinit.machine.service import is_service
from azureinit.run.stages import find_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.machine import Machine


def wait_for_mounts(machine: Machine, config: Config, stage: str) -> tuple[str | None, str | None]:
    """The missing mount points of the data directory and of the log; the run itself first mounts its data directory."""
    data_dir = config.azure_init_data_dir
    # The unit requires the mount of the default data directory, so that only a configured one can be missing.
    waits = not stage and is_service(machine) and data_dir != data_dir.__class__()
    if machine.rooted or not (waits or find_stage(stage).before_mounts):
        return None, None
    from azureinit.facts.mounts import missing_mount

    data = missing_mount(machine, data_dir.path)
    if data is not None and waits:
        from azureinit.run.mounts import start_mount

        data = start_mount(machine, data_dir.path, data)
    return data, missing_mount(machine, config.azure_init_log_path.path.rpartition("/")[0])
