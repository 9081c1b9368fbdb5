"""ca_certs, rsyslog, seed_random, locale, timezone, keyboard and ntp in file trees; tools as planned."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from azureinit.machine import Machine
from azureinit.plan.actions import Caution, Declined, Run, Satisfied, Way, Write, work_left
from azureinit.run.config_modules import MODULES as CONFIG
from azureinit.run.network_modules import MODULES as NETWORK
from support.module_runs import apply_module, plan_module, request_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

ALL = {module.name: module for module in (*NETWORK, *CONFIG)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text("ID=debian\n")
    return tmp_path


def install(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("#!/bin/sh\n")
        (root / path).chmod(0o755)


def planned(root: Path, module: str, text: str, **fields: object) -> Plan:
    return plan_module(ALL[module], Machine(root=str(root)), request_of(text, **fields))


def applied(root: Path, module: str, text: str) -> Plan:
    """Carried out; a second plan has nothing left to do."""
    plan = apply_module(ALL[module], root, text)
    assert not [step.name for step in work_left(planned(root, module, text)) if not step.once]
    return plan


def refusals(plan: Plan) -> list[str]:
    return [way.why for step in work_left(plan) for way in step.ways if isinstance(way, Declined)]


def commands(plan: Plan) -> list[tuple[str, ...]]:
    ways = [way for step in work_left(plan) for way in step.ways if isinstance(way, Way)]
    return [action.argv for way in ways for action in way.actions if isinstance(action, Run)]


def cautions(plan: Plan) -> list[str]:
    return [item.why for item in plan if isinstance(item, Caution)]


# ---- ca_certs


CERTIFICATES = "{trusted: ['-----BEGIN A', '-----BEGIN B'], remove_defaults: true}"


@pytest.mark.parametrize("key", ["ca_certs", "ca-certs"])
def test_certificates_are_added_and_the_defaults_disabled(root: Path, key: str) -> None:
    (root / "etc/ca-certificates.conf").write_text("# list\n\nmozilla/A.crt\n!mozilla/B.crt\nmozilla/C.crt\n")
    install(root, "usr/sbin/update-ca-certificates", "usr/bin/debconf-set-selections")
    plan = applied(root, "ca_certs", f"{key}: {CERTIFICATES}")
    made = root / "usr/local/share/ca-certificates"
    assert (made / "cloud-init-ca-cert-1.crt").read_text() == "-----BEGIN A"
    assert (made / "cloud-init-ca-cert-2.crt").read_text() == "-----BEGIN B"
    lines = (root / "etc/ca-certificates.conf").read_text().splitlines()
    assert [line for line in lines if line[:1] != "#"] == ["", "!mozilla/A.crt", "!mozilla/B.crt", "!mozilla/C.crt"]
    assert all("this is a file tree" in why for why in cautions(plan))
    assert len(cautions(plan)) == 2


def test_the_bundles_are_made_on_the_running_system(root: Path) -> None:
    install(root, "usr/sbin/update-ca-certificates", "usr/bin/debconf-set-selections")
    (root / "etc/ca-certificates.conf").write_text("mozilla/A.crt\n")
    plan = planned(root, "ca_certs", f"ca_certs: {CERTIFICATES}", rooted=False)
    assert commands(plan) == [("debconf-set-selections", "-"), ("update-ca-certificates",)]
    plan = planned(root, "ca_certs", "ca_certs: {trusted: []}", rooted=False, done=frozenset())
    assert commands(plan) == [("update-ca-certificates",)]
    done = frozenset({work_left(plan)[0].name})
    assert not work_left(planned(root, "ca_certs", "ca_certs: {trusted: []}", rooted=False, done=done))


@pytest.mark.parametrize(
    ("release", "directory", "tool"),
    [
        ("rhel", "etc/pki/ca-trust/source/anchors", "update-ca-trust"),
        ("azurelinux", "etc/pki/ca-trust/source/anchors", "update-ca-trust"),
        ("suse", "etc/pki/trust/anchors", "update-ca-certificates"),
    ],
)
def test_certificates_of_other_distributions(root: Path, release: str, directory: str, tool: str) -> None:
    (root / "etc/os-release").write_text(f"ID={release}\n")
    install(root, f"usr/bin/{tool}", "usr/share/pki/ca-trust-source/vendor.p11-kit", "usr/share/pki/trust/vendor")
    applied(root, "ca_certs", f"ca_certs: {CERTIFICATES}")
    assert (root / directory / "cloud-init-ca-cert-1.crt").exists()
    kept = {path.name for path in (root / "usr/share/pki").glob("*/*")}
    assert kept == ({"vendor"} if release != "suse" else {"vendor.p11-kit"})
    plan = planned(root, "ca_certs", f"ca_certs: {CERTIFICATES}", rooted=False)
    assert commands(plan) == [(tool,)]


def test_a_missing_tool_for_bundles_is_a_failure(root: Path) -> None:
    plan = planned(root, "ca_certs", "ca_certs: {trusted: [x]}", rooted=False)
    assert refusals(plan) == ["update-ca-certificates is not installed"]


# ---- rsyslog


def test_the_older_form_of_rsyslog(root: Path) -> None:
    applied(root, "rsyslog", "rsyslog:\n- '*.* @@192.0.2.1'\n- {content: 'kern.* /k', filename: 20-k.conf}\n")
    assert (root / "etc/rsyslog.d/20-cloud-config.conf").read_text() == "*.* @@192.0.2.1\n"
    assert (root / "etc/rsyslog.d/20-k.conf").read_text() == "kern.* /k\n"
    applied(root, "rsyslog", "rsyslog: ['*.* /all']\nrsyslog_dir: /etc/other\nrsyslog_filename: a.conf\n")
    assert (root / "etc/other/a.conf").read_text() == "*.* /all\n"


def test_rules_and_remotes_of_rsyslog(root: Path) -> None:
    text = """rsyslog:
  config_filename: 10-mine.conf
  configs:
  - "*.* /var/log/all"
  - content: "kern.* /var/log/kernel\\n"
    filename: 20-kernel.conf
  - "auth.* /var/log/login"
  remotes:
    main: "@@logs.example.com:10514"
    v6: "*.info [2001:db8::1]"
    short: 10.0.0.1
"""
    plan = applied(root, "rsyslog", text)
    assert (root / "etc/rsyslog.d/10-mine.conf").read_text() == (
        "*.* /var/log/all\nauth.* /var/log/login\n# begin remotes\n*.* @@logs.example.com:10514 # main\n"
        "*.info @[2001:db8::1] # v6\n*.* @10.0.0.1 # short\n# end remotes\n"
    )
    assert (root / "etc/rsyslog.d/20-kernel.conf").read_text() == "kern.* /var/log/kernel\n"
    assert cautions(plan) == ["not done: this is a file tree, not the running system"]
    text += "  service_reload_command: [killall, -HUP, rsyslogd]\n"
    (root / "etc/rsyslog.d/10-mine.conf").unlink()
    assert commands(planned(root, "rsyslog", text, rooted=False)) == [("killall", "-HUP", "rsyslogd")]


@pytest.mark.parametrize("line", ["a b c", "@", "host:x", "[::1", "host:", "@@@host"])
def test_a_wrong_remote_is_refused(root: Path, line: str) -> None:
    plan = planned(root, "rsyslog", f"rsyslog:\n  remotes:\n    name: '{line}'\n")
    assert [why.split(":")[0] for why in refusals(plan)] == ["line 4"]


# ---- seed_random


def test_seeds_go_to_files_and_to_the_kernel(root: Path) -> None:
    text = "random_seed: {file: /var/lib/seed, data: c2VlZA==, encoding: b64}"
    apply_module(ALL["seed_random"], root, text)
    assert (root / "var/lib/seed").read_bytes() == b"seed"
    assert (root / "var/lib/seed").stat().st_mode & 0o777 == 0o600
    step = work_left(planned(root, "seed_random", text))[0]
    again = planned(root, "seed_random", text, done=frozenset({step.name}))
    assert [type(item) for item in again] == [Satisfied]
    assert "file tree" in cautions(planned(root, "seed_random", "random_seed: {data: abc}"))[0]
    (step,) = work_left(planned(root, "seed_random", "random_seed: {data: hunter2}", rooted=False))
    assert isinstance(step.ways[0], Way)
    assert [action.path for action in step.ways[0].actions if isinstance(action, Write)] == ["/dev/urandom"]
    assert "hunter2" not in repr(step)
    assert refusals(planned(root, "seed_random", "random_seed: {data: abc, file: /dev/sda}"))


def test_a_command_that_seeds(root: Path) -> None:
    text = "random_seed: {command: [mygen, -x], command_required: %s}"
    assert "mygen is not installed" in refusals(planned(root, "seed_random", text % "true", rooted=False))
    assert cautions(planned(root, "seed_random", text % "false", rooted=False)) == ["mygen is not installed"]
    install(root, "usr/bin/mygen")
    assert commands(planned(root, "seed_random", text % "true", rooted=False)) == [("mygen", "-x")]
    assert refusals(planned(root, "seed_random", "random_seed: {command_required: true}"))


# ---- locale


def test_a_locale_is_made_and_named(root: Path) -> None:
    install(root, "usr/sbin/locale-gen")
    (root / "etc/locale.gen").write_text("# a comment\n# de_DE.UTF-8 UTF-8\n# fr_FR.UTF-8 UTF-8\n")
    (root / "usr/share/i18n").mkdir(parents=True)
    (root / "usr/share/i18n/SUPPORTED").write_text("de_DE.UTF-8 UTF-8\nfr_FR.UTF-8 UTF-8\n")
    plan = applied(root, "locale", "locale: de_DE.UTF-8")
    assert (root / "etc/locale.gen").read_text() == "# a comment\nde_DE.UTF-8 UTF-8\n# fr_FR.UTF-8 UTF-8\n"
    assert (root / "etc/default/locale").read_text() == "#  File generated by update-locale\nLANG=de_DE.UTF-8\n"
    assert "locale-gen is not run" in cautions(plan)[0]
    assert commands(planned(root, "locale", "locale: fr_FR.UTF-8", rooted=False)) == [("locale-gen",)]
    assert refusals(planned(root, "locale", "locale: xx_XX.UTF-8"))
    assert refusals(planned(root, "locale", "locale: 'a b'"))
    for text in ("locale: false", "locale: C.UTF-8"):
        assert not commands(planned(root, "locale", text, rooted=False))


def test_a_locale_where_nothing_is_made(root: Path) -> None:
    assert "write locales below" in cautions(planned(root, "locale", "locale: de_DE.UTF-8"))[0]
    (root / "etc/os-release").write_text("ID=fedora\n")
    (root / "etc/locale.conf").write_text('LC_TIME="C"\nLANG="en_US.UTF-8"\n')
    applied(root, "locale", "locale: de_DE.UTF-8")
    assert (root / "etc/locale.conf").read_text() == 'LC_TIME="C"\nLANG=de_DE.UTF-8\n'
    applied(root, "locale", "{locale: C, locale_configfile: /etc/mine}")
    assert (root / "etc/mine").read_text().endswith("LANG=C\n")


# ---- timezone


@pytest.fixture
def zones(root: Path) -> Path:
    install(root, "usr/share/zoneinfo/Europe/Berlin", "usr/share/zoneinfo/UTC")
    (root / "usr/share/zoneinfo/Europe/Berlin").write_bytes(b"TZif2")
    return root


def test_the_zone_is_linked_and_named(zones: Path) -> None:
    (zones / "etc/localtime").symlink_to("/usr/share/zoneinfo/UTC")
    applied(zones, "timezone", "timezone: Europe/Berlin")
    assert os.readlink(zones / "etc/localtime") == "/usr/share/zoneinfo/Europe/Berlin"
    assert (zones / "etc/timezone").read_text() == "Europe/Berlin\n"


def test_a_copy_of_the_zone_stays_a_copy_on_debian(zones: Path) -> None:
    (zones / "etc/localtime").write_bytes(b"old")
    applied(zones, "timezone", "timezone: Europe/Berlin")
    assert (zones / "etc/localtime").read_bytes() == b"TZif2"
    (zones / "etc/os-release").write_text("ID=rhel\n")
    (zones / "etc/timezone").unlink()
    applied(zones, "timezone", "timezone: Europe/Berlin")
    assert (zones / "etc/localtime").is_symlink()
    assert not (zones / "etc/timezone").exists()


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../../etc/passwd", "/etc/passwd", "Europe", "a b"])
def test_a_zone_that_does_not_exist(zones: Path, zone: str) -> None:
    assert "there is no zone" in refusals(planned(zones, "timezone", f"timezone: {zone}"))[0]


# ---- keyboard


def test_the_keyboard_of_debian(root: Path) -> None:
    applied(root, "keyboard", "keyboard: {layout: de, variant: nodeadkeys, options: 'compose:rwin'}")
    assert (root / "etc/default/keyboard").read_text().split("\n", 1)[1] == (
        '\nXKBMODEL="pc105"\nXKBLAYOUT="de"\nXKBVARIANT="nodeadkeys"\nXKBOPTIONS="compose:rwin"\n\nBACKSPACE="guess"\n'
    )
    assert refusals(planned(root, "keyboard", "keyboard: {layout: 'de\"; rm'}"))


def test_the_keyboard_of_others(root: Path) -> None:
    (root / "etc/os-release").write_text("ID=alpine\n")
    text = "keyboard: {layout: de, variant: de-nodeadkeys}"
    assert cautions(planned(root, "keyboard", text))
    assert "localectl" in refusals(planned(root, "keyboard", text, rooted=False))[0]
    install(root, "sbin/setup-keymap")
    assert commands(planned(root, "keyboard", text, rooted=False)) == [("setup-keymap", "de", "de-nodeadkeys")]


# ---- ntp


def test_servers_of_chrony(root: Path) -> None:
    install(root, "usr/sbin/chronyd", "etc/chrony/chrony.conf")
    (root / "etc/chrony/chrony.conf").write_text("pool old iburst\nrefclock PHC /dev/ptp_hyperv poll 3\n")
    text = "ntp: {servers: [a.test], pools: [p.test], peers: [b.test], allow: [10.0.0.0/8]}"
    plan = applied(root, "ntp", text)
    made = (root / "etc/chrony/chrony.conf").read_text()
    wanted = ("pool p.test iburst", "server a.test iburst", "peer b.test", "allow 10.0.0.0/8", "rtcsync")
    assert all(f"\n{line}\n" in made for line in (*wanted, "refclock PHC /dev/ptp_hyperv poll 3"))
    assert "pool old" not in made
    assert "pool old" in (root / "etc/chrony/chrony.conf.dist").read_text()
    assert cautions(plan)
    applied(root, "ntp", "ntp: {servers: [c.test]}")
    assert "pool old" in (root / "etc/chrony/chrony.conf.dist").read_text()  # the image's own is kept


def test_servers_of_timesyncd(root: Path) -> None:
    install(root, "usr/lib/systemd/systemd-timesyncd")
    applied(root, "ntp", "ntp: {servers: [a.test], pools: [p.test]}")
    assert "[Time]\nNTP=a.test p.test\n" in (root / "etc/systemd/timesyncd.conf.d/cloud-init.conf").read_text()
    applied(root, "ntp", "ntp:\n")
    made = (root / "etc/systemd/timesyncd.conf.d/cloud-init.conf").read_text()
    assert "NTP=0.debian.pool.ntp.org 1.debian.pool.ntp.org" in made


def test_a_client_that_is_not_installed_or_not_known(root: Path) -> None:
    assert "no NTP client is installed" in refusals(planned(root, "ntp", "ntp: {ntp_client: chrony}"))[0]
    assert "not a client" in refusals(planned(root, "ntp", "ntp: {ntp_client: sundial}"))[0]
    assert not work_left(planned(root, "ntp", "ntp: {enabled: false}"))
    install(root, "usr/sbin/ntpd")
    applied(root, "ntp", "ntp: {ntp_client: ntp, servers: [a.test], config: {confpath: /etc/mine/ntp.conf}}")
    assert "server a.test iburst\n" in (root / "etc/mine/ntp.conf").read_text()
