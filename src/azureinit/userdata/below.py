"""The image's configuration: files that lie below customData. Of two values the first counts, mappings are merged.

A mistake in a file of azure-init is an error that names the file. A file of cloud-init may have keys that only
cloud-init knows: those are left out with a warning, except for those that distributions ship for cloud-init itself. A
warning is what `cloud-init status` ends with 2 for.
"""

from __future__ import annotations

from azureinit.userdata.expanding import Failed
from azureinit.userdata.formats import sniff
from azureinit.userdata.merge import HOW, MergeFailed, merge, split_mergers
from azureinit.userdata.node import MAPPING, Node
from azureinit.userdata.validate import parse_cloud_config
from azureinit.userdata.values import CLOUD_CONFIG, ERROR, TEMPLATE, WARNING, Finding, Part, Place, finding, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.image_config import ConfigFile
    from azureinit.userdata.expanding import Expansion

FIRST_WINS = "list()+dict()+str()"
# Its logging, its temporary directory, and a setting for another platform.
SHIPPED = ("_log", "log_cfgs", "resize_rootfs_tmp", "disable_vmware_customization")


def read_below(
    files: tuple[ConfigFile, ...], *, expansion: Expansion
) -> tuple[Node, tuple[Finding, ...], tuple[bytes, ...]]:
    """The files as one mapping, what is wrong with them, and the templates among them that were not rendered."""
    merged = Node(MAPPING, (), 1, 1)
    findings: list[Finding] = []
    templates: list[bytes] = []
    for file in files:
        place = Place(part=file.path)
        content: bytes | Failed | None = file.content
        if sniff(file.content) == TEMPLATE:
            content = expansion.rendered.get(file.content)
        if file.trouble:
            findings.append(finding(ERROR if file.strict else WARNING, file.trouble, place=place))
        elif content is None:
            templates.append(file.content)
            findings.append(finding(WARNING, "the template is not rendered, and its content is not used", place=place))
        elif isinstance(content, Failed):
            message = f"the template cannot be rendered: {content.why}"
            findings.append(finding(ERROR, message, place=place, line=content.line, hint=content.hint))
        else:
            document, found = _parsed(content, place, strict=file.strict)
            findings += found
            if document is not None:
                merged, found = _merged(merged, document)
                findings += found
    return merged, tuple(findings), tuple(templates)


def merge_below(upper: Node, lower: Node) -> Node:
    return _merged(upper, lower)[0]


def _parsed(content: bytes, place: Place, *, strict: bool) -> tuple[Node | None, list[Finding]]:
    document, found = parse_cloud_config(Part(kind=CLOUD_CONFIG, name=place.part, content=content, place=place))
    if strict or document is None:
        return document, list(found)
    from azureinit.userdata.check import check_document

    kept: list[tuple[Node, Node]] = []
    findings: list[Finding] = []
    for pair in document.pairs():
        alone = Node(MAPPING, (pair,), pair[0].line, pair[0].column, place.part)
        if not any(one.level == ERROR for one in check_document(alone)):
            kept.append(pair)
            continue
        key = pair[0]
        if key.value in SHIPPED:
            continue
        message = f"{shown(key.text)} is not used: azure-init does not know it, or not in this form"
        findings.append(Finding(level=WARNING, message=message, line=key.line, column=key.column, part=place.part))
    return Node(MAPPING, tuple(kept), document.line, document.column, place.part), findings


def _merged(upper: Node, lower: Node) -> tuple[Node, list[Finding]]:
    """A file may name mergers of its own."""
    how = next((lower.get(name) for name in HOW if lower.get(name) is not None), None)
    try:
        rest, mergers = split_mergers(lower, "" if how is not None else FIRST_WINS)
        return merge(upper, rest, mergers), []
    except MergeFailed as failed:
        at = failed.node or how or lower
        message = f"cannot merge: {failed}"
        return upper, [Finding(level=ERROR, message=message, line=at.line, column=at.column, part=at.part)]
