"""sshd as it stands: its configuration and what is in force, its host keys, whether it runs; and a user's key files."""

from __future__ import annotations

import errno
import stat

from azureinit.errors import LocalError
from azureinit.facts.path_safety import directories_above, kind, normal, path_problem, read_trail
from azureinit.facts.sshd_config import Walk, expand
from azureinit.record import Record, Secret, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.path_safety import Trail
    from azureinit.facts.sshd_config import Directive, Values
    from azureinit.machine import Machine

MAIN = "/etc/ssh/sshd_config"
VENDOR = "/usr/etc/ssh/sshd_config"
DROPINS = "/etc/ssh/sshd_config.d"
PRIVSEP = "/run/sshd"
# Who makes one list of keys of the pieces in ~/.ssh/authorized_keys.d: the first into authorized_keys, where direct
# writes are lost; the second for sshd, at every login.
MERGER, READER = "update-ssh-keys", "ssh-key-dir"
PID_FILE = "/run/sshd.pid"
FIPS = "/proc/sys/crypto/fips_enabled"
UNITS = ("ssh.service", "sshd.service")
UNIT_DIRS = ("/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system")
KEY_TYPES = ("ed25519", "ecdsa", "rsa")
NAMED_TYPES = (*KEY_TYPES, "dsa")  # looked for in this order: "dsa" is a part of "ecdsa"
KEYS_DIR, KEY_PREFIX, KEY_SUFFIX = "/etc/ssh", "ssh_host_", "_key"
DEFAULT_KEYS = tuple(f"{KEYS_DIR}/{KEY_PREFIX}{kind}{KEY_SUFFIX}" for kind in KEY_TYPES)
ONE_KEYBOARD = (8, 7)  # from here on ChallengeResponseAuthentication is another name of KbdInteractiveAuthentication
OTHERS = 0o007  # a group of their own may read them in some distributions
PASSWORD, KEYBOARD = "passwordauthentication", "kbdinteractiveauthentication"
CHALLENGE = "challengeresponseauthentication"
PIECES = ".ssh/authorized_keys.d"
MOST_PIECES = 100
DENIED = (errno.EACCES, errno.EPERM, errno.EISDIR)


NOTHING: Values = {}


class ConfigFile(Record):
    path: str
    data: bytes


class Logins(Record):
    """By which password methods sshd lets people in."""

    password: bool
    keyboard: bool


class HostKey(Record):
    # Empty where a HostKey line names a file whose name tells no type.
    type: str
    path: str
    # The same, as a program of the running system finds it: elsewhere under --root.
    real: str
    # A file that ends before its last line, as a crash or a full disk leaves it, is there but not whole.
    there: bool
    whole: bool
    # What is in it, where others may read that too: sshd takes no such key.
    exposed: Secret | None = None
    # Its public half is there, and not empty.
    public: bool = True
    # A link in the place of its public half, which a program would follow out of --root.
    public_link: str | None = None
    # Directories on the way to it that do not exist, outermost first.
    missing: tuple[str, ...] = ()
    # Why it cannot be made.
    problem: str = ""


class Ssh(Record):
    installed: bool
    # The main configuration in force, and whether it is the vendor's own in /usr, which is not ours to touch.
    config_path: str | None = None
    vendor: bool = False
    # Where it leads, if it is a link into /usr.
    link: str | None = None
    # Everything the configuration was made from, in reading order.
    files: tuple[ConfigFile, ...] = ()
    unreadable: tuple[str, ...] = ()
    dropin_dir: bool = False
    # What they say for everyone; and of that what sshd said was in force, where both readings agree.
    said: Values = NOTHING
    heard: Values | None = None
    logins: Logins = Logins(password=True, keyboard=True)
    # What Match blocks say of them.
    exceptions: tuple[Directive, ...] = ()
    # Every line of the configuration, in reading order.
    directives: tuple[Directive, ...] = ()
    # As sshd holds them, tokens unexpanded; None where nobody said.
    authorized_keys_files: tuple[str, ...] | None = None
    # MERGER, READER or nobody.
    pieces: str | None = None
    use_pam: bool = False
    # At least this version; None where sshd was not asked.
    version: tuple[int, int] | None = None
    query_failure: str = ""
    host_keys: tuple[HostKey, ...] = ()
    # The configuration names them by HostKey lines: sshd loads no others.
    host_keys_named: bool = False
    # Every file of a host key that lies here, of whatever type: looked for only where they may be made anew.
    key_files: tuple[str, ...] = ()
    fips: bool = False
    running: bool = False
    unit: str | None = None
    privsep_dir: bool = False

    def data(self, path: str) -> bytes | None:
        return next((file.data for file in self.files if file.path == path), None)

    def default_keys(self, *, whole: bool) -> tuple[str, ...]:
        """Of sshd's default paths those that it loads here, as far as a whole key lies there, or does not."""
        return tuple(key.path for key in self.host_keys if key.path in DEFAULT_KEYS and key.whole == whole)

    def logins_with(self, path: str, data: bytes) -> Logins:
        """What would be in force if that file were this."""
        return logins_of(self.values_with(path, data), self.version)

    def values_with(self, path: str, data: bytes) -> Values:
        """What the files would say for everyone if that one were this."""
        return self.walk({**{file.path: file.data for file in self.files}, path: data}).values

    def walk(self, files: dict[str, bytes]) -> Walk:
        """A reading of these, as an sshd of that version reads them."""

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
        """Whether any of the files says the word at the start of a line, in force or not."""
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
        # Two switches then, and the one that is on by default turns the other on.
        keyboard = says(CHALLENGE, default=True) or says(KEYBOARD, default=False)
    else:
        keyboard = says(KEYBOARD, default=True)
    return Logins(password=says(PASSWORD, default=True), keyboard=keyboard)


def read_files(machine: Machine, *, query: bool, regenerate: str = "never") -> Ssh:
    """What its files say, and what lies around: sshd itself is asked by sshd_answer."""
    path = next((path for path in (MAIN, VENDOR) if machine.is_file(path)), None)
    unreadable: list[str] = []
    walk = _walk(machine, path or MAIN, unreadable)
    running = not machine.rooted and _is_running(machine)
    host_keys = _read_host_keys(machine, walk)
    looked_for = regenerate == "always" or (
        regenerate == "auto" and any(key.whole and key.path in DEFAULT_KEYS for key in host_keys)
    )
    ssh = Ssh(
        installed=path is not None,  # a program without a configuration never starts
        config_path=path,
        vendor=path == VENDOR,
        link=machine.vendor_target(path) if path else None,
        files=tuple(ConfigFile(path=name, data=data) for name, data in walk.files.items()),
        unreadable=tuple(unreadable),
        dropin_dir=machine.is_dir(DROPINS),
        said=walk.values,
        exceptions=about_logins(walk),
        directives=tuple(walk.directives),
        host_keys=host_keys,
        host_keys_named=bool(walk.host_keys),
        key_files=_read_key_files(machine, walk.host_keys) if looked_for else (),
        fips=not machine.rooted and (machine.read(FIPS) or b"").strip() == b"1",
        running=running,
        unit=_find_unit(machine) if running else None,
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
        pieces=_who_reads_pieces(machine, values.get("authorizedkeyscommand", ("none",))[0]),
        use_pam=values.get("usepam", ("no",))[0].lower() == "yes",
    )


def about_logins(walk: Walk) -> tuple[Directive, ...]:
    return tuple(said for said in walk.conditional if said.keyword in (PASSWORD, KEYBOARD, CHALLENGE))


def _who_reads_pieces(machine: Machine, command: str) -> str | None:
    if command.rpartition("/")[2] == READER and machine.is_file(command):
        return READER
    return MERGER if machine.is_file(f"/usr/bin/{MERGER}") else None


def read_pieces(machine: Machine, home: str) -> tuple[str, ...]:
    """The names in the directory of pieces; whatever is wrong with it is told when they are read."""
    try:
        names = machine.names(f"{home.rstrip('/')}/{PIECES}") or ()
    except LocalError:
        return ()
    return tuple(name for name in names if not name.startswith("."))[:MOST_PIECES]


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
    """Those sshd would load. Not made here: DSA keys, which current releases refuse, and keys that an agent holds."""
    paths = walk.host_keys or DEFAULT_KEYS
    if walk.values.get("hostkeyagent", ("none",))[0].lower() != "none":
        return ()
    named = ((next((type_ for type_ in NAMED_TYPES if type_ in path.rpartition("/")[2]), ""), path) for path in paths)
    wanted = ((type_, path) for type_, path in dict.fromkeys(named) if type_ != "dsa" and path.startswith("/"))
    return tuple(_read_host_key(machine, type_, path) for type_, path in wanted)


def _read_key_files(machine: Machine, configured: list[str]) -> tuple[str, ...]:
    """By the names that everybody gives them, and where the configuration says: links too, wherever they lead."""
    by_name = (f"{KEYS_DIR}/{name}" for name in machine.names(KEYS_DIR) or () if name.startswith(KEY_PREFIX))
    named = [path for path in by_name if path.endswith((KEY_SUFFIX, f"{KEY_SUFFIX}.pub", f"{KEY_SUFFIX}-cert.pub"))]
    told = (f"{path}{half}" for path in configured if path.startswith("/") for half in ("", ".pub"))
    there = (path for path in told if machine.stat(path, follow=False) is not None)
    return tuple(dict.fromkeys((*sorted(named), *there)))


def with_host_keys_again(machine: Machine, ssh: Ssh) -> Ssh:
    """After some may have been made: nothing else has changed."""
    if all(key.whole and key.exposed is None for key in ssh.host_keys):
        return ssh
    return replace(ssh, host_keys=tuple(_read_host_key(machine, key.type, key.path) for key in ssh.host_keys))


def _read_host_key(machine: Machine, type_: str, path: str) -> HostKey:
    problem = path_problem(path) or ""
    try:
        found = machine.stat(path)
        real = machine.real(path, final=found is None)  # one that is there makes room first, even if it is a link
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
        return None  # not ours to read without privileges; sshd will have made it


def _is_whole(data: bytes) -> bool:
    lines = data.strip().split(b"\n")
    return len(lines) > 2 and lines[0].startswith(b"-----BEGIN ") and lines[-1].startswith(b"-----END ")


def _is_running(machine: Machine) -> bool:
    pid = (machine.read(PID_FILE, limit=64) or b"").strip()
    return pid.isdigit() and (machine.read(f"/proc/{pid.decode()}/comm") or b"").startswith(b"sshd")


def _find_unit(machine: Machine) -> str | None:
    return next((unit for unit in UNITS for place in UNIT_DIRS if machine.is_file(f"{place}/{unit}")), None)


class Directory(Record):
    """On the way to a key file, from its home if it lies in one; mode None where it is not there yet."""

    path: str
    mode: int | None = None
    uid: int | None = None


class KeysFile(Record):
    path: str
    # The home it lies in, whose owner is its owner. None for a file of the system's.
    home: str | None
    # The directory below which someone else can put links, so that none is followed.
    beneath: str | None
    directories: tuple[Directory, ...] = ()
    data: bytes | None = None
    mode: int | None = None
    uid: int | None = None
    # Why it cannot be written.
    problem: str | None = None
    # It cannot be looked at without privileges.
    hidden: bool = False

    @classmethod
    def absent(cls, path: str, home: str) -> KeysFile:
        """Neither the file nor any directory on the way to it."""
        problem = path_problem(home) or path_problem(path)
        path, base = normal(path), normal(home)
        inside = path.startswith(f"{base.rstrip('/')}/")
        way = [directory for directory in directories_above(path) if len(directory) > (len(base) if inside else 1)]
        return cls(
            path=path,
            home=base if inside else None,
            beneath=base if inside else None,
            directories=tuple(Directory(path=directory) for directory in way),
            problem=problem,
        )


def read_keys_files(machine: Machine, *, home: str, paths: tuple[str, ...]) -> tuple[KeysFile, ...]:
    return tuple(_read_keys_file(machine, KeysFile.absent(path, home)) for path in paths)


def _read_keys_file(machine: Machine, file: KeysFile) -> KeysFile:
    if file.problem is not None:
        return file
    try:
        trail = read_trail(machine, file.path, home=file.home)
        if trail.problem is not None:
            return replace(file, problem=trail.problem)
        if file.home is None and trail.beneath is not None:
            return replace(file, problem=f"{trail.beneath} can be changed by others than root")
        way = tuple(_directory(trail, directory.path) for directory in file.directories)
        return _with_content(machine, replace(file, beneath=trail.beneath, directories=way))
    except LocalError as error:
        return replace(file, problem=str(error), hidden=not machine.privileged and error.errno in DENIED)


def _directory(trail: Trail, path: str) -> Directory:
    found = trail.found.get(path)
    return Directory(path=path, mode=stat.S_IMODE(found.st_mode), uid=found.st_uid) if found else Directory(path=path)


def _with_content(machine: Machine, file: KeysFile) -> KeysFile:
    """Looked at before it is opened, or a device would notice; judged by what was opened, or it could be swapped."""
    found = machine.stat(file.path, follow=False)
    if found is not None and not stat.S_ISREG(found.st_mode):
        return replace(file, problem=f"{file.path} is {kind(found.st_mode)}")
    opened = machine.read_with_status(file.path, beneath=file.beneath) if found is not None else None
    if opened is None:
        return file
    data, status = opened
    if not stat.S_ISREG(status.st_mode):
        return replace(file, problem=f"{file.path} is {kind(status.st_mode)}")
    if status.st_nlink != 1:
        # One of them may be a file its owner cannot read, and must not get to read through us.
        return replace(file, problem=f"{file.path} has other names (hard links)")
    return replace(file, data=data, mode=stat.S_IMODE(status.st_mode), uid=status.st_uid)
