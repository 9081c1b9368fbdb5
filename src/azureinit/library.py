"""Provisioning for other programs: as a whole by a builder, or function by function.

Every function works on a `Machine`: this computer by default, or `Machine(root=DIR)` for a file tree. Each plans,
applies and plans again, as the agent does, and raises an error of `azureinit.errors` that names what failed and why.
"""

from __future__ import annotations

from azureinit.config.model import Config, HostnameProvisioners, PasswordProvisioners, UserProvisioners, checked
from azureinit.errors import UserMissing, VmIdUnknown
from azureinit.facts.gather import EVERY_PART, read_facts
from azureinit.machine import Machine, rfc3339
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.account import plan_account
from azureinit.plan.keys import plan_keys
from azureinit.plan.plan import LOCAL, Wanted, make_plan, parts_of
from azureinit.plan.provision import PROVISION
from azureinit.plan.sshd import plan_sshd
from azureinit.record import Record, Secret, replace
from azureinit.report import health
from azureinit.report.verdict import MAX_DESCRIPTION, Subject, failure_report
from azureinit.run.admin import today, with_keys_files
from azureinit.run.converge import converge
from azureinit.sources import imds, media
from azureinit.sources.identity import read_vm_id
from azureinit.sources.imds import Imds, PublicKey
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import Events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from azureinit.errors import AzureInitError
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Plan
    from azureinit.sources.ovf import Ovf

    JournaledPlanner = Callable[[Facts, frozenset[str]], Plan]

ACCOUNT = ("accounts",)


class User(Record):
    """The wanted account: `User("azureuser", ["ssh-ed25519 ..."]).with_groups("adm", "sudo")`."""

    name: str
    keys: tuple[str, ...] = ()
    password: Secret | None = None
    groups: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        keys: Iterable[str] = (),
        *,
        password: Secret | None = None,
        groups: Iterable[str] = (),
    ) -> None:
        super().__init__(name=name, keys=_several(keys), password=password, groups=_several(groups))

    def with_password(self, password: str | Secret) -> User:
        return replace(self, password=_secret(password))

    def with_groups(self, *groups: str) -> User:
        """These groups instead of the configured ones; groups that do not exist are skipped."""
        return replace(self, groups=groups)


class Provision:
    """Host name, account, password, keys and sshd together; nothing is reported to the platform."""

    def __init__(
        self, hostname: str, user: User, *, machine: Machine | None = None, config: Config | None = None
    ) -> None:
        self._hostname, self._user = hostname, user
        self._machine, self._config = machine or Machine(), config or Config()
        self._allow_password: bool | None = None

    def hostname_provisioners(self, backends: Iterable[str]) -> Provision:
        return self._configured(hostname_provisioners=HostnameProvisioners(backends=_known("Hostname", backends)))

    def user_provisioners(self, backends: Iterable[str]) -> Provision:
        return self._configured(user_provisioners=UserProvisioners(backends=_known("User", backends)))

    def password_provisioners(self, backends: Iterable[str]) -> Provision:
        return self._configured(password_provisioners=PasswordProvisioners(backends=_known("Password", backends)))

    def password_authentication(self, allow: bool) -> Provision:
        """Whether sshd accepts passwords; without this call sshd is not changed."""
        self._allow_password = allow
        return self

    def plan(self) -> Plan:
        return self._planner()(read_facts(self._machine, self._config), frozenset())

    def provision(self) -> tuple[str, ...]:
        """Provision; return the names of the steps that were taken."""
        return _settle(self._machine, self._config, self._planner())

    def _configured(self, **sections: Record) -> Provision:
        self._config = replace(self._config, **sections)
        return self

    def _planner(self) -> JournaledPlanner:
        user, machine = self._user, self._machine
        config = _with_groups(self._config, user.groups)
        metadata = Metadata(
            username=user.name,
            hostname=self._hostname,
            keys=tuple(PublicKey(data=key) for key in user.keys),
            disable_password=None if self._allow_password is None else not self._allow_password,
            password_hash=_hashed(machine, user.password, config) if user.password is not None else None,
            has_password=user.password is not None,
        )

        def plan(facts: Facts, done: frozenset[str]) -> Plan:
            facts = with_keys_files(machine, config, facts, username=user.name, keys=metadata.keys)
            wanted = Wanted(metadata=metadata, config=config, done=done, today=today(machine))
            return make_plan(PROVISION, wanted, facts)

        return plan


def vm_id(*, machine: Machine | None = None) -> str:
    """This VM's id, from its firmware."""
    found = read_vm_id(machine or Machine(), "")
    if found is None:
        raise VmIdUnknown("the firmware does not provide the VM id", hint="only root can read it")
    return found


def query_imds(*, config: Config | None = None, machine: Machine | None = None) -> Imds:
    """Ask the instance metadata service until it answers or the configured time is over."""
    config, machine = config or Config(), machine or Machine()
    deadline = machine.clock.monotonic() + config.imds.total_retry_timeout_secs
    return imds.query_imds(config, clock=machine.clock, deadline=deadline)


def read_media(path: str = "", *, machine: Machine | None = None, wait_secs: float = 60.0) -> Ovf:
    """Read the provisioning media: searched, or at `path` (a device, an image file or a directory)."""
    machine = machine or Machine()
    deadline = machine.clock.monotonic() + wait_secs
    return media.read_media(machine, path=path, deadline=deadline, observe=_ignore).ovf


def set_hostname(name: str, *, machine: Machine | None = None, config: Config | None = None) -> tuple[str, ...]:
    """In the kernel, in /etc/hostname, and in /etc/hosts where the distribution has such a line."""
    machine, config = machine or Machine(), config or Config()
    wanted = Wanted(metadata=Metadata(hostname=name), config=config)
    return _settle(machine, config, lambda facts, _: make_plan(LOCAL, wanted, facts), parts=parts_of(LOCAL))


def create_user(
    name: str, *, groups: Iterable[str] = (), machine: Machine | None = None, config: Config | None = None
) -> tuple[str, ...]:
    """Create the account with these groups; an existing one gains the groups and loses none."""
    machine, config = machine or Machine(), _with_groups(config or Config(), _several(groups))
    return _settle(
        machine, config, lambda facts, done: _account(machine, name, None, facts, done, config), parts=ACCOUNT
    )


def set_user_password(
    name: str, password: str | Secret, *, machine: Machine | None = None, config: Config | None = None
) -> tuple[str, ...]:
    """Set at every call: a hash does not show whether the password is the same."""
    machine, config = machine or Machine(), config or Config()
    return _set_hash(name, _hashed(machine, _secret(password), config), machine, config)


def lock_user(name: str, *, machine: Machine | None = None, config: Config | None = None) -> tuple[str, ...]:
    """Make the password unusable; keys still work."""
    return _set_hash(name, None, machine or Machine(), config or Config())


def install_ssh_keys(
    name: str, keys: Iterable[str], *, machine: Machine | None = None, config: Config | None = None
) -> tuple[str, ...]:
    """Add keys to the files that sshd reads; their other content stays."""
    machine, config = machine or Machine(), config or Config()
    wanted = tuple(PublicKey(data=key) for key in _several(keys))

    def plan(facts: Facts, _done: frozenset[str]) -> Plan:
        _must_exist(name, facts)
        facts = with_keys_files(machine, config, facts, username=name, keys=wanted)
        return plan_keys(
            username=name,
            home=facts.accounts.home_of(name),
            keys=wanted,
            host=facts.host,
            accounts=facts.accounts,
            ssh=facts.ssh,
            admin=facts.admin,
            config=config,
        )

    return _settle(machine, config, plan, parts=("accounts", "ssh"))


def configure_sshd(
    *, allow_password: bool, machine: Machine | None = None, config: Config | None = None
) -> tuple[str, ...]:
    """Have sshd accept or refuse passwords, by a file that takes effect."""
    machine, config = machine or Machine(), config or Config()

    def plan(facts: Facts, _done: frozenset[str]) -> Plan:
        return plan_sshd(allow_password=allow_password, host=facts.host, ssh=facts.ssh, config=config)

    return _settle(machine, config, plan, parts=("ssh",))


def report_ready(*, config: Config | None = None, machine: Machine | None = None) -> None:
    """Raises VerdictUndelivered where the platform did not accept it; so do the other two."""
    config, machine = config or Config(), machine or Machine()
    health.send_ready(config, clock=machine.clock, deadline=_verdict_deadline(config, machine))


def report_in_progress(vm_id: str, *, config: Config | None = None, machine: Machine | None = None) -> None:
    """A single short attempt."""
    config, machine = config or Config(), machine or Machine()
    health.send_in_progress(config, vm_id, clock=machine.clock, deadline=_verdict_deadline(config, machine))


def report_failure(
    error: AzureInitError, vm_id: str, *, config: Config | None = None, machine: Machine | None = None
) -> None:
    """Report the error's reason, cause and data in the platform's grammar."""
    config, machine = config or Config(), machine or Machine()
    subject = Subject(vm_id=vm_id, pps_type=None, timestamp=rfc3339(machine.clock.now()))
    report = failure_report(error, subject, {}, limit=MAX_DESCRIPTION, size=health.size_on_the_wire)
    health.send_failure(config, report, clock=machine.clock, deadline=_verdict_deadline(config, machine))


def _settle(
    machine: Machine, config: Config, planner: JournaledPlanner, *, parts: Collection[str] = EVERY_PART
) -> tuple[str, ...]:
    """Plan, apply and plan again, by these parts of the facts. The names of the steps that were taken."""
    journal = MemoryJournal()
    converged = converge(
        machine,
        config,
        lambda facts: planner(facts, journal.done),
        facts=read_facts(machine, config, parts),
        parts=parts,
        journal=journal,
        events=Events(clock=machine.clock),
        deadline=float("inf"),
    )
    return converged.taken


def _account(
    machine: Machine,
    name: str,
    password_hash: Secret | None,
    facts: Facts,
    done: frozenset[str],
    config: Config,
    *,
    lock: bool = False,
) -> Plan:
    return plan_account(
        username=name,
        groups=config.user.groups,
        password_hash=password_hash,
        password_done=f"password {name}" in done,
        host=facts.host,
        accounts=facts.accounts,
        config=config,
        today=today(machine),
        lock=lock,
    )


def _set_hash(name: str, password_hash: Secret | None, machine: Machine, config: Config) -> tuple[str, ...]:
    """`password_hash` None: lock the account."""

    def plan(facts: Facts, done: frozenset[str]) -> Plan:
        _must_exist(name, facts)
        items = _account(machine, name, password_hash, facts, done, config, lock=password_hash is None)
        return tuple(item for item in items if item.name == f"password {name}")

    return _settle(machine, config, plan, parts=ACCOUNT)


def _must_exist(name: str, facts: Facts) -> None:
    if facts.accounts.user(name) is None:
        raise UserMissing(f"there is no user {name!r}", user=name)


def _with_groups(config: Config, groups: tuple[str, ...]) -> Config:
    """The caller names the groups: by default an account gets none."""
    return replace(config, user=replace(config.user, groups=groups or config.user.groups or ()))


def _known(kind: str, backends: Iterable[str]) -> tuple[str, ...]:
    """Checked as the configuration checks them."""
    chosen = checked(f"{kind}Backends", _several(backends), default=())
    assert isinstance(chosen, tuple)
    return chosen


def _several(values: Iterable[str]) -> tuple[str, ...]:
    """A single string counts as one value, not as its letters."""
    return (values,) if isinstance(values, str) else tuple(values)


def _secret(value: str | Secret) -> Secret:
    return value if isinstance(value, Secret) else Secret(value)


def _hashed(machine: Machine, password: Secret, config: Config) -> Secret:
    from azureinit.machine.crypt import hash_password

    wanted = config.user
    return hash_password(machine, password, crypt_id=wanted.password_crypt_id, salt_length=wanted.password_salt_length)


def _verdict_deadline(config: Config, machine: Machine) -> float:
    return machine.clock.monotonic() + config.wireserver.total_retry_timeout_secs


def _ignore(*_args: object, **_fields: object) -> None:
    pass
