"""A customData document that cloud-init and azure-init carry out, and the differences that are expected."""

from __future__ import annotations

from azureinit.record import Record


class Trial(Record):
    name: str
    data: bytes
    differs: dict[str, str] = {}  # noqa: RUF012 - frozen by Record, never changed
    # cloud-init applies a part of it, or nothing, and azure-init refuses the whole: the reason.
    refused: str = ""


def config(name: str, text: str, *, differs: dict[str, str] | None = None, refused: str = "") -> Trial:
    return Trial(name=name, data=f"#cloud-config\n{text}".encode(), differs=differs or {}, refused=refused)
