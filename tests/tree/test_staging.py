"""The files of the packages: manual pages, completions and configuration, made from the option tables."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from azureinit.cli.commands import AZURE_INIT, VERBS
from azureinit.cli.help import ENVIRONMENT, EXIT_CODES
from azureinit.config.model import Config
from azureinit.version import VERSION
from support.need import need

pytestmark = pytest.mark.newer
ROOT = Path(__file__).parents[2]
PACKAGES = (
    "azure-init",
    "azure-init-fakeazure",
    "azure-init-waagent-shim",
    "azure-init-disks",
    "azure-init-cloud-init",
)
PAGES = (
    "man8/azure-init.8",
    "man5/azure-init.toml.5",
    "man8/libazureinit-kvp.8",
    "man1/fakeazure.1",
    "man7/azure-init-disks.7",
)
OPTIONS = {name for option in AZURE_INIT.options for name in option.names}
# The agent must not import packages installed on the machine; fakeazure may.
LAUNCHERS = {
    "usr/bin/azure-init": "#!/usr/bin/python3 -IS",
    "usr/bin/libazureinit-kvp": "#!/usr/bin/python3 -IS",
    "usr/lib/azure-init/waagent": "#!/usr/bin/python3 -IS",
    "usr/lib/azure-init/cloud-init": "#!/usr/bin/python3 -IS",
    "usr/lib/azure-init/cloud-id": "#!/usr/bin/python3 -IS",
    "usr/lib/azure-init/azure-nvme-id": "#!/usr/bin/python3 -IS",
    "usr/lib/azure-init/initramfs-files": "#!/usr/bin/python3 -IS",
    "usr/lib/azure-init/bundle": "#!/usr/bin/python3 -ISXno_debug_ranges",
    "usr/bin/fakeazure": "#!/usr/bin/python3 -I",
}
SCRIPTS = (
    "usr/bin/cloud-init-per",
    "usr/share/python3/runtime.d/azure-init.rtupdate",
    "usr/share/initramfs-tools/hooks/azure-init-disks",
    "usr/lib/dracut/modules.d/97azure-init-disks/module-setup.sh",
)
VF_RULES = "usr/lib/udev/rules.d/68-azure-init-vf.rules"
EMULATED_RULES = "usr/lib/udev/rules.d/68-azure-init-emulated.rules"
# The default networks, and what each matches: Azure, azure-init=force, and an emulator with Azure's firmware.
DEFAULTS = {
    "zzz-azure-init": ["Driver=hv_netvsc"],
    "zzz-azure-init-forced": ["KernelCommandLine=azure-init=force", "Name=eth* en*"],
    "zzz-azure-init-emulated": ["Property=ID_AZURE_INIT_EMULATED=1"],
}
# Words on the command line, and candidates that must be offered.
TYPED = {
    "azure-init ": set(VERBS),
    "azure-init -": OPTIONS,
    "azure-init --root plan config ": {"show", "check", "schema"},
    "azure-init config show --": {"--json", "--root"},
    "azure-init --config x.toml plan --": {"--json", "--check", "--config"},
    "azure-init clean --": {"--logs"},
    "azure-init deprovision --user ": set(),  # the value may be left out
    "azure-init deprovision --user --": {"--force", "--dry-run"},
    "azure-init help ": set(VERBS),
    "azure-init --stage ": {"local", "failed", "resend", "hostname"},
    "azure-init kvp --pool guest ": {"dump", "read", "explain", "report-failure"},
    "azure-init kvp dump --kind ": {"start", "finish", "event"},
    "libazureinit-kvp ": {"info", "dump", "is-stale", "watch"},
    "libazureinit-kvp report-failure --": {"--reason", "--supporting-data", "--pool"},
    "azure-nvme-id --format ": {"plain", "json"},
    "azure-nvme-id --": {"--debug", "--udev", "--format"},
    "fakeazure ": {"run", "scenarios", "judge", "new"},
    "fakeazure run imds": {"imds-404", "imds-truncated"},
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stage")
    for package in PACKAGES:
        stage(package, place)
    return place


def stage(package: str, place: Path) -> None:
    command = [sys.executable, "-B", str(ROOT / "packaging/stage.py"), package, str(place), "--debian"]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    assert ran.returncode == 0, ran.stderr


def share(tree: Path, name: str) -> Path:
    return tree / "usr/share" / name


@pytest.mark.parametrize("page", PAGES)
def test_manual_pages_are_without_fault(tree: Path, tmp_path: Path, page: str) -> None:
    plain = tmp_path / Path(page).name
    plain.write_bytes(gzip.decompress(share(tree, f"man/{page}.gz").read_bytes()))
    assert not re.search(r"@[A-Z]+@", plain.read_text())
    ran = subprocess.run([need("mandoc"), "-Tlint", "-Wwarning", str(plain)], capture_output=True, text=True)
    assert ran.stdout + ran.stderr == ""


def shown(tree: Path, page: str) -> str:
    data = gzip.decompress(share(tree, f"man/{page}.gz").read_bytes())
    ran = subprocess.run([need("mandoc"), "-Tutf8", "-Owidth=300"], input=data, capture_output=True, check=True)
    return re.sub(r".\x08", "", ran.stdout.decode())


def test_the_manual_page_tells_every_command_and_option(tree: Path) -> None:
    text = shown(tree, PAGES[0])
    missing = [word for word in (*VERBS, *OPTIONS, "--json", "--check", "--logs") if f"{word}" not in text]
    assert not missing


def test_the_manual_page_explains_what_each_command_takes(tree: Path) -> None:
    text = shown(tree, PAGES[0])
    assert "deprovision [--user [name]] [--lock-root] [--force] [--dry-run]\n" in text
    for told in (
        "--user [name]\n",
        "Also remove the provisioned account (or name)",
        "Do not ask",
        "Also remove the log",
        "Exit 3 when",
    ):
        assert told in text
    assert "Work on the file tree in dir;" in text


def test_the_manual_page_lists_environment_and_exit_codes_of_the_help(tree: Path) -> None:
    text = shown(tree, PAGES[0])
    for title, rows in (("ENVIRONMENT", ENVIRONMENT), ("EXIT STATUS", EXIT_CODES)):
        section = re.split(r"\n(?=[A-Z])", text.partition(f"\n{title}\n")[2])[0]
        entries = re.findall(r"^ {5}(\S+)\s+(.*)$", section, re.MULTILINE)
        assert entries == [(str(name), f"{told[0].upper()}{told[1:]}.") for name, told in rows]


def test_manual_pages_show_words_that_are_typed_as_they_are_typed(tree: Path) -> None:
    platform, pools = shown(tree, PAGES[3]), shown(tree, PAGES[2])
    assert re.search(r"^ +run .* -- command \.\.\.$", platform, re.MULTILINE)
    assert "--accel auto|kvm|tcg\n" in platform and "--by address|path\n" in platform
    assert "Write to disk itself" in platform and " DISK" not in platform
    assert re.search(r"--pool pool\n +The pool to use.*\[possible values: external, guest", pools)


@pytest.mark.parametrize("page", PAGES)
def test_a_manual_page_says_whose_it_is_at_its_foot(tree: Path, page: str) -> None:
    assert re.fullmatch(rf"azure-init {VERSION} .* azure-init {VERSION}", shown(tree, page).splitlines()[-1])


def test_the_manual_page_tells_every_setting(tree: Path) -> None:
    text = shown(tree, PAGES[1])
    for section, record in Config.defaults_.items():
        block = text.partition(f"[{section}]\n")[2].partition("\n   [")[0]
        assert [key for key in type(record).fields_ if f"     {key}" not in block] == []


def test_the_shipped_configuration_changes_nothing_and_uncommented_says_the_defaults(
    tree: Path, tmp_path: Path
) -> None:
    text = (tree / "etc/azure-init/azure-init.toml").read_text()
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == []
    chosen = tmp_path / "all.toml"
    chosen.write_text(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE))
    assert "[imds]\n" in chosen.read_text()
    defaults, said = (configured(tmp_path, *words) for words in ([], ["--config", str(chosen)]))
    assert re.sub(r" *# .*", "", defaults) == re.sub(r" *# .*", "", said)
    unset = [line for line in said.splitlines() if "# default" in line and not line.startswith("# kvp_filter is unset")]
    assert all("groups" in line for line in unset), "user.groups has no value that means unset"


def configured(root: Path, *words: str) -> str:
    command = [sys.executable, "-m", "azureinit", "--root", str(root), *words, "config", "show"]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    return ran.stdout


def offered(shell: str, tree: Path, line: str) -> set[str]:
    return {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}[shell](tree, line)


def in_bash(tree: Path, line: str) -> set[str]:
    program, words = line.split(" ")[0], line.split(" ")
    script = f"""
        compopt() {{ :; }}
        source {share(tree, f"bash-completion/completions/{program}")}
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)}) COMP_CWORD={len(words) - 1}
        _{program.replace("-", "_")}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return lines_of(need("bash"), "--norc", "-ec", script)


def in_zsh(tree: Path, line: str) -> set[str]:
    """Replaces the completion functions of zsh by ones that print their arguments; filters by the word, as zsh does."""
    program, words = line.split(" ")[0], line.split(" ")
    script = f"""
        _describe() {{ local name=${{@[-1]}}; print -l -- ${{${{(P)name}}%%:*}} }}
        compadd() {{ shift; print -l -- $@ }}
        _files() {{ : }}
        _groups() {{ : }}
        _message() {{ : }}
        words=({" ".join(f"'{word}'" for word in words)}) CURRENT={len(words)}
        source {share(tree, f"zsh/vendor-completions/_{program}")}
    """
    return {word for word in lines_of(need("zsh"), "-f", "-ec", script) if word.startswith(words[-1])}


def in_fish(tree: Path, line: str) -> set[str]:
    program = line.split(" ")[0]
    path = share(tree, f"fish/vendor_completions.d/{program}.fish")
    return lines_of(need("fish"), "--no-config", "-c", f"source {path}; complete -C '{line}'")


def lines_of(*command: str) -> set[str]:
    ran = subprocess.run(
        command, capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    )
    assert ran.returncode == 0, ran.stderr
    return {line.partition("\t")[0] for line in ran.stdout.splitlines()} - {""}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("line", TYPED)
def test_what_is_typed_is_completed(tree: Path, shell: str, line: str) -> None:
    found = offered(shell, tree, line)
    assert TYPED[line] - short(shell, TYPED[line]) <= found
    assert all(word.startswith(line.split(" ")[-1]) for word in found)


def short(shell: str, words: Iterable[str]) -> set[str]:
    """fish lists short options only after one has been typed, together with those that may follow it."""
    return {word for word in words if shell == "fish" and re.fullmatch(r"-\w", word)}


def test_launchers_are_isolated_from_everything_else_in_python(tree: Path) -> None:
    assert {path: (tree / path).read_text().partition("\n")[0] for path in LAUNCHERS} == LAUNCHERS
    assert {(tree / path).stat().st_mode & 0o777 for path in LAUNCHERS} == {0o755}
    started = [path for path in tree.rglob("*") if path.is_file() and path.stat().st_mode & 0o111]
    assert {str(path.relative_to(tree)) for path in started if not path.is_symlink()} == {*LAUNCHERS, *SCRIPTS}


def settings(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def test_no_default_network_takes_an_interface_for_the_primary_by_its_name(tree: Path) -> None:
    """The run knows which one is the primary, and gives the others higher metrics."""
    for path in (tree / "usr/lib/systemd/network").glob("zz*.network"):
        assert "Name=eth0" not in settings(path)


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_network_asks_for_an_address_by_mac_on_azures_interface_and_nowhere_else(
    tree: Path, name: str
) -> None:
    assert settings(tree / f"usr/lib/systemd/network/{name}.network") == [
        "[Match]", *DEFAULTS[name], "Property=!ID_AZURE_INIT_ELSEWHERE=1", "[Network]", "DHCP=yes", "[DHCPv4]",
        "ClientIdentifier=mac",
        "RoutesToDNS=no", "RouteMetric=100", "[IPv6AcceptRA]", "RouteMetric=100",
    ]  # fmt: skip


def test_a_card_of_qemu_is_azures_only_where_firmware_says_so(tree: Path) -> None:
    rules = settings(tree / EMULATED_RULES)
    assert all(rule.endswith('GOTO="azure_init_emulated_end"') for rule in rules[:-2])
    assert 'ATTR{[dmi/id]chassis_asset_tag}!="7783-7084-3265-9085-8269-3286-77"' in rules[2]
    assert rules[-2:] == [
        'ATTR{type}=="1", DRIVERS=="virtio_net", ENV{ID_AZURE_INIT_EMULATED}="1"',
        'LABEL="azure_init_emulated_end"',
    ]


def test_what_the_network_is_can_be_switched_off_as_each_file_says(tree: Path) -> None:
    for place in ("systemd/network", "udev/rules.d"):
        for path in (tree / "usr/lib" / place).iterdir():
            assert f"# To switch it off: ln -s /dev/null /etc/{place}/{path.name}\n" in path.read_text()


def test_the_data_directory_is_there_and_roots_alone(tree: Path) -> None:
    data = tree / "var/lib/azure-init"
    assert data.stat().st_mode & 0o777 == 0o700 and list(data.iterdir()) == []


def test_virtual_functions_stay_unmanaged_on_azure(tree: Path) -> None:
    drivers = {"mlx4_core", "mlx5_core", "mana"}
    match, driver, kind = settings(tree / "usr/lib/systemd/network/10-azure-init-vf.network")[1:4]
    assert (match, kind) == ("Virtualization=microsoft", "Type=ether")
    assert set(driver.partition("=")[2].split()) == drivers | {"mlx4_en"}, "mlx4_core's, as ethtool calls them"
    rules = settings(tree / VF_RULES)
    assert rules[-1] == 'LABEL="azure_init_vf_end"'
    assert all(rule.endswith('GOTO="azure_init_vf_end"') for rule in rules[:-2])
    assert 'ATTR{[dmi/id]chassis_asset_tag}!="7783-7084-3265-9085-8269-3286-77"' in rules[2]
    conditions, _, marks = rules[-2].partition(", ENV{")
    (named,) = re.findall(r'DRIVERS=="(.*?)"', conditions)
    assert 'ATTR{type}=="1"' in conditions and set(named.split("|")) == drivers
    assert 'NM_UNMANAGED}="1"' in marks and 'ID_NET_MANAGED_BY}="unmanaged"' in marks


def test_no_script_of_a_package_enables_units_of_other_packages() -> None:
    """The packages install a default network configuration, but do not decide whether networkd runs."""
    scripts = [path for path in (ROOT / "packaging/debian").iterdir() if path.suffix in (".postinst", ".prerm")]
    for path in (*scripts, ROOT / "packaging/azure-init.spec", ROOT / "packaging/azure-init.preset"):
        assert "networkd" not in path.read_text(), path


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("dpkg-deb")
    place = tmp_path_factory.mktemp("debs")
    command = [sys.executable, str(ROOT / "scripts/package"), "--out", str(place), "deb"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return place


def of_deb(debs: Path, package: str, *words: str) -> tuple[str, ...]:
    (deb,) = debs.glob(f"{package}_*_all.deb")
    ran = subprocess.run(["dpkg-deb", words[0], str(deb), *words[1:]], capture_output=True, text=True)
    return tuple(ran.stdout.splitlines()) if ran.returncode == 0 else ()


def test_debian_is_told_which_file_belongs_to_the_administrator(debs: Path) -> None:
    conffiles = {package: of_deb(debs, package, "--info", "conffiles") for package in PACKAGES}
    assert conffiles == {
        **dict.fromkeys(PACKAGES, ()),
        "azure-init": ("/etc/azure-init/azure-init.toml", "/etc/needrestart/conf.d/azure-init.conf"),
        "azure-init-disks": ("/etc/azure-init/azure-init.toml.d/azure-init-disks.toml",),
        "azure-init-cloud-init": ("/etc/azure-init/azure-init.toml.d/azure-init-cloud-init.toml",),
    }


def test_every_manual_page_is_in_the_package_of_its_program(debs: Path) -> None:
    held = {package: {line.split()[5] for line in of_deb(debs, package, "--contents")} for package in PACKAGES}
    pages = {package: {path for path in held[package] if path.endswith(".gz") and "/man/" in path} for package in held}
    agent, platform, disks = (
        {f"./usr/share/man/{page}.gz" for page in some} for some in (PAGES[:3], PAGES[3:4], PAGES[4:])
    )
    assert pages == {
        PACKAGES[0]: agent,
        PACKAGES[1]: platform,
        PACKAGES[2]: set(),
        PACKAGES[3]: disks,
        PACKAGES[4]: set(),
    }
    assert platform == {"./usr/share/man/man1/fakeazure.1.gz"}


def test_nothing_of_the_building_machine_gets_into_a_package(tree: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        for package in PACKAGES:
            stage(package, tmp_path / "again")
    finally:
        os.umask(before)
    assert contents(tmp_path / "again") == contents(tree)


def contents(tree: Path) -> list[tuple[str, int, int, bytes]]:
    return [
        (
            str(path.relative_to(tree)),
            path.stat().st_mode,
            int(path.stat().st_mtime),
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(tree.rglob("*"))
    ]


def test_the_single_file_is_built_where_there_is_no_git(tmp_path: Path) -> None:
    """It can be built from an unpacked archive, on a machine that has only Python."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    command = [sys.executable, str(ROOT / "scripts/package"), "--out", str(tmp_path), "pyz"]
    ran = subprocess.run(command, capture_output=True, text=True, env={"PATH": str(tmp_path / "bin")})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "azure-init.pyz").exists()
