"""Packages and package sources of customData: Debian's own apt, and a repository on the loopback of its own network."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.apt_repository import Repository
from support.container import PROJECT, debian_root
from support.need import need_root

PORT = 8123
REPOSITORY = f"http://127.0.0.1:{PORT}"
DIRECTORY = "/var/lib/azure-init/vm.d"
LOG = f"{DIRECTORY}/packages.log"
# A machine of its own: its files in a layer, its network with a server for the repository.
ENTER = f"""
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root" || exit 125
root=$2/root
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" || exit 125
mkdir -p "$root/mnt/src" "$root/mnt/support" "$root/mnt/yaml" "$root/mnt/repository"
mount --bind "$3/src" "$root/mnt/src" && mount --bind "$3/tests/support" "$root/mnt/support" || exit 125
mount --bind "$4" "$root/mnt/yaml" && mount --bind "$5" "$root/mnt/repository" || exit 125
ip link set lo up || exit 125
script=$6
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/mnt/src:/mnt PYTHONDONTWRITEBYTECODE=1
chroot "$root" python3 -m http.server {PORT} --bind 127.0.0.1 --directory /mnt/repository >/dev/null 2>&1 &
chroot "$root" python3 -c 'import socket, time
for _ in range(500):
    try: socket.create_connection(("127.0.0.1", {PORT})).close(); break
    except OSError: time.sleep(0.02)'
exec chroot "$root" sh -c "$script"
"""
# Carries out the modules of the document on standard input, each step on its own, as the stage does.
CARRY_OUT = f"""
import json, sys
from azureinit.errors import AzureInitError
from azureinit.machine import Machine
from azureinit.plan.actions import Step
from azureinit.run.enact import enact
from azureinit.run.module_tables import modules_of
from azureinit.telemetry.events import Events
from support.module_runs import plan_module, request_of

text = sys.stdin.read()
machine = Machine()
told, failed = [], []
for module in (*modules_of("config"), *modules_of("final")):
    if module.name not in ("apt_configure", "packages"):
        continue
    plan = plan_module(module, machine, request_of(text, rooted=False, directory="{DIRECTORY}"))
    for item in plan:
        told.append([type(item).__name__, item.name])
        if isinstance(item, Step):
            events = Events(clock=machine.clock)
            try:
                enact(machine, (item,), events=events, deadline=machine.clock.monotonic() + 50)
            except AzureInitError as error:
                failed.append(str(error))
print(json.dumps({{"told": told, "failed": failed}}))
"""


class System:
    def __init__(self, place: Path, repository: Path) -> None:
        self.place, self.repository = place, repository
        for name in ("upper", "work", "root"):
            (place / name).mkdir()
        (place / "upper/carry_out.py").write_text(CARRY_OUT)

    def run(self, script: str, *, stdin: str = "") -> str:
        spaces = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child")
        given = (debian_root("trixie"), self.place, PROJECT, Path(yaml.__file__).parent, self.repository, script)
        command = (*spaces, "sh", "-c", ENTER, "sh", *map(str, given))
        ran = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=100)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def carry_out(self, document: str, *, before: str = "") -> tuple[list[tuple[str, str]], list[str]]:
        """What was planned, and the failures."""
        told: dict[str, Any] = json.loads(self.run(f"{before}\nexec python3 /carry_out.py", stdin=document))
        return [(kind, name) for kind, name in told["told"]], told["failed"]

    def read(self, path: str) -> str:
        return (self.place / "upper" / path.lstrip("/")).read_text()

    def has(self, path: str) -> bool:
        return (self.place / "upper" / path.lstrip("/")).exists()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The directory, and the public key by which it is signed."""
    need_root()
    place = tmp_path_factory.mktemp("apt") / "repository"
    place.mkdir(mode=0o755)
    architecture = subprocess.run(("dpkg", "--print-architecture"), check=True, capture_output=True, text=True)
    made = Repository(place, architecture=architecture.stdout.strip())
    made.add("blue", "1.0")
    made.add("green", "2.0", depends="blue")
    made.add("broken", "1.0", postinst="echo the postinst has no luck >&2; exit 3")
    made.add("asking", "1.0", postinst="touch /var/run/reboot-required")
    made.publish()
    return place, made.sign(place.with_name("home"))


@pytest.fixture
def system(tmp_path: Path, repository: tuple[Path, str]) -> System:
    return System(tmp_path, repository[0])


def indented(text: str, spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines())


def test_a_signed_source_and_its_packages(system: System, repository: tuple[Path, str]) -> None:
    document = f"""#cloud-config
apt:
  sources_list: |
    # the test's own sources follow
  sources:
    test.list:
      source: "deb [signed-by=$KEY_FILE] {REPOSITORY} stable main"
      key: |
{indented(repository[1], 8)}
packages:
  - green
  - [blue, "1.0"]
  - dpkg
"""
    told, failed = system.carry_out(document)
    assert failed == []
    assert any(kind == "Satisfied" and name.startswith("packages dpkg ") for kind, name in told)
    assert system.read("usr/share/green") == "2.0"
    assert system.read("usr/share/blue") == "1.0"
    source = f"deb [signed-by=/etc/apt/cloud-init.gpg.d/test.gpg] {REPOSITORY} stable main\n"
    assert system.read("etc/apt/sources.list.d/test.list") == source
    assert "green" in system.read(LOG)
    assert (system.place / "upper" / LOG.lstrip("/")).stat().st_mode & 0o777 == 0o600

    told, failed = system.carry_out(document)  # again
    assert failed == []
    assert {kind for kind, _ in told} == {"Satisfied"}  # the second time there is nothing to do


def test_a_source_whose_key_is_missing_is_a_failure_that_apt_explains(system: System) -> None:
    _, failed = system.carry_out(f"""#cloud-config
apt:
  sources_list: "# none"
  sources:
    test.list: {{source: "deb {REPOSITORY} stable main"}}
""")
    (one,) = failed
    assert "apt_configure lists (line 3)" in one
    assert "is not signed" in one or "NO_PUBKEY" in one or "Missing key" in one, one
    assert LOG in one


def test_what_can_be_installed_is_and_the_rest_is_named_with_its_line(system: System) -> None:
    told, failed = system.carry_out(f"""#cloud-config
apt:
  sources_list: "deb [trusted=yes] {REPOSITORY} stable main"
packages:
  - blue
  - no-such-package
  - green
""")
    (one,) = failed
    assert "packages blue, no-such-package, green (line 5)" in one
    assert "no-such-package (line 6)" in one
    assert "E: Unable to locate package no-such-package" in one
    assert system.read("usr/share/green") == "2.0"
    assert ("Step", "packages lists (line 5)") in told


def test_a_package_that_fails_to_install_is_quoted(system: System) -> None:
    _, failed = system.carry_out(f"""#cloud-config
apt:
  sources_list: "deb [trusted=yes] {REPOSITORY} stable main"
packages: [broken]
""")
    (one,) = failed
    assert "packages broken (line 4)" in one
    assert "dpkg: error processing package broken" in one
    assert "exit status 3" in one
    assert "the postinst has no luck" in system.read(LOG)


def test_a_locked_apt_is_waited_for(system: System) -> None:
    """Another program holds the lock of the lists, and then the one of dpkg."""
    hold = """python3 -c 'import fcntl, time
held = [open(path, "w") for path in ("/var/lib/apt/lists/lock", "/var/lib/dpkg/lock-frontend")]
for one in held: fcntl.lockf(one, fcntl.LOCK_EX)
open("/held", "w")
time.sleep(3)' &
until [ -e /held ]; do sleep 0.05; done"""
    document = f"""#cloud-config
apt:
  sources_list: "deb [trusted=yes] {REPOSITORY} stable main"
packages: [blue]
"""
    _, failed = system.carry_out(document, before=hold)
    assert failed == []
    assert system.read("usr/share/blue") == "1.0"
    assert "Could not get lock" in system.read(LOG) or "Unable to lock" in system.read(LOG)


def test_an_interrupted_dpkg_is_finished_first(system: System, repository: tuple[Path, str]) -> None:
    before = "dpkg --unpack /mnt/repository/pool/blue_1.0.deb >&2"
    told, failed = system.carry_out(
        f"""#cloud-config
apt:
  sources_list: "deb [trusted=yes] {REPOSITORY} stable main"
packages: [green]
""",
        before=before,
    )
    assert failed == []
    assert ("Step", "packages unfinished packages (line 4)") in told
    assert system.read("usr/share/green") == "2.0"


def test_settings_answers_and_an_upgrade(system: System) -> None:
    told, failed = system.carry_out(f"""#cloud-config
apt:
  conf: |
    APT::Install-Recommends "false";
  https_proxy: "http://127.0.0.1:{PORT}"
  debconf_selections:
    one: "green green/colour string very-secret"
  sources_list: "deb [trusted=yes] {REPOSITORY} stable main"
package_upgrade: true
packages: [asking]
""")
    assert failed == []
    assert [name for kind, name in told if kind == "Step" and name.startswith("packages ")] == [
        "packages lists (line 9)",
        "packages upgrade (line 9)",
        "packages asking (line 10)",
    ]
    assert "very-secret" in system.read("var/cache/debconf/config.dat")
    assert "very-secret" not in system.read(LOG)
    answer = system.run("apt-config dump | grep -e Recommends -e https::Proxy; ls /run/reboot-required")
    assert 'APT::Install-Recommends "false"' in answer
    assert f'Acquire::https::Proxy "http://127.0.0.1:{PORT}"' in answer
