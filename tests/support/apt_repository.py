"""A small apt repository: packages made by dpkg-deb, an index, and a signature by a key that is made for it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from support.need import need

RELEASE = (
    "Origin: test\nSuite: stable\nCodename: stable\nArchitectures: {arch}\nComponents: main\nDate: {date}\nSHA256:\n"
)
DATE = "Tue, 17 Nov 2026 10:00:00 UTC"


class Repository:
    """`add` packages, then `publish` or `sign`."""

    def __init__(self, place: Path, *, architecture: str) -> None:
        self.place, self.architecture = place, architecture
        self.index = ""
        (place / "dists/stable/main" / f"binary-{architecture}").mkdir(parents=True)
        (place / "pool").mkdir()

    def add(self, name: str, version: str, *, depends: str = "", postinst: str = "") -> None:
        tree = self.place / f"{name}.tree"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "usr/share").mkdir(parents=True)
        (tree / f"usr/share/{name}").write_text(version)
        control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: me <me@example.com>\n"
        control += (f"Depends: {depends}\n" if depends else "") + "Description: a package of a test\n"
        (tree / "DEBIAN/control").write_text(control)
        if postinst:
            script = tree / "DEBIAN/postinst"
            script.write_text(f"#!/bin/sh\n{postinst}\n")
            script.chmod(0o755)
        made = self.place / f"pool/{name}_{version}.deb"
        command = (need("dpkg-deb"), "--root-owner-group", "-Znone", "--build", str(tree), str(made))
        subprocess.run(command, check=True, capture_output=True)
        shutil.rmtree(tree)
        data = made.read_bytes()
        sums = f"Filename: pool/{made.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
        self.index += f"{control}{sums}\n"

    def publish(self) -> None:
        part = f"main/binary-{self.architecture}/Packages"
        (self.place / "dists/stable" / part).write_text(self.index)
        data = self.index.encode()
        text = RELEASE.format(arch=self.architecture, date=DATE)
        text += f" {hashlib.sha256(data).hexdigest()} {len(data)} {part}\n"
        (self.place / "dists/stable/Release").write_text(text)

    def sign(self, home: Path) -> str:
        """Signed by a new key in that directory; returns the armoured public key."""
        home.mkdir(mode=0o700)
        gpg = (need("gpg"), "--homedir", str(home), "--batch", "--yes", "--quiet")
        environment = {**os.environ, "LC_ALL": "C"}

        def run(*words: str) -> str:
            ran = subprocess.run((*gpg, *words), check=True, capture_output=True, text=True, env=environment)
            return ran.stdout

        try:
            run("--passphrase", "", "--quick-generate-key", "Test <test@example.com>", "ed25519", "sign", "never")
            release = self.place / "dists/stable/Release"
            run("--clear-sign", "--output", str(release.with_name("InRelease")), str(release))
            return run("--armor", "--export", "test@example.com")
        finally:
            subprocess.run(("gpgconf", "--homedir", str(home), "--kill", "all"), check=False, capture_output=True)
