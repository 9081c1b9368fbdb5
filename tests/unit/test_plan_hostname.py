"""The plan for the host name: when nothing is to do, the backends, and /etc/hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Config, HostnameProvisioners
from azureinit.errors import HostnameFailed, InvalidHostname
from azureinit.facts.distros import ROWS
from azureinit.facts.gather import Facts, read_facts
from azureinit.machine import Machine
from azureinit.plan.actions import Declined, Run, Satisfied, SetHostname, Step, Way, Write
from azureinit.plan.hostname import hosts_with, plan_hostname
from support.facts import altered, parts
from support.trees import make_tree

CONFIG = Config()
LOOPBACK = "127.0.0.1\tlocalhost\n"


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return read_facts(Machine(root=str(make_tree(tmp_path))), CONFIG)


def running(facts: Facts, **changes: object) -> Facts:
    """The same machine, as if it were the running one."""
    return altered(facts, **{"rooted": False, "root": "", "privileged": True, "kernel": "old", **changes})


def step(plan: tuple[object, ...], name: str = "hostname") -> Step:
    (found,) = [item for item in plan if isinstance(item, Step) and item.name == name]
    return found


# ---- /etc/hosts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "127.0.0.1\tlocalhost\n127.0.1.1\tweb-1\n"),
        ("\n", "\n127.0.1.1\tweb-1\n"),
        (LOOPBACK, LOOPBACK + "127.0.1.1\tweb-1\n"),
        ("127.0.0.1 localhost", "127.0.0.1 localhost\n127.0.1.1\tweb-1\n"),
        ("# head\n", "# head\n127.0.1.1\tweb-1\n"),
        ("# head", "# head\n127.0.1.1\tweb-1\n"),
        (LOOPBACK + "::1 localhost\n", LOOPBACK + "127.0.1.1\tweb-1\n::1 localhost\n"),
        (LOOPBACK + "127.0.1.1 old\n::1 x\n", LOOPBACK + "127.0.1.1\tweb-1\n::1 x\n"),
        (LOOPBACK + "127.0.1.1 old", LOOPBACK + "127.0.1.1\tweb-1\n"),
        ("127.0.1.1 old # image\n", "127.0.1.1\tweb-1 # image\n"),
        ("  127.0.1.1\t old.example old\n", "127.0.1.1\tweb-1\n"),
        # Several: the first is the host's, the others are somebody's.
        ("127.0.1.1 old\n127.0.1.1 api\n", "127.0.1.1\tweb-1\n127.0.1.1 api\n"),
        # Only the address itself counts.
        (LOOPBACK + "# 127.0.1.1 old\n", LOOPBACK + "127.0.1.1\tweb-1\n# 127.0.1.1 old\n"),
        (LOOPBACK + "127.0.1.10 x\n", LOOPBACK + "127.0.1.1\tweb-1\n127.0.1.10 x\n"),
        (LOOPBACK + "10.0.0.1 web-1\n", LOOPBACK + "127.0.1.1\tweb-1\n10.0.0.1 web-1\n"),
        # Carriage returns are kept where they are.
        ("127.0.0.1 localhost\r\n::1 x\r\n", "127.0.0.1 localhost\r\n127.0.1.1\tweb-1\r\n::1 x\r\n"),
        ("127.0.1.1 old\r\n", "127.0.1.1\tweb-1\r\n"),
        ("127.0.1.1 old # c\r\n", "127.0.1.1\tweb-1 # c\r\n"),
        # Only a line feed ends a line.
        ("127.0.1.1 old \x0c more\n", "127.0.1.1\tweb-1\n"),
        (f"127.0.0.1 localhost \u2028 odd\n{'x' * 3}\n", "127.0.0.1 localhost \u2028 odd\n127.0.1.1\tweb-1\nxxx\n"),
        # What is no text stays as it is.
        ("127.0.0.1 localhost\n# caf\udce9\n", "127.0.0.1 localhost\n127.0.1.1\tweb-1\n# caf\udce9\n"),
    ],
)
def test_the_line_by_which_the_host_finds_itself(before: str, after: str) -> None:
    assert hosts_with(before, "web-1") == after


@pytest.mark.parametrize(
    "text",
    [
        "127.0.1.1 web-1\n",
        "127.0.1.1 web-1",
        "127.0.1.1\tweb-1.example.com web-1\n",
        "127.0.1.1 web-1 # c\n",
        "127.0.1.1 api\n127.0.1.1 web-1\n",
        "127.0.1.1 web-1\n127.0.1.1 api\n",
        "127.0.1.1 web-1\r\n",
    ],
)
def test_a_name_that_is_there_is_left_alone(text: str) -> None:
    assert hosts_with(text, "web-1") == text


def test_a_comment_names_nobody() -> None:
    assert hosts_with("127.0.1.1 old # web-1\n", "web-1") == "127.0.1.1\tweb-1 # web-1\n"


def test_a_full_name_brings_its_short_one() -> None:
    assert hosts_with(LOOPBACK, "web-1.example.com") == LOOPBACK + "127.0.1.1\tweb-1.example.com web-1\n"


LINE = st.one_of(
    st.sampled_from(
        ["127.0.0.1 localhost", "127.0.1.1 old", "127.0.1.1", "127.0.1.1#x", "# 127.0.1.1 web-1", "127.0.1.1 web-1", ""]
    ),
    st.text(st.characters(blacklist_characters="\n"), max_size=20),
)
ENDING = st.sampled_from(["\n", "\r\n", " # note\n", ""])
HOSTS = st.lists(st.tuples(LINE, ENDING), max_size=8).map(lambda parts: "".join(line + end for line, end in parts))
NAMES = st.sampled_from(["web-1", "old", "localhost", "web-1.example.com", "a"])


@given(HOSTS, NAMES)
def test_twice_is_once(text: str, name: str) -> None:
    once = hosts_with(text, name)
    assert hosts_with(once, name) == once


@given(HOSTS, NAMES)
def test_the_name_is_on_a_line_of_its_address_and_nothing_else_is_lost(text: str, name: str) -> None:
    after = hosts_with(text, name)
    fields = [line.partition("#")[0].split() for line in after.split("\n")]
    assert any(line[:1] == ["127.0.1.1"] and name in line[1:] for line in fields)
    lost = [line for line in text.split("\n") if line not in after.split("\n")]
    assert all(line.partition("#")[0].split()[:1] == ["127.0.1.1"] for line in lost)
    assert len(lost) <= 1


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_come_through(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    after = hosts_with(text, "web-1").encode("utf-8", "surrogateescape")
    kept = [line for line in data.split(b"\n") if not line.lstrip().startswith(b"127.0.1.1")]
    assert all(line in after.split(b"\n") for line in kept if line)


def test_the_file_is_written_as_bytes_and_only_if_it_is_still_the_same(facts: Facts) -> None:
    old = b"127.0.0.1\tlocalhost\n# caf\xe9\n"
    hosts = step(
        plan_hostname(hostname="web-1", **parts(altered(facts, hosts_file=old), "host", "names"), config=CONFIG),
        "hosts",
    )
    new = b"127.0.0.1\tlocalhost\n127.0.1.1\tweb-1\n# caf\xe9\n"
    assert hosts.ways == (Way(backend="native", actions=(Write(path="/etc/hosts", data=new, was=old),)),)
    assert hosts.failure is HostnameFailed


def test_a_missing_file_is_made_where_the_distribution_has_the_line(facts: Facts) -> None:
    hosts = step(
        plan_hostname(hostname="web-1", **parts(altered(facts, hosts_file=None), "host", "names"), config=CONFIG),
        "hosts",
    )
    (way,) = hosts.ways
    assert isinstance(way, Way)
    assert way.actions == (Write(path="/etc/hosts", data=b"127.0.0.1\tlocalhost\n127.0.1.1\tweb-1\n"),)


def test_elsewhere_the_line_is_kept_true_but_not_added(facts: Facts) -> None:
    facts = altered(facts, distro=ROWS["default"])
    for without in (b"127.0.0.1 localhost\n", b"# 127.0.1.1 is not used\n", b"127.0.1.10 x\n", b"", None):
        names = [
            item.name
            for item in plan_hostname(
                hostname="h", **parts(altered(facts, hosts_file=without), "host", "names"), config=CONFIG
            )
        ]
        assert names == ["hostname"], without
    stale = altered(facts, hosts_file=b"127.0.1.1 old\n")
    assert step(plan_hostname(hostname="h", **parts(stale, "host", "names"), config=CONFIG), "hosts").name == "hosts"


# ---- the name itself


@pytest.mark.parametrize("text", [b"web-1\n", b"web-1", b"  web-1 \n\n"])
def test_a_name_that_is_right_is_satisfied(facts: Facts, text: bytes) -> None:
    facts = altered(facts, hostname_file=text, hosts_file=b"127.0.1.1 web-1\n")
    assert plan_hostname(hostname="web-1", **parts(facts, "host", "names"), config=CONFIG) == (
        Satisfied(name="hostname", why="is web-1"),
        Satisfied(name="hosts", why="127.0.1.1 is web-1"),
    )


@pytest.mark.parametrize(
    ("file", "kernel"), [(b"web-1\n", "other"), (b"other\n", "web-1"), (None, "web-1"), (b"# web-1\n", "web-1")]
)
def test_on_the_running_machine_file_and_kernel_both_count(facts: Facts, file: bytes | None, kernel: str) -> None:
    facts = running(facts, hostname_file=file, kernel=kernel)
    way = step(plan_hostname(hostname="web-1", **parts(facts, "host", "names"), config=CONFIG)).ways[0]
    write = Write(path="/etc/hostname", data=b"web-1\n", mode=0o644, was=file)
    assert way == Way(backend="native", actions=(SetHostname(name="web-1"), write))


def test_under_a_root_the_kernel_is_not_touched_and_hostnamectl_declines(facts: Facts) -> None:
    native, hostnamectl = step(plan_hostname(hostname="web-1", **parts(facts, "host", "names"), config=CONFIG)).ways
    assert isinstance(native, Way) and [type(action) for action in native.actions] == [Write]
    assert isinstance(hostnamectl, Declined) and "--root" in hostnamectl.why


@pytest.mark.parametrize(
    ("changes", "backend", "why"),
    [
        ({"privileged": False}, "native", "only root"),
        ({"tools": frozenset()}, "hostnamectl", "not installed"),
        ({"tools": frozenset({"hostnamectl"}), "init": ""}, "hostnamectl", "systemd is not running"),
    ],
)
def test_a_backend_that_cannot_says_why(facts: Facts, changes: dict[str, object], backend: str, why: str) -> None:
    ways = step(
        plan_hostname(hostname="web-1", **parts(running(facts, **changes), "host", "names"), config=CONFIG)
    ).ways
    (declined,) = [way for way in ways if way.backend == backend]
    assert isinstance(declined, Declined) and why in declined.why


def test_hostnamectl_is_asked_where_it_works_and_in_the_configured_order(facts: Facts) -> None:
    facts = running(facts, tools=frozenset({"hostnamectl"}), init="systemd")
    config = Config(hostname_provisioners=HostnameProvisioners(backends=("hostnamectl", "native")))
    first, second = step(plan_hostname(hostname="web-1", **parts(facts, "host", "names"), config=config)).ways
    assert first == Way(backend="hostnamectl", actions=(Run(argv=("hostnamectl", "set-hostname", "web-1")),))
    assert second.backend == "native"


def test_no_backend_leaves_a_step_that_will_fail_by_name(facts: Facts) -> None:
    config = Config(hostname_provisioners=HostnameProvisioners(backends=()))
    assert step(plan_hostname(hostname="web-1", **parts(facts, "host", "names"), config=config)).ways == ()


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (None, "unset"),
        (b"\n", "unset"),
        (b"old\n", "old"),
        (b"a\nb\n", r"'a\nb'"),
        (b"\x1b[31m\n", r"'\x1b[31m'"),
        (b"caf\xe9\n", r"'caf\udce9'"),
        (b"x" * 5000, "x" * 64),
    ],
)
def test_what_was_there_is_told_on_one_line(facts: Facts, file: bytes | None, told: str) -> None:
    plan = plan_hostname(hostname="web-1", **parts(altered(facts, hostname_file=file), "host", "names"), config=CONFIG)
    assert step(plan).why == f"{told} -> web-1"


@pytest.mark.parametrize(("kernel", "told"), [("old", "old"), ("", "unset"), ("a\x1b", r"'a\x1b'")])
def test_where_only_the_kernel_s_name_differs_that_is_what_is_told(facts: Facts, kernel: str, told: str) -> None:
    here = running(facts, hostname_file=b"web-1\n", kernel=kernel)
    assert (
        step(plan_hostname(hostname="web-1", **parts(here, "host", "names"), config=CONFIG)).why
        == f"the kernel's {told} -> web-1"
    )


@pytest.mark.parametrize("name", ["", "-a", "a b", "a\nb", "h" * 65, "a..b", "1.2.3.4", "h" * (1 << 20), "caf\xe9"])
def test_a_name_that_must_not_be_is_refused(facts: Facts, name: str) -> None:
    with pytest.raises(InvalidHostname):
        plan_hostname(hostname=name, **parts(facts, "host", "names"), config=CONFIG)
