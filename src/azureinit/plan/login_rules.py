"""The rules by which sshd, PAM and the account decide about a login, for images that restrict logins.

Every rule yields obstacles: level 2 is certain, 1 is a doubt. Obstacles for every method are common; a method works
without obstacles of its own. Loaded only where plan/access.py finds something out of the ordinary.
"""

from __future__ import annotations

from azureinit.plan.access import ENTER, MODERN, NEVER, Verdict, closed, is_modern, is_plain, pam_problem
from azureinit.plan.login_attempt import CERTAIN, DOUBT, LoginAttempt, Obstacle, place, printable
from azureinit.plan.login_keys import of_keys
from azureinit.plan.sshd_match import ALIASES, LISTS, InForce, applied, clients, in_force, refusing_line
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.facts.access import Access, Module
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host
    from azureinit.facts.key_files import AdminFiles
    from azureinit.facts.ssh import Ssh
    from azureinit.facts.sshd_config import Values
    from azureinit.plan.access import Account
    from azureinit.sources.metadata import Metadata

MOST_ASKED = 6
LOCAL = "10.0.0.4"
PASSWORD_METHODS = ("password", "keyboard-interactive")
LOOPBACK = ("127.", "localhost", "::1", "[::1]")
PLAIN_AUTH = (
    "pam_unix",
    "pam_deny",
    "pam_permit",
    "pam_env",
    "pam_nologin",
    "pam_faildelay",
    "pam_cap",
    "pam_localuser",
)


class Outcome(Record):
    level: int
    whys: tuple[str, ...]
    notes: tuple[str, ...] = ()


def connections(account: Account, ssh: Ssh) -> tuple[str, ...]:
    """Arguments for sshd -C: one for each group of clients that Match blocks do not distinguish."""
    found = clients(ssh.directives, user=account.name, groups=account.groups)
    different: dict[tuple[bool | None, ...], str] = {}
    for client in found:
        different.setdefault(applied(ssh.directives, client), client.address)
    addresses = list(different.values())[:MOST_ASKED]
    port = found[0].ports[0]
    return tuple(f"user={account.name},host={at},addr={at},laddr={LOCAL},lport={port}" for at in addresses)


def judge(
    account: Account,
    *,
    metadata: Metadata,
    host: Host,
    accounts: Accounts,
    ssh: Ssh,
    admin: AdminFiles,
    access: Access,
    today: int,
    pending: bool,
) -> Verdict:
    answers = dict(access.answers)
    found = clients(ssh.directives, user=account.name, groups=account.groups)
    alike = {applied(ssh.directives, client): answers[client.address] for client in found if client.address in answers}
    outcomes = []
    for client in found:
        own = in_force(ssh.directives, client)
        answer = alike.get(applied(ssh.directives, client)) if not client.benefit else None
        attempt = LoginAttempt(
            account=account,
            client=client,
            values=own if answer is None else settled(own, answer),
            metadata=metadata,
            accounts=accounts,
            ssh=ssh,
            admin=admin,
            access=access,
            today=today,
            pending=pending,
        )
        outcomes.append(outcome(attempt, asked=answer is not None or pending or is_plain(ssh)))
    worst = max(outcomes, key=lambda one: one.level)
    level = worst.level
    if level == CERTAIN and any(one.level < CERTAIN for one in outcomes):
        level = DOUBT
    if level == CERTAIN and (metadata.custom_data is not None or host.rooted):
        level = DOUBT  # customData may change it; under --root no running sshd can be asked
    notes = tuple(dict.fromkeys(note for one in outcomes for note in one.notes)) if not level else ()
    return Verdict(level=level, why=_told(account, worst, level, outcomes, metadata, access.unanswered), notes=notes)


def _told(
    account: Account, worst: Outcome, level: int, outcomes: list[Outcome], metadata: Metadata, unanswered: str
) -> str:
    if not level:
        return ""
    some = min(one.level for one in outcomes) < worst.level
    verb = "cannot log in" if level == CERTAIN else "may not be able to log in"
    where = " from some addresses" if some else ""
    why = f"{account.name} {verb}{where}: {'; '.join(dict.fromkeys(worst.whys))}"
    if level == DOUBT and metadata.custom_data is not None:
        why += " (customData may change that)"
    elif level == DOUBT and unanswered:
        why += f" ({unanswered})"
    return why


def settled(own: dict[str, tuple[InForce, ...]], answer: Values) -> dict[str, tuple[InForce, ...]]:
    """sshd's own answer, with the configuration lines behind it."""
    found: dict[str, tuple[InForce, ...]] = {}
    for name, arguments in answer.items():
        keyword = ALIASES.get(name, name)
        known = own.get(keyword, ())
        if keyword in LISTS:
            by_word = {value.arguments[0]: value.directive for value in known}
            found[keyword] = tuple(
                InForce(keyword=keyword, arguments=(word,), directive=by_word.get(word)) for word in arguments
            )
        elif keyword not in found:
            found[keyword] = (
                InForce(keyword=keyword, arguments=arguments, directive=known[0].directive if known else None),
            )
    # Also the keywords that this sshd does not print.
    return {**{keyword: value for keyword, value in own.items() if keyword not in LISTS}, **found}


def outcome(attempt: LoginAttempt, *, asked: bool) -> Outcome:
    """`asked`: sshd reported the values itself, or will be asked; without that, its files give only a doubt."""
    common = [*_of_machine(attempt), *_of_account(attempt), *_weakened(_of_server(attempt), asked=asked)]
    by_key = [*_weakened(of_keys(attempt), asked=asked)] if attempt.metadata.keys else [NO_KEY]
    by_password = [*_weakened(_of_password(attempt), asked=asked)] if attempt.metadata.has_password else [NO_PASSWORD]
    ways = list(_methods(attempt, by_key, by_password))
    best = min((obstacles for _, obstacles in ways), key=_level)
    used = {name for names, obstacles in ways if _level(obstacles) < CERTAIN for name in names}
    if used and used.isdisjoint(PASSWORD_METHODS) and not _level(by_password):
        by_password = [_unused(attempt)]
    if used and "publickey" not in used and not _level(by_key):
        by_key = [_unused(attempt)]
    level = max(_level(common), _level(best))
    shown = sorted((*common, *best), key=lambda one: -one.level)
    whys = tuple(one.why for one in shown if one.level == level)
    given = ((attempt.metadata.keys, "key", by_key), (attempt.metadata.has_password, "password", by_password))
    notes = tuple(
        f"the {name} that was given does not let {attempt.account.name} in: {one.why}"
        for there, name, obstacles in given
        for one in obstacles
        if there and one.level
    )
    return Outcome(level=level, whys=whys, notes=notes)


def _level(obstacles: Iterable[Obstacle]) -> int:
    return max((one.level for one in obstacles), default=0)


def _weakened(obstacles: Iterable[Obstacle], *, asked: bool) -> Iterable[Obstacle]:
    for one in obstacles:
        yield one if asked else Obstacle(level=min(one.level, DOUBT), why=one.why)


NO_KEY = Obstacle(level=CERTAIN, why="no key was given")
NO_PASSWORD = Obstacle(level=CERTAIN, why="no password was given")


# ---- the machine and the account


def _of_machine(attempt: LoginAttempt) -> Iterable[Obstacle]:
    access, ssh = attempt.access, attempt.ssh
    if access.start is not None:
        level = CERTAIN if access.start.certain else DOUBT
        yield Obstacle(level=level, why=f"sshd does not start: {access.start.why}")
    if ssh.query_failure.startswith("sshd -G: /"):
        yield Obstacle(level=CERTAIN, why=f"sshd refuses its configuration: {ssh.query_failure[len('sshd -G: ') :]}")
    if not attempt.pending and ssh.host_keys and not any(key.whole for key in ssh.host_keys):
        yield Obstacle(level=DOUBT, why="sshd has no host key")
    if access.nologin and attempt.account.uid != 0:
        modules = access.pam.account if access.pam is not None else ()
        named = [module for module in modules if module.name == "pam_nologin"]
        if not attempt.pam or any(not argument_of(module, "file") for module in named):
            yield Obstacle(level=CERTAIN, why="/etc/nologin exists: only root may log in")
    if access.denied:
        why = f"/etc/hosts.deny: '{printable(access.denied)}' may refuse clients (TCP wrappers)"
        yield Obstacle(level=DOUBT, why=why)


def _of_account(attempt: LoginAttempt) -> Iterable[Obstacle]:
    account, access = attempt.account, attempt.access
    other = attempt.accounts.nss_why
    level = DOUBT if other else CERTAIN
    chrooted = attempt.word("chrootdirectory", "none").lower() != "none"
    if access.shell and not chrooted:
        yield Obstacle(level=level, why=f"the account {account.name}: {access.shell}")
    if account.uid is None:
        return
    unreachable = closed(access.shell_way, account, ENTER)
    if unreachable and not chrooted:
        yield Obstacle(level=level, why=f"the account {account.name}: its shell cannot be run ({unreachable})")
    if account.locked and not attempt.pam:
        yield Obstacle(
            level=level, why=f"the account {account.name} is locked ('!' in /etc/shadow), and UsePAM is off in sshd"
        )
    modules = [module for module in access.pam.account if module.name == "pam_unix"] if access.pam is not None else []
    ages = modules and not any("no_pass_expiry" in module.arguments for module in modules)
    if (
        account.expires != NEVER
        and (modules or not attempt.pam)
        and attempt.today >= account.expires + (not attempt.pam)
    ):
        yield Obstacle(level=level, why=f"the account {account.name} expired (/etc/shadow, field 8: {account.expires})")
    if account.malformed and modules and attempt.pam:
        yield Obstacle(
            level=level, why=f"the line of {account.name} in /etc/shadow is malformed: PAM refuses the account"
        )
    age = attempt.today - account.changed
    limited = account.changed > 0 and account.longest != NEVER
    last = account.longest + account.inactive  # PAM 1.7 and later refuse on that day already
    if attempt.pam and ages and limited and account.inactive != NEVER and age >= last:
        why = f"the password of {account.name} expired and can no longer be changed (/etc/shadow)"
        yield Obstacle(level=level if age > last else DOUBT, why=why)
    elif attempt.pam and ages and (account.changed == 0 or (limited and age >= account.longest)):
        due = account.changed == 0 or age > account.longest
        certain = due and not account.usable and not attempt.metadata.has_password
        why = f"{account.name} must change a password first (/etc/shadow, field 3)" + (
            ", and has none" if certain else ""
        )
        yield Obstacle(level=level if certain else DOUBT, why=why)
    problem = pam_problem(access.pam) if access.pam is not None and attempt.pam else None
    if problem is not None:
        yield Obstacle(level=CERTAIN if problem[1] else DOUBT, why=problem[0])


def argument_of(module: Module, name: str) -> str:
    return next((word for word in module.arguments if word.startswith(f"{name}=")), "")


# ---- sshd, whatever the credential


def _of_server(attempt: LoginAttempt) -> Iterable[Obstacle]:
    refusing = refusing_line(attempt.values, attempt.client)
    group_line = refusing is not None and refusing[0].keyword.endswith("groups")
    if refusing is not None and not (group_line and attempt.account.uid is None):
        said, certain = refusing
        yield Obstacle(
            level=CERTAIN if certain and not (group_line and attempt.accounts.nss_why) else DOUBT,
            why=f"{place(said)} refuses {attempt.account.name}"
            + (f" (in the groups {', '.join(sorted(attempt.account.groups))})" if group_line else ""),
        )
    if attempt.says("refuseconnection", default=False):
        yield Obstacle(level=CERTAIN, why=f"{attempt.where('refuseconnection')} refuses every connection")
    if attempt.word("maxsessions", "10") == "0":
        yield Obstacle(level=CERTAIN, why=f"{attempt.where('maxsessions')} allows no session")
    if attempt.word("maxauthtries", "6") == "0":
        yield Obstacle(
            level=DOUBT, why=f"{attempt.where('maxauthtries')} leaves most clients no authentication attempt"
        )
    for keyword in MODERN:
        if not is_modern(keyword, attempt.word(keyword, "+")):
            yield Obstacle(level=DOUBT, why=f"{attempt.where(keyword)} has no algorithm that clients offer by default")
    for keyword in ("forcecommand", "chrootdirectory"):
        if attempt.word(keyword, "none").lower() != "none":
            yield Obstacle(level=DOUBT, why=f"{attempt.where(keyword)} replaces the login shell")
    if attempt.word("addressfamily", "any").lower() == "inet6":
        yield Obstacle(level=DOUBT, why=f"{attempt.where('addressfamily')} accepts no IPv4 connections")
    yield from _of_root(attempt)
    listening = [
        said.arguments[0] for said in attempt.ssh.directives if said.keyword == "listenaddress" and said.block is None
    ]
    if listening and all(address.lower().startswith(LOOPBACK) for address in listening):
        where = next(said for said in attempt.ssh.directives if said.keyword == "listenaddress")
        line = f"{where.path} line {where.number}: '{printable(where.line)}'"
        yield Obstacle(level=DOUBT, why=f"{line} accepts connections from this machine only")


def _of_root(attempt: LoginAttempt) -> Iterable[Obstacle]:
    if attempt.account.uid != 0:
        return
    value = attempt.word("permitrootlogin", "prohibit-password").lower()
    if value == "no":
        yield Obstacle(level=CERTAIN, why=f"{attempt.where('permitrootlogin')} refuses root")
    if value == "forced-commands-only":
        yield Obstacle(level=DOUBT, why=f"{attempt.where('permitrootlogin')} lets root run forced commands only")


# ---- passwords and methods


def _of_password(attempt: LoginAttempt) -> Iterable[Obstacle]:
    """Obstacles for a password, by either method."""
    if attempt.pending:
        return  # the sshd step sets both
    if not (_takes_passwords(attempt) or _asks(attempt)):
        yield Obstacle(level=CERTAIN, why=f"{attempt.where('passwordauthentication')} refuses passwords")
    if attempt.account.uid == 0 and attempt.word("permitrootlogin", "prohibit-password").lower() != "yes":
        yield Obstacle(level=CERTAIN, why=f"{attempt.where('permitrootlogin')} refuses a password for root")


def _takes_passwords(attempt: LoginAttempt) -> bool:
    return attempt.says("passwordauthentication", default=True)


def _asks(attempt: LoginAttempt) -> bool:
    return attempt.pam and attempt.says("kbdinteractiveauthentication", default=True)


def _unused(attempt: LoginAttempt) -> Obstacle:
    return Obstacle(level=CERTAIN, why=f"{attempt.where('authenticationmethods')} does not use it")


def _methods(
    attempt: LoginAttempt, by_key: list[Obstacle], by_password: list[Obstacle]
) -> Iterable[tuple[list[str], list[Obstacle]]]:
    """Each sufficient list of methods, and its obstacles."""
    wanted = attempt.values.get("authenticationmethods")
    if wanted is None or wanted[0].arguments[0].lower() == "any":
        yield ["publickey"], by_key
        yield ["password"], by_password
        return
    for listed in wanted[0].arguments:
        found: list[Obstacle] = []
        names = [name.partition(":")[0].lower() for name in listed.split(",")]
        for name in names:
            found += _method(name, attempt, by_key, by_password)
        if names.count("publickey") > len(attempt.metadata.keys):
            found.append(Obstacle(level=CERTAIN, why=f"{place(wanted[0])} requires more keys than were given"))
        yield names, found


def _method(name: str, attempt: LoginAttempt, by_key: list[Obstacle], by_password: list[Obstacle]) -> list[Obstacle]:
    where = attempt.where("authenticationmethods")
    if name == "publickey":
        return [*by_key] if by_key != [NO_KEY] else [Obstacle(level=CERTAIN, why=f"{where}: no key was given")]
    access = attempt.access
    if name == "keyboard-interactive" and not attempt.metadata.has_password and access.pam:
        plain = all(module.name in PLAIN_AUTH for module in access.pam.auth)
        return [Obstacle(level=CERTAIN if plain else DOUBT, why=f"{where} requires more than the given key")]
    if name in PASSWORD_METHODS:
        if not attempt.metadata.has_password:
            return [Obstacle(level=CERTAIN, why=f"{where}: no password was given")]
        works = _takes_passwords(attempt) if name == "password" else _asks(attempt)
        if works or attempt.pending:
            return [*by_password]
        return [Obstacle(level=CERTAIN, why=f"{where} requires {name}, which is disabled")]
    return [Obstacle(level=CERTAIN, why=f"{where} requires {printable(name)}, which is neither key nor password")]
