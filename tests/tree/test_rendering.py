"""Templates: rendered in a child process with jinja2's sandbox, limits, and instance data."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from azureinit.config.model import Config, Userdata
from azureinit.facts.image_config import ConfigFile, read_image_config
from azureinit.machine import Machine
from azureinit.record import Secret
from azureinit.run.expand import expand
from azureinit.run.instance_data import make_instance_data, read_instance_data, write_instance_data
from azureinit.run.rendering import render
from azureinit.sources.metadata import Metadata
from azureinit.userdata.document import Document
from azureinit.userdata.expanding import Failed
from azureinit.userdata.node import plain

HEAD = "## template: jinja\n#cloud-config\n"
DATA = {"v1": {"local-hostname": "vm1", "region": "westeurope"}, "ds": {"meta_data": {"a-b": {"c.d": 7}}}}


def made(text: str, *, placeholders: bool = False) -> bytes | Failed:
    return render(Machine(), (HEAD + text).encode(), DATA, placeholders=placeholders)


def expanded(text: str, settings: Config | None = None, below: tuple[ConfigFile, ...] = ()) -> Document:
    machine = Machine()
    data = make_instance_data(
        machine, Metadata(hostname="vm1"), vm_id="0-1", userdata=Secret(b"S3cret"), imds={"compute": {"tags": "a:b"}}
    )
    deadline = machine.clock.monotonic() + 60
    return expand(
        machine,
        text.encode(),
        settings or Config(),
        instance_data=data,
        deadline=deadline,
        fetch=False,
        below=below,
    )


def test_variables_have_cloud_init_s_names() -> None:
    text = "a: {{ v1.local_hostname }} {{ local_hostname }} {{ region }} {{ ds.meta_data.a_b.c_d }}\n"
    assert made(text + "b: {{ v1['local-hostname'] }}\n") == (
        b"#cloud-config\na: vm1 vm1 westeurope 7\nb: vm1\n"
    )  # fmt: skip


def test_blocks_leave_no_empty_line() -> None:
    assert made("{% if region %}\na: 1\n{% endif %}\nb: 2\n") == b"#cloud-config\na: 1\nb: 2\n"


def test_an_undefined_variable_is_an_error_or_a_placeholder() -> None:
    assert made("\na: {{ nope }}\n") == Failed(why="'nope' is undefined", line=4)
    assert made("a: {{ v1.nope }}\n", placeholders=True) == b"#cloud-config\na: CI_MISSING_JINJA_VAR/nope\n"
    assert made("a: {{ nope | default('b') }}\n") == b"#cloud-config\na: b\n"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: {{ 'S3cret' 'x' }}\n{{ 1 S3cret }}\n", 4, "expected token 'end of print statement'"),
        ("{{ ''.__class__.__mro__ }}\n", 3, "it uses what the sandbox forbids"),
        ("{{ v1.update({'a': 1}) }}\n", 3, "it uses what the sandbox forbids"),
        ("{% include '/etc/passwd' %}\n", 3, "a template cannot load another one"),
        ("{{ 1 / 0 }}\n", 3, "it fails with ZeroDivisionError"),
        ("{{ 'x' * 1000000000 }}\n", 2, "it needs more than 256 MiB of memory"),
        ("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}\n", 2, "it becomes larger than 16 MiB"),
    ],
)
def test_what_a_template_must_not_do_is_told_with_its_line(text: str, line: int, why: str) -> None:
    assert made(text) == Failed(why=why, line=line)


def test_a_rendered_document_is_checked_and_merged() -> None:
    document = expanded(HEAD + "hostname: {{ local_hostname }}-a\nruncmd: ['{{ ds.meta_data.imds.compute.tags }}']\n")
    assert document.findings == () and plain(document.config) == {"hostname": "vm1-a", "runcmd": ["a:b"]}
    wrong = expanded(HEAD + "{% set a = 1 %}\nruncm: [a]\n")
    assert [(one.line, one.part, one.message) for one in wrong.errors] == [
        (2, "template, rendered", "unknown key runcm")
    ]  # fmt: skip


def test_a_mistake_in_the_template_names_the_line_of_the_template() -> None:
    (found,) = expanded("\n" + HEAD + "\nhostname: {{ nope }}\n").errors
    assert (found.line, found.part) == (5, "") and found.message == (
        "the template cannot be rendered: 'nope' is undefined"
    )


def test_a_template_that_becomes_something_else_is_refused() -> None:
    (found,) = expanded("## template: jinja\n#cloud-config{{ '-archive' }}\n- a\n").errors
    assert found.message == "the rendered template is no cloud-config, script or boothook"
    (found,) = expanded("## template: jinja\n#{{ '' }}!/bin/sh\n").errors
    assert "does not say what it becomes" in found.message


def test_later_stages_use_what_the_first_one_rendered(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path))
    data = make_instance_data(machine, Metadata(hostname="vm1"), vm_id="0-1")
    text = f"{HEAD}hostname: {{{{ local_hostname }}}}\n".encode()
    deadline = machine.clock.monotonic() + 60

    def later() -> Document:
        return expand(machine, text, Config(), directory="/d", deadline=deadline, fetch=False, earlier_only=True)

    (found,) = later().errors
    assert found.message == "the template cannot be rendered: the network stage did not render it"
    expand(machine, text, Config(), directory="/d", deadline=deadline, fetch=False, instance_data=data)
    assert plain(later().config) == {"hostname": "vm1"}


def test_what_is_sensitive_needs_a_setting() -> None:
    text = HEAD + "hostname: {{ userdata }}\n"
    assert plain(expanded(text).config) == {"hostname": "redacted for non-root user"}
    sensitive = Config(userdata=Userdata(jinja_sensitive=True))
    assert plain(expanded(text, sensitive).config) == {"hostname": "S3cret"}


def test_where_jinja2_is_missing_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexit 4\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (found,) = expanded(HEAD + "hostname: {{ local_hostname }}\n").errors
    assert "jinja2 is not installed" in found.message and "python3-jinja2" in found.hint


# ---- the image's configuration


SHIPPED = """\
users: [default]
disable_root: true
mount_default_fields: [~, ~, 'auto', 'defaults,nofail,x-systemd.requires=cloud-init.service,_netdev', '0', '2']
resize_rootfs_tmp: /dev
ssh_deletekeys: true
ssh_genkeytypes: ~
syslog_fix_perms: ~
disable_vmware_customization: false
cloud_init_modules: [migrator, [users-groups, always]]
system_info: {distro: rhel, default_user: {name: cloud-user, groups: [adm]}, ssh_svcname: sshd}
"""
LOGGING = """\
_log:
- &base |
  [loggers]
log_cfgs:
- [*base]
output: {all: '| tee -a /var/log/cloud-init-output.log'}
"""


def test_the_files_that_distributions_ship_for_cloud_init_give_no_warning(tmp_path: Path) -> None:
    """They stay when the package takes cloud-init's place, and a warning is exit status 2 of `cloud-init status`."""
    (tmp_path / "etc/cloud/cloud.cfg.d").mkdir(parents=True)
    (tmp_path / "etc/cloud/cloud.cfg").write_text(SHIPPED)
    (tmp_path / "etc/cloud/cloud.cfg.d/05_logging.cfg").write_text(LOGGING)
    compatible = Config(userdata=Userdata(cloud_init_compat=True))
    document = expanded(
        "#cloud-config\n{}\n", compatible, below=read_image_config(Machine(root=str(tmp_path)), compatible)
    )
    assert document.findings == ()
    assert "ssh_genkeytypes" not in plain(document.config), "it has no value"


def test_the_image_s_configuration_lies_below(tmp_path: Path) -> None:
    own, peer = tmp_path / "etc/azure-init/userdata.d", tmp_path / "etc/cloud/cloud.cfg.d"
    own.mkdir(parents=True)
    peer.mkdir(parents=True)
    (own / "10.cfg").write_text("hostname: ten\nntp: {enabled: true, servers: [a]}\nlocale: C\n")
    (own / "20.cfg").write_text("#cloud-config\nlocale: en_US.UTF-8\n")
    (own / "30.txt").write_text("not: read\n")
    (tmp_path / "etc/cloud/cloud.cfg").write_text("timezone: UTC\nkeyboard: {layout: de}\nunknown_to_us: 1\n")
    (peer / "90.cfg").write_text("## template: jinja\n#cloud-config\ntimezone: {{ v1.platform | capitalize }}\n")
    machine = Machine(root=str(tmp_path))
    text = "#cloud-config\nhostname: mine\nntp: {servers: [b], pools: [p]}\n"
    files = read_image_config(machine, Config())
    assert plain(expanded(text, below=files).config) == {
        "hostname": "mine",
        "ntp": {"servers": ["b"], "pools": ["p"], "enabled": True},
        "locale": "en_US.UTF-8",
    }
    compatible = Config(userdata=Userdata(cloud_init_compat=True))
    document = expanded(text, compatible, below=read_image_config(machine, compatible))
    assert plain(document.config)["timezone"] == "Azure" and "keyboard" in plain(document.config)
    assert [(one.level, one.part, one.line) for one in document.findings] == [("warning", "/etc/cloud/cloud.cfg", 3)]


def test_an_error_in_the_image_s_configuration_names_the_file(tmp_path: Path) -> None:
    own = tmp_path / "etc/azure-init/userdata.d"
    own.mkdir(parents=True)
    (own / "10.cfg").write_text("hostname: [a\n")
    (own / "20.cfg").write_text("runcm: [a]\n")
    document = expanded("#!/bin/sh\n", below=read_image_config(Machine(root=str(tmp_path)), Config()))
    assert {(one.part, one.message.partition(":")[0]) for one in document.errors} >= {
        ("/etc/azure-init/userdata.d/20.cfg", "unknown key runcm")
    }
    assert "/etc/azure-init/userdata.d/10.cfg" in {one.part for one in document.errors}
    assert document.scripts == ()


# ---- the files in /run


def test_others_get_what_is_not_sensitive(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path))
    data = make_instance_data(machine, Metadata(hostname="vm1"), vm_id="0-1", userdata=Secret(b"S3cret"))
    write_instance_data(machine, data)
    place = tmp_path / "run/azure-init"
    modes = {one.name: one.stat().st_mode & 0o777 for one in (place, *place.iterdir())}
    assert modes == {"azure-init": 0o711, "instance-data.json": 0o644, "instance-data-sensitive.json": 0o600}
    assert b"S3cret" not in (place / "instance-data.json").read_bytes()
    machine.privileged = True
    assert (read_instance_data(machine) or {})["userdata"] == "S3cret"
    machine.privileged = False
    assert (read_instance_data(machine) or {})["userdata"] == "redacted for non-root user"
