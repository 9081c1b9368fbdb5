"""Merging and detection of customData, compared with the code of cloud-init in Debian 12 and 13."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.userdata.formats import TYPES, sniff
from azureinit.userdata.keys import BY_NAME
from azureinit.userdata.merge import DEFAULT, MergeFailed, merge_documents
from azureinit.userdata.node import FLAG, INTEGER, LIST, MAPPING, NULL, NUMBER, TEXT, Node, plain
from azureinit.userdata.validate import validate
from azureinit.userdata.values import ERROR, OPAQUE
from support.bounds import bounded
from support.peer_cloud_init import SUITES, code_of, imported

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "b", "ab"]))
NAMES = st.sampled_from(["a", "b", "c", "runcmd", "merge_type", 0, 1, None])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
OPTIONS = st.lists(
    st.sampled_from(
        ["append", "prepend", "replace", "no_replace", "no-replace", "recurse_str", "recurse_list", "recurse_array",
         "recurse_dict", "allow_delete", "REPLACE", " append ", "nonsense", ""]
    ),
    max_size=4,
)  # fmt: skip
KINDS = st.sampled_from(["dict", "list", "str", "Dict", "m_list", "set", "", "d-ict"])
TEXTS = st.lists(st.builds(lambda kind, options: f"{kind}({','.join(options)})", KINDS, OPTIONS), max_size=4).map(
    "+".join
)
SETTINGS = st.sampled_from(["append", "no_replace", None, 3])
HOW = st.one_of(
    TEXTS,
    st.sampled_from(["list(append)+dict(no_replace,recurse_list)+str()", DEFAULT, "list()+dict()", "x(", "a(b)c)"]),
    st.lists(
        st.one_of(
            st.fixed_dictionaries({"name": KINDS, "settings": st.one_of(OPTIONS, SETTINGS)}),
            st.builds(lambda kind, options: [kind, *options], KINDS, OPTIONS),
            st.sampled_from([[], {}, "dict(replace)", None, 3]),
        ),
        max_size=3,
    ),
    VALUES,
)  # fmt: skip
NAMED = st.sampled_from(["merge_how", "merge_type"])
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=5)


def node_of(value: Any) -> Node:
    if isinstance(value, dict):
        return Node(MAPPING, tuple((node_of(key), node_of(one)) for key, one in value.items()), 1, 1)
    if isinstance(value, list):
        return Node(LIST, tuple(node_of(one) for one in value), 1, 1)
    kinds = {bool: FLAG, int: INTEGER, float: NUMBER, str: TEXT, type(None): NULL}
    return Node(kinds[type(value)], value, 1, 1, text=str(value))


def by_cloud_init(mergers: ModuleType, documents: list[tuple[dict[Any, Any], str]]) -> Any:
    """As its handler of cloud-config parts does, but a part that fails is raised, not left out."""
    merged: Any = {}
    for document, header in documents:
        payload = copy.deepcopy(document)
        named = [*mergers.dict_extract_mergers(payload), *mergers.string_extract_mergers(header)]
        chosen = mergers.construct(named or mergers.string_extract_mergers(DEFAULT))
        merged = chosen.merge(merged, payload)
    return merged


@pytest.fixture(scope="module", params=SUITES)
def mergers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(request.param, "cloudinit.mergers", tmp_path_factory.mktemp("peer")) as module:
        yield module


def same(mergers: ModuleType, documents: list[tuple[dict[Any, Any], str]]) -> bool:
    """True if both merged, with equal results; a failure must be one on both sides."""
    try:
        expected, failed = by_cloud_init(mergers, documents), False
    except Exception:  # noqa: BLE001 - its handler catches every exception, and leaves the part out
        expected, failed = None, True
    try:
        merged = plain(merge_documents([(node_of(document), header) for document, header in documents]))
    except MergeFailed:
        assert failed, documents
        return False
    assert not failed, documents
    assert exact(merged) == exact(expected), documents
    return True


def exact(value: Any) -> str:
    """1, True and 1.0 are equal in Python, and not here. The order of keys counts, too."""
    return repr(value)


def test_by_default_a_later_document_replaces_top_level_keys(mergers: ModuleType) -> None:
    documents: list[tuple[dict[Any, Any], str]] = [
        ({"runcmd": ["a"], "apt": {"x": 1}, "k": 1}, ""),
        ({"runcmd": ["b"], "apt": {"y": 2}}, ""),
    ]
    assert same(mergers, documents)
    merged = merge_documents([(node_of(document), header) for document, header in documents])
    assert plain(merged) == {"runcmd": ["b"], "apt": {"y": 2}, "k": 1}


def test_documents_merge_as_in_cloud_init(mergers: ModuleType) -> None:
    tally = {True: 0, False: 0}

    @settings(max_examples=bounded(500, 5000), deadline=None, database=None)
    @given(st.lists(st.tuples(DOCUMENTS, st.none() | HOW, NAMED, TEXTS | st.just("")), min_size=1, max_size=3))
    def compare(drawn: list[tuple[dict[Any, Any], Any, str, str]]) -> None:
        documents = [
            (document if how is None else {**document, name: how}, header) for document, how, name, header in drawn
        ]
        tally[same(mergers, documents)] += 1

    compare()
    assert min(tally.values()) > 20  # both outcomes were seen


USUAL = ["list(append)+dict(no_replace,recurse_list)+str()", "list(prepend)+dict(replace)+str(append)",
         "dict(no_replace,recurse_str,allow_delete)+list(no_replace)+str(append)", "list()+dict()+str()",
         "dict(recurse_array)+list(recurse_dict,recurse_array,recurse_str)+str(append)", ""]  # fmt: skip


def test_usual_mergers_give_what_cloud_init_gives(mergers: ModuleType) -> None:
    merged = 0

    @settings(max_examples=bounded(500, 5000), deadline=None, database=None)
    @given(st.lists(st.tuples(DOCUMENTS, st.sampled_from(USUAL)), min_size=2, max_size=3))
    def compare(documents: list[tuple[dict[Any, Any], str]]) -> None:
        nonlocal merged
        merged += same(mergers, documents)

    compare()
    assert merged > 100


@pytest.mark.parametrize("suite", SUITES)
def test_every_key_of_cloud_init_s_schema_has_a_row(suite: str) -> None:
    schema = json.loads((code_of(suite) / "config/schemas/schema-cloud-config-v1.json").read_text())
    top = {name for key, one in schema["$defs"].items() if key.startswith(("cc_", "base_", "report", "output"))
           for name in one.get("properties", {})}  # fmt: skip
    assert len(top) >= 90
    assert top - set(BY_NAME) == set()


@pytest.mark.parametrize("suite", SUITES)
def test_first_lines_are_recognised_as_in_cloud_init(suite: str, tmp_path: Path) -> None:
    """Its table is read as text: importing its handlers needs packages of the suite."""
    text = (code_of(suite) / "handlers/__init__.py").read_text()
    table: dict[str, str] = {}
    body = text.partition("INCLUSION_TYPES_MAP = {")[2].partition("\n}")[0]
    exec(f"table.update({{{body}}})", {"table": table})
    assert len(table) > 8
    for header, content_type in table.items():
        if header.startswith("#"):
            assert sniff(f"\n {header.upper()} x\n".encode()) == TYPES[content_type] != OPAQUE


# Its examples that have mistakes, or that are not meant to be used whole.
MISTAKEN = {
    "cloud-config-add-apt-repos.txt": "the key apt is given twice",
    "cloud-config-ansible-pull.txt": "unknown key packages_update",
    "cloud-config-archive-launch-index.txt": "a cloud-config must be a mapping",
    "cloud-config-archive.txt": "a cloud-config must be a mapping",
    "cloud-config-disk-setup.txt": "the key fs_setup is given twice",
    "include-once.txt": "an include must be an https:// URL",
    "include.txt": "an include must be an https:// URL",
}


@pytest.mark.parametrize("suite", SUITES)
def test_no_other_example_of_cloud_init_has_an_error(suite: str) -> None:
    examples = code_of(suite).parents[3] / "share/doc/cloud-init/examples"
    tried = 0
    for path in sorted(examples.glob("*.txt")):
        errors = [one for one in validate(path.read_bytes()).findings if one.level == ERROR]
        expected = MISTAKEN.get(path.name)
        assert all(expected and one.line >= 1 for one in errors), (path.name, errors)
        assert not errors or any(expected in one.message for one in errors if expected), (path.name, errors)
        tried += 1
    assert tried >= 30
