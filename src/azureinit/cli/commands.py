"""The option table of `azure-init`: its commands, their options and arguments. A boot does not import it."""

from __future__ import annotations

from azureinit.cli.options import COMMANDS, FILE, GLOBAL, Argument, Command, Option

FETCH = Option(names=("--fetch",), help="fetch the URLs of includes and files, and take their content into account")
ALLOW_HTTP = Option(names=("--allow-http",), help="accept http:// URLs")

AZURE_INIT = Command(
    name="azure-init",
    help="provision this Linux machine from Azure's metadata, and report the result to the platform",
    options=GLOBAL,
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
            name="disk",
            help="show and set up the VM's temporary disks",
            commands=(
                Command(
                    name="status",
                    help="show every disk: what it is, what it holds, what uses it, and why it is left alone",
                    options=(Option(names=("--json",), help="print JSON, for programs"),),
                ),
                Command(
                    name="plan",
                    help="show what setup would do, and change nothing",
                    options=(Option(names=("--json",), help="print JSON, for programs"),),
                ),
                Command(
                    name="setup",
                    help="set up the temporary disks now, whether disk.setup is off or auto",
                    options=(
                        Option(
                            names=("--recreate",),
                            help="also format temporary disks that are not blank, if nothing uses them: data are lost",
                        ),
                        Option(names=("--json",), help="print the status afterwards as JSON"),
                    ),
                ),
            ),
        ),
        Command(
            name="userdata",
            help="check customData in cloud-init's formats, and show what it becomes",
            about="Check customData in cloud-init's formats: cloud-config, scripts, MIME, gzip, includes and others; "
            "show what it becomes on this machine; carry it out in a file tree.",
            any_root=True,
            commands=(
                Command(
                    name="validate",
                    help="print every mistake in customData, with line, column and suggestion; exit status 1 if one is "
                    "an error",
                    options=(Option(names=("--json",), help="print JSON, for programs"), FETCH, ALLOW_HTTP),
                    arguments=(Argument(name="FILE", kind=FILE, help="the file to check; - for standard input"),),
                ),
                Command(
                    name="explain",
                    help="show the stages, modules and steps that customData becomes here, and change nothing",
                    options=(Option(names=("--json",), help="print JSON, for programs"), FETCH, ALLOW_HTTP),
                    arguments=(Argument(name="FILE", kind=FILE, help="the file to explain; - for standard input"),),
                ),
                Command(
                    name="run",
                    help="carry out customData in the file tree of --root, all stages in their order; exit status 1 if "
                    "a module fails",
                    options=(FETCH, ALLOW_HTTP),
                    arguments=(Argument(name="FILE", kind=FILE, help="the file to carry out; - for standard input"),),
                ),
                Command(name="schema", help="print the JSON Schema of a cloud-config, for editors"),
            ),
        ),
        Command(
            name="query",
            help="print instance data, which the templates of customData use; what is sensitive only for root",
            options=(
                Option(names=("--all",), help="print all of it, as JSON"),
                Option(names=("--list-keys",), help="print the names below KEY, or the first ones"),
                Option(names=("--format",), value="TEXT", help="render TEXT as a jinja template, and print it"),
            ),
            arguments=(
                Argument(name="KEY", required=False, help="a name, or names with dots between them: v1.region"),
            ),
        ),
        Command(
            name="clean",
            help="forget that this machine was provisioned: the next boot provisions it again",
            about="Remove the records of every VM from the data directory: markers, journal, pending verdict, saved "
            "media, customData, disk sets, network, pool. Accounts, keys, settings and network files stay; customData "
            "is carried out again, too.",
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
VERBS = tuple(BY_NAME)
