"""The text of the unit files: ordering, conditions, timeouts, and settings that they must not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.load import MOST_SECS as MOST_SECONDS
from azureinit.config.model import Config
from azureinit.config.values import LONGEST_SECONDS
from azureinit.run.awaited import LOCK_SECS as LOCK_STAGE
from azureinit.run.disks import LOCK_SECS, MOST_SECS, RESULT
from azureinit.run.mounts import MOUNT_SECS

ROOT = Path(__file__).parents[2]
PARTS = ("", "-local", "-failure", "-resend", "-hostname", "-network", "-disk", "-disk-late@", "-deadline")
RUN, LOCAL, FAILURE, RESEND, HOSTNAME, ADDRESSES, DISK, LATE, DEADLINE = tuple(
    f"azure-init{part}.service" for part in PARTS
)
NETWORK, CONFIG, FINAL = USERDATA = tuple(
    f"azure-init-userdata-{stage}.service" for stage in ("network", "config", "final")
)
TARGET, ENDED = "azure-init-userdata.target", "azure-init-userdata-network.target"
UNITS = (RUN, LOCAL, FAILURE, RESEND, HOSTNAME, ADDRESSES, DISK, LATE, DEADLINE, *USERDATA)
AZURE = "smbios-field(chassis_asset_tag = 7783-7084-3265-9085-8269-3286-77)"
WAAGENT = {"walinuxagent.service", "waagent.service"}
LOGINS = {"ssh.service", "sshd.service", "systemd-user-sessions.service"}
HOST_KEYS = {"sshd-keygen.service", "sshd-keygen.target"} | {
    f"sshd-keygen@{kind}.service" for kind in ("rsa", "ecdsa", "ed25519")
}
KVP_DAEMONS = {"hv-kvp-daemon.service", "hypervkvpd.service", "hv_kvp_daemon.service"}
RELATIONS = ("After", "Before", "Wants", "Requires", "BindsTo", "PartOf", "RequiresMountsFor", "Conflicts", "OnFailure")
# Everything that a unit says of others; what is not here is not there.
ORDER: dict[str, dict[str, set[str]]] = {
    LOCAL: {
        "Wants": {"network-pre.target"},
        "Before": {"network-pre.target", "shutdown.target"},
        "Conflicts": {"shutdown.target"},
        "After": {"local-fs.target", "systemd-udev-trigger.service", "systemd-udevd.service"},
    },
    RUN: {
        "After": {LOCAL, "azure-proxy-agent.service", "var-log.mount"} | KVP_DAEMONS,
        "RequiresMountsFor": {"/var/lib/azure-init", "/home"},
        "Before": LOGINS | HOST_KEYS | WAAGENT,
        "OnFailure": {FAILURE},
    },
    FAILURE: {"Before": WAAGENT},
    RESEND: {"After": {RUN}},
    HOSTNAME: {"After": {RUN}},
    ADDRESSES: {"After": {RUN}},
    DISK: {
        "After": {RUN, "local-fs.target", "cloud-init.service", "cloud-init-network.service"},
        "RequiresMountsFor": {"/var/lib/azure-init"},
        "Before": WAAGENT,
    },
    LATE: {},  # behind another unit, its condition would be checked too late
    DEADLINE: {"After": {RUN}},
    NETWORK: {"After": {RUN}, "Before": LOGINS | WAAGENT},
    CONFIG: {
        "After": {NETWORK, "network-online.target"},
        "Wants": {"network-online.target"},
        "OnFailure": {FAILURE},
    },
    FINAL: {
        "After": {CONFIG, "network-online.target", "time-sync.target", "rc-local.service"},
        "Before": {"apt-daily.service", "apt-daily-upgrade.service"},
        "OnFailure": {FAILURE},
    },
}
TOO_EARLY = {"sysinit.target", "basic.target", "sockets.target", "local-fs.target"}


def read_unit(name: str) -> dict[str, list[str]]:
    """Every setting with all that it was given, in order: no section of ours has one of another's."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "systemd" / name).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            key, separator, value = line.partition("=")
            assert separator and not value.endswith("\\"), line
            found.setdefault(key, []).append(value)
    return found


def words(unit: dict[str, list[str]], key: str) -> set[str]:
    return {word for value in unit.get(key, ()) for word in value.split()}


def conditions(unit: dict[str, list[str]]) -> set[tuple[str, str]]:
    return {(key, value) for key, values in unit.items() if key.startswith(("Condition", "Assert")) for value in values}


def test_these_are_all_the_units() -> None:
    assert {path.name for path in (ROOT / "systemd").iterdir()} == {*UNITS, TARGET, ENDED}


def test_the_target_wants_the_stages_of_custom_data_and_nothing_starts_it_by_itself() -> None:
    unit = read_unit(TARGET)
    assert words(unit, "Wants") == set(USERDATA)
    assert set(unit) == {"Description", "Documentation", "Wants"}, "its order is that of the stages"


def test_a_target_is_reached_when_the_first_stage_has_ended_and_starts_nothing() -> None:
    unit = read_unit(ENDED)
    assert unit["After"] == [NETWORK] and unit["StopWhenUnneeded"] == ["yes"], "it can be waited for again"
    assert set(unit) == {"Description", "Documentation", "After", "StopWhenUnneeded"}, (
        "a stage that failed stays failed"
    )


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_waits_for_and_holds_back_exactly_these(name: str) -> None:
    unit = read_unit(name)
    assert {key: words(unit, key) for key in RELATIONS if key in unit} == ORDER[name]


@pytest.mark.parametrize("name", [name for name in UNITS if name not in (CONFIG, FINAL)])
def test_no_unit_waits_for_the_whole_network_or_holds_back_what_starts_before_it(name: str) -> None:
    unit = read_unit(name)
    assert not words(unit, "After") & {"network-online.target", "network.target"}
    assert not words(unit, "Wants") & {"network-online.target"}
    held = words(unit, "Before") | words(unit, "WantedBy") | words(unit, "RequiredBy")
    assert not held & TOO_EARLY
    assert not {one for one in held if one.endswith(".socket")}


def test_only_the_unit_before_the_network_does_without_default_dependencies() -> None:
    assert {name: read_unit(name).get("DefaultDependencies") for name in UNITS} == {
        **dict.fromkeys(UNITS),
        LOCAL: ["no"],
    }


def test_they_run_on_azure_or_where_they_are_forced_and_never_where_they_are_switched_off() -> None:
    off = ("ConditionKernelCommandLine", "!azure-init=off")
    signs = {
        off,
        ("ConditionKernelCommandLine", "|azure-init=force"),
        ("ConditionFirmware", f"|{AZURE}"),
        ("ConditionVirtualization", "|microsoft"),
    }
    assert {name: conditions(read_unit(name)) for name in UNITS} == {
        RUN: signs,
        LOCAL: signs,
        RESEND: {off},
        HOSTNAME: {off},
        ADDRESSES: {off},
        DISK: signs,
        LATE: {off, ("ConditionPathExists", RESULT)},
        FAILURE: set(),
        DEADLINE: {off},
        **dict.fromkeys(USERDATA, signs),
        CONFIG: {*signs, ("ConditionPathExists", "!/run/azure-init/config-idle")},
    }, "the others are started by the run, or after it"


@pytest.mark.parametrize("page", ["operating.md", "packaging.md"])
def test_the_manual_names_every_sign_by_which_they_start(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text().split())
    assert "start where firmware carries Azure's tag, on any Hyper-V guest, and with `azure-init=force` on the" in text
    assert "skipped, unmet condition | not Azure's firmware" not in text


def test_only_the_two_that_begin_a_boot_are_enabled() -> None:
    enabled = {name: (words(read_unit(name), "WantedBy"), words(read_unit(name), "Also")) for name in UNITS}
    assert enabled == {
        **dict.fromkeys(UNITS, (set(), set())),
        RUN: ({"multi-user.target"}, {LOCAL}),
        LOCAL: ({"multi-user.target"}, set()),
    }
    preset = (ROOT / "packaging/azure-init.preset").read_text().splitlines()
    assert {line for line in preset if not line.startswith("#")} == {f"enable {RUN}", f"enable {LOCAL}"}


@pytest.mark.parametrize(
    ("name", "kind", "command", "remains"),
    [
        (RUN, "notify", "/usr/bin/azure-init", ["yes"]),
        (LOCAL, "oneshot", "/usr/bin/azure-init --stage local", ["yes"]),
        (FAILURE, "oneshot", "/usr/bin/azure-init --stage failed", None),
        (RESEND, "exec", "/usr/bin/azure-init --stage resend", None),
        (HOSTNAME, "exec", "/usr/bin/azure-init --stage hostname", None),
        (ADDRESSES, "exec", "/usr/bin/azure-init --stage addresses", None),
        (DISK, "oneshot", "/usr/bin/azure-init --stage disk", ["yes"]),
        (LATE, "oneshot", "/usr/bin/azure-init --stage disk", None),
        (DEADLINE, "oneshot", "/usr/bin/azure-init --stage deadline", None),
        (NETWORK, "oneshot", "/usr/bin/azure-init --stage network", ["yes"]),
        (CONFIG, "oneshot", "/usr/bin/azure-init --stage config", ["yes"]),
        (FINAL, "oneshot", "/usr/bin/azure-init --stage final", ["yes"]),
    ],
)
def test_what_a_unit_runs_and_when_that_counts_as_started(
    name: str, kind: str, command: str, remains: list[str] | None
) -> None:
    unit = read_unit(name)
    assert (unit["Type"], unit["ExecStart"], unit.get("RemainAfterExit")) == ([kind], [command], remains)


def test_systemd_ends_a_run_only_after_the_run_would_have_ended_itself() -> None:
    unit, boot = read_unit(RUN), Config.defaults_["boot"]
    assert int(unit["TimeoutStartSec"][0]) > boot.hold_logins_secs
    assert int(unit["RuntimeMaxSec"][0]) > boot.deadline_secs
    assert unit["SuccessExitStatus"] == ["75"], "a Ready that is not accepted yet is no failure"
    assert int(unit["TimeoutStartSec"][0]) > MOUNT_SECS
    assert read_unit(LOCAL)["TimeoutStartSec"] == ["30"], "the network waits for it"


def test_a_ready_that_is_not_accepted_is_tried_again_and_again() -> None:
    unit = read_unit(RESEND)
    assert (unit["Restart"], unit["RestartForceExitStatus"]) == (["on-failure"], ["75"])
    # By default, five starts in ten seconds are too many, and a unit is given up.
    assert int(unit["RestartSec"][0]) * 5 > 10


def test_the_unit_that_tells_of_a_death_can_do_no_more_than_that() -> None:
    unit = read_unit(FAILURE)
    capable = words(unit, "CapabilityBoundingSet")
    assert not capable & {"CAP_SYS_ADMIN", "CAP_SYS_RAWIO", "CAP_NET_ADMIN", "CAP_SETUID", "CAP_SETGID"}
    assert {"@mount", "@raw-io"} <= words(unit, "SystemCallFilter")
    assert unit["NoNewPrivileges"] == ["yes"]


@pytest.mark.parametrize("name", [RUN, RESEND, FAILURE])
def test_who_tells_a_failure_can_read_the_end_of_the_kernels_log(name: str) -> None:
    """Linux before 6.9 lets CAP_SYS_ADMIN do it, with a complaint; from then on nothing but CAP_SYSLOG does."""
    unit = read_unit(name)
    assert "CAP_SYSLOG" in words(unit, "CapabilityBoundingSet")
    assert not {"ProtectKernelLogs", "PrivateDevices", "ProtectClock", "DevicePolicy"} & set(unit)


@pytest.mark.parametrize("name", [DISK, LATE])
def test_the_units_for_disks_see_devices_and_the_machines_mounts_and_may_swap(name: str) -> None:
    unit = read_unit(name)
    assert not words(unit, "SystemCallFilter") & {"@mount", "@swap", "@raw-io"}
    assert {"CAP_SYS_ADMIN", "CAP_SYS_RAWIO"} <= words(unit, "CapabilityBoundingSet")
    apart = ("Private", "ProtectSystem", "ProtectHome", "ProtectKernel", "ProtectControl", "ReadOnly", "Inaccessible")
    assert not [key for key in unit if key.startswith(apart)], "a mount namespace hides the mounts from the machine"
    assert not {"ProtectClock", "DevicePolicy", "DeviceAllow", "MemoryMax", "NoNewPrivileges"} & set(unit)
    assert int(unit["TimeoutStartSec"][0]) > MOST_SECS > LOCK_SECS, "the stage ends itself first"


def test_both_units_for_disks_have_the_same_limits() -> None:
    hardening = ("CapabilityBoundingSet", "Restrict", "SystemCall", "Lock", "Memory", "Protect", "IPAddress")
    one, other = ({k: v for k, v in read_unit(name).items() if k.startswith(hardening)} for name in (DISK, LATE))
    assert one == other and len(one) > 8


def test_no_login_waits_for_a_disk() -> None:
    assert not (words(read_unit(DISK), "Before") | words(read_unit(LATE), "Before")) & (LOGINS | HOST_KEYS)


def test_udev_starts_an_instance_for_each_late_disk() -> None:
    """The rule tells candidates apart by what the agent takes as evidence; the agent decides."""
    rules = (ROOT / "packaging/disks/81-azure-init-disk-late.rules").read_text()
    lines = [line for line in rules.splitlines() if line and not line.startswith("#")]
    assert f'ENV{{SYSTEMD_WANTS}}+="{LATE.replace("@", "@%k")}"' in rules and 'TAG+="systemd"' in rules
    labels = {line.partition('"')[2].rstrip('"') for line in lines if line.startswith("LABEL=")}
    jumps = {line.rpartition('GOTO="')[2].rstrip('"') for line in lines if "GOTO=" in line}
    assert jumps == labels and len(labels) == 2
    for sign in ("Microsoft NVMe Direct Disk*", "{00000000-0001-*}", "{f8b3781a-1e82-4818-a1c3-63d806ec15bb}"):
        assert f'=="{sign}"' in rules


@pytest.mark.parametrize("name", USERDATA)
def test_what_a_user_runs_is_not_restricted_and_what_it_leaves_running_stays(name: str) -> None:
    unit = read_unit(name)
    service = {"Type", "RemainAfterExit", "ExecStart", "TimeoutStartSec", "KillMode", "StandardOutput"}
    assert {key for key in unit if not key.startswith("Condition")} <= service | {
        *RELATIONS,
        "Description",
        "Documentation",
    }
    assert unit["KillMode"] == ["process"]


def test_systemd_ends_a_stage_only_after_the_stage_would_have_ended_itself() -> None:
    """Even with the longest times that the configuration accepts."""
    verdict = Config.defaults_["wireserver"].total_retry_timeout_secs
    stages = {NETWORK: ("network_secs", 0), CONFIG: ("config_secs", verdict), FINAL: ("final_secs", 2 * verdict)}
    for name, (key, more) in stages.items():
        longest = MOST_SECONDS.get(f"userdata.{key}", LONGEST_SECONDS)
        assert int(read_unit(name)["TimeoutStartSec"][0]) > longest + more + LOCK_STAGE


def test_the_deadlines_unit_has_the_limits_of_the_unit_that_reports_a_death() -> None:
    hardening = ("CapabilityBoundingSet", "Restrict", "SystemCall", "Lock", "Memory", "Protect", "NoNew", "Inaccess")
    one, other = ({k: v for k, v in read_unit(n).items() if k.startswith(hardening)} for n in (DEADLINE, FAILURE))
    assert one == other and len(one) > 8
