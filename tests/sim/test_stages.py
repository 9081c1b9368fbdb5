"""The stages of a boot beside the run itself, as the units call them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from fakeazure import Expect, Imds, Media, Vm, Wireserver
from support.bench import QUICK, Bench, Benches
from support.need import need_root, unfit
from support.overlay_system import System
from support.trees import changed, listing

DEAD = {**QUICK["wireserver"], "health_endpoint": "http://127.0.0.1:1/provisioning/health"}
# Notes what it is asked for.
SYSTEMCTL = '#!/bin/sh\necho "$*" >>/mnt/place/started\n'
PASSWORD = Vm(name="web-1", password="correct horse", disable_password=False)


def pending(one: Bench) -> dict[str, str]:
    found: dict[str, str] = json.loads(one.state("pending").read_text())
    return found


def test_local_sets_the_name_from_the_medium_and_tells_nobody(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"), expect=Expect(verdict="none"))
    ran = one.agent("--stage", "local")
    assert ran.status == 0 and "the host name is web-1" in ran.err
    assert one.read("etc/hostname") == "web-1\n"
    assert one.fabric.ledger.requests == ()
    assert not list((one.tree / "home").iterdir()), "the rest is the run's"


def test_local_touches_nothing_but_the_name(bench: Benches) -> None:
    one = bench(vm=PASSWORD, expect=Expect(verdict="none"))
    before = listing(one.tree)
    assert one.agent("--stage", "local").status == 0
    assert changed(before, listing(one.tree)) == {"etc/hostname", "etc/hosts", "var/log/azure-init.log"}


def test_after_local_the_run_does_the_rest(bench: Benches) -> None:
    one = bench(vm=PASSWORD)
    assert one.agent("--stage", "local").status == 0
    assert one.agent().status == 0
    assert one.fabric.judge().ok
    assert ":$" in one.read("etc/shadow")


def test_local_without_a_medium_leaves_the_name_to_imds(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"), media=Media(enable=False), expect=Expect(verdict="none"))
    before = one.read("etc/hostname") if (one.tree / "etc/hostname").exists() else None
    ran = one.agent("--stage", "local")
    assert ran.status == 0 and "waits for IMDS" in ran.err
    assert (one.read("etc/hostname") if before is not None else None) == before


def test_what_is_wrong_with_the_medium_is_left_to_the_run_to_tell(bench: Benches) -> None:
    one = bench(imds=Imds(enable=False), media=Media(ovf="<broken"), expect=Expect(verdict="failure"))
    assert one.agent("--stage", "local").status == 0
    assert one.fabric.ledger.told == ()
    assert one.agent().status == 1
    assert one.fabric.judge().ok


def test_local_on_a_provisioned_machine_does_nothing(bench: Benches) -> None:
    one = bench()
    assert one.agent().status == 0
    (one.tree / "etc/hostname").write_text("renamed-since\n")
    assert one.agent("--stage", "local").status == 0
    assert one.read("etc/hostname") == "renamed-since\n"


def test_failed_tells_the_platform_that_the_run_died(bench: Benches) -> None:
    one = bench(expect=Expect(verdict="failure", reason="azure-init did not finish"))
    assert one.agent("--stage", "failed").status == 0
    assert one.fabric.judge().ok
    assert not one.state("provisioned").exists()


def test_failed_on_a_provisioned_machine_adds_nothing(bench: Benches) -> None:
    one = bench()
    assert one.agent().status == 0
    assert one.agent("--stage", "failed").status == 0
    assert one.fabric.judge().ok and len(one.fabric.ledger.verdicts) == 1


def test_resend_tells_ready_once_the_platform_listens(bench: Benches) -> None:
    one = bench(wireserver=Wireserver(goal_state_after_secs=4), expect=Expect(verdict="ready"))
    assert one.agent().status == 75
    assert pending(one)["verdict"] == "ready"
    assert one.fabric.ledger.wait(lambda ledger: ledger.now() > 4.5, timeout=5) in (True, False)
    assert one.agent("--stage", "resend").status == 0
    assert one.fabric.judge().ok and one.state("provisioned").exists()


def test_resend_without_anything_to_tell_asks_nobody(bench: Benches) -> None:
    one = bench(expect=Expect(verdict="none"))
    assert one.agent("--stage", "resend").status == 0
    assert one.fabric.ledger.requests == ()


def test_resend_finds_its_ready_in_another_data_directory(bench: Benches) -> None:
    one = bench()
    moved = {"azure_init_data_dir": {"path": "/srv/state"}}
    one.configure(wireserver=DEAD, **moved)
    assert one.agent().status == 75
    assert (one.tree / f"srv/state/{one.fabric.vm.id}.pending").exists() and not one.data.exists()
    one.configure(**moved)
    assert one.agent("--stage", "resend").status == 0
    assert one.fabric.judge().ok
    assert not list((one.tree / "srv/state").glob("*.pending"))
    asked = len(one.fabric.ledger.requests)
    assert one.agent("--stage", "resend").status == 0
    assert len(one.fabric.ledger.requests) == asked, "told, and over"


def test_a_boot_starts_the_unit_that_resends_only_while_ready_is_not_accepted(tmp_path: Path) -> None:
    """Wherever the data directory is, and without a process more in any other boot."""
    need_root()
    one = System(tmp_path, b"")
    systemctl = one.upper / "opt/tools/systemctl"
    systemctl.parent.mkdir(parents=True)
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    tables = {
        **QUICK,
        "azure_init_data_dir": {"path": "/srv/state"},
        "disk": {"grow_root": False},
        "hostname": {"monitor": True},
        "network": {"watch": True},
        "ssh": {"host_key_types": []},
    }
    (one.place / "run/systemd/system").mkdir(parents=True)
    started = tmp_path / "place/started"
    try:
        for wireserver, words, status in (
            (DEAD, (), 75),
            (DEAD, (), 0),
            (QUICK["wireserver"], ("--stage", "resend"), 0),
            (QUICK["wireserver"], (), 0),
        ):
            started.write_text("")
            (tmp_path / "place/config.toml").write_text(one.fabric.config_text(**{**tables, "wireserver": wireserver}))
            asked = len(one.fabric.ledger.requests)
            ran = one.agent(*words) if words else in_a_boot(one)
            assert ran.returncode == status, ran.stderr
            resends = "--no-block start azure-init-resend.service" in started.read_text().splitlines()
            assert resends == (wireserver is DEAD), ran.stderr
            watches = "--no-block start azure-init-hostname.service" in started.read_text().splitlines()
            assert watches == (not words and status == 0), "also in a boot that has Ready still to tell"
            follows = "--no-block start azure-init-network.service" in started.read_text().splitlines()
            assert follows == watches
            assert (len(one.fabric.ledger.requests) > asked) == (status == 75 or bool(words))
    finally:
        one.fabric.stop()
    assert [told.kind for told in one.fabric.ledger.verdicts] == ["ready"]


def in_a_boot(one: System) -> subprocess.CompletedProcess[str]:
    command = [word.replace("PATH=/usr", "PATH=/opt/tools:/usr", 1) for word in one.service()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if ran.returncode == 125:
        unfit(f"no layer over this system's files: {ran.stderr.strip()}")
    return ran


def test_hostname_watches_only_where_it_is_asked_to_and_on_a_machine_that_runs(bench: Benches) -> None:
    one = bench(expect=Expect(verdict="none"))
    ran = one.agent("--stage", "hostname")
    assert ran.status == 0 and "the host name is not watched: hostname.monitor is false" in ran.err
    one.configure(hostname={"monitor": True})
    ran = one.agent("--stage", "hostname")
    assert ran.status == 0 and "the host name is not watched: this tree is not the running system" in ran.err
    assert one.fabric.ledger.requests == () and not (one.data / "published_hostname").exists()


def test_addresses_are_followed_only_where_it_is_asked_to_and_on_a_machine_that_runs(bench: Benches) -> None:
    one = bench(expect=Expect(verdict="none"))
    for table, why in (
        ({}, "network.watch is false"),
        ({"watch": True, "configure": False}, "network.configure is false"),
        ({"watch": True}, "this tree is not the running system"),
    ):
        one.configure(network=table)
        ran = one.agent("--stage", "addresses")
        assert ran.status == 0 and f"changes of the network are not followed: {why}" in ran.err
    assert one.fabric.ledger.requests == ()


def test_disk_sets_up_only_where_it_is_asked_to_and_on_a_machine_that_runs(bench: Benches) -> None:
    one = bench(expect=Expect(verdict="none"))
    before = listing(one.tree)
    ran = one.agent("--stage", "disk")
    assert ran.status == 0 and "temporary disks are not set up: disk.setup is off" in ran.err
    one.configure(disk={"setup": "auto"})
    ran = one.agent("--stage", "disk")
    assert ran.status == 0 and "temporary disks are not set up: this tree is not the running system" in ran.err
    assert one.fabric.ledger.requests == ()
    assert not {name for name in changed(before, listing(one.tree)) if not name.startswith("var/log/")}


def test_disk_on_a_running_machine_without_temporary_disks_says_nothing(tmp_path: Path) -> None:
    need_root()
    one = System(tmp_path, b"")
    try:
        tables = {**QUICK, "disk": {"grow_root": False, "setup": "auto"}, "telemetry": {"trace": False}}
        (tmp_path / "place/config.toml").write_text(one.fabric.config_text(**tables))
        ran = one.agent("--stage", "disk")
        assert (ran.returncode, ran.stderr) == (0, "")
        result = json.loads((one.place / "run/azure-init/disks.json").read_text())
        assert result["state"] == "done" and not [row for row in result["disks"] if row["temporary"]]
        assert one.fabric.ledger.requests == ()
        assert not (one.upper / "etc/fstab").exists(), "it stays as it was"
        shown = one.agent("disk", "status")
        assert shown.returncode == 0 and shown.stdout.endswith("There is no temporary disk.\n"), shown.stderr
        planned = one.agent("disk", "plan")
        assert (planned.returncode, planned.stdout) == (0, "There is no temporary disk.\n"), planned.stderr
    finally:
        one.fabric.stop()


def test_a_boot_queues_the_unit_for_disks_before_it_is_ready_and_only_if_nothing_else_does(tmp_path: Path) -> None:
    need_root()
    one = System(tmp_path, b"")
    systemctl = one.upper / "opt/tools/systemctl"
    systemctl.parent.mkdir(parents=True)
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    (one.place / "run/systemd/system").mkdir(parents=True)
    started = tmp_path / "place/started"
    wanted = one.upper / "etc/systemd/system/azure-init.service.wants/azure-init-disk.service"
    try:
        for setup, by_package, queued in (("auto", False, True), ("off", False, False), ("auto", True, False)):
            started.write_text("")
            if by_package:
                wanted.parent.mkdir(parents=True)
                wanted.symlink_to("../azure-init-disk.service")
            tables = {**QUICK, "disk": {"grow_root": False, "setup": setup}, "ssh": {"host_key_types": []}}
            (tmp_path / "place/config.toml").write_text(one.fabric.config_text(**tables))
            ran = in_a_boot(one)
            assert ran.returncode == 0, ran.stderr
            lines = started.read_text().splitlines()
            assert ("--no-block start azure-init-disk.service" in lines) == queued, (setup, by_package)
            if queued:
                assert lines[0] == "--no-block start azure-init-disk.service", "before everything else"
    finally:
        one.fabric.stop()


def test_an_unknown_stage_is_a_usage_error(bench: Benches) -> None:
    one = bench(expect=Expect(verdict="none"))
    ran = one.agent("--stage", "late")
    assert ran.status == 2 and "local, failed, resend, hostname" in ran.err


def test_a_ready_that_is_still_to_be_told_outlives_a_time_without_any_network(bench: Benches) -> None:
    """What was done is not undone by sources that are silent later; the host has taken the medium away meanwhile."""
    one = bench(vm=Vm(name="web-1"), expect=Expect(verdict="ready"))
    one.configure(wireserver=DEAD)
    assert one.agent().status == 75
    assert one.fabric.media_path is not None
    one.fabric.media_path.unlink()
    one.configure(wireserver=DEAD, imds={"endpoint": "http://127.0.0.1:1"})
    ran = one.agent("--stage", "resend")
    assert ran.status == 75, ran.err
    assert pending(one)["verdict"] == "ready"
    one.configure()
    ran = one.agent("--stage", "resend")
    assert ran.status == 0 and one.fabric.judge().ok, ran.err
    assert [told.kind for told in one.fabric.ledger.verdicts] == ["ready"]
