"""What the modules of customData are given: the saved document, read and merged, and the platform's request."""

from __future__ import annotations

from binascii import crc32

from azureinit.errors import AzureInitError, LocalError
from azureinit.machine.clock import days
from azureinit.memory.sealed import seal, unseal
from azureinit.modules.request import Request
from azureinit.record import Secret, replace
from azureinit.run.enact import best_effort
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import INFO
from azureinit.userdata.document import EMPTY, Document
from azureinit.userdata.values import ERROR, OPAQUE, finding
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.facts.image_config import ConfigFile
    from azureinit.memory.instance import Instance
    from azureinit.memory.userdata import SavedUserdata
    from azureinit.run.state import Context
    from azureinit.userdata.values import Finding

NAME = "customData"
MOST_PARSED = 8 << 20
NO_DOCUMENT = b"#cloud-config\n{}\n"  # where the image's configuration is all there is


def saved_userdata(context: Context, instance: Instance) -> SavedUserdata:
    """What the first boot saved; empty on a machine that has script directories only. A damaged file is an error: what
    was asked for is not known."""
    from azureinit.memory.userdata import SavedUserdata, read_userdata

    machine, path = context.machine, instance.path("userdata")
    saved = read_userdata(machine, instance)
    if saved is None and machine.stat(path) is not None:
        raise LocalError(
            f"{machine.shown(path)} is damaged: this VM's customData cannot be read",
            hint="only the first boot writes it: deploy the VM again",
        )
    return saved or SavedUserdata(source="", data=Secret(b""), metadata=Metadata())


def read_customdata(
    context: Context,
    saved: SavedUserdata,
    *,
    vm_id: str,
    directory: str = "",
    deadline: float = 0.0,
    fetch: bool = False,
    earlier_only: bool = False,
    parsed: str = "",
) -> Document:
    """The document above the image's configuration. `fetch`: includes are fetched and templates rendered, and the
    result is kept in `directory`. `earlier_only`: the kept one is used. `parsed`: the file in which the first stage of
    a boot leaves the parsed document, and the later ones find it."""
    from azureinit.facts.image_config import read_image_config

    machine, settings = context.machine, context.config
    below = read_image_config(machine, settings)
    if not saved.data and not below:
        return Document(config=EMPTY, parts=(), scripts=(), findings=())
    made_from = _made_from(context, saved, below, vm_id) if parsed else 0
    earlier = read_parsed(context, parsed, made_from) if parsed and earlier_only else None
    if earlier is not None:
        return earlier
    from azureinit.run.expand import expand
    from azureinit.run.instance_data import make_instance_data

    known = make_instance_data(machine, saved.metadata, vm_id=vm_id, userdata=saved.data or None) if fetch else None
    if known is not None:
        write_known(context, known)
    found = expand(
        machine,
        saved.data.reveal() or NO_DOCUMENT,
        settings,
        directory=directory,
        below=below,
        instance_data=known,
        deadline=deadline,
        fetch=fetch,
        earlier_only=earlier_only,
        tell=lambda text: context.events.tell(INFO, NAME, text),
        observe=context.events.observe,
    )
    if settings.userdata.unknown == "fail" and not found.errors:
        opaque = [part.place for part in found.parts if part.kind == OPAQUE]
        wrong = tuple(finding(ERROR, "this part has no known format", place=place) for place in opaque)
        found = replace(found, findings=(*found.findings, *wrong))
    if parsed and fetch and not found.errors:
        write_parsed(context, parsed, made_from, found)
    return found


def _made_from(context: Context, saved: SavedUserdata, below: tuple[ConfigFile, ...], vm_id: str) -> int:
    """A checksum of everything that the document is made from: a stage before may have changed the image's files."""
    settings = context.config.userdata
    about = (VERSION, context.machine.boot_id(), vm_id, saved.source, settings.as_dict(), below)
    return crc32(saved.data.reveal(), crc32(repr(about).encode("utf-8", "surrogatepass")))


def write_parsed(context: Context, path: str, made_from: int, document: Document) -> None:
    """Saves config and final the import of PyYAML, the parsing and the checks: 35 to 45 ms each in a boot. Where it
    cannot be kept, they parse the document as this stage did."""
    from azureinit.userdata.parsed import encode_document

    try:
        data = seal({"made from": made_from, **encode_document(document)})
        if len(data) <= MOST_PARSED:
            context.machine.write(path, data, mode=0o600, sync=False)
    except (AzureInitError, ValueError):
        return


def read_parsed(context: Context, path: str, made_from: int) -> Document | None:
    """None where there is none, or one that was made from something else."""
    from azureinit.userdata.parsed import decode_document

    try:
        values = unseal(context.machine.read(path, limit=MOST_PARSED) or b"")
    except AzureInitError:
        return None
    return decode_document(values) if values is not None and values.get("made from") == made_from else None


def write_known(context: Context, known: dict[str, Any]) -> None:
    """What is known about the VM, for `azure-init query`; and where other programs look for it."""
    from azureinit.run.instance_data import PLACE, write_instance_data

    peer = ("/run/cloud-init",) if context.config.userdata.cloud_init_compat else ()
    for place in (PLACE, *peer):
        mode = 0o711 if place == PLACE else 0o755

        def write(place: str = place, mode: int = mode) -> None:
            write_instance_data(context.machine, known, place=place, mode=mode)

        best_effort(context.events, "instance data", write)


def make_request(context: Context, saved: SavedUserdata, document: Document, *, vm_id: str, directory: str) -> Request:
    return Request(
        config=document.config,
        settings=context.config,
        metadata=saved.metadata,
        vm_id=vm_id,
        directory=directory,
        parts=document.scripts,
        fetched=document.fetched,
        today=days(context.machine.clock.now()),
        rooted=context.machine.rooted,
    )


def in_words(found: Finding) -> str:
    where = f"line {found.line}, column {found.column}" + (f" of {found.part}" if found.part else "")
    return f"{where}: {found.message}" + (f" ({found.hint})" if found.hint else "")
