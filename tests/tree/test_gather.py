"""When to stop waiting for a source: every branch of the policy with a test clock, then both real sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Union

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Config, ProvisioningMedia, Sources
from azureinit.errors import (
    AzureInitError,
    ImdsUnavailable,
    MediaAbsent,
    NoNetwork,
    OvfInvalid,
)
from azureinit.machine import Clock, Machine
from azureinit.record import Secret, replace
from azureinit.sources.gather import BLOCKED, LAST_WORD, ROUTE, ask_sources, collect
from azureinit.sources.metadata import Metadata
from support.gathering import KEY, OVF, unheard
from support.wire import Ticking

Message = tuple[str, Union[Metadata, AzureInitError]]
ENOUGH = Metadata(username="u", hostname="h", keys=(KEY,))
WITH_PASSWORD = Metadata(username="u", hostname="h", password=Secret("p"), has_password=True)
WANTS_PASSWORD = Metadata(username="u", hostname="h", disable_password=False, has_profile=True)
SPECIALISED = Metadata(has_profile=True)
DOWN = ImdsUnavailable("nobody there")
ABSENT = MediaAbsent("no drive")
START = 1000.0
DEADLINE = 2000.0
CONFIG = Config()


class Post(Ticking):
    """Messages that arrive at their time, which passes only by waiting for them."""

    def __init__(self, *messages: tuple[float, str, Metadata | AzureInitError]) -> None:
        super().__init__(START)
        self.pending = sorted(((START + at, name, value) for at, name, value in messages), key=lambda each: each[0])
        self.waits = 0

    def receive(self, seconds: float) -> Message | None:
        self.waits += 1
        assert seconds >= 0
        assert self.waits < 50, "it spins"
        if self.pending and self.pending[0][0] <= self.at + seconds:
            at, name, value = self.pending.pop(0)
            self.at = max(self.at, at)
            return name, value
        self.at += seconds
        return None


def outcome(
    *messages: tuple[float, str, Metadata | AzureInitError], config: Config = CONFIG, deadline: float = DEADLINE
) -> tuple[float, dict[str, Metadata], dict[str, AzureInitError]]:
    """How long it took, the answers, the failures."""
    post = Post(*messages)
    answers, failures = collect(post.receive, clock=post, deadline=deadline, config=config)
    assert set(answers) | set(failures) == {"imds", "media"}
    assert not set(answers) & set(failures)
    return round(post.at - START, 6), answers, failures


def test_both_answers_end_the_wait_at_once() -> None:
    for first, second in (("imds", "media"), ("media", "imds")):
        took, answers, failures = outcome((0.1, first, ENOUGH), (0.4, second, ENOUGH))
        assert (took, set(answers), failures) == (0.4, {"imds", "media"}, {})


@pytest.mark.parametrize(("first", "other"), [("imds", "media"), ("media", "imds")])
def test_once_one_is_enough_the_other_gets_the_grace(first: str, other: str) -> None:
    took, answers, failures = outcome((1.0, first, ENOUGH))
    assert took == 1.0 + CONFIG.sources.grace_secs
    assert set(answers) == {first}
    assert "no answer within 4.0 s" in str(failures[other])
    assert isinstance(failures[other], MediaAbsent if other == "media" else ImdsUnavailable)


@pytest.mark.parametrize(("first", "other"), [("imds", "media"), ("media", "imds")])
def test_an_answer_within_the_grace_counts(first: str, other: str) -> None:
    took, answers, failures = outcome((1.0, first, ENOUGH), (3.9, other, WITH_PASSWORD))
    assert (took, set(answers), failures) == (3.9, {"imds", "media"}, {})


def test_the_grace_is_configured() -> None:
    config = Config(sources=Sources(grace_secs=0.0))
    assert outcome((1.0, "imds", ENOUGH), config=config)[0] == 1.0
    both = outcome((1.0, "imds", ENOUGH), (1.0, "media", ENOUGH), config=config)
    assert set(both[1]) == {"imds", "media"}  # what has come is taken, grace or not


def test_a_failure_within_the_grace_is_kept_with_its_own_words() -> None:
    _, answers, failures = outcome((1.0, "media", ENOUGH), (2.0, "imds", DOWN))
    assert set(answers) == {"media"}
    assert failures == {"imds": DOWN}


def test_passwords_on_and_no_key_waits_for_the_media() -> None:
    took, answers, _ = outcome((0.1, "imds", WANTS_PASSWORD), (50.0, "media", WITH_PASSWORD))
    assert took == 50.0
    assert answers["media"].has_password


def test_passwords_on_and_no_key_waits_no_longer_than_the_media_may_take() -> None:
    took, answers, failures = outcome((0.1, "imds", WANTS_PASSWORD))
    assert took == 60.0 + LAST_WORD
    assert set(answers) == {"imds"}
    assert isinstance(failures["media"], MediaAbsent)
    config = Config(provisioning_media=ProvisioningMedia(wait_secs=5.0))
    assert outcome((0.1, "imds", WANTS_PASSWORD), config=config)[0] == 5.0 + LAST_WORD


def test_a_switch_that_is_not_told_without_a_key_waits_for_the_media_too() -> None:
    unsure = replace(WANTS_PASSWORD, disable_password=None)
    assert outcome((0.1, "imds", unsure), (59.0, "media", WITH_PASSWORD))[0] == 59.0


def test_media_that_are_not_enough_wait_for_imds() -> None:
    took, answers, _ = outcome((0.1, "media", Metadata(username="u")), (200.0, "imds", ENOUGH))
    assert took == 200.0
    assert set(answers) == {"imds", "media"}


def test_both_failing_is_both_reasons() -> None:
    took, answers, failures = outcome((0.1, "media", ABSENT), (300.0, "imds", DOWN))
    assert (took, answers, failures) == (300.0, {}, {"imds": DOWN, "media": ABSENT})


def test_imds_down_and_media_present_goes_on_after_the_grace() -> None:
    took, answers, failures = outcome((0.2, "media", WITH_PASSWORD), (300.0, "imds", DOWN))
    assert took == 0.2 + CONFIG.sources.grace_secs
    assert set(answers) == {"media"}
    assert isinstance(failures["imds"], ImdsUnavailable)


def test_media_absent_and_imds_present_goes_on_after_the_grace() -> None:
    took, answers, failures = outcome((0.2, "imds", ENOUGH), (60.0, "media", ABSENT))
    assert took == 0.2 + CONFIG.sources.grace_secs
    assert set(answers) == {"imds"}
    assert isinstance(failures["media"], MediaAbsent)


def test_broken_media_end_the_wait_for_them() -> None:
    broken = OvfInvalid("not XML")
    took, _, failures = outcome((0.2, "imds", WANTS_PASSWORD), (0.3, "media", broken))
    assert (took, failures) == (0.3, {"media": broken})


CUSTOM_DATA = replace(ENOUGH, has_custom_data=True)
WITH_CUSTOM_DATA = Metadata(username="u", hostname="h", custom_data=Secret("e30="))


@pytest.mark.parametrize("seconds", [0.0, 3.0, 4.0, 59.0])
def test_custom_data_that_imds_names_are_waited_for_though_imds_is_enough(seconds: float) -> None:
    took, answers, failures = outcome((0.1, "imds", CUSTOM_DATA), (seconds, "media", WITH_CUSTOM_DATA))
    assert (took, set(answers), failures) == (max(seconds, 0.1), {"imds", "media"}, {})


def test_custom_data_that_never_come_are_waited_for_no_longer_than_the_media_may_take() -> None:
    assert outcome((0.1, "imds", CUSTOM_DATA))[0] == 60.0 + LAST_WORD


def test_saved_custom_data_are_not_waited_for_again() -> None:
    post = Post((0.1, "imds", CUSTOM_DATA))
    collect(post.receive, saved=WITH_CUSTOM_DATA, clock=post, deadline=DEADLINE, config=CONFIG)
    assert round(post.at - START, 6) == 0.1 + CONFIG.sources.grace_secs


def test_imds_behind_a_proxy_agent_that_the_media_ask_for_has_no_grace_until_that_is_ready() -> None:
    blocked = ((0.1, "media", ENOUGH), (0.2, BLOCKED, Metadata()), (100.0, ROUTE, Metadata()))
    took, answers, _ = outcome(*blocked, (101.0, "imds", ENOUGH))
    assert (took, set(answers)) == (101.0, {"imds", "media"})
    took, answers, _ = outcome(*blocked)
    assert (took, set(answers)) == (100.0 + CONFIG.sources.grace_secs, {"media"})


def test_a_specialised_machine_waits_for_the_media_no_longer_than_the_grace() -> None:
    took, answers, failures = outcome((0.2, "imds", SPECIALISED))
    assert took == 0.2 + CONFIG.sources.grace_secs
    assert answers == {"imds": SPECIALISED}
    assert isinstance(failures["media"], MediaAbsent)


def test_empty_media_do_not_end_the_wait_for_imds() -> None:
    assert outcome((0.2, "media", Metadata()), (100.0, "imds", ENOUGH))[0] == 100.0


def test_an_answer_that_is_late_but_in_time_for_the_other_is_not_lost() -> None:
    took, answers, failures = outcome((90.0, "media", WITH_PASSWORD), (91.0, "imds", WANTS_PASSWORD))
    assert took == 91.0
    assert (set(answers), failures) == ({"imds", "media"}, {})


def test_the_reason_of_a_late_failure_replaces_its_lateness() -> None:
    _, _, failures = outcome((90.0, "media", ABSENT), (91.0, "imds", DOWN))
    assert failures == {"imds": DOWN, "media": ABSENT}


def test_the_deadline_ends_every_wait() -> None:
    took, answers, failures = outcome(deadline=START + 30.0)
    assert took == 30.0 + LAST_WORD
    assert answers == {}
    assert isinstance(failures["imds"], ImdsUnavailable) and isinstance(failures["media"], MediaAbsent)


def test_a_source_that_kept_the_deadline_itself_has_the_last_word() -> None:
    _, _, failures = outcome((30.1, "media", ABSENT), (30.2, "imds", DOWN), deadline=START + 30.0)
    assert failures == {"imds": DOWN, "media": ABSENT}


def test_a_deadline_that_has_passed_still_takes_what_is_there() -> None:
    took, answers, _ = outcome((0.0, "imds", ENOUGH), (0.0, "media", ENOUGH), deadline=START - 10.0)
    assert (took, set(answers)) == (0.0, {"imds", "media"})
    assert outcome(deadline=START - 10.0)[0] == 0.0


values = st.sampled_from([ENOUGH, WITH_PASSWORD, WANTS_PASSWORD, SPECIALISED, Metadata(), DOWN, ABSENT])
moments = st.floats(0, 400)


@given(st.none() | st.tuples(moments, values), st.none() | st.tuples(moments, values))
def test_whatever_comes_whenever_it_ends_with_a_word_on_both(imds: Any, media: Any) -> None:
    messages = [(each[0], name, each[1]) for name, each in (("imds", imds), ("media", media)) if each]
    took, answers, failures = outcome(*messages, deadline=START + 300.0)
    assert took <= 300.0 + LAST_WORD + 0.001
    for at, name, value in messages:
        if at <= 3.0:  # nothing that comes within the grace is ever lost
            assert (answers if isinstance(value, Metadata) else failures)[name] == value


@pytest.fixture
def media(tmp_path: Path) -> Path:
    (tmp_path / "media").mkdir()
    (tmp_path / "media/ovf-env.xml").write_text(OVF.replace("PROXY", "false"))
    return tmp_path / "media"


# ---- without a network


NO_WAY = NoNetwork("eth0 is down: nothing has brought it up")


def given_up_after(seconds: float) -> Callable[[Metadata, float], AzureInitError | None]:
    return lambda _known, passed: NO_WAY if passed >= seconds else None


def without_a_route(
    *messages: tuple[float, str, Metadata | AzureInitError], alone: float
) -> tuple[float, dict[str, Metadata], dict[str, AzureInitError]]:
    post = Post(*messages)
    asked = given_up_after(alone)
    answers, failures = collect(post.receive, clock=post, deadline=START + 40, config=CONFIG, routed=False, alone=asked)
    return round(post.at - START, 6), answers, failures


def test_media_that_have_answered_are_enough_once_there_is_no_hope_for_a_network() -> None:
    took, answers, failures = without_a_route((0.5, "media", ENOUGH), alone=15)
    assert 15 <= took < 17
    assert (set(answers), failures) == ({"media"}, {"imds": NO_WAY})


def test_without_media_the_network_is_waited_for_to_the_end() -> None:
    took, answers, failures = without_a_route((1.0, "media", ABSENT), alone=15)
    assert took >= 40
    assert not answers and failures["imds"] is not NO_WAY


def test_media_that_come_late_are_applied_when_they_come() -> None:
    took, answers, _failures = without_a_route((25.0, "media", ENOUGH), alone=15)
    assert 25 <= took <= 26 and set(answers) == {"media"}


def test_a_network_that_comes_in_time_is_used() -> None:
    took, answers, failures = without_a_route(
        (0.5, "media", ENOUGH), (14.0, "route", Metadata()), (14.2, "imds", ENOUGH), alone=15
    )
    assert (took, set(answers), failures) == (14.2, {"imds", "media"}, {})


def test_an_imds_that_is_silent_on_a_network_gets_its_grace_and_no_more() -> None:
    took, _answers, failures = without_a_route((0.5, "media", ENOUGH), (2.0, "route", Metadata()), alone=30)
    assert took == 2.0 + CONFIG.sources.grace_secs
    assert failures["imds"] is not NO_WAY


@pytest.mark.newer
@pytest.mark.parametrize(("device", "used"), [("sr0", True), ("sda", False)])
def test_a_disk_that_only_looks_like_the_medium_is_not_used_without_a_network(
    tmp_path: Path, device: str, used: bool
) -> None:
    """Also when the time is over: IMDS is the only one that could say that it is not this VM's."""
    from fakeazure import Media, Vm
    from fakeazure.platform.media import image

    disc = image(Vm(password="pass-word", disable_password=False), Media())
    kernel = tmp_path / "kernel"
    for path, data in (
        (f"sys/block/{device}/size", f"{len(disc) // 512}\n".encode()),
        (f"dev/{device}", disc),
        ("proc/net/route", b"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"),
    ):
        (kernel / path).parent.mkdir(parents=True, exist_ok=True)
        (kernel / path).write_bytes(data)
    computer = Machine(root=str(tmp_path), kernel=str(kernel), environ={})
    config = Config(provisioning_media=ProvisioningMedia(wait_secs=0.2))
    until = Clock().monotonic() + 1.0
    found = ask_sources(computer, config, deadline=until, observe=unheard, route=True)()
    assert isinstance(found.failures["imds"], NoNetwork)
    assert set(found.answers) == ({"media"} if used else set())
    assert used or "outside of an optical drive" in str(found.failures["media"])
