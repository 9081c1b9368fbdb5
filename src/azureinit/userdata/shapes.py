"""The values of the keys that have a structure of their own. KEYS (in `keys`) names them."""

from __future__ import annotations

from azureinit.userdata.kinds import (
    ANYTHING,
    CONTENT,
    DATE_,
    DELAY,
    FLAG_,
    INTEGER_,
    MODE,
    NAME,
    NOTHING,
    PATH,
    SIMPLE,
    SIZE,
    TEXT_,
    TEXTS,
    Field,
    Named,
    choice,
    either,
    field,
    fields,
    keys,
    listed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.userdata.kinds import Kind

# A command is text for the shell, or a list of words.
COMMANDS = listed(either(TEXT_, listed(SIMPLE), NOTHING))
WORDS_OR_TEXT = either(TEXT_, listed(SIMPLE))

WRITE_FILES = listed(
    keys(
        field("path", PATH, required=True),
        field("content", CONTENT),
        field("source", keys(field("uri", required=True), field("headers", Named(value=TEXT_)))),
        *fields("owner"),
        field("permissions", MODE),
        field(
            "encoding",
            choice(
                "text/plain", "b64", "base64", "gz", "gzip", "gz+b64", "gz+base64", "gzip+b64", "gzip+base64"
            ),
        ),
        *fields("append defer", FLAG_),
    )
)  # fmt: skip

GROWPART = keys(
    field("mode", choice("auto", "growpart", "gpart", "growfs", "off", False)),
    field("devices", TEXTS),
    field("ignore_growroot_disabled", FLAG_),
)
DISK_SETUP = Named(
    value=keys(
        field("table_type", choice("mbr", "gpt")),
        field(
            "layout",
            either(FLAG_, choice("remove"), listed(either(INTEGER_, listed(either(INTEGER_, TEXT_), least=2, most=2)))),
        ),
        field("overwrite", FLAG_),
    )
)
FS_SETUP = listed(
    keys(
        *fields("label filesystem"),
        field("device", required=True),
        field("partition", either(INTEGER_, choice("auto", "any", "none"), TEXT_)),
        field("overwrite", FLAG_),
        field("replace_fs", either(FLAG_, TEXT_)),
        *fields("extra_opts cmd", WORDS_OR_TEXT),
    )
)
MOUNT_FIELD = either(SIMPLE, NOTHING)
MOUNTS = listed(listed(MOUNT_FIELD, least=1, most=6))
MOUNT_DEFAULTS = listed(MOUNT_FIELD, least=6, most=6)
SWAP = keys(field("filename", PATH), *fields("size maxsize", SIZE))

GROUPS = either(TEXT_, listed(either(TEXT_, Named(value=either(TEXT_, TEXTS)))), Named(value=either(TEXT_, TEXTS)))


def old_and_new(names: str, kind: Kind) -> tuple[Field, ...]:
    """Keys that were written with hyphens before."""
    made: list[Field] = []
    for name in names.split():
        made.append(field(name, kind))
        if "_" in name:
            made.append(field(name.replace("_", "-"), kind, use=name))
    return tuple(made)


USER = keys(
    *fields("name gecos homedir inactive shell snapuser passwd"),
    *old_and_new("hashed_passwd plain_text_passwd primary_group selinux_user", TEXT_),
    *old_and_new("lock_passwd no_create_home no_log_init no_user_group create_groups ssh_redirect_user", FLAG_),
    *old_and_new("ssh_authorized_keys ssh_import_id", either(TEXTS, TEXT_)),
    field("expiredate", DATE_),
    field("groups", either(TEXT_, TEXTS, Named(value=ANYTHING))),
    field("sudo", either(TEXT_, FLAG_, NOTHING, listed(either(TEXT_, NOTHING)))),
    field("doas", TEXTS),
    field("system", FLAG_),
    field("uid", NAME),
)
SYSTEM_INFO = keys(field("default_user", USER), undone=True)
USERS = either(listed(either(TEXT_, USER, TEXTS)), TEXT_, Named(value=ANYTHING))
CHPASSWD = keys(
    field("expire", FLAG_),
    field(
        "users",
        listed(
            keys(
                field("name", required=True),
                field("password", TEXT_),
                field("type", choice("hash", "text", "RANDOM")),
            )
        ),
    ),
    field("list", either(TEXT_, TEXTS), use="users"),
)
KEY_PARTS = ("private", "public", "certificate")
SSH_KEYS = keys(
    *fields(" ".join(f"{kind}_{part}" for kind in ("rsa", "ecdsa", "ed25519") for part in KEY_PARTS)),
    # OpenSSH has no such keys any more; older examples of cloud-init have them.
    *(field(f"dsa_{part}", past=True) for part in KEY_PARTS),
)
KEY_TYPES = choice("rsa", "ecdsa", "ed25519", past=("dsa",))
PUBLISH_HOSTKEYS = keys(field("enabled", FLAG_), field("blacklist", TEXTS))
CA_CERTS = keys(
    field("trusted", TEXTS),
    field("remove_defaults", FLAG_),
    field("remove-defaults", FLAG_, use="remove_defaults"),
)
RANDOM_SEED = keys(
    field("file", PATH),
    field("data", CONTENT),
    field("encoding", choice("raw", "base64", "b64", "gzip", "gz")),
    field("command", listed(SIMPLE)),
    field("command_required", FLAG_),
)
KEYBOARD = keys(field("layout", required=True), *fields("model variant options"))
NTP = either(
    keys(
        field("enabled", FLAG_),
        field("ntp_client"),
        *fields("pools servers peers allow", TEXTS),
        field("config", keys(*fields("confpath check_exe service_name template"), field("packages", TEXTS))),
    ),
    NOTHING,
)
MIRRORS = listed(
    keys(
        field("arches", TEXTS, required=True),
        *fields("uri keyid key keyserver"),
        field("search", TEXTS),
        field("search_dns", FLAG_),
    )
)
APT_SOURCE = keys(*fields("source keyid key keyserver filename"), field("append", FLAG_))
APT_SOURCES = Named(value=APT_SOURCE)
APT = keys(
    *fields("preserve_sources_list generate_mirrorlists", FLAG_),
    field("disable_suites", TEXTS),
    *fields("primary security", MIRRORS),
    *fields("add_apt_repo_match sources_list conf proxy http_proxy https_proxy ftp_proxy"),
    field("debconf_selections", Named(value=TEXT_)),
    field("sources", APT_SOURCES),
)
OLDER_SOURCES = either(APT_SOURCES, listed(APT_SOURCE))
YUM_REPOS = Named(
    value=keys(
        *fields("baseurl", either(TEXT_, TEXTS)),
        *fields("metalink mirrorlist"),
        field("name", SIMPLE),
        more=True,
        one_of=("baseurl", "metalink", "mirrorlist"),
    )
)
ZYPPER = keys(
    field("repos", listed(keys(field("id", required=True), field("baseurl", required=True), more=True))),
    field("config", Named(value=ANYTHING)),
)
APK_REPOS = keys(
    field("preserve_repositories", FLAG_),
    field(
        "alpine_repo",
        either(
            keys(
                field("version", SIMPLE, required=True),
                field("base_url"),
                *fields("community_enabled testing_enabled", FLAG_),
            ),
            NOTHING,
        ),
    ),
    field("local_repo_base_url"),
)
PACKAGE = either(TEXT_, listed(SIMPLE, least=2, most=2))
MANAGERS = keys(*fields("apt snap dnf tdnf yum zypper apk", listed(PACKAGE)))
PACKAGES = listed(either(TEXT_, listed(SIMPLE, least=2, most=2), MANAGERS))
POWER_STATE = keys(
    field("mode", choice("poweroff", "reboot", "halt"), required=True),
    field("delay", DELAY),
    field("message"),
    field("timeout", INTEGER_),
    field("condition", either(FLAG_, TEXT_, listed(SIMPLE))),
)
POSTED = choice(
    "pub_key_rsa", "pub_key_ecdsa", "pub_key_ed25519", "instance_id", "hostname", "fqdn", past=("pub_key_dsa",)
)
PHONE_HOME = keys(
    field("url", required=True),
    field("post", either(choice("all"), listed(POSTED))),
    field("tries", INTEGER_),
)
RSYSLOG_RULE = either(TEXT_, keys(field("content", required=True), field("filename")))
RSYSLOG = either(
    keys(
        *fields("config_dir config_filename check_exe"),
        field("configs", listed(RSYSLOG_RULE)),
        field("remotes", Named(value=TEXT_)),
        field("service_reload_command", either(choice("auto"), listed(SIMPLE))),
        field("install_rsyslog", FLAG_),
        field("packages", TEXTS),
    ),
    listed(RSYSLOG_RULE, use="rsyslog.configs"),
)
MERGE_HOW = either(TEXT_, listed(either(keys(field("name", required=True), field("settings", TEXTS, required=True)),
                                        TEXTS)))  # fmt: skip
