"""The packages on real distributions: installed, upgraded, removed, purged; nothing is left behind or broken."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.container import PROJECT, debian_root
from support.need import need, need_root
from support.package_disks import Disk, install, older, python_minor

SUITES = ("bullseye", "bookworm", "trixie")
PARTS = ("", "-local", "-failure", "-resend", "-hostname", "-network", "-disk", "-disk-late@", "-deadline")
UNITS = (
    *(f"azure-init{part}.service" for part in PARTS),
    "azure-init-userdata.target",
    "azure-init-userdata-network.target",
    *(f"azure-init-userdata-{stage}.service" for stage in ("network", "config", "final")),
)
STATIC = UNITS[2:]
SHIM = "azure-init-waagent-shim_*.deb"
CONFFILE = "/etc/azure-init/azure-init.toml"
NETWORK_UNITS = "systemctl is-enabled systemd-networkd.service systemd-networkd.socket"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, so that whoever works on the project meanwhile does no harm."""
    copy = tmp_path_factory.mktemp("sources") / "azure-init"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "dist", "build")
    shutil.copytree(PROJECT, copy, ignore=ignore, ignore_dangling_symlinks=True)
    return copy


@pytest.fixture(scope="module")
def built(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_root()
    need("rpmbuild")
    out = tmp_path_factory.mktemp("dist")
    build(sources, out)
    return out


def build(sources: Path, out: Path) -> None:
    command = [sys.executable, str(sources / "scripts/package"), "--out", str(out)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


# Debian 11's systemd wants control groups for this, and words it otherwise.
checkable = pytest.mark.parametrize("machine", SUITES[1:], indirect=True)


@pytest.fixture(params=SUITES)
def disk(request: pytest.FixtureRequest, tmp_path: Path, built: Path) -> Disk:
    """With the distribution on it, and nothing of ours."""
    return Disk(tmp_path / "disk", built, debian_root(request.param))


@pytest.fixture(scope="module")
def installations(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """By distribution, what installing the package changes on its disk."""

    @functools.cache
    def changes(suite: str) -> Path:
        disk = Disk(tmp_path_factory.mktemp("installed") / suite, built, debian_root(suite))
        install(disk)
        return disk.place / "upper"

    return changes


@pytest.fixture(params=SUITES)
def machine(request: pytest.FixtureRequest, tmp_path: Path, built: Path, installations: Callable[[str], Path]) -> Disk:
    """With the package installed."""
    return Disk(tmp_path / "disk", built, installations(request.param), debian_root(request.param))


def test_installing_brings_a_command_that_is_compiled_and_enabled(disk: Disk) -> None:
    network = disk.try_run(NETWORK_UNITS).stdout
    said = install(disk)
    assert disk.try_run(NETWORK_UNITS).stdout == network != "", "who looks after the network is the image's business"
    assert "warning" not in said.lower() and "error" not in said.lower()
    assert disk.run("azure-init --version").startswith("azure-init ")
    assert "Usage: libazureinit-kvp" in disk.run("libazureinit-kvp --help")
    assert disk.run("azure-init config check") == "configuration: ok\n"
    tag = disk.run("python3 -c 'import sys; print(sys.implementation.cache_tag)'").strip()
    files = disk.files()
    assert f"/usr/lib/azure-init/boot.{tag}" in files
    assert f"/usr/lib/azure-init/azureinit/run/__pycache__/state.{tag}.pyc" in files
    for page in ("man8/azure-init.8", "man5/azure-init.toml.5", "man8/libazureinit-kvp.8"):
        assert f"/usr/share/man/{page}.gz" in files
    for place in ("bash-completion/completions/", "zsh/vendor-completions/_"):
        assert f"/usr/share/{place}azure-init" in files
    assert files["/etc/azure-init/azure-init.toml.d"].startswith("d 755 root:root")
    assert files["/var/lib/azure-init"].startswith("d 700 root:root")
    assert disk.run("azure-init clean") == "nothing to remove\n", "an image may be made of it at once"
    enabled = {unit: disk.try_run(f"systemctl is-enabled {unit}").stdout.strip() for unit in UNITS}
    assert enabled == {unit: "static" if unit in STATIC else "enabled" for unit in UNITS}


def test_what_the_package_runs_comes_out_of_the_one_file_and_without_it_out_of_the_directory(machine: Disk) -> None:
    probe = (
        "python3 -ISc \"import sys; sys.argv=['azure-init', '--version']; exec(open('/usr/bin/azure-init').read())\""
    )
    assert machine.run(probe).startswith("azure-init ")
    for damage in ("rm /usr/lib/azure-init/boot.*", "printf 'other byte code' > /usr/lib/azure-init/boot.$tag"):
        tag = "tag=$(python3 -c 'import sys; print(sys.implementation.cache_tag)'); "
        assert machine.run(f"{tag}{damage}; azure-init --version").startswith("azure-init ")


def test_another_python_makes_it_compile_again(machine: Disk) -> None:
    hook = "/usr/share/python3/runtime.d/azure-init.rtupdate"
    version = python_minor(machine)
    machine.run("cd /usr/lib/azure-init && mv boot.* boot.cpython-30")
    machine.run(f"{hook} pre-rtupdate python3.0 python3.{version}; {hook} rtupdate python3.0 python3.{version}")
    assert machine.run("cd /usr/lib/azure-init && echo boot.*") == f"boot.cpython-3{version}\n"


@pytest.mark.parametrize("machine", ["trixie"], indirect=True)
def test_where_it_cannot_be_compiled_python_is_upgraded_all_the_same(machine: Disk) -> None:
    hook = "/usr/share/python3/runtime.d/azure-init.rtupdate rtupdate python3.0 /bin/false 2>&1"
    assert (
        machine.run(hook) == "azure-init: compiling for /bin/false failed: azure-init works, but starts more slowly\n"
    )
    assert machine.run("azure-init --version").startswith("azure-init ")


def test_an_upgrade_keeps_what_was_changed_and_leaves_nothing_of_the_older_one(
    disk: Disk, built: Path, tmp_path: Path
) -> None:
    disk.packages = older(built, tmp_path)
    install(disk, "older.deb")
    assert "/usr/lib/azure-init/azureinit/bygone.py" in disk.files()
    disk.run(f"echo '# mine' >> {CONFFILE}; systemctl disable azure-init-local.service 2>/dev/null")
    install(disk)
    assert disk.read(CONFFILE).endswith("# mine\n")
    assert not [path for path in disk.files() if "bygone" in path]
    assert disk.try_run("systemctl is-enabled azure-init-local.service").stdout == "disabled\n"
    assert disk.run("systemctl is-enabled azure-init.service") == "enabled\n"
    assert "/usr/lib/azure-init/azureinit/__pycache__" in disk.files()


def test_removing_keeps_configuration_and_state_and_purging_leaves_what_was_there_before(disk: Disk) -> None:
    before = disk.files()
    install(disk)
    if python_minor(disk) >= 11:
        install(disk, "azure-init-fakeazure_*.deb")
    disk.run("touch /var/lib/azure-init/x.provisioned /var/log/azure-init.log")
    disk.run("dpkg --remove azure-init azure-init-fakeazure 2>&1")
    removed = set(disk.files()) - set(before)
    assert {CONFFILE, "/var/lib/azure-init/x.provisioned", "/var/log/azure-init.log"} <= removed
    assert not [path for path in removed if path.startswith("/usr/")]
    disk.run("dpkg --purge azure-init azure-init-fakeazure 2>&1")
    assert disk.files() == before


def test_purging_leaves_an_administrators_own_drop_in(machine: Disk) -> None:
    machine.run("echo '[user]' > /etc/azure-init/azure-init.toml.d/mine.toml; dpkg --purge azure-init 2>&1")
    assert machine.read("/etc/azure-init/azure-init.toml.d/mine.toml") == "[user]\n"


@pytest.mark.parametrize("machine", ["trixie"], indirect=True)
def test_purging_empties_a_data_directory_that_is_mounted(machine: Disk) -> None:
    mounted = "mount -t tmpfs tmpfs /var/lib/azure-init; touch /var/lib/azure-init/lock /var/log/azure-init.log"
    after = "ls -A /var/lib/azure-init; dpkg -s azure-init 2>&1 || :"
    said = machine.run(f"{mounted}; dpkg --purge azure-init 2>&1; {after}")
    assert "cannot remove all of /var/lib/azure-init and /run/azure-init" in said and "lock" not in said.splitlines()
    assert "is not installed" in said
    assert "/var/log/azure-init.log" not in machine.files()


def test_fakeazure_runs_and_needs_a_newer_python(disk: Disk) -> None:
    if python_minor(disk) >= 11:
        install(disk, "azure-init-fakeazure_*.deb")
        assert "ordinary" in disk.run("fakeazure scenarios")
    else:
        assert "depends on python3 (>= 3.11)" in disk.try_run("dpkg -i /mnt/azure-init-fakeazure_*.deb 2>&1").stdout
        ran = disk.try_run("fakeazure scenarios")
        assert ran.returncode == 1 and ran.stderr.startswith("fakeazure: needs Python 3.11 or newer")


def test_the_shim_answers_to_waagent_and_leaves_nothing_behind(machine: Disk) -> None:
    before = machine.files()
    refused = machine.try_run("waagent -version")
    assert refused.returncode == 127, "without it there is no such command"
    said = install(machine, SHIM)
    assert "warning" not in said.lower() and "error" not in said.lower()
    assert machine.files()["/usr/sbin/waagent"].split()[-1] == "../lib/azure-init/waagent"
    for word in ("-version", "--version", "/version", "version"):
        assert machine.run(f"waagent {word}").startswith("azure-init ")
    for words in ("-help", "-usage", "'-?'", ""):
        assert machine.run(f"waagent {words}").startswith("Usage: waagent ")
    shown = machine.run("waagent -show-configuration").splitlines()
    assert shown == sorted(shown) and "Provisioning.PasswordCryptId = 6" in shown
    for word in ("-daemon", "-frobnicate"):
        ran = machine.try_run(f"waagent {word}")
        assert ran.returncode == 2 and ran.stdout == "" and ran.stderr.startswith("waagent: ")
    ran = machine.try_run("waagent -configuration-path:/nowhere -version")
    assert ran.returncode == 1 and "there is no /nowhere" in ran.stderr
    assert machine.run("azure-init facts | grep -c '\"waagent\": null'") == "1\n", "it is not WALinuxAgent"
    machine.run("dpkg --purge azure-init-waagent-shim 2>&1; rm -rf /var/log/azure-init.log")
    assert machine.files() == before


def test_a_template_deprovisions_by_the_shim(machine: Disk) -> None:
    install(machine, SHIM)
    machine.run("useradd -m joe; usermod -aG adm joe; echo 'joe ALL=(ALL) ALL' >/etc/sudoers.d/azure-init-user")
    machine.run("echo web-1 >/etc/hostname; ssh-keygen -q -A")
    refused = machine.try_run("waagent -deprovision+user </dev/null")
    assert refused.returncode != 0 and machine.run("getent passwd joe"), "nobody said yes"
    machine.run("waagent -force -deprovision+user && export HISTSIZE=0 && sync")
    assert machine.try_run("getent passwd joe").returncode == 2
    assert not [
        path for path in machine.files() if path.startswith(("/home/", "/etc/ssh/ssh_host_", "/etc/sudoers.d/a"))
    ]
    assert machine.try_run("waagent -deprovision -force").returncode == 0, "twice is once"


def test_the_shim_and_walinuxagent_exclude_each_other(built: Path, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", built, debian_root("trixie", "waagent"))
    install(disk)
    refused = disk.try_run(f"dpkg -i /mnt/{SHIM} 2>&1")
    assert refused.returncode == 1 and "conflict" in refused.stdout
    assert disk.run("waagent -version").startswith("WALinuxAgent-")


@checkable
def test_systemd_finds_no_fault_in_the_units_and_no_cycle_with_the_ssh_socket(machine: Disk) -> None:
    machine.run("systemctl enable ssh.socket ssh.service systemd-networkd.service 2>&1")
    paths = " ".join(f"/usr/lib/systemd/system/{unit}" for unit in UNITS)
    alone = machine.try_run(f"systemd-analyze verify --man=no {paths}")
    assert alone.returncode == 0, alone.stderr
    assert not [line for line in alone.stderr.splitlines() if "azure-init" in line]
    whole = machine.try_run("systemd-analyze verify --man=no multi-user.target sockets.target ssh.service")
    assert "cycle" not in whole.stderr and "deleted to break" not in whole.stderr, whole.stderr


@checkable
def test_a_cycle_would_be_noticed(machine: Disk) -> None:
    machine.run("systemctl enable ssh.socket 2>&1; mkdir /etc/systemd/system/azure-init.service.d")
    machine.run("printf '[Unit]\\nBefore=ssh.socket\\n' > /etc/systemd/system/azure-init.service.d/wrong.conf")
    whole = machine.try_run("systemd-analyze verify --man=no multi-user.target")
    assert "ordering cycle" in whole.stderr


def test_udev_finds_no_fault_in_the_rules(built: Path, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", built, debian_root("trixie", "grub-pc-bin", "grub2-common", "udev"))
    install(disk)
    said = disk.run("udevadm verify /usr/lib/udev/rules.d/6[78]-azure-init-*.rules 2>&1")
    assert "Success: 3" in said and "Fail:    0" in said


@pytest.mark.parametrize("disk", ["trixie"], indirect=True)
def test_the_rpm_installs_and_erases_cleanly(disk: Disk) -> None:
    """rpm is a guest on this system and knows none of its packages, so dependencies are not asked for."""
    rpm = 'rpm --root "$root" --dbpath /var/lib/rpm --nodeps'
    disk.run("mkdir -p /var/lib/rpm")
    before = disk.files()
    disk.run(f'{rpm} --install "$root"/mnt/azure-init-*.rpm', outside=True)
    assert disk.run("azure-init --version").startswith("azure-init ")
    assert disk.run("waagent -version").startswith("azure-init ")
    assert "/usr/share/zsh/site-functions/_azure-init" in disk.files()
    assert disk.files()["/var/lib/azure-init"].startswith("d 700 root:root")
    assert [path for path in disk.files() if path.startswith("/usr/lib/azure-init/boot.cpython-")]
    assert disk.run("systemctl is-enabled azure-init.service azure-init-local.service") == "enabled\nenabled\n"
    disk.run(f"{rpm} --verify azure-init", outside=True)
    bygone = "/usr/lib/azure-init/azureinit/bygone"
    disk.run(f"mkdir -p {bygone}/__pycache__ && touch {bygone}/__pycache__/old.pyc")
    disk.run(f'{rpm} --upgrade --force "$root"/mnt/azure-init-*.rpm', outside=True)
    assert f"{bygone}/__pycache__/old.pyc" not in disk.files()
    disk.run(f"rmdir {bygone}")  # which no package ever owned
    assert [path for path in disk.files() if path.startswith("/usr/lib/azure-init/boot.cpython-")]
    assert [path for path in disk.files() if path.startswith("/usr/lib/azure-init-fakeazure/fakeazure/__pycache__/")]
    disk.run(f"echo '# mine' >> {CONFFILE}")
    assert disk.run("azure-nvme-id --version").startswith("azure-nvme-id ")
    assert disk.run("cloud-init --version").startswith("cloud-init (azure-init ")
    parts = "azure-init azure-init-cloud-init azure-init-disks azure-init-fakeazure azure-init-waagent-shim"
    disk.run(f"{rpm} --erase {parts}", outside=True)
    left = {path: told for path, told in disk.files().items() if path not in before}
    assert set(left) == {"/etc/azure-init", f"{CONFFILE}.rpmsave"}
    assert disk.read(f"{CONFFILE}.rpmsave").endswith("# mine\n")


def test_every_package_is_the_same_bytes_when_it_is_built_again(sources: Path, built: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        build(sources, tmp_path)
    finally:
        os.umask(before)
    digests = [
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.iterdir()}
        for place in (built, tmp_path)
    ]
    assert len(digests[0]) == 12
    assert digests[0] == digests[1]


def test_the_single_file_runs_by_itself(built: Path, tmp_path: Path) -> None:
    alone = tmp_path / "azure-init.pyz"
    shutil.copy(built / "azure-init.pyz", alone)
    alone.chmod(0o755)
    for command in ([str(alone)], ["/usr/bin/python3", "-IS", str(alone)]):
        ran = subprocess.run([*command, "--version"], capture_output=True, text=True, cwd="/", env={})
        assert ran.stdout.startswith("azure-init ") and ran.returncode == 0, ran.stderr
    ran = subprocess.run([str(alone), "--root", str(tmp_path), "config", "show"], capture_output=True, text=True)
    assert ran.returncode == 0 and "[imds]" in ran.stdout
    assert not [name for name in zipfile.ZipFile(alone).namelist() if "__pycache__" in name]


# systemd-networkd on three pairs of virtual cables, which stand for Azure's interfaces and a virtual function.
NETWORKD = """
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount --rbind /dev "$root/dev"
network=$root/usr/lib/systemd/network
sed -i 's/^Driver=.*/Driver=veth/' "$network/zzz-azure-init.network"
sed -i 's/^Driver=.*/Driver=veth\\nName=function/; /^Virtualization=/d' "$network/10-azure-init-vf.network"
printf '[Match]\\nName=configured\\n[Network]\\nDHCP=no\\n' > "$root/etc/systemd/network/wired.network"
printf '[Match]\\nType=ether\\nName=function\\n[Network]\\nDHCP=yes\\n' > "$root/etc/systemd/network/10-netplan.network"
ip link add bare type veth peer name configured
ip link add function type veth peer name other
ip link add eth0 type veth peer name another
netif=$root/run/systemd/netif
mkdir -p "$root/run/udev/data" "$netif/links" "$netif/leases" "$netif/lldp"
chroot "$root" chown -R systemd-network /run/systemd/netif
SYSTEMD_LOG_LEVEL=debug timeout 10 chroot "$root" /lib/systemd/systemd-networkd >"$root/run/said" 2>&1 &
decided='(bare|eth0|configured): Configuring with|function: State changed: .*-> unmanaged'
for _ in $(seq 100); do
    [ "$(grep -cE "$decided" "$root/run/said")" -ge 4 ] && break
    sleep 0.1
done
kill $! || true
cat "$root/run/said"
"""


@checkable
def test_the_default_network_gives_way_to_every_other_file_and_virtual_functions_are_left_alone(machine: Disk) -> None:
    said = machine.run(f"unshare --net sh -e <<'END'\n{NETWORKD}\nEND\n", outside=True)
    assert "bare: Configuring with /usr/lib/systemd/network/zzz-azure-init.network" in said
    assert "eth0: Configuring with /usr/lib/systemd/network/zzz-azure-init.network" in said
    assert "configured: Configuring with /etc/systemd/network/wired.network" in said
    assert "function: State changed: initialized -> unmanaged" in said
