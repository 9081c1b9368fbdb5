"""sshd's settings for passwords and idle clients, written where sshd reads them first: the first value counts."""

from __future__ import annotations

from azureinit.errors import SshdFailed
from azureinit.facts.ssh import ONE_KEYBOARD, PRIVSEP, Logins
from azureinit.plan.actions import Caution, Declined, MakeDir, Satisfied, Step, Way, Write
from azureinit.plan.hostkeys import NOT_IN_FIPS, types_before_ready
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.host import Host
    from azureinit.facts.ssh import Ssh
    from azureinit.plan.actions import Action, Plan, Run

NAME = "sshd"
DROPIN, WHOLE = "drop-in", "sshd_config"
HEADER = b"# Written by azure-init. sshd takes the first value it reads.\n"
BEGIN = b"# azure-init: begin. sshd takes the first value it reads.\n"
END = b"# azure-init: end\n"
PASSWORDS = ("PasswordAuthentication", "KbdInteractiveAuthentication", "ChallengeResponseAuthentication")
METHODS = "authenticationmethods"
BY_PASSWORD = frozenset(("password", "keyboard-interactive"))
ALIVE = "ClientAliveInterval"
LONGEST_INTERVAL = (1 << 31) - 1  # sshd's own limit
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Settings(Record):
    """None: the setting stays as it is."""

    logins: Logins | None
    alive: int | None  # seconds

    def lacking(self, ssh: Ssh, logins: Logins, *, path: str, data: bytes) -> Settings:
        """The settings that are not in force with these logins and with this content of that file."""
        alive = self.alive
        if alive is not None and alive == interval(ssh.values_with(path, data).get(ALIVE.lower(), ("0",))[0]):
            alive = None
        return Settings(logins=None if self.logins == logins else self.logins, alive=alive)

    def in_words(self, s: str = "") -> str:
        words = []
        if self.logins is not None:
            words.append(f"{'accept' if self.logins.password else 'refuse'}{s} passwords")
        if self.alive is not None:
            words.append(f"probe{s} a client after {self.alive} s of silence")
        return " and ".join(words)


NOTHING = Settings(logins=None, alive=None)


def plan_sshd(*, allow_password: bool | None, host: Host, ssh: Ssh, config: Config) -> Plan:
    why_not = _why_not(allow_password, ssh, config)
    left: Plan = (Satisfied(name=NAME, why=why_not),) if why_not else ()
    logins = None
    if allow_password is not None and not why_not:
        logins = Logins(password=allow_password, keyboard=allow_password)
    demanded = _demanded(ssh) if logins is not None and not logins.password and logins != ssh.logins else None
    if demanded is not None and not all(map(_takes_more, _methods(ssh))):
        why = f"{demanded} accepts a password alone, and the platform wants passwords refused"
        declined = Declined(backend=DROPIN, why=f"{why}: sshd would not start")
        return (Step(name=NAME, why="must refuse passwords", ways=(declined,), failure=SshdFailed),)
    if demanded is not None:
        why = f"{demanded} requires more than a password for every login: passwords stay on, as sshd would not start"
        left, logins = (Caution(name=NAME, why=f"{why} without them"),), None
    wanted = Settings(logins=logins, alive=(config.ssh.client_alive_interval or None) if ssh.installed else None)
    if wanted == NOTHING:
        return left
    exceptions = () if logins is None else _exceptions(ssh, allow_password=logins.password)
    return (*left, *_plan_wanted(wanted, host=host, ssh=ssh, config=config), *exceptions)


def _plan_wanted(wanted: Settings, *, host: Host, ssh: Ssh, config: Config) -> Plan:
    main = ssh.config_path or ""
    lacking = wanted.lacking(ssh, ssh.logins, path=main, data=ssh.data(main) or b"")
    if lacking == NOTHING:
        return (Satisfied(name=NAME, why=f"already {wanted.in_words('s')}"),)
    if ssh.config_path is None:
        return (Caution(name=NAME, why="sshd is installed, but its configuration file was not found: not changed"),)
    why = f"must {lacking.in_words()}"
    write = _write(lacking, host=host, ssh=ssh, config=config)
    if isinstance(write, Declined):
        return (Step(name=NAME, why=why, ways=(write,), failure=SshdFailed),)
    return _step(write, why, f"sshd {lacking.in_words('s')} now: wrote {write.path}", host=host, ssh=ssh)


def _demanded(ssh: Ssh) -> str | None:
    """The global line by which every login requires a password: with passwords disabled sshd would not start."""
    said = next((said for said in ssh.directives if said.keyword == METHODS and said.block is None), None)
    if said is None or not all(BY_PASSWORD & _names(listed) for listed in said.arguments):
        return None
    return f"{said.path} line {said.number}: '{_shown(said.line)}'"


def _methods(ssh: Ssh) -> list[str]:
    """Every list of methods that may count for some login."""
    return [listed for said in ssh.directives if said.keyword == METHODS for listed in said.arguments]


def _takes_more(listed: str) -> bool:
    """Whether a password alone is not sufficient."""
    return listed.lower() != "any" and bool(_names(listed) - BY_PASSWORD)


def _names(listed: str) -> set[str]:
    return {name.partition(":")[0].lower() for name in listed.split(",")}


def _exceptions(ssh: Ssh, *, allow_password: bool) -> Plan:
    """Match blocks that contradict the setting: they stay, with a warning."""
    against = "no" if allow_password else "yes"
    whys = (
        f"{_shown(said.line)!r} below {_shown(said.block.line)!r} in {said.block.path} is for some logins: not changed"
        for said in ssh.exceptions
        if said.block is not None and said.arguments[0].lower() == against
    )
    return tuple(Caution(name=NAME, why=why) for why in dict.fromkeys(whys))


def _shown(line: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in line[:100])


def _why_not(allow_password: bool | None, ssh: Ssh, config: Config) -> str:
    if allow_password is None:
        return "not changed: no source says whether passwords are allowed"
    if not config.ssh.configure_sshd_password_authentication:
        return "not changed: ssh.configure_sshd_password_authentication is false"
    return "" if ssh.installed else "not installed"


def _write(wanted: Settings, *, host: Host, ssh: Ssh, config: Config) -> Write | Declined:
    """The drop-in where it takes effect, else the main file with azure-init's lines first."""
    path = host.distro.sshd_dropin
    if (wanted.alive or 0) > LONGEST_INTERVAL:
        return Declined(backend=DROPIN, why=f"ssh.client_alive_interval is above sshd's {LONGEST_INTERVAL}")

    def would_do(path: str, data: bytes) -> bool:
        return wanted.lacking(ssh, ssh.logins_with(path, data), path=path, data=data) == NOTHING

    check = _check(host=host, ssh=ssh, config=config)
    was = ssh.data(path)
    new = HEADER + _lines(wanted, ssh, before=(was or b"").partition(HEADER)[2])
    if was != new and would_do(path, new):
        # Without a check where sshd has just reported its configuration: all versions know these keywords. With one
        # where AuthenticationMethods is set: sshd does not start if it requires a method that these disable.
        plain = ssh.reported is not None and METHODS not in ssh.configured
        return Write(path=path, data=new, mode=0o600, was=was, check=None if plain else check)
    main = ssh.config_path or ""
    if ssh.vendor:
        return Declined(backend=WHOLE, why=f"{main} is the vendor's, and {path} would have no effect")
    old = ssh.data(main)
    if old is None:
        return Declined(backend=WHOLE, why=f"{main} cannot be read")
    new = with_block(old, _lines(wanted, ssh, before=old.partition(BEGIN)[2].partition(END)[0]))
    if new == old:
        return Declined(
            backend=WHOLE, why=f"{main} begins with azure-init's lines, and sshd reports that they have no effect"
        )
    if not would_do(main, new):
        return Declined(backend=WHOLE, why=f"a Match all block overrides the start of {main}")
    return Write(path=main, data=new, was=old, check=check)


def _lines(wanted: Settings, ssh: Ssh, *, before: bytes) -> bytes:
    """The wanted settings, and an earlier run's lines for settings that are not wanted now."""
    said: list[str] = []
    if wanted.logins is not None:
        # Old versions have a third keyword; where the version is unknown, the image's own file shows it.
        apart = ssh.sets(PASSWORDS[2]) if ssh.version is None else ssh.version < ONE_KEYBOARD
        value = "yes" if wanted.logins.password else "no"
        said += [f"{name} {value}" for name in (PASSWORDS if apart else PASSWORDS[:2])]
    decided = (PASSWORDS if wanted.logins is not None else ()) + ((ALIVE,) if wanted.alive is not None else ())
    said += [line for line in before.decode("ascii", "replace").split("\n") if line and not line.startswith(decided)]
    if wanted.alive is not None:
        said.append(f"{ALIVE} {wanted.alive}")
    return "".join(f"{line}\n" for line in said).encode()


def interval(text: str) -> int:
    """Seconds of `90`, `90s` or `1m30s`; -1 for text that sshd refuses."""
    total, digits = 0, ""
    for letter in text.lower():
        if letter in "0123456789":
            digits += letter
        elif letter in UNITS and 0 < len(digits) < 12:
            total, digits = total + int(digits) * UNITS[letter], ""
        else:
            return -1
    return total + int(digits or 0) if text and len(digits) < 12 else -1


def with_block(data: bytes, lines: bytes) -> bytes:
    """The file with azure-init's block first, instead of an earlier run's block."""
    before, begin, rest = data.partition(BEGIN)
    _, end, after = rest.partition(END)
    return BEGIN + lines + END + (before + after if begin and end else data)


def _check(*, host: Host, ssh: Ssh, config: Config) -> Run | None:
    """With a key that exists when the check runs: sshd refuses to judge a configuration without one."""
    early = types_before_ready(config.ssh.host_key_types, ssh)
    slow = ("rsa",) if not ssh.host_keys_named else ()
    made = [kind for kind in ("", *early) if kind not in slow and not (kind == NOT_IN_FIPS and ssh.fips)]
    keys = sorted(ssh.host_keys, key=lambda key: not key.whole)
    from azureinit.backends.sshd import check_config

    return check_config(next((key.path for key in keys if key.whole or key.type in made), None), host)


def _step(write: Write, why: str, did: str, *, host: Host, ssh: Ssh) -> Plan:
    actions: list[Action] = []
    if write.check is not None and not ssh.privsep_dir:
        actions.append(MakeDir(path=PRIVSEP, mode=0o755))
    directory = write.path.rpartition("/")[0]
    whole = write.path == ssh.config_path
    if not whole and not ssh.dropin_dir:
        actions.append(MakeDir(path=directory, mode=0o755))
    actions.append(write)
    cautions: Plan = ()
    if whole and ssh.link:
        why_file = (
            f"{write.path} is a link to {ssh.link}, where drop-ins have no effect: it becomes a file of this machine"
        )
        cautions = (Caution(name=NAME, why=why_file),)
    from azureinit.backends.service import reload_unit

    reload = reload_unit(ssh.unit, host) if ssh.running else None
    if reload is not None:
        actions.append(reload)
    elif ssh.running:
        late = "is running, and not as a service of systemd or OpenRC: reads this when it is next started"
        cautions = (*cautions, Caution(name=NAME, why=late))
    way = Way(backend=WHOLE if whole else DROPIN, actions=tuple(actions))
    return (Step(name=NAME, why=f"{why}: {write.path}", did=did, ways=(way,), failure=SshdFailed), *cautions)
