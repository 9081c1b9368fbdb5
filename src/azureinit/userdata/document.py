"""customData -> what the stages of a boot carry out: one cloud-config, and the scripts beside it.

Pure: an include that was not fetched and a template that was not rendered are parts like any other; `expanded` in run/
replaces them before this is called.
"""

from __future__ import annotations

from azureinit.record import Record
from azureinit.userdata.merge import merge_documents
from azureinit.userdata.node import MAPPING, Node
from azureinit.userdata.validate import parse_cloud_config, validate
from azureinit.userdata.values import CLOUD_CONFIG, ERROR, SCRIPTS, Finding, Part

EMPTY = Node(MAPPING, (), 1, 1)


class Document(Record):
    config: Node
    parts: tuple[Part, ...]
    # Scripts and boothooks, in their order.
    scripts: tuple[Part, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.level == ERROR)


def read_document(data: bytes, *, allow_http: bool = False) -> Document:
    """With an error in it, the document's configuration and scripts are empty: nothing of it is carried out."""
    report = validate(data, allow_http=allow_http)
    if report.errors:
        return Document(config=EMPTY, parts=report.parts, scripts=(), findings=report.findings)
    documents = [(parse_cloud_config(part)[0], part.merge_type) for part in report.parts if part.kind == CLOUD_CONFIG]
    merged = merge_documents([(node, header) for node, header in documents if node is not None])
    scripts = tuple(part for part in report.parts if part.kind in SCRIPTS)
    return Document(config=merged, parts=report.parts, scripts=scripts, findings=report.findings)
