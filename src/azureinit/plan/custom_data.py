"""customData: saved where WALinuxAgent saves it, and run as a program where custom_data.execute says so."""

from __future__ import annotations

from azureinit.backends.service import run_program
from azureinit.backends.shell import interpreted
from azureinit.errors import CustomDataFailed
from azureinit.plan.actions import Caution, Declined, Satisfied, Step, Way
from azureinit.plan.waagent import in_library, write_private
from azureinit.record import Secret
from azureinit.sources.metadata import decoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.custom_data import CustomData
    from azureinit.plan.actions import Plan

NAME, PROGRAM = "customData", "customData program"
UNIT = "azure-init-custom-data.service"
DESCRIPTION = "The program given to this VM as customData"
MOST_LINE = 255  # the kernel's limit
# Data that are not a program, by their first bytes.
NO_PROGRAMS = {
    b"\x1f\x8b": "gzip data, which azure-init does not unpack",
    b"#cloud-config": "a configuration for cloud-init, which azure-init does not apply",
    b"Content-Type: multipart": "a multipart message for cloud-init, which azure-init does not apply",
    b"MIME-Version:": "a multipart message for cloud-init, which azure-init does not apply",
}


def custom_data_path(config: Config) -> str:
    return in_library(config.waagent.lib_dir, "CustomData")


def output_path(config: Config) -> str:
    return f"{config.azure_init_data_dir.path.rstrip('/')}/custom-data.log"


def plan_custom_data(*, given: Secret, config: Config, custom_data: CustomData, done: frozenset[str]) -> Plan:
    """The file. A program that has run may have changed or removed it."""
    settings = config.custom_data
    if not (settings.save or settings.execute):
        return ()
    if settings.execute and PROGRAM in done:
        return (Satisfied(name=NAME, why="was saved, and run"),)
    data = given
    cautions: Plan = ()
    if settings.decode or settings.execute:
        plain = decoded(given)
        if plain is None and settings.execute:
            return (_refused(NAME, "it cannot be run: it is not base64"),)
        if plain is None:
            cautions = (Caution(name=NAME, why="is not base64: saved as it was given"),)
        data = plain or data
    mode = 0o700 if settings.execute else 0o600
    path = custom_data_path(config)
    if custom_data.kept is not None and custom_data.kept.data == data and custom_data.kept.mode == mode:
        return (*cautions, Satisfied(name=NAME, why=f"is in {path}"))
    actions = write_private(config.waagent.lib_dir, "CustomData", data, mode=mode)
    ways = (Way(backend="native", actions=actions),)
    return (
        *cautions,
        Step(name=NAME, why=f"{len(data)} bytes were given", did=f"saved customData in {path}", ways=ways),
    )


def plan_program(*, given: Secret, config: Config, custom_data: CustomData, rooted: bool, done: frozenset[str]) -> Plan:
    """Once, after everything else. The machine is not planned again: the program's changes are intended."""
    if not config.custom_data.execute:
        return ()
    if PROGRAM in done:
        return (Satisfied(name=PROGRAM, why="ran, and succeeded"),)
    if rooted:
        return (Caution(name=PROGRAM, why="not run: this is a file tree, not the running system"),)
    data = (decoded(given) or Secret(b"")).reveal()
    why_not = why_no_program(data)
    if why_not:
        return (_refused(PROGRAM, why_not),)
    output = output_path(config)
    way = run_program(
        interpreted(data, custom_data_path(config)),
        unit=UNIT,
        description=DESCRIPTION,
        in_unit=custom_data.service,
        timeout=config.custom_data.execute_timeout_secs,
        output=output,
    )
    why = "custom_data.execute is true; until it has succeeded, every run of azure-init runs it"
    did = f"ran the customData program; its output is in {output}"
    return (Step(name=PROGRAM, why=why, did=did, ways=(way,), once=True, failure=CustomDataFailed),)


def why_no_program(data: bytes) -> str:
    for begin, what in NO_PROGRAMS.items():
        if data.startswith(begin):
            return f"it is {what}"
    first = data[: MOST_LINE + 1].partition(b"\n")[0]
    if first.startswith(b"#!") and first.endswith(b"\r"):
        return "its lines end in CR LF, so that the first line names no interpreter"
    if first.startswith(b"#!") and (len(first) > MOST_LINE or not first[2:].strip().startswith(b"/")):
        return "its first line names no interpreter"
    return "" if data.strip() else "it is empty"


def _refused(name: str, why: str) -> Step:
    declined = Declined(backend="native", why=why)
    return Step(name=name, why="custom_data.execute is true", ways=(declined,), failure=CustomDataFailed)
