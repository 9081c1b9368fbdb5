"""The scripts, called as somebody new here calls them: mistakes are told in a sentence, and help does nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.newer
ROOT = Path(__file__).parents[2]


def call(*words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, env={**os.environ, **environ}, cwd=ROOT)


def package(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return call(sys.executable, ROOT / "scripts/package", *words)


def test_packages_cannot_be_put_into_a_file(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    ran = package("--out", tmp_path / "README.md", "pyz")
    told = f"cannot write to {tmp_path}/README.md: not a directory; --out names another directory"
    assert (ran.returncode, ran.stderr) == (2, f"scripts/package: {told}\n")


def test_a_package_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "azure-init.pyz").mkdir()
    ran = package("--out", tmp_path, "pyz")
    told = f"cannot write to {tmp_path}/azure-init.pyz: is a directory; --out names another directory"
    assert (ran.returncode, ran.stderr) == (2, f"scripts/package: {told}\n")


def test_without_what_makes_the_wheel_the_rest_is_made_and_the_wheel_is_told(tmp_path: Path) -> None:
    """By a Python that has nothing, in a copy without .venv."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python, copy, out = tmp_path / "venv/bin/python", tmp_path / "copy", tmp_path / "out"
    for name in ("scripts/package", "NEWS.md", "pyproject.toml"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    ran = call(python, copy / "scripts/package", "--out", out, "wheel", "pyz")
    assert (ran.returncode, ran.stdout) == (1, f"{out}/azure-init.pyz\n")
    wheel, rest = ran.stderr.splitlines()
    assert wheel.startswith(f"scripts/package: the wheel was not made: neither {copy}/.venv/bin/python ")
    assert f" nor {python}, which runs this, has pip and hatchling: " in wheel and "python3-hatchling" in wheel
    assert rest == f"scripts/package: the rest is in {out}"


@pytest.mark.parametrize(("words", "told"), [(["x"], "invalid int value: 'x'"), (["1"], "at least 2")])
def test_rounds_that_cannot_be_measured_are_told(words: list[str], told: str) -> None:
    ran = call(sys.executable, ROOT / "bench/boot-path", *words)
    assert ran.returncode == 2 and told in ran.stderr and "Traceback" not in ran.stderr


def test_the_benchmark_explains_itself() -> None:
    ran = call(sys.executable, ROOT / "bench/boot-path", "--help")
    assert ran.returncode == 0 and "ROUNDS" in ran.stdout and "ratios to a bare interpreter" in ran.stdout


@pytest.mark.parametrize(
    ("script", "does"), [("demo", "Provisions a pretend machine"), ("test", "Runs every test floor")]
)
def test_help_says_what_a_script_does_and_does_not_do_it(script: str, does: str, tmp_path: Path) -> None:
    copy = tmp_path / "scripts" / script
    copy.parent.mkdir()
    shutil.copy(ROOT / "scripts" / script, copy)
    ran = call(copy, "--help")
    assert (ran.returncode, ran.stderr) == (0, "") and ran.stdout.startswith(does)
    assert "#" not in ran.stdout and len(ran.stdout.splitlines()) <= 4
    assert list(tmp_path.rglob("*")) == [copy.parent, copy]


@pytest.mark.parametrize("script", ["demo", "test"])
def test_where_the_systems_python_is_too_old_a_newer_one_of_path_is_taken(script: str, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "bin").mkdir()
    old, newer, copy = tmp_path / "bin/old", tmp_path / "bin/python3.14", tmp_path / f"scripts/{script}"
    # The first question is how old it is; that it is asked something else shows that it was taken.
    old.write_text("#!/bin/sh\nexit 1\n")
    newer.write_text(
        f'#!/bin/sh\ncase "$2" in *version_info*) exit 0 ;; esac\necho taken >{tmp_path}/taken; kill $PPID\n'
    )
    copy.write_text((ROOT / f"scripts/{script}").read_text().replace("/usr/bin/python3", str(old)))
    for path in (old, newer, copy):
        path.chmod(0o755)
    call(copy, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert (tmp_path / "taken").exists()
