"""sshd as it stands: its configuration and what is in force, its host keys, whether it runs; and a user's key files."""

from __future__ import annotations

import errno
import stat

from azureinit.errors import AzureInitError, LocalError
from azureinit.facts.sshd_config import Walk, expand
from azureinit.facts.trust import directories_above, kind, normal, path_problem, read_trail
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.sshd_config import Conditional, Values
    from azureinit.facts.trust import Trail
    from azureinit.machine import Machine

MAIN = "/etc/ssh/sshd_config"
VENDOR = "/usr/etc/ssh/sshd_config"
DROPINS = "/etc/ssh/sshd_config.d"
PRIVSEP = "/run/sshd"
PID_FILE = "/run/sshd.pid"
FIPS = "/proc/sys/crypto/fips_enabled"
UNITS = ("ssh.service", "sshd.service")
UNIT_DIRS = ("/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system")
KEY_TYPES = ("ed25519", "ecdsa", "rsa")
QUERY_TIMEOUT = 10.0
ASKED = (9, 3)  # the first sshd that answers -G
ONE_KEYBOARD = (8, 7)  # from here on ChallengeResponseAuthentication is another name of KbdInteractiveAuthentication
PASSWORD, KEYBOARD = "passwordauthentication", "kbdinteractiveauthentication"
CHALLENGE = "challengeresponseauthentication"
DENIED = (errno.EACCES, errno.EPERM, errno.EISDIR)


class ConfigFile(Record):
    path: str
    data: bytes


class Logins(Record):
    """By which password methods sshd lets people in."""

    password: bool
    keyboard: bool


class HostKey(Record):
    type: str
    path: str
    # The same, as a program of the running system finds it: elsewhere under --root.
    real: str
    # A file that ends before its last line, as a crash or a full disk leaves it, is there but not whole.
    there: bool
    whole: bool
    # A link in the place of its public half, which a program would follow out of --root.
    public_link: str | None = None
    # Why it cannot be made.
    problem: str = ""


class Ssh(Record):
    installed: bool
    # The main configuration in force, and whether it is the vendor's own in /usr, which is not ours to touch.
    config_path: str | None = None
    vendor: bool = False
    # Everything the configuration was made from, in reading order.
    files: tuple[ConfigFile, ...] = ()
    unreadable: tuple[str, ...] = ()
    dropin_dir: bool = False
    logins: Logins = Logins(password=True, keyboard=True)
    # What Match blocks say of them.
    exceptions: tuple[Conditional, ...] = ()
    # As sshd holds them, tokens unexpanded; None where nobody said.
    authorized_keys_files: tuple[str, ...] | None = None
    use_pam: bool = False
    # At least this version; None where sshd was not asked.
    version: tuple[int, int] | None = None
    query_failure: str = ""
    host_keys: tuple[HostKey, ...] = ()
    fips: bool = False
    running: bool = False
    unit: str | None = None
    privsep_dir: bool = False

    def data(self, path: str) -> bytes | None:
        return next((file.data for file in self.files if file.path == path), None)

    def logins_with(self, path: str, data: bytes) -> Logins:
        """What would be in force if that file were this."""
        files = {file.path: file.data for file in self.files}
        files[path] = data

        def names(directory: str) -> tuple[str, ...]:
            prefix = directory.rstrip("/") + "/"
            return tuple({known[len(prefix) :].split("/")[0] for known in files if known.startswith(prefix)})

        walk = Walk(
            self.config_path or path,
            read=files.get,
            expand=lambda pattern: expand(pattern, names),
            aliases=aliases_of(self.version),
        )
        return logins_of(walk.values, self.version)

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


def read_ssh(machine: Machine, *, tools: frozenset[str], query: bool) -> Ssh:
    path = next((path for path in (MAIN, VENDOR) if machine.is_file(path)), None)
    askable = query and "sshd" in tools and not machine.rooted
    answer, failure, version = _ask(machine) if askable else (None, "", None)
    if path is None and answer is None:
        # A program without a configuration never starts.
        return Ssh(installed=False, query_failure=failure, version=version)
    unreadable: list[str] = []
    walk = _walk(machine, path or MAIN, unreadable, version)
    values = walk.values if answer is None else answer
    keys_files = values.get("authorizedkeysfile") if query else None
    if keys_files is not None and [name.lower() for name in keys_files] == ["none"]:
        keys_files = ()
    running = not machine.rooted and _is_running(machine)
    return Ssh(
        installed=True,
        config_path=path,
        vendor=path == VENDOR,
        files=tuple(ConfigFile(path=name, data=data) for name, data in walk.files.items()),
        unreadable=tuple(unreadable),
        dropin_dir=machine.is_dir(DROPINS),
        logins=logins_of(values, version),
        exceptions=tuple(said for said in walk.conditional if said.keyword in (PASSWORD, KEYBOARD, CHALLENGE)),
        authorized_keys_files=keys_files,
        use_pam=values.get("usepam", ("no",))[0].lower() == "yes",
        version=version,
        query_failure=failure,
        host_keys=_read_host_keys(machine, walk.host_keys),
        fips=not machine.rooted and (machine.read(FIPS) or b"").strip() == b"1",
        running=running,
        unit=_find_unit(machine) if running else None,
        privsep_dir=machine.is_dir(PRIVSEP),
    )


def _walk(machine: Machine, path: str, unreadable: list[str], version: tuple[int, int] | None) -> Walk:
    def read(name: str) -> bytes | None:
        try:
            return machine.read(name)
        except LocalError as error:
            if error.errno not in DENIED:
                raise
            unreadable.append(name)
            return None

    return Walk(path, read=read, expand=lambda pattern: expand(pattern, machine.names), aliases=aliases_of(version))


def _ask(machine: Machine) -> tuple[Values | None, str, tuple[int, int] | None]:
    """What sshd says is in force, or why it did not, and its version as far as either tells."""
    try:
        ran = machine.run(("sshd", "-G"), timeout=QUERY_TIMEOUT)
    except AzureInitError as error:
        return None, str(error), None
    if ran.status == 0:
        return parse_answer(ran.out), "", ASKED
    told = ran.err.decode("utf-8", "replace")
    first = next(iter(told.split("\n")), "").strip() or f"exit status {ran.status}"
    return None, f"sshd -G: {first[:200]}", parse_version(told)


def parse_answer(out: bytes) -> Values:
    values: Values = {}
    for line in out.decode("utf-8", "surrogateescape").splitlines():
        keyword, *arguments = line.split(" ")
        if arguments:
            values.setdefault(keyword.lower(), tuple(word for word in arguments if word))
    return {keyword: arguments for keyword, arguments in values.items() if arguments}


def parse_version(text: str) -> tuple[int, int] | None:
    """From `OpenSSH_9.2p1 ...`, which an sshd says with its usage."""
    major, _, rest = text.partition("OpenSSH_")[2].partition(".")
    minor = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return (int(major), int(minor)) if major.isdecimal() and minor and len(major + minor) < 9 else None


def _read_host_keys(machine: Machine, configured: list[str]) -> tuple[HostKey, ...]:
    """Those sshd would load: where its configuration names some, those whose name tells their type."""
    paths = configured or [f"/etc/ssh/ssh_host_{kind}_key" for kind in KEY_TYPES]
    named = ((next((type_ for type_ in KEY_TYPES if type_ in path.rpartition("/")[2]), None), path) for path in paths)
    return tuple(_read_host_key(machine, type_, path) for type_, path in named if type_ and path.startswith("/"))


def with_host_keys_again(machine: Machine, ssh: Ssh) -> Ssh:
    """After some were made: nothing else has changed."""
    return replace(ssh, host_keys=tuple(_read_host_key(machine, key.type, key.path) for key in ssh.host_keys))


def _read_host_key(machine: Machine, type_: str, path: str) -> HostKey:
    problem = path_problem(path) or ""
    try:
        found = machine.stat(path)
        real = machine.real(path, final=found is None)  # one that is there makes room first, even if it is a link
        whole = found is not None and _is_whole(machine, path)
        return HostKey(
            type=type_,
            path=path,
            real=real,
            there=found is not None,
            whole=whole,
            public_link=_public_link(machine, real) if machine.rooted else None,
            problem=problem,
        )
    except LocalError as error:
        return HostKey(type=type_, path=path, real=path, there=False, whole=False, problem=problem or str(error))


def _public_link(machine: Machine, real: str) -> str | None:
    public = f"{real[len(machine.root) :]}.pub"
    found = machine.stat(public, follow=False)
    return public if found is not None and stat.S_ISLNK(found.st_mode) else None


def _is_whole(machine: Machine, path: str) -> bool:
    try:
        lines = (machine.read(path, limit=64 * 1024) or b"").strip().split(b"\n")
    except LocalError as error:
        if error.errno not in DENIED:
            raise
        return True  # not ours to read without privileges; sshd will have made it
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
        return replace(file, problem=str(error))


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
