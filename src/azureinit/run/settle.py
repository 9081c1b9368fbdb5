"""Plan, apply, and plan again: the corridor's third room. Loaded while the platform is asked."""

from __future__ import annotations

from azureinit.machine.durable import make_durable
from azureinit.memory.journal import clear_leftovers
from azureinit.plan.access import plan_access
from azureinit.plan.actions import Caution, Unknown, work_left
from azureinit.plan.hostkeys import has_image_keys
from azureinit.plan.hostname import DHCP_NAME
from azureinit.plan.plan import Wanted, make_plan
from azureinit.plan.provision import AFTER_READY, PROVISION, SPECIALISED
from azureinit.record import replace
from azureinit.run.converge import converge, today, with_access, with_keys_files
from azureinit.run.deliver import keep, save, start_in_progress
from azureinit.run.early import record_own_keys
from azureinit.run.engine import identify
from azureinit.run.gather import gather
from azureinit.sources.metadata import is_specialised
from azureinit.telemetry.events import INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.gather import Facts
    from azureinit.machine import Machine
    from azureinit.plan.actions import Plan
    from azureinit.run.engine import Walk
    from azureinit.sources.metadata import Metadata


def settle(walk: Walk) -> None:
    """What dead runs left is cleared, what the media said is kept; then the machine becomes what was asked for."""
    assert walk.facts is not None and walk.journal is not None
    start_in_progress(walk)  # at the latest now, where only IMDS could tell who we are
    for path in clear_leftovers(walk.machine, walk.journal):
        walk.events.tell(INFO, "leftover", f"removed {path}, left by a run that was interrupted")
    if walk.metadata is not None:
        save(walk)
    if walk.alone is not None:  # from the first change on, IMDS has to agree, whatever becomes of this run
        keep(walk, verdict="unfinished", failure=walk.previous)
        make_durable(walk.machine, walk.config.azure_init_data_dir.path)
    with walk.quieting:
        walk.settles = True
    if walk.former is None and walk.metadata is not None and not is_specialised(walk.metadata):
        record_own_keys(walk, walk.facts.ssh)
    named = walk.facts.names.kernel
    walk.facts, taken = converge(
        walk.machine,
        walk.config,
        lambda facts: plan_for(walk, facts),
        facts=walk.facts,
        journal=walk.journal,
        events=walk.events,
        deadline=walk.context.work_deadline,
    )
    walk.renamed = walk.facts.names.kernel != named or DHCP_NAME in taken
    # A program may need the network: where there is none it is run when IMDS has agreed, before Ready.
    if walk.metadata is not None and walk.metadata.custom_data is not None and walk.alone is None:
        from azureinit.run.custom_data import run_program

        run_program(walk)
    sync(walk)


def sync(walk: Walk) -> None:
    """Everything that Ready vouches for is on the disk before it leaves."""
    assert walk.instance is not None and walk.facts is not None
    machine = walk.machine
    machine.unsynced.changed(machine.real("/etc/hostname"))  # the local stage, another process, may have written it
    machine.unsynced.changed(machine.real(walk.instance.path("journal")), content=True)
    username = walk.metadata.username if walk.metadata is not None else None
    home = walk.facts.accounts.home_of(username) if username else "/"
    make_durable(machine, walk.instance.data_dir, also=("/", "/etc", home))


def plan_for(walk: Walk, facts: Facts, *, shown: bool = False) -> Plan:
    """`shown`: nothing will be applied, so that the login is judged by what the machine would be."""
    if walk.former is not None:
        from azureinit.run.changed_id import plan_stay

        return plan_stay(walk, facts)
    assert walk.metadata is not None and walk.journal is not None
    wanted = Wanted(
        metadata=walk.metadata,
        config=walk.config,
        done=walk.journal.done,
        today=today(walk.machine),
        vm_id=walk.vm_id,
    )
    if is_specialised(walk.metadata):
        return make_plan(SPECIALISED, wanted, facts)
    username, keys = walk.metadata.username or "", walk.metadata.keys
    facts = with_keys_files(walk.machine, walk.config, facts, username=username, keys=keys)
    if walk.metadata.key_pairs:
        facts = with_pair_files(walk.machine, facts, walk.metadata)
    plan = make_plan(PROVISION, replace(wanted, own_keys=own_keys(walk, facts)), facts)
    if walk.metadata.custom_data is not None:
        from azureinit.run.custom_data import kept

        plan = (*plan, *kept(walk))
    pending = bool(work_left(plan))
    return plan if pending and not shown else (*plan, *plan_login(walk, facts, pending=pending))


def plan_login(walk: Walk, facts: Facts, *, pending: bool) -> Plan:
    """Last of all: whether the admin can log in to the machine that everything else makes. The report tells doubts."""
    assert walk.metadata is not None
    facts = with_access(walk.machine, walk.config, facts, walk.metadata)
    plan = plan_access(
        metadata=walk.metadata,
        host=facts.host,
        accounts=facts.accounts,
        ssh=facts.ssh,
        admin=facts.admin,
        access=facts.access,
        config=walk.config,
        today=today(walk.machine),
        pending=pending,
    )
    walk.doubts = tuple(item.why for item in plan if isinstance(item, Caution))
    return plan


def own_keys(walk: Walk, facts: Facts) -> frozenset[str] | None:
    """The host keys that this VM made; None where it was provisioned before, and so all of them are its own."""
    if walk.config.ssh.regenerate_host_keys != "auto" or walk.journal is None or walk.instance is None:
        return None
    own = walk.journal.own_keys
    if not walk.remembers:
        return None  # shown as unknown
    if not has_image_keys(facts.ssh, own=own, done=walk.journal.done):
        return own
    from azureinit.facts.provisioned import was_provisioned
    from azureinit.memory.instance import marker
    from azureinit.plan.waagent import spellings

    ids, library = spellings(walk.instance.vm_id), walk.config.waagent.lib_dir
    before = marker(walk.machine, walk.instance) or was_provisioned(walk.machine, spellings=ids, lib_dir=library)
    return None if before else own


def with_pair_files(machine: Machine, facts: Facts, metadata: Metadata) -> Facts:
    from azureinit.facts.key_files import read_pair_files
    from azureinit.plan.keypairs import pair_paths

    username = metadata.username or ""
    home = facts.accounts.home_of(username)
    paths = pair_paths(username=username, home=home, pairs=metadata.key_pairs)
    read = read_pair_files(machine, home=home, paths=paths)
    return replace(facts, admin=replace(facts.admin, pair_files=read))


def whole_plan(walk: Walk) -> Plan:
    """For showing: everything provision would do, after Ready too. Nothing on this machine is touched."""
    walk.ends_if_done = False  # what is left to do is the question all the same
    walk.remembers = walk.machine.is_open(walk.config.azure_init_data_dir.path)
    identify(walk)
    gather(walk)
    assert walk.facts is not None
    path = walk.config.azure_init_data_dir.path
    before: Plan = () if walk.remembers else (Unknown(name="earlier runs", why=f"{path} cannot be read"),)
    if walk.former is not None:
        return (*before, *plan_for(walk, walk.facts))
    assert walk.metadata is not None
    if is_specialised(walk.metadata):
        return before
    from azureinit.run.maintenance import entropy, growth, publication, tuning

    planned = plan_for(walk, walk.facts, shown=True)
    stale = any(item.name == DHCP_NAME for item in planned)
    renames = stale or walk.facts.names.kernel != walk.metadata.hostname
    after = (*growth(walk), *(publication(walk) if renames else ()), *entropy(walk), *tuning(walk))
    done = frozenset() if walk.journal is None else walk.journal.done
    own = own_keys(walk, walk.facts)
    last = make_plan(
        AFTER_READY, Wanted(metadata=walk.metadata, config=walk.config, done=done, own_keys=own), walk.facts
    )
    return (*before, *planned, *_program(walk), *after, *last)


def _program(walk: Walk) -> Plan:
    assert walk.metadata is not None
    if walk.metadata.custom_data is None:
        return ()
    from azureinit.run.custom_data import program

    return program(walk)
