"""Packages and package sources of customData: Debian's own apt, and a repository on the loopback of its own network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.apt_repository import Repository
from support.container import debian_root
from support.need import need_root
from support.package_systems import LOG, PORT, REPOSITORY, System


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
    return System(tmp_path, debian_root("trixie"), repository[0])


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
