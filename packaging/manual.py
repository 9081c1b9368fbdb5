"""Fills in the manual pages in docs/man from the option tables, and writes the configuration file that is shipped."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from time import gmtime

from commands import walk

from azureinit.cli.help import ENVIRONMENT, EXIT_CODES, described
from azureinit.cli.options import Argument, Command, Option
from azureinit.version import VERSION

SOURCES = Path(__file__).resolve().parents[1] / "docs/man"
HEAD = """\
# The settings of azure-init, each with its default: see azure-init.toml(5).
# All settings are optional. A line that begins with # and no blank is a setting: to change it, remove the # from it and
# from the [section] above it. `azure-init config check` finds errors in this file.
# Better leave this file unchanged, and put your settings into azure-init.toml.d/local.toml beside it.
"""


def page(name: str, *, epoch: int, program: Command | None = None) -> str:
    """The page NAME.SECTION, such as azure-init.8."""
    text = (SOURCES / f"{name}.in").read_text(encoding="utf-8")
    day = gmtime(epoch)
    parts = {"DATE": f"{month_name[day.tm_mon]} {day.tm_mday}, {day.tm_year}", "VERSION": VERSION}
    if program is not None:
        parts["COMMANDS"], parts["OPTIONS"] = commands(program), options(program.options)
        parts["ENVIRONMENT"] = listed((f"Ev {variable}", told) for variable, told in ENVIRONMENT)
        parts["EXITCODES"] = listed((str(code), told) for code, told in EXIT_CODES)
    else:
        parts["SETTINGS"] = settings()
    return re.sub(r"@([A-Z]+)@", lambda mark: parts[mark[1]], text)


def commands(program: Command) -> str:
    """Every command that has no commands of its own, and `kvp`, which has its own page."""
    lines = [".Bl -tag -width Ds"]
    shared = {name for option in program.options for name in option.names}
    for path, command in walk(program):
        kvp = command.name == "kvp"
        if not path or (command.commands and not kvp) or path.startswith(" kvp "):
            continue
        own = [option for option in command.options if not shared & set(option.names) and "--help" not in option.names]
        own = [] if kvp else own
        lines.append(f".It Cm {path.strip()} " + " ".join([*map(flag, own), *map(argument, command.arguments)]))
        lines.append(sentence(command.help))
        if kvp:
            lines += ["See", ".Xr libazureinit-kvp 8 ."]
        told = [option for option in own if option.help]
        if told:
            lines.append(options(told, arguments=command.arguments))
        explained = [(argument(each), each.help) for each in command.arguments if each.help]
        if explained:
            lines.append(listed(explained))
    return "\n".join([*(line.rstrip() for line in lines), ".El"])


def options(chosen: tuple[Option, ...] | list[Option], *, arguments: tuple[Argument, ...] = ()) -> str:
    lines = [".Bl -tag -width Ds"]
    for option in chosen:
        named = " , ".join(f"Fl {name[1:]}" for name in option.names)
        told = sentence(described(option), literal=option.choices)
        names = (option.value, *(each.name for each in arguments))
        lines += [f".It {named}{value(option)}", placed(told, names)]
    return "\n".join([*lines, ".El"])


def listed(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join([".Bl -tag -width Ds", *(f".It {name}\n{sentence(told)}" for name, told in rows), ".El"])


def value(option: Option) -> str:
    shown = f" Ar {macro(option.value)}" if option.value else ""
    return f" Oo{shown} Oc" if option.optional else shown


def placed(text: str, names: tuple[str, ...]) -> str:
    """The name of a value is upper case in a help text, and slanted lower case in a manual page."""
    for name in filter(str.isupper, names):
        text = re.sub(rf"\b{re.escape(name)}\b", rf"\\fI{name.lower()}\\fP", text)
    return text


def flag(option: Option) -> str:
    """In the line that names a command."""
    spelt = f"Fl {option.names[-1][1:]}{value(option)}"
    return spelt if option.required else f"Oo {spelt} Oc"


def argument(each: Argument) -> str:
    shown = f"Ar {macro(each.name.strip('- '))}" + (" ..." if each.many else "")
    if each.name.startswith("-- "):
        return f"Cm -- {shown}"
    return shown if each.required else f"Oo {shown} Oc"


def settings() -> str:
    from azureinit.config.docs import KEYS, SECTIONS, kind_name, toml
    from azureinit.config.model import Config

    lines = []
    for section, record in Config.defaults_.items():
        lines += [f".Ss [{section}]", roff(SECTIONS[section]), ".Bl -tag -width Ds"]
        for key, kind in type(record).fields_.items():
            default = getattr(record, key)
            shown = "unset" if default is None else f"\\fB{roff(toml(default), inline=True)}\\fP"
            lines += [f".It Va {key}", roff(KEYS[f"{section}.{key}"])]
            lines.append(f"{capital(roff(kind_name(kind)))}; default: {shown}.")
        lines.append(".El")
    return "\n".join(lines)


def configuration() -> str:
    """/etc/azure-init/azure-init.toml as it is installed: every setting, commented out."""
    from azureinit.config.docs import KEYS, SECTIONS, toml
    from azureinit.config.model import Config

    lines = [HEAD]
    for section, record in Config.defaults_.items():
        lines += [f"# {SECTIONS[section]}", f"#[{section}]", ""]
        for key in type(record).fields_:
            default = getattr(record, key)
            lines += [f"# {line}" for line in wrap(KEYS[f"{section}.{key}"].replace("`", ""), 112)]
            if type(record).fields_[key] == "OptionalNames" and default is None:
                lines += [f"# {key} = []  (not set: an empty list means none)", ""]
            else:
                lines += [f"#{key} = " + ('""' if default is None else toml(default)), ""]
    return "\n".join(lines)


def sentence(text: str, *, literal: tuple[str, ...] = ()) -> str:
    """With a capital and a full stop. A first word that is a literal value keeps its case."""
    text = text.strip()
    ended = text if text.endswith(".") else f"{text}."
    begins = text.partition(" ")[0].rstrip(",:;")
    return roff(ended if begins in literal else capital(ended)) if text else ".No \\&"


def capital(text: str) -> str:
    return text if text.startswith(("http", "\\")) else text[:1].upper() + text[1:]


def roff(text: str, *, inline: bool = False) -> str:
    """Text as roff lines, one sentence a line; `code` in bold."""
    text = text.replace("\\", "\\e").replace("~", "\\(ti").replace("^", "\\(ha")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fP", text)
    text = text if inline else re.sub(r"(?<=[a-z)])\. (?=[A-Z])", ".\n", text)
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in text.split("\n"))


def macro(word: str) -> str:
    """A word after a macro: in lower case, and escaped so that it is not read as a macro."""
    return "\\&" + word.lower() if len(word) <= 2 or not word[0].isalpha() else word.lower()
