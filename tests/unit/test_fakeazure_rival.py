"""Whether cloud-init would be enabled on Azure, from files, as its generator decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fakeazure.machines.cloud_init import is_enabled

Change = Callable[[Path], None]


def write(name: str, text: str = "x\n") -> Change:
    def change(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    return change


def link(name: str, target: str = "/dev/null") -> Change:
    def change(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)

    return change


PROGRAM = write("usr/bin/cloud-init")
GENERATOR = write("usr/lib/systemd/system-generators/cloud-init-generator")
PACKAGE = (PROGRAM, GENERATOR, write("etc/cloud/cloud.cfg", "users:\n - default\n"))
MASKED = "etc/systemd/system/cloud-init-local.service"
WANTED = "etc/systemd/system/cloud-init.target.wants/cloud-init-local.service"


def datasources(text: str, name: str = "90_dpkg.cfg") -> Change:
    return write(f"etc/cloud/cloud.cfg.d/{name}", f"# to update this file, run dpkg-reconfigure cloud-init\n{text}\n")


@pytest.mark.parametrize(
    "changes",
    [
        PACKAGE,
        (*PACKAGE, datasources("datasource_list: [ NoCloud, ConfigDrive, Azure, None ]")),
        (*PACKAGE, datasources("datasource_list:\n  - NoCloud\n  - Azure")),
        (*PACKAGE, datasources("datasource_list: [None]"), datasources("datasource_list: [Azure]", "91.cfg")),
        (PROGRAM, link(WANTED, "/lib/systemd/system/cloud-init-local.service")),
        (*PACKAGE, write("etc/cloud/ds-identify.cfg", "policy: search,found=all,maybe=all,notfound=disabled\n")),
        (*PACKAGE, write("etc/cloud/ds-identify.cfg", "datasource: Azure\n")),
        (*PACKAGE, link("etc/cloud/cloud-init.disabled", "/nowhere")),
        (*PACKAGE, link(MASKED)),  # the generator still enables cloud-init, and azure-init stands down
    ],
)
def test_it_would(changes: tuple[Change, ...], tmp_path: Path) -> None:
    for change in changes:
        change(tmp_path)
    assert is_enabled(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (PROGRAM,),
        (GENERATOR,),  # the package was removed: there is no program
        (*PACKAGE, write("etc/cloud/cloud-init.disabled", "")),
        (PROGRAM, link(WANTED, "/lib/systemd/system/cloud-init-local.service"), link(MASKED)),
        (*PACKAGE, link("etc/systemd/system-generators/cloud-init-generator")),
        (*PACKAGE, datasources("datasource_list: [ NoCloud, None ]")),
        (*PACKAGE, datasources("datasource_list:\n  - NoCloud\nother:\n  - Azure")),
        (*PACKAGE, write("etc/cloud/ds-identify.cfg", "policy: disabled\n")),
        (*PACKAGE, write("etc/cloud/ds-identify.cfg", "datasource: Ec2\n")),
    ],
)
def test_it_would_not(changes: tuple[Change, ...], tmp_path: Path) -> None:
    for change in changes:
        change(tmp_path)
    assert not is_enabled(tmp_path)
