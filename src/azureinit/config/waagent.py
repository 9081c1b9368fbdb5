"""waagent.conf: parsed exactly as WALinuxAgent does, and translated to azure-init's keys.

Options that the file does not set keep azure-init's default. `config import-waagent` prints the result of `translate`,
and `[waagent] honour = true` uses the same values at every start.
"""

from __future__ import annotations

from azureinit.config.model import CHOICES, WAAGENT_CONF, Config, checked, shown
from azureinit.config.waagent_options import BY_NAME, NUMBER, SWITCH, THEIRS
from azureinit.errors import ConfigInvalid, LocalError
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from azureinit.config.waagent_options import Option
    from azureinit.machine import Machine

PLACES = WAAGENT_CONF
LARGEST = 1 << 20
AGENT = "Provisioning.Agent"
REGENERATE = "Provisioning.RegenerateSshHostKeyPair"
KEY_TYPE = "Provisioning.SshHostKeyPairType"
DECODE, EXECUTE = "Provisioning.DecodeCustomData", "Provisioning.ExecuteCustomData"
COMMENT = "comment=azure-ephemeral-disk-setup"
DISCOVERY = "Protocol.EndpointDiscovery"
FORMAT, FILESYSTEM = "ResourceDisk.Format", "ResourceDisk.Filesystem"
MOUNT_POINT, OPTIONS = "ResourceDisk.MountPoint", "ResourceDisk.MountOptions"
ENABLE_SWAP, SWAP_SIZE = "ResourceDisk.EnableSwap", "ResourceDisk.SwapSizeMB"


class Said(Record):
    """`value` is None if the file says None, which is the same as not setting it."""

    line: int
    value: str | None


class Conf(Record):
    """The parsed file. `again`: lines that a later line with the same name overrides."""

    said: dict[str, Said]
    again: tuple[tuple[str, int], ...] = ()

    def text(self, name: str, default: str | None = None) -> str | None:
        found = self.said.get(name)
        return default if found is None or found.value is None else found.value

    def switch(self, name: str, default: bool = False) -> bool:
        return {"y": True, "n": False}.get((self.text(name) or "").lower(), default)

    def number(self, name: str, default: int | None = None) -> int | None:
        try:
            return int(self.text(name) or "")
        except ValueError:
            return default

    def value(self, option: Option) -> bool | int | str | None:
        """The value that WALinuxAgent uses."""
        if option.kind == SWITCH:
            return self.switch(option.name, bool(option.default))
        if option.kind == NUMBER:
            return self.number(option.name, option.default if isinstance(option.default, int) else None)
        return self.text(option.name, option.default if isinstance(option.default, str) else None)

    def says(self, name: str) -> bool:
        return self.text(name) is not None


class Taken(Record):
    option: str
    line: int
    told: str  # the option's name in the file
    key: str  # azure-init's key, as section.key
    value: object


class Left(Record):
    option: str
    line: int
    told: str
    why: str = ""


class Imported(Record):
    taken: tuple[Taken, ...]
    gone: tuple[Left, ...]
    theirs: tuple[Left, ...]
    unknown: tuple[Left, ...]
    warnings: tuple[str, ...]


def parse_waagent_conf(data: bytes) -> Conf:
    """Parses any bytes; an empty file is an error."""
    if not data:
        raise ConfigInvalid("is empty", hint="WALinuxAgent refuses it too; remove it, or add settings")
    said: dict[str, Said] = {}
    again = []
    for at, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if line.startswith("#") or "=" not in line:
            continue
        name, _, rest = line.partition("=")
        name = name.strip()
        # In this order: a carriage return after a closing quote keeps the quote.
        value = rest.partition("#")[0].strip('" ').strip()
        if name in said:
            again.append((name, said[name].line))
        said[name] = Said(line=at, value=None if value == "None" else value)
    return Conf(said=said, again=tuple(again))


def read_waagent_conf(machine: Machine, path: str = "") -> tuple[str, Conf] | None:
    """Path and content: the named file, or the first existing one of PLACES; None if there is none."""
    for place in (path,) if path else PLACES:
        told = path or machine.shown(place)
        try:
            data = (machine.read_host if path else machine.read)(place, limit=LARGEST)
            if data is not None:
                return place, parse_waagent_conf(data)
        except LocalError as error:
            raise ConfigInvalid(error.message, hint="only root may read some files; run as root") from error
        except ConfigInvalid as error:
            raise ConfigInvalid(f"{told}: {error.message}", hint=error.hint) from error
    return None


def overlay(conf: Conf, *, spoken: Container[str]) -> Imported:
    """The file's values for keys that no other layer sets.

    It asks for the resource disk alone. If another layer asks for temporary disks too, that one decides on NVMe disks.
    """
    imported = translate(conf)
    others = ("disk.nvme",) if "disk.setup" in spoken else ()
    taken = tuple(one for one in imported.taken if one.key not in spoken and one.key not in others)
    return replace(imported, taken=taken)


def translate(conf: Conf) -> Imported:
    groups: dict[str, list[Left]] = {"gone": [], "theirs": [], "unknown": []}
    taken: list[Taken] = []
    warnings = list(_warnings(conf))
    for name, said in conf.said.items():
        if said.value is None:
            continue
        told = shown(said.value)
        option = BY_NAME.get(name)
        if option is None:
            theirs = name.startswith(THEIRS)
            groups["theirs" if theirs else "unknown"].append(Left(option=shown(name), line=said.line, told=told))
        elif not option.ours:
            group = "gone" if option.gone else "theirs"
            groups[group].append(Left(option=name, line=said.line, told=told, why=option.gone))
        elif not _is_usable(option, conf):
            continue  # a warning was given
        else:
            value = MEANT[name](conf) if name in MEANT else conf.value(option)
            try:
                taken += _taken(option, said, told, value)
            except ConfigInvalid as error:
                warnings.append(f"line {said.line}: {name}={told} is not used: {option.ours} {error.message}")
    return Imported(
        taken=tuple(taken), warnings=tuple(warnings), **{name: tuple(rows) for name, rows in groups.items()}
    )


def _taken(option: Option, said: Said, told: str, value: object) -> Iterator[Taken]:
    """Empty if the option has no effect in combination with others. A dictionary: the option sets several keys."""
    if value is None:
        return
    for ours, one in value.items() if isinstance(value, dict) else ((option.ours, value),):
        section, _, key = ours.partition(".")
        record = Config.defaults_[section]
        one = checked(type(record).fields_[key], one, default=getattr(record, key))
        yield Taken(option=option.name, line=said.line, told=told, key=ours, value=one)


def _is_usable(option: Option, conf: Conf) -> bool:
    """False if the value has the wrong type, so that WALinuxAgent uses its default."""
    text = conf.text(option.name) or ""
    if option.kind == SWITCH:
        return text.lower() in ("y", "n")
    return option.kind != NUMBER or conf.number(option.name) is not None


# ---- options with special rules


def _key_types(conf: Conf) -> tuple[str, ...] | None:
    """Applies only if host keys are regenerated at all."""
    if not conf.switch(REGENERATE):
        return None
    kind = conf.text(KEY_TYPE) or ""
    return CHOICES["HostKeyTypes"] if kind == "auto" else (kind,)


def _regenerate(conf: Conf) -> str:
    """Distributions that leave the host keys to cloud-init set n, and cloud-init regenerates them."""
    return "always" if conf.switch(REGENERATE) else "auto"


def _format(conf: Conf) -> dict[str, str]:
    if conf.switch(FORMAT):
        return {"disk.setup": "auto", "disk.nvme": "off", "disk.scsi": "data"}
    return {"disk.scsi": "off"}


def _filesystem(conf: Conf) -> str | None:
    if not conf.switch(FORMAT):
        return None
    asked = conf.text(FILESYSTEM)
    return "ext4" if asked == "ext3" else asked


def _mount_options(conf: Conf) -> str | None:
    """For /etc/fstab, which WALinuxAgent does not write: a boot goes on without the disk; the comment marks it."""
    asked = conf.text(OPTIONS)
    return f"{asked},nofail,{COMMENT}" if asked and conf.switch(FORMAT) else None


MEANT: dict[str, Callable[[Conf], object]] = {
    REGENERATE: _regenerate,
    KEY_TYPE: _key_types,
    DECODE: lambda conf: conf.switch(DECODE) or conf.switch(EXECUTE),
    DISCOVERY: lambda conf: "dhcp" if conf.text(DISCOVERY) == "dhcp" else "static",
    "Provisioning.MonitorHostNamePeriod": lambda conf: (
        conf.number("Provisioning.MonitorHostNamePeriod") if conf.switch("Provisioning.MonitorHostName") else None
    ),
    FORMAT: _format,
    FILESYSTEM: _filesystem,
    MOUNT_POINT: lambda conf: conf.text(MOUNT_POINT) if conf.switch(FORMAT) else None,
    OPTIONS: _mount_options,
    ENABLE_SWAP: lambda conf: "file" if conf.switch(FORMAT) and conf.switch(ENABLE_SWAP) else None,
    SWAP_SIZE: lambda conf: conf.number(SWAP_SIZE) if conf.switch(FORMAT) and conf.switch(ENABLE_SWAP) else None,
}


def _warnings(conf: Conf) -> Iterator[str]:
    for name, line in conf.again:
        yield f"line {line}: {shown(name)} is set again in line {conf.said[name].line}, which overrides it"
    for name, said in conf.said.items():
        option, at = BY_NAME.get(name), f"line {said.line}: {shown(name)}"
        if option is None:
            near = next((known for known in BY_NAME if known.lower() == name.lower()), "")
            if near:
                yield f"{at} is not {near}: capitals count, and WALinuxAgent ignores it"
        elif option.ours and said.value and not _is_usable(option, conf):
            wrong = f"{at}={shown(said.value)} is not {option.kind}"
            yield f"{wrong}, so WALinuxAgent uses its default; azure-init's is kept"
    yield from _contradictions(conf)


def _contradictions(conf: Conf) -> Iterator[str]:
    if conf.switch(EXECUTE) and conf.says(DECODE) and not conf.switch(DECODE):
        yield f"{EXECUTE}=y means {DECODE}=y, regardless of the file's value"
    if conf.says(KEY_TYPE) and not conf.switch(REGENERATE):
        yield f"{KEY_TYPE} has no effect if {REGENERATE} is n"
    if conf.switch(ENABLE_SWAP):
        if not conf.switch(FORMAT):
            yield f"{ENABLE_SWAP}=y has no effect if {FORMAT} is n"
        elif not conf.number(SWAP_SIZE, 0):
            yield f"{ENABLE_SWAP}=y has no {SWAP_SIZE}: there would be no swap"
    if conf.switch(FORMAT) and conf.text(FILESYSTEM) == "ext3":
        yield f"{FILESYSTEM}=ext3: ext4 is used instead"
    if conf.says("HttpProxy.Host") and conf.number("HttpProxy.Port") is None:
        yield "HttpProxy.Host has no effect in WALinuxAgent without HttpProxy.Port"


# ---- which agent provisions


def agent_advice(conf: Conf, *, cloud_init: bool) -> tuple[str, ...]:
    """What WALinuxAgent will do besides azure-init, and what to do about it. `cloud_init`: whether it is enabled."""
    agent = conf.text(AGENT, "auto") or ""
    advice = []
    if agent in ("auto", "waagent", "cloud-init"):
        advice.append(
            f"{AGENT}={agent}: WALinuxAgent finds the marker that azure-init writes into its directory before any "
            "verdict, and neither provisions nor reports. Its unit has to start after azure-init.service."
        )
    else:
        advice.append(
            f"{AGENT}={shown(agent)}: WALinuxAgent reports Ready at every start, regardless of the machine's "
            f"state, and ignores the marker. Set {AGENT}=auto, so that only azure-init reports."
        )
    if cloud_init:
        advice.append(
            "cloud-init is enabled here and provisions too: disable it (touch /etc/cloud/cloud-init.disabled), or two "
            "agents will do the same work."
        )
    return tuple(advice)
