"""Sources that are late, contradict each other or cannot be read."""

from __future__ import annotations

import base64
import json
import subprocess

import pytest

from azureinit.memory.sealed import seal
from fakeazure import Expect, Media, Vm
from fakeazure.platform.vm import PUBLIC_KEY
from support.bench import PYTHON, SRC, Bench, Benches
from support.need import need_root


def test_a_password_beside_a_key_is_waited_for_though_imds_alone_would_do(bench: Benches) -> None:
    one = bench(vm=Vm(password="s3cret+pass", disable_password=False), media=Media(late_secs=1.0))
    one.configure(provisioning_media={"wait_secs": 20})
    assert one.agent().status == 0
    assert one.read("etc/shadow").count(":$") == 1, "the account has its password"
    assert one.fabric.judge().ok


def test_a_password_beside_a_key_that_never_comes_is_a_failure(bench: Benches) -> None:
    vm = Vm(password="s3cret+pass", disable_password=False)
    one = bench(vm=vm, media=Media(enable=False), expect=Expect(verdict="failure", reason="media not found"))
    assert one.agent().status == 1
    assert one.fabric.judge().ok


def test_where_media_are_off_by_configuration_the_key_has_to_do(bench: Benches) -> None:
    one = bench(vm=Vm(password="s3cret+pass", disable_password=False))
    one.configure(provisioning_media={"enable": False})
    assert one.agent().status == 0
    assert one.fabric.judge().ok


DATA = b"#!/bin/sh\ntrue\n"


def test_custom_data_are_waited_for_though_imds_alone_would_do(bench: Benches) -> None:
    one = bench(vm=Vm(custom_data=DATA), media=Media(late_secs=1.5))
    one.configure(provisioning_media={"wait_secs": 20}, sources={"grace_secs": 0.2})
    assert one.agent().status == 0
    assert one.read("var/lib/waagent/CustomData").encode() == base64.b64encode(DATA)
    assert one.fabric.judge().ok


@pytest.mark.parametrize("media", [Media(enable=False), Media(ovf="<Environment"), Media(omit=("CustomData",))])
def test_custom_data_that_imds_names_and_no_medium_gives_are_a_failure(bench: Benches, media: Media) -> None:
    one = bench(vm=Vm(custom_data=DATA), media=media, expect=Expect(verdict="failure", reason="hasCustomData=true"))
    assert one.agent().status == 1
    assert one.fabric.judge().ok
    assert "azureuser" not in one.read("etc/passwd")


def test_a_medium_that_contradicts_imds_is_refused_with_a_warning(bench: Benches) -> None:
    vm = Vm(password="s3cret+pass", disable_password=True)
    one = bench(vm=vm, media=Media(texts={"DisableSshPasswordAuthentication": "false"}))
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert "the provisioning medium is refused" in ran.err
    assert one.read("etc/shadow").count(":$") == 0, "its password is not set"
    assert not one.state("saved").exists() or "s3cret" not in one.state("saved").read_text()


def test_a_medium_of_another_vm_is_refused_with_a_warning(bench: Benches) -> None:
    other = "99999999-2222-4333-8444-555555555555"
    one = bench(media=Media(vm_id=other, username="rogue", hostname="rogue"))
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert f"the provisioning medium is refused: it is of VM {other}" in ran.err
    own = bench(vm=Vm(id=other, name="web-9"), media=Media(vm_id=other))
    ran = own.agent()
    assert ran.status == 0 and "refused" not in ran.err


def test_the_platform_and_the_trace_have_the_same_id_of_every_request(bench: Benches) -> None:
    one = bench(faults=[{"path": "/metadata/instance", "answers": [503, "ok*"]}])
    assert one.agent().status == 0
    heard = [request.headers["x-ms-client-request-id"] for request in one.fabric.ledger.requests]
    lines = [json.loads(line) for line in one.read("var/lib/azure-init/trace.jsonl").splitlines()]
    sent = [line["fields"]["request_id"] for line in lines if "request_id" in line.get("fields", {})]
    assert len(set(heard)) == len(heard) >= 4
    assert set(heard) == set(sent)


UNPRIVILEGED = """
mount --bind "$1" /mnt && mount --bind "$2" /media && shift 2 &&
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


def need_python_for_all() -> None:
    """A Python that somebody built for root alone cannot be run by another user."""
    need_root()
    words = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", PYTHON, "-c", "import encodings")
    if subprocess.run(words, capture_output=True, cwd="/").returncode:
        pytest.skip("another user cannot run this Python")


def as_nobody(one: Bench, *words: str) -> subprocess.CompletedProcess[str]:
    """Sees the machine as anybody may, under /mnt."""
    (one.tree / "config.toml").write_text(one.config.read_text())
    (one.tree / "config.toml").chmod(0o644)
    one.tree.chmod(0o755)
    agent = [PYTHON, "-m", "azureinit", "--config", "/mnt/config.toml", "--root", "/mnt", *words]
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", UNPRIVILEGED, "sh", str(one.tree), str(SRC), *agent],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": "/media", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_a_plan_for_somebody_who_may_not_read_says_what_it_cannot_tell(bench: Benches) -> None:
    need_python_for_all()
    one = bench(media=Media(enable=False))
    assert one.agent().status == 0
    for name, mode in (("etc/shadow", 0o640), ("etc/sudoers.d", 0o750)):
        (one.tree / name).chmod(mode)
    ran = as_nobody(one, "plan", "--check")
    unknown = {line.partition(":")[0] for line in ran.stdout.splitlines() if line.startswith("?")}
    assert {"? earlier runs", "? sudo", "? ssh keys azureuser"} <= unknown, ran.stdout + ran.stderr
    assert not [line for line in ran.stdout.splitlines() if line[:1] in "+!"], ran.stdout
    assert "unknown (only root can tell)" in ran.stdout and ran.returncode == 4
    assert one.agent("plan", "--check").status == 0
    (one.tree / "etc/hostname").write_text("other\n")
    assert as_nobody(one, "plan", "--check").returncode == 3, "what can be seen to be wrong is left to do"


def test_a_run_does_not_pass_over_what_it_cannot_tell(bench: Benches) -> None:
    need_python_for_all()
    one = bench(media=Media(eject=False))
    assert one.agent().status == 0
    (one.tree / "etc/sudoers.d").chmod(0o750)
    for path in (one.tree, one.tree / "var/lib/azure-init", one.tree / "var/log"):
        path.chmod(0o777)
    one.state("provisioned").unlink()
    ran = as_nobody(one)
    assert ran.returncode == 1 and not one.state("provisioned").exists(), ran.stderr


def test_the_proxy_agent_that_the_media_ask_for_is_asked_for_also_after_the_host_took_the_media(bench: Benches) -> None:
    one = bench(vm=Vm(proxy_agent=True), expect=Expect(verdict="failure"))
    assert one.agent().status == 1
    assert one.fabric.judge().report["reason"] == "azure-proxy-agent not found"
    assert one.fabric.media_path is not None
    one.fabric.media_path.unlink()
    one.fabric.reboot(expect=Expect(verdict="failure"))
    ran = one.agent()
    assert ran.status == 1, ran.err
    assert one.fabric.judge().report["reason"] == "azure-proxy-agent not found"


def test_media_applied_alone_that_imds_contradicts_stay_a_failure_until_clean(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"), expect=Expect(verdict="failure"))
    one.data.mkdir(mode=0o700)
    saved = {"username": "somebody", "hostname": "web-1", "keys": [[PUBLIC_KEY, None]]}
    one.state("saved").write_bytes(seal(saved))
    one.state("pending").write_bytes(seal({"verdict": "unfinished", "failure": "", "sources": "media alone"}))
    for _boot in range(3):
        ran = one.agent()
        assert ran.status == 1 and "the media say 'somebody'" in ran.err
        assert one.fabric.judge().report["reason"] == "provisioning media contradict IMDS"
        one.fabric.reboot()
    # The other verdict that may follow such a run: it died, and that was told.
    assert one.agent("--stage", "failed").status == 0
    assert one.fabric.judge().report["reason"] == "azure-init did not finish"
    one.fabric.reboot()
    assert one.agent().status == 1
    assert "azureuser" not in one.read("etc/passwd")
    assert one.agent("clean").status == 0
    one.fabric.reboot(expect=Expect(verdict="ready"))
    assert one.agent().status == 0
