"""Reads IMDS and the media in parallel, and decides when to stop waiting for the other one.

Once one source is sufficient, the other gets `sources.grace_secs` more; for IMDS that time starts when there is a route
to it. If IMDS announces a password or customData, the media must answer within `provisioning_media.wait_secs`, since
only they carry those. Waits end with a message or a deadline, never with a sleep.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError, ImdsUnavailable, MediaAbsent, MediaRefused, NoNetwork, ProxyAgentFailed
from azureinit.machine.threads import allocate_lock
from azureinit.record import Record, replace
from azureinit.sources.merge import contradiction, from_imds, from_ovf, merge, needs_media, needs_no_network
from azureinit.sources.metadata import Metadata, is_enough, is_specialised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Union

    from azureinit.config.model import Config
    from azureinit.http import Observe
    from azureinit.machine import Clock, Machine
    from azureinit.sources.media import Medium
    from azureinit.sources.proxy_agent import ProxyAgent

    Ask = Callable[[], Metadata]
    Note = Callable[[AzureInitError], None]
    NoRoute = Callable[[float], Union[AzureInitError, None]]

DRIVE = "/dev/sr"  # an optical drive
LOOK_SECS = 1.0
# A source with its own timeout has the better error: it gets these seconds more to raise it.
LAST_WORD = 1.0
# Not sources: messages about the route to IMDS.
ROUTE, BLOCKED = "route", "blocked"


class Gathered(Record):
    answers: dict[str, Metadata]
    failures: dict[str, AzureInitError]
    # The device to eject before Ready; None if the media was a file or absent.
    device: str | None


def ask_sources(
    machine: Machine,
    config: Config,
    *,
    deadline: float,
    observe: Observe,
    saved: Metadata | None = None,
    route: bool = False,
    add_route: Callable[[str], bool] | None = None,
    vm_id: str | None = None,
    no_network: NoRoute | None = None,
    trouble: dict[str, AzureInitError | None] | None = None,
    medium: Callable[[float, Note], Medium] | None = None,
) -> Callable[[], Gathered]:
    """Start reading at once; the returned function waits for the answers. `saved`: the media of an earlier run.

    `route`: the network may not be up yet, so IMDS is asked once there is a route to it; `add_route` is called with a
    host that has had no route for long. `vm_id`: this VM's, if known. `no_network` is called with the seconds waited
    and returns a reason to stop waiting for a route; then the media are applied alone, if possible. `trouble` gets the
    sources that have not answered yet, each with its last error. `medium` reads what a VM from a pool gets instead of
    media; IMDS is asked after it, since it may ask for the proxy agent.
    """
    from azureinit.machine.threads import Flag, Inbox, start

    inbox = Inbox()
    media_known = Flag()
    media: list[Medium] = []
    trouble = {} if trouble is None else trouble
    trouble.update(imds=None, media=None)

    agents: list[ProxyAgent] = []
    making = allocate_lock()

    def proxy_agent() -> ProxyAgent:
        from azureinit.sources.proxy_agent import ProxyAgent

        with making:
            if not agents:
                agents.append(ProxyAgent(machine, config, deadline=deadline))
        return agents[0]

    def noting(name: str, *, failure: str = "", **fields: Any) -> None:
        if failure:
            trouble["imds"] = ImdsUnavailable(failure)
        observe(name, failure=failure, **fields)

    def ask_media() -> Metadata:
        try:
            note = lambda error: trouble.update(media=error)  # noqa: E731
            if medium is not None:
                media.append(medium(deadline, note))
            else:
                media.append(_read_media(machine, config, deadline=deadline, observe=observe, note=note))
        finally:
            media_known.set()
        return replace(from_ovf(media[0].ovf), document=media[0].document)

    def ask_imds() -> Metadata:
        from azureinit.sources.imds import query_imds

        if route:
            from azureinit.addresses import host_of
            from azureinit.sources.route import wait_for_route

            host = host_of(config.imds.endpoint)
            if not wait_for_route(
                machine, host, until=deadline, late=lambda: add_route is not None and add_route(host)
            ):
                raise (no_network and no_network(float("inf"))) or NoNetwork(f"no route to {host}")
            inbox.put((ROUTE, Metadata()))
        if medium is not None:
            media_known.wait()
            if media and media[0].ovf.proxy_agent:
                proxy_agent().wait(demanded=True)

        def wait_for_proxy(refusal: str) -> str:
            machine.clock.wait(media_known.wait, config.sources.grace_secs)
            demanded = bool(media and media[0].ovf.proxy_agent)
            if demanded:
                inbox.put((BLOCKED, Metadata()))  # IMDS is asked after the proxy agent is ready
            try:
                return f"; before that {proxy_agent().wait(demanded=demanded)}"
            except ProxyAgentFailed as error:
                raise type(error)(f"{refusal}, and {error}", **error.data) from error
            finally:
                inbox.put((ROUTE, Metadata()))

        return from_imds(
            query_imds(config, clock=machine.clock, deadline=deadline, observe=noting, wait_for_proxy=wait_for_proxy)
        )

    def from_the_drive() -> bool:
        """True for an optical drive. Any user may attach a disk, so that a disk does not prove that it is the
        platform's.
        """
        return bool(media and (config.provisioning_media.path or (media[0].device or "").startswith(DRIVE)))

    def alone(known: Metadata, seconds: float) -> AzureInitError | None:
        return no_network(seconds) if no_network and from_the_drive() and needs_no_network(known) else None

    for name, ask in (("imds", ask_imds), ("media", ask_media)):
        start(_answerer(inbox.put, trouble, name, ask))

    def finish() -> Gathered:
        answers, failures = collect(
            inbox.get,
            saved=saved,
            clock=machine.clock,
            deadline=deadline,
            config=config,
            routed=not route,
            trouble=trouble,
            alone=alone if route else None,
            both=medium is not None,
        )
        refuse_contradiction(answers, failures, vm_id=vm_id)
        if "media" in answers and isinstance(failures.get("imds"), NoNetwork) and not from_the_drive():
            del answers["media"]
            failures["media"] = MediaAbsent("a medium outside of an optical drive is not used without IMDS")
        told = answers.get("media", saved)
        if told is not None and told.proxy_agent:
            try:
                proxy_agent().wait(demanded=True)
            except ProxyAgentFailed as error:
                failures["proxy agent"] = error
        return Gathered(answers=answers, failures=failures, device=media[0].device if "media" in answers else None)

    return finish


def refuse_contradiction(
    answers: dict[str, Metadata], failures: dict[str, AzureInitError], *, vm_id: str | None
) -> None:
    """Refuse a medium that belongs to another VM."""
    if "media" in answers:
        why = contradiction(answers["media"], answers.get("imds"), vm_id=vm_id)
        if why:
            failures["media"] = MediaRefused(f"the provisioning medium is refused: {why}")
            del answers["media"]


def collect(
    receive: Callable[[float], tuple[str, Metadata | AzureInitError] | None],
    *,
    saved: Metadata | None = None,
    clock: Clock,
    deadline: float,
    config: Config,
    routed: bool = True,
    trouble: Mapping[str, AzureInitError | None] = {},
    alone: Callable[[Metadata, float], AzureInitError | None] | None = None,
    both: bool = False,
) -> tuple[dict[str, Metadata], dict[str, AzureInitError]]:
    """Both answers, or one answer and the reason why the wait for the other ended.

    `alone` is called every second while the media have answered and there is no route to IMDS. It returns why to use
    the media alone. `both`: neither is sufficient without the other.
    """
    started = clock.monotonic()
    answers: dict[str, Metadata] = {}
    failures: dict[str, AzureInitError] = {}
    media_limit = min(deadline, started + config.provisioning_media.wait_secs)
    limits = {"imds": deadline + LAST_WORD, "media": media_limit + LAST_WORD}
    while True:
        waiting = {name: limit for name, limit in limits.items() if name not in answers and name not in failures}
        if not waiting:
            return answers, failures
        name, limit = min(waiting.items(), key=lambda item: item[1])
        ask = alone if not routed and "media" in answers else None
        left = limit - clock.monotonic()
        message = clock.wait(receive, left if ask is None else min(left, LOOK_SECS))
        now = clock.monotonic()
        if message is None:
            given_up = None if ask is None else ask(answers["media"], now - started)
            if given_up is not None:
                failures["imds"] = given_up
            elif now >= limit:
                failures[name] = _too_late(name, now - started, trouble.get(name))
            continue
        name, answer = message
        if name == ROUTE:
            routed = True
        elif name == BLOCKED:
            routed, limits["imds"] = False, deadline + LAST_WORD
        elif isinstance(answer, AzureInitError):
            failures[name] = answer
        else:
            answers[name] = answer
            failures.pop(name, None)  # late, but still during the wait for the other source
        known = merge({**({"saved": saved} if saved else {}), **answers})
        lacking = needs_media(known) and "media" not in answers
        pooled = known.pps_type is not None
        if (pooled or both) and "imds" not in answers:
            continue  # IMDS may say that this is no VM of a pool; and a customer's VM must be known to it
        if (is_enough(known) and not lacking) or ("imds" in answers and (pooled or is_specialised(known))):
            soon = now + config.sources.grace_secs
            limits = {name: min(limit, soon) if routed or name != "imds" else limit for name, limit in limits.items()}


def _too_late(name: str, seconds: float, trouble: AzureInitError | None) -> AzureInitError:
    if trouble is None:
        error: AzureInitError = (ImdsUnavailable if name == "imds" else MediaAbsent)(
            f"no answer within {seconds:.1f} s"
        )
    else:
        error = type(trouble)(f"no usable answer within {seconds:.1f} s: {trouble}", reason=trouble.reason)
    error.recoverable = isinstance(error, (ImdsUnavailable, MediaAbsent))
    return error


def _answerer(
    put: Callable[[tuple[str, Metadata | AzureInitError]], None],
    trouble: dict[str, AzureInitError | None],
    name: str,
    ask: Ask,
) -> Callable[[], None]:
    def answer() -> None:
        found: Metadata | AzureInitError
        try:
            found = ask()
        except AzureInitError as error:
            found = error
        except Exception as error:  # noqa: BLE001 - a defect in a thread must reach the verdict, too
            found = AzureInitError(f"{name}: {type(error).__name__}: {error}")
        trouble.pop(name, None)
        put((name, found))

    return answer


def _read_media(
    machine: Machine,
    config: Config,
    *,
    deadline: float,
    observe: Observe,
    note: Callable[[AzureInitError], None],
) -> Medium:
    if not config.provisioning_media.enable:
        off = MediaAbsent("provisioning_media.enable is false", setting="provisioning_media.enable")
        off.recoverable = False
        raise off
    from azureinit.sources.media import read_media

    until = min(deadline, machine.clock.monotonic() + config.provisioning_media.wait_secs)
    return read_media(machine, path=config.provisioning_media.path, deadline=until, observe=observe, note=note)
