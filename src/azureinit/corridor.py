"""The corridor's rooms, walked through in order: begin, gather, settle. `deliver` is the last door."""

from __future__ import annotations

from azureinit.apply.instance import prepare, read_pending, read_saved
from azureinit.apply.journal import Unwritten, clear_leftovers, read_journal
from azureinit.converge import converge, today, with_keys_files
from azureinit.deliver import save, start_in_progress
from azureinit.engine import identify, know
from azureinit.errors import LockTimeout, MediaAbsent, VmIdUnknown
from azureinit.facts.gather import read_facts
from azureinit.plan.names import check_hostname, check_username
from azureinit.plan.plan import make_plan, plan_after_ready
from azureinit.record import replace
from azureinit.sources.gather import ask_sources, from_saved
from azureinit.sources.metadata import check_complete, is_specialised, merge
from azureinit.telemetry.events import DEBUG, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.engine import Walk
    from azureinit.errors import AzureInitError
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Plan
    from azureinit.sources.gather import Gathered
    from azureinit.sources.metadata import Metadata


def begin(walk: Walk) -> None:
    """Nobody else of us at work, then a first word to the platform."""
    data_dir = walk.config.azure_init_data_dir.path
    try:
        prepare(walk.machine, data_dir, timeout=0)
    except LockTimeout:
        walk.events.tell(INFO, "lock", "another azure-init is at work: waiting for it")
        prepare(walk.machine, data_dir, timeout=walk.context.work_deadline - walk.machine.clock.monotonic())
    know(walk, walk.vm_id)  # the run we waited for may have done it
    start_in_progress(walk)


def gather(walk: Walk) -> None:
    """What is asked and what is there, read at the same time."""
    saved = recall(walk)
    with walk.events.step("metadata") as span:
        asked = ask_sources(
            walk.machine, walk.config, saved=saved, deadline=walk.context.work_deadline, observe=walk.events.observe
        )
        walk.facts = read_facts(walk.machine, walk.config)
        gathered = asked()
        saved = learn(walk, gathered, saved)
        span.text = " and ".join(gathered.answers) or "no source answered"
    accept(walk, gathered, saved)


def recall(walk: Walk) -> Metadata | None:
    """What this VM remembers: what was done, what was not told, and what its media said."""
    if walk.instance is None or not walk.remembers:
        walk.journal = Unwritten()
        return None
    walk.journal = read_journal(walk.machine, walk.instance.path("journal"))
    walk.previous = (read_pending(walk.machine, walk.instance) or {}).get("failure", "")
    saved = read_saved(walk.machine, walk.instance)
    return None if saved is None else from_saved(saved)


def learn(walk: Walk, gathered: Gathered, saved: Metadata | None) -> Metadata | None:
    """Where the firmware did not tell who we are, IMDS does; and then there is something to remember."""
    if walk.instance is not None:
        return saved
    imds = gathered.answers.get("imds")
    know(walk, imds.vm_id if imds is not None else None)
    if walk.instance is None:
        told = "; ".join(f"{name}: {error}" for name, error in gathered.failures.items())
        raise VmIdUnknown(f"neither the firmware nor IMDS tells the VM id; {told}", hint="set platform.vm_id")
    return recall(walk)


def accept(walk: Walk, gathered: Gathered, saved: Metadata | None) -> None:
    """Complete, or nothing asked at all; the password becomes a hash here and is never seen again."""
    answers, failures = dict(gathered.answers), gathered.failures
    if saved is not None and "media" not in answers:
        answers["saved"] = saved
    walk.metadata, walk.device = _hashed(walk, merge(answers)), gathered.device
    _tell(walk, failures)
    if is_specialised(walk.metadata) and "imds" not in failures and isinstance(failures.get("media"), MediaAbsent):
        walk.events.tell(INFO, "metadata", "specialised VM: the platform asks for nothing")
        return
    check_complete(walk.metadata, failures)
    check_username(walk.metadata.username or "")
    check_hostname(walk.metadata.hostname or "")


def _hashed(walk: Walk, metadata: Metadata) -> Metadata:
    if metadata.password is None:
        return metadata
    from azureinit.machine.crypt import hash_password

    return replace(metadata, password=None, password_hash=hash_password(walk.machine, metadata.password))


def _tell(walk: Walk, failures: dict[str, AzureInitError]) -> None:
    assert walk.metadata is not None and walk.facts is not None
    for name, error in failures.items():
        walk.events.tell(WARN, name, str(error))
    for warning in walk.metadata.warnings:
        walk.events.tell(WARN, "metadata", warning)
    if walk.facts.ssh.query_failure:
        walk.events.tell(DEBUG, "sshd", f"not asked but read: {walk.facts.ssh.query_failure}")


def settle(walk: Walk) -> None:
    """What dead runs left is cleared, what the media said is kept; then plan, apply, and plan again."""
    assert walk.facts is not None and walk.journal is not None
    start_in_progress(walk)  # at the latest now, where only IMDS could tell who we are
    for path in clear_leftovers(walk.machine, walk.journal):
        walk.events.tell(INFO, "leftover", f"removed {path} of a run that died")
    save(walk)
    walk.facts, _steps = converge(
        walk.machine,
        walk.config,
        lambda facts: plan_for(walk, facts),
        facts=walk.facts,
        journal=walk.journal,
        events=walk.events,
        deadline=walk.context.work_deadline,
    )


def plan_for(walk: Walk, facts: Facts) -> Plan:
    assert walk.metadata is not None and walk.journal is not None
    if is_specialised(walk.metadata):
        return ()
    username, keys = walk.metadata.username or "", walk.metadata.keys
    return make_plan(
        metadata=walk.metadata,
        facts=with_keys_files(walk.machine, walk.config, facts, username=username, keys=keys),
        config=walk.config,
        done=walk.journal.done,
        today=today(walk.machine),
    )


def whole_plan(walk: Walk) -> Plan:
    """For showing: everything provision would do, after Ready too. Nothing on this machine is touched."""
    walk.ends_if_done = False  # what is left to do is the question all the same
    walk.remembers = walk.machine.is_open(walk.config.azure_init_data_dir.path)
    if not walk.remembers:
        walk.events.tell(WARN, "plan", "what was done before is known to root only: planned as if nothing had been")
    identify(walk)
    gather(walk)
    assert walk.facts is not None and walk.metadata is not None
    if is_specialised(walk.metadata):
        return ()
    return (*plan_for(walk, walk.facts), *plan_after_ready(facts=walk.facts, config=walk.config))
