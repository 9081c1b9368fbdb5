"""The service manager's socket, and the time of the machine's start."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from azureinit.machine import Machine
from azureinit.machine.service import boot_moment, is_service, notify


@pytest.mark.parametrize("abstract", [False, True])
def test_word_reaches_the_manager(tmp_path: Path, abstract: bool) -> None:
    path = f"@azure-init-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + path[1:] if abstract else path)
        machine = Machine(environ={"NOTIFY_SOCKET": path})
        assert is_service(machine)
        notify(machine, "READY=1\nSTATUS=provisioned")
        assert manager.recv(4096) == b"READY=1\nSTATUS=provisioned"


@pytest.mark.parametrize("address", ["", "/nobody/listens", "relative", "@nobody-at-all"])
def test_where_nobody_listens_nothing_happens(address: str) -> None:
    machine = Machine(environ={"NOTIFY_SOCKET": address} if address else {})
    notify(machine, "READY=1")
    assert is_service(machine) is bool(address)


def test_a_manager_that_does_not_read_holds_nobody_up(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        machine = Machine(environ={"NOTIFY_SOCKET": path})
        filler = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        filler.setblocking(False)
        with filler, pytest.raises(BlockingIOError):
            while True:
                filler.sendto(b"x" * 512, path)
        notify(machine, "READY=1")


def test_a_tree_has_no_manager(tmp_path: Path) -> None:
    assert not is_service(Machine(root=str(tmp_path), environ={"NOTIFY_SOCKET": "/run/systemd/notify"}))


def test_the_machine_is_up_since_its_first_process(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    ticks = os.sysconf("SC_CLK_TCK")
    fields = ["1", "(odd (name) x)", "S", *("0" * 18), str(42 * ticks), "0"]
    (tmp_path / "proc/1/stat").write_text(" ".join(fields))
    assert boot_moment(Machine(kernel=str(tmp_path), environ={})) == 42.0


@pytest.mark.parametrize("text", ["", "1 (init) S", "1 (init) S " + "x " * 40])
def test_a_machine_that_does_not_tell_is_up_since_the_kernel(tmp_path: Path, text: str) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/stat").write_text(text)
    assert boot_moment(Machine(kernel=str(tmp_path), environ={})) == 0.0
