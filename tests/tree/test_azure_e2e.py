"""scripts/azure-e2e with stand-ins for Azure's tools: the calls that it makes, and that no failure is ignored."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.need import need

pytestmark = pytest.mark.newer
ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/azure-e2e"
CASES = ("gen1", "gen2", "arm64", "nvme", "msp", "specialised", "password")
TOOLS = ("az", "ssh", "scp", "ssh-keygen", "openssl", "sshpass")
SYSTEM = ("bash", "sh", "date", "mktemp", "rm", "ls", "sed", "grep", "cat", "dirname")
READY = "reported Ready: the platform accepted it (12 ms)"
# Every tool: notes its words, fails where $FAILS is among them, and answers as far as the script asks. The address of a
# VM is its name, so that the machine that is asked for its own knows it.
STAND_IN = """#!{python} -IS
import json, os, sys
tool, words = os.path.basename(sys.argv[0]), sys.argv[1:]
def option(name):
    return words[words.index(name) + 1] if name in words else None
line = " ".join([tool, *words])
with open("{log}", "a") as log:
    print(json.dumps([tool, *words]), file=log)
if os.environ.get("FAILS") and os.environ["FAILS"] in line:
    sys.exit(tool + ": failed, as it was told to")
if "publicIps" in words:
    print(option("--name"))
elif "--query" in words:
    print("/ids/" + (option("--name") or option("--gallery-image-definition")))
elif tool == "openssl":
    print("0123456789abcdef01234567")
elif tool == "ssh-keygen":
    for end in ("", ".pub"):
        open(option("-f") + end, "w").close()
elif tool == "ssh" and "journalctl" in words[-1]:
    print(next(word for word in words if "@vm-" in word).partition("@")[2])
    print(os.environ.get("JOURNAL", "{ready}"))
"""
PACKAGE = '#!/bin/sh\n: >"$2/azure-init_0_all.deb"\n'


class Subscription:
    """A copy of the script, beside a package that is made at once, and nothing on the path but what it may use."""

    def __init__(self, place: Path) -> None:
        self.place, self.log, self.bin = place, place / "log", place / "bin"
        for directory in ("bin", "scripts", "tmp"):
            (place / directory).mkdir()
        shutil.copy(SCRIPT, place / "scripts")
        self.write(place / "scripts/package", PACKAGE)
        for tool in TOOLS:
            self.write(self.bin / tool, STAND_IN.format(python=sys.executable, log=self.log, ready=READY))
        for tool in SYSTEM:
            (self.bin / tool).symlink_to(need(tool))

    @staticmethod
    def write(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        given = {"PATH": str(self.bin), "TMPDIR": str(self.place / "tmp"), **environ}
        command = [str(self.bin / "bash"), str(self.place / "scripts/azure-e2e"), *words]
        return subprocess.run(command, capture_output=True, text=True, env=given, timeout=60)

    def calls(self, *begin: str) -> list[list[str]]:
        """Those that begin with these words."""
        noted = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [call for call in noted if tuple(call[: len(begin)]) == begin]

    def scripts(self, machine: str) -> list[str]:
        """What a machine was given to run, as root."""
        return [call[-1] for call in self.calls("ssh") if call[-2] == machine]

    def is_gone(self) -> bool:
        """The group that was made is deleted, and it is the same; nothing of ours lies about."""
        (group,) = {option(call, "--name") for call in self.calls("az", "group", "create")}
        deleted = [option(call, "--name") for call in self.calls("az", "group", "delete")]
        return deleted == [group] and not list((self.place / "tmp").iterdir())


def option(call: list[str], name: str) -> str | None:
    return call[call.index(name) + 1] if name in call else None


@pytest.fixture
def subscription(tmp_path: Path) -> Subscription:
    return Subscription(tmp_path)


def test_bash_can_read_it() -> None:
    ran = subprocess.run([need("bash"), "-n", str(SCRIPT)], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_its_help_is_its_head(subscription: Subscription) -> None:
    ran = subscription.run("--help")
    assert ran.returncode == 0 and not ran.stderr and subscription.log.read_text() == ""
    assert "Usage: scripts/azure-e2e" in ran.stdout and "set -e" not in ran.stdout
    assert all(word in ran.stdout for word in (*CASES, *TOOLS))
    assert ran.stdout.rstrip().endswith("(`azure-init clean`)."), "all of it"


@pytest.mark.parametrize("words", [["gen3"], ["--frobnicate"], ["--location"]])
def test_what_it_does_not_know_is_a_usage_error_before_azure_is_asked(
    subscription: Subscription, words: list[str]
) -> None:
    ran = subscription.run(*words)
    assert ran.returncode == 2 and ran.stderr.startswith("azure-e2e: ") and subscription.log.read_text() == ""


# What is said of the base VM, the image and the new VM: options and their values.
SAID: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    "gen1": ({"--image": "Debian:debian-13:13:latest"}, {"--hyper-v-generation": "V1", "--architecture": "x64"}, {}),
    "gen2": (
        {"--image": "Debian:debian-13:13-gen2:latest"},
        {"--hyper-v-generation": "V2", "--architecture": "x64"},
        {},
    ),
    "arm64": (
        {"--image": "Debian:debian-13:13-arm64:latest", "--size": "Standard_D2pds_v5"},
        {"--hyper-v-generation": "V2", "--architecture": "Arm64"},
        {"--size": "Standard_D2pds_v5"},
    ),
    "nvme": (
        {"--size": "Standard_D2ads_v6", "--disk-controller-type": "NVMe"},
        {"--features": "DiskControllerTypes=SCSI,NVMe"},
        {"--size": "Standard_D2ads_v6", "--disk-controller-type": "NVMe"},
    ),
    "msp": ({}, {}, {"--enable-proxy-agent": "true"}),
    "specialised": ({}, {"--os-state": "Specialized"}, {"--specialized": "true"}),
    "password": ({}, {}, {"--authentication-type": "all"}),
}


def test_every_case_tells_azure_what_it_is_about(subscription: Subscription) -> None:
    ran = subscription.run("--location", "northeurope")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line for line in ran.stdout.splitlines() if ":" in line] == [
        f"{case}: provisioned, and the admin can log in" for case in CASES
    ]
    machines = {option(call, "--name"): call for call in subscription.calls("az", "vm", "create")}
    images = {option(call, "--sku"): call for call in subscription.calls("az", "sig", "image-definition", "create")}
    versions = subscription.calls("az", "sig", "image-version", "create")
    captured = {option(call, "--gallery-image-definition"): option(call, "--virtual-machine") for call in versions}
    assert set(machines) == {f"{part}-{case}" for part in ("base", "vm") for case in CASES}
    assert set(images) == set(SAID) == set(CASES)
    for case, said in SAID.items():
        for call, options in zip((machines[f"base-{case}"], images[case], machines[f"vm-{case}"]), said, strict=True):
            assert {name: option(call, name) for name in options} == options
        assert option(machines[f"vm-{case}"], "--location") == "northeurope"
        assert captured[case] == f"/ids/base-{case}"
        assert option(machines[f"vm-{case}"], "--image") == f"/ids/{case}"
    assert subscription.is_gone()


def test_a_specialised_image_keeps_its_account_and_the_others_lose_it(subscription: Subscription) -> None:
    assert subscription.run("gen2", "specialised").returncode == 0
    generalised = {option(call, "--name") for call in subscription.calls("az", "vm", "generalize")}
    assert generalised == {"base-gen2"}
    machines = {option(call, "--name"): call for call in subscription.calls("az", "vm", "create")}
    assert option(machines["vm-gen2"], "--admin-username") == "ada"
    assert "--admin-username" not in machines["vm-specialised"]
    (one,), (other,) = (subscription.scripts(f"builder@base-{case}") for case in ("gen2", "specialised"))
    assert "azure-init deprovision --user --force" in one and "azure-init clean" not in one
    assert "azure-init clean --logs" in other and "deprovision" not in other
    looks = [*subscription.scripts("ada@vm-gen2"), *subscription.scripts("builder@vm-specialised")]
    assert len(looks) == 2 and all("journalctl -b -u azure-init" in look for look in looks)


def test_what_the_machines_are_given_to_run_survives_two_shells(subscription: Subscription) -> None:
    assert subscription.run("gen2").returncode == 0
    given = [*subscription.scripts("builder@base-gen2"), *subscription.scripts("ada@vm-gen2")]
    assert len(given) == 2
    inner = ""
    for script in given:
        *before, inner = shlex.split(script)
        assert before == ["sudo", "-n", "sh", "-ec"]
        subprocess.run([need("sh"), "-nc", inner], check=True)
    # The second, on a machine that has told its verdict.
    for tool, says in (("journalctl", READY), ("hostname", "vm-gen2")):
        subscription.write(subscription.bin / tool, f"#!/bin/sh\necho '{says}'\n")
    (subscription.bin / "seq").symlink_to(need("seq"))
    ran = subprocess.run(
        [need("sh"), "-ec", inner], capture_output=True, text=True, env={"PATH": str(subscription.bin)}
    )
    assert (ran.returncode, ran.stdout) == (0, f"vm-gen2\n{READY}\n"), ran.stderr


def test_the_password_is_tried_and_is_on_no_command_line(subscription: Subscription) -> None:
    assert subscription.run("password").returncode == 0
    assert "0123456789abcdef01234567" not in subscription.log.read_text()
    ((_tool, flag, file, *words),) = subscription.calls("sshpass")
    assert flag == "-f" and words[0] == "ssh" and words[-2:] == ["ada@vm-password", "true"]
    (made,) = [call for call in subscription.calls("az", "vm", "create") if "--admin-password" in call]
    assert option(made, "--admin-password") == f"@{file}"


STEPS = (
    "az vm create --resource-group",
    "--query publicIps",
    "scp -q",
    "ssh -i",
    "apt-get purge",
    "az vm deallocate",
    "az vm generalize",
    "image-definition create",
    "--query id --output tsv",
    "image-version create",
    "--name vm-password --image",
    "journalctl",
    "sshpass -f",
)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_fails_its_case_ends_it_and_leaves_nothing_to_pay_for(
    subscription: Subscription, step: str
) -> None:
    ran = subscription.run("password", FAILS=step)
    assert ran.returncode == 1, ran.stdout
    assert "password: FAILED" in ran.stdout and "failed, as it was told to" in ran.stderr
    *_, last, end = (" ".join(call) for call in subscription.calls())
    assert step in last and end.startswith("az group delete"), "nothing came after it but the end"
    assert subscription.is_gone()


def test_a_case_that_fails_does_not_keep_the_others_from_being_tried(subscription: Subscription) -> None:
    ran = subscription.run("gen1", "gen2", FAILS="base-gen1")
    assert ran.returncode == 1
    assert "gen1: FAILED" in ran.stdout and "gen2: provisioned" in ran.stdout
    assert subscription.is_gone()


@pytest.mark.parametrize("case", ["gen2", "specialised"])
@pytest.mark.parametrize(
    "journal", ["", "report Ready: the platform has not accepted it; sent again at the next start"]
)
def test_a_login_is_not_enough_where_our_verdict_is_not_in_the_journal(
    subscription: Subscription, case: str, journal: str
) -> None:
    ran = subscription.run(case, JOURNAL=journal)
    assert ran.returncode == 1 and f"{case}: the journal does not contain the verdict of azure-init" in ran.stdout
    assert subscription.is_gone()


@pytest.mark.parametrize("step", ["az group create", "az sig create"])
def test_what_fails_before_the_first_case_leaves_nothing_to_pay_for_either(
    subscription: Subscription, step: str
) -> None:
    ran = subscription.run("gen2", FAILS=step)
    assert ran.returncode == 1 and "==" not in ran.stdout
    assert subscription.is_gone()


def test_a_group_that_cannot_be_deleted_is_named_and_is_a_failure(subscription: Subscription) -> None:
    ran = subscription.run("gen2", FAILS="az group delete")
    assert ran.returncode == 1
    assert "was not deleted and costs money: az group delete --name azure-init-e2e-" in ran.stderr


def test_keep_keeps_the_group_and_names_it(subscription: Subscription) -> None:
    ran = subscription.run("--keep", "gen2")
    assert ran.returncode == 0 and "kept: resource group azure-init-e2e-" in ran.stdout
    assert subscription.calls("az", "group", "delete") == []


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_is_missing_is_named_before_anything_is_paid_for(subscription: Subscription, tool: str) -> None:
    (subscription.bin / tool).unlink()
    ran = subscription.run("gen2", "password")
    assert (ran.returncode, ran.stderr) == (2, f"azure-e2e: {tool} is not installed\n")
    assert subscription.calls("az", "group") == []


def test_sshpass_is_needed_only_for_passwords(subscription: Subscription) -> None:
    (subscription.bin / "sshpass").unlink()
    assert subscription.run("gen2").returncode == 0


def test_who_is_not_logged_in_is_told_so(subscription: Subscription) -> None:
    ran = subscription.run("gen2", FAILS="az account show")
    assert ran.returncode == 2 and "not logged in to Azure: az login" in ran.stderr
    assert subscription.calls("az", "group") == []
