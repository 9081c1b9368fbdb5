"""Installation: a wheel without third-party packages, and a private directory with one bundle for a boot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.need import unfit

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("source")
    for name in ("src", "pyproject.toml", "README.md", "LICENSE", "NEWS.md"):
        whole = ROOT / name
        if whole.is_dir():
            shutil.copytree(whole, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(whole, copy / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "."]
    ran = subprocess.run([*build, "-w", str(copy / "dist")], cwd=copy, capture_output=True, text=True)
    if "No module named" in ran.stderr:
        unfit("pip or hatchling is not installed here")
    assert ran.returncode == 0, ran.stderr
    (made,) = (copy / "dist").glob("*.whl")
    return made


@pytest.mark.newer
def test_the_wheel_needs_no_third_party_package(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    metadata = next(archive.read(name).decode() for name in archive.namelist() if name.endswith("METADATA"))
    needs = re.findall(r"^Requires-Dist: (.*)$", metadata, flags=re.MULTILINE)
    extra = [need for need in needs if "extra ==" in need]
    assert [need.replace("'", '"') for need in needs if need not in extra] == ['tomli>=2; python_version < "3.11"']
    assert {need.replace("'", '"') for need in extra} == {
        'pyyaml>=5.4; extra == "userdata"',
        'jinja2>=2.11; extra == "userdata"',
    }
    assert "Requires-Python: >=3.9" in metadata
    assert "Provides-Extra: fakeazure" in metadata
    names = set(archive.namelist())
    assert {"azureinit/run/state.py", "fakeazure/cli.py", "fakeazure/scenarios/new.toml.in"} <= names
    entries = next(archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    assert "azure-init = azureinit.cli:command" in entries and "fakeazure = fakeazure.__main__:main" in entries


@pytest.mark.newer
def test_pytest_finds_the_platform_once_the_wheel_is_installed(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    theirs = tmp_path / "test_theirs.py"
    theirs.write_text("def test_theirs(fakeazure):\n    fakeazure.run('true')\n    assert not fakeazure.judge().ok\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(theirs)]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(site)}, cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0 and "1 passed" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.parametrize("bundled", [True, False])
def test_the_private_directory_runs_bundled_or_not(tmp_path: Path, bundled: bool) -> None:
    lib, tree = tmp_path / "lib", tmp_path / "tree"
    shutil.copytree(ROOT / "src/azureinit", lib / "azureinit", ignore=shutil.ignore_patterns("__pycache__"))
    if bundled:
        subprocess.run([sys.executable, "-IS", str(ROOT / "packaging/bundle"), str(lib)], check=True)
        assert (lib / f"boot.{sys.implementation.cache_tag}").exists()
    launcher = tmp_path / "azure-init"
    launcher.write_text((ROOT / "packaging/azure-init").read_text().replace("/usr/lib/azure-init", str(lib)))
    (tree / "etc").mkdir(parents=True)
    for words, said in ((["--version"], "azure-init "), (["config", "show"], "[imds]"), ([], "not an Azure VM")):
        command = [sys.executable, "-IS", str(launcher), "--root", str(tree), *words]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert said in ran.stdout + ran.stderr


def version(launcher: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-IS", str(launcher), "-V"], capture_output=True, text=True)


def test_a_bundle_that_cannot_be_used_is_passed_over_and_told(tmp_path: Path) -> None:
    lib = bundled(tmp_path)
    bundle = lib / f"boot.{sys.implementation.cache_tag}"
    whole = bundle.read_bytes()
    launcher = installed(tmp_path, lib)
    ran = version(launcher)
    assert (ran.returncode, ran.stderr) == (0, "")
    cut = [whole[:6], whole[:2000], whole[:10000], whole[: len(whole) // 2], whole[:-1]]
    flipped = [
        whole.replace(old, new, 1) for old, new in ((b"RLock", b"RLoci"), (b"azureinit.errors", b"azureinit.orrors"))
    ]
    other = [b"\xff torn", bytes((whole[0] ^ 1,)) + whole[1:]]
    for broken in (b"", *cut, *flipped, *other):
        assert broken != whole
        bundle.write_bytes(broken)
        ran = version(launcher)
        assert ran.returncode == 0, f"{len(broken)} bytes: {ran.stderr}"
        assert ran.stderr.startswith(f"azure-init: cannot use {bundle}: "), f"{len(broken)} bytes"
        assert ran.stderr.endswith(f"; starting more slowly from {lib}/azureinit\n")
    assert "it was made by another Python" in ran.stderr
    bundle.unlink()
    assert f"cannot use {bundle}: it is missing; " in version(launcher).stderr


def test_a_zeroed_block_in_the_bundle_falls_back_to_the_files(tmp_path: Path) -> None:
    """Wherever it is: in the head, the loader, the index or a module."""
    lib = bundled(tmp_path)
    bundle = lib / f"boot.{sys.implementation.cache_tag}"
    launcher = installed(tmp_path, lib)
    whole = bundle.read_bytes()
    head = 12 + int.from_bytes(whole[4:8], "little")
    (tmp_path / "etc").mkdir(exist_ok=True)
    told = 0
    for begin in (4, 12, head // 2, head - 4096, *range(head, len(whole), len(whole) // 12)):
        block = min(4096, len(whole) - begin)
        bundle.write_bytes(whole[:begin] + bytes(block) + whole[begin + block :])
        command = [sys.executable, "-IS", str(launcher), "--root", str(tmp_path)]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.returncode == 0 and "not an Azure VM" in ran.stderr, f"zeros at {begin}: {ran.stderr}"
        damaged = "cannot use" in ran.stderr or "is damaged" in ran.stderr
        assert damaged or begin >= head, f"zeros at {begin} were not noticed"
        told += damaged
    assert told > 4, "a module that this run loads was hit at least once"


def installed(tmp_path: Path, lib: Path) -> Path:
    launcher = tmp_path / "azure-init"
    launcher.write_text((ROOT / "packaging/azure-init").read_text().replace("/usr/lib/azure-init", str(lib)))
    return launcher


@pytest.mark.parametrize("damage", ["torn", "missing", "zeros"])
def test_an_agent_that_cannot_be_loaded_says_so_in_a_sentence(tmp_path: Path, damage: str) -> None:
    lib = tmp_path / "lib"
    shutil.copytree(ROOT / "src/azureinit", lib / "azureinit", ignore=shutil.ignore_patterns("__pycache__"))
    module = lib / "azureinit/errors.py"
    if damage == "missing":
        module.unlink()
    else:
        module.write_bytes(b"class (" if damage == "torn" else bytes(4096))
    launcher = installed(tmp_path, lib)
    ran = subprocess.run([sys.executable, "-IS", str(launcher)], capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("azure-init: cannot run: ") and "Traceback" not in ran.stderr


def bundled(tmp_path: Path) -> Path:
    lib = tmp_path / "lib"
    shutil.copytree(ROOT / "src/azureinit", lib / "azureinit", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-IS", str(ROOT / "packaging/bundle"), str(lib)], check=True)
    return lib


def loading(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Runs the installed launcher up to its call of main(), then a script instead."""
    begin, mark, _end = (
        (ROOT / "packaging/azure-init").read_text().partition("try:\n    from azureinit.cli import main")
    )
    assert mark
    launcher = tmp_path / "azure-init"
    launcher.write_text(begin.replace("/usr/lib/azure-init", str(bundled(tmp_path))) + script)
    return subprocess.run([sys.executable, "-IS", str(launcher)], capture_output=True, text=True)


def test_a_module_that_python_has_just_not_in_its_list_is_not_loaded_again(tmp_path: Path) -> None:
    script = """
import azureinit.errors as first
del sys.modules["azureinit.errors"]  # as happens for a moment at the end of every import
import azureinit.run.state
assert azureinit.run.state.AzureInitError is first.AzureInitError
"""
    ran = loading(tmp_path, script)
    assert ran.returncode == 0, ran.stderr


LOAD_EACH_FIRST = """
from importlib import import_module
(bundle,) = (one for one in sys.meta_path if type(one).__name__ == "Bundle")
for name in bundle.modules:
    if name.endswith("__main__"):
        continue
    for old in [one for one in sys.modules if one.partition(".")[0] == "azureinit"]:
        del sys.modules[old]
    bundle.whole.clear()
    module = import_module(name)
    while name:
        assert sys.modules[name] is bundle.whole[name], name
        above, _, last = name.rpartition(".")
        assert not above or last in vars(sys.modules[above]), name
        name = above
    for other in bundle.whole:
        assert other.rpartition(".")[0] in ("", *bundle.whole), f"{module.__name__} loads {other} without its package"
"""


def test_each_module_can_be_the_first_that_is_imported(tmp_path: Path) -> None:
    ran = loading(tmp_path, LOAD_EACH_FIRST)
    assert ran.returncode == 0, ran.stderr


LOAD_AT_ONCE = """
import random, threading
from importlib import import_module
(bundle,) = (one for one in sys.meta_path if type(one).__name__ == "Bundle")
names = [name for name in bundle.modules if not name.endswith("__main__")]
loaded, seen, wrong = list(bundle.whole), {}, []
load = bundle.load
def counted(name):
    loaded.append(name)
    load(name)
bundle.load = counted
def work():
    for name in random.sample(names, len(names)):
        try:
            module = import_module(name)
        except Exception as error:
            wrong.append(f"{name}: {error}")
        else:
            if seen.setdefault(name, module) is not module or module.__name__ != name:
                wrong.append(f"{name} is two, or another")
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if sorted(loaded) != sorted(names):
    wrong.append("not once each")
sys.exit("; ".join(wrong[:5]) or 0)
"""


def test_threads_that_import_at_once_get_every_module_whole_and_once(tmp_path: Path) -> None:
    ran = loading(tmp_path, LOAD_AT_ONCE)
    assert ran.returncode == 0, ran.stderr


def test_a_package_keeps_a_name_of_its_own_that_is_also_a_module(tmp_path: Path) -> None:
    script = """
import azureinit.run
assert callable(azureinit.run.identify), azureinit.run.identify
assert azureinit.run.state is sys.modules["azureinit.run.state"]
"""
    ran = loading(tmp_path, script)
    assert ran.returncode == 0, ran.stderr
