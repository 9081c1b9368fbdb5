"""Fixed host names in the files of DHCP clients: only a stale one changes, and nothing else of its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Config
from azureinit.facts.gather import read_facts
from azureinit.facts.hostnames import NameFile, read_host_names, read_name_files
from azureinit.plan.actions import Step
from azureinit.plan.dhcpnames import plan_dhcp_names, with_name, without_name
from azureinit.plan.hostname import plan_hostname
from azureinit.plan.show import as_text
from support.facts import parts
from support.ssh_trees import tree

DHCLIENT = "/etc/dhcp/dhclient.conf"
IFCFG = "/etc/sysconfig/network-scripts/ifcfg-eth0"
WICKED = "/etc/sysconfig/network/dhcp"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('send host-name "old-vm";', 'send host-name "web-1";'),
        (
            '  send   host-name   "localhost.localdomain" ;  # by the image',
            '  send   host-name   "web-1" ;  # by the image',
        ),
        ('send host-name = "old";\r', 'send host-name = "web-1";\r'),
        ("DHCP_HOSTNAME=old", "DHCP_HOSTNAME=web-1"),
        ('DHCP_HOSTNAME="old.example"', 'DHCP_HOSTNAME="web-1"'),
        ("DHCP_HOSTNAME='old' # mine", "DHCP_HOSTNAME='web-1' # mine"),
        ('DHCLIENT_HOSTNAME_OPTION="localhost"', 'DHCLIENT_HOSTNAME_OPTION="web-1"'),
    ],
)
def test_a_stale_name_gives_way_and_the_rest_of_the_line_stays(old: str, new: str) -> None:
    around = "# first\n{}\n\nlast, without an end"
    assert with_name(around.format(old).encode(), b"web-1").decode() == around.format(new)


@pytest.mark.parametrize(
    "line",
    [
        "send host-name = gethostname();",
        'send host-name "<hostname>";',
        'send host-name "web-1";',
        '# send host-name "old";',
        'supersede host-name "old";',
        'send fqdn.fqdn "old";',
        'send host-name "old", fqdn.fqdn "old";',
        'send host-name "old',
        "DHCP_HOSTNAME=web-1",
        "DHCP_HOSTNAME=",
        'DHCP_HOSTNAME="$(hostname)"',
        "#DHCP_HOSTNAME=old",
        "MY_DHCP_HOSTNAME=old",
        'DHCLIENT_HOSTNAME_OPTION="AUTO"',
        "DHCLIENT_HOSTNAME_OPTION='auto'",
        'DHCLIENT_HOSTNAME_OPTION=""',
    ],
)
def test_who_asks_the_host_itself_or_says_nothing_is_left_alone(line: str) -> None:
    assert with_name(line.encode(), b"web-1") == line.encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('  send host-name   "Web-1" ;  # ours', "  send host-name = gethostname() ;  # ours"),
        ('send host-name = "web-1";\r', "send host-name = gethostname();\r"),
        ("DHCP_HOSTNAME=web-1", "DHCP_HOSTNAME="),
        ("DHCP_HOSTNAME='web-1' # mine", "DHCP_HOSTNAME='' # mine"),
        ('DHCLIENT_HOSTNAME_OPTION="web-1"', 'DHCLIENT_HOSTNAME_OPTION="AUTO"'),
        ('send host-name "web-10";', 'send host-name "web-10";'),
        ("DHCP_HOSTNAME=web-1.example", "DHCP_HOSTNAME=web-1.example"),
        ('# send host-name "web-1";', '# send host-name "web-1";'),
    ],
)
def test_a_machine_that_goes_has_the_host_asked_instead_and_others_names_stay(old: str, new: str) -> None:
    assert without_name(f"first\n{old}\n".encode(), b"web-1").decode() == f"first\n{new}\n"
    assert with_name(new.encode(), b"web-2") == new.encode() or "web-1" in new


@given(st.binary(max_size=200))
def test_no_file_is_too_strange_and_twice_is_once(data: bytes) -> None:
    once = with_name(data, b"web-1")
    assert with_name(once, b"web-1") == once
    assert once.count(b"\n") == data.count(b"\n")


def test_files_are_found_where_each_client_has_them(tmp_path: Path) -> None:
    machine = tree(tmp_path, {DHCLIENT: 'send host-name "x";\n', IFCFG: "DHCP_HOSTNAME=x\n", WICKED: "OTHER=1\n"})
    assert [file.path for file in read_name_files(machine)] == [DHCLIENT, IFCFG]
    assert (
        read_name_files(machine)
        == read_facts(machine, Config()).names.name_files
        == read_host_names(machine).name_files
    )


def test_a_file_that_cannot_be_read_has_no_name_for_us(tmp_path: Path) -> None:
    machine = tree(
        tmp_path, {IFCFG: "DHCP_HOSTNAME=old\n", WICKED: b'DHCLIENT_HOSTNAME_OPTION="old"\n' + b"#" * (2 << 20)}
    )
    (tmp_path / "etc/dhcp").symlink_to("/etc/dhcp")  # a link that never arrives
    assert [file.path for file in read_name_files(machine)] == [IFCFG]


def test_the_plan_shows_the_line_and_is_empty_the_second_time(tmp_path: Path) -> None:
    text = 'option rfc3442 code 121;\nsend host-name "old-vm";\nrequest routers;\n'
    machine = tree(tmp_path, {DHCLIENT: text})
    plan = plan_hostname(hostname="web-1", **parts(read_facts(machine, Config()), "host", "names"), config=Config())
    (step,) = [item for item in plan if item.name == "DHCP host name"]
    assert isinstance(step, Step)
    shown = as_text((step,), privileged=True)
    assert f"{DHCLIENT} makes the DHCP client send another name" in shown
    assert '-send host-name "old-vm";' in shown and '+send host-name "web-1";' in shown
    machine.write(DHCLIENT, with_name(text.encode(), b"web-1"))
    again = plan_hostname(hostname="web-1", **parts(read_facts(machine, Config()), "host", "names"), config=Config())
    assert "DHCP host name" not in [item.name for item in again]


@pytest.mark.parametrize(
    "name", ["localhost", "LOCALHOST", "localhost.localdomain", "localhost6.localdomain6", "(none)"]
)
def test_everybodys_name_is_written_nowhere(name: str) -> None:
    assert plan_dhcp_names(hostname=name, files=(NameFile(path=DHCLIENT, data=b'send host-name "x";'),)) == ()
