"""`azure-init config import-waagent`: waagent.conf as a configuration file; comments list options it cannot express."""

from __future__ import annotations

from textwrap import wrap

from azureinit.config.docs import toml
from azureinit.config.model import Config
from azureinit.config.waagent import PLACES, agent_advice, read_waagent_conf, translate
from azureinit.config.waagent_options import BY_NAME, THEIRS
from azureinit.errors import ConfigInvalid, LocalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from azureinit.config.waagent import Imported, Left
    from azureinit.machine import Machine

WRITTEN = "/etc/azure-init/azure-init.toml.d/waagent.toml"
# The links that `systemctl enable` makes for the units of the distributions.
CLOUD_INIT = (
    "/etc/systemd/system/cloud-init.target.wants/cloud-init-local.service",
    "/etc/systemd/system/multi-user.target.wants/cloud-init-local.service",
    "/usr/lib/systemd/system/cloud-init.target.wants/cloud-init-local.service",
)
CLOUD_INIT_OFF = "/etc/cloud/cloud-init.disabled"
WIDTH = 116


def import_waagent(path: str, *, write: bool, machine: Machine, out: TextIO, err: TextIO) -> int:
    found = read_waagent_conf(machine, path)
    if found is None:
        where = path or " nor ".join(map(machine.shown, PLACES))
        raise ConfigInvalid(f"there is no {where}", hint="name the file: azure-init config import-waagent FILE")
    place, conf = found
    told = path or machine.shown(place)
    imported = translate(conf)
    for warning in imported.warnings:
        print(f"warning: {told}: {warning}", file=err)
    if not any(name in BY_NAME or name.startswith(THEIRS) for name in conf.said):
        print(f"warning: {told}: the file contains no option of WALinuxAgent; is it a waagent.conf?", file=err)
    advice = agent_advice(conf, cloud_init=has_cloud_init(machine))
    text = "\n".join(as_toml(place, imported, advice)) + "\n"
    if not write:
        out.write(text)
        return 0
    try:
        _write(machine, text.encode())
    except LocalError as error:
        print(error.message, file=err)
        if error.hint:
            print(f"hint: {error.hint}", file=err)
        return error.exit_code
    print(f"wrote {len(imported.taken)} settings of {told} to {machine.shown(WRITTEN)}", file=out)
    return 0


def _write(machine: Machine, data: bytes) -> None:
    before = machine.read(WRITTEN)
    if before == data:
        return
    if before is not None:
        shown = machine.shown(WRITTEN)
        raise LocalError(
            f"{shown} exists already, with other contents",
            hint="compare it with the output without --write, then remove it and import again",
            path=shown,
        )
    machine.make_dirs(WRITTEN.rpartition("/")[0], mode=0o755)
    machine.write(WRITTEN, data, mode=0o644)


def has_cloud_init(machine: Machine) -> bool:
    """Whether cloud-init is enabled, judged by the links of its units."""
    enabled = any(machine.stat(link, follow=False) is not None for link in CLOUD_INIT)
    return enabled and machine.stat(CLOUD_INIT_OFF) is None


def as_toml(place: str, imported: Imported, advice: tuple[str, ...]) -> Iterator[str]:
    """A configuration file with the settings that azure-init has, and the other options as comments."""
    yield f"# Imported from {place} by azure-init config import-waagent."
    for section, record in Config.defaults_.items():
        taken = {one.key: one for one in imported.taken if one.key.startswith(f"{section}.")}
        if taken:
            yield from ("", f"[{section}]")
        for key in type(record).fields_:
            one = taken.get(f"{section}.{key}")
            if one is not None:
                yield f"{key} = {toml(one.value)}  # line {one.line}: {one.option}={one.told}"
    if not imported.taken:
        yield from ("", "# The file sets nothing that azure-init has a setting for.")
    yield from _listed("Obsolete, without effect:", imported.gone)
    yield from _listed("Still read by WALinuxAgent, for its extensions:", imported.theirs)
    yield from _listed("Unknown to azure-init and to WALinuxAgent:", imported.unknown)
    yield from ("", "# When WALinuxAgent is installed, too:")
    for sentence in advice:
        yield from wrap(sentence, WIDTH, initial_indent="#   ", subsequent_indent="#   ")


def _listed(title: str, rows: tuple[Left, ...]) -> Iterator[str]:
    """Names without values: the value of a proxy setting can contain a password."""
    if rows:
        yield from ("", f"# {title}")
    for row in rows:
        yield f"#   line {row.line}: {row.option}" + (f": {row.why}" if row.why else "")
