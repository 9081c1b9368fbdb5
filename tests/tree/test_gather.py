"""When to stop waiting for a source: every branch of the policy with a test clock, then both real sources."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import AzureProxyAgent, Config, Imds as ImdsConfig, ProvisioningMedia, Sources
from azureinit.errors import (
    AzureInitError,
    ImdsUnavailable,
    MediaAbsent,
    MediaRefused,
    NoNetwork,
    OvfInvalid,
    ProxyAgentFailed,
    ProxyAgentMissing,
)
from azureinit.machine import Clock, Machine
from azureinit.record import Secret, replace
from azureinit.sources.gather import BLOCKED, LAST_WORD, ROUTE, Gathered, ask_sources, collect
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from support.ssh_trees import ed25519
from support.wire import Server, Ticking, answer, unused_url

Message = tuple[str, Union[Metadata, AzureInitError]]

KEY = PublicKey(data=ed25519())
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


# ---- both sources for real

OVF = """<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1"
 xmlns:wa="http://schemas.microsoft.com/windowsazure"><wa:ProvisioningSection><wa:Version>1.0</wa:Version>
<LinuxProvisioningConfigurationSet xmlns="http://schemas.microsoft.com/windowsazure">
<HostName>web-1</HostName><UserName>azureuser</UserName><UserPassword>pass-word</UserPassword>
<DisableSshPasswordAuthentication>false</DisableSshPasswordAuthentication>
</LinuxProvisioningConfigurationSet></wa:ProvisioningSection>
<wa:PlatformSettingsSection><wa:Version>1.0</wa:Version>
<PlatformSettings xmlns="http://schemas.microsoft.com/windowsazure">
<ProvisionGuestProxyAgent>PROXY</ProvisionGuestProxyAgent></PlatformSettings></wa:PlatformSettingsSection>
</Environment>"""
DOCUMENT = {
    "compute": {
        "osProfile": {"adminUsername": "azureuser", "computerName": "web-1", "disablePasswordAuthentication": "false"},
        "publicKeys": [{"keyData": KEY.data, "path": ""}],
    }
}
GOOD = answer(body=json.dumps(DOCUMENT).encode())


def unheard(_name: str, **_fields: object) -> None:
    pass


@pytest.fixture
def media(tmp_path: Path) -> Path:
    (tmp_path / "media").mkdir()
    (tmp_path / "media/ovf-env.xml").write_text(OVF.replace("PROXY", "false"))
    return tmp_path / "media"


def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "root").mkdir(exist_ok=True)
    return Machine(root=str(tmp_path / "root"), search=(str(tmp_path / "bin"), "/usr/bin", "/bin"), environ={})


def agent(tmp_path: Path, script: str) -> None:
    path = tmp_path / "bin/azure-proxy-agent"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def settings(url: str, path: object, **more: Any) -> Config:
    imds = ImdsConfig(endpoint=url, request_timeout_secs=5.0, retry_interval_secs=0.05, final_after_secs=0.2)
    return Config(imds=imds, provisioning_media=ProvisioningMedia(path=str(path)), **more)


def gathered(tmp_path: Path, config: Config, *, within: float = 30.0) -> Gathered:
    computer = machine(tmp_path)
    return ask_sources(computer, config, deadline=Clock().monotonic() + within, observe=unheard)()


def test_both_sources_are_read(tmp_path: Path, media: Path) -> None:
    with Server(GOOD) as server:
        found = gathered(tmp_path, settings(server.url, media))
    assert found.failures == {}
    assert found.answers["imds"].keys == (PublicKey(data=KEY.data),)
    assert found.answers["media"].password == Secret("pass-word")
    assert found.device is None


def test_both_are_asked_at_the_same_time(tmp_path: Path) -> None:
    """The medium comes only once IMDS has been asked, and IMDS answers only once the medium has been read."""
    medium, was_read = tmp_path / "media", threading.Event()
    medium.mkdir()

    class Watched(Machine):
        def read_host(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
            data = super().read_host(path, limit=limit)
            if data is not None:
                was_read.set()
            return data

    def imds(connection: socket.socket) -> None:
        (medium / "new").write_text(OVF.replace("PROXY", "false"))
        (medium / "new").rename(medium / "ovf-env.xml")
        if was_read.wait(10):
            connection.sendall(GOOD)

    (tmp_path / "root").mkdir()
    with Server(imds) as server:
        computer = Watched(root=str(tmp_path / "root"), environ={})
        deadline = computer.clock.monotonic() + 30
        finish = ask_sources(computer, settings(server.url, medium), deadline=deadline, observe=unheard)
        assert set(finish().answers) == {"imds", "media"}
    assert len(server.requests) == 1


def test_media_that_are_switched_off_are_absent(tmp_path: Path) -> None:
    with Server(GOOD) as server:
        config = replace(settings(server.url, ""), provisioning_media=ProvisioningMedia(enable=False))
        found = gathered(tmp_path, config)
    assert isinstance(found.failures["media"], MediaAbsent)
    assert "provisioning_media.enable is false" in str(found.failures["media"])


def test_sources_that_give_up_themselves_tell_why(tmp_path: Path) -> None:
    found = gathered(tmp_path, settings(unused_url(), tmp_path / "nothing"), within=0.3)
    assert found.answers == {}
    assert "connection refused" in str(found.failures["imds"])
    assert "nothing" in str(found.failures["media"])


def refused(tmp_path: Path, media: object, *answers: bytes, **more: Any) -> tuple[Gathered, int]:
    with Server(*answers) as server:
        found = gathered(tmp_path, settings(server.url, media, **more))
    return found, len(server.requests)


def test_a_refusal_waits_for_an_installed_proxy_agent_and_is_asked_again(tmp_path: Path, media: Path) -> None:
    agent(tmp_path, f'echo "$@" > {tmp_path}/called')
    found, asked = refused(tmp_path, media, answer(403), GOOD)
    assert set(found.answers) == {"imds", "media"}
    assert asked == 2
    assert (tmp_path / "called").read_text() == "--status --wait 120\n"


def test_a_proxy_agent_that_fails_is_told_with_everything_it_said(tmp_path: Path, media: Path) -> None:
    agent(tmp_path, "echo to its output; echo to its errors >&2; exit 7")
    found, asked = refused(tmp_path, media, answer(401), GOOD)
    error = found.failures["imds"]
    assert isinstance(error, ProxyAgentFailed)
    for part in ("IMDS refused with status 401", "exit status: 7", "to its output", "to its errors"):
        assert part in str(error)
    assert error.data["exit_status"] == "exit status: 7"
    assert asked == 1


def test_a_proxy_agent_that_hangs_is_ended_and_told(tmp_path: Path, media: Path) -> None:
    agent(tmp_path, "exec sleep 1000")
    with Server(answer(403)) as server:
        found = gathered(tmp_path, settings(server.url, tmp_path / "nothing"), within=0.5)
    assert isinstance(found.failures["imds"], ProxyAgentFailed)
    assert "IMDS refused with status 403, and azure-proxy-agent was killed after" in str(found.failures["imds"])


def test_a_refusal_without_a_proxy_agent_is_asked_again_and_final_in_the_end(tmp_path: Path, media: Path) -> None:
    found, asked = refused(tmp_path, media, answer(403))
    assert found.failures["imds"].reason == "http error 403 querying IMDS"
    assert not found.failures["imds"].recoverable
    assert "status 403" in str(found.failures["imds"])
    assert "azure-proxy-agent is neither installed nor requested" in str(found.failures["imds"])
    assert asked >= 1 + 5
    found, asked = refused(tmp_path, media, answer(403), answer(403), GOOD)
    assert (found.failures, asked) == ({}, 3), "a refusal may pass"


def test_a_proxy_agent_that_the_media_ask_for_must_be_installed(tmp_path: Path, media: Path) -> None:
    (media / "ovf-env.xml").write_text(OVF.replace("PROXY", "true"))
    found, _ = refused(tmp_path, media, answer(403))
    assert "requested by the platform but not installed" in str(found.failures["imds"])


def test_a_proxy_agent_that_the_media_ask_for_is_waited_for_though_imds_answers(tmp_path: Path, media: Path) -> None:
    (media / "ovf-env.xml").write_text(OVF.replace("PROXY", "true"))
    found, asked = refused(tmp_path, media, GOOD)
    assert isinstance(found.failures["proxy agent"], ProxyAgentMissing)
    assert (set(found.answers), asked) == ({"imds", "media"}, 1)
    agent(tmp_path, "echo no keys >&2; exit 7")
    found, _ = refused(tmp_path, media, GOOD)
    assert type(found.failures["proxy agent"]) is ProxyAgentFailed and "no keys" in str(found.failures["proxy agent"])
    agent(tmp_path, f"echo once >> {tmp_path}/called")
    found, _ = refused(tmp_path, media, GOOD)
    assert found.failures == {}
    found, _ = refused(tmp_path, media, answer(401), GOOD)
    assert found.failures == {}
    assert (tmp_path / "called").read_text() == "once\n" * 2, "once a run, refused or not"
    found, _ = refused(tmp_path, media, GOOD, azure_proxy_agent=AzureProxyAgent(enable=False))
    assert found.failures == {}


def test_a_medium_that_contradicts_imds_is_refused_and_its_device_left_alone(tmp_path: Path, media: Path) -> None:
    said = json.dumps(DOCUMENT).replace('"false"', '"true"').encode()
    found, _ = refused(tmp_path, media, answer(body=said))
    assert set(found.answers) == {"imds"}
    assert isinstance(found.failures["media"], MediaRefused)
    assert found.device is None


def test_a_proxy_agent_can_be_switched_off(tmp_path: Path, media: Path) -> None:
    agent(tmp_path, f"touch {tmp_path}/called")
    found, asked = refused(tmp_path, media, answer(403), azure_proxy_agent=AzureProxyAgent(enable=False))
    assert "azure_proxy_agent.enable is false" in str(found.failures["imds"])
    assert asked >= 1 + 5
    assert not (tmp_path / "called").exists()


def test_what_was_not_waited_for_is_told_with_its_last_failure(tmp_path: Path, media: Path) -> None:
    with Server(answer(503)) as server:
        config = replace(settings(server.url, media), sources=Sources(grace_secs=0.2))
        found = gathered(tmp_path, config)
    assert "no usable answer within" in str(found.failures["imds"])
    assert "status 503" in str(found.failures["imds"])
    assert found.failures["imds"].recoverable


def test_a_medium_that_cannot_be_understood_keeps_its_cause_where_it_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "media").mkdir()
    (tmp_path / "media/ovf-env.xml").write_text("<Environment")
    with Server(GOOD) as server:
        config = replace(settings(server.url, tmp_path / "media"), sources=Sources(grace_secs=0.2))
        found = gathered(tmp_path, config)
    assert isinstance(found.failures["media"], OvfInvalid)
    assert "not XML" in str(found.failures["media"])


def test_a_bug_in_a_source_reaches_the_verdict(tmp_path: Path, media: Path) -> None:
    class Broken(Machine):
        def names(self, path: str) -> tuple[str, ...] | None:
            raise ZeroDivisionError("a bug")

    computer = Broken(root=str(tmp_path), environ={})
    finish: Callable[[], Gathered] = ask_sources(
        computer, settings(unused_url(), media), deadline=Clock().monotonic() + 3.0, observe=unheard
    )
    assert "media: ZeroDivisionError: a bug" in str(finish().failures["media"])


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
