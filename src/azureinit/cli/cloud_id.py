"""The `cloud-id` command for machines without cloud-init: the platform's name, from the instance data.

Exit status, as in cloud-init: 0 known, 1 an error, 2 nothing is carried out here, 3 not begun yet.
"""

from __future__ import annotations

import argparse
import sys

from azureinit.cli.cloud_init import DISABLED, NOT_STARTED, running_status
from azureinit.errors import AzureInitError, LocalError
from azureinit.facts.cloud_init_state import read_state
from azureinit.jsontext import loads
from azureinit.modules.compat_files import RUN
from azureinit.run.instance_data import MOST_BYTES, PUBLIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from azureinit.machine import Machine

UNKNOWN = "unknown"
EXIT = {DISABLED: 2, NOT_STARTED: 3}


def command() -> NoReturn:
    from azureinit.machine.this_process import leave, open_streams

    open_streams()
    leave(main(sys.argv[1:]))


def main(argv: list[str]) -> int:
    from azureinit.machine import Machine

    asked = parser().parse_args(argv)
    try:
        return show(asked, Machine())
    except AzureInitError as error:
        sys.stderr.write(f"cloud-id: {error}\n" + (f"cloud-id: {error.hint}\n" if error.hint else ""))
        return 1
    except BrokenPipeError:
        return 0


def parser() -> argparse.ArgumentParser:
    about = "Print the name of the platform. This command belongs to azure-init, which takes the place of cloud-init."
    top = argparse.ArgumentParser(prog="cloud-id", description=about)
    top.add_argument("-j", "--json", action="store_true", help="print all of v1, as JSON")
    top.add_argument("-l", "--long", action="store_true", help="print the region, too, after a tab")
    where = f"{RUN}/{PUBLIC}"
    top.add_argument("-i", "--instance-data", default=where, help=f"the file to read; default: {where}")
    return top


def show(asked: argparse.Namespace, machine: Machine) -> int:
    running = running_status(read_state(machine))
    if running in EXIT:
        print(running)
        return EXIT[running]
    print(answer(read_standard(machine, asked.instance_data), as_json=asked.json, long=asked.long))
    return 0


def read_standard(machine: Machine, path: str) -> dict[str, Any]:
    data = machine.read(path, limit=MOST_BYTES)
    if data is None:
        raise LocalError(f"there is no {path}", hint="name the file of instance data by --instance-data")
    try:
        values = loads(data.decode())
    except ValueError:
        values = None
    if not isinstance(values, dict) or not isinstance(values.get("v1", {}), dict):
        raise LocalError(f"{path} is no instance data: it is not a JSON object")
    standard: dict[str, Any] = values.get("v1", {})
    return standard


def answer(standard: dict[str, Any], *, as_json: bool, long: bool) -> str:
    name = str(standard.get("cloud_id") or standard.get("cloud_name") or UNKNOWN)
    if as_json:
        import json

        return json.dumps({**standard, "cloud_id": name}, indent=1, sort_keys=True)
    return f"{name}\t{standard.get('region') or UNKNOWN}" if long else name
