"""What the modules of customData are given: the saved document, read and merged, and the platform's request."""

from __future__ import annotations

from azureinit.modules.request import Request
from azureinit.record import Secret, replace
from azureinit.run.admin import today
from azureinit.sources.metadata import Metadata
from azureinit.userdata.document import EMPTY, Document, read_document
from azureinit.userdata.values import ERROR, OPAQUE, finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.memory.instance import Instance
    from azureinit.memory.userdata import SavedUserdata
    from azureinit.run.state import Context
    from azureinit.userdata.values import Finding


def saved_userdata(context: Context, instance: Instance) -> SavedUserdata:
    """What the first boot saved; empty on a machine that has script directories only."""
    from azureinit.memory.userdata import SavedUserdata, read_userdata

    saved = read_userdata(context.machine, instance)
    return saved or SavedUserdata(source="", data=Secret(b""), metadata=Metadata())


def read_customdata(context: Context, saved: SavedUserdata) -> Document:
    settings = context.config.userdata
    if not saved.data:
        return Document(config=EMPTY, parts=(), scripts=(), findings=())
    found = read_document(saved.data.reveal(), allow_http=settings.allow_http)
    if settings.unknown != "fail" or found.errors:
        return found
    opaque = [part.place for part in found.parts if part.kind == OPAQUE]
    wrong = tuple(finding(ERROR, "this part has no known format", place=place) for place in opaque)
    return replace(found, findings=(*found.findings, *wrong))


def make_request(context: Context, saved: SavedUserdata, document: Document, *, vm_id: str, directory: str) -> Request:
    return Request(
        config=document.config,
        settings=context.config,
        metadata=saved.metadata,
        vm_id=vm_id,
        directory=directory,
        parts=document.scripts,
        today=today(context.machine),
        rooted=context.machine.rooted,
    )


def in_words(found: Finding) -> str:
    where = f"line {found.line}, column {found.column}" + (f" of {found.part}" if found.part else "")
    return f"{where}: {found.message}" + (f" ({found.hint})" if found.hint else "")
