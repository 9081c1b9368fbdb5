"""The scripts, called as by a new user: a mistake gives a one-sentence error, and --help does nothing else."""

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
    assert wheel.startswith(f"scripts/package: the wheel was not built: neither {copy}/.venv/bin/python ")
    assert f" nor {python}, which runs this, has pip and hatchling: " in wheel and "python3-hatchling" in wheel
    assert rest == f"scripts/package: the other packages are in {out}"


@pytest.mark.parametrize(("words", "told"), [(["x"], "invalid int value: 'x'"), (["1"], "at least 2")])
def test_rounds_that_cannot_be_measured_are_told(words: list[str], told: str) -> None:
    ran = call(sys.executable, ROOT / "bench/boot-path", *words)
    assert ran.returncode == 2 and told in ran.stderr and "Traceback" not in ran.stderr


def test_the_benchmark_explains_itself() -> None:
    ran = call(sys.executable, ROOT / "bench/boot-path", "--help")
    assert ran.returncode == 0 and "ROUNDS" in ran.stdout and "ratios to a bare interpreter" in ran.stdout


@pytest.mark.parametrize(
    ("script", "does"), [("demo", "Provisions a simulated machine"), ("test", "Runs every test floor")]
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


BASICS = ("sh", "sed", "cmp", "du", "cut", "dirname", "cat")
# Each Python says what it was asked, and whether it was told to try everything; it fails where the test says so.
PYTHON = """#!/bin/sh
case "$*" in *pytest*) ;; --version) echo "Python of $0"; exit 0 ;; *) exit 0 ;; esac
echo "${{0%/bin/*}} $* all=${{AZURE_INIT_TEST_ALL:-no}} agent=${{AGENT_PYTHON:-no}}" >>{log}
for bad in {failing}; do case /$0 in */$bad/*) exit 1 ;; esac; done
"""


class Suite:
    """A copy of scripts/test among Pythons that only say what they were asked."""

    def __init__(self, place: Path, *, failing: str = "", others: tuple[str, ...] = ("3.9", "3.13")) -> None:
        self.place, self.log = place, place / "log"
        self.bin = place / "bin"
        for name in ("scripts", "requirements", "bin", "cache"):
            (place / name).mkdir()
        (place / "requirements/dev.txt").write_text("pytest\n")
        (place / "scripts/test").write_text(
            (ROOT / "scripts/test").read_text().replace("/usr/bin/python3", str(self.bin / "newest"))
        )
        (place / "scripts/test").chmod(0o755)
        for name in BASICS:
            (self.bin / name).symlink_to(str(shutil.which(name)))
        text = PYTHON.format(log=self.log, failing=failing or "none")
        for name in ("newest", *(f"python{version}" for version in others)):
            self.command(name, text)
        for name in (".venv", *(f".venv-{version}" for version in others)):
            (place / name / "bin").mkdir(parents=True)
            (place / name / ".made-from").write_text("pytest\n")
            self.command(f"../{name}/bin/python", text)
        self.command("id", "#!/bin/sh\necho 1000\n")
        self.command("apt-get", "#!/bin/sh\nexit 1\n")

    def command(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def __call__(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        clean = {"PATH": str(self.bin), "AZURE_INIT_TEST_CACHE": str(self.place / "cache"), **environ}
        return subprocess.run(
            [self.place / "scripts/test", *words], capture_output=True, text=True, env=clean, timeout=60
        )

    def asked(self) -> list[str]:
        return [line.removeprefix(f"{self.place}/") for line in self.log.read_text().splitlines()]


def test_a_failure_does_not_keep_the_other_pythons_from_their_turn(tmp_path: Path) -> None:
    suite = Suite(tmp_path, failing=".venv .venv-3.9")
    ran = suite("-k", "x")
    assert ran.returncode == 1
    assert [line.split()[0] for line in suite.asked()] == [".venv", ".venv-3.9", ".venv", ".venv-3.13"]
    assert f"agent={tmp_path}/.venv-3.9/bin/python" in suite.asked()[2] and "agent=no" in suite.asked()[3]
    assert all(" -k x " in line for line in suite.asked())
    failures = ran.stdout.partition("== failed:\n")[2].splitlines()
    assert [line.strip() for line in failures] == [
        f"all floors on Python of {tmp_path}/bin/newest",
        "unit, tree on Python 3.9",
        "sim with the agent on Python 3.9",
    ]


def test_where_all_is_well_it_says_what_it_keeps_and_how_to_be_rid_of_it(tmp_path: Path) -> None:
    suite = Suite(tmp_path)
    ran = suite()
    assert (ran.returncode, ran.stderr) == (0, "") and "failed" not in ran.stdout
    assert f"rm -rf {tmp_path}/cache" in ran.stdout and "rm -rf .venv*" in ran.stdout
    assert "no Python 3.10 here" in ran.stdout


def test_without_the_oldest_python_ci_fails(tmp_path: Path) -> None:
    suite = Suite(tmp_path, others=("3.13",))
    assert suite().returncode == 0
    ran = suite(CI="true")
    assert ran.returncode == 1 and "Python 3.9, which must be installed" in ran.stdout
    assert ".venv-3.13" in suite.asked()[-1], "and the others have their turn all the same"


def test_only_the_oldest_and_the_newest_python_repeat_what_is_the_same_on_all(tmp_path: Path) -> None:
    suite = Suite(tmp_path, others=("3.9", "3.10", "3.12", "3.13"))
    assert suite().returncode == 0
    asked = [line for line in suite.asked() if line.startswith(".venv-") and "tests/unit" in line]
    both = {line.split()[0]: "tests/tree" in line for line in asked}
    assert both == {".venv-3.9": True, ".venv-3.10": False, ".venv-3.12": False, ".venv-3.13": True}
    assert all(("tests/tree" in line) != (" -m not newer and not once " in line) for line in asked)


def test_quick_is_one_python_without_boots(tmp_path: Path) -> None:
    suite = Suite(tmp_path)
    assert suite("--quick", "-x").returncode == 0
    (asked,) = suite.asked()
    assert asked.startswith(".venv -m pytest ") and " tests/unit tests/tree tests/sim -x all=no" in asked


def test_all_is_told_to_the_tests(tmp_path: Path) -> None:
    suite = Suite(tmp_path)
    assert suite("--all").returncode == 0
    assert all(" all=1 " in line for line in suite.asked()) and not any("--all" in line for line in suite.asked())


APT = """#!/bin/sh
echo "$*" >>{log}.apt
n=$(cat {log}.tries 2>/dev/null || echo 0)
echo $((n + 1)) >{log}.tries
[ "$n" -ge 2 ] || {{ echo "E: {problem}" >&2; exit 100; }}
"""


@pytest.mark.parametrize(
    ("problem", "status"),
    [("Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)", 0), ("no such package", 1)],
)
def test_another_apt_is_waited_for_and_any_other_failure_is_not(problem: str, status: int, tmp_path: Path) -> None:
    suite = Suite(tmp_path, others=())
    suite.command("id", "#!/bin/sh\necho 0\n")
    suite.command("sleep", "#!/bin/sh\n")
    suite.command("apt-get", APT.format(log=suite.log, problem=problem))
    ran = suite("--quick")
    assert ran.returncode == status
    asked = Path(f"{suite.log}.apt").read_text().splitlines()
    assert all("-o DPkg::Lock::Timeout=600" in line for line in asked)
    waited = [line.partition("=600 ")[2].split()[0] for line in asked]
    assert waited[:4] == (["update"] * 3 + ["install"] if status == 0 else ["update", "install"])
    assert ("waiting for it" in ran.stdout) == (status == 0)
    assert (f"E: {problem}" in ran.stderr) == (status != 0)


def test_the_demo_runs_what_it_prints(tmp_path: Path) -> None:
    """Each command stands before its output, and the platform saw what they did."""
    ran = call(ROOT / "scripts/demo", TMPDIR=str(tmp_path))
    if "needs Python 3.11" in ran.stderr:
        pytest.skip("no Python for fakeazure")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    printed = [line[2:] for line in ran.stdout.splitlines() if line.startswith("$ ")]
    assert printed[:3] == [
        "fakeazure run scenario.toml -- demo inside",
        "azure-init --root machine plan",
        "azure-init --root machine",
    ]
    assert "$ cat machine/etc/hostname\nweb-1\n" in ran.stdout
    assert "created azureuser, in adm and sudo" in ran.stdout and "\nVerdict: Ready after" in ran.stdout
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
