"""sshd: its configuration, the values in force, its host keys, whether it runs."""

from __future__ import annotations

import errno
import stat

from azureinit.errors import LocalError
from azureinit.facts.host import OPENRC, SYSTEMD
from azureinit.facts.path_safety import directories_above, path_problem
from azureinit.facts.sshd_config import Walk, expand
from azureinit.record import Record, Secret, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.sshd_config import Directive, Values
    from azureinit.machine import Machine

MAIN = "/etc/ssh/sshd_config"
VENDOR = "/usr/etc/ssh/sshd_config"
DROPINS = "/etc/ssh/sshd_config.d"
PRIVSEP = "/run/sshd"
# Programs that merge the pieces in ~/.ssh/authorized_keys.d: the first into authorized_keys, where direct writes are
# lost; the second for sshd, at every login.
MERGER, READER = "update-ssh-keys", "ssh-key-dir"
PID_FILE = "/run/sshd.pid"
FIPS = "/proc/sys/crypto/fips_enabled"
UNITS = ("ssh.service", "sshd.service")
OPENRC_SERVICES = ("sshd", "ssh")
UNIT_DIRS = ("/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system")
KEY_TYPES = ("ed25519", "ecdsa", "rsa")
NAMED_TYPES = (*KEY_TYPES, "dsa")  # looked for in this order: "dsa" is a part of "ecdsa"
KEYS_DIR, KEY_PREFIX, KEY_SUFFIX = "/etc/ssh", "ssh_host_", "_key"
DEFAULT_KEYS = tuple(f"{KEYS_DIR}/{KEY_PREFIX}{kind}{KEY_SUFFIX}" for kind in KEY_TYPES)
KEYS_CHOSEN = "host-keys-chosen"  # in the VM's directory: customData decides which host keys there are
ONE_KEYBOARD = (8, 7)  # from here on ChallengeResponseAuthentication is another name of KbdInteractiveAuthentication
OTHERS = 0o007  # in some distributions a group of its own may read host keys
PASSWORD, KEYBOARD = "passwordauthentication", "kbdinteractiveauthentication"
CHALLENGE = "challengeresponseauthentication"
DENIED = (errno.EACCES, errno.EPERM, errno.EISDIR)


NOTHING: Values = {}


class ConfigFile(Record):
    path: str
    data: bytes


class Logins(Record):
    """The password methods that sshd accepts."""

    password: bool
    keyboard: bool


class HostKey(Record):
    # Empty where a HostKey line names a file whose name has no key type.
    type: str
    path: str
    # The same for a program of the running system: with the root before it under --root.
    real: str
    # A file that lacks its last line, after a crash or on a full disk, is there but not whole.
    there: bool
    whole: bool
    # Its content, where others may read it: sshd refuses such a key.
    exposed: Secret | None = None
    # Its .pub file exists and is not empty.
    public: bool = True
    # Path of its .pub file where that is a link, which a program would follow out of --root.
    public_link: str | None = None
    # Missing directories above it, outermost first.
    missing: tuple[str, ...] = ()
    # Why it cannot be made.
    problem: str = ""


class Ssh(Record):
    installed: bool
    # The main configuration file, and whether it is the vendor's in /usr, which must not be changed.
    config_path: str | None = None
    vendor: bool = False
    # Its target, where it is a link into /usr.
    link: str | None = None
    # All files of the configuration, in reading order.
    files: tuple[ConfigFile, ...] = ()
    unreadable: tuple[str, ...] = ()
    dropin_dir: bool = False
    # The global values by the files; and those that sshd reported, where both agree.
    configured: Values = NOTHING
    reported: Values | None = None
    logins: Logins = Logins(password=True, keyboard=True)
    # Lines in Match blocks about passwords.
    exceptions: tuple[Directive, ...] = ()
    # Every line of the configuration, in reading order.
    directives: tuple[Directive, ...] = ()
    # AuthorizedKeysFile with tokens unexpanded; None where it is not set or not asked.
    authorized_keys_files: tuple[str, ...] | None = None
    # MERGER, READER or None.
    pieces: str | None = None
    use_pam: bool = False
    # At least this version; None where sshd was not asked.
    version: tuple[int, int] | None = None
    query_failure: str = ""
    host_keys: tuple[HostKey, ...] = ()
    # HostKey lines name the keys: sshd loads no others.
    host_keys_named: bool = False
    # Files of host keys of any type; searched only where keys may be made anew.
    key_files: tuple[str, ...] = ()
    fips: bool = False
    running: bool = False
    unit: str | None = None
    privsep_dir: bool = False

    def data(self, path: str) -> bytes | None:
        return next((file.data for file in self.files if file.path == path), None)

    def default_keys(self, *, whole: bool) -> tuple[str, ...]:
        """The default paths that sshd loads here and that hold a whole key, or do not."""
        return tuple(key.path for key in self.host_keys if key.path in DEFAULT_KEYS and key.whole == whole)

    def logins_with(self, path: str, data: bytes) -> Logins:
        """The password methods that would be in force with this content of that file."""
        return logins_of(self.values_with(path, data), self.version)

    def values_with(self, path: str, data: bytes) -> Values:
        """The global values that the files would set with this content of that one."""
        return self.walk({**{file.path: file.data for file in self.files}, path: data}).values

    def walk(self, files: dict[str, bytes]) -> Walk:
        """These files, read as an sshd of that version reads them."""

        def names(directory: str) -> tuple[str, ...]:
            prefix = directory.rstrip("/") + "/"
            return tuple({known[len(prefix) :].split("/")[0] for known in files if known.startswith(prefix)})

        return Walk(
            self.config_path or MAIN,
            read=files.get,
            expand=lambda pattern: expand(pattern, names),
            aliases=aliases_of(self.version),
        )

    def sets(self, keyword: str) -> bool:
        """Whether any file has the keyword at the start of a line, in force or not."""
        word = keyword.lower().encode()
        return any(line.strip().lower().startswith(word) for file in self.files for line in file.data.split(b"\n"))


def aliases_of(version: tuple[int, int] | None) -> dict[str, str]:
    if version is not None and version < ONE_KEYBOARD:
        return {"skeyauthentication": CHALLENGE}
    return {"skeyauthentication": KEYBOARD, CHALLENGE: KEYBOARD}


def logins_of(values: Values, version: tuple[int, int] | None) -> Logins:
    def says(name: str, *, default: bool) -> bool:
        return values[name][0].lower() == "yes" if name in values else default

    if version is not None and version < ONE_KEYBOARD:
        # These versions have two settings, and the one that is on by default turns the other on.
        keyboard = says(CHALLENGE, default=True) or says(KEYBOARD, default=False)
    else:
        keyboard = says(KEYBOARD, default=True)
    return Logins(password=says(PASSWORD, default=True), keyboard=keyboard)


def read_files(machine: Machine, *, query: bool, regenerate: str = "never", init: str = SYSTEMD) -> Ssh:
    """From files alone; sshd_answer.py asks sshd itself."""
    path = next((path for path in (MAIN, VENDOR) if machine.is_file(path)), None)
    unreadable: list[str] = []
    walk = _walk(machine, path or MAIN, unreadable)
    running = not machine.rooted and _is_running(machine)
    host_keys = _read_host_keys(machine, walk)
    looked_for = regenerate == "always" or (
        regenerate == "auto" and any(key.whole and key.path in DEFAULT_KEYS for key in host_keys)
    )
    ssh = Ssh(
        installed=path is not None,  # sshd does not start without a configuration
        config_path=path,
        vendor=path == VENDOR,
        link=machine.vendor_target(path) if path else None,
        files=tuple(ConfigFile(path=name, data=data) for name, data in walk.files.items()),
        unreadable=tuple(unreadable),
        dropin_dir=machine.is_dir(DROPINS),
        configured=walk.values,
        exceptions=about_logins(walk),
        directives=tuple(walk.directives),
        host_keys=host_keys,
        host_keys_named=bool(walk.host_keys),
        key_files=_read_key_files(machine, walk.host_keys) if looked_for else (),
        fips=not machine.rooted and (machine.read(FIPS) or b"").strip() == b"1",
        running=running,
        unit=_find_unit(machine, init) if running else None,
        privsep_dir=machine.is_dir(PRIVSEP),
    )
    return in_force(machine, ssh, walk.values, query=query)


def in_force(machine: Machine, ssh: Ssh, values: Values, *, query: bool = True) -> Ssh:
    keys_files = values.get("authorizedkeysfile") if query else None
    if keys_files is not None and [name.lower() for name in keys_files] == ["none"]:
        keys_files = ()
    return replace(
        ssh,
        logins=logins_of(values, ssh.version),
        authorized_keys_files=keys_files,
        pieces=_merging_program(machine, values.get("authorizedkeyscommand", ("none",))[0]),
        use_pam=values.get("usepam", ("no",))[0].lower() == "yes",
    )


def about_logins(walk: Walk) -> tuple[Directive, ...]:
    return tuple(said for said in walk.conditional if said.keyword in (PASSWORD, KEYBOARD, CHALLENGE))


def _merging_program(machine: Machine, command: str) -> str | None:
    if command.rpartition("/")[2] == READER and machine.is_file(command):
        return READER
    return MERGER if machine.is_file(f"/usr/bin/{MERGER}") else None


def _walk(machine: Machine, path: str, unreadable: list[str]) -> Walk:
    def read(name: str) -> bytes | None:
        try:
            return machine.read(name)
        except LocalError as error:
            if error.errno not in DENIED:
                raise
            unreadable.append(name)
            return None

    return Walk(path, read=read, expand=lambda pattern: expand(pattern, machine.names), aliases=aliases_of(None))


def _read_host_keys(machine: Machine, walk: Walk) -> tuple[HostKey, ...]:
    """The keys that sshd would load. Without DSA keys, which current releases refuse, and keys that an agent holds."""
    paths = walk.host_keys or DEFAULT_KEYS
    if walk.values.get("hostkeyagent", ("none",))[0].lower() != "none":
        return ()
    named = ((next((type_ for type_ in NAMED_TYPES if type_ in path.rpartition("/")[2]), ""), path) for path in paths)
    wanted = ((type_, path) for type_, path in dict.fromkeys(named) if type_ != "dsa" and path.startswith("/"))
    return tuple(_read_host_key(machine, type_, path) for type_, path in wanted)


def _read_key_files(machine: Machine, configured: list[str]) -> tuple[str, ...]:
    """By the usual names, and the paths in the configuration. Links count, whatever their target."""
    by_name = (f"{KEYS_DIR}/{name}" for name in machine.names(KEYS_DIR) or () if name.startswith(KEY_PREFIX))
    named = [path for path in by_name if path.endswith((KEY_SUFFIX, f"{KEY_SUFFIX}.pub", f"{KEY_SUFFIX}-cert.pub"))]
    told = (f"{path}{half}" for path in configured if path.startswith("/") for half in ("", ".pub"))
    there = (path for path in told if machine.stat(path, follow=False) is not None)
    return tuple(dict.fromkeys((*sorted(named), *there)))


def with_host_keys_again(machine: Machine, ssh: Ssh) -> Ssh:
    """Read host keys again, after some may have been made."""
    if all(key.whole and key.exposed is None for key in ssh.host_keys):
        return ssh
    return replace(ssh, host_keys=tuple(_read_host_key(machine, key.type, key.path) for key in ssh.host_keys))


def _read_host_key(machine: Machine, type_: str, path: str) -> HostKey:
    problem = path_problem(path) or ""
    try:
        found = machine.stat(path)
        real = machine.real(path, final=found is None)  # an existing one is removed first, also a link
        data = _private_half(machine, path) if found is not None else b""
        whole = data is None or _is_whole(data)
        exposed = whole and found is not None and found.st_mode & OTHERS
        return HostKey(
            type=type_,
            path=path,
            real=real,
            there=found is not None,
            whole=whole,
            exposed=Secret(data) if exposed and data is not None else None,
            public=_has_content(machine, f"{path}.pub"),
            public_link=_public_link(machine, real) if machine.rooted else None,
            missing=_missing(machine, path) if found is None else (),
            problem=problem,
        )
    except LocalError as error:
        return HostKey(type=type_, path=path, real=path, there=False, whole=False, problem=problem or str(error))


def _has_content(machine: Machine, path: str) -> bool:
    found = machine.stat(path)
    return found is not None and found.st_size > 0


def _missing(machine: Machine, path: str) -> tuple[str, ...]:
    return tuple(directory for directory in directories_above(path) if machine.stat(directory) is None)


def _public_link(machine: Machine, real: str) -> str | None:
    public = f"{real[len(machine.root) :]}.pub"
    found = machine.stat(public, follow=False)
    return public if found is not None and stat.S_ISLNK(found.st_mode) else None


def _private_half(machine: Machine, path: str) -> bytes | None:
    try:
        return machine.read(path, limit=64 * 1024) or b""
    except LocalError as error:
        if error.errno not in DENIED:
            raise
        return None  # unreadable without privileges: taken for a whole key


def _is_whole(data: bytes) -> bool:
    lines = data.strip().split(b"\n")
    return len(lines) > 2 and lines[0].startswith(b"-----BEGIN ") and lines[-1].startswith(b"-----END ")


def _is_running(machine: Machine) -> bool:
    pid = (machine.read(PID_FILE, limit=64) or b"").strip()
    return pid.isdigit() and (machine.read(f"/proc/{pid.decode()}/comm") or b"").startswith(b"sshd")


def _find_unit(machine: Machine, init: str) -> str | None:
    if init == OPENRC:
        return next((name for name in OPENRC_SERVICES if machine.is_file(f"/etc/init.d/{name}")), None)
    return next((unit for unit in UNITS for place in UNIT_DIRS if machine.is_file(f"{place}/{unit}")), None)


def are_keys_chosen(machine: Machine, directory: str) -> bool:
    """`directory`: the VM's own."""
    return machine.stat(f"{directory}/{KEYS_CHOSEN}", follow=False) is not None
