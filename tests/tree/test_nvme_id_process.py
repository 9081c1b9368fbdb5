"""`azure-nvme-id` as an installed command: its exit codes and output, and the few modules that it loads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.need import need_root
from support.nvme_trees import ACCELERATOR, DIRECT_V2, add_controller

ROOT = Path(__file__).parents[2]
# What a udev rule makes it load: more files would be read for each disk, and copied into every initramfs.
MODULES = {
    "azureinit", "azureinit.cli.nvme_id", "azureinit.errors", "azureinit.facts", "azureinit.facts.nvme_namespaces",
    "azureinit.machine", "azureinit.machine.block", "azureinit.machine.clock", "azureinit.machine.durable",
    "azureinit.machine.files", "azureinit.machine.filetree", "azureinit.machine.this_process", "azureinit.record",
    "azureinit.version",
}  # fmt: skip
# Another /sys/class, which nothing outside of this process sees.
WITH_CLASS = 'mount --bind "$1" /sys/class && shift && exec "$@"'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("installed") / "azure-init"
    shutil.copytree(ROOT / "src/azureinit", home / "azureinit", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("azure-nvme-id", "initramfs-files"):
        text = (ROOT / "packaging" / name).read_text()
        assert text.startswith("#!/usr/bin/python3 -IS\n") and text.count("/usr/lib/azure-init") == 1
        (home / name).write_text(text.replace("/usr/lib/azure-init", str(home)))
    return home


def run(home: Path, *words: str, options: tuple[str, ...] = (), **environ: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-IS", *options, str(home / "azure-nvme-id"), *words)
    return subprocess.run(command, capture_output=True, text=True, env=environ)


def test_help_version_and_a_bad_argument(home: Path) -> None:
    shown = run(home, "--help")
    assert (shown.returncode, shown.stderr) == (0, "") and shown.stdout.startswith("Usage: azure-nvme-id ")
    told = run(home, "--version")
    assert (told.returncode, told.stderr) == (0, "") and re.fullmatch(r"azure-nvme-id v\d[\w.]*\n", told.stdout)
    wrong = run(home, "zzz")
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (1, shown.stdout, "invalid argument: zzz\n")


def test_a_device_that_is_not_nvme_is_an_error_and_no_traceback(home: Path) -> None:
    ran = run(home, "--udev", DEVNAME="/dev/null")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "cannot identify /dev/null: Inappropriate ioctl for device\n"
    ran = run(home, "--udev", DEVNAME="/dev/there-is-none")
    assert (ran.returncode, ran.stderr) == (1, "cannot identify /dev/there-is-none: No such file or directory\n")


def test_output_that_cannot_be_written_is_no_traceback(home: Path) -> None:
    command = (sys.executable, "-IS", str(home / "azure-nvme-id"), "--help")
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env={})
    assert (ran.returncode, ran.stderr) == (1, "cannot write: No space left on device\n")


def test_controllers_in_sysfs_whose_devices_are_missing(home: Path, tmp_path: Path) -> None:
    need_root()
    add_controller(tmp_path, "nvme10", model=DIRECT_V2, namespaces={"nvme10n1": 1})
    add_controller(tmp_path, "nvme9", model=ACCELERATOR, namespaces={"nvme9n2": 2, "nvme9n1": 1})
    add_controller(tmp_path, "nvme1", model="Samsung SSD", vendor="0x144d", namespaces={"nvme1n1": 1})
    command = ("unshare", "--mount", "sh", "-c", WITH_CLASS, "sh", str(tmp_path / "sys/class"))
    words = (sys.executable, "-IS", str(home / "azure-nvme-id"), "--format", "json")
    ran = subprocess.run((*command, *words), capture_output=True, text=True)
    assert ran.returncode == 0
    assert [(row["path"], row["model"], row["vs"]) for row in json.loads(ran.stdout)] == [
        ("/dev/nvme9n1", ACCELERATOR, None),
        ("/dev/nvme9n2", ACCELERATOR, None),
        ("/dev/nvme10n1", DIRECT_V2, None),
    ]
    assert ran.stderr.splitlines()[0] == "cannot identify /dev/nvme9n1: No such file or directory"


def test_a_udev_rule_makes_it_load_few_modules(home: Path) -> None:
    ran = run(home, "--udev", options=("-X", "importtime"), DEVNAME="/dev/null")
    loaded = set(re.findall(r"\|\s+(\S+)$", ran.stderr, re.MULTILINE))
    assert {name for name in loaded if name.startswith("azureinit")} == MODULES
    slow = {"argparse", "json", "logging", "re", "typing", "ctypes", "subprocess", "socket", "enum", "functools"}
    assert not loaded & slow


def test_an_initramfs_gets_every_module_that_is_loaded(home: Path) -> None:
    ran = subprocess.run([sys.executable, "-IS", str(home / "initramfs-files")], capture_output=True, text=True, env={})
    assert (ran.returncode, ran.stderr) == (0, "")
    rows = [line.split(" ", 1) for line in ran.stdout.splitlines()]
    assert {kind for kind, _path in rows} == {"program", "file", "directory"}
    files = {path for kind, path in rows if kind == "file"}
    own = {path.removeprefix(f"{home}/")[:-3].replace("/", ".") for path in files if path.endswith(".py")}
    assert {name.removesuffix(".__init__") for name in own if name.startswith("azureinit")} == MODULES
    assert f"{home}/azure-nvme-id" in files and any(path.endswith("/os.py") for path in files)
    assert all(Path(path).exists() for _kind, path in rows)
    assert rows[0][0] == "program"
