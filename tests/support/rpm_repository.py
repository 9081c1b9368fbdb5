"""A root with the real dnf and zypper, as Debian packages them, and a small repository of rpm packages for them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.container import made_once

TOOLS = "python3,iproute2,dnf,zypper,createrepo-c,rpm"
SPEC = """Name: {name}
Version: {version}
Release: 1
Summary: A package of a test
License: none
BuildArch: noarch
{more}
%description
A package of a test.
%install
mkdir -p %{{buildroot}}/usr/share
printf '%s' {version} >%{{buildroot}}/usr/share/{name}
%files
/usr/share/{name}
{scripts}
"""
BUILD = """
mount --bind "$2" "$1/mnt" || exit 125
exec chroot "$1" sh -ec '
for spec in /mnt/*.spec; do
    rpmbuild -bb --define "_topdir /mnt/build" --define "_rpmdir /mnt" --define "_build_id_links none" "$spec"
done
rm -r /mnt/build /mnt/*.spec
createrepo_c /mnt'
"""


def rpm_root() -> Path:
    return made_once("trixie-rpm", "1", "--variant=minbase", f"--include={TOOLS}", "trixie")


class RpmRepository:
    """`add` packages, then `publish`."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def add(self, name: str, version: str, *, requires: str = "", pre: str = "") -> None:
        """`pre`: a script in Lua, which rpm runs itself, before the package is installed."""
        more = f"Requires: {requires}\n" if requires else ""
        scripts = f"%pre -p <lua>\n{pre}\n" if pre else ""
        spec = SPEC.format(name=name, version=version, more=more, scripts=scripts)
        (self.place / f"{name}-{version}.spec").write_text(spec)

    def publish(self) -> None:
        words = ("unshare", "--mount", "sh", "-c", BUILD, "sh", str(rpm_root()), str(self.place))
        ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stdout + ran.stderr
