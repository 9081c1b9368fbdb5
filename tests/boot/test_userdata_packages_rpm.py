"""Packages and package sources of customData with the real dnf and the real zypper, as Debian packages them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.need import need_root
from support.package_systems import LOG, REPOSITORY, System
from support.rpm_repository import RpmRepository, rpm_root

SYSTEMS = {
    "dnf": "ID=fedora\nVERSION_ID=42\n",
    "zypper": "ID=opensuse-leap\nID_LIKE='suse opensuse'\nVERSION_ID=15.6\n",
}
SOURCES = {
    "dnf": f"""
yum_repos:
  test:
    name: The test's own packages
    baseurl: {REPOSITORY}
    enabled: true
    gpgcheck: false
    skip_if_unavailable: false
""",
    "zypper": f"""
zypper:
  repos:
    - id: test
      name: The test's own packages
      baseurl: {REPOSITORY}
      gpgcheck: 0
  config:
    solver.onlyRequires: true
""",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_root()
    place = tmp_path_factory.mktemp("rpm") / "repository"
    place.mkdir(mode=0o755)
    made = RpmRepository(place)
    made.add("blue", "1.0")
    made.add("blue", "1.1")
    made.add("green", "2.0", requires="blue")
    made.add("broken", "1.0", pre='print("the script has no luck") error("stop")')
    made.add("alone", "1.0", requires="nothing-has-this")
    made.publish()
    return place


@pytest.fixture(params=sorted(SYSTEMS))
def manager(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def system(tmp_path: Path, repository: Path, manager: str) -> System:
    made = System(tmp_path, rpm_root(), repository)
    release = tmp_path / "upper/usr/lib/os-release"
    release.parent.mkdir(parents=True)
    release.write_text(SYSTEMS[manager])
    return made


def test_a_source_and_its_packages(system: System, manager: str) -> None:
    document = f"""#cloud-config
package_update: true
packages:
  - green
  - [blue, "1.0"]
{SOURCES[manager]}"""
    _, failed = system.carry_out(document)
    assert failed == [], system.read(LOG)
    assert system.read("usr/share/green") == "2.0"
    assert system.read("usr/share/blue") == "1.0", "the version that was asked for"
    assert system.run("rpm --query --queryformat '%{NAME}-%{VERSION} ' blue green").split() == ["blue-1.0", "green-2.0"]

    told, failed = system.carry_out(document)  # again
    assert failed == []
    done = [name for kind, name in told if kind == "Step"]
    assert done == ["packages lists (line 2)"], "the second time only the lists are read"


def test_an_upgrade(system: System, manager: str) -> None:
    _, failed = system.carry_out(f'#cloud-config\npackages: [[blue, "1.0"]]\n{SOURCES[manager]}')
    assert failed == [], system.read(LOG)
    told, failed = system.carry_out("#cloud-config\npackage_upgrade: true\n")
    assert failed == [], system.read(LOG)
    assert [name for _, name in told] == ["packages lists (line 2)", "packages upgrade (line 2)"]
    assert system.read("usr/share/blue") == "1.1"


def test_a_name_that_no_source_has_is_quoted(system: System, manager: str) -> None:
    _, failed = system.carry_out(f"#cloud-config\npackages:\n- no-such-package\n{SOURCES[manager]}")
    (one,) = failed
    assert "packages no-such-package (line 3)" in one
    quoted = {
        "dnf": "Error: Unable to find a match: no-such-package",
        "zypper": "No provider of 'no-such-package' found",
    }
    assert quoted[manager] in one, one
    assert LOG in one


def test_a_package_that_fails_to_install_is_a_failure(system: System, manager: str) -> None:
    _, failed = system.carry_out(f"#cloud-config\npackages: [broken]\n{SOURCES[manager]}")
    (one,) = failed
    assert "packages broken (line 2)" in one
    assert "%prein(broken-1.0-1.noarch)" in one and "download size" not in one, one
    assert "the script has no luck" in system.read(LOG)


def test_a_package_that_needs_another_is_quoted(system: System, manager: str) -> None:
    _, failed = system.carry_out(f"#cloud-config\npackages: [alone]\n{SOURCES[manager]}")
    (one,) = failed
    assert "nothing provides" in one and "nothing-has-this" in one, one + system.read(LOG)


def test_a_source_that_cannot_be_reached_is_a_failure(system: System, manager: str) -> None:
    source = SOURCES[manager].replace(REPOSITORY, f"{REPOSITORY}/nothing")
    _, failed = system.carry_out(f"#cloud-config\npackage_update: true\n{source}")
    (one,) = failed
    assert "packages lists (line 2)" in one
    quoted = {
        "dnf": "Failed to download metadata for repo 'test'",
        "zypper": "Skipping repository 'The test's own packages'",
    }
    assert quoted[manager] in one, one
