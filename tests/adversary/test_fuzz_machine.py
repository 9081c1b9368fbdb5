"""Mutated files of the machine (keys, configurations, azure-init's records): a value or the declared error."""
# ruff: noqa: E501 - documents are kept as they are written

from __future__ import annotations

import json
import random
import subprocess
import tomllib
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from azureinit.addresses import parse_url
from azureinit.config.filters import parse_filter
from azureinit.config.plain import parse_plain
from azureinit.config.waagent import agent_advice, parse_waagent_conf, translate
from azureinit.errors import (
    ConfigInvalid,
    HttpFailed,
    InvalidKey,
)
from azureinit.facts.accounts import nss_problem, parse_group, parse_passwd, parse_subids
from azureinit.facts.bootloader import parse_added, parse_assignments, parse_entry, parse_environment, parse_menu
from azureinit.facts.disks import parse_btrfs, parse_ext, parse_mount, parse_xfs
from azureinit.facts.distros import choose_distro, parse_os_release
from azureinit.facts.ignition import parse_result
from azureinit.facts.kernel import parse_release
from azureinit.facts.labels import parse_config
from azureinit.facts.machine_state import parse_sudoer
from azureinit.facts.network import parse_arp, parse_resolv
from azureinit.facts.policy import parse_policy
from azureinit.facts.sshd_answer import parse_answer, parse_version
from azureinit.facts.sshd_config import Walk, lines_of, matches, parse_line
from azureinit.kvp.diagnostics import Diagnostic
from azureinit.kvp.entries import entry_as_json, entry_as_text, parse_entries
from azureinit.kvp.explain import explain
from azureinit.kvp.moments import is_canonical, utc
from azureinit.kvp.records import KvpUnreadable, parse_leniently, parse_records
from azureinit.kvp.report import ReportMalformed, encode_fields, encoded, parse_fields, parse_report, parse_supporting
from azureinit.machine.kmsg import parse_record
from azureinit.memory.journal import Journal, parse_journal
from azureinit.pubkey import key_identity, parse_key
from azureinit.sources.identity import parse_vm_id
from azureinit.sources.media import unescaped
from azureinit.telemetry.collector import parse_pairs
from support.bounds import SEED, bounded
from support.fuzz import Target, run
from support.need import need
from support.ssh_trees import POINTS, blob, ed25519

FEW, MANY = 1500, 60_000
VM_ID = "550e8400-e29b-41d4-a716-446655440000"
EVENT = "8f3e9c4a-1b2c-4d5e-9f01-234567890abc"
AT = "2026-01-02T03:04:05.678Z"
JSON_WORDS = tuple(
    b'{|}|[|]|:|,|"a"|"compute"|"osProfile"|"publicKeys"|"keyData"|"vmId"|null|true|false|"\\ud800"|"\\u0000"|NaN|-Infinity|1e400'
    b'|"ppsType"|"extended"|"hasCustomData"|""|[[[[[[[[|{"a":{"a":|\\u0041|\\x'.split(b"|")
)


def text(data: bytes) -> str:
    """Any string, half of them with bytes that were no characters."""
    return data.decode("utf-8", "surrogateescape" if len(data) % 2 else "replace")


# ---- keys and sshd

KEYS = (
    ed25519("k", "ada@example"),
    f"ssh-rsa {blob('ssh-rsa', bytes((1, 0, 1)), bytes((0,)) + bytes((0xC5,)) * 256)} rsa",
    f"ecdsa-sha2-nistp256 {blob('ecdsa-sha2-nistp256', 'nistp256', POINTS[256])}",
    f"ecdsa-sha2-nistp521 {blob('ecdsa-sha2-nistp521', 'nistp521', POINTS[521])}",
    'command="echo \\"a b\\"",from="10.0.0.*" ' + ed25519("m"),
    "---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n---- END SSH2 PUBLIC KEY ----",
)


def try_key(data: bytes) -> None:
    string = text(data)
    key_identity(string)
    line = parse_key(string)
    assert line.count("\n") == 1 and line.endswith("\n") and "\r" not in line
    assert parse_key(line) == line
    assert key_identity(line) is not None
    line.encode()


def try_key_inside(data: bytes) -> None:
    """Any bytes in base64 behind each kind."""
    for kind in ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp384", "sk-ecdsa-sha2-nistp256@openssh.com"):
        try:
            parse_key(f"{kind} {b64encode(data).decode()}")
        except InvalidKey:
            pass


SSHD = b"""# The packaged file
Include /etc/ssh/sshd_config.d/*.conf\nPort 22\nPasswordAuthentication no\nAuthorizedKeysFile .ssh/authorized_keys "a b"
AllowUsers ada@10.0.0.0/8 !root\nMatch User ada Address 10.0.0.0/8,!10.1.0.0/16\n  PubkeyAuthentication=yes
Match all\n\tHostKey /etc/ssh/ssh_host_ed25519_key\nSubsystem sftp "/usr/lib/s ftp" # x\n"""
SSHD_WORDS = tuple(
    b"Match |Match all\n|User |Group |Include |PasswordAuthentication |yes|no|AllowUsers |=|\n|*|?|[a-z]|[!|]|\\|'|\"|#|,|!"
    b"|10.0.0.0/8|AuthorizedKeysFile |%h/%u|none|/etc/ssh/a".split(b"|")
)


def try_sshd(data: bytes) -> None:
    for line in lines_of(data):
        keyword, arguments = parse_line(line)
        assert keyword or not arguments
        for argument in arguments[:3]:
            matches("sshd_config.d", argument)
    found = {"/etc/ssh/sshd_config": data, "/etc/ssh/a": data[::-1]}
    walk = Walk("/etc/ssh/sshd_config", read=found.get, expand=lambda pattern: (pattern,), aliases={})
    assert len(walk.files) <= 2
    parse_answer(data)
    parse_version(text(data))


# ---- configuration

TOML = b"""# azure-init\n[imds]\nconnection_timeout_secs = 2.0\nretry_interval_secs = 5\nendpoint = "http://169.254.169.254"
[user]\ngroups = [\n  "wheel",\n  'sudo'\n]\n[ssh]\nregenerate_host_keys = true\nhost_key_types = ["rsa", "ed25519"]
[telemetry] # end\nkvp_diagnostics=false\nx = -0.5\ny = +7\n"""
TOML_WORDS = tuple(
    b'[a]|[a.b]|[[a]]|a = |b=|"x"|\'y\'|"""|\\|\\u0041|[|]|,|{|}|true|false|1_000|0x1F|1e3|inf|nan|1979-05-27|-0|+1|.5|5.'
    b'|\n|\r\n|# c|"a b" = 1|a.b = 2|\t'.split(b"|")
)


def try_toml(data: bytes) -> None:
    """Where the plain reader answers, the real one answers the same; where that refuses, so does the plain one."""
    try:
        string = data.decode()
    except UnicodeDecodeError:
        return
    plain = parse_plain(string)
    if plain is None:
        return
    assert repr(plain) == repr(tomllib.loads(string))


WAAGENT = b"""# Microsoft Azure Linux Agent Configuration
Provisioning.Agent=auto\nProvisioning.DeleteRootPassword=y\nProvisioning.RegenerateSshHostKeyPair=y
Provisioning.SshHostKeyPairType=auto\nProvisioning.MonitorHostName=n # x\nResourceDisk.SwapSizeMB=0\nOS.RootDeviceScsiTimeout=300
HttpProxy.Host=None\nAutoUpdate.Enabled="y"\nOS.SshClientAliveInterval=180\nLib.Dir=/var/lib/waagent\n"""


def try_waagent(data: bytes) -> None:
    conf = parse_waagent_conf(data)
    imported = translate(conf)
    for row in (*imported.gone, *imported.theirs, *imported.unknown):
        assert row.told.isprintable() and row.option.isprintable()
    assert all(warning.isprintable() for warning in imported.warnings)
    agent_advice(conf, cloud_init=True)


def try_small_texts(data: bytes) -> None:
    string = text(data)
    parse_filter(string)
    parse_pairs(string)
    parse_vm_id(string, swapped=True)
    parse_release(string)
    moment = utc(string)
    assert moment is None or utc(moment) == moment
    is_canonical(string)
    unescaped(data)
    parse_record(data)


def try_url(data: bytes) -> None:
    host, port, path = parse_url(text(data))
    assert host and 0 < port < 65536 and path.startswith("/")
    assert all(letter.isascii() and letter.isprintable() and letter != " " for letter in host + path)


# ---- files of the machine

MACHINE_FILES = (
    b"root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000:Ada,,,:/home/ada:/bin/sh\n+::::::\n",
    b"root:x:0:\nwheel:x:10:ada,root\nada:x:1000:\n",
    b"passwd: files [SUCCESS=merge] systemd sss\ngroup: files\nshadow: files\n",
    b"ada:100000:65536\nbob:165536:65536\n",
    b'ID=debian\nID_LIKE="rhel fedora"\nVERSION_ID=\'12\'\nPRETTY_NAME="Debian GNU/Linux 12"\n',
    b"UID_MIN 1000\nUID_MAX 60000\nUMASK 022\nCREATE_HOME yes\nENCRYPT_METHOD SHA512\n",
    b"SHELL=/bin/sh\nHOME=/home\nSKEL=/etc/skel\n",
    b"36 35 98:0 /mnt1 / rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue\n",
    b"GRUB_CMDLINE_LINUX=\"console=ttyS0 rootdelay=300\"\nGRUB_CMDLINE_LINUX_DEFAULT='quiet'\n",
    b"\tlinux /vmlinuz root=UUID=1 ro console=ttyS0\n\tinitrd /initrd\n",
    b"title x\noptions root=/dev/sda1 $kernelopts ro\nlinux /vmlinuz\n",
    b"# GRUB Environment Block\nkernelopts=root=/dev/sda1 ro\n#####",
    b"ada ALL=(ALL) NOPASSWD:ALL\nDefaults x\n",
    b'{"username":"ada","hostname":"web"}',
    b"nameserver 168.63.129.16\nsearch internal.cloudapp.net\n",
    b"IP address       HW type     Flags       HW address            Mask     Device\n10.0.0.1 0x1 0x0 00:00:00:00:00:00 * eth0\n",
    b"SELINUX=enforcing\nSELINUXTYPE=targeted\n",
    b'{"provisioningBootID":"x","userConfigProvided":true}',
    bytes(1024 + 56) + b"\x53\xef" + bytes(2000),
    b"XFSB" + bytes(200),
    bytes(64) + b"_BHRfS_M" + bytes(4000),
)


def try_machine_files(data: bytes) -> None:
    for user in parse_passwd(data):
        assert user.uid >= 0
    parse_group(data)
    parse_subids(data)
    nss_problem(data, data)
    choose_distro(parse_os_release(data))
    parse_policy(data, data)
    parse_mount(data, "/")
    parse_assignments([data], ("GRUB_CMDLINE_LINUX",))
    parse_menu(data)
    parse_entry(data, parse_environment(data))
    parse_added(data)
    parse_sudoer(data)
    parse_resolv(data)
    parse_arp(data)
    parse_config(data)
    parse_result(data)
    for parse in (parse_ext, parse_xfs, parse_btrfs):
        parse(data)


JOURNAL = b"""{"run":1700000000.5,"boot":"b","pid":77,"temporaries":["/etc/.passwd.azure-init"],"locks":["/etc/.pwd.lock"]}
{"done":"password ada","backend":"files"}\n{"host keys":["/etc/ssh/ssh_host_rsa_key"]}\n{"end":true}\n{"locks":["/x"],"boot":"c","pid":1}\n"""


def try_journal(data: bytes) -> None:
    journal = Journal("/x", parse_journal(data), torn=True)
    assert all(isinstance(step, str) for step in journal.done)


# ---- KVP


def record(key: str, value: str) -> bytes:
    return key.encode().ljust(512, b"\0") + value.encode().ljust(2048, b"\0")


REPORT = f'result=error|reason=x y|agent=azure-init/1|"error=a|b"|pps_type=None|vm_id={VM_ID}|timestamp={AT}'
DIAGNOSTIC = f"DIAG|azure-init|{VM_ID}|finish|run|{EVENT}|{AT}|none|success|1.5|0"
CLOUD = f'{{"name":"m","type":"finish","ts":"{AT}","result":"WARN","duration":0.5,"msg":"two"}}'
OLD = f"azure-init-0.1.1|{VM_ID}|INFO|span|{EVENT}"
PAIRS = (
    ("PROVISIONING_REPORT", REPORT),
    (DIAGNOSTIC, "hello"),
    (DIAGNOSTIC.replace("none", "gz+b64"), "H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA=="),
    (f"CLOUD_INIT|1|finish|m|{EVENT}", CLOUD),
    (OLD, f"Time: {AT} | Event: message"),
    (OLD, f"Start: {AT} | End: {AT}"),
    ("HostName", "web-1"),
)


def try_pool(data: bytes) -> None:
    """As a pool, leniently and strictly; and cut into keys and values of any length."""
    parse_leniently(data)
    try:
        pairs = parse_records(data)
    except KvpUnreadable:
        pairs = []
    string = data.decode("utf-8", "replace")
    pairs += [tuple(line.partition("\t")[::2]) for line in string.split("\n")]  # type: ignore[misc]
    for entry in parse_entries(pairs):
        json.dumps(entry_as_json(entry))
        assert isinstance(entry_as_text(entry), str)
        if isinstance(entry, Diagnostic):
            assert entry.result in (None, "success", "warn", "fail")
    assert all(sentence.isprintable() for sentence in explain(pairs))


def try_report(data: bytes) -> None:
    """What can be read can be written, and reads as the same."""
    string = data.decode("utf-8", "replace")
    try:
        parse_supporting(string)
    except ValueError:
        pass
    pairs = parse_fields(string)
    plain = [(key, value) for key, value in pairs if "\0" not in key + value]
    assert not plain or parse_fields(encode_fields(plain)) == plain
    report = parse_report(string)
    if "\0" not in string:
        assert parse_report(encoded(report)) == report


# ---- the table

TARGETS = (
    Target("key", try_key, tuple(key.encode() for key in KEYS), (b"ssh-rsa ", b"AAAA", b'"', b"\r\n"), (InvalidKey,)),
    Target("key inside", try_key_inside, tuple(b64decode(key.split()[1]) for key in KEYS[:4])),
    Target("sshd_config", try_sshd, (SSHD,), SSHD_WORDS),
    Target("toml", try_toml, (TOML,), TOML_WORDS),
    Target("waagent.conf", try_waagent, (WAAGENT,), (b"=", b"\n", b"y", b"None", b"OS.", b"#"), (ConfigInvalid,)),
    Target("small texts", try_small_texts, (AT.encode(), VM_ID.encode(), b"info,a::b=debug", b"6,1,2,-;boo\n", b"a=b,c=d",
                                            b"6.1.0-25-amd64", b"/a\\040b"), (b"T", b"Z", b"+00:00", b"=", b",")),
    Target("url", try_url, (b"http://168.63.129.16:80/a?b=c", b"http://[::1]/x"), (b"http://", b":", b"@"), (HttpFailed,),
           longest_error=1 << 20),
    Target("machine files", try_machine_files, MACHINE_FILES, (b":", b"=", b"\n", b'"', b"'", b"$", b"[", b"{"), cost=3),
    Target("journal", try_journal, (JOURNAL,), JSON_WORDS),
    Target("pool", try_pool, (b"".join(record(*pair) for pair in PAIRS),
                              "\n".join("\t".join(pair) for pair in PAIRS).encode()), (b"\t", b"\n", b"|", b"DIAG|"), cost=3),
    Target("report", try_report, (REPORT.encode(),), (b"|", b'"', b"'", b"=", b"result=success"), (ReportMalformed,),
           longest_error=1 << 20),
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_only_values_and_declared_errors(target: Target) -> None:
    tally = run(target, bounded(FEW, MANY) // target.cost, SEED)
    assert tally.tried > tally.refused, f"{target.name}: nothing was accepted, so little was tried: {tally}"


def test_sshd_reads_a_line_as_we_do(tmp_path: Path) -> None:
    """Judged by the real one; what it refuses to start with is not compared."""
    rng = random.Random(SEED)
    sshd, file, key = need("sshd"), tmp_path / "sshd_config", tmp_path / "key"
    subprocess.run([need("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    words = ("PasswordAuthentication", "passwordauthentication", "Password", "Authentication", "no", "no", "yes", "=", " ",
             " ", "\t", '"', "'", "#", "\\", "\f", "\r", "Match all", "\n", "\0")  # fmt: skip
    judged = 0
    for _ in range(bounded(80, 4000)):
        data = "".join(rng.choice(words) for _ in range(rng.randrange(2, 9))).encode()
        if rng.random() < 0.7:
            data = data.replace(b"no", b"PasswordAuthentication no", 1)
        file.write_bytes(data + b"\n")
        said = subprocess.run([sshd, "-T", "-f", str(file), "-h", str(key)], capture_output=True, text=True)
        if said.returncode:
            continue
        judged += 1
        walk = Walk(str(file), read=lambda _path, data=data: data, expand=lambda _pattern: (), aliases={})  # type: ignore[misc]
        ours = walk.values.get("passwordauthentication", ("yes",))[0].lower()
        assert f"\npasswordauthentication {ours}\n" in said.stdout, f"{data!r}; seed {SEED}"
    assert judged > 5
