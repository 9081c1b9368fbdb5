"""Scenario files: their settings, and the report of all mistakes with their lines."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from fakeazure import Disk, Expect, Imds, Interface, Key, Media, Vm, Wireserver
from fakeazure.platform.clock import Clock
from fakeazure.platform.faults import WORDS
from fakeazure.platform.vm import Leases
from fakeazure.scenarios.catalogue import template
from fakeazure.scenarios.spec import KNOWN, SpecInvalid, parse_scenario, read_scenario
from fakeazure.scenarios.toml_lines import key_lines

AMOUNT_OR_DATE = "an amount such as -3 years or +10m nor a date such as 2001-02-03"
TEMPLATE = template()

SECTIONS = [*KNOWN, "description", "faults", "azure-init"]
NOTHING_RIGHT = [
    "s.toml:1: faults[0]: has no path",
    f"s.toml:2: faults[0].answers[0]: 'slow' is not an answer; an answer is one of {WORDS}",
]


def problems(text: str) -> list[str]:
    with pytest.raises(SpecInvalid) as caught:
        parse_scenario(text.encode(), name="s.toml")
    return caught.value.problems


def test_an_empty_file_is_a_machine() -> None:
    scenario = parse_scenario(b"", name="s.toml")
    vm = scenario.vm
    assert (vm.username, vm.name, len(vm.keys)) == ("azureuser", "fake-vm", 1)
    assert (scenario.media, scenario.imds, scenario.faults, scenario.expect) == (Media(), Imds(), (), None)


def test_everything_can_be_said() -> None:
    scenario = parse_scenario(
        b"""
description = "everything"
[vm]
id = "52D3A29B-C2E6-43DB-9BFF-BB2FF1BFD7E2"
name = "web"
username = "-rf"
password = "p"
generation = 1
temporary_disk = "nvme"
temporary_disk_gb = 110
tags = { a = "b" }
[[vm.keys]]
data = "ssh-rsa A"
path = "/k"
[[vm.keys]]
data = "ssh-rsa B"
[[vm.interfaces]]
mac = "00:0D:3A:12:34:56"
address = "10.1.0.9"
prefix = 16
public_address = "20.50.1.2"
[[vm.interfaces]]
[[vm.disks]]
lun = 3
size_gb = 32
name = "logs"
caching = "ReadOnly"
[[vm.disks]]
[media]
format = "bridge"
prefixes = "ns1"
hostname = "other"
texts = { PreprovisionedVm = "" }
omit = ["UserName"]
bom = true
late_secs = 2
eject = false
[imds]
protected = true
proxy_agent = "fails"
rate_limit = 5
latency_secs = 0.5
bytes_per_sec = 1000
api_versions = ["2019-06-01"]
remove = ["compute.publicKeys"]
[imds.set.compute.osProfile]
computerName = ""
[wireserver]
enable = false
address = "10.7.7.7"
goal_state_after_secs = 0.5
latency_secs = 2
bytes_per_sec = 100
[dhcp]
omit = [121, 249]
wireserver = "0.0.0.0"
[clock]
offset = 2001-02-03
[azure-init.imds]
retry_interval_secs = 0.1
[[faults]]
path = "/machine/?comp=goalstate"
answers = [503, "ok*"]
[[faults]]
path = "/metadata/instance/"
answers = [503, {status = 429, retry_after = 1}, "ok*"]
[expect]
verdict = "failure"
reason = "bad name"
says = ["-rf"]
asks = ["/metadata/instance"]
within_secs = 5
""",
        name="s.toml",
    )
    assert scenario.vm == Vm(
        id="52d3a29b-c2e6-43db-9bff-bb2ff1bfd7e2", name="web", username="-rf", password="p", generation=1,
        tags={"a": "b"}, keys=(Key("ssh-rsa A", "/k"), Key("ssh-rsa B")),
        nics=(
            Interface(mac="00:0d:3a:12:34:56", address="10.1.0.9", prefix=16, public_address="20.50.1.2"), Interface()
        ),
        disks=(Disk(lun=3, size_gb=32, name="logs", caching="ReadOnly"), Disk(lun=1)),
        temporary_disk="nvme", temporary_disk_gb=110,
    )  # fmt: skip
    assert scenario.media == Media(
        format="bridge", prefixes="ns1", hostname="other", texts={"PreprovisionedVm": ""}, omit=("UserName",), bom=True,
        late_secs=2, eject=False,
    )  # fmt: skip
    assert (scenario.imds.protected, scenario.imds.proxy_agent, scenario.imds.rate_limit) == (True, "fails", 5)
    assert scenario.imds.set == {"compute": {"osProfile": {"computerName": ""}}}
    assert (scenario.imds.latency_secs, scenario.imds.bytes_per_sec) == (0.5, 1000)
    assert scenario.own_keys and scenario.wireserver == Wireserver(
        enable=False, address="10.7.7.7", goal_state_after_secs=0.5, latency_secs=2, bytes_per_sec=100
    )
    assert scenario.dhcp == Leases(omit=(121, 249), wireserver="0.0.0.0")
    assert scenario.clock == Clock(at=datetime(2001, 2, 3, tzinfo=UTC))
    assert scenario.description == "everything" and scenario.azure_init == {"imds": {"retry_interval_secs": 0.1}}
    paths = [(script.path, len(script.answers)) for script in scenario.faults]
    assert paths == [("/machine?comp=goalstate", 2), ("/metadata/instance", 3)]
    assert scenario.expect == Expect(
        verdict="failure", reason="bad name", says=("-rf",), asks=("/metadata/instance",), within_secs=5
    )


def test_keys_may_be_plain_strings() -> None:
    assert parse_scenario(b'[vm]\nkeys = ["ssh-rsa A", {data = "B"}]', name="s").vm.keys == ("ssh-rsa A", Key("B"))
    assert parse_scenario(b'[vm]\nkeys = [{}, {path = "/k"}]', name="s").vm.keys == (Key(""), Key("", "/k"))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("121", "is not a list of numbers"),
        ("[255]", "255 is not a number from 1 to 254"),
        ('["a"]', "'a' is not a number"),
    ],
)
def test_an_option_to_leave_out_is_a_number(said: str, why: str) -> None:
    assert why in problems(f"[dhcp]\nomit = {said}\n")[0]


def test_all_mistakes_are_told_at_once_in_the_files_order() -> None:
    assert problems("""\
[vm]
nmae = "x"
id = "seven"
password = 7

generation = 3
keys = [
  "ssh-rsa A",
  7,
]
specialised = "no"
temporary_disk = "floppy"
[[vm.interfaces]]
address = "10.0.0.4"
[[vm.interfaces]]
mac = "00:0d:3a"
adress = "x"
address = "10.0.0.4"
prefix = 31
[[vm.disks]]
lun = 1
[[vm.disks]]
size_gb = 0
[[vm.disks]]
caching = "none"
lun = 64
[clock]
offset = "yesterday"
[media]
format = "floppy"
[imds]
api_versions = ["newest"]
[[faults]]
path = "/a"
answers = [503, "maybe", true]
[[faults]]
path = "metadata"
answers = [99]
[[faults]]
path = "/b"
wait = 3
[[faults]]
path = "/c"
answers = ["ok*", 503]
[[faults]]
path = "/d"
answers = "ok"
[expect]
verdict = "perhaps"
within_secs = -1
[kitchen]
sink = true
""") == [
        "s.toml:2: vm.nmae: is not known; did you mean name?",
        "s.toml:3: vm.id: 'seven' is not a UUID",
        "s.toml:4: vm.password: is not a string",
        "s.toml:6: vm.generation: 3 is not one of 1, 2",
        "s.toml:7: vm.keys: a key is a string, or a table of data and path",
        "s.toml:11: vm.specialised: is neither true nor false",
        "s.toml:12: vm.temporary_disk: 'floppy' is not one of scsi, nvme, none",
        "s.toml:16: vm.interfaces[1].mac: '00:0d:3a' is not a MAC address such as 00:0d:3a:12:34:56",
        "s.toml:17: vm.interfaces[1].adress: is not known; did you mean address?",
        "s.toml:18: vm.interfaces[1].address: 10.0.0.4 is used already",
        "s.toml:19: vm.interfaces[1].prefix: 31 is not a number from 1 to 30",
        "s.toml:22: vm.disks[1].lun: 1 is used already",
        "s.toml:23: vm.disks[1].size_gb: 0 is not a number from 1 to 65536",
        "s.toml:25: vm.disks[2].caching: 'none' is not one of None, ReadOnly, ReadWrite",
        "s.toml:26: vm.disks[2].lun: 64 is not a number from 0 to 63",
        f"s.toml:28: clock.offset: 'yesterday' is neither {AMOUNT_OR_DATE}",
        "s.toml:30: media.format: 'floppy' is not one of udf, iso, bridge",
        "s.toml:32: imds.api_versions: 'newest' is not a version such as 2023-11-15",
        f"s.toml:35: faults[0].answers[1]: 'maybe' is not an answer; an answer is one of {WORDS}",
        f"s.toml:35: faults[0].answers[2]: True is not an answer; an answer is one of {WORDS}",
        "s.toml:37: faults[1].path: path 'metadata' does not begin with a slash",
        "s.toml:38: faults[1].answers[0]: 99 is not an HTTP status from 200 to 599",
        "s.toml:39: faults[2]: has no answers",
        "s.toml:41: faults[2].wait: is not known; known: path, answers",
        "s.toml:44: faults[3].answers: 'ok*' repeats for ever, so nothing can follow it",
        "s.toml:47: faults[4].answers: is not a list",
        "s.toml:49: expect.verdict: 'perhaps' is not one of ready, failure, none, either",
        "s.toml:50: expect.within_secs: -1 is not a number of seconds between 0 and 86400",
        f"s.toml:51: kitchen: is not known; known: {', '.join(SECTIONS)}",
    ]


def test_an_address_is_taken_even_if_nobody_wrote_it() -> None:
    text = '[[vm.interfaces]]\naddress = "10.0.0.5"\n[[vm.interfaces]]\n'
    assert problems(text) == ["s.toml:3: vm.interfaces[1].address: 10.0.0.5 is used already"]


PARTS = "At least 3 parts expected"
BROKEN = "Expecting property name enclosed in double quotes"


def test_interfaces_and_changes_are_checked_as_a_whole() -> None:
    assert problems("""
[[vm.interfaces]]
primary = true
secondary = ["10.0.0.5", "10.0.1.5", "10.0.0.4"]
[[vm.interfaces]]
address = "10.0.0.9"
primary = true
secondary = ["10.0.0.5", "10.0.0.6", "10.0.0.6"]
ipv6 = ["10.0.0.7"]
[imds]
nic_order = "by name"
secondary = ["10.0.0.5"]
set_json = "[]"
[[imds.changes]]
listed = [0]
[[imds.changes]]
name = "broken"
set_json = "{"
after = 3
""") == [
        "s.toml:2: vm.interfaces[0]: its secondary address 10.0.0.4 is used already",
        "s.toml:2: vm.interfaces[0]: its secondary address 10.0.1.5 is not in its subnet 10.0.0.0/24",
        "s.toml:5: vm.interfaces[1]: is the second one with primary = true",
        "s.toml:5: vm.interfaces[1]: its secondary address 10.0.0.5 is used already",
        "s.toml:5: vm.interfaces[1]: its secondary address 10.0.0.6 is used already",
        f"s.toml:9: vm.interfaces[1].ipv6: is not a list of IPv6 addresses such as fd00:1::4: {PARTS} in '10.0.0.7'",
        "s.toml:11: imds.nic_order: 'by name' is not one of listed, reversed, random",
        's.toml:12: imds.secondary: is not a list of lists, one for each interface, as in [["10.0.0.5"], []]',
        "s.toml:13: imds.set_json: is not a JSON object",
        "s.toml:14: imds.changes[0]: never happens: give it after_requests, after_ready = true or a name",
        f"s.toml:18: imds.changes[1].set_json: is not JSON: {BROKEN}: line 1 column 2 (char 1)",
        "s.toml:19: imds.changes[1].after: is not known; did you mean after_ready?",
    ]


def test_two_scripts_for_one_path_are_one_too_many() -> None:
    text = '[[faults]]\npath="/a"\nanswers=["ok"]\n[[faults]]\npath="/a/"\nanswers=["ok"]\n'
    assert problems(text) == ["s.toml:5: faults[1].path: /a has a script already"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("vm = 3", ["s.toml:1: vm: is not a table: write [vm]"]),
        ("description = 3", ["s.toml:1: description: is not a line of text"]),
        ('description = "a\\nb"', ["s.toml:1: description: is not a line of text"]),
        ("azure-init = 3", ["s.toml:1: azure-init: is not a table: write [azure-init]"]),
        ("[azure-init]\nimds = 3", ["s.toml:2: azure-init.imds: is not a table of azure-init's configuration"]),
        ("[imds]\nrate_limit = -1", ["s.toml:2: imds.rate_limit: -1 is not a number from 0 to 10000"]),
        ("[imds]\nproxy_agent = true", ["s.toml:2: imds.proxy_agent: True is not one of ready, fails, absent"]),
        ("[media]\nlate_secs = 'x'", ["s.toml:2: media.late_secs: 'x' is not a number of seconds between 0 and 86400"]),
        ("[media]\ntexts = { a = 1 }", ["s.toml:2: media.texts: is not a table of strings"]),
        ("[clock]\noffset = 3", ["s.toml:2: clock.offset: is not a string"]),
        ("[clock]\noffset = 12:00:00", ["s.toml:2: clock.offset: is not a string"]),
        ("[vm]\ndisks = [3]", ["s.toml:2: vm.disks: is not a list of tables: write [[vm.disks]]"]),
        ("[vm]\ninterfaces = 'x'", ["s.toml:2: vm.interfaces: is not a list of tables: write [[vm.interfaces]]"]),
        (
            "[[vm.interfaces]]\naddress = '10.0.0.400'",
            ["s.toml:2: vm.interfaces[0].address: '10.0.0.400' is not an IPv4 address such as 10.0.0.4"],
        ),
        ("[clock]\n[[media]]\neject = true", ["s.toml:2: media: is not a table: write [media]"]),
        ("[vm]\n[[flaws]]\nx = 1", [f"s.toml:2: flaws: is not known; known: {', '.join(SECTIONS)}"]),
        ("[[faults]]\nanswers = ['slow']", NOTHING_RIGHT),
        ("faults = 3", ["s.toml:1: faults: is not a list: write [[faults]]"]),
        ("faults = [3]", ["s.toml:1: faults[0]: is not a table of path and answers"]),
        ("[vm]\nname =\n", ["s.toml:2: Invalid value (column 7)"]),
        ("[vm]\nname = '''x", ["s.toml:2: Expected \"'''\" at the end of the file"]),
    ],
)
def test_broken_shapes_are_told(text: str, told: list[str]) -> None:
    assert problems(text) == told


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(SpecInvalid, match="not UTF-8"):
        parse_scenario(b"\xff\xfe", name="s.toml")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecInvalid, match="No such file"):
        read_scenario(tmp_path / "none.toml")


@given(text=st.text(st.sampled_from("[]{}=.\"'\n \\#afv1*"), max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        parse_scenario(text.encode(), name="s.toml")
    except SpecInvalid as error:
        assert all(re.match(r"s\.toml:\d+: ", problem) for problem in error.problems)


def test_lines_are_found_through_every_kind_of_statement() -> None:
    text = '# c\na.b = 1\n[t]\nm = """\n[no]\n"""\nlist = [\n 1,\n]\n[[t.x]]\ny = 1\n[[t.x]]\ny = 1\n[t.x.z]\nw = 1\n'
    lines = key_lines(text)
    assert lines["a", "b"] == 2 and lines[("t",)] == 3 and lines["t", "m"] == 4 and lines["t", "list"] == 7
    assert lines["t", "x", 0, "y"] == 11 and lines["t", "x", 1, "y"] == 13 and lines["t", "x", 1, "z", "w"] == 15


def test_the_template_is_a_scenario_and_names_every_setting() -> None:
    assert parse_scenario(TEMPLATE.encode(), name="template").expect is None
    for section, options in KNOWN.items():
        assert f"[{section}]" in TEMPLATE
        for option in options:
            assert re.search(rf"^# {option} = |^# \[\[{section}\.{option}\]\]", TEMPLATE, re.MULTILINE), option


def test_the_templates_examples_are_valid_settings() -> None:
    text = re.sub(r"^# (\w+ = |\[\[faults|\[\[imds|\[\[vm\.[id])", r"\1", TEMPLATE, flags=re.MULTILINE)
    text = re.sub(r"^# \[\[vm\.keys\]\]\ndata.*\npath.*\n", "", text, flags=re.MULTILINE)
    scenario = parse_scenario(text.encode(), name="template")
    assert scenario.faults and scenario.expect and scenario.vm.password and scenario.imds.changes
