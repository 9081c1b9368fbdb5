"""Host keys on machines with the package installed: as sshd shows them, and as the platform knows them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.boot_checks import LATE, is_orderly, is_provisioned
from support.host_keys import TYPES, carried, shown, told
from support.installed import Disk, Images, Machines

pytestmark = pytest.mark.newer

ANEW = "[azure-init.ssh]\nregenerate_host_keys = true\n"
NEVER = "[azure-init.ssh]\nregenerate_host_keys = false\n"
EARLIEST = ("ed25519", "ecdsa")  # the other is made when sshd runs, which shows it from its next start on


@pytest.fixture
def machine(images: Images, tmp_path: Path) -> Iterator[Machines]:
    """Of an image that carries keys."""

    def made(suite: str) -> Disk:
        disk = Disk(images(suite), tmp_path / "machine")
        disk.change("ssh-keygen -A >/dev/null")
        return disk

    yield made
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize(("suite", "asked"), [("bookworm", ANEW), ("bookworm", ""), ("trixie", "")])
def test_nobody_ever_meets_a_key_of_the_image(machine: Machines, suite: str, asked: str) -> None:
    disk = machine(suite)
    image = carried(disk)
    with disk.boot(asked) as boot:
        boot.ready()
        first = shown(boot)
        assert set(EARLIEST) <= set(first) and not set(first.values()) & set(image.values())
        is_provisioned(boot)
        is_orderly(boot)
        assert boot.ended() == "success 0"
        assert told(boot) == [first["ed25519"].replace(":", "")]
    assert not set(carried(disk).values()) & set(image.values())
    with disk.boot(asked) as boot:
        assert boot.ended() == "success 0"
        again = shown(boot)
        assert set(again) == set(TYPES)
        assert {kind: again[kind] for kind in EARLIEST} == {kind: first[kind] for kind in EARLIEST}
        assert boot.requests() == []


def test_an_sshd_that_was_let_go_before_the_platform_came_shows_the_new_keys_too(machine: Machines) -> None:
    disk = machine("trixie")
    image = carried(disk)
    with disk.boot(LATE) as boot:
        assert shown(boot) == image, "nothing is known yet, and so nothing is changed"
        boot.ready()
        boot.until(
            lambda: (keys := set(shown(boot).values())) and not keys & set(image.values()), "sshd shows other keys"
        )
        is_provisioned(boot)


def test_where_that_is_asked_for_the_image_s_keys_are_what_is_shown_and_told(machine: Machines) -> None:
    disk = machine("trixie")
    image = carried(disk)
    with disk.boot(NEVER) as boot:
        boot.ready()
        assert shown(boot) == image
        assert boot.ended() == "success 0"
        assert told(boot) == [image["ed25519"].replace(":", "")]
