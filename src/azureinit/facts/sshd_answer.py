"""The configuration that sshd itself reports to be in force; sshd is asked while other facts are read."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.facts.ssh import (
    CHALLENGE,
    KEYBOARD,
    ONE_KEYBOARD,
    PASSWORD,
    about_logins,
    in_force,
)
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.facts.ssh import Ssh
    from azureinit.facts.sshd_config import Values
    from azureinit.machine import Machine
    from azureinit.machine.processes import Ran

QUERY_TIMEOUT = 10.0
ANSWERS = (9, 3)  # the first version that has -G
ADDING = ("allowusers", "denyusers", "allowgroups", "denygroups")  # printed as one line per argument
HEEDED = (PASSWORD, KEYBOARD, CHALLENGE, "authorizedkeysfile", "authorizedkeyscommand", "usepam")


class Answer(Record):
    """`failure`: why there are no values. `version`: as far as sshd reports it."""

    values: Values | None
    failure: str = ""
    version: tuple[int, int] | None = None


def ask_sshd(
    machine: Machine, *, tools: frozenset[str], query: bool, asked: Callable[[float], Ran] | None = None
) -> Callable[[], Answer] | None:
    """Start to ask; the returned function waits for the answer. `asked`: sshd was started earlier."""
    if not query or "sshd" not in tools or machine.rooted:
        return None
    try:
        running = asked or machine.start(("sshd", "-G"))
    except AzureInitError as error:
        failed = Answer(values=None, failure=str(error))
        return lambda: failed

    def wait_for_answer() -> Answer:
        try:
            ran = running(QUERY_TIMEOUT)
        except AzureInitError as error:
            return Answer(values=None, failure=str(error))
        if ran.status == 0:
            return Answer(values=parse_answer(ran.out), version=ANSWERS)
        told = ran.err.decode("utf-8", "replace")
        first = next(iter(told.split("\n")), "").strip() or f"exit status {ran.status}"
        return Answer(values=None, failure=f"sshd -G: {first[:200]}", version=parse_version(told))

    return wait_for_answer


def ask_about(machine: Machine, ssh: Ssh, connections: tuple[str, ...]) -> tuple[tuple[tuple[str, Values], ...], str]:
    """The values in force for these connections, by the client's address; and why sshd did not answer."""
    # Beside -T, which is where sshd takes -C, -G needs neither host keys nor the privilege separation directory.
    flags = ("-T",) if ssh.version is not None and ssh.version < ANSWERS else ("-G", "-T")
    answers: list[tuple[str, Values]] = []
    try:
        asked = [(which, machine.start(("sshd", *flags, "-C", which))) for which in connections]
        ran = [(which, wait(QUERY_TIMEOUT)) for which, wait in asked]
    except AzureInitError as error:
        return (), f"sshd was not asked: {error}"
    for which, said in ran:
        if said.status != 0:
            lines = [line.strip() for line in said.err.decode("utf-8", "replace").split("\n") if line.strip()]
            return (), f"sshd {flags[-1]} failed: {(lines or [f'exit status {said.status}'])[-1][:200]}"
        address = which.partition(",addr=")[2].partition(",")[0]
        answers.append((address, parse_answer(said.out, adding=ADDING)))
    return tuple(answers), ""


def with_answer(machine: Machine, ssh: Ssh, answer: Answer) -> Ssh:
    ssh = replace(
        ssh,
        installed=ssh.installed or answer.values is not None,
        version=answer.version,
        query_failure=answer.failure,
    )
    if answer.version is not None and answer.version < ONE_KEYBOARD:  # older versions read some keywords differently
        walk = ssh.walk({file.path: file.data for file in ssh.files})
        ssh = replace(ssh, configured=walk.values, exceptions=about_logins(walk), directives=tuple(walk.directives))
    if answer.values is None:
        return in_force(machine, ssh, ssh.configured) if ssh.installed else ssh
    reported = {word: answer.values[word] for word in HEEDED if word in answer.values}
    alike = all(
        _lowered(ssh.configured[word]) == _lowered(reported.get(word, ())) for word in HEEDED if word in ssh.configured
    )
    return in_force(machine, replace(ssh, reported=reported if alike else None), answer.values)


def remembered(machine: Machine, ssh: Ssh, before: Ssh) -> Ssh | None:
    """The same answer for files read again: where azure-init's reading agreed with sshd's, it still does.

    None where sshd has to be asked again.
    """
    if before.reported is None:
        return None
    silent = {word: value for word, value in before.reported.items() if word not in before.configured}
    values = {**silent, **ssh.configured}
    if any(word not in values for word in before.reported):
        return None
    ssh = replace(
        ssh, installed=True, reported=before.reported, version=before.version, query_failure=before.query_failure
    )
    return in_force(machine, ssh, values)


def _lowered(words: tuple[str, ...]) -> list[str]:
    return [word.lower() for word in words]


def parse_answer(out: bytes, *, adding: tuple[str, ...] = ()) -> Values:
    """By keyword: the first line, or all lines of the keywords in `adding`."""
    values: Values = {}
    for line in out.decode("utf-8", "surrogateescape").splitlines():
        keyword, *arguments = line.split(" ")
        if keyword.lower() in adding:
            values[keyword.lower()] = (*values.get(keyword.lower(), ()), *(word for word in arguments if word))
        elif arguments:
            values.setdefault(keyword.lower(), tuple(word for word in arguments if word))
    return {keyword: arguments for keyword, arguments in values.items() if arguments}


def parse_version(text: str) -> tuple[int, int] | None:
    """From `OpenSSH_9.2p1 ...`, which sshd prints with its usage text."""
    major, _, rest = text.partition("OpenSSH_")[2].partition(".")
    minor = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return (int(major), int(minor)) if major.isdecimal() and minor and len(major + minor) < 9 else None
