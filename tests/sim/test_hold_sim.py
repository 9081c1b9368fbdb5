"""A platform that is late: logins go ahead, and WALinuxAgent, which starts with them, leaves provisioning to us."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from test_custom_data_sim import System

from conftest import QUICK
from need import need_root, unfit


def test_walinuxagent_knows_before_it_is_let_go_that_provisioning_is_not_its_job(tmp_path: Path) -> None:
    need_root()
    one = System(tmp_path, b"")
    tables = {
        **QUICK,
        "boot": {"hold_logins_secs": 0.3},
        "disk": {"grow_root": False},
        "imds": {**QUICK["imds"], "endpoint": "http://127.0.0.1:1"},
        "provisioning_media": {"enable": False},
        "run": {"deadline_secs": 4, "verdict_reserve_secs": 2},
        "ssh": {"host_key_types": []},
    }
    (tmp_path / "place/config.toml").write_text(one.fabric.config_text(**tables))
    (tmp_path / "upper/etc").mkdir()
    (tmp_path / "upper/etc/waagent.conf").write_text("Provisioning.Agent=auto\n")
    command = one.command()
    command.insert(command.index("-i") + 1, "NOTIFY_SOCKET=/mnt/place/notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "place/notify"))
        manager.settimeout(20)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as agent:
            told = ""
            while agent.poll() is None and "READY=1" not in told:
                told = manager.recv(4096).decode()
            marker = tmp_path / "upper/var/lib/waagent/provisioned"
            found = marker.read_text() if marker.exists() else ""
            _, errors = agent.communicate(timeout=30)
    one.fabric.stop()
    if agent.returncode == 125:
        unfit(f"no layer over this system's files: {errors.strip()}")
    assert "still provisioning" in told, errors
    assert found == f"{one.fabric.vm.id}\n"
