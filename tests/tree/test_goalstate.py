"""The goal state: the wireserver's documents, also malformed, late or missing ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.config.model import Config, Wireserver
from azureinit.errors import SourceError
from azureinit.sources.goalstate import (
    GoalState,
    parse_goal_state,
    parse_versions,
    read_goal_state,
    wireserver,
)
from support.wire import Answer, Server, Ticking, answer, reset, unused_url

VERSIONS = b"""<?xml version="1.0" encoding="utf-8"?>
<Versions><Preferred><Version>2015-04-05</Version></Preferred>
<Supported><Version>2015-04-05</Version><Version> 2012-11-30 </Version></Supported></Versions>"""
LINK = "http://168.63.129.16:80/machine/c/_web?comp=certificates&incarnation=2"
GOAL = f"""<?xml version="1.0" encoding="utf-8"?>
<GoalState xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="goalstate10.xsd">
  <Version>2012-11-30</Version>
  <Incarnation>2</Incarnation>
  <Machine><ExpectedState>Started</ExpectedState></Machine>
  <Container>
    <ContainerId> c6d5526c-5ac2-4200-b6e2-56f2b70c5ab2 </ContainerId>
    <RoleInstanceList>
      <RoleInstance>
        <InstanceId>a &amp; b</InstanceId>
        <State>Started</State>
        <Configuration>
          <Certificates>{LINK.replace("&", "&amp;")}</Certificates>
          <ConfigName>x.1.xml</ConfigName>
        </Configuration>
      </RoleInstance>
      <RoleInstance><InstanceId>another</InstanceId></RoleInstance>
    </RoleInstanceList>
  </Container>
</GoalState>""".encode()
EXPECTED = GoalState(
    endpoint="http://w",
    incarnation="2",
    container_id="c6d5526c-5ac2-4200-b6e2-56f2b70c5ab2",
    instance_id="a & b",
    certificates_url=LINK,
)
BOM = b"\xef\xbb\xbf"


def read(*answers: Answer, deadline: float = 1e9, clock: Ticking | None = None) -> tuple[GoalState, list[str]]:
    """What came of it, and the paths that were asked for."""
    with Server(*answers) as server:
        state = read_goal_state(Config(), endpoint=server.url, clock=clock or Ticking(), deadline=deadline)
    assert state.endpoint == server.url
    return state, paths(server)


def paths(server: Server) -> list[str]:
    return [request.split(b" ")[1].decode() for request in server.requests]


def failure(*answers: Answer, deadline: float = 1060.0) -> tuple[SourceError, list[str]]:
    with Server(*answers) as server, pytest.raises(SourceError) as caught:
        read_goal_state(Config(), endpoint=server.url, clock=Ticking(), deadline=deadline)
    return caught.value, paths(server)


def test_versions_and_then_the_goal_state_are_asked_for() -> None:
    state, asked = read(answer(200, VERSIONS), answer(200, GOAL))
    assert asked == ["/?comp=versions", "/machine/?comp=goalstate"]
    assert state.container_id == EXPECTED.container_id


def test_the_wireserver_is_told_the_version_we_speak() -> None:
    with Server(answer(200, VERSIONS), answer(200, GOAL)) as server:
        read_goal_state(Config(), endpoint=server.url, clock=Ticking(), deadline=1e9)
    for request in server.requests:
        assert b"\r\nx-ms-version: 2012-11-30\r\n" in request
        assert b"\r\nx-ms-agent-name: azure-init\r\n" in request


@pytest.mark.parametrize("document", [GOAL, BOM + GOAL, GOAL.decode().replace("utf-8", "utf-16").encode("utf-16")])
def test_a_goal_state_is_read_whole(document: bytes) -> None:
    assert parse_goal_state(document, endpoint="http://w") == EXPECTED


def test_a_machine_without_certificates_has_no_link_to_them() -> None:
    for empty in ("", "<Certificates/>", "<Certificates> </Certificates>"):
        start, end = GOAL.find(b"<Certificates>"), GOAL.find(b"<ConfigName>")
        state = parse_goal_state(GOAL[:start] + empty.encode() + GOAL[end:], endpoint="http://w")
        assert state.certificates_url is None


def test_a_name_elsewhere_is_not_mistaken_for_the_machine_s() -> None:
    decoy = GOAL.replace(b"<Machine>", b"<Machine><ContainerId>wrong</ContainerId><InstanceId>wrong</InstanceId>")
    assert parse_goal_state(decoy, endpoint="http://w") == EXPECTED


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not XML"),
        (GOAL[:-5], "not XML"),
        (b"<!DOCTYPE html><html></html>", "DOCTYPE"),
        (b"<a>" * 100, "nested more than 64 deep"),
        (b'<?xml version="1.0" encoding="rot13"?><GoalState/>', "encoding"),
        (b"<GoalState/>", "no Incarnation"),
        (GOAL.replace(b"ContainerId>", b"Other>"), "no ContainerId"),
        (GOAL.replace(b"RoleInstance>", b"Other>"), "no InstanceId"),
        (b" " * (1 << 20) + GOAL, "more than the 1048576 allowed"),
    ],
)
def test_a_broken_goal_state_is_refused_with_its_cause(body: bytes, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        parse_goal_state(body, endpoint="http://w")


def test_versions_are_the_preferred_and_the_supported_ones() -> None:
    assert parse_versions(VERSIONS) == ("2015-04-05", "2012-11-30")
    only = b"<Versions><Preferred><Version>2012-11-30</Version></Preferred></Versions>"
    assert parse_versions(only) == ("2012-11-30",)
    with pytest.raises(SourceError, match="list of versions is empty"):
        parse_versions(b"<Versions><Supported/></Versions>")


@given(st.binary(max_size=200) | st.binary(max_size=40).map(lambda noise: GOAL[:300] + noise + GOAL[300:]))
@settings(max_examples=200)
def test_whatever_comes_is_a_goal_state_or_an_error_of_ours(body: bytes) -> None:
    for parse in (parse_versions, lambda data: parse_goal_state(data, endpoint="http://w")):
        try:
            parse(body)
        except SourceError as error:
            assert str(error)


def test_a_wireserver_that_does_not_speak_our_version_is_told_as_such() -> None:
    error, asked = failure(answer(200, VERSIONS.replace(b"2012-11-30", b"2031-01-01")))
    assert "supports 2015-04-05, 2031-01-01 and not 2012-11-30" in str(error)
    assert asked == ["/?comp=versions"]


@pytest.mark.parametrize(
    "first",
    [
        answer(503), answer(410), answer(403), answer(429), answer(500), reset, b"nonsense",
        answer(200, GOAL[:100]), answer(200, b"\0\xff"), answer(200, GOAL.replace(b"RoleInstance>", b"Other>")),
        answer(200, GOAL)[:-20],
    ],
)  # fmt: skip
def test_what_may_pass_is_asked_for_again(first: Answer) -> None:
    clock = Ticking()
    state, asked = read(answer(200, VERSIONS), first, answer(200, GOAL), clock=clock)
    assert state.incarnation == "2"
    assert len(asked) == 3
    assert 1.5 <= clock.slept[0] <= 2.0


@pytest.mark.parametrize("status", [400, 401, 404, 405])
def test_what_will_not_pass_fails_at_once(status: int) -> None:
    error, asked = failure(answer(200, VERSIONS), answer(status))
    assert f"status {status}" in str(error) and "sent no goal state" in str(error)
    assert len(asked) == 2
    assert error.data["endpoint"].startswith("http://127.0.0.1")


def test_a_goal_state_that_never_comes_is_given_up_in_time() -> None:
    clock = Ticking()
    with Server(answer(200, VERSIONS), answer(503)) as server, pytest.raises(SourceError, match="status 503"):
        read_goal_state(Config(), endpoint=server.url, clock=clock, deadline=1060.0)
    assert 1045.0 < clock.at <= 1060.0


def test_nobody_there_is_an_error_of_the_source() -> None:
    with pytest.raises(SourceError, match="connection refused"):
        read_goal_state(Config(), endpoint=unused_url(), clock=Ticking(), deadline=1010.0)


@pytest.mark.parametrize(
    ("health", "base"),
    [
        ("http://168.63.129.16/provisioning/health", "http://168.63.129.16"),
        ("http://127.0.0.1:8080/vm/7/provisioning/health", "http://127.0.0.1:8080/vm/7"),
        ("http://[::1]:80/elsewhere?x=/provisioning", "http://[::1]:80"),
        ("http://host", "http://host"),
    ],
)
def test_the_wireserver_is_where_health_is_reported(health: str, base: str) -> None:
    assert wireserver(Config(wireserver=Wireserver(health_endpoint=health))) == base
