"""The command line: what is printed, what runs, and how it ends; each verb's module is imported when called."""

from __future__ import annotations

import sys

from azureinit.cli.words import Command, parse_args
from azureinit.errors import AzureInitError, ConfigInvalid, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from azureinit.config.load import Loaded
    from azureinit.config.model import Config
    from azureinit.machine import Machine
    from azureinit.run.engine import Context

HELP = """\
Provision this Linux machine from Azure's metadata, and tell the platform how it went.

Usage: azure-init [OPTIONS] [COMMAND]

Commands:
  provision        make the machine what the platform asked for, then report (what happens without a command)
  plan             show what provision would do, and do nothing   [--json] [--check]
  facts            show what the machine is, as the plan sees it
  config show      every setting, and who said it                 [--json]
  config check     tell what is wrong with a configuration file   [FILE...]
  config schema    JSON Schema of the configuration, for editors
  config import-waagent   take over WALinuxAgent's waagent.conf   [FILE] [--write]
  clean            forget that this machine was provisioned       [--logs]
  deprovision      remove what is this machine's, for an image    [--user] [--lock-root] [--force] [--dry-run]
  kvp              look into the Hyper-V key-value pools, or change them [COMMAND]
  help             this text, or that of a command                [COMMAND]

Options:
  -g, --groups <GROUPS>   supplementary groups of the admin, comma separated, repeatable [env: AZURE_INIT_USER_GROUPS]
                          (without it a new account joins those of adm, sudo and wheel that exist; "" is none)
      --config <CONFIG>   configuration file or directory, read last [env: AZURE_INIT_CONFIG]
      --stage <STAGE>     a boot's unit beside the run itself: local (the host name, before DHCP), failed (tell the
                          platform that the run died), resend (a Ready it has not accepted yet), hostname (wait for
                          the host name to change, and tell DNS)
      --root <DIR>        work on the file tree in DIR; the running kernel and services are not touched
  -V, --version           print the version
  -h, --help              print this text; after a command, what that one takes

Environment: AZURE_INIT_LOG sets how much is told: off, error, warn, info, debug or trace, for all or for one target,
as in info,libazureinit::http=debug; AZURE_INIT_KVP_FILTER says the same of what the host is told.

Exit codes: 0 done, already done, or not on Azure; 1 failed; 2 usage; 3 plan --check found work to do;
4 plan --check found none, as far as a user who is not root can tell;
75 done but the platform has not accepted the verdict yet; 78 configuration error or user missing.
"""
UNMOUNTED = ("local", "failed")  # they run before the file systems are mounted, or because one could not be
ROOTLESS = ("config", "kvp")  # they look at single files, in whatever tree


def main(argv: list[str] | None = None) -> int:
    """The exit code. Whatever a user or a platform does, what is told is a sentence."""
    from azureinit.machine.this_process import open_streams

    open_streams()
    try:
        status = run(parse_args(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except AzureInitError as error:
        _complain(f"azure-init: {error}" + (f"\nazure-init: {error.hint}" if error.hint else ""))
        return error.exit_code
    except BrokenPipeError:
        return 0  # whoever read our output has seen enough
    except OSError as error:
        _complain(f"azure-init: cannot write: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        _complain("azure-init: interrupted")
        return 130
    return status


def command() -> NoReturn:
    """What an installed `azure-init` calls."""
    from azureinit.machine.this_process import leave

    leave(main())


def _complain(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
    except OSError:
        pass  # nobody listens; the exit code still tells


def run(command: Command) -> int:
    if command.verb == "help":
        sys.stdout.write(HELP)
        return 0
    if command.version and not {"-h", "--help"} & set(command.rest):
        return tell_version(command)
    from azureinit.machine import Machine
    from azureinit.machine.limits import forbid_core_dumps

    forbid_core_dumps()
    machine = Machine(root=command.root)
    if command.root != "/":
        _check_root(command, machine)
    return provision(command, machine) if command.verb == "provision" else operate(command, machine)


def tell_version(command: Command) -> int:
    """A verb that is named beside it does nothing, but its arguments have to be right."""
    from azureinit.version import ANSWERS_FOR, VERSION

    if command.verb == "clean":
        from azureinit.cli.clean import parser
        from azureinit.cli.parser import parsed

        parsed(parser(), list(command.rest))
    sys.stdout.write(f"azure-init {VERSION}, a drop-in for Azure's azure-init {ANSWERS_FOR}\n")
    return 0


def _check_root(command: Command, machine: Machine) -> None:
    if not machine.is_dir("/"):
        what = "there is no such directory" if machine.stat("/") is None else "it is not a directory"
        raise UsageError(f"--root {command.root}: {what}")
    if command.verb not in ROOTLESS and not machine.is_dir("/etc"):
        raise UsageError(f"{command.root} holds no system (there is no etc in it): name the root of one")


def operate(command: Command, machine: Machine) -> int:
    """The verbs that people type. Each reads its own arguments before it asks for the configuration."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that a terminal cannot show is no reason to end
    rest = list(command.rest)
    if command.verb == "config":
        from azureinit.cli.config import main as config_main

        return config_main(
            rest, machine=machine, config=command.config, groups=command.groups, out=sys.stdout, err=sys.stderr
        )

    if command.verb == "kvp":
        from azureinit.cli.kvp import main as kvp_main

        return kvp_main(rest, machine=machine, out=sys.stdout, err=sys.stderr, prog="azure-init kvp")

    def configured() -> Config:
        loaded = load(command, machine)
        for warning in loaded.warnings:
            _complain(f"azure-init: warning: {warning}")
        return loaded.config

    if command.verb == "clean":
        from azureinit.cli.clean import main as clean_main

        return clean_main(rest, machine=machine, configured=configured)
    if command.verb == "deprovision":
        from azureinit.cli.deprovision import main as deprovision_main

        return deprovision_main(rest, machine=machine, configured=configured)
    from azureinit.cli.show import main as show_main

    return show_main(command.verb, rest, machine=machine, configured=configured)


def load(command: Command, machine: Machine) -> Loaded:
    from azureinit.config.load import load

    return load(machine, config=command.config, groups=command.groups)


def provision(command: Command, machine: Machine) -> int:
    from azureinit.machine.service import notify
    from azureinit.machine.this_process import set_umask
    from azureinit.run.engine import provision, reject

    set_umask()
    started = machine.clock.monotonic()
    try:
        loaded = load(command, machine)
    except ConfigInvalid as error:
        from azureinit.config.load import load_usable

        if command.stage and command.stage != "failed":
            raise  # the run comes upon it, too, and it is the run that reports
        usable = load_usable(machine, config=command.config, groups=command.groups)
        context = _context(machine, usable, started=started, stage=command.stage)
        if not command.stage:
            return reject(context, error)
    else:
        context = _context(machine, loaded.config, started=started, stage=command.stage)
        for warning in loaded.warnings:
            context.events.tell(30, "config", warning)
    if command.stage:
        from azureinit.run.stages import run_stage

        return run_stage(command.stage, context)
    status = provision(context)
    if status == 0:
        notify(machine, "READY=1")  # once more is no harm, and some ends never came to say it
    return status


def _context(machine: Machine, config: Config, *, started: float, stage: str) -> Context:
    from azureinit.machine.service import boot_moment, is_service
    from azureinit.run.engine import Context
    from azureinit.sources.identity import stand_down
    from azureinit.telemetry.listen import listen

    ours = stand_down(machine, require_azure=config.platform.require_azure) is None
    data, log = _unmounted(machine, config, stage) if ours else (None, None)
    heard = listen(
        machine,
        config,
        write=sys.stderr.write,
        ours=ours,
        verdict=stage not in ("local", "hostname"),
        trace=data is None,
        log=log is None,
    )
    return Context(
        machine=machine,
        config=config,
        events=heard.events,
        started=started,
        kvp=heard.kvp,
        otlp=heard.otlp,
        booted=boot_moment(machine) if is_service(machine) else None,
        unmounted=data,
    )


def _unmounted(machine: Machine, config: Config, stage: str) -> tuple[str | None, str | None]:
    """The mount points that the data directory and the log wait for. What the run itself needs is mounted now."""
    from azureinit.machine.service import is_service

    data_dir = config.azure_init_data_dir
    waits = not stage and is_service(machine) and data_dir != data_dir.__class__()  # else its unit requires the mount
    if machine.rooted or not (waits or stage in UNMOUNTED):
        return None, None
    from azureinit.facts.mounts import missing_mount

    data = missing_mount(machine, data_dir.path)
    if data is not None and waits:
        from azureinit.run.maintenance import start_mount

        data = start_mount(machine, data_dir.path, data)
    return data, missing_mount(machine, config.azure_init_log_path.path.rpartition("/")[0])
