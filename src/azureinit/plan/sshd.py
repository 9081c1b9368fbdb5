"""Whether sshd takes passwords: told where the first value is read, which is the one that counts."""

from __future__ import annotations

from azureinit.errors import SshdFailed
from azureinit.facts.ssh import ONE_KEYBOARD, PRIVSEP, Logins
from azureinit.plan.actions import Caution, Declined, MakeDir, Run, Satisfied, Step, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.facts.ssh import Ssh
    from azureinit.plan.actions import Action, Plan

NAME = "sshd"
DROPIN, WHOLE = "drop-in", "sshd_config"
HEADER = b"# Written by azure-init. sshd takes the first value it reads.\n"
BEGIN = b"# azure-init: begin. sshd takes the first value it reads.\n"
END = b"# azure-init: end\n"


def plan_sshd(*, allow_password: bool | None, facts: Facts, config: Config) -> Plan:
    ssh = facts.ssh
    why_not = _why_not(allow_password, ssh, config)
    if allow_password is None or why_not:
        return (Satisfied(name=NAME, why=why_not),)
    return (
        *_plan_logins(Logins(password=allow_password, keyboard=allow_password), facts, config),
        *_exceptions(ssh, allow_password=allow_password),
    )


def _plan_logins(wanted: Logins, facts: Facts, config: Config) -> Plan:
    ssh = facts.ssh
    if ssh.logins == wanted:
        return (Satisfied(name=NAME, why=f"already {'takes' if wanted.password else 'refuses'} passwords"),)
    if ssh.config_path is None:
        return (Caution(name=NAME, why="sshd is installed, but its configuration is nowhere we know: left alone"),)
    why = f"must {'take' if wanted.password else 'refuse'} passwords"
    write = _write(wanted, facts, config)
    if isinstance(write, Declined):
        return (Step(name=NAME, why=why, ways=(write,), failure=SshdFailed),)
    return _step(write, why, facts)


def _exceptions(ssh: Ssh, *, allow_password: bool) -> Plan:
    """Whom a Match block treats otherwise than everyone: somebody's wish, but one to know of."""
    against = "no" if allow_password else "yes"
    whys = (
        f"{_shown(said.line)!r} below {_shown(said.block.line)!r} in {said.block.path} counts for some: left alone"
        for said in ssh.exceptions
        if said.value == against
    )
    return tuple(Caution(name=NAME, why=why) for why in dict.fromkeys(whys))


def _shown(line: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in line[:100])


def _why_not(allow_password: bool | None, ssh: Ssh, config: Config) -> str:
    if allow_password is None:
        return "left alone: no source says whether passwords are allowed"
    if not config.ssh.configure_sshd_password_authentication:
        return "left alone: ssh.configure_sshd_password_authentication is false"
    return "" if ssh.installed else "not installed"


def _write(wanted: Logins, facts: Facts, config: Config) -> Write | Declined:
    """The drop-in if it would win, else the whole file with our lines before everything."""
    ssh, path = facts.ssh, facts.distro.sshd_dropin
    lines = _lines(wanted, ssh)
    check = _check(facts, config)
    was = ssh.data(path)
    if was != HEADER + lines and ssh.logins_with(path, HEADER + lines) == wanted:
        return Write(path=path, data=HEADER + lines, mode=0o600, was=was, check=check)
    main = ssh.config_path or ""
    if ssh.vendor:
        return Declined(backend=WHOLE, why=f"{main} is the vendor's, and {path} would not count there")
    old = ssh.data(main)
    if old is None:
        return Declined(backend=WHOLE, why=f"{main} cannot be read")
    new = with_block(old, lines)
    if new == old:
        return Declined(backend=WHOLE, why=f"{main} begins with our lines, and sshd says that they do not count")
    if ssh.logins_with(main, new) != wanted:
        return Declined(backend=WHOLE, why=f"a Match all block counts more than the start of {main}")
    return Write(path=main, data=new, was=old, check=check)


def _lines(wanted: Logins, ssh: Ssh) -> bytes:
    names = ["PasswordAuthentication", "KbdInteractiveAuthentication"]
    # An sshd that holds the two apart heeds this one; where its version is unknown the image's own file hints at it.
    apart = ssh.sets("ChallengeResponseAuthentication") if ssh.version is None else ssh.version < ONE_KEYBOARD
    if apart:
        names.append("ChallengeResponseAuthentication")
    value = "yes" if wanted.password else "no"
    return "".join(f"{name} {value}\n" for name in names).encode()


def with_block(data: bytes, lines: bytes) -> bytes:
    """The file with our lines first, in place of those an earlier run put there."""
    before, begin, rest = data.partition(BEGIN)
    _, end, after = rest.partition(END)
    return BEGIN + lines + END + (before + after if begin and end else data)


def _check(facts: Facts, config: Config) -> Run | None:
    """`sshd -t`, with one key that will be there: it refuses to judge without any."""
    if facts.rooted or "sshd" not in facts.tools:
        return None
    made = [kind for kind in config.ssh.host_key_types if kind != "rsa" and not (kind == "ed25519" and facts.ssh.fips)]
    keys = sorted(facts.ssh.host_keys, key=lambda key: not key.whole)
    key = next((key.path for key in keys if key.whole or key.type in made), None)
    return Run(argv=("sshd", "-t", "-h", key)) if key else None


def _step(write: Write, why: str, facts: Facts) -> Plan:
    ssh = facts.ssh
    actions: list[Action] = []
    if write.check is not None and not ssh.privsep_dir:
        actions.append(MakeDir(path=PRIVSEP, mode=0o755))
    directory = write.path.rpartition("/")[0]
    whole = write.path == ssh.config_path
    if not whole and not ssh.dropin_dir:
        actions.append(MakeDir(path=directory, mode=0o755))
    actions.append(write)
    cautions: Plan = ()
    if ssh.running and facts.systemd and ssh.unit and "systemctl" in facts.tools:
        # Not waited for: sshd may be ordered after the unit we are, and the reload with it.
        actions.append(Run(argv=("systemctl", "--no-block", "try-reload-or-restart", ssh.unit)))
    elif ssh.running:
        cautions = (Caution(name=NAME, why="is running and not under systemd: heeded when it is next started"),)
    way = Way(backend=WHOLE if whole else DROPIN, actions=tuple(actions))
    return (Step(name=NAME, why=f"{why}: {write.path}", ways=(way,), failure=SshdFailed), *cautions)
