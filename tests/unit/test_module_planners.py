"""Planners of modules that write system files: no document that validation accepts makes one raise."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.config.model import Config
from azureinit.facts.distros import ROWS
from azureinit.facts.host import Host
from azureinit.facts.hostnames import HostNames
from azureinit.facts.system_files import SystemFiles, Target
from azureinit.modules import ca_certs, etc_hosts, hostname, keyboard, locale, ntp, rsyslog, seed_random, timezone
from azureinit.modules.request import Request
from azureinit.modules.steps import normal_path
from azureinit.modules.write_files import looked_at, plan_write_files
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.record import Secret
from azureinit.sources.metadata import Metadata
from azureinit.userdata.document import read_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from azureinit.plan.actions import Plan

VALUES = st.sampled_from(
    ["x", "''", "true", "'yes'", "/a", "[]", "[a]", "[a, b]", "{}", "0644", "'0644'", "12", "!!binary aGVsbG8=", "null",
     "localhost", "auto", "de_DE.UTF-8", "Europe/Berlin", "a.b.c", "'@h:1'", "b64", "gz", "{a: b}", "[{content: c}]",
     "[{path: /p, content: c}]", "'\\n'", "\"\\x07\"", "'ä'", "false", "2020-01-01"]
)  # fmt: skip
FIELDS = {
    "write_files": "path content owner permissions encoding append defer source",
    "random_seed": "file data encoding command command_required",
    "ca_certs": "trusted remove_defaults",
    "rsyslog": "config_dir config_filename configs remotes service_reload_command install_rsyslog check_exe",
    "keyboard": "layout model variant options",
    "ntp": "enabled ntp_client pools servers peers allow config",
}
REQUIRED = {"write_files": "path", "keyboard": "layout"}
PLAIN = ("hostname", "fqdn", "manage_etc_hosts", "preserve_hostname", "locale", "locale_configfile", "timezone",
         "prefer_fqdn_over_hostname", "create_hostname_file")  # fmt: skip


class Any(dict[str, Target]):
    """Every file is there, or none."""

    def __init__(self, content: bytes | None) -> None:
        super().__init__()
        self.content = content

    def __missing__(self, path: str) -> Target:
        return Target(path=path, content=None if self.content is None else Secret(self.content), mode=0o644)

    def get(self, path: str, default: object = None) -> Target:
        return self[path]

    def __contains__(self, _path: object) -> bool:
        return True


def facts(release: str, content: bytes | None, tools: frozenset[str]) -> SystemFiles:
    host = Host(
        root="", rooted=False, privileged=True, distro=ROWS[release], tools=tools, init="systemd", selinux=False
    )
    files: Mapping[str, Target] = Any(content)
    return SystemFiles(host=host, files=files, tools=tools)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """One key each: with several, most documents would have an error, and nothing of them would be planned."""
    key = draw(st.sampled_from([*FIELDS, *PLAIN]))
    if key in PLAIN:
        return f"#cloud-config\n{key}: {draw(VALUES)}\n"
    chosen = draw(st.lists(st.sampled_from(FIELDS[key].split()), unique=True, max_size=3))
    chosen = [REQUIRED[key], *(name for name in chosen if name != REQUIRED[key])] if key in REQUIRED else chosen
    inner = "{" + ", ".join(f"{name}: {draw(VALUES)}" for name in chosen) + "}"
    return f"#cloud-config\n{key}: " + (f"[{inner}]\n" if key == "write_files" else f"{inner}\n")


def plans(request: Request, found: SystemFiles) -> Iterator[Plan]:
    names = HostNames(kernel="vm1", hostname_file=b"vm1\n", hosts_file=b"127.0.0.1 localhost\n")
    looked_at(request, deferred=False)
    yield plan_write_files(request, found)
    yield seed_random.plan_seed_random(request, found)
    yield ca_certs.plan_ca_certs(request, found)
    yield rsyslog.plan_rsyslog(request, found)
    yield hostname.plan_set_hostname(request, (found, names))
    yield hostname.plan_update_hostname(request, (found, names))
    yield etc_hosts.plan_etc_hosts(request, found)
    yield locale.plan_locale(request, found)
    yield timezone.plan_timezone(request, found)
    yield keyboard.plan_keyboard(request, found)
    yield ntp.plan_ntp(request, found)


@settings(max_examples=60, deadline=None)
@given(documents(), st.sampled_from(sorted(ROWS)), st.sampled_from([None, b"", b"LANG=C\n\xff"]), st.booleans())
def test_no_planner_raises(text: str, release: str, content: bytes | None, rooted: bool) -> None:
    document = read_document(text.encode())
    request = Request(
        config=document.config,
        settings=Config(),
        metadata=Metadata(hostname="vm1"),
        vm_id="id",
        directory="/var/lib/azure-init/id.d",
        rooted=rooted,
    )
    for tools in (frozenset[str](), frozenset({"chronyd", "locale-gen", "localectl", "update-ca-certificates"})):
        for plan in plans(request, facts(release, content, tools)):
            assert all(isinstance(item, (Step, Satisfied, Caution)) for item in plan)
            assert all("line " in item.name for item in plan)


@pytest.mark.parametrize(
    ("path", "normal"), [("/a//b/./c/", "/a/b/c"), ("/a/../../b", "/b"), ("/..", "/"), ("/a/..b", "/a/..b")]
)
def test_paths_are_made_normal(path: str, normal: str) -> None:
    assert normal_path(path) == normal


def test_hosts_lines_have_both_names_in_every_row() -> None:
    for row, name in product(ROWS.values(), ("fqdn", "hostname")):
        assert f"{{{name}}}" in row.hosts
