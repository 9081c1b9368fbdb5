"""The `cloud-init` command for machines without cloud-init: scripts call it to wait for customData and to read values.

Exit status of `status`, as in cloud-init: 0 done, 1 a stage failed, 2 done with warnings.
"""

from __future__ import annotations

import argparse
import sys

from azureinit.errors import AzureInitError, LocalError
from azureinit.facts.cloud_init_state import LAST_UNIT, QUEUED, RUN_UNIT, STOPPED, UNITS, State, read_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from azureinit.machine import Machine

POLL_SECS = 0.25
DONE, RUNNING, NOT_STARTED, DISABLED, ERROR = "done", "running", "not started", "disabled", "error"
STAGES = ("init-local", "init", "modules-config", "modules-final")
MODES = {"init": "network", "config": "config", "final": "final"}
BUSY = (QUEUED, "activating", "reloading", "deactivating")


def command() -> NoReturn:
    from azureinit.machine.this_process import leave, open_streams

    open_streams()
    leave(main(sys.argv[1:]))


def main(argv: list[str]) -> int:
    from azureinit.machine import Machine

    asked = parser().parse_args(argv)
    try:
        return int(asked.run(asked, Machine()))
    except AzureInitError as error:
        sys.stderr.write(f"cloud-init: {error}\n" + (f"cloud-init: {error.hint}\n" if error.hint else ""))
        return error.exit_code
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("cloud-init: interrupted\n")
        return 130


def parser() -> argparse.ArgumentParser:
    from azureinit.version import VERSION

    about = "This command belongs to azure-init, which carries out customData here in place of cloud-init."
    top = argparse.ArgumentParser(prog="cloud-init", description=about)
    top.add_argument("-v", "--version", action="version", version=f"cloud-init (azure-init {VERSION})")
    top.add_argument("-d", "--debug", action="store_true", help="accepted, without effect")
    top.add_argument("--force", action="store_true", help="accepted, without effect")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    status = commands.add_parser("status", help="show how far customData has come")
    status.add_argument("-l", "--long", action="store_true", help="show stages and errors, too")
    status.add_argument("-w", "--wait", action="store_true", help="wait until everything is done")
    status.add_argument("--format", choices=("tabular", "json", "yaml"), default="tabular", help="default: tabular")
    status.set_defaults(run=show_status)
    query = commands.add_parser("query", help="print values of the instance data")
    query.add_argument("-a", "--all", action="store_true", help="print all of it, as JSON")
    query.add_argument("-l", "--list-keys", action="store_true", help="print the names below VARNAME")
    query.add_argument("-f", "--format", help="render this text as a jinja template, and print it")
    query.add_argument("-i", "--instance-data", help="the file to read")
    query.add_argument("-u", "--user-data", help="a file, in place of this VM's customData")
    query.add_argument("-v", "--vendor-data", help="accepted; Azure has no vendor data")
    query.add_argument("-d", "--debug", action="store_true", help="accepted, without effect")
    query.add_argument("varname", nargs="?", help="a name, or names with dots between them: v1.region")
    query.set_defaults(run=run_query, usage=query.format_help)
    schema = commands.add_parser("schema", help="check a cloud-config")
    given = schema.add_mutually_exclusive_group()
    given.add_argument("-c", "--config-file", help="the file to check")
    given.add_argument("--system", action="store_true", help="check the customData of this VM")
    schema.add_argument("--annotate", action="store_true", help="accepted; findings always have line and column")
    schema.add_argument("-i", "--instance-data", help="accepted; templates are checked without being rendered")
    schema.add_argument("-t", "--schema-type", choices=("cloud-config",), default="cloud-config")
    schema.set_defaults(run=check_schema)
    clean = commands.add_parser("clean", help="forget what was done: the next boot provisions this machine again")
    clean.add_argument("-l", "--logs", action="store_true", help="remove logs, too")
    clean.add_argument("-r", "--reboot", action="store_true", help="reboot afterwards")
    clean.add_argument("-s", "--seed", action="store_true", help="accepted; azure-init has no seeds")
    clean.add_argument("--machine-id", action="store_true", help="make the next boot choose a new machine id")
    clean.add_argument("-c", "--configs", nargs="+", default=[], help="accepted; see azure-init deprovision")
    clean.set_defaults(run=clean_up)
    single = commands.add_parser("single", help="run one module")
    single.add_argument("-n", "--name", required=True, help="the module, as in cc_runcmd or runcmd")
    single.add_argument("--frequency", choices=("always", "instance", "once"), help="in place of the module's own")
    single.add_argument("-f", "--file", action="append", default=[], help="a cloud-config, in place of customData")
    single.add_argument("--report", action="store_true", help="accepted; failures are always reported")
    single.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    single.set_defaults(run=run_single)
    init = commands.add_parser("init", help="run what is left of the first stage of customData")
    init.add_argument("-l", "--local", action="store_true", help="nothing: azure-init.service does this in the boot")
    init.add_argument("-f", "--file", action="append", help="accepted, without effect")
    init.set_defaults(run=run_stage, stage="network")
    modules = commands.add_parser("modules", help="run what is left of a stage of customData")
    modules.add_argument("-m", "--mode", dest="stage", choices=tuple(MODES), default="config", help="default: config")
    modules.add_argument("-f", "--file", action="append", help="accepted, without effect")
    modules.set_defaults(run=run_stage, local=False)
    return top


# ---- status


def running_status(state: State) -> str:
    """Whether the stages are over. Without systemd only the files tell."""
    if state.disabled:
        return DISABLED
    units = state.units
    if any(units.get(unit) in BUSY for unit in UNITS):
        return RUNNING
    if state.stages and not units:
        return DONE if state.finished else RUNNING
    if state.stages or units.get(RUN_UNIT) in ("active", "failed", STOPPED):
        return DONE  # where there are no stages, nothing was to be carried out
    return NOT_STARTED


def status_values(state: State) -> dict[str, Any]:
    stages = {name: state.stages[name] for name in STAGES if isinstance(state.stages.get(name), dict)}
    errors = [text for stage in stages.values() for text in stage.get("errors", ())]
    running = running_status(state)
    if state.units.get(RUN_UNIT) == "failed":
        errors.append(f"{RUN_UNIT} failed")
    if running == DONE and stages and not state.finished:
        errors.append(f"{LAST_UNIT} has not finished its work, and is not running")
    warnings: dict[str, list[str]] = {}
    for stage in stages.values():
        for level, texts in stage.get("recoverable_errors", {}).items():
            warnings.setdefault(level, []).extend(texts)
    extended = f"{ERROR} - {running}" if errors else f"degraded {running}" if warnings else running
    times = [float(stage.get(key) or 0.0) for stage in stages.values() for key in ("start", "finished")]
    return {
        "boot_status_code": state.disabled_by or "enabled-by-generator",
        "datasource": "azure" if stages else "",
        "detail": state.disabled or state.stages.get("datasource") or "azure-init provisions this VM",
        "errors": errors,
        "extended_status": extended,
        "last_update": _date(max(times)) if any(times) else "",
        "recoverable_errors": warnings,
        "stage": state.stages.get("stage"),
        "status": ERROR if errors else running,
        **stages,
    }


def exit_status(values: dict[str, Any]) -> int:
    return 1 if values["errors"] else 2 if values["recoverable_errors"] else 0


def show_status(asked: argparse.Namespace, machine: Machine) -> int:
    state, waited = read_state(machine), False
    while asked.wait and running_status(state) in (RUNNING, NOT_STARTED):
        if asked.format == "tabular":
            sys.stdout.write(".")
            sys.stdout.flush()
            waited = True
        machine.clock.sleep(POLL_SECS)
        state = read_state(machine)
    values = status_values(state)
    if asked.format == "json":
        import json

        print(json.dumps(values, indent=2, sort_keys=True))
    elif asked.format == "yaml":
        _print_yaml(values)
    else:
        print("\n" * waited + f"status: {values['status']}")
        if asked.long:
            print("".join(_long(values)), end="")
    return exit_status(values)


def _long(values: dict[str, Any]) -> list[str]:
    lines = [f"{key}: {values[key]}\n" for key in ("extended_status", "boot_status_code")]
    lines += [f"last_update: {values['last_update']}\n"] if values["last_update"] else []
    lines.append(f"detail: {values['detail']}\n")
    texts = "".join(f"\n\t- {text}" for text in values["errors"]) or " []"
    lines.append(f"errors:{texts}\n")
    warned = "".join(
        f"\n{level}:" + "".join(f"\n\t- {text}" for text in texts)
        for level, texts in values["recoverable_errors"].items()
    )
    return [*lines, f"recoverable_errors:{warned or ' {}'}\n"]


def _print_yaml(values: dict[str, Any]) -> None:
    from azureinit.userdata.packages import find_yaml

    yaml = find_yaml()
    if yaml is None:
        raise LocalError("PyYAML is not installed", hint="use --format json, or install python3-yaml")
    print("---\n" + yaml.safe_dump(values, indent=4, default_flow_style=False), end="...\n")


def _date(moment: float) -> str:
    from email.utils import formatdate

    return formatdate(moment)


# ---- the others


def run_query(asked: argparse.Namespace, machine: Machine) -> int:
    from azureinit.cli.query import answer, known_data
    from azureinit.cli.userdata import read_document

    if not (asked.all or asked.list_keys or asked.varname or asked.format):
        sys.stdout.write(asked.usage())
        sys.stderr.write("cloud-init: query: name a variable, or use --all, --list-keys or --format\n")
        return 1
    data = known_data(machine) if asked.instance_data is None else _data_in(machine, asked.instance_data)
    if asked.user_data is not None:
        data = {**data, "userdata": read_document(machine, asked.user_data, None).decode("utf-8", "replace")}
    key = "" if asked.all else asked.varname or ""
    sys.stdout.write(answer(machine, data, key=key, text=asked.format, names=asked.list_keys))
    return 0


def _data_in(machine: Machine, path: str) -> dict[str, Any]:
    from azureinit.cli.userdata import read_document
    from azureinit.jsontext import loads

    try:
        found = loads(read_document(machine, path, None).decode())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LocalError(f"{path} is no instance data: it is not a JSON object")
    return found


def check_schema(asked: argparse.Namespace, machine: Machine) -> int:
    from azureinit.cli.userdata import as_text, read_document
    from azureinit.userdata.validate import validate

    if not asked.system and asked.config_file is None:
        raise LocalError("schema: use --config-file or --system")
    if asked.system:
        data, name = _own_data(machine), "customData"
    else:
        data, name = read_document(machine, asked.config_file, None), asked.config_file
    if not data.strip():
        sys.stdout.write(f"{name} is empty: nothing to check\n")
        return 0
    report = validate(data)
    sys.stdout.write(as_text(report, name) if report.findings else "")
    if report.errors:
        sys.stderr.write("Error: Invalid schema: user-data\n")
        return 1
    sys.stdout.write(f"Valid schema {name}\n")
    return 0


def _own_data(machine: Machine) -> bytes:
    data = machine.read("/var/lib/cloud/instance/user-data.txt", limit=64 << 20)
    if data is None:
        raise LocalError("this VM has no customData that was carried out")
    return data


def clean_up(asked: argparse.Namespace, machine: Machine) -> int:
    from azureinit.cli.clean import main as clean
    from azureinit.config.load import load
    from azureinit.modules.commands import PEER_LOG as OUTPUT_LOG
    from azureinit.modules.compat_files import CLOUD, RUN
    from azureinit.telemetry.log import PEER_LOG as LOG

    config = load(machine, config=None, groups=None).config
    status = clean(["--logs"] if asked.logs else [], machine=machine, configured=lambda: config)
    from azureinit.machine.trees import remove_tree

    names = (f"{CLOUD}/instance", f"{CLOUD}/instances", f"{CLOUD}/data", f"{CLOUD}/sem", RUN)
    for path in names:
        remove_tree(machine, path)
    if asked.machine_id:
        machine.write("/etc/machine-id", b"uninitialized\n", mode=0o444)
    if asked.logs:
        for path in (LOG, OUTPUT_LOG):
            machine.remove(path)
            machine.remove(f"{path}.1")  # the older one, after a rotation
    if asked.reboot and status == 0:
        from azureinit.backends.shell import REBOOT

        machine.run(REBOOT, timeout=60).check()
    return status


def run_single(asked: argparse.Namespace, machine: Machine) -> int:
    from azureinit.cli.single import main as single

    name = asked.name[3:] if asked.name.startswith("cc_") else asked.name
    return single(name.replace("-", "_"), machine=machine, frequency=asked.frequency or "", files=list(asked.file))


def run_stage(asked: argparse.Namespace, machine: Machine) -> int:
    """As the unit of the stage does. What has run is not run again, except for what runs at every boot."""
    from azureinit.cli.provision import make_context
    from azureinit.config.load import load
    from azureinit.run.dispatch import run_stage as run

    if asked.local:
        sys.stdout.write("nothing to do: azure-init.service does this in the boot\n")
        return 0
    if not machine.privileged:
        raise LocalError("only root runs a stage")
    stage = MODES.get(asked.stage, asked.stage)
    config = load(machine, config=None, groups=None).config
    return run(stage, make_context(machine, config, started=machine.clock.monotonic(), stage=stage))
