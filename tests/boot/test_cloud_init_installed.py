"""azure-init-cloud-init on a real distribution: installed, upgraded, removed, purged, and beside cloud-init."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from azureinit.cli.cloud_init import DONE, ERROR, exit_status, status_values
from azureinit.facts.cloud_init_state import State
from azureinit.modules.compat_files import result_values, status_values as as_status
from support.container import debian_root
from support.need import need, need_root
from support.package_disks import Disk, build_debs, install
from support.peer_cloud_init import imported

pytestmark = pytest.mark.newer

PACKAGE = "azure-init-cloud-init_*.deb"
SETTING = "/etc/azure-init/azure-init.toml.d/azure-init-cloud-init.toml"
SYSTEM = "/usr/lib/systemd/system"
NAMES = ("cloud-init-local", "cloud-init", "cloud-init-network", "cloud-config", "cloud-final")
WANTED = f"{SYSTEM}/azure-init.service.wants/azure-init-userdata.target"
STATE = ("/var/lib/cloud/instances/x", "/var/lib/cloud/data", "/run/cloud-init")
UNIT = "[Unit]\\nAfter=cloud-final.service cloud-init.target\\n[Service]\\nExecStart=/bin/true\\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_root()
    for tool in ("mmdebstrap", "dpkg-deb"):
        need(tool)
    return build_debs(tmp_path_factory.mktemp("built"))


@pytest.fixture
def disk(tmp_path: Path, built: Path) -> Disk:
    """With the agent installed."""
    disk = Disk(tmp_path / "disk", built, debian_root("trixie", "python3-yaml"))
    install(disk)
    return disk


def test_it_comes_and_goes_without_a_trace(disk: Disk) -> None:
    before = disk.files()
    said = install(disk, PACKAGE)
    assert "warning" not in said.lower() and "error" not in said.lower()
    files = disk.files()
    assert files["/usr/bin/cloud-init"].split()[-1] == "../lib/azure-init/cloud-init"
    assert {f"{SYSTEM}/{name}.service" for name in NAMES} | {f"{SYSTEM}/cloud-init.target", WANTED} < set(files)
    assert "cloud_init_compat = true" in disk.run("azure-init config show")
    assert disk.run("timeout 20 cloud-init status --wait").strip() == "status: disabled", "no stage will ever run here"
    disk.run(f"echo '# mine' >> {SETTING}; mkdir -p {' '.join(STATE)} /var/lib/cloud/scripts/per-boot")
    install(disk, PACKAGE)
    assert disk.read(SETTING).endswith("# mine\n")
    disk.run("dpkg --remove azure-init-cloud-init 2>&1")
    assert SETTING in disk.files() and "/usr/bin/cloud-init" not in disk.files()
    disk.run("dpkg --purge azure-init-cloud-init 2>&1; rmdir /var/lib/cloud/scripts/per-boot /var/lib/cloud/scripts")
    disk.run("rmdir /var/lib/cloud; rm -f /var/log/azure-init.log")
    assert disk.files() == before


def test_it_replaces_cloud_init_which_cannot_be_installed_beside_it(built: Path, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", built, debian_root("trixie", "cloud-init"))
    install(disk)
    assert "azure-init" not in disk.run("cloud-init --version 2>&1")
    said = install(disk, PACKAGE)
    assert "removing cloud-init" in said
    assert "azure-init" in disk.run("cloud-init --version 2>&1")
    control = (
        "Package: cloud-init\\nVersion: 99\\nArchitecture: all\\nMaintainer: a <a@example.invalid>\\nDescription: a\\n"
    )
    disk.run(f"mkdir -p /root/c/DEBIAN; printf '{control}' >/root/c/DEBIAN/control; dpkg-deb -b /root/c /root/c.deb")
    refused = disk.try_run("dpkg -i /root/c.deb 2>&1")
    assert refused.returncode == 1 and "conflict" in refused.stdout


def test_systemd_knows_the_units_by_both_names(disk: Disk) -> None:
    install(disk, PACKAGE)
    disk.run(f"printf '{UNIT}' >/etc/systemd/system/other.service")
    names = " ".join(f"{SYSTEM}/{name}.service" for name in NAMES)
    ran = disk.try_run(f"systemd-analyze verify --man=no {names} {SYSTEM}/cloud-init.target other.service")
    assert ran.returncode == 0, ran.stderr
    told = [line for line in ran.stderr.splitlines() if "cloud" in line or "azure-init" in line]
    assert told == []
    whole = disk.try_run("systemd-analyze verify --man=no multi-user.target")
    assert "cycle" not in whole.stderr, whole.stderr


def stage(*failures: str, cautions: tuple[str, ...] = ()) -> dict[str, Any]:
    told = [{"module": "runcmd", "message": text} for text in failures]
    return {"state": "done", "started": 100.0, "finished": 101.0, "failures": told, "cautions": list(cautions)}


@pytest.mark.parametrize(
    ("final", "code"), [(stage(), 0), (stage("exit status: 1"), 1), (stage(cautions=("snap: not done",)), 2)]
)
def test_cloud_init_s_own_command_reads_the_same_from_the_files(
    final: dict[str, Any],
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import json

    result = {"stages": {"network": stage(), "config": stage(), "final": final}}
    status = as_status(result, began=90.0)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/status.json").write_text(json.dumps(status))
    (tmp_path / "run/result.json").write_text(json.dumps(result_values(result)))
    ours = status_values(State(stages=status["v1"], finished=True))
    (tmp_path / "code").mkdir()
    with imported("trixie", "cloudinit.cmd.status", tmp_path / "code") as peer:
        paths = SimpleNamespace(run_dir=str(tmp_path / "run"))
        monkeypatch.setattr(peer, "read_cfg_paths", lambda: paths)
        ended = peer.handle_status_args("status", SimpleNamespace(wait=False, long=False, format="json"))
    theirs = json.loads(capsys.readouterr().out)
    assert ended == exit_status(ours) == code
    assert ours["status"] == (ERROR if code == 1 else DONE)
    differ = {key for key in theirs if ours.get(key) != theirs[key]}
    assert set(ours) == set(theirs) and differ <= {"boot_status_code", "last_update"}, (ours, theirs)


def test_the_command_needs_no_root_to_say_so(disk: Disk) -> None:
    install(disk, PACKAGE)
    ran: subprocess.CompletedProcess[str] = disk.try_run("setpriv --reuid nobody --clear-groups cloud-init clean")
    assert ran.returncode != 0 and "Traceback" not in ran.stderr, ran.stderr
