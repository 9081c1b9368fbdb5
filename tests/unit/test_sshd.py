"""sshd's settings for passwords, written to the file that takes precedence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Config, Ssh
from azureinit.errors import SshdFailed
from azureinit.facts.gather import Facts
from azureinit.facts.ssh import ConfigFile, Logins, Ssh as SshFacts
from azureinit.plan.actions import Caution, Declined, MakeDir, Run, Satisfied, Step, Write
from azureinit.plan.sshd import BEGIN, END, HEADER, interval, plan_sshd, with_block
from azureinit.record import replace
from support.facts import altered, parts
from support.ssh_trees import DEBIAN, DROPIN, actions_of, facts_of, running, tree

MAIN = "/etc/ssh/sshd_config"
NO = b"PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
YES = NO.replace(b" no", b" yes")
CONFIG = Config()


def facts(root: Path, files: Mapping[str, str | bytes]) -> Facts:
    return facts_of(tree(root, files))


def write_of(root: Path, files: Mapping[str, str | bytes], *, allow: bool = False) -> Write:
    plan = plan_sshd(allow_password=allow, **parts(facts(root, files), "host", "ssh"), config=CONFIG)
    write = actions_of(plan)[-1]
    assert isinstance(write, Write)
    return write


def declined(root: Path, files: Mapping[str, str | bytes]) -> str:
    (step,) = plan_sshd(allow_password=False, **parts(facts(root, files), "host", "ssh"), config=CONFIG)
    assert isinstance(step, Step)
    assert step.failure is SshdFailed
    (way,) = step.ways
    assert isinstance(way, Declined)
    return way.why


def test_a_dropin_that_sorts_first_is_written_where_one_is_included(tmp_path: Path) -> None:
    files = {MAIN: DEBIAN, "/etc/ssh/sshd_config.d/50-cloud.conf": "PasswordAuthentication yes\n"}
    assert write_of(tmp_path, files) == Write(path=DROPIN, data=HEADER + NO, mode=0o600)


def test_allowing_passwords_is_told_the_same_way(tmp_path: Path) -> None:
    assert write_of(tmp_path, {MAIN: DEBIAN}, allow=True).data == HEADER + YES


def test_a_missing_dropin_directory_is_made(tmp_path: Path) -> None:
    plan = plan_sshd(allow_password=False, **parts(facts(tmp_path, {MAIN: DEBIAN}), "host", "ssh"), config=CONFIG)
    assert actions_of(plan)[0] == MakeDir(path="/etc/ssh/sshd_config.d", mode=0o755)


def test_an_earlier_run_that_said_otherwise_is_replaced(tmp_path: Path) -> None:
    write = write_of(tmp_path, {MAIN: DEBIAN, DROPIN: HEADER + YES})
    assert (write.data, write.was) == (HEADER + NO, HEADER + YES)


@pytest.mark.parametrize(
    "files",
    [
        {MAIN: "UsePAM yes\n"},
        {MAIN: "#Include /etc/ssh/sshd_config.d/*.conf\n"},
        {MAIN: "PasswordAuthentication yes\n" + DEBIAN},
        {MAIN: "Match User bob\n" + DEBIAN},
        {MAIN: DEBIAN, "/etc/ssh/sshd_config.d/00-a.conf": "PasswordAuthentication yes\n"},
    ],
    ids=["no Include", "a commented Include", "a value before it", "inside a Match", "an earlier drop-in"],
)
def test_where_a_dropin_would_lose_the_file_gets_our_lines_first(
    tmp_path: Path, files: Mapping[str, str | bytes]
) -> None:
    old = str(files[MAIN]).encode()
    assert write_of(tmp_path, files) == Write(path=MAIN, data=BEGIN + NO + END + old, was=old)


def test_our_lines_in_the_file_are_replaced_and_not_repeated(tmp_path: Path) -> None:
    old = BEGIN + YES + END + b"UsePAM yes\n"
    assert write_of(tmp_path, {MAIN: old}).data == BEGIN + NO + END + b"UsePAM yes\n"


@given(st.binary(max_size=80))
def test_the_rest_of_the_file_stays_byte_for_byte(data: bytes) -> None:
    once = with_block(data, NO)
    assert once == BEGIN + NO + END + data
    assert with_block(once, NO) == once
    assert with_block(once, YES) == BEGIN + YES + END + data


def test_the_vendors_file_is_never_shadowed_nor_touched(tmp_path: Path) -> None:
    vendor = "/usr/etc/ssh/sshd_config"
    write = write_of(tmp_path / "a", {vendor: "Include /etc/ssh/sshd_config.d/*.conf\n"})
    assert write.path == DROPIN
    assert "is the vendor's" in declined(tmp_path / "b", {vendor: "UsePAM yes\n"})


def test_a_match_all_block_that_outweighs_us_is_named(tmp_path: Path) -> None:
    text = DEBIAN + "Match all\nPasswordAuthentication yes\n"
    assert "Match all" in declined(tmp_path, {MAIN: text})


@pytest.mark.parametrize("block", ["Match User *", "Match Address 0.0.0.0/0,::/0"])
@pytest.mark.parametrize("allow", [True, False])
def test_a_match_block_that_says_otherwise_is_told_with_its_place(tmp_path: Path, allow: bool, block: str) -> None:
    vendor = "/etc/ssh/sshd_config.d/50-vendor.conf"
    said, agreed = ("no", "yes") if allow else ("yes", "no")
    text = f"{block}\n  PasswordAuthentication {said}\n  SkeyAuthentication {agreed}\n  X11Forwarding {said}\n"
    step, caution = plan_sshd(
        allow_password=allow, **parts(facts(tmp_path, {MAIN: DEBIAN, vendor: text}), "host", "ssh"), config=CONFIG
    )
    assert isinstance(step, Step)
    why = f"'PasswordAuthentication {said}' below '{block}' in {vendor} is for some logins: not changed"
    assert caution == Caution(name="sshd", why=why)
    already = {MAIN: (YES if allow else NO).decode() + "Include x\n", "/etc/ssh/x": text}
    satisfied, caution = plan_sshd(
        allow_password=allow, **parts(facts(tmp_path / "b", already), "host", "ssh"), config=CONFIG
    )
    assert isinstance(satisfied, Satisfied)
    assert isinstance(caution, Caution)


def test_lines_that_sshd_says_do_not_count_are_not_written_again(tmp_path: Path) -> None:
    asked = facts(tmp_path, {MAIN: BEGIN + NO + END + DEBIAN.encode(), DROPIN: HEADER + NO})
    asked = replace(asked, ssh=replace(asked.ssh, logins=Logins(password=True, keyboard=False)))
    (step,) = plan_sshd(allow_password=False, **parts(asked, "host", "ssh"), config=CONFIG)
    assert isinstance(step, Step)
    assert "have no effect" in step.ways[0].why  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("allow", "config", "files", "why"),
    [
        (None, CONFIG, {MAIN: DEBIAN}, "no source says"),
        (False, Config(ssh=Ssh(configure_sshd_password_authentication=False)), {MAIN: DEBIAN}, "is false"),
        (False, CONFIG, {}, "not installed"),
        (False, CONFIG, {MAIN: NO}, "already refuses passwords"),
        (True, CONFIG, {MAIN: "UsePAM yes\n"}, "already accepts passwords"),
    ],
)
def test_where_nothing_is_left_to_do_the_reason_is_told(
    tmp_path: Path, allow: bool | None, config: Config, files: Mapping[str, str | bytes], why: str
) -> None:
    (item,) = plan_sshd(allow_password=allow, **parts(facts(tmp_path, files), "host", "ssh"), config=config)
    assert isinstance(item, Satisfied)
    assert why in item.why


def test_an_sshd_without_a_configuration_we_know_is_left_alone(tmp_path: Path) -> None:
    unknown = replace(facts(tmp_path, {}), ssh=SshFacts(installed=True))
    (item,) = plan_sshd(allow_password=False, **parts(unknown, "host", "ssh"), config=CONFIG)
    assert isinstance(item, Caution)


def test_on_the_running_machine_the_change_is_checked_and_heeded(tmp_path: Path) -> None:
    here = running(facts(tmp_path, {MAIN: DEBIAN, DROPIN: ""}), running=True, unit="ssh.service")
    plan = plan_sshd(allow_password=False, **parts(here, "host", "ssh"), config=CONFIG)
    make, write, reload = actions_of(plan)
    assert make == MakeDir(path="/run/sshd", mode=0o755)
    assert write.check == Run(argv=("sshd", "-t", "-h", "/etc/ssh/ssh_host_ed25519_key"), changes=False)
    assert reload == Run(argv=("systemctl", "--no-block", "try-reload-or-restart", "ssh.service"), changes=False)


@pytest.mark.parametrize(
    ("more", "checked"),
    [
        ("", False),
        ("AuthenticationMethods publickey publickey,keyboard-interactive\n", True),
        ('Match all\n  "AuthenticationMethods" publickey,password\n', True),
    ],
    ids=["nothing is demanded", "a second factor", "of everybody"],
)
def test_an_sshd_that_has_answered_is_asked_again_where_it_may_have_to_demand_what_we_forbid(
    tmp_path: Path, more: str, checked: bool
) -> None:
    here = running(facts(tmp_path, {MAIN: DEBIAN + more, DROPIN: ""}), reported={}, privsep_dir=True)
    (write,) = actions_of(plan_sshd(allow_password=False, **parts(here, "host", "ssh"), config=CONFIG))
    assert (write.check is not None) == checked


@pytest.mark.parametrize("demanded", ["publickey,password", "hostbased,Password publickey,keyboard-interactive:pam"])
def test_an_sshd_that_would_not_start_without_passwords_keeps_them_where_none_is_enough(
    tmp_path: Path, demanded: str
) -> None:
    """Whether the admin can log in is another question, and has another answer."""
    said = facts(tmp_path, {MAIN: f"{DEBIAN}AuthenticationMethods {demanded}\n", DROPIN: ""})
    (caution,) = plan_sshd(allow_password=False, **parts(said, "host", "ssh"), config=CONFIG)
    assert isinstance(caution, Caution)
    assert f"{MAIN} line" in caution.why and demanded in caution.why


@pytest.mark.parametrize(
    "lines",
    [
        "AuthenticationMethods password\n",
        "AuthenticationMethods publickey,password keyboard-interactive\n",
        "AuthenticationMethods publickey,password\nMatch User bob\n  AuthenticationMethods any\n",
        "AuthenticationMethods publickey,password\nMatch User bob\n  AuthenticationMethods password\n",
    ],
)
def test_where_a_password_alone_would_be_enough_it_is_a_failure_that_names_the_line(tmp_path: Path, lines: str) -> None:
    assert f"{MAIN} line" in declined(tmp_path, {MAIN: DEBIAN + lines, DROPIN: ""})


def test_the_check_uses_a_key_that_will_be_there(tmp_path: Path) -> None:
    here = running(facts(tmp_path, {MAIN: DEBIAN, DROPIN: ""}), fips=True, privsep_dir=True)
    (write,) = actions_of(plan_sshd(allow_password=False, **parts(here, "host", "ssh"), config=CONFIG))
    assert write.check.argv[-1] == "/etc/ssh/ssh_host_ecdsa_key"
    none = Config(ssh=Ssh(host_key_types=("rsa",)))
    (write,) = actions_of(plan_sshd(allow_password=False, **parts(here, "host", "ssh"), config=none))
    assert write.check is None


def test_a_running_sshd_that_nobody_can_reload_is_told_about(tmp_path: Path) -> None:
    here = altered(running(facts(tmp_path, {MAIN: DEBIAN, DROPIN: ""}), running=True), init="")
    step, caution = plan_sshd(allow_password=False, **parts(here, "host", "ssh"), config=CONFIG)
    assert isinstance(step, Step)
    assert isinstance(caution, Caution)


@pytest.mark.parametrize(
    ("version", "text", "said"),
    [
        ((8, 4), DEBIAN, True),
        ((8, 7), DEBIAN, False),
        (None, DEBIAN, False),
        (None, "ChallengeResponseAuthentication no\n", True),
    ],
)
def test_an_old_sshd_is_told_by_the_name_it_knows(
    tmp_path: Path, version: tuple[int, int] | None, text: str, said: bool
) -> None:
    old = facts(tmp_path, {MAIN: text})
    old = replace(
        old,
        ssh=replace(old.ssh, version=version, files=(ConfigFile(path=MAIN, data=text.encode()),)),
    )
    write = actions_of(plan_sshd(allow_password=False, **parts(old, "host", "ssh"), config=CONFIG))[-1]
    assert (b"ChallengeResponseAuthentication no\n" in write.data.partition(END)[0]) is said


# ---- silent clients

ALIVE = Config(ssh=Ssh(client_alive_interval=180))
INTERVAL = b"ClientAliveInterval 180\n"


def alive_of(root: Path, files: Mapping[str, str | bytes], *, allow: bool | None = None) -> Write:
    write = actions_of(plan_sshd(allow_password=allow, **parts(facts(root, files), "host", "ssh"), config=ALIVE))[-1]
    assert isinstance(write, Write)
    return write


def test_silent_clients_are_asked_where_that_is_wanted_whatever_is_said_of_passwords(tmp_path: Path) -> None:
    assert alive_of(tmp_path, {MAIN: DEBIAN}) == Write(path=DROPIN, data=HEADER + INTERVAL, mode=0o600)
    left, step = plan_sshd(allow_password=None, **parts(facts(tmp_path, {MAIN: DEBIAN}), "host", "ssh"), config=ALIVE)
    assert left == Satisfied(name="sshd", why="not changed: no source says whether passwords are allowed")
    assert isinstance(step, Step) and step.why.startswith("must probe a client after 180 s of silence: ")


def test_both_wishes_are_one_file_and_one_check(tmp_path: Path) -> None:
    here = running(facts(tmp_path, {MAIN: DEBIAN, DROPIN: ""}), privsep_dir=True)
    (step,) = plan_sshd(allow_password=False, **parts(here, "host", "ssh"), config=ALIVE)
    assert isinstance(step, Step) and step.why.startswith("must refuse passwords and probe a client after 180 s")
    (write,) = actions_of((step,))
    assert write.data == HEADER + NO + INTERVAL
    assert write.check == Run(argv=("sshd", "-t", "-h", "/etc/ssh/ssh_host_ed25519_key"), changes=False)


def test_a_file_that_includes_nothing_is_edited_at_its_start(tmp_path: Path) -> None:
    old = b"UsePAM yes\nClientAliveInterval 5\nMatch User x\nX11Forwarding no\n"
    write = alive_of(tmp_path, {MAIN: old}, allow=False)
    assert write == Write(path=MAIN, data=BEGIN + NO + INTERVAL + END + old, was=old)
    (satisfied,) = plan_sshd(
        allow_password=False,
        **parts(facts(tmp_path / "b", {MAIN: BEGIN + NO + INTERVAL + END + old}), "host", "ssh"),
        config=ALIVE,
    )
    assert satisfied == Satisfied(
        name="sshd", why="already refuses passwords and probes a client after 180 s of silence"
    )


@pytest.mark.parametrize("said", ["180", "180s", "3m", "2m60", "3M", "=180", '"3m"'])
def test_what_is_so_already_is_not_written_again(tmp_path: Path, said: str) -> None:
    there = {MAIN: DEBIAN, "/etc/ssh/sshd_config.d/50.conf": f"clientaliveinterval {said}\n"}
    *_, item = plan_sshd(allow_password=None, **parts(facts(tmp_path, there), "host", "ssh"), config=ALIVE)
    assert item == Satisfied(name="sshd", why="already probes a client after 180 s of silence")


@pytest.mark.parametrize("said", ["0", "181", "3h", "3x", "soon"])
def test_what_says_otherwise_is_outvoted(tmp_path: Path, said: str) -> None:
    there = {MAIN: DEBIAN, "/etc/ssh/sshd_config.d/50.conf": f"ClientAliveInterval {said}\n"}
    assert alive_of(tmp_path, there).data == HEADER + INTERVAL


def test_what_an_earlier_run_said_of_the_other_stays(tmp_path: Path) -> None:
    """Or a run that knows of no passwords would let them in again."""
    assert alive_of(tmp_path, {MAIN: DEBIAN, DROPIN: HEADER + NO}).data == HEADER + NO + INTERVAL
    write = write_of(tmp_path / "b", {MAIN: DEBIAN, DROPIN: HEADER + NO + INTERVAL}, allow=True)
    assert write.data == HEADER + YES + INTERVAL
    block = BEGIN + INTERVAL + END + b"UsePAM yes\n"
    assert write_of(tmp_path / "c", {MAIN: block}).data == BEGIN + NO + INTERVAL + END + b"UsePAM yes\n"


def test_nothing_is_said_of_them_where_sshd_is_not_installed_or_nobody_asks(tmp_path: Path) -> None:
    (item,) = plan_sshd(allow_password=True, **parts(facts(tmp_path, {}), "host", "ssh"), config=ALIVE)
    assert item == Satisfied(name="sshd", why="not installed")
    assert b"ClientAlive" not in bytes(write_of(tmp_path / "b", {MAIN: DEBIAN}).data)  # type: ignore[arg-type]


def test_a_number_that_sshd_cannot_hold_is_a_failure_that_names_the_setting(tmp_path: Path) -> None:
    config = Config(ssh=Ssh(client_alive_interval=1 << 31))
    *_, step = plan_sshd(allow_password=None, **parts(facts(tmp_path, {MAIN: DEBIAN}), "host", "ssh"), config=config)
    assert isinstance(step, Step) and step.failure is SshdFailed
    (way,) = step.ways
    assert way == Declined(backend="drop-in", why="ssh.client_alive_interval is above sshd's 2147483647")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("90s", 90), ("1m30", 90), ("1h1m1s", 3661), ("1d", 86400), ("1w", 604800), ("", -1),
     ("m", -1), ("1x", -1), ("-1", -1), ("1 m", -1), ("9" * 12, -1)],
)  # fmt: skip
def test_intervals_are_read_as_sshd_reads_them(text: str, seconds: int) -> None:
    assert interval(text) == seconds


@given(st.text(alphabet="0123456789smhdw ", max_size=30))
def test_any_text_is_an_interval_or_none(text: str) -> None:
    assert interval(text) >= -1
