"""customData for the stages: which document it is, the copy that they read, and the units that carry it out."""

from __future__ import annotations

from azureinit.errors import CustomDataFailed, LocalError
from azureinit.record import Record, Secret
from azureinit.run.enact import enact
from azureinit.run.stages import SCRIPTS
from azureinit.sources.metadata import decoded
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.http import Observe
    from azureinit.machine import Machine
    from azureinit.memory.instance import Instance
    from azureinit.run.state import Asked, Context
    from azureinit.sources.metadata import Metadata

NAME = "customData"
TARGET = "azure-init-userdata.target"
SYSTEMD = "/run/systemd/system"
PEER_SCRIPTS = "/var/lib/cloud/scripts"
FREQUENCIES = ("per-boot", "per-instance", "per-once")
START_SECS = 10.0
ROUTE_SECS, ANSWER_SECS = 60.0, 10.0
ACCESS = "access"


class Given(Record):
    """`left`: why there are data and the stages do nothing with them."""

    source: str = ""
    data: Secret = Secret(b"")
    left: str = ""


def is_on(config: Config) -> bool:
    return config.userdata.enabled and not config.custom_data.execute


def given(config: Config, metadata: Metadata) -> Given:
    """customData; userData where there is none; or both, userData first so that customData wins."""
    from azureinit.memory.userdata import CUSTOM_DATA, USER_DATA

    custom, user = _plain(metadata.custom_data), _plain(metadata.user_data)
    if custom and user and config.userdata.use == "both":
        return _known(f"{CUSTOM_DATA} and {USER_DATA}", _joined(user, custom))
    if custom or user:
        return _known(CUSTOM_DATA if custom else USER_DATA, custom or user)
    return Given()


def _plain(data: Secret | None) -> Secret:
    """The platform's base64 removed; as it is where it has none."""
    if data is None:
        return Secret(b"")
    plain = decoded(data)
    return data if plain is None else plain


def _joined(first: Secret, second: Secret) -> Secret:
    """A message with both as parts: a part of this type is what its first line says."""
    from binascii import b2a_base64

    head = b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="=="\n\n'
    fields = b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\nContent-Disposition: attachment; filename="
    parts = [
        b"--==\n" + fields + name + b"\n\n" + b2a_base64(data.reveal())
        for name, data in ((b"userData", first), (b"customData", second))
    ]
    return Secret(head + b"".join(parts) + b"--==--\n")


def _known(source: str, data: Secret) -> Given:
    from azureinit.userdata.formats import BOM, GZIP, is_mime, sniff
    from azureinit.userdata.values import IGNITION, OPAQUE

    content = data.reveal()
    content = content[len(BOM) :] if content.startswith(BOM) else content
    kind = sniff(content)
    if kind == IGNITION:
        return Given(source=source, left="is a configuration for Ignition, and left to it")
    if kind != OPAQUE or content.startswith(GZIP) or is_mime(content):
        return Given(source=source, data=data)
    from azureinit.userdata.parts import parse_userdata
    from azureinit.userdata.values import ERROR

    found = parse_userdata(content)
    mistaken = any(one.level == ERROR for one in found.findings)  # such as a cloud-config without its first line
    if mistaken or any(part.kind not in (OPAQUE, IGNITION) for part in found.parts):
        return Given(source=source, data=data)
    why = "has none of the formats that azure-init carries out: it is kept, and nothing is done with it"
    return Given(source=source, left=why)


def has_scripts(machine: Machine, config: Config) -> bool:
    """Whether a script directory of the image has anything in it."""
    places = (SCRIPTS, PEER_SCRIPTS) if config.userdata.cloud_init_compat else (SCRIPTS,)
    return any(machine.names(f"{place}/{often}") for place in places for often in FREQUENCIES)


def has_image_config(machine: Machine) -> bool:
    """Whether the image has a configuration that lies below customData, or takes its place."""
    from azureinit.facts.image_config import ENDING, OWN

    return any(name.endswith(ENDING) for name in machine.names(OWN) or ())


def serve(context: Context, asked: Asked) -> bool:
    """Keep the copy that the stages read. False: there is nothing for them."""
    metadata, instance = asked.metadata, asked.identity.instance
    if metadata is None or instance is None or asked.unconfirmed is not None or not is_on(context.config):
        return False
    of_image = (
        context.config.userdata.cloud_init_compat  # as with cloud-init, the stages run in every boot
        or has_scripts(context.machine, context.config)
        or has_image_config(context.machine)
    )
    if metadata.custom_data is None and metadata.user_data is None and not of_image:
        return False
    found = given(context.config, metadata)
    if found.left:
        if context.config.userdata.unknown == "fail" and "Ignition" not in found.left:
            raise CustomDataFailed(found.source, {"azure-init": LocalError(found.left)})
        context.events.tell(WARN if "Ignition" not in found.left else INFO, found.source, found.left)
    if not found.data and not of_image:
        return False
    _save(context, instance, found, metadata)
    return True


def _save(context: Context, instance: Instance, found: Given, metadata: Metadata) -> None:
    from azureinit.memory.userdata import SavedUserdata, read_userdata, write_userdata
    from azureinit.record import replace

    before = read_userdata(context.machine, instance)
    if before is None:
        kept = replace(metadata, custom_data=metadata.custom_data or found.data)
        saved = SavedUserdata(source=found.source, data=found.data, metadata=kept)
        write_userdata(context.machine, instance, saved)
    elif before.data != found.data:
        told = "has changed since this VM's first boot: the copy of then is used"
        context.events.tell(WARN, found.source or NAME, told)


def has_changed(machine: Machine, config: Config, instance: Instance) -> bool:
    """Whether IMDS has another userData than at this VM's first boot. Where that had none, IMDS is not asked."""
    from azureinit.memory.userdata import CUSTOM_DATA, USER_DATA, read_userdata
    from azureinit.sources.metadata import Metadata

    saved = read_userdata(machine, instance)
    if saved is None or USER_DATA not in saved.source:
        return False
    from azureinit.addresses import host_of
    from azureinit.machine.service import notify
    from azureinit.sources.route import wait_for_route

    notify(machine, "READY=1")  # no login waits for IMDS
    wait_for_route(machine, host_of(config.imds.endpoint), until=machine.clock.monotonic() + ROUTE_SECS)
    custom = saved.metadata.custom_data if CUSTOM_DATA in saved.source else None
    found = given(config, Metadata(custom_data=custom, user_data=ask_user_data(machine, config)))
    return found.data != saved.data


def ask_user_data(machine: Machine, config: Config, *, observe: Observe | None = None) -> Secret | None:
    """One answer is waited for, not long."""
    from azureinit.record import replace
    from azureinit.sources.imds import query_imds

    short = replace(config.imds, total_retry_timeout_secs=min(ANSWER_SECS, config.imds.total_retry_timeout_secs))
    until = machine.clock.monotonic() + ANSWER_SECS
    return query_imds(replace(config, imds=short), clock=machine.clock, deadline=until, observe=observe).user_data


def is_due(machine: Machine, config: Config, instance: Instance) -> bool:
    """Whether a later boot starts the stages."""
    if config.userdata.cloud_init_compat or has_scripts(machine, config):
        return True
    if machine.stat(instance.path("userdata")) is None:
        return False
    if config.userdata.refresh:
        return True
    from azureinit.memory.modules import once_path, read_marks

    once = read_marks(machine, once_path(instance)).ended
    return read_marks(machine, instance.path("modules")).has_work(once=once)


def can_start(machine: Machine) -> bool:
    return not machine.rooted and machine.is_dir(SYSTEMD) and machine.find("systemctl") is not None


def start_stages(context: Context) -> bool:
    """Queue the units of the stages: before the service is ready, so that sshd waits for the first of them."""
    machine = context.machine
    if not can_start(machine):
        why = "this is a file tree" if machine.rooted else "its stages are units of systemd, which does not run here"
        if context.config.readiness.at != ACCESS and not machine.rooted:
            raise CustomDataFailed(NAME, {"azure-init": LocalError(f"not carried out: {why}")})
        context.events.tell(WARN, NAME, f"not carried out: {why}")
        return False
    from azureinit.plan.units import plan_stages

    until = machine.clock.monotonic() + START_SECS
    enact(machine, plan_stages(TARGET), events=context.events, deadline=until)
    return True
