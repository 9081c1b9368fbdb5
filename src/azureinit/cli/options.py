"""The rows of the option tables, and the global options of `azure-init`, as data.

Parsers, help texts, shell completions and manual pages read these tables. A boot imports this module only; the tables
of commands are in `commands` (azure-init) and `kvp_options` (libazureinit-kvp).
"""

from __future__ import annotations

from azureinit.record import Record
from azureinit.run.stages import STAGES

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
GLOBAL = (
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
        choices=tuple(stage.name for stage in STAGES if stage.name != "provision"),
        help="run one stage of a boot, for its systemd unit: local (set the host name before DHCP starts), failed "
        "(report that the run died), resend (send the Ready that the platform has not accepted yet), hostname "
        "(wait until the host name changes, and register it in DNS), addresses (follow changes of NICs and addresses), "
        "disk (set up temporary disks), network, config and final (carry out customData), deadline (report that "
        "customData has not ended in time)",
    ),
    Option(
        names=("--root",),
        value="DIR",
        kind=DIRECTORY,
        help="work on the file tree in DIR; the running kernel and services are not touched",
    ),
    VERSION,
    HELP,
)
