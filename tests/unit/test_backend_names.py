"""Backends: the names in the configuration and in the dicts are the same; service managers are rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from azureinit.backends import account, hostname, password
from azureinit.backends.service import MANAGERS, reload_unit, start_unit, stop_unit
from azureinit.config.model import Config, Ssh as SshSettings, checked
from azureinit.errors import ConfigInvalid
from azureinit.facts.gather import read_facts
from azureinit.facts.host import OPENRC, SYSTEMD, Host, read_host
from azureinit.machine import Machine
from azureinit.plan.actions import Run, Step
from azureinit.plan.sshd import plan_sshd
from azureinit.record import replace
from support.facts import parts
from support.ssh_trees import DEBIAN, facts_of, running, tree

TABLES: dict[str, tuple[Mapping[str, object], ...]] = {
    "HostnameBackends": (hostname.SET,),
    "UserBackends": (account.CREATE, account.ADD_GROUPS),
    "PasswordBackends": (password.SET,),
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_backend_can_be_configured_and_every_configured_one_exists(kind: str) -> None:
    from azureinit.config import model

    (names,) = [table[kind] for table in vars(model).values() if isinstance(table, dict) and kind in table]
    for table in TABLES[kind]:
        assert set(table) == set(names)
    assert checked(kind, tuple(names), default=()) == tuple(names)
    with pytest.raises(ConfigInvalid, match="but holds the string"):
        checked(kind, ("no such backend",), default=())


def test_every_table_of_backend_names_is_compared() -> None:
    from azureinit.config import model

    kinds = {kind for table in vars(model).values() if isinstance(table, dict) for kind in table}
    assert {kind for kind in kinds if str(kind).endswith("Backends")} == set(TABLES)


def host_of(tmp_path: Path, init: str, *tools: str) -> Host:
    return replace(read_host(Machine(root=str(tmp_path))), root="", rooted=False, init=init, tools=frozenset(tools))


def test_each_service_manager_has_its_own_commands(tmp_path: Path) -> None:
    assert start_unit("a.service", wait=True).argv == ("systemctl", "start", "a.service")
    assert start_unit("a.service", wait=False).argv == ("systemctl", "--no-block", "start", "a.service")
    assert start_unit("a", wait=True, init=OPENRC).argv == ("rc-service", "a", "start")
    assert stop_unit("a.service").actions == (Run(argv=("systemctl", "stop", "a.service")),)
    reload = reload_unit("ssh.service", host_of(tmp_path, SYSTEMD, "systemctl"))
    assert reload == Run(argv=("systemctl", "--no-block", "try-reload-or-restart", "ssh.service"), changes=False)
    reload = reload_unit("sshd", host_of(tmp_path, OPENRC, "rc-service"))
    assert reload == Run(argv=("rc-service", "--ifstarted", "sshd", "reload"), changes=False)
    assert set(MANAGERS) == {SYSTEMD, OPENRC}


@pytest.mark.parametrize(
    ("unit", "init", "tools"),
    [
        (None, SYSTEMD, ("systemctl",)),
        ("ssh.service", "", ("systemctl",)),
        ("ssh.service", SYSTEMD, ()),
        ("sshd", OPENRC, ("systemctl",)),
    ],
)
def test_nothing_is_reloaded_where_no_service_manager_can_be_asked(
    tmp_path: Path, unit: str | None, init: str, tools: tuple[str, ...]
) -> None:
    assert reload_unit(unit, host_of(tmp_path, init, *tools)) is None


def test_openrc_is_asked_to_reload_a_running_sshd(tmp_path: Path) -> None:
    facts = facts_of(tree(tmp_path, {"/etc/ssh/sshd_config": DEBIAN, "/etc/ssh/sshd_config.d/x.conf": ""}))
    here = running(facts, running=True, unit="sshd", privsep_dir=True)
    here = replace(here, host=replace(here.host, init=OPENRC, tools=frozenset(("rc-service",))))
    (step,) = plan_sshd(allow_password=False, **parts(here, "host", "ssh"), config=Config())
    assert isinstance(step, Step)
    (way,) = step.ways
    assert way.actions[-1].argv == ("rc-service", "--ifstarted", "sshd", "reload")  # type: ignore[union-attr]


def test_a_running_openrc_is_found_with_its_service_of_sshd(tmp_path: Path) -> None:
    files = {
        "/etc/ssh/sshd_config": "",
        "/etc/init.d/sshd": "",
        "/run/openrc/softlevel": "default\n",
        "/run/sshd.pid": "12\n",
        "/proc/12/comm": "sshd\n",
        "/bin/rc-service": "#!/bin/sh\n",
    }
    tree(tmp_path, files)
    (tmp_path / "bin/rc-service").chmod(0o755)

    class Running(Machine):
        """The tree as if it were the running system."""

        rooted = property(lambda _self: False)

    machine = Running(root=str(tmp_path), kernel=str(tmp_path), environ={"PATH": str(tmp_path / "bin")})
    quiet = Config(ssh=SshSettings(query_sshd_config=False))
    facts = read_facts(machine, quiet, ("host", "ssh"))
    assert (facts.host.init, facts.host.systemd) == (OPENRC, False)
    assert facts.ssh.running and facts.ssh.unit == "sshd"
