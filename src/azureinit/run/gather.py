"""What the platform asks of this machine, and what the machine is: sources and facts, read at the same time."""

from __future__ import annotations

from azureinit.errors import ImdsUnavailable, MediaAbsent, MediaRefused, NoNetwork, VmIdUnknown
from azureinit.facts.gather import read_facts
from azureinit.plan.names import check_hostname, check_username
from azureinit.record import replace
from azureinit.run.early import Early
from azureinit.run.identify import adopt_vm_id
from azureinit.run.recall import recall
from azureinit.run.state import Asked, Knowing, Known
from azureinit.run.waiting import no_network
from azureinit.sources.gather import ask_sources
from azureinit.sources.merge import IN_WORDS, check_complete, merge, needs_media, with_usable_keys
from azureinit.sources.metadata import asks_anything, is_enough, is_specialised, named_keys
from azureinit.telemetry.events import DEBUG, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.errors import AzureInitError
    from azureinit.facts.gather import Facts
    from azureinit.run.platform import Platform
    from azureinit.run.state import Context, Identity, Memory
    from azureinit.run.waiting import Waiting
    from azureinit.sources.gather import Gathered
    from azureinit.sources.media import Medium
    from azureinit.sources.metadata import Metadata

LEAST_TIME = 5.0
PAUSE_SECS = 1.0
CONFIRM_SECS = 30.0  # for IMDS to agree, once there is a network, and for certificates


def gather(
    context: Context,
    identity: Identity,
    memory: Memory,
    early: Early,
    *,
    platform: Platform,
    waiting: Waiting,
    meanwhile: Callable[[], object] = int,
    end_if_done: bool = True,
) -> Asked:
    """`meanwhile` is called while the sources and sshd work. `end_if_done`: AlreadyProvisioned for a VM that is."""
    unconfirmed = memory.unconfirmed is not None
    known = Known(identity=identity, metadata=memory.unconfirmed, previous=memory.previous, unconfirmed=unconfirmed)
    if memory.pool is not None:
        known = replace(known, pps_type=memory.pool.type)
    with Knowing(known) as knowing:
        previous_id = _kept_id(context, identity, memory)
        if previous_id is not None:
            facts = _read_facts(context, early)
            return Asked(identity=identity, memory=memory, facts=facts, previous_id=previous_id)
        until = _confirm_deadline(context) if unconfirmed else context.sources_deadline
        with context.events.step("metadata") as span:
            gathered, facts = _ask(context, identity, memory, early, platform, waiting, until, meanwhile)
            if identity.instance is None:
                identity, memory = learn_identity(context, gathered, early, memory, knowing, end_if_done=end_if_done)
                previous_id = _kept_id(context, identity, memory)
            words = IN_WORDS if memory.pool is None else {**IN_WORDS, "media": "the customer's data"}
            told = " and ".join(words.get(name, name) for name in gathered.answers)
            span.text = f"read this machine's settings from {told}" if told else "no source answered"
            span.failed = not gathered.answers
            if memory.waits is not None:  # only IMDS could tell the VM's id, and so that the marker is this VM's
                return Asked(identity=identity, memory=memory, facts=facts, pps_type=memory.waits.type)
            if memory.pool is not None:
                from azureinit.run.reuse import adopt_customer

                identity, memory = adopt_customer(context, identity, memory, gathered, end_if_done=end_if_done)
                knowing.learn(identity=identity)
        asked = Asked(identity=identity, memory=memory, facts=facts, previous_id=previous_id)
        served = _served(context, asked) if previous_id is None else None
        if served is not None:
            knowing.learn(metadata=served)
            return replace(asked, metadata=served)
        return asked if previous_id is not None else accept(context, asked, gathered, knowing, platform=platform)


def _served(context: Context, asked: Asked) -> Metadata | None:
    """The request as it was when the machine was made what was asked for, if customData may have changed it since.

    The media are ejected by then, and the password is forgotten.
    """
    instance = asked.identity.instance if asked.memory.readable else None
    if instance is None or context.machine.stat(instance.path("userdata")) is None:
        return None
    from azureinit.memory.userdata import read_userdata

    saved = read_userdata(context.machine, instance)
    return None if saved is None else _with_chosen_name(context, asked, saved.metadata)


def _ask(
    context: Context,
    identity: Identity,
    memory: Memory,
    early: Early,
    platform: Platform,
    waiting: Waiting,
    until: float,
    meanwhile: Callable[[], object],
) -> tuple[Gathered, Facts]:
    """In a boot, silent sources are asked again as long as there is time."""
    machine, events = context.machine, context.events
    waiting.begin("the platform's metadata")
    while True:
        asked = ask_sources(
            machine,
            context.config,
            saved=memory.saved,
            deadline=until,
            observe=events.observe,
            route=context.booted is not None,
            add_route=platform.add_route,
            vm_id=identity.vm_id,
            no_network=lambda seconds: no_network(context, seconds),
            trouble=waiting.silent,
            medium=_customers_medium(context) if memory.pool is not None else None,
        )
        meanwhile()
        facts, early = _read_facts(context, early), Early()
        gathered = asked()
        if until - machine.clock.monotonic() < LEAST_TIME or not _is_worth_asking_again(context, gathered, memory):
            break
        _tell_failures(context, platform, gathered.failures)
        events.tell(WARN, "metadata", "the metadata are not complete: asking again, since this boot has time left")
        machine.clock.sleep(PAUSE_SECS)  # however fast they all answered
    waiting.end()
    return gathered, facts


def _customers_medium(context: Context) -> Callable[[float, Callable[[AzureInitError], None]], Medium]:
    """For a VM from a pool: a medium in its drive is the pool's."""
    from azureinit.run.reuse import customers_medium

    return customers_medium(context)


def _kept_id(context: Context, identity: Identity, memory: Memory) -> str | None:
    if context.config.platform.changed_vm_id != "keep":
        return None
    from azureinit.run.changed_id import kept_id

    return kept_id(context, identity, memory)


def _read_facts(context: Context, early: Early) -> Facts:
    return read_facts(context.machine, context.config, early=early.facts, sshd=early.sshd, keys=early.keys)


def _confirm_deadline(context: Context) -> float:
    """A little after the usual deadline, where the network has come only now."""
    late = context.machine.clock.monotonic() + CONFIRM_SECS
    return max(context.sources_deadline, min(context.work_deadline, late))


def _is_worth_asking_again(context: Context, gathered: Gathered, memory: Memory) -> bool:
    """Only in a boot, and only for what a silent source may still give. Retry only silence, never a refusal."""
    silent = any(error.recoverable for error in gathered.failures.values())
    if context.booted is None or not silent:
        return False
    merged = merge({**gathered.answers, **({"saved": memory.saved} if memory.saved is not None else {})})
    lacking = needs_media(merged) and isinstance(gathered.failures.get("media"), MediaAbsent)
    return (lacking or not is_enough(merged)) and not is_specialised(merged)


def learn_identity(
    context: Context, gathered: Gathered, early: Early, memory: Memory, knowing: Knowing, *, end_if_done: bool
) -> tuple[Identity, Memory]:
    """Take the VM's id from IMDS, if the firmware does not have it; then earlier runs may have left something."""
    imds = gathered.answers.get("imds")
    identity = adopt_vm_id(context, imds.vm_id if imds is not None else None, end_if_done=end_if_done)
    if identity.instance is None:
        told = {name: str(error) for name, error in gathered.failures.items()}
        because = "".join(f"; {name}: {text}" for name, text in told.items())
        raise VmIdUnknown(f"neither the firmware nor IMDS tells the VM id{because}", hint="set platform.vm_id", **told)
    knowing.learn(identity=identity)
    memory = recall(context, identity, readable=memory.readable)
    memory.journal.record_own_keys(context.machine, early.own_keys)
    unconfirmed = memory.unconfirmed
    knowing.learn(metadata=unconfirmed, previous=memory.previous, unconfirmed=unconfirmed is not None)
    return identity, memory


def accept(context: Context, asked: Asked, gathered: Gathered, knowing: Knowing, *, platform: Platform) -> Asked:
    """Merge and check the answers. The password becomes a hash here."""
    answers, failures, memory = dict(gathered.answers), gathered.failures, asked.memory
    asked = replace(
        asked, device=gathered.device
    )  # ejected after Ready; a machine that keeps its state keeps its media
    if memory.saved is not None and "media" not in answers:
        answers["saved"] = memory.saved
    merged = merge(answers)
    if merged.pps_type is not None and memory.pool is None:
        if memory.unconfirmed is not None:
            told = f"IMDS says that this VM waits in a pool (type {merged.pps_type})"
            raise MediaRefused(f"the media were applied while there was no network, and IMDS disagrees: {told}")
        for warning in merged.warnings:
            if warning.startswith("pps_type"):  # others tell of the pool's user and name
                context.events.tell(WARN, "metadata", warning)
        imds_id = answers["imds"].vm_id if "imds" in answers else None
        return replace(asked, pps_type=merged.pps_type, imds_id=imds_id)
    if "imds" in answers:
        context.events.about.update(answers["imds"].about)
        if memory.unconfirmed is not None:
            _check_agreement(answers["imds"], memory.unconfirmed, ignition=asked.facts.ignition is not None)
    metadata = _redacted(asked.facts, _hashed(context, merged))
    knowing.learn(metadata=metadata)
    _tell_failures(context, platform, failures)
    _tell_warnings(context, metadata, asked.facts)
    if metadata.key_pairs or named_keys(metadata):
        metadata = _with_certified_keys(context, platform, metadata)
        knowing.learn(metadata=metadata)
    if is_specialised(metadata) and "imds" not in failures and isinstance(failures.get("media"), MediaAbsent):
        context.events.tell(INFO, "metadata", "this is a specialised VM: the platform asks for nothing")
        return replace(asked, metadata=metadata)
    if not asks_anything(metadata):
        from azureinit.run.changed_id import kept_for_want

        other = kept_for_want(context, asked.identity, memory, failures)
        if other is not None:
            knowing.learn(metadata=None)
            return replace(asked, previous_id=other)
    check_complete(metadata, failures, knows_saved=memory.readable)
    check_username(metadata.username or "", system=context.config.user.allow_system_user)
    metadata = _with_chosen_name(context, asked, metadata)
    check_hostname(metadata.hostname or "")
    metadata = with_usable_keys(metadata, lambda told: context.events.tell(WARN, "keys", told))
    if asked.facts.ignition is not None:
        from azureinit.plan.ignition import without_kept

        facts, done = asked.facts, memory.journal.done
        metadata = without_kept(
            metadata, ignition=asked.facts.ignition, names=facts.names, accounts=facts.accounts, done=done
        )
    knowing.learn(metadata=metadata)
    unconfirmed = metadata if _is_unconfirmed(context, memory, answers, failures) else None
    if unconfirmed is not None:
        knowing.learn(unconfirmed=True)
        context.events.tell(WARN, "waiting", f"no network ({failures.get('imds')}): applying the media alone")
    return replace(asked, metadata=metadata, unconfirmed=unconfirmed)


def _with_chosen_name(context: Context, asked: Asked, metadata: Metadata) -> Metadata:
    """A host name of customData wins: a later run does not set the platform's again."""
    instance = asked.identity.instance
    if not asked.memory.readable or instance is None or not context.machine.is_dir(instance.path("d")):
        return metadata
    from azureinit.memory.userdata import read_chosen_name

    return replace(metadata, hostname=read_chosen_name(context.machine, instance) or metadata.hostname)


def _is_unconfirmed(
    context: Context, memory: Memory, answers: dict[str, Metadata], failures: dict[str, AzureInitError]
) -> bool:
    """Whether to apply the media alone: IMDS could not be asked, because there is no network."""
    if "imds" in answers or (context.booted is None and memory.unconfirmed is None):
        return False
    if isinstance(failures.get("imds"), NoNetwork):
        return True  # also where a route has come since: IMDS has not been asked
    from azureinit.addresses import host_of
    from azureinit.sources.route import has_route

    return not has_route(context.machine, host_of(context.config.imds.endpoint))


def _check_agreement(imds: Metadata, media: Metadata, *, ignition: bool) -> None:
    """The media were applied while there was no network. Ignition's host name has precedence over the media's."""
    from azureinit.sources.merge import disagreements

    found = disagreements(imds, replace(media, hostname=None) if ignition else media)
    if found:
        raise MediaRefused(f"the media were applied while there was no network, and IMDS disagrees: {'; '.join(found)}")


def _with_certified_keys(context: Context, platform: Platform, metadata: Metadata) -> Metadata:
    """Keys and key pairs that the media name by a certificate: the wireserver has the certificates."""
    from azureinit.sources.certificates import read_certificates
    from azureinit.sources.certified import certified
    from azureinit.sources.envelope import check_tool

    machine, events = context.machine, context.events
    with events.step("certificates") as span:
        check_tool(machine)
        until = _confirm_deadline(context)
        platform.wait(until=until)
        state = platform.goal_state(until)
        known = read_certificates(machine, platform.config, state, deadline=until, observe=events.observe)
        made = certified(metadata, known)
        keys = len(made.keys) - len(metadata.keys)
        span.text = f"made {keys} keys and {len(made.key_pairs)} key pairs from certificates"
    return made


def _hashed(context: Context, metadata: Metadata) -> Metadata:
    if metadata.password is None:
        return metadata
    from azureinit.machine.crypt import hash_password

    made = hash_password(
        context.machine,
        metadata.password,
        crypt_id=context.config.user.password_crypt_id,
        salt_length=context.config.user.password_salt_length,
        warn=lambda told: context.events.tell(WARN, "password", told),
    )
    return replace(metadata, password=None, password_hash=made)


def _redacted(facts: Facts, metadata: Metadata) -> Metadata:
    """The media's document without secrets, for WALinuxAgent; dropped where that is not installed."""
    if metadata.document is None or facts.waagent is None:
        return replace(metadata, document=None)
    from azureinit.record import Secret
    from azureinit.sources.redact import redact

    return replace(metadata, document=Secret(redact(metadata.document.reveal())))


def _tell_failures(context: Context, platform: Platform, failures: dict[str, AzureInitError]) -> None:
    for name, error in failures.items():
        context.events.tell(WARN, name, str(error))
    imds = failures.get("imds")
    if isinstance(imds, ImdsUnavailable):
        platform.diagnose(imds)


def _tell_warnings(context: Context, metadata: Metadata, facts: Facts) -> None:
    for warning in metadata.warnings:
        context.events.tell(WARN, "metadata", warning)
    if facts.ssh.query_failure:
        text = f"sshd did not answer, and its files were read instead: {facts.ssh.query_failure}"
        context.events.tell(DEBUG, "sshd", text)
