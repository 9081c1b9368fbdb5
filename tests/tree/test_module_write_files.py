"""write_files in real file trees: bytes, modes, links, odd targets, interrupted runs."""

from __future__ import annotations

import gzip
import os
from base64 import b64encode
from pathlib import Path

import pytest

from azureinit.errors import AzureInitError
from azureinit.machine import Machine
from azureinit.plan.actions import Declined, Satisfied, Step, work_left
from azureinit.record import Secret
from azureinit.run.final_modules import MODULES as FINAL
from azureinit.run.modules import Module
from azureinit.run.network_modules import MODULES as NETWORK
from support.module_runs import VM_ID, apply_module, plan_module, request_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

NOW = next(module for module in NETWORK if module.name == "write_files")
LATER = next(module for module in FINAL if module.name == "write_files_deferred")
CONTENT = b"line one\n\xff\x00binary\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nada:x:1000:1001::/home/ada:/bin/sh\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nada:x:1001:\nwww:x:33:\n")
    return tmp_path


def declined(plan: Plan) -> str:
    ways = [way for step in work_left(plan) for way in step.ways]
    assert len(ways) == 1
    assert isinstance(ways[0], Declined)
    return ways[0].why


def planned(root: Path, text: str, module: Module = NOW, **fields: object) -> Plan:
    return plan_module(module, Machine(root=str(root)), request_of(text, **fields))


@pytest.mark.parametrize("encoding", ["b64", "base64", "gz+b64", "gz+base64", "gzip+b64", "gzip+base64"])
def test_an_encoded_content_is_decoded(root: Path, encoding: str) -> None:
    data = b64encode(gzip.compress(CONTENT) if encoding.startswith("gz") else CONTENT).decode()
    apply_module(NOW, root, f"write_files:\n- path: /srv/a\n  encoding: {encoding}\n  content: {data}\n")
    assert (root / "srv/a").read_bytes() == CONTENT


@pytest.mark.parametrize("encoding", ["gz", "gzip"])
def test_compressed_binary_content_is_decompressed(root: Path, encoding: str) -> None:
    data = b64encode(gzip.compress(CONTENT)).decode()
    apply_module(NOW, root, f"write_files:\n- path: /srv/a\n  encoding: {encoding}\n  content: !!binary {data}\n")
    assert (root / "srv/a").read_bytes() == CONTENT


def test_plain_text_permissions_and_new_directories(root: Path) -> None:
    text = "write_files:\n- path: /srv/x//y/../z/run.sh\n  permissions: '0750'\n  content: |\n    #!/bin/sh\n    true\n"
    apply_module(NOW, root, text)
    made = root / "srv/x/z/run.sh"
    assert made.read_bytes() == b"#!/bin/sh\ntrue\n"
    assert made.stat().st_mode & 0o7777 == 0o750
    assert (root / "srv/x").stat().st_mode & 0o7777 == 0o755
    assert not (root / "srv/x/y").exists()
    assert not work_left(planned(root, text))  # nothing is left to do


def test_no_content_makes_an_empty_file_and_an_existing_file_gets_the_mode(root: Path) -> None:
    (root / "etc/old").write_text("old")
    (root / "etc/old").chmod(0o600)
    apply_module(NOW, root, "write_files:\n- path: /etc/empty\n- {path: /etc/old, content: new}\n")
    assert (root / "etc/empty").read_bytes() == b""
    assert (root / "etc/old").read_text() == "new"
    assert (root / "etc/old").stat().st_mode & 0o7777 == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sets owners")
def test_owners_resolve_inside_the_tree(root: Path) -> None:
    (root / "etc/kept").write_text("x")
    os.chown(root / "etc/kept", 7, 8)
    text = """write_files:
- {path: /srv/new/both, owner: 'ada:www'}
- {path: /srv/user, owner: ada}
- {path: /srv/root}
- {path: /etc/kept, owner: 'none:www', content: y}
"""
    apply_module(NOW, root, text)
    owners = {str(path.relative_to(root)): (path.stat().st_uid, path.stat().st_gid) for path in root.rglob("*")}
    assert owners["srv/new"] == (1000, 33)  # as the file: cloud-init does so
    assert owners["srv/new/both"] == (1000, 33)
    assert owners["srv/user"] == (1000, 0)
    assert owners["srv/root"] == (0, 0)
    assert owners["etc/kept"] == (7, 33)
    assert not work_left(planned(root, text))


def test_a_missing_owner_is_a_failure_that_names_defer(root: Path) -> None:
    text = "write_files:\n- path: /srv/a\n  owner: 'carl:carl'\n"
    plan = planned(root, text)
    assert "there is no user carl yet" in declined(plan)
    assert "defer: true" in declined(plan)
    assert work_left(plan)[0].name == "write_files /srv/a (line 3)"
    with pytest.raises(AzureInitError, match="carl"):
        apply_module(NOW, root, text)
    assert not (root / "srv").exists()


def test_a_deferred_file_waits_for_its_owner(root: Path) -> None:
    text = "write_files:\n- {path: /srv/a, owner: 'carl', defer: true, content: late}\n- {path: /srv/b}\n"
    apply_module(NOW, root, text)
    assert sorted(os.listdir(root / "srv")) == ["b"]
    with (root / "etc/passwd").open("a") as accounts:
        accounts.write("carl:x:1005:1005::/home/carl:/bin/sh\n")
    apply_module(LATER, root, text)
    assert (root / "srv/a").read_text() == "late"
    assert not LATER.asked(request_of("write_files: [{path: /a}]"))


def test_content_is_a_secret_in_the_plan(root: Path) -> None:
    plan = planned(root, "write_files:\n- {path: /srv/token, content: hunter2}\n")
    assert "hunter2" not in repr(plan)


# ---- append


APPEND = 'write_files:\n- {path: /etc/list, append: true, content: "two\\n"}\n'


def test_append_adds_once(root: Path) -> None:
    (root / "etc/list").write_text("two\n")  # the same text is there already, and not from here
    (root / "etc/list").chmod(0o644)
    apply_module(NOW, root, APPEND)
    assert (root / "etc/list").read_text() == "two\ntwo\n"
    again = planned(root, APPEND)
    assert [type(item) for item in again] == [Satisfied]


def test_an_append_that_was_noted_and_not_done_is_done(root: Path) -> None:
    (root / "etc/list").write_text("one\n")
    directory = root / f"var/lib/azure-init/{VM_ID}.d"
    directory.mkdir(parents=True)
    (directory / "appended-0").write_text("4\n")  # the process died after the note
    apply_module(NOW, root, APPEND)
    assert (root / "etc/list").read_text() == "one\ntwo\n"


def test_several_items_for_one_file(root: Path) -> None:
    text = APPEND.replace("{path", '{path: /etc/list, content: "one\\n"}\n- {path') + APPEND.split("\n", 1)[1]
    apply_module(NOW, root, text)
    assert (root / "etc/list").read_text() == "one\ntwo\ntwo\n"
    assert not work_left(planned(root, text))


def test_appending_twice_to_a_file_of_the_image(root: Path) -> None:
    (root / "etc/list").write_text("one\n")
    text = APPEND + APPEND.split("\n", 1)[1]
    apply_module(NOW, root, text)
    assert (root / "etc/list").read_text() == "one\ntwo\ntwo\n"
    assert not work_left(planned(root, text))


# ---- sources


def test_a_fetched_source_wins_and_content_is_used_without_it(root: Path) -> None:
    text = "write_files:\n- path: /srv/a\n  source: {uri: 'https://example.test/a'}\n  content: fallback\n"
    apply_module(NOW, root, text, fetched={"https://example.test/a": Secret(b"fetched")})
    assert (root / "srv/a").read_text() == "fetched"
    apply_module(NOW, root, text)
    assert (root / "srv/a").read_text() == "fallback"


def test_a_source_that_was_not_fetched_is_refused(root: Path) -> None:
    text = "write_files:\n- path: /srv/a\n  source: {uri: 'https://example.test/a?sig=hunter2'}\n"
    why = declined(planned(root, text))
    assert "https://example.test/a was not fetched" in why
    assert "hunter2" not in why


# ---- odd targets


def test_a_link_of_root_is_followed(root: Path) -> None:
    (root / "etc/real").write_text("old")
    (root / "etc/link").symlink_to("real")
    apply_module(NOW, root, "write_files:\n- {path: /etc/link, content: new}\n")
    assert (root / "etc/link").is_symlink()
    assert (root / "etc/real").read_text() == "new"


@pytest.mark.parametrize("path", ["/tmp/x", "/tmp/d/x"])
def test_a_link_in_a_directory_of_others_is_not_followed(root: Path, path: str) -> None:
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "etc/shadow").write_text("secret")
    (root / "tmp/x").symlink_to("../etc/shadow")
    (root / "tmp/d").symlink_to("../etc")
    text = f"write_files:\n- {{path: {path}, content: evil}}\n"
    assert "a symbolic link" in declined(planned(root, text))
    with pytest.raises(AzureInitError, match="link"):
        apply_module(NOW, root, text)
    assert (root / "etc/shadow").read_text() == "secret"
    assert not (root / "etc/x").exists()


def test_a_link_that_appears_after_planning_is_not_followed(root: Path) -> None:
    from azureinit.run.enact import enact
    from azureinit.telemetry.events import Events

    (root / "tmp/d").mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    machine = Machine(root=str(root))
    plan = planned(root, "write_files:\n- {path: /tmp/d/x, content: evil}\n- {path: /tmp/y, content: evil}\n")
    (root / "tmp/d").rmdir()
    (root / "tmp/d").symlink_to("../etc")
    (root / "tmp/y").symlink_to("../etc/passwd")
    before = (root / "etc/passwd").read_text()
    for step in work_left(plan):
        with pytest.raises(AzureInitError):
            enact(machine, (step,), events=Events(clock=machine.clock), deadline=machine.clock.monotonic() + 9)
    assert not (root / "etc/x").exists()
    assert (root / "etc/passwd").read_text() == before


def test_a_link_of_root_into_a_directory_of_others_is_refused(root: Path) -> None:
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "tmp/x").write_text("theirs")
    (root / "etc/link").symlink_to("/tmp/x")
    assert "/tmp, which others can change" in declined(planned(root, "write_files: [{path: /etc/link}]"))


def test_directories_devices_and_long_names_are_refused(root: Path) -> None:
    (root / "etc/dir").mkdir()
    os.mkfifo(root / "etc/pipe")
    (root / "etc/loop").symlink_to("loop")
    wrong = {
        "/etc/dir": "/etc/dir is a directory, not a file",
        "/etc/pipe": "/etc/pipe is a special file, not a file",
        "/": "/ is a directory",
        "/..": "/ is a directory",
        "/dev/stdout": "lies in /dev",
        "/dev/sda": "lies in /dev",
        "/etc/passwd/x": "/etc/passwd is a file",
        "/etc/loop": "too many links",
        f"/etc/{'n' * 300}": "File name too long",
    }
    for path, why in wrong.items():
        assert why in declined(planned(root, f"write_files:\n- path: {path}\n")), path


def test_a_setting_of_the_kernel_is_not_written_from_a_tree(root: Path) -> None:
    (item,) = planned(root, "write_files: [{path: /proc/sys/vm/swappiness, content: '10'}]")
    assert "this is a file tree" in item.why
    (item,) = planned(root, "write_files: [{path: /proc/sys/vm/swappiness, content: '10'}]", rooted=False)
    assert isinstance(item, Step)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{path: /a, encoding: gz, content: plain}", "the data are damaged"),
        ("{path: /a, encoding: b64, content: a}", "base64"),
        ('{path: "/a\\0b"}', "not a path"),
    ],
)
def test_content_and_paths_that_cannot_be_written(root: Path, text: str, why: str) -> None:
    assert why in declined(planned(root, f"write_files:\n- {text}\n"))


def test_a_small_document_does_not_become_a_large_file(root: Path) -> None:
    bomb = b64encode(gzip.compress(bytes(65 << 20), 9)).decode()
    text = f"write_files:\n- {{path: /a, encoding: gz+b64, content: {bomb}}}\n"
    assert "larger than 64 MiB" in declined(planned(root, text))
