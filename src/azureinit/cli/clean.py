"""`azure-init clean`: removes what marks this machine as provisioned, so that the next boot provisions it again."""

from __future__ import annotations

import sys

from azureinit.cli.commands import BY_NAME
from azureinit.cli.parser import parse
from azureinit.memory.instance import claim_waagent_marker, clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.config.model import Config
    from azureinit.machine import Machine


def main(argv: list[str], *, machine: Machine, configured: Callable[[], Config]) -> int:
    options = parse(BY_NAME["clean"], argv, prog="azure-init clean", out=sys.stdout)
    if options is None:
        return 0
    config = configured()
    data_dir = config.azure_init_data_dir.path
    taken_over = claim_waagent_marker(machine, config.waagent.lib_dir)
    if taken_over:
        print("forgot that WALinuxAgent provisioned this machine")
    removed = () if taken_over and machine.names(data_dir) is None else clean(machine, data_dir)
    print(f"removed {', '.join(removed)}" if removed else "nothing to remove")
    if options.logs:
        output = f"{config.azure_init_data_dir.path.rstrip('/')}/custom-data.log"
        removed = tuple(path for path in (output, f"{output}.1") if machine.remove(path))
        if removed:
            print(f"removed {', '.join(removed)}")
        for path in (config.azure_init_log_path.path, f"{config.azure_init_data_dir.path.rstrip('/')}/trace.jsonl"):
            machine.remove(f"{path}.1")
            print(f"removed {path}" if machine.remove(path) else f"nothing to remove: {path}")
    return 0
