"""The package that stands in for cloud-init, on a real boot: what scripts ask, and the files and units they know."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from support.installed import Boot, Disk, Images, Machines

pytestmark = pytest.mark.newer

SYSTEM = ("trixie", "python3-yaml", "python3-jinja2")
GIVEN = """#cloud-config
bootcmd:
- [cloud-init-per, instance, mine, sh, -c, 'echo once for this VM >>/root/per']
write_files:
- path: /srv/made
  content: from customData
users:
- default
- name: other
runcmd:
- echo runcmd was here
- cloud-init status >/root/status-within
- sleep 1
- touch /root/all
"""
WARNED = "#cloud-config\nlandscape: {client: {}}\n"
FAILING = """#cloud-config
runcmd:
- sh -c 'exit 3'
- echo later; sh -c 'exit 4'
"""
AFTER = """[Unit]
After={0}
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'cat /run/cloud-init/result.json >/root/after-{0}'
[Install]
WantedBy={1}
"""
STAGES = {"init-local", "init", "modules-config", "modules-final"}
# What cloud-init 25.1 has in them.
STATUS = {
    "boot_status_code", "datasource", "detail", "errors", "extended_status", "last_update", "recoverable_errors",
    "stage", "status", *STAGES,
}  # fmt: skip
STAGE = {"errors", "recoverable_errors", "start", "finished"}


def given(text: str) -> str:
    return f"custom_data = {json.dumps(text)}"


@pytest.fixture
def disk(machine: Machines, images: Images) -> Disk:
    disk = machine(*SYSTEM)
    (package,) = images.package.parent.glob("azure-init-cloud-init_*.deb")
    shutil.copy(package, disk.layer / "cloud-init.deb")
    for name, by in (("cloud-final.service", "multi-user.target"), ("cloud-init.target", "cloud-init.target")):
        disk.write(f"etc/systemd/system/after-{name.partition('.')[2]}.service", AFTER.format(name, by))
    disk.change("dpkg -i /cloud-init.deb; rm /cloud-init.deb; systemctl enable after-service after-target")
    return disk


def status(boot: Boot, *, code: int, user: str = "root") -> dict[str, Any]:
    words = ("setpriv", "--reuid", user, "--clear-groups", "cloud-init", "status", "--format", "json")
    ran = boot.run(*words)
    assert ran.returncode == code, ran.stdout + ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    assert set(found) == STATUS and all(set(found[stage]) == STAGE for stage in STAGES)
    return found


def waited(boot: Boot) -> subprocess.CompletedProcess[str]:
    return boot.run("cloud-init", "status", "--wait", timeout=90)


def test_what_scripts_ask(disk: Disk) -> None:
    with disk.boot(vm=given(GIVEN), wait=False) as boot:
        early = boot.until(lambda: boot.run("cloud-init", "status").stdout, "the command answers")
        assert early in ("status: not started\n", "status: running\n")
        ended = waited(boot)
        assert (ended.returncode, ended.stdout.lstrip(".\n")) == (0, "status: done\n"), boot.journal("-b")
        assert boot.run("test", "-e", "/root/all").returncode == 0, "it was waited for"
        assert boot.out("cat", "/root/status-within") == "status: running"
        boot.out("cloud-init", "init")
        assert boot.out("cat", "/root/per") == "once for this VM", "and bootcmd was run again"
        found = status(boot, code=0)
        assert (found["status"], found["datasource"], found["errors"]) == ("done", "azure", [])
        assert status(boot, code=0, user="nobody") == found
        long = boot.out("cloud-init", "status", "--long").splitlines()
        assert long[:3] == ["status: done", "extended_status: done", "boot_status_code: enabled-by-generator"]
        assert "status: done" in boot.out("cloud-init", "status", "--format", "yaml").splitlines()
        look_at_files(boot, disk)
        look_at_queries(boot, disk)
        look_at_modules(boot)
        look_at_names_and_log(boot)
        boot.wait_until_up()
        for name in ("cloud-final.service", "cloud-init.target"):
            assert '"errors"' in boot.out("cat", f"/root/after-{name}"), "units of others wait for the stages"
        assert boot.failed_units() == []
        logs = [f"/var/log/cloud-init{name}.log{end}" for name in ("", "-output") for end in ("", ".1")]
        boot.out("touch", *logs)
        boot.out("cloud-init", "clean", "--logs")
        for path in ("/var/lib/cloud/instance", "/run/cloud-init/result.json", *logs):
            assert boot.run("test", "-e", path).returncode, path
        boot.out("rm", "/root/all")
    with disk.boot(vm=given(GIVEN)) as boot:
        boot.ready()
        assert waited(boot).returncode == 0
        boot.out("test", "-e", "/root/all")


def look_at_files(boot: Boot, disk: Disk) -> None:
    assert boot.out("readlink", "/var/lib/cloud/instance") == f"/var/lib/cloud/instances/{disk.vm_id}"
    assert boot.out("cat", "/var/lib/cloud/instance/user-data.txt") + "\n" == GIVEN
    assert boot.out("cat", "/var/lib/cloud/data/instance-id") == disk.vm_id
    assert " - v. " in boot.out("cat", "/var/lib/cloud/instance/boot-finished")
    assert "runcmd was here" in boot.out("cat", "/var/log/cloud-init-output.log").splitlines()
    for name, keys in (("result", {"datasource", "errors"}), ("status", {"datasource", "stage", *STAGES})):
        assert set(json.loads(boot.out("cat", f"/run/cloud-init/{name}.json"))["v1"]) == keys


def look_at_queries(boot: Boot, disk: Disk) -> None:
    assert boot.out("cloud-init", "query", "v1.instance_id") == disk.vm_id
    assert boot.out("cloud-init", "query", "local_hostname") == "floor-1"
    assert boot.out("cloud-init", "query", "userdata") + "\n" == GIVEN
    assert json.loads(boot.out("cloud-init", "query", "ds.meta_data.imds.compute"))["name"] == "floor-1"
    assert boot.out("cloud-init", "query", "region") == "westeurope"
    assert boot.out("cloud-init", "query", "-f", "{{ v1.local_hostname }}!") == "floor-1!"
    assert "v1" in boot.out("cloud-init", "query", "--list-keys").split()
    hidden = boot.out("setpriv", "--reuid", "nobody", "--clear-groups", "cloud-init", "query", "userdata")
    assert "redacted" in hidden and "runcmd" not in hidden
    assert boot.run("cloud-init", "query", "v1.nothing").returncode == 1


def look_at_names_and_log(boot: Boot) -> None:
    assert boot.out("setpriv", "--reuid", "nobody", "--clear-groups", "cloud-id") == "azure"
    assert boot.out("cloud-id", "--long") == "azure\twesteurope"
    assert json.loads(boot.out("cloud-id", "--json")) == json.loads(boot.out("cloud-init", "query", "v1"))
    assert boot.out("cat", "/run/cloud-init/cloud-id") == "azure"
    missing = boot.run("cloud-id", "-i", "/root/none.json")
    assert missing.returncode == 1 and "cloud-id: there is no /root/none.json" in missing.stderr
    lines = boot.out("cat", "/var/log/cloud-init.log").splitlines()
    assert all(
        re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - azure-init\[(INFO|WARNING)\]: ", line) for line in lines
    )
    assert any("wrote /srv/made" in line for line in lines), "the stages write to it"
    assert any("reported Ready" in line for line in lines), "and the run"
    assert any(re.search(r"Cloud-init v\. \S+ finished at .* Up \d+\.\d+ seconds", line) for line in lines)


def look_at_modules(boot: Boot) -> None:
    assert "Valid schema" in boot.out("cloud-init", "schema", "--system")
    boot.out("sh", "-c", "printf '#cloud-config\\nruncmd: 3\\n' >/root/wrong.yaml")
    wrong = boot.run("cloud-init", "schema", "-c", "/root/wrong.yaml")
    assert wrong.returncode == 1 and "runcmd" in wrong.stdout
    for words in (
        ("init", "--local"),
        ("modules", "--mode=config"),
        ("modules", "--mode=final"),
        ("--debug", "status"),
    ):
        boot.out("cloud-init", *words)
    boot.out("rm", "/root/all")
    assert "has run" in boot.out("cloud-init", "single", "--name", "cc_runcmd")
    assert boot.run("test", "-e", "/root/all").returncode
    boot.out("cloud-init", "single", "--name", "cc_runcmd", "--frequency", "always")
    boot.out("test", "-e", "/root/all")


def test_failures_and_warnings_and_boots_without_customdata(disk: Disk) -> None:
    with disk.boot(vm=given(FAILING)) as boot:
        assert waited(boot).returncode == 1
        found = status(boot, code=1)
        assert (found["status"], found["extended_status"]) == ("error", "error - done")
        (error,) = found["errors"]
        assert "line 4" in error and "exit status: 4" in error and "cloud-init-output.log" in error
        assert "later" in boot.out("cat", "/var/log/cloud-init-output.log").splitlines(), "as there, the next item runs"
        boot.out("cloud-init", "clean")
    with disk.boot(vm=given(WARNED)) as boot:
        assert waited(boot).returncode == 2
        found = status(boot, code=2)
        assert (found["status"], found["extended_status"]) == ("done", "degraded done")
        assert "landscape" in str(found["recoverable_errors"])
        boot.out("cloud-init", "clean")
    with disk.boot() as boot:
        boot.ready()
        assert waited(boot).returncode == 0
        assert status(boot, code=0)["status"] == "done"
        assert boot.out("cloud-init", "query", "v1.cloud_name") == "azure"
    with disk.boot() as boot:
        assert waited(boot).returncode == 0
        assert status(boot, code=0, user="nobody")["status"] == "done"
        assert boot.out("cloud-init", "query", "instance_id") == disk.vm_id
        boot.out("test", "-e", "/var/lib/cloud/instance/boot-finished", "-a", "-e", "/run/cloud-init/result.json")
        assert boot.told() == []
