"""customData -> what the stages of a boot carry out: one cloud-config, and the scripts beside it.

Pure: an include that was not fetched and a template that was not rendered are parts like any other; `expand` in run/
hands in what they become. The image's configuration lies below: it counts where customData says nothing.
"""

from __future__ import annotations

from azureinit.record import Record
from azureinit.userdata.expanding import NOTHING
from azureinit.userdata.node import MAPPING, NULL, TEXT, Node
from azureinit.userdata.values import CLOUD_CONFIG, ERROR, SCRIPTS, TEMPLATE, Finding, Include, Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.facts.image_config import ConfigFile
    from azureinit.record import Secret
    from azureinit.userdata.expanding import Expansion

EMPTY = Node(MAPPING, (), 1, 1)


class Document(Record):
    config: Node
    parts: tuple[Part, ...]
    # Scripts and boothooks, in their order.
    scripts: tuple[Part, ...]
    findings: tuple[Finding, ...]
    # The sources of write_files, by URI.
    fetched: Mapping[str, Secret] = {}
    # Templates of the image's configuration that were not rendered.
    image_templates: tuple[bytes, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.level == ERROR)

    @property
    def includes(self) -> tuple[Include, ...]:
        """Those that were not fetched."""
        return tuple(include for part in self.parts for include in part.includes)

    @property
    def templates(self) -> tuple[Part, ...]:
        """Those that were not rendered."""
        return tuple(part for part in self.parts if part.kind == TEMPLATE)


def read_document(
    data: bytes,
    *,
    allow_http: bool = False,
    expansion: Expansion = NOTHING,
    below: tuple[ConfigFile, ...] = (),
) -> Document:
    """With an error in it, the document's configuration and scripts are empty: nothing of it is carried out.

    `below`: the image's configuration, the file that wins first.
    """
    from azureinit.userdata.merge import merge_documents  # not loaded by a stage that finds the document parsed
    from azureinit.userdata.validate import parse_cloud_config, validate

    report = validate(data, allow_http=allow_http, expansion=expansion)
    lower, findings = EMPTY, report.findings
    templates: tuple[bytes, ...] = ()
    if below:
        from azureinit.userdata.below import read_below

        lower, found, templates = read_below(below, expansion=expansion)
        findings += found
    if any(one.level == ERROR for one in findings):
        return Document(
            config=EMPTY, parts=report.parts, scripts=(), findings=findings, image_templates=templates
        )  # fmt: skip
    documents = [(parse_cloud_config(part)[0], part.merge_type) for part in report.parts if part.kind == CLOUD_CONFIG]
    merged = merge_documents([(node, header) for node, header in documents if node is not None])
    if below:
        from azureinit.userdata.below import merge_below

        merged = merge_below(merged, lower)
    merged = _with_values(merged)
    scripts = tuple(part for part in report.parts if part.kind in SCRIPTS)
    return Document(
        config=merged, parts=report.parts, scripts=scripts, findings=findings, image_templates=templates
    )  # fmt: skip


def _with_values(config: Node) -> Node:
    """Without keys that have no value, after they have replaced others. `ntp` is complete without one."""
    if not config.pairs():
        return config
    from azureinit.userdata.check import fits, with_values
    from azureinit.userdata.keys import BY_NAME

    kept = []
    for key, value in config.pairs():
        row = BY_NAME.get(key.value) if key.kind == TEXT else None
        if value.kind != NULL or (row is not None and fits(value, row.kind)):
            kept.append((key, with_values(value, row.kind) if row is not None else value))
    return (
        config if tuple(kept) == config.pairs() else Node(MAPPING, tuple(kept), config.line, config.column, config.part)
    )
