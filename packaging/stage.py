"""packaging/stage.py PACKAGE DIR [--debian]: copies the files of a package to DIR, under their installed paths.

Packages of every format are built from this tree, so that all have the same contents. Builds are reproducible: modes
are set here, and all times are SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from email.utils import formatdate
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "src"))
sys.dont_write_bytecode = True

import commands  # noqa: E402
from completions import PLACES, completion  # noqa: E402
from manual import configuration, page  # noqa: E402

from azureinit.cli.options import Command  # noqa: E402
from azureinit.version import VERSION  # noqa: E402

MAINTAINER = "The azure-init authors <azure-init@example.invalid>"
PARTS = ("", "-local", "-failure", "-resend", "-hostname", "-network", "-disk", "-disk-late@", "-deadline")
USERDATA = "azure-init-userdata"
UNITS = (
    *(f"azure-init{part}.service" for part in PARTS),
    f"{USERDATA}.target",
    f"{USERDATA}-network.target",
    *(f"{USERDATA}-{stage}.service" for stage in ("network", "config", "final")),
)
STATE = "var/lib/azure-init"  # mode 0700, as the agent creates it

CLOUD_INIT_UNITS = {
    "cloud-init-local.service": "azure-init-local.service",
    "cloud-init.service": "azure-init-userdata-network.service",
    "cloud-init-network.service": "azure-init-userdata-network.service",
    "cloud-config.service": "azure-init-userdata-config.service",
    "cloud-final.service": "azure-init-userdata-final.service",
    "cloud-init.target": "azure-init-userdata.target",
}


class Stage:
    """The tree of one package. Paths are the installed ones, without the leading slash."""

    def __init__(self, root: Path, *, debian: bool, epoch: int) -> None:
        self.root, self.debian, self.epoch = root, debian, epoch

    def text(self, path: str, text: str, *, mode: int = 0o644) -> None:
        self.data(path, text.encode(), mode=mode)

    def data(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)

    def file(self, source: str, path: str, *, mode: int = 0o644) -> None:
        self.data(path, (PROJECT / source).read_bytes(), mode=mode)

    def link(self, path: str, target: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).symlink_to(target)

    def tree(self, source: str, path: str) -> None:
        shutil.copytree(
            PROJECT / source,
            self.root / path,
            ignore=shutil.ignore_patterns("__pycache__"),
            copy_function=shutil.copyfile,
        )

    def man(self, name: str, program: Command | None) -> None:
        section = name.rpartition(".")[2]
        text = page(name, epoch=self.epoch, program=program)
        self.data(f"usr/share/man/man{section}/{name}.gz", packed(text.encode()))

    def complete(self, program: Command) -> None:
        for shell, place in PLACES.items():
            if self.debian:
                place = place.replace("zsh/site-functions", "zsh/vendor-completions")
            self.text(place.format(program.name), completion(shell, program))

    def docs(self, package: str) -> None:
        self.file("LICENSE", f"usr/share/doc/{package}/copyright")
        self.data(f"usr/share/doc/{package}/NEWS.md.gz", packed((PROJECT / "NEWS.md").read_bytes()))
        if self.debian:
            when = formatdate(self.epoch)
            entry = (
                f"{package} ({VERSION}) unstable; urgency=medium\n\n  * See NEWS.md.gz.\n\n -- {MAINTAINER}  {when}\n"
            )
            self.data(f"usr/share/doc/{package}/changelog.gz", packed(entry.encode()))

    def finish(self) -> None:
        for path in sorted(self.root.rglob("*")):
            if not path.is_symlink() and (path.is_dir() or not path.stat().st_mode & 0o111):
                path.chmod(0o755 if path.is_dir() else 0o644)
        if (self.root / STATE).is_dir():
            (self.root / STATE).chmod(0o700)
        for path in [*self.root.rglob("*"), self.root]:
            os.utime(path, (self.epoch, self.epoch), follow_symlinks=False)


def packed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def azure_init(stage: Stage) -> None:
    stage.tree("src/azureinit", "usr/lib/azure-init/azureinit")
    for name in ("bundle", "waagent", "cloud-init", "cloud-id", "azure-nvme-id", "initramfs-files"):
        stage.file(f"packaging/{name}", f"usr/lib/azure-init/{name}", mode=0o755)
    for name in ("loader", "last-resort"):
        stage.file(f"packaging/{name}", f"usr/lib/azure-init/{name}")
    for name in ("azure-init", "libazureinit-kvp"):
        stage.file(f"packaging/{name}", f"usr/bin/{name}", mode=0o755)
    stage.text("etc/azure-init/azure-init.toml", configuration())
    (stage.root / "etc/azure-init/azure-init.toml.d").mkdir()
    (stage.root / STATE).mkdir(parents=True)
    for unit in UNITS:
        stage.file(f"systemd/{unit}", f"usr/lib/systemd/system/{unit}")
    stage.file("packaging/azure-init.preset", "usr/lib/systemd/system-preset/80-azure-init.preset")
    defaults = ("zzz-azure-init", "zzz-azure-init-forced", "zzz-azure-init-emulated")
    for name in (*defaults, "10-azure-init-vf"):
        stage.file(f"packaging/network/{name}.network", f"usr/lib/systemd/network/{name}.network")
    for name in ("67-azure-init-default.rules", "68-azure-init-vf.rules", "68-azure-init-emulated.rules"):
        stage.file(f"packaging/network/{name}", f"usr/lib/udev/rules.d/{name}")
    if stage.debian:
        stage.file("packaging/debian/needrestart.conf", "etc/needrestart/conf.d/azure-init.conf")
        stage.file("packaging/debian/rtupdate", "usr/share/python3/runtime.d/azure-init.rtupdate", mode=0o755)
    agent, kvp = commands.azure_init(), commands.kvp()
    stage.man("azure-init.8", agent)
    stage.man("azure-init.toml.5", None)
    stage.man("libazureinit-kvp.8", kvp)
    stage.complete(agent)
    stage.complete(kvp)
    stage.docs("azure-init")


def fakeazure(stage: Stage) -> None:
    stage.tree("src/fakeazure", "usr/lib/azure-init-fakeazure/fakeazure")
    stage.file("packaging/fakeazure", "usr/bin/fakeazure", mode=0o755)
    program = commands.fakeazure()
    stage.man("fakeazure.1", program)
    stage.complete(program)
    stage.docs("azure-init-fakeazure")


def waagent_shim(stage: Stage) -> None:
    """The agent recognises this link, and so does not take the shim for WALinuxAgent."""
    stage.link("usr/sbin/waagent", "../lib/azure-init/waagent")
    stage.docs("azure-init-waagent-shim")


def cloud_init(stage: Stage) -> None:
    """The units are known by cloud-init's names too, for units of others that are ordered after those."""
    stage.file("packaging/cloud-init-per", "usr/bin/cloud-init-per", mode=0o755)
    for name in ("cloud-init", "cloud-id"):
        stage.link(f"usr/bin/{name}", f"../lib/azure-init/{name}")
    for theirs, ours in CLOUD_INIT_UNITS.items():
        stage.link(f"usr/lib/systemd/system/{theirs}", ours)
    # In every boot from its beginning, so that units that are ordered after cloud-init's wait for the stages.
    stage.link(f"usr/lib/systemd/system/azure-init.service.wants/{USERDATA}.target", f"../{USERDATA}.target")
    setting = "azure-init-cloud-init.toml"
    stage.file(f"packaging/{setting}", f"etc/azure-init/azure-init.toml.d/{setting}")
    stage.docs("azure-init-cloud-init")


def disks(stage: Stage) -> None:
    """The command itself is the agent's: this package names it, where azure-vm-utils does not."""
    for name in ("80-azure-init-disk.rules", "81-azure-init-disk-late.rules"):
        stage.file(f"packaging/disks/{name}", f"usr/lib/udev/rules.d/{name}")
    # The unit is part of the boot's transaction, so that WALinuxAgent waits for it.
    stage.link("usr/lib/systemd/system/azure-init.service.wants/azure-init-disk.service", "../azure-init-disk.service")
    stage.file("packaging/disks/initramfs-hook", "usr/share/initramfs-tools/hooks/azure-init-disks", mode=0o755)
    module = "usr/lib/dracut/modules.d/97azure-init-disks/module-setup.sh"
    stage.file("packaging/disks/module-setup.sh", module, mode=0o755)
    stage.file("packaging/disks/azure-init-disks.toml", "etc/azure-init/azure-init.toml.d/azure-init-disks.toml")
    program = commands.nvme_id()
    stage.man("azure-init-disks.7", program)
    stage.complete(program)
    stage.docs("azure-init-disks")


PACKAGES = {
    "azure-init": azure_init,
    "azure-init-fakeazure": fakeazure,
    "azure-init-waagent-shim": waagent_shim,
    "azure-init-disks": disks,
    "azure-init-cloud-init": cloud_init,
}


def main(package: str, root: Path, *, debian: bool) -> None:
    stage = Stage(root, debian=debian, epoch=int(os.environ["SOURCE_DATE_EPOCH"]))
    root.mkdir(parents=True, exist_ok=True)
    PACKAGES[package](stage)
    stage.finish()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), debian="--debian" in sys.argv[3:])
