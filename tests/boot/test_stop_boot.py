"""A run that is stopped before its verdict, and a run whose unit is masked, under a real systemd."""

from __future__ import annotations

import pytest

from fakeazure.platform.events import Told
from support.installed import Boot, Machines

pytestmark = pytest.mark.newer

MARKER = "var/lib/azure-init/*.provisioned"
# IMDS never answers, and logins are released early: the run goes on behind that, without a verdict.
UNANSWERED = (
    '[media]\nenable = false\n[[faults]]\npath = "/metadata/instance"\nanswers = ["hang*"]\n'
    "[azure-init.boot]\nhold_logins_secs = 1\n"
)


def wait_for_work(boot: Boot) -> None:
    """The report that provisioning is in progress leaves while IMDS is asked."""

    def begun() -> bool:
        return any(isinstance(event, Told) and event.kind == "progress" for event in boot.events())

    boot.until(begun, "the run is at work")


def test_a_run_that_is_stopped_reports_a_failure_and_the_next_start_goes_on(machine: Machines) -> None:
    disk = machine("trixie")
    with disk.boot(UNANSWERED) as boot:
        wait_for_work(boot)
        boot.out("systemctl", "stop", "azure-init.service")
        (verdict,) = boot.verdicts()
        assert verdict.kind == "failed"
        assert "azure-init was stopped" in verdict.description and "SIGTERM" in verdict.description
        boot.ended()
        said = boot.journal("-u", "azure-init-failure.service")
        assert boot.told() == ["failed"], said
    assert disk.files(MARKER) == []
    with disk.boot() as boot:
        boot.ready()


def test_a_run_that_ends_with_the_system_reports_nothing_and_the_next_boot_decides(machine: Machines) -> None:
    disk = machine("trixie")
    with disk.boot(UNANSWERED) as boot:
        wait_for_work(boot)
        boot.run("systemctl", "--no-block", "poweroff")
    assert boot.told() == []
    assert "the system is going down: the next boot decides" in (disk.layer / "var/log/azure-init.log").read_text()
    assert disk.files(MARKER) == []
    with disk.boot() as boot:
        boot.ready()


def test_a_run_that_is_stopped_ends_the_customdata_program_too(machine: Machines) -> None:
    disk = machine("trixie")
    execute = "[azure-init.custom_data]\nexecute = true\n[azure-init.boot]\nhold_logins_secs = 1\n"
    program = 'custom_data = "#!/bin/sh\\ntouch /run/program\\nexec sleep 1000\\n"\n'
    with disk.boot(execute, vm=program, wait=False) as boot:
        boot.until(lambda: boot.run("test", "-e", "/run/program").returncode == 0, "the program runs")
        assert boot.shown("azure-init-custom-data.service", "ActiveState") == "active"
        boot.out("systemctl", "stop", "azure-init.service")
        (verdict,) = boot.verdicts()
        assert verdict.kind == "failed" and "azure-init was stopped" in verdict.description
        assert boot.shown("azure-init-custom-data.service", "ActiveState") == "inactive"
        assert boot.run("pgrep", "-f", "sleep 1000").returncode == 1
    assert disk.files(MARKER) == []


def test_a_masked_run_silences_the_other_units(machine: Machines) -> None:
    disk = machine("trixie")
    disk.change("systemctl mask azure-init.service")
    with disk.boot() as boot:
        assert boot.out("hostname") != disk.name
        boot.run("systemctl", "start", "azure-init-failure.service", "azure-init-resend.service")
        assert [event for event in boot.requests() if event.service != "dhcp"] == []
        assert "azure-init.service is masked" in boot.journal("-u", "azure-init-failure.service")
        assert boot.failed_units() == []
