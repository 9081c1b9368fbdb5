"""An installed agent whose modules cannot be loaded still reports a failure."""

from __future__ import annotations

import pytest

from support.installed import Machines

pytestmark = pytest.mark.newer

DAMAGE = """
cd /usr/lib/azure-init
rm boot.*
find azureinit -name __pycache__ -exec rm -r {} +
"""
TORN = "for f in azureinit/*.py; do head -c 100 $f > x; cat x > $f; done; rm x"
ZEROS = "for f in azureinit/errors.py azureinit/record.py; do truncate -s 0 $f; truncate -s 4096 $f; done"


ONE = "printf 'class (' > azureinit/run/deliver.py"  # loaded when the rest is done


@pytest.mark.parametrize("damage", [TORN, ZEROS, "rm -r azureinit", ONE], ids=["torn", "zeros", "missing", "one"])
def test_an_agent_that_cannot_be_loaded_is_told_as_a_failure(machine: Machines, damage: str) -> None:
    disk = machine("trixie")
    disk.change(DAMAGE + damage)
    with disk.boot() as boot:
        boot.until(boot.told, "a verdict is told")
        (told,) = boot.verdicts()
        assert told.kind == "failed" and "reason=azure-init cannot be loaded|" in told.description
        assert boot.out("systemctl", "is-failed", "azure-init.service") == "failed"
        assert "Traceback" not in boot.journal("-b")


def test_a_provisioned_machine_whose_agent_breaks_tells_nothing(machine: Machines) -> None:
    disk = machine("trixie")
    with disk.boot() as boot:
        boot.ready()
        assert boot.ended() == "success 0"
    disk.change(DAMAGE + TORN)
    with disk.boot() as boot:
        boot.until(lambda: boot.moment("azure-init-failure.service", "ExecMainExit"), "the failure unit has run")
        assert boot.verdicts() == []
