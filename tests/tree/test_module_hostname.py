"""hostname, fqdn and manage_etc_hosts in file trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.model import Config, Userdata
from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.userdata import read_chosen_name
from azureinit.plan.actions import Declined, work_left
from azureinit.run.modules import Module
from azureinit.run.network_modules import MODULES
from support.module_runs import VM_ID, apply_module, plan_module, request_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

SET, UPDATE, HOSTS = (
    next(module for module in MODULES if module.name == name)
    for name in ("set_hostname", "update_hostname", "update_etc_hosts")
)
HOSTS_FILE = "127.0.0.1\tlocalhost\n127.0.1.1 vm1\n::1 ip6-localhost\n"
COMPATIBLE = Config(userdata=Userdata(cloud_init_compat=True))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text("ID=debian\n")
    (tmp_path / "etc/hostname").write_text("vm1\n")
    (tmp_path / "etc/hosts").write_text(HOSTS_FILE)
    return tmp_path


def planned(root: Path, text: str, module: Module, **fields: object) -> Plan:
    return plan_module(module, Machine(root=str(root)), request_of(text, **fields))


@pytest.mark.parametrize(
    ("release", "text", "name"),
    [
        ("debian", "hostname: web", "web"),
        ("debian", "hostname: web.example.com", "web"),
        ("debian", "fqdn: web.example.com", "web"),
        ("debian", "{hostname: www, fqdn: web.example.com}", "www"),
        ("debian", "{fqdn: web.example.com, prefer_fqdn_over_hostname: true}", "web.example.com"),
        ("rhel", "fqdn: web.example.com", "web.example.com"),
        ("rhel", "{fqdn: web.example.com, prefer_fqdn_over_hostname: false}", "web"),
        ("debian", "{hostname: web, preserve_hostname: true}", "vm1"),
        ("debian", "{hostname: web, create_hostname_file: false}", "web"),  # there is a file
    ],
)
def test_the_name_of_the_host(root: Path, release: str, text: str, name: str) -> None:
    (root / "etc/os-release").write_text(f"ID={release}\n")
    apply_module(SET, root, text)
    assert (root / "etc/hostname").read_text() == f"{name}\n"
    assert not work_left(planned(root, text, SET))
    kept = read_chosen_name(Machine(root=str(root)), Instance(vm_id=VM_ID, data_dir="/var/lib/azure-init"))
    assert kept == (None if name == "vm1" else name)


def test_the_own_line_follows_unless_hosts_is_managed(root: Path) -> None:
    apply_module(SET, root, "{hostname: web, manage_etc_hosts: false}")
    assert (root / "etc/hosts").read_text() == HOSTS_FILE
    apply_module(SET, root, "hostname: web")
    assert "127.0.1.1\tweb\n" in (root / "etc/hosts").read_text()


def test_no_hostname_file_is_made(root: Path) -> None:
    (root / "etc/hostname").unlink()
    apply_module(SET, root, "{hostname: web, create_hostname_file: false}")
    assert not (root / "etc/hostname").exists()


def test_a_name_that_cannot_be_used_is_refused(root: Path) -> None:
    (step,) = work_left(planned(root, "hostname: a_b", SET))
    assert isinstance(step.ways[0], Declined)
    assert step.name == "set_hostname (line 2)"


def test_a_name_that_the_administrator_changed_stays(root: Path) -> None:
    assert not work_left(planned(root, "hostname: web", UPDATE))  # before set_hostname
    apply_module(SET, root, "hostname: web")
    assert work_left(planned(root, "hostname: other", UPDATE))  # the document changed
    (root / "etc/hostname").write_text("mine\n")
    assert not work_left(planned(root, "hostname: web", UPDATE))
    assert not work_left(planned(root, "hostname: other", UPDATE))


# ---- /etc/hosts


def test_the_own_line_of_hosts(root: Path) -> None:
    text = "{fqdn: web.example.com, manage_etc_hosts: localhost}"
    apply_module(HOSTS, root, text)
    expected = "127.0.0.1\tlocalhost\n127.0.1.1\tweb.example.com\tweb\n::1 ip6-localhost\n"
    assert (root / "etc/hosts").read_text() == expected
    assert not work_left(planned(root, text, HOSTS))
    (root / "etc/hosts").unlink()
    apply_module(HOSTS, root, text)
    assert (root / "etc/hosts").read_text() == "127.0.1.1\tweb.example.com\tweb\n"


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("value", ["true", "template"])
def test_the_whole_file(root: Path, value: str) -> None:
    text = f"{{fqdn: web.example.com, manage_etc_hosts: {value}}}"
    apply_module(HOSTS, root, text)
    assert lines((root / "etc/hosts").read_text()) == [
        "127.0.1.1 web.example.com web",
        "127.0.0.1 localhost",
        "::1 localhost ip6-localhost ip6-loopback",
        "ff02::1 ip6-allnodes",
        "ff02::2 ip6-allrouters",
    ]
    assert not work_left(planned(root, text, HOSTS))
    assert not work_left(planned(root, "manage_etc_hosts: false", HOSTS))


TEMPLATE = "## template:jinja\n{# a comment\nof two lines -#}\n# mine\n127.0.1.1 {{fqdn}} {{ hostname }}\n"


def test_a_template_of_cloud_init_is_used_where_compatible(root: Path) -> None:
    (root / "etc/cloud/templates").mkdir(parents=True)
    (root / "etc/cloud/templates/hosts.debian.tmpl").write_text(TEMPLATE)
    text = "{fqdn: web.example.com, manage_etc_hosts: true}"
    apply_module(HOSTS, root, text, settings=COMPATIBLE)
    assert (root / "etc/hosts").read_text() == "# mine\n127.0.1.1 web.example.com web\n"
    apply_module(HOSTS, root, text)
    assert "# mine" not in (root / "etc/hosts").read_text()
    (root / "etc/cloud/templates/hosts.debian.tmpl").write_text(TEMPLATE + "{% if x %}y{% endif %}")
    (step,) = work_left(planned(root, text, HOSTS, settings=COMPATIBLE))
    assert isinstance(step.ways[0], Declined)
