"""The corridor's rooms, walked through in order: begin, gather, settle. `deliver` is the last door."""

from __future__ import annotations

from azureinit.apply.executor import apply_plan
from azureinit.apply.instance import prepare, read_pending, read_saved
from azureinit.apply.journal import clear_leftovers, read_journal
from azureinit.deliver import save, start_in_progress
from azureinit.engine import AlreadyProvisioned, know
from azureinit.errors import MediaAbsent, NotConverged, PlanStale, VmIdUnknown
from azureinit.facts.gather import read_facts
from azureinit.facts.ssh import read_keys_files
from azureinit.plan.actions import Caution
from azureinit.plan.keys import key_paths
from azureinit.plan.plan import home_of, make_plan, work_left
from azureinit.record import replace
from azureinit.sources.gather import ask_sources, from_saved
from azureinit.sources.metadata import check_complete, is_specialised, merge
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.engine import Walk
    from azureinit.errors import AzureInitError
    from azureinit.plan.actions import Plan
    from azureinit.sources.gather import Gathered
    from azureinit.sources.metadata import Metadata

MOST_PLANS = 3  # a file that keeps changing under us is someone else's fight
DAY = 86400


def begin(walk: Walk) -> None:
    """Nobody else of us at work, then a first word to the platform."""
    prepare(walk.machine, walk.config.azure_init_data_dir.path, deadline=walk.context.work_deadline)
    know(walk, walk.vm_id)  # the run we waited for may have done it
    start_in_progress(walk)


def gather(walk: Walk, *, change: bool = True) -> None:
    """What is asked and what is there, at the same time. Without `change` nothing on this machine is touched."""
    with walk.events.step("metadata") as span:
        answered = ask_sources(
            walk.machine, walk.config, deadline=walk.context.work_deadline, observe=walk.events.observe
        )
        walk.facts = read_facts(walk.machine, walk.config)
        gathered = answered()
        answers = {**gathered.answers, **recall(walk, gathered, change=change)}
        walk.metadata, walk.device = merge(answers), gathered.device
        span.text = " and ".join(sorted(answers)) or "no source answered"
    for name, error in gathered.failures.items():
        walk.events.tell(WARN, name, str(error))
    for warning in walk.metadata.warnings:
        walk.events.tell(WARN, "metadata", warning)
    accept(walk, gathered.failures)
    if change:
        clear(walk)
        save(walk)


def recall(walk: Walk, gathered: Gathered, *, change: bool) -> dict[str, Metadata]:
    """What this VM remembers of itself; of its media, where those are gone."""
    if walk.vm_id is None and "imds" in gathered.answers:
        try:
            know(walk, gathered.answers["imds"].vm_id)
        except AlreadyProvisioned:
            if change:
                raise
    if walk.instance is None:
        told = "; ".join(f"{name}: {error}" for name, error in gathered.failures.items())
        raise VmIdUnknown(f"neither the firmware nor IMDS tells the VM id; {told}", hint="set platform.vm_id")
    walk.journal = read_journal(walk.machine, walk.instance.path("journal"))
    walk.previous = (read_pending(walk.machine, walk.instance) or {}).get("failure", "")
    saved = read_saved(walk.machine, walk.instance) if "media" not in gathered.answers else None
    return {} if saved is None else {"saved": from_saved(saved)}


def accept(walk: Walk, failures: dict[str, AzureInitError]) -> None:
    """Complete, or nothing asked at all; the password becomes a hash here and is never seen again."""
    assert walk.metadata is not None
    if is_specialised(walk.metadata) and "imds" not in failures and isinstance(failures.get("media"), MediaAbsent):
        walk.events.tell(INFO, "metadata", "specialised VM: the platform asks for nothing")
        return
    check_complete(walk.metadata, failures)
    if walk.metadata.password is not None:
        from azureinit.machine.crypt import hash_password

        hashed = hash_password(walk.machine, walk.metadata.password)
        walk.metadata = replace(walk.metadata, password=None, password_hash=hashed)


def clear(walk: Walk) -> None:
    assert walk.journal is not None
    for path in clear_leftovers(walk.machine, walk.journal):
        walk.events.tell(INFO, "leftover", f"removed {path} of a run that died")


def settle(walk: Walk) -> None:
    """Plan and apply; then plan again, and anything left is a failure with a name."""
    assert walk.journal is not None
    for attempt in range(MOST_PLANS):
        plan = plan_for(walk)
        for item in plan:
            if isinstance(item, Caution):
                walk.events.tell(WARN, item.name, item.why)
        if not work_left(plan):
            return
        try:
            apply_plan(
                walk.machine, plan, journal=walk.journal, events=walk.events, deadline=walk.context.work_deadline
            )
            break
        except PlanStale:
            if attempt + 1 == MOST_PLANS:
                raise
            look_again(walk)
    look_again(walk)
    left = work_left(plan_for(walk))
    if left:
        names = ", ".join(f"{step.name} ({step.why})" for step in left)
        raise NotConverged(f"after provisioning there is still something to do: {names}")


def plan_for(walk: Walk) -> Plan:
    assert walk.metadata is not None and walk.facts is not None and walk.journal is not None
    if is_specialised(walk.metadata):
        return ()
    username = walk.metadata.username or ""
    home = home_of(username, walk.facts)
    paths = key_paths(username=username, home=home, keys=walk.metadata.keys, facts=walk.facts, config=walk.config)
    keys_files = read_keys_files(walk.machine, home=home, paths=paths)
    return make_plan(
        metadata=walk.metadata,
        facts=replace(walk.facts, keys_files=keys_files),
        config=walk.config,
        done=walk.journal.done,
        today=int(walk.machine.clock.now() // DAY),
    )


def look_again(walk: Walk) -> None:
    walk.facts = read_facts(walk.machine, walk.config, before=walk.facts)
