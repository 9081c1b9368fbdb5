"""KEYS: a row for each key of a cloud-config. Validation, the JSON Schema and the manual are made from it."""

from __future__ import annotations

from azureinit.record import Record
from azureinit.userdata import shapes
from azureinit.userdata.kinds import (
    ANYTHING,
    FLAG_,
    INTEGER_,
    NOTHING,
    PATH,
    TEXT_,
    TEXTS,
    Named,
    choice,
    either,
    listed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.userdata.kinds import Kind

NETWORK, CONFIG, FINAL = "network", "config", "final"  # stages of a boot
ALL = "all"  # a setting of the parser, or of several stages


class Key(Record):
    name: str
    kind: Kind
    about: str  # a sentence without a full stop
    module: str = ""  # the module that carries it out; empty: accepted, and named as not done
    stage: str = ""
    use: str = ""  # of a name that is out of use: the key to use


def row(name: str, stage: str, module: str, kind: Kind, about: str, *, use: str = "") -> Key:
    return Key(name=name, stage=stage, module=module, kind=kind, about=about, use=use)


def not_done(name: str, kind: Kind, about: str) -> Key:
    return Key(name=name, kind=kind, about=about)


MAPPING = Named(value=ANYTHING)
KEYS: tuple[Key, ...] = (
    # ---- before sshd and user sessions
    row("bootcmd", NETWORK, "bootcmd", shapes.COMMANDS, "commands that run early at every boot"),
    row("random_seed", NETWORK, "seed_random", shapes.RANDOM_SEED, "data for the kernel's random number generator"),
    row("write_files", NETWORK, "write_files", shapes.WRITE_FILES, "files to write; with `defer`, after packages"),
    row("growpart", NETWORK, "growpart", shapes.GROWPART, "whether partitions grow into free space"),
    row("resize_rootfs", NETWORK, "resizefs", choice(True, False, "noblock"), "whether the root file system grows"),
    row("device_aliases", NETWORK, "disk_setup", Named(value=TEXT_), "names for devices"),
    row("disk_setup", NETWORK, "disk_setup", shapes.DISK_SETUP, "partition tables"),
    row("fs_setup", NETWORK, "disk_setup", shapes.FS_SETUP, "file systems to make"),
    row("mounts", NETWORK, "mounts", shapes.MOUNTS, "rows of `/etc/fstab`"),
    row("mount_default_fields", NETWORK, "mounts", shapes.MOUNT_DEFAULTS, "what a row of `mounts` leaves out"),
    row("swap", NETWORK, "mounts", shapes.SWAP, "a swap file"),
    row("hostname", NETWORK, "set_hostname", TEXT_, "the host name"),
    row("fqdn", NETWORK, "set_hostname", TEXT_, "the fully qualified host name"),
    row("prefer_fqdn_over_hostname", NETWORK, "set_hostname", FLAG_, "set `fqdn` as the host name"),
    row("create_hostname_file", NETWORK, "set_hostname", FLAG_, "write `/etc/hostname` if there is none"),
    row("preserve_hostname", NETWORK, "update_hostname", FLAG_, "leave the host name alone"),
    row("manage_etc_hosts", NETWORK, "update_etc_hosts", choice(True, False, "localhost", "template"),
        "whether `/etc/hosts` is written"),
    row("ca_certs", NETWORK, "ca_certs", shapes.CA_CERTS, "certificate authorities to trust"),
    row("ca-certs", NETWORK, "ca_certs", shapes.CA_CERTS, "older name", use="ca_certs"),
    row("rsyslog", NETWORK, "rsyslog", shapes.RSYSLOG, "rules of rsyslog"),
    row("rsyslog_dir", NETWORK, "rsyslog", TEXT_, "older name", use="rsyslog.config_dir"),
    row("rsyslog_filename", NETWORK, "rsyslog", TEXT_, "older name", use="rsyslog.config_filename"),
    row("users", NETWORK, "users_groups", shapes.USERS, "accounts besides the VM's admin (`default`)"),
    row("user", NETWORK, "users_groups", either(TEXT_, shapes.USER), "settings of the admin's account"),
    row("system_info", NETWORK, "users_groups", shapes.SYSTEM_INFO, "`default_user`: settings of the admin's account"),
    row("groups", NETWORK, "users_groups", shapes.GROUPS, "groups to make, with their members"),
    row("ssh_authorized_keys", NETWORK, "ssh", TEXTS, "more public keys of the admin"),
    row("ssh_keys", NETWORK, "ssh", shapes.SSH_KEYS, "host keys"),
    row("ssh_deletekeys", NETWORK, "ssh", FLAG_, "whether the image's host keys are removed"),
    row("ssh_genkeytypes", NETWORK, "ssh", listed(shapes.KEY_TYPES), "host keys to make"),
    row("ssh_quiet_keygen", NETWORK, "ssh", FLAG_, "whether making host keys prints nothing"),
    row("ssh_publish_hostkeys", NETWORK, "ssh", shapes.PUBLISH_HOSTKEYS, "whether host keys are published"),
    row("allow_public_ssh_keys", NETWORK, "ssh", FLAG_, "whether the platform's public keys are used"),
    row("disable_root", NETWORK, "ssh", FLAG_, "whether root cannot log in over SSH"),
    row("disable_root_opts", NETWORK, "ssh", TEXT_, "options of root's keys where root cannot log in"),
    row("password", NETWORK, "set_passwords", TEXT_, "the admin's password"),
    row("chpasswd", NETWORK, "set_passwords", shapes.CHPASSWD, "passwords of accounts"),
    row("ssh_pwauth", NETWORK, "set_passwords", either(FLAG_, choice("unchanged"), TEXT_),
        "whether sshd accepts passwords"),
    # ---- when the network is up
    row("ssh_import_id", CONFIG, "ssh_import_id", TEXTS, "public keys from Launchpad or GitHub"),
    row("keyboard", CONFIG, "keyboard", shapes.KEYBOARD, "the keyboard of the console"),
    row("locale", CONFIG, "locale", either(FLAG_, TEXT_), "the system's locale"),
    row("locale_configfile", CONFIG, "locale", PATH, "the file that the locale is written to"),
    row("timezone", CONFIG, "timezone", TEXT_, "the time zone, as in `Europe/Berlin`"),
    row("ntp", CONFIG, "ntp", shapes.NTP, "time servers"),
    row("apt", CONFIG, "apt_configure", shapes.APT, "package sources and keys of apt"),
    row("apt_sources", CONFIG, "apt_configure", shapes.OLDER_SOURCES, "older name", use="apt.sources"),
    row("apt_mirror", CONFIG, "apt_configure", TEXT_, "older name", use="apt.primary"),
    row("apt_mirror_search", CONFIG, "apt_configure", TEXTS, "older name", use="apt.primary"),
    row("apt_proxy", CONFIG, "apt_configure", TEXT_, "older name", use="apt.proxy"),
    row("apt_http_proxy", CONFIG, "apt_configure", TEXT_, "older name", use="apt.http_proxy"),
    row("apt_https_proxy", CONFIG, "apt_configure", TEXT_, "older name", use="apt.https_proxy"),
    row("apt_ftp_proxy", CONFIG, "apt_configure", TEXT_, "older name", use="apt.ftp_proxy"),
    row("apt_preserve_sources_list", CONFIG, "apt_configure", FLAG_, "older name", use="apt.preserve_sources_list"),
    row("apt_custom_sources_list", CONFIG, "apt_configure", TEXT_, "older name", use="apt.sources_list"),
    row("yum_repos", CONFIG, "yum_add_repo", shapes.YUM_REPOS, "package sources of yum and dnf"),
    row("yum_repo_dir", CONFIG, "yum_add_repo", PATH, "the directory of those files"),
    row("zypper", CONFIG, "zypper_add_repo", shapes.ZYPPER, "package sources of zypper"),
    # ---- last
    row("package_update", FINAL, "packages", FLAG_, "read the lists of packages again"),
    row("package_upgrade", FINAL, "packages", FLAG_, "upgrade all packages"),
    row("packages", FINAL, "packages", shapes.PACKAGES, "packages to install"),
    row("package_reboot_if_required", FINAL, "packages", FLAG_, "reboot where a package asks for it"),
    row("apt_update", FINAL, "packages", FLAG_, "older name", use="package_update"),
    row("apt_upgrade", FINAL, "packages", FLAG_, "older name", use="package_upgrade"),
    row("apt_reboot_if_required", FINAL, "packages", FLAG_, "older name", use="package_reboot_if_required"),
    row("runcmd", FINAL, "scripts_user", shapes.COMMANDS, "commands that run once, at the end of the first boot"),
    row("phone_home", FINAL, "phone_home", shapes.PHONE_HOME, "a URL that is told when everything is done"),
    row("final_message", FINAL, "final_message", TEXT_, "text for the console when everything is done"),
    row("power_state", FINAL, "power_state", shapes.POWER_STATE, "shut down or reboot when everything is done"),
    # ---- the document itself
    row("merge_how", ALL, "merging", shapes.MERGE_HOW, "how this document is merged with those before it"),
    row("merge_type", ALL, "merging", shapes.MERGE_HOW, "the same as `merge_how`"),
    # ---- accepted, and named as not done
    not_done("allow_userdata", FLAG_, "whether customData is used"),
    not_done("ansible", MAPPING, "Ansible"),
    not_done("apk_repos", shapes.APK_REPOS, "package sources of apk"),
    not_done("apt_pipelining", ANYTHING, "pipelining of apt's downloads"),
    not_done("authkey_hash", TEXT_, "the hash of keys that are printed"),
    not_done("autoinstall", MAPPING, "Ubuntu's installer"),
    not_done("byobu_by_default", TEXT_, "byobu"),
    not_done("chef", MAPPING, "Chef"),
    not_done("cloud_config_modules", ANYTHING, "cloud-init's list of modules"),
    not_done("cloud_final_modules", ANYTHING, "cloud-init's list of modules"),
    not_done("cloud_init_modules", ANYTHING, "cloud-init's list of modules"),
    not_done("datasource", MAPPING, "cloud-init's data sources"),
    not_done("datasource_list", TEXTS, "cloud-init's data sources"),
    not_done("def_log_file", PATH, "cloud-init's log file"),
    not_done("disable_ec2_metadata", FLAG_, "a route of Amazon's platform"),
    not_done("drivers", MAPPING, "drivers of Ubuntu"),
    not_done("fan", MAPPING, "Ubuntu's fan network"),
    not_done("grub-dpkg", MAPPING, "where GRUB is installed"),
    not_done("grub_dpkg", MAPPING, "where GRUB is installed"),
    not_done("landscape", MAPPING, "Landscape"),
    not_done("launch-index", INTEGER_, "the number of a VM that was started with others"),
    not_done("logcfg", TEXT_, "cloud-init's logging"),
    not_done("lxd", MAPPING, "LXD"),
    not_done("manage_resolv_conf", FLAG_, "whether `/etc/resolv.conf` is written"),
    not_done("mcollective", MAPPING, "MCollective"),
    not_done("migrate", FLAG_, "older files of cloud-init"),
    not_done("network", MAPPING, "cloud-init's network configuration"),
    not_done("no_ssh_fingerprints", FLAG_, "whether key fingerprints are printed"),
    not_done("output", MAPPING, "where output of cloud-init goes"),
    not_done("preserve_sources_list", FLAG_, "older form of `apt`"),
    not_done("puppet", MAPPING, "Puppet"),
    not_done("reporting", MAPPING, "where cloud-init reports to"),
    not_done("resolv_conf", MAPPING, "the content of `/etc/resolv.conf`"),
    not_done("rh_subscription", MAPPING, "Red Hat's subscription"),
    not_done("rpi", MAPPING, "interfaces of a Raspberry Pi"),
    not_done("salt_minion", MAPPING, "Salt"),
    not_done("snap", MAPPING, "snap"),
    not_done("spacewalk", MAPPING, "Spacewalk"),
    not_done("ssh", MAPPING, "whether keys are printed to the console"),
    not_done("ssh_fp_console_blacklist", TEXTS, "keys that are not printed"),
    not_done("ssh_key_console_blacklist", TEXTS, "keys that are not printed"),
    not_done("syslog_fix_perms", ANYTHING, "the owner of cloud-init's log file"),
    not_done("ubuntu_advantage", MAPPING, "Ubuntu Pro"),
    not_done("ubuntu_pro", MAPPING, "Ubuntu Pro"),
    not_done("updates", MAPPING, "when the network is configured again"),
    not_done("vendor_data", MAPPING, "a vendor's scripts"),
    not_done("vendor_data2", MAPPING, "a vendor's scripts"),
    not_done("version", ANYTHING, "the version of a network configuration"),
    not_done("wireguard", either(MAPPING, NOTHING), "WireGuard"),
)  # fmt: skip
BY_NAME = {key.name: key for key in KEYS}
