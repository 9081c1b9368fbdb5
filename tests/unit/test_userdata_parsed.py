"""The parsed document as JSON: what comes out is what went in, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from azureinit.record import Secret, replace
from azureinit.userdata.document import Document, read_document
from azureinit.userdata.node import LIST, MAPPING, Node
from azureinit.userdata.parsed import decode_document, encode_document
from support.userdata_documents import TRIALS

DOCUMENTS = {trial.name: document for trial in TRIALS if not (document := read_document(trial.data)).errors}


def rows(node: Node) -> Any:
    value = node.value
    if node.kind == LIST:
        value = [rows(item) for item in value]
    elif node.kind == MAPPING:
        value = [(rows(key), rows(item)) for key, item in value]
    return node.kind, type(node.value), value, node.line, node.column, node.part, node.text, node.literal


def again(document: Document) -> Document:
    found = decode_document(json.loads(json.dumps(encode_document(document))))
    assert found is not None
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_comes_back_as_it_was(name: str) -> None:
    document = replace(DOCUMENTS[name], fetched={"https://host/file": Secret(b"\0\xff")})
    found = again(document)
    assert rows(found.config) == rows(document.config)
    assert (found.scripts, found.findings) == (document.scripts, document.findings)
    assert found.fetched == document.fetched


def test_there_are_documents_of_every_kind() -> None:
    assert len(DOCUMENTS) > 40 and any(one.scripts for one in DOCUMENTS.values())


def test_an_aliased_part_stays_one_object() -> None:
    text = b"#cloud-config\nruncmd:\n- &one [echo, a]\n- *one\n"
    commands = again(read_document(text)).config.get("runcmd")
    assert commands is not None
    first, second = commands.items()
    assert first is second and len(first.items()) == 2


def test_bytes_and_letters_of_every_kind_come_back() -> None:
    text = (
        '#cloud-config\nwrite_files:\n- {path: /x, content: !!binary AP8=}\nfinal_message: "\\0 \\u00e9 \\U0001F600"\n'
    )
    document = read_document(text.encode())
    assert not document.errors and rows(again(document).config) == rows(document.config)


@pytest.mark.parametrize("value", ["2030-01-01", "2030-01-01 10:00:00", ".inf", ".nan"])
def test_what_json_cannot_hold_is_refused(value: str) -> None:
    document = read_document(f"#cloud-config\nchef: {{x: {value}}}\n".encode())
    with pytest.raises(ValueError, match=r"JSON has no dates|Out of range float"):
        json.dumps(encode_document(document), allow_nan=False)


def test_other_values_are_no_document() -> None:
    values = encode_document(DOCUMENTS["a file"])
    damaged: list[dict[str, Any]] = [
        {},
        {**values, "nodes": []},
        {**values, "nodes": [["list", [5], 1, 1, "", "", False]]},
        {**values, "nodes": [["text", "a"]]},
        {**values, "nodes": None},
        {**values, "scripts": [{"kind": "script"}]},
        {**values, "findings": [{"level": "error", "other": 1}]},
        {**values, "fetched": ["a"]},
    ]
    assert [decode_document(one) for one in damaged] == [None] * len(damaged)
