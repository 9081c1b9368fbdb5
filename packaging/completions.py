"""Completions for bash, zsh and fish, made from the option tables.

All three find the command that is being typed in the same way, skipping the values of options, and offer the commands,
arguments and options that it takes.
"""

from __future__ import annotations

from commands import walk

from azureinit.cli.options import DIRECTORY, FILE, GROUPS, Command, Option

# Where each shell looks for the completion of a program.
PLACES = {
    "bash": "usr/share/bash-completion/completions/{}",
    "zsh": "usr/share/zsh/site-functions/_{}",
    "fish": "usr/share/fish/vendor_completions.d/{}.fish",
}
BASH = """\
# bash completion for {name}, made from its option table
_{function}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before= command= word i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        case $before in {valued}) before= ; continue ;; esac
        before=$word
        case "$command $word" in {commands}) command="$command $word" ;; esac
    done
    case $before in
{values}
    esac
    local words=
    case $command in
{offers}
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    case $command in {filed}) compopt -o default ;; esac
}}
complete -F _{function} {name}
"""
BASH_KINDS = {
    FILE: 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current")',
    DIRECTORY: 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current")',
    GROUPS: 'mapfile -t COMPREPLY < <(compgen -g -- "$current")',
}
ZSH = """\
#compdef {name}
# zsh completion for {name}, made from its option table
_{function}() {{
    local before= command= word
    local -a commands options arguments
    for word in ${{words[2,CURRENT-1]}}; do
        case $before in ({valued}) before= ; continue ;; esac
        before=$word
        case "$command $word" in ({commands}) command="$command $word" ;; esac
    done
    case $before in
{values}
    esac
    case $command in
{offers}
    esac
    _describe -t commands command commands
    _describe -t arguments argument arguments
    _describe -o -t options option options
    case $command in ({filed}) _files ;; esac
}}
_{function} "$@"
"""
ZSH_KINDS = {FILE: "_files", DIRECTORY: "_files -/", GROUPS: "_groups"}
FISH = """\
# fish completion for {name}, made from its option table
function __{function}_command
    set -l before ''
    set -l command ''
    for word in (commandline -opc)[2..-1]
        if contains -- "$before" {valued}
            set before ''
            continue
        end
        set before $word
        if contains -- "$command $word" {commands}
            set command "$command $word"
        end
    end
    test "$command" = "$argv[1]"
end
complete -c {name} -f
"""
FISH_KINDS = {
    FILE: "-r -F",
    DIRECTORY: "-x -a '(__fish_complete_directories)'",
    GROUPS: "-x -a '(__fish_complete_groups)'",
}


def completion(shell: str, program: Command) -> str:
    return {"bash": bash, "zsh": zsh, "fish": fish}[shell](program)


def every(program: Command) -> list[tuple[str, Command, tuple[Option, ...]]]:
    """Each command with its options. Options of the program are accepted after every command."""
    return [
        (path, each, each.options if each is program else (*each.options, *inherited(program, each)))
        for path, each in walk(program)
    ]


def inherited(program: Command, command: Command) -> list[Option]:
    own = {name for option in command.options for name in option.names}
    return [option for option in program.options if not own & set(option.names) and "--version" not in option.names]


def valued(program: Command) -> dict[str, Option]:
    return {
        name: option
        for _path, _each, options in every(program)
        for option in options
        if option.takes_next
        for name in option.names
    }


def takes_files(command: Command) -> bool:
    return any(argument.kind == FILE for argument in command.arguments)


def choices(command: Command) -> list[str]:
    """The known values of its arguments."""
    return [choice for argument in command.arguments for choice in argument.choices]


def bash(program: Command) -> str:
    values = []
    for name, option in valued(program).items():
        words = " ".join(option.choices)
        do = (
            f'mapfile -t COMPREPLY < <(compgen -W "{words}" -- "$current")'
            if words
            else BASH_KINDS.get(option.kind, ":")
        )
        values.append(f"        {name}) {do}; return ;;")
    offers = []
    for path, each, options in every(program):
        offered = [below.name for below in each.commands] + choices(each)
        offered += [name for option in options for name in option.names]
        offers.append(f'        "{path}") words="{" ".join(offered)}" ;;')
    return BASH.format(**names(program), **patterns(program, "|"), values="\n".join(values), offers="\n".join(offers))


def zsh(program: Command) -> str:
    values = []
    for name, option in valued(program).items():
        do = (
            f"compadd -- {' '.join(option.choices)}"
            if option.choices
            else ZSH_KINDS.get(option.kind, f"_message {quoted(option.value)}")
        )
        values.append(f"        ({name}) {do}; return ;;")
    offers = []
    for path, each, options in every(program):
        verbs = " ".join(quoted(f"{below.name}:{below.help}") for below in each.commands)
        flags = " ".join(quoted(f"{name}:{option.help}") for option in options for name in option.names)
        offers.append(
            f'        ("{path}") commands=({verbs}) arguments=({" ".join(choices(each))}) options=({flags}) ;;'
        )
    return ZSH.format(**names(program), **patterns(program, "|"), values="\n".join(values), offers="\n".join(offers))


def fish(program: Command) -> str:
    function = names(program)["function"]
    lines = [FISH.format(**names(program), **patterns(program, " "))]
    for path, each, options in every(program):
        at = f"complete -c {program.name} -n '__{function}_command \"{path}\"'"
        lines += [f"{at} -a {below.name} -d {quoted(below.help)}\n" for below in each.commands]
        if choices(each):
            lines.append(f"{at} -a '{' '.join(choices(each))}'\n")
        if takes_files(each):
            lines.append(f"{at} -F\n")
        for option in options:
            spelt = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = (
                f" -x -a '{' '.join(option.choices)}'" if option.choices else f" {FISH_KINDS.get(option.kind, '-x')}"
            )
            lines.append(f"{at} {spelt}{value if option.takes_next else ''} -d {quoted(option.help)}\n")
    return "".join(lines)


def names(program: Command) -> dict[str, str]:
    return {"name": program.name, "function": program.name.replace("-", "_")}


def patterns(program: Command, between: str) -> dict[str, str]:
    paths = [f'"{path}"' for path, _each in walk(program) if path]
    filed = [f'"{path}"' for path, each in walk(program) if takes_files(each)]
    return {
        "valued": between.join(valued(program)) or '"none"',
        "commands": between.join(paths) or '"none"',
        "filed": between.join(filed) or '"none"',
    }


def quoted(text: str) -> str:
    """In single quotes, without any inside: this has the same meaning in all three shells."""
    return "'" + text.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}").replace("\\", "/") + "'"
