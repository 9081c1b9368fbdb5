"""The corridor's second room: gather. `settle` comes next, and `deliver` is the last door."""

from __future__ import annotations

from azureinit.errors import ImdsUnavailable, MediaAbsent, MediaRefused, NoNetwork, VmIdUnknown
from azureinit.facts.gather import read_facts
from azureinit.memory.instance import ALONE, read_pending, was_another
from azureinit.memory.journal import MemoryJournal, read_journal
from azureinit.memory.saved import read_saved
from azureinit.plan.names import check_hostname, check_username
from azureinit.record import replace
from azureinit.run.deliver import look_at_the_network, mend_route, wait_for_wireserver
from azureinit.run.engine import know
from azureinit.sources.gather import ask_sources
from azureinit.sources.metadata import (
    IN_WORDS,
    asks_anything,
    check_complete,
    is_enough,
    is_specialised,
    merge,
    named_keys,
    needs_media,
    with_usable_keys,
)
from azureinit.telemetry.events import DEBUG, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.errors import AzureInitError
    from azureinit.facts.gather import Facts
    from azureinit.run.engine import Walk
    from azureinit.sources.gather import Gathered
    from azureinit.sources.metadata import Metadata


LEAST_TIME = 5.0
PAUSE_SECS = 1.0
NO_LINK = 0.25  # of boot.network_secs, where no link can come up
CONFIRM_SECS = 30.0  # for IMDS to agree, once there is a network, and for certificates


def gather(walk: Walk) -> None:
    """What is asked and what is there, read at the same time."""
    saved = recall(walk)
    if stays(walk):
        walk.facts = read_facts(walk.machine, walk.config)
        return
    until = walk.context.sources_deadline if walk.alone is None else _until(walk)
    walk.wait("the platform's metadata")
    with walk.events.step("metadata") as span:
        while True:
            asked = ask_sources(
                walk.machine,
                walk.config,
                saved=saved,
                deadline=until,
                observe=walk.events.observe,
                route=walk.context.booted is not None,
                mend=lambda host: mend_route(walk, host),
                vm_id=walk.vm_id,
                no_network=lambda seconds: no_network(walk, seconds),
                trouble=walk.trouble,
            )
            import azureinit.run.settle  # noqa: F401 - the platform and sshd are thinking: time to load what comes next

            walk.facts = read_all(walk)
            gathered = asked()
            if until - walk.machine.clock.monotonic() < LEAST_TIME:
                break
            if not _worth_asking_again(walk, gathered, saved):
                break
            _tell(walk, gathered.failures)
            walk.events.tell(WARN, "metadata", "not complete: asked again, since this boot has time left")
            walk.machine.clock.sleep(PAUSE_SECS)  # however fast they all answered
        walk.wait("")
        saved = learn(walk, gathered, saved)
        told = " and ".join(IN_WORDS.get(name, name) for name in gathered.answers)
        span.text = f"read from {told} what this machine is to be" if told else "no source answered"
        span.failed = not gathered.answers
    if not stays(walk):
        accept(walk, gathered, saved)


def _until(walk: Walk) -> float:
    """As long as sources are asked; and a little longer, where it is late already and the network has come now."""
    late = walk.machine.clock.monotonic() + CONFIRM_SECS
    return max(walk.context.sources_deadline, min(walk.context.work_deadline, late))


def read_all(walk: Walk) -> Facts:
    """With what `begin` has begun, the first time."""
    host, walk.key_host = walk.key_host, None
    sshd, walk.sshd = walk.sshd, None
    keys, walk.keys = walk.keys, []
    return read_facts(walk.machine, walk.config, host=host, sshd=sshd, keys=tuple(keys))


def _worth_asking_again(walk: Walk, gathered: Gathered, saved: Metadata | None) -> bool:
    """Only in a boot, only while something is missing that a silent source may still give."""
    silent = any(error.recoverable for error in gathered.failures.values())
    if walk.context.booted is None or not silent:
        return False
    answers = {**gathered.answers, **({"saved": saved} if saved is not None else {})}
    merged = merge(answers)
    lacking = needs_media(merged) and isinstance(gathered.failures.get("media"), MediaAbsent)
    return (lacking or not is_enough(merged)) and not is_specialised(merged)


def recall(walk: Walk) -> Metadata | None:
    """What this VM remembers: what was done, what was not told, and what its media said."""
    if walk.instance is None or not walk.remembers:
        walk.journal = MemoryJournal()
        return None
    if walk.journal is None or walk.journal.path != walk.instance.path("journal"):
        walk.journal = read_journal(walk.machine, walk.instance.path("journal"))
    walk.journal.record_own_keys(walk.machine, walk.own_keys)  # where the id was not known when they were begun
    pending = read_pending(walk.machine, walk.instance) or {}
    walk.previous = pending.get("failure", "")
    saved = read_saved(walk.machine, walk.instance.path("saved"))
    if pending.get("sources") == ALONE and walk.alone is None:
        walk.alone = saved
    return saved


def stays(walk: Walk) -> bool:
    if walk.config.platform.changed_vm_id != "keep":
        return False
    from azureinit.run import changed_id

    return changed_id.stays(walk)


def stays_for_want(walk: Walk, failures: dict[str, AzureInitError]) -> bool:
    assert walk.metadata is not None and walk.instance is not None
    if asks_anything(walk.metadata) or not walk.remembers:
        return False
    other = was_another(walk.machine, walk.instance)
    if other is None:
        return False
    from azureinit.run import changed_id

    return changed_id.stays_for_want(walk, failures, other=other)


def learn(walk: Walk, gathered: Gathered, saved: Metadata | None) -> Metadata | None:
    """Where the firmware did not tell who we are, IMDS does; and then there is something to remember."""
    if walk.instance is not None:
        return saved
    imds = gathered.answers.get("imds")
    know(walk, imds.vm_id if imds is not None else None)
    if walk.instance is None:
        told = {name: str(error) for name, error in gathered.failures.items()}
        because = "".join(f"; {name}: {text}" for name, text in told.items())
        raise VmIdUnknown(f"neither the firmware nor IMDS tells the VM id{because}", hint="set platform.vm_id", **told)
    return recall(walk)


def accept(walk: Walk, gathered: Gathered, saved: Metadata | None) -> None:
    """Complete, or nothing asked at all; the password becomes a hash here and is never seen again."""
    answers, failures = dict(gathered.answers), gathered.failures
    if saved is not None and "media" not in answers:
        answers["saved"] = saved
    if "imds" in answers:
        walk.events.about.update(answers["imds"].about)
        if walk.alone is not None:
            kept_name = walk.facts is not None and walk.facts.ignition is not None  # Ignition's goes before the media's
            check_agreement(answers["imds"], replace(walk.alone, hostname=None) if kept_name else walk.alone)
    walk.metadata, walk.device = redacted(walk, hashed(walk, merge(answers))), gathered.device
    _tell(walk, failures)
    _warn(walk)
    if walk.metadata.key_pairs or named_keys(walk.metadata):
        walk.metadata = with_certified_keys(walk, walk.metadata)
    if is_specialised(walk.metadata) and "imds" not in failures and isinstance(failures.get("media"), MediaAbsent):
        walk.events.tell(INFO, "metadata", "this is a specialised VM: the platform asks for nothing")
        return
    if stays_for_want(walk, failures):
        return
    check_complete(walk.metadata, failures, knows_saved=walk.remembers)
    check_username(walk.metadata.username or "", system=walk.config.user.allow_system_user)
    check_hostname(walk.metadata.hostname or "")
    walk.metadata = with_usable_keys(walk.metadata, lambda told: walk.events.tell(WARN, "keys", told))
    if walk.facts is not None and walk.facts.ignition is not None and walk.journal is not None:
        from azureinit.plan.ignition import yielding

        walk.metadata = yielding(walk.metadata, walk.facts, done=walk.journal.done)
    walk.alone = _alone(walk, answers, failures, walk.metadata)
    if walk.alone is not None:
        walk.events.tell(WARN, "waiting", f"no network ({failures.get('imds')}): the media alone are applied")


def _alone(
    walk: Walk, answers: dict[str, Metadata], failures: dict[str, AzureInitError], metadata: Metadata
) -> Metadata | None:
    """What was accepted, where it is the media's and IMDS could not be asked for want of a network."""
    if "imds" in answers or (walk.context.booted is None and walk.alone is None):
        return None
    if isinstance(failures.get("imds"), NoNetwork):
        return metadata  # also where a route has come since: IMDS has not been asked
    from azureinit.addresses import host_of
    from azureinit.sources.route import has_route

    return None if has_route(walk.machine, host_of(walk.config.imds.endpoint)) else metadata


def check_agreement(imds: Metadata, media: Metadata) -> None:
    """The media were applied while there was no network."""
    from azureinit.sources.metadata import disagreements

    found = disagreements(imds, media)
    if found:
        raise MediaRefused(f"the media were applied while there was no network, and IMDS disagrees: {'; '.join(found)}")


def no_network(walk: Walk, seconds: float) -> NoNetwork | None:
    """The reason to wait no longer for a route to IMDS, after so many seconds without one."""
    if seconds < walk.config.boot.network_secs * NO_LINK:
        return None
    from azureinit.run.waiting import no_network

    return no_network(walk, seconds)


def with_certified_keys(walk: Walk, metadata: Metadata) -> Metadata:
    """Keys and pairs that the media name by a certificate: the wireserver has the certificates."""
    from azureinit.sources.certificates import read_certificates
    from azureinit.sources.certified import certified
    from azureinit.sources.envelope import check_tool
    from azureinit.sources.goalstate import read_goal_state, wireserver

    with walk.events.step("certificates") as span:
        check_tool(walk.machine)
        until = _until(walk)
        wait_for_wireserver(walk, until=until)
        state = read_goal_state(
            walk.config,
            endpoint=wireserver(walk.config),
            clock=walk.machine.clock,
            deadline=until,
            observe=walk.events.observe,
        )
        known = read_certificates(walk.machine, walk.config, state, deadline=until, observe=walk.events.observe)
        made = certified(metadata, known)
        span.text = (
            f"made {len(made.keys) - len(metadata.keys)} keys and {len(made.key_pairs)} key pairs of certificates"
        )
    return made


def hashed(walk: Walk, metadata: Metadata) -> Metadata:
    if metadata.password is None:
        return metadata
    from azureinit.machine.crypt import hash_password

    made = hash_password(
        walk.machine,
        metadata.password,
        crypt_id=walk.config.user.password_crypt_id,
        salt_length=walk.config.user.password_salt_length,
        warn=lambda told: walk.events.tell(WARN, "password", told),
    )
    return replace(metadata, password=None, password_hash=made)


def redacted(walk: Walk, metadata: Metadata) -> Metadata:
    """The media's document as WALinuxAgent may have it; where it is not installed, nobody needs it any longer."""
    assert walk.facts is not None
    if metadata.document is None or walk.facts.waagent is None:
        return replace(metadata, document=None)
    from azureinit.record import Secret
    from azureinit.sources.redact import redact

    return replace(metadata, document=Secret(redact(metadata.document.reveal())))


def _tell(walk: Walk, failures: dict[str, AzureInitError]) -> None:
    for name, error in failures.items():
        walk.events.tell(WARN, name, str(error))
    imds = failures.get("imds")
    if isinstance(imds, ImdsUnavailable):
        look_at_the_network(walk, imds)


def _warn(walk: Walk) -> None:
    assert walk.metadata is not None and walk.facts is not None
    for warning in walk.metadata.warnings:
        walk.events.tell(WARN, "metadata", warning)
    if walk.facts.ssh.query_failure:
        walk.events.tell(DEBUG, "sshd", f"not asked but read: {walk.facts.ssh.query_failure}")
