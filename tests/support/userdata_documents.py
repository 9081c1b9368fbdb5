"""customData documents that cloud-init and azure-init carry out, for the comparison of the two file trees.

`DIFFERS` of a document: a path and the reason why azure-init leaves something else there. docs/userdata.md has the same
reasons in its table of differences.
"""

from __future__ import annotations

import base64
import gzip
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from support.userdata_defects import DEFECTS
from support.userdata_trial import Trial, config

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGvBr8Vw0rQwWq5nVbX1nW0m5mB7vO2lQm3Wn0m5mB7v alice@example"
HASH = "$6$salt$IxDD3jeSOb5eB1CX5LBsqZFVkJdido3OUILO5Ifz5iwMuTS4XMS130MTSuDDl3aCI6WouIL9AjRbLCelDCy.g."


NO_KEYS = "a user without keys gets no empty authorized_keys"
SUDO = "sudo's rules are in a file of azure-init's own, which visudo has checked"
MODE = "the directory keeps its mode"
HOSTS = "the name is added to /etc/hosts, as for the platform's name, so that sudo finds it"
SPACES = "the white space of other lines is kept"
NAMED = "the comment names azure-init"
APPEND = "list(append)+dict(recurse_list)+str()"


def multipart(*parts: tuple[str, str, str]) -> bytes:
    message = MIMEMultipart(boundary="====boundary====")
    for name, kind, text in parts:
        part = MIMEText(text, kind, "utf-8")
        part.add_header("Content-Disposition", f'attachment; filename="{name}"')
        message.attach(part)
    return message.as_bytes()


def packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


FILES = (
    config("a file", "write_files:\n- path: /etc/motd\n  content: |\n    hello\n    there\n"),
    config(
        "modes and owners",
        """\
write_files:
- {path: /opt/a/b/c/run.sh, permissions: '0755', content: "#!/bin/sh\\n"}
- {path: /opt/setuid, permissions: '4750', owner: 'root:adm', content: x}
- {path: /opt/numbers, owner: '1234:5678', content: x}
- {path: /opt/daemon, owner: 'daemon:daemon', permissions: "0600", content: x}
""",
        differs={
            "opt/daemon": "a numeric owner does not end the module",
            "opt/numbers": "a numeric owner is accepted",
            "opt/setuid": "the mode is set after the owner",
        },
    ),
    config(
        "encodings",
        f"""\
write_files:
- {{path: /opt/b64, encoding: b64, content: {base64.b64encode(bytes(range(256))).decode()}}}
- {{path: /opt/base64, encoding: base64, content: {base64.b64encode(b"long name").decode()}}}
- {{path: /opt/gzb64, encoding: gz+b64, content: {packed("packed")}}}
- {{path: /opt/gzip64, encoding: gzip+base64, content: {packed("packed too")}}}
- {{path: /opt/plain, encoding: text/plain, content: plain}}
- path: /opt/binary
  content: !!binary |
    {base64.b64encode(bytes([0, 255, 10])).decode()}
""",
    ),
    config(
        "appending",
        """\
write_files:
- {path: /etc/hosts, append: true, content: "10.0.0.9 other\\n"}
- {path: /opt/new, append: true, content: "first\\n"}
- {path: /opt/new, append: true, content: "second\\n"}
""",
    ),
    config(
        "a link is followed",
        """\
bootcmd:
- ln -s /opt/target /opt/link; mkdir -p /opt; echo old > /opt/target
write_files:
- {path: /opt/link, content: new}
""",
    ),
    config(
        "deferred to a user that customData makes",
        """\
users: [default, {name: web, system: true}]
write_files:
- {path: /srv/www/index.html, owner: 'web:web', permissions: '0640', defer: true, content: "<p>hello</p>"}
""",
    ),
    config(
        "anchors",
        """\
x-common: &common {permissions: '0640'}
write_files:
- {<<: *common, path: /opt/anchored, content: &text shared}
- {path: /opt/again, content: *text}
""",
    ),
    config("no content", "write_files:\n- path: /opt/empty\n- {path: /opt/mode, permissions: '0600'}\n"),
    config("unicode", 'write_files:\n- path: /opt/grüße\n  content: "käse \\u00e9 \\U0001F600\\n"\n'),
)
COMMANDS = (
    config(
        "runcmd",
        """\
runcmd:
- echo one > /opt-one
- [sh, -c, 'echo "$1" > "/opt two"', x, "it's quoted"]
- cd /tmp
- pwd > /pwd
- NAME=value
- echo "$NAME" > /variable
- |
  greet() {
    echo "hello $1"
  }
- greet world > /function
- cat > /here <<EOF
  a
    b
  EOF
- [touch, "/a b'c\\"d$e"]
- true && touch /and || touch /or
""",
    ),
    config("numbers in lists", "runcmd:\n- [echo, 1, 2.5]\n- [sh, -c, 'echo $0 $1 > /n', 7, 8]\n"),
    config("bootcmd", "bootcmd:\n- echo $INSTANCE_ID > /id\n- [sh, -c, 'echo list > /list']\n"),
    Trial(name="a script", data=b"#!/bin/sh\necho script $# > /script\npwd > /where\n"),
    Trial(name="a bash script", data=b"#!/bin/bash\narray=(a b)\necho ${array[1]} > /bash\n"),
    Trial(name="a python script", data=b"#!/usr/bin/env python3\nopen('/python', 'w').write('3')\n"),
    Trial(name="a boothook", data=b"#cloud-boothook\n#!/bin/sh\necho hook $INSTANCE_ID > /hook\n"),
    Trial(name="a script with Windows line ends", data=b"#!/bin/sh\r\necho crlf > /crlf\r\n"),
    config(
        "a failing command in the middle",
        "runcmd:\n- touch /before\n- 'false'\n- touch /after\n",
        differs={"after": '`runcmd_errors = "stop"` is the default: a command after a failed one does not run'},
    ),
    config("runcmd and a service that stays", "runcmd:\n- sleep 300 &\n- touch /behind\n"),
)
ACCOUNTS = (
    config(
        "names",
        "users: [default, bob, carol]\n",
        differs={
            "home/bob/.ssh": NO_KEYS,
            "home/bob/.ssh/authorized_keys": NO_KEYS,
            "home/carol/.ssh": NO_KEYS,
            "home/carol/.ssh/authorized_keys": NO_KEYS,
        },
    ),
    config(
        "a user with everything",
        f"""\
groups: [crew]
users:
- default
- name: dave
  gecos: Dave Example
  groups: [crew, adm]
  primary_group: users
  shell: /bin/sh
  uid: 4242
  homedir: /srv/dave
  sudo: ALL=(ALL) NOPASSWD:ALL
  ssh_authorized_keys: ['{KEY}']
  hashed_passwd: {HASH}
  lock_passwd: false
""",
        differs={
            "etc/sudoers.d": MODE,
            "etc/sudoers.d/90-cloud-init-users": SUDO,
            "etc/sudoers.d/azure-init-users": SUDO,
        },
    ),
    config("a system user", "users: [default, {name: app, system: true, no_create_home: true, shell: /bin/false}]\n"),
    config(
        "no group of its own",
        "users: [default, {name: erin, no_user_group: true}]\n",
        differs={"home/erin/.ssh": NO_KEYS, "home/erin/.ssh/authorized_keys": NO_KEYS},
    ),
    config(
        "expiry",
        "users: [default, {name: fred, expiredate: '2030-01-01', inactive: '7'}]\n",
        differs={"home/fred/.ssh": NO_KEYS, "home/fred/.ssh/authorized_keys": NO_KEYS},
    ),
    config("groups with members", "groups:\n- one\n- two: [root, daemon]\n"),
    config(
        "several sudo rules",
        """\
users:
- default
- {name: gail, sudo: ["ALL=(ALL) NOPASSWD: /usr/bin/id", "ALL=(root) /usr/bin/true"]}
- {name: hank, sudo: false}
""",
        differs={
            "etc/sudoers.d": MODE,
            "etc/sudoers.d/90-cloud-init-users": SUDO,
            "etc/sudoers.d/azure-init-users": SUDO,
            "home/gail/.ssh": NO_KEYS,
            "home/gail/.ssh/authorized_keys": NO_KEYS,
            "home/hank/.ssh": NO_KEYS,
            "home/hank/.ssh/authorized_keys": NO_KEYS,
        },
    ),
    config(
        "the admin's keys",
        f"ssh_authorized_keys: ['{KEY}']\n",
        differs={"root/.ssh/authorized_keys": "root gets no key with a forced command: its password is locked"},
    ),
    config(
        "passwords",
        f"""\
users: [default, {{name: ivy, lock_passwd: false}}, jack]
chpasswd:
  expire: false
  users:
  - {{name: ivy, password: {HASH}}}
  - {{name: jack, password: secret-1, type: text}}
""",
        differs={
            "home/ivy/.ssh": NO_KEYS,
            "home/ivy/.ssh/authorized_keys": NO_KEYS,
            "home/jack/.ssh": NO_KEYS,
            "home/jack/.ssh/authorized_keys": NO_KEYS,
        },
    ),
    config(
        "password logins",
        "ssh_pwauth: true\n",
        differs={
            "etc/ssh/sshd_config.d/00-azure-init.conf": "sshd's setting is where the platform's own is",
            "etc/ssh/sshd_config.d/50-cloud-init.conf": "the same",
        },
    ),
    config("root may not log in", f"disable_root: true\nssh_authorized_keys: ['{KEY}']\n"),
    config("root may log in", f"disable_root: false\nssh_authorized_keys: ['{KEY}']\n"),
)
SYSTEM = (
    config("host name", "hostname: web7\nfqdn: web7.example.org\n", differs={"etc/hosts": HOSTS}),
    config(
        "fully qualified",
        "hostname: web7\nfqdn: web7.example.org\nprefer_fqdn_over_hostname: true\n",
        differs={"etc/hosts": HOSTS},
    ),
    config(
        "hosts file",
        "hostname: web7\nfqdn: web7.example.org\nmanage_etc_hosts: localhost\n",
        differs={"etc/hosts": SPACES},
    ),
    config(
        "words in quotation marks",
        """\
hostname: web7
fqdn: web7.example.org
manage_etc_hosts: "true"
package_update: "false"
resize_rootfs: "false"
write_files: [{path: /opt/again, append: "true", content: x, permissions: 0600}]
""",
        differs={"etc/hosts": NAMED},
    ),
    config("time zone", "timezone: Europe/Berlin\n"),
    config(
        "locale",
        "locale: en_US.UTF-8\n",
        differs={
            "etc/locale.conf": "there locale-gen ignores the name, and the module fails",
            "etc/locale.gen": "there locale-gen ignores the name, and the module fails",
            "usr/lib": "there locale-gen ignores the name, and the module fails",
            "usr/lib/locale": "there locale-gen ignores the name, and the module fails",
            "usr/lib/locale/locale-archive": "there locale-gen ignores the name, and the module fails",
        },
    ),
    config(
        "keyboard",
        "keyboard: {layout: de, model: pc105, variant: nodeadkeys}\n",
        differs={"etc/default/keyboard": NAMED},
    ),
    config(
        "certificates",
        """\
ca_certs:
  trusted:
  - |
    -----BEGIN CERTIFICATE-----
    MIIBhTCCASugAwIBAgIUZ2xhZCB0byBzZWUgeW91IHRoZXJlMAoGCCqGSM49BAMC
    -----END CERTIFICATE-----
""",
    ),
    config(
        "time servers",
        "ntp:\n  servers: [ntp1.example.org]\n  pools: [pool.example.org]\n",
        differs={"etc/chrony/chrony.conf": "both replace the file as a whole, by other lines"},
    ),
    config(
        "rsyslog",
        """\
rsyslog:
  configs:
  - '*.* @@192.0.2.1:514'
  - {content: "local0.* /var/log/local0.log", filename: 30-local.conf}
  remotes: {one: '192.0.2.2:514'}
""",
    ),
    config(
        "apt",
        """\
apt:
  preserve_sources_list: true
  conf: |
    APT::Get::Assume-Yes "true";
  http_proxy: http://192.0.2.3:3128
  sources:
    mine:
      source: "deb [trusted=yes] http://192.0.2.4/debian $RELEASE main"
""",
    ),
    config(
        "mounts",
        """\
mounts:
- [/dev/disk/by-label/data, /data, ext4, 'defaults,nofail', '0', '2']
- ['192.0.2.5:/x', /nfs, nfs]
""",
        differs={"etc/fstab": "the default options are those for systemd, whether it runs or not"},
    ),
    config(
        "a mount that fails before another",
        """\
mounts:
- [/nowhere, /first, none, bind, '0', '0']
- [tmpfs, /second, tmpfs, size=1m, '0', '0']
""",
    ),
    config("a final message", "final_message: up after $UPTIME seconds\n"),
)
FORMATS = (
    Trial(name="gzip", data=gzip.compress(b"#cloud-config\nwrite_files: [{path: /gz, content: x}]\n", mtime=0)),
    Trial(
        name="multipart",
        data=multipart(
            ("one.cfg", "cloud-config", "#cloud-config\nwrite_files: [{path: /one, content: x}]\n"),
            ("two.sh", "x-shellscript", "#!/bin/sh\necho two > /two\n"),
            ("hook.sh", "cloud-boothook", "#cloud-boothook\n#!/bin/sh\necho hook > /hook\n"),
        ),
    ),
    Trial(
        name="parts that are merged",
        data=multipart(
            ("one.cfg", "cloud-config", "#cloud-config\nruncmd: [touch /a]\nwrite_files: [{path: /x, content: x}]\n"),
            ("two.cfg", "cloud-config", f"#cloud-config\nruncmd: [touch /b]\nmerge_how: '{APPEND}'\n"),
            ("three.cfg", "cloud-config", "#cloud-config\nwrite_files: [{path: /y, content: y}]\n"),
        ),
    ),
    Trial(
        name="archive",
        data=b"""#cloud-config-archive
- type: text/cloud-config
  content: |
    write_files: [{path: /archived, content: x}]
- "#!/bin/sh\\necho archived > /script\\n"
- {type: text/x-shellscript, filename: late.sh, content: "#!/bin/sh\\ntouch /late\\n"}
""",
    ),
    Trial(
        name="template",
        data=b"""## template: jinja
#cloud-config
write_files:
- {path: /jinja, content: '{{ v1.local_hostname }}'}
""",
    ),
    Trial(
        name="scripts by frequency",
        data=multipart(
            ("boot.sh", "x-shellscript-per-boot", "#!/bin/sh\necho boot >> /boot-script\n"),
            ("inst.sh", "x-shellscript-per-instance", "#!/bin/sh\necho inst >> /instance-script\n"),
            ("once.sh", "x-shellscript-per-once", "#!/bin/sh\necho once >> /once-script\n"),
        ),
    ),
)
TRIALS = (*FILES, *COMMANDS, *ACCOUNTS, *SYSTEM, *FORMATS, *DEFECTS)
