"""The option table of `azure-init`: its commands, their options and arguments, as data.

Parsers, help texts, shell completions and manual pages read this table. The boot imports it too, so it holds data
only and imports nothing else. The table of the key-value tool is in kvp_options, which a boot does not import.
"""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Kinds of values: which text is accepted, and what a shell offers as candidates.
TEXT = "text"  # must be UTF-8
FILE, DIRECTORY = "file", "directory"  # any bytes, but not empty
GROUPS = "groups"
COMMANDS = "commands"  # the name of a command beside this one


class Option(Record):
    names: tuple[str, ...]  # the short name first
    help: str
    value: str = ""  # the name of its value in the help; empty for a flag
    kind: str = TEXT
    choices: tuple[str, ...] = ()
    optional: bool = False  # the value may be left out, as in --user [NAME]
    many: bool = False  # may be given several times
    required: bool = False
    default: str | None = None
    env: str = ""  # the environment variable that sets the same
    parse: Callable[[str], Any] | None = None  # text -> value; raises ValueError; checks the choices itself

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def key(self) -> str:
        """The attribute that holds its value."""
        return self.name.lstrip("-").replace("-", "_")

    @property
    def takes_next(self) -> bool:
        """Whether the next word is always its value."""
        return bool(self.value) and not self.optional


class Argument(Record):
    name: str  # as the help shows it: FILE
    help: str = ""
    kind: str = TEXT
    choices: tuple[str, ...] = ()
    required: bool = True
    many: bool = False

    @property
    def key(self) -> str:
        return self.name.lower()


class Command(Record):
    name: str
    help: str  # one sentence, without a capital and a full stop
    about: str = ""  # the first paragraph of its own help, where that says more
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()
    commands: tuple[Command, ...] = ()
    table: str = ""  # the module of azureinit.cli that holds its options and commands
    shared: bool = False  # its options may stand after its commands, too
    fixed: tuple[tuple[str, Any], ...] = ()  # attributes that no option sets
    any_root: bool = False  # works on single files: --root may name a directory that holds no system


HELP = Option(names=("-h", "--help"), help="print help")
VERSION = Option(names=("-V", "--version"), help="print the version")

AZURE_INIT = Command(
    name="azure-init",
    help="provision this Linux machine from Azure's metadata, and report the result to the platform",
    options=(
        Option(
            names=("-g", "--groups"),
            value="GROUPS",
            kind=GROUPS,
            many=True,
            env="AZURE_INIT_USER_GROUPS",
            help="supplementary groups of the admin user, comma separated, repeatable; an empty value means none "
            "(without this option, a new account joins those of adm, sudo and wheel that exist)",
        ),
        Option(
            names=("--config",),
            value="CONFIG",
            kind=FILE,
            env="AZURE_INIT_CONFIG",
            help="configuration file or directory, read after all others",
        ),
        Option(
            names=("--stage",),
            value="STAGE",
            choices=("local", "failed", "resend", "hostname"),
            help="run one stage of a boot, for its systemd unit: local (set the host name before DHCP starts), failed "
            "(report that the run died), resend (send the Ready that the platform has not accepted yet), hostname "
            "(wait until the host name changes, and register it in DNS)",
        ),
        Option(
            names=("--root",),
            value="DIR",
            kind=DIRECTORY,
            help="work on the file tree in DIR; the running kernel and services are not touched",
        ),
        VERSION,
        HELP,
    ),
    commands=(
        Command(
            name="provision",
            help="provision this machine, then report to the platform (the default without a command)",
        ),
        Command(
            name="plan",
            help="show what provision would do, and change nothing",
            options=(
                Option(names=("--json",), help="print JSON, for programs"),
                Option(names=("--check",), help="exit 3 when anything is left to do, 4 when only root can tell"),
            ),
        ),
        Command(name="facts", help="print what azure-init reads from this machine, as JSON"),
        Command(
            name="config",
            help="show and check the configuration",
            any_root=True,
            commands=(
                Command(
                    name="show",
                    help="print every setting, and where its value comes from",
                    options=(Option(names=("--json",), help="print JSON, for programs"),),
                ),
                Command(
                    name="check",
                    help="check configuration files; exit status 78 if one is wrong",
                    arguments=(
                        Argument(
                            name="FILE",
                            kind=FILE,
                            required=False,
                            many=True,
                            help="a file or directory; without one, the whole configuration is checked",
                        ),
                    ),
                ),
                Command(name="schema", help="print the JSON Schema of a configuration file, for editors"),
                Command(
                    name="import-waagent",
                    help="translate WALinuxAgent's waagent.conf into a configuration file",
                    arguments=(
                        Argument(
                            name="FILE",
                            kind=FILE,
                            required=False,
                            help="the waagent.conf to read; without it, the usual paths are tried",
                        ),
                    ),
                    options=(
                        Option(
                            names=("--write",),
                            help="write the result to /etc/azure-init/azure-init.toml.d/waagent.toml instead of "
                            "standard output",
                        ),
                    ),
                ),
            ),
        ),
        Command(
            name="clean",
            help="forget that this machine was provisioned: the next boot provisions it again",
            about="Remove the marker, journal, pending verdict and saved media of every VM from the data directory. "
            "Accounts, keys and settings stay.",
            options=(Option(names=("--logs",), help="also remove the log file and the trace"),),
        ),
        Command(
            name="deprovision",
            help="remove per-machine state, before an image is made of this machine",
            about="Remove per-machine state (host keys, machine id, host name, leases, logs), so that an image can "
            "be made of this machine. Shows the plan and asks before it changes anything.",
            options=(
                Option(
                    names=("--user",),
                    value="NAME",
                    optional=True,
                    help="also remove the provisioned account (or NAME) with its home; a system account is never "
                    "removed",
                ),
                Option(
                    names=("--lock-root",),
                    help="also remove root's password (user.lock_root and waagent.conf can ask for this, too)",
                ),
                Option(names=("--force",), help="do not ask for confirmation"),
                Option(names=("--dry-run",), help="show the plan, and change nothing"),
            ),
        ),
        Command(
            name="kvp",
            help="read or change the Hyper-V key-value pools",
            table="kvp_options",
            any_root=True,
            arguments=(Argument(name="COMMAND"),),
        ),
        Command(
            name="help",
            help="print the help of azure-init, or of a command",
            arguments=(Argument(name="COMMAND", kind=COMMANDS, required=False),),
        ),
    ),
)
BY_NAME = {command.name: command for command in AZURE_INIT.commands}


def option(name: str, command: Command = AZURE_INIT) -> Option:
    return next(each for each in command.options if name in each.names)
