"""The document that the network stage leaves parsed for the stages after it, and their fallback: parsing it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from azureinit.run.carry import read_result
from azureinit.run.userdata import PARSED
from azureinit.telemetry.events import WARN
from azureinit.userdata.document import read_document
from support.userdata_worlds import World
from support.wire import Server, answer

DEFERRED = b"#cloud-config\nwrite_files:\n- {path: /root/late, content: a password, defer: true}\nchef: {x: 1}\n"
DATED = b"#cloud-config\nwrite_files:\n- {path: /root/late, content: a password, defer: true}\nchef: {x: 2030-01-01}\n"
SECRET = b"a password"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Server(answer(200)) as health:
        yield World(tmp_path, health)


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a document was parsed."""
    counted: list[int] = []

    def count(*words: Any, **options: Any) -> Any:
        counted.append(1)
        return read_document(*words, **options)

    monkeypatch.setattr("azureinit.run.expand.read_document", count)
    return counted


def outcome(world: World, tree: tuple[str, ...] = ("root/late",)) -> dict[str, Any]:
    result = read_result(world.machine)["stages"]["final"]
    files = {name: (world.root / name).read_bytes() for name in tree}
    told = sorted({event.text for event in world.heard if event.level == WARN})
    return {"state": result["state"], "cautions": result["cautions"], "files": files, "told": told}


def test_the_final_stage_parses_nothing_and_does_the_same_as_one_that_does(tmp_path: Path, parses: list[int]) -> None:
    found = []
    for name in ("kept", "removed"):
        with Server(answer(200)) as health:
            world = World(tmp_path / name, health)
            world.saves(DEFERRED)
            assert world.stage("network") == 0
            if name == "removed":
                world.machine.remove(PARSED)
            before = len(parses)
            assert world.stage("final") == 0
            assert (len(parses) == before) == (name == "kept")
            found.append(outcome(world))
    assert found[0] == found[1] and found[0]["files"] == {"root/late": SECRET}
    assert any("chef" in text for text in found[0]["cautions"]), "a warning is told by both"


def test_the_file_is_for_root_alone_and_gone_after_the_last_stage(world: World) -> None:
    world.saves(DEFERRED)
    assert world.stage("network") == 0
    kept = world.root / PARSED[1:]
    assert kept.stat().st_mode & 0o7777 == 0o600 and SECRET in kept.read_bytes()
    assert world.stage("config") == 0 and kept.exists()
    assert world.stage("final") == 0 and not kept.exists()


@pytest.mark.parametrize("change", ["image", "settings", "boot", "document", "damage", "empty"])
def test_one_that_was_made_from_something_else_is_not_used(world: World, parses: list[int], change: str) -> None:
    world.saves(DEFERRED)
    assert world.stage("network") == 0
    kept = world.root / PARSED[1:]
    if change == "image":
        place = world.root / "etc/azure-init/userdata.d"
        place.mkdir(parents=True)
        (place / "one.cfg").write_text("#cloud-config\nfinal_message: from the image\n")
    elif change == "settings":
        world.settings(allow_http=True)
    elif change == "boot":
        world.boot()
    elif change == "document":
        world.saves(DEFERRED.replace(b"password", b"passport"))
    elif change == "damage":
        kept.write_bytes(kept.read_bytes().replace(SECRET, b"b password"))
    else:
        kept.write_bytes(b"")
    before = len(parses)
    assert world.stage("final") == 0 and len(parses) > before
    written = (world.root / "root/late").read_bytes()
    assert written == (b"a passport" if change == "document" else SECRET)


def test_a_document_that_json_cannot_hold_is_parsed_by_every_stage(world: World, parses: list[int]) -> None:
    world.saves(DATED)
    assert world.stage("network") == 0
    assert not (world.root / PARSED[1:]).exists()
    before = len(parses)
    assert world.stage("final") == 0 and len(parses) > before and (world.root / "root/late").exists()


def test_a_document_with_errors_is_not_kept(world: World) -> None:
    world.saves(b"#cloud-config\nruncmd: 1\n")
    assert world.stage("network") == 1 and not (world.root / PARSED[1:]).exists()


def test_it_is_json_with_a_checksum(world: World) -> None:
    world.saves(DEFERRED)
    assert world.stage("network") == 0
    values = json.loads((world.root / PARSED[1:]).read_bytes())
    assert set(values) == {"made from", "nodes", "scripts", "findings", "fetched", "crc32"}
