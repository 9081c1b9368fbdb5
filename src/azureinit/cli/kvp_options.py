"""The option table of `libazureinit-kvp`, which is also `azure-init kvp`."""

from __future__ import annotations

from azureinit.cli.options import COMMANDS, DIRECTORY, FILE, HELP, Argument, Command, Option
from azureinit.kvp.diagnostics import KINDS
from azureinit.kvp.report import parse_supporting
from azureinit.kvp.store import DIRECTORY as POOL_DIRECTORY, GUEST, POOLS

PROG = "libazureinit-kvp"
AGENT = "libazureinit-kvp/0.1.0"  # the name that Azure's own tool writes into reports


def parse_pool(text: str) -> str:
    if text in POOLS:
        return text
    if text in ("0", "1", "2", "3", "4"):
        return POOLS[int(text)]
    raise ValueError(f"invalid value '{text}', it must be one of {', '.join(POOLS)}")


def parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"invalid value '{text}', it must be seconds from 0 on")
    return seconds


KEY = Argument(name="KEY", help="the key of a record")
LINES = Option(names=("--file",), value="PATH", kind=FILE, help="read the lines from PATH instead of standard input")
REPORTER = (
    Option(names=("--vm-id",), value="VM_ID", help="the id of the VM (without it, this machine's)"),
    Option(names=("--agent",), value="AGENT", default=AGENT, help="the name of the program that reports"),
)
SUPPORTING = Option(
    names=("--supporting-data",),
    value="KEY=VALUE,...",
    many=True,
    parse=parse_supporting,
    help="additional fields of the report, repeatable; quote a value that contains commas: k1='a,b',k2=c",
)

KVP = Command(
    name=PROG,
    help="read or change the Hyper-V key-value pools",
    shared=True,
    options=(
        Option(
            names=("--pool",),
            value="POOL",
            choices=POOLS,
            default=GUEST,
            parse=parse_pool,
            help="the pool to use, by name or by number from 0 on",
        ),
        Option(
            names=("--dir",),
            value="PATH",
            kind=DIRECTORY,
            default=POOL_DIRECTORY,
            help="the directory of the pools",
        ),
        Option(
            names=("--unsafe",),
            help="allow keys of 512 and values of 2048 bytes, as large as a record; without it 254 and 1022, which "
            "every host reads",
        ),
        Option(names=("--json",), help="print JSON"),
        Option(names=("--text",), help="print text (the default)"),
        HELP,
    ),
    commands=(
        Command(name="info", help="print path, size and limits of the pool"),
        Command(
            name="dump",
            help="print every record in order, as text unless --json",
            options=(
                Option(names=("--parse",), help="decode diagnostics and reports"),
                Option(names=("--name",), value="NAME", help="print only diagnostics whose name contains NAME"),
                Option(names=("--kind",), value="KIND", choices=KINDS, help="print only diagnostics of this kind"),
            ),
        ),
        Command(name="entries", help="print the last value of each key, sorted by key"),
        Command(name="read", help="print the last value of a key; exit status 1 if there is none", arguments=(KEY,)),
        Command(
            name="write",
            help="write a record, replacing those of the same key",
            options=(Option(names=("--append",), help="append the record, and keep those of the same key"),),
            arguments=(KEY, Argument(name="VALUE", help="the value of the record")),
        ),
        Command(
            name="emit",
            help="append a diagnostic event",
            options=(
                Option(names=("--name",), value="NAME", required=True, help="the subject, such as user:create_user"),
                Option(names=("--message",), value="MESSAGE", required=True, help="the text of the event"),
                *REPORTER,
            ),
        ),
        Command(name="load", help="replace the pool with KEY=VALUE lines", options=(LINES,)),
        Command(name="append-multiple", help="append KEY=VALUE lines, all of them or none", options=(LINES,)),
        Command(name="delete", help="delete every record of a key; print whether there was one", arguments=(KEY,)),
        Command(
            name="delete-multiple",
            help="delete every record of several keys; print how many there were",
            arguments=(Argument(name="KEY", help="the keys of records", many=True),),
        ),
        Command(
            name="clear",
            help="delete every record; works on a damaged pool, too",
            options=(Option(names=("--if-stale",), help="only if the pool was last written before this boot"),),
        ),
        Command(
            name="is-stale",
            help="print whether the pool was last written before this boot; exit status 1 if not",
        ),
        Command(
            name="report-success",
            help="write a provisioning report: success",
            options=(*REPORTER, SUPPORTING),
            fixed=(("result", "success"), ("reason", ""), ("documentation_url", None)),
        ),
        Command(
            name="report-failure",
            help="write a provisioning report: failure",
            options=(
                Option(names=("--reason",), value="REASON", required=True, help="the cause of the failure"),
                Option(names=("--documentation-url",), value="URL", help="a page that explains the failure"),
                *REPORTER,
                SUPPORTING,
            ),
            fixed=(("result", "error"),),
        ),
        Command(name="explain", help="print in sentences what the records mean"),
        Command(
            name="watch",
            help="explain the records and those that are added, until interrupted",
            options=(Option(names=("--seconds",), value="N", parse=parse_seconds, help="stop after N seconds"),),
        ),
        Command(
            name="help",
            help="print the help of this tool, or of a command",
            arguments=(Argument(name="COMMAND", kind=COMMANDS, required=False),),
        ),
    ),
)
