"""The XML endpoints: the exact bodies, the limit of a description, stale goal states, and when they are used."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Config, Wireserver
from azureinit.errors import HttpFailed, SourceError, VerdictUndelivered
from azureinit.report.goalstate import (
    escaped,
    send_failure_xml,
    send_fingerprint,
    send_in_progress_xml,
    send_ready_xml,
)
from azureinit.report.health import size_on_the_wire
from azureinit.report.protocol import send_progress, send_verdict
from azureinit.report.verdict import MAX_DESCRIPTION
from azureinit.sources.goalstate import GoalState
from support.wire import Answer, Server, Ticking, answer, reset, silence

ID = "550e8400-e29b-41d4-a716-446655440000"
JSON = b"POST /provisioning/health"
XML = b"POST /machine?comp=health"


class Platform:
    """Hands out goal states, each with a container of its own, and remembers until when it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[float] = []

    def __call__(self, deadline: float) -> GoalState:
        self.asked.append(deadline)
        number = len(self.asked)
        return GoalState(
            endpoint=self.url,
            incarnation=str(number),
            container_id=f"container-{number}",
            instance_id="_<web> & co",
            certificates_url=None,
        )


def config(url: str, **changes: Any) -> Config:
    return Config(wireserver=Wireserver(health_endpoint=url + "/provisioning/health", **changes))


def sent(server: Server) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(request.partition(b"\r\n\r\n")[2]) for request in server.requests]


def lines(server: Server) -> list[bytes]:
    return [b" ".join(request.split(b" ")[:2]) for request in server.requests]


def leaves(tree: ElementTree.Element) -> dict[str, str | None]:
    return {element.tag: element.text for element in tree.iter() if not len(element)}


def test_ready_is_one_post_with_these_words() -> None:
    with Server(answer(201)) as server:
        fetch = Platform(server.url)
        send_ready_xml(config(server.url), fetch=fetch, clock=Ticking(), deadline=1e9)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /machine?comp=health HTTP/1.1\r\n")
    for header in (
        b"x-ms-version: 2012-11-30",
        b"x-ms-agent-name: azure-init",
        b"Content-Type: text/xml;charset=utf-8",
    ):
        assert b"\r\n" + header + b"\r\n" in head
    assert body == (
        b'<?xml version="1.0" encoding="utf-8"?><Health xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        b' xmlns:xsd="http://www.w3.org/2001/XMLSchema"><GoalStateIncarnation>1</GoalStateIncarnation><Container>'
        b"<ContainerId>container-1</ContainerId><RoleInstanceList><Role><InstanceId>_&lt;web&gt; &amp; co</InstanceId>"
        b"<Health><State>Ready</State></Health></Role></RoleInstanceList></Container></Health>"
    )


def test_a_failure_carries_the_report() -> None:
    report = 'result=error|reason=a < b & c|"error=x ""y""\n\té"|vm_id=' + ID
    with Server(answer(200)) as server:
        send_failure_xml(config(server.url), report, fetch=Platform(server.url), clock=Ticking(), deadline=1e9)
    told = leaves(sent(server)[0])
    assert (told["State"], told["SubStatus"]) == ("NotReady", "ProvisioningFailed")
    assert told["Description"] == report


def test_in_progress_names_the_vm() -> None:
    with Server(answer(200)) as server:
        send_in_progress_xml(config(server.url), ID, fetch=Platform(server.url), clock=Ticking(), deadline=1e9)
    told = leaves(sent(server)[0])
    assert (told["State"], told["SubStatus"]) == ("NotReady", "Provisioning")
    assert f"vm_id={ID}" in (told["Description"] or "")


@pytest.mark.parametrize("first", [answer(503), answer(400), reset, silence])
def test_in_progress_is_one_try(first: Answer) -> None:
    with Server(first, answer(200)) as server, pytest.raises(VerdictUndelivered):
        send_in_progress_xml(
            config(server.url, read_timeout_secs=0.2), ID, fetch=Platform(server.url), clock=Ticking(), deadline=1e9
        )
    assert len(server.requests) == 1


def test_the_fingerprint_is_sent_without_its_colon() -> None:
    with Server(answer(202)) as server:
        fetch = Platform(server.url)
        send_fingerprint(config(server.url), "SHA256:ab/c+d", fetch=fetch, clock=Ticking(), deadline=1e9)
    assert server.requests[0].startswith(b"POST /machine?comp=roleProperties HTTP/1.1\r\n")
    tree = sent(server)[0]
    told = "Container/RoleInstances/RoleInstance/"
    assert tree.findtext("Container/ContainerId") == "container-1"
    assert tree.findtext(told + "Id") == "_<web> & co"
    properties = [node.attrib for node in tree.findall(told + "Properties/Property")]
    assert properties == [{"name": "CertificateThumbprint", "value": "SHA256ab/c+d"}]


def test_a_fingerprint_that_is_refused_is_no_undelivered_verdict() -> None:
    with Server(answer(404)) as server, pytest.raises(HttpFailed, match="status 404"):
        send_fingerprint(config(server.url), "SHA256:x", fetch=Platform(server.url), clock=Ticking(), deadline=1e9)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_sent_again(status: int) -> None:
    clock = Ticking()
    with Server(answer(status), answer(201)) as server:
        send_ready_xml(config(server.url), fetch=Platform(server.url), clock=clock, deadline=1e9)
    assert len(server.requests) == 2
    assert 1.5 <= clock.slept[0] <= 2.0


@pytest.mark.parametrize("status", [400, 410])
def test_a_stale_goal_state_is_asked_for_again(status: int) -> None:
    with Server(answer(status), answer(status), answer(201)) as server:
        fetch = Platform(server.url)
        send_ready_xml(config(server.url), fetch=fetch, clock=Ticking(), deadline=1e9)
    containers = [leaves(tree)["ContainerId"] for tree in sent(server)]
    assert containers == ["container-1", "container-2", "container-3"]


def test_a_report_that_is_never_taken_is_given_up() -> None:
    clock = Ticking()
    with Server(answer(400)) as server, pytest.raises(VerdictUndelivered, match="status 400") as caught:
        send_ready_xml(config(server.url), fetch=Platform(server.url), clock=clock, deadline=1e9)
    assert len(server.requests) == 4
    assert caught.value.exit_code == 75
    assert caught.value.data["endpoint"] == server.url + "/machine?comp=health"


def test_the_wait_between_two_tries_does_not_grow_without_bound() -> None:
    clock = Ticking()
    with Server(answer(503)) as server, pytest.raises(VerdictUndelivered):
        send_ready_xml(config(server.url), fetch=Platform(server.url), clock=clock, deadline=1300.0)
    assert max(clock.slept) <= 10.0
    assert 1280.0 < clock.at <= 1300.0


def test_a_goal_state_that_does_not_come_is_an_undelivered_verdict() -> None:
    def fetch(deadline: float) -> GoalState:
        raise SourceError("no goal state", endpoint="http://w")

    with pytest.raises(VerdictUndelivered, match="no goal state"):
        send_ready_xml(Config(), fetch=fetch, clock=Ticking(), deadline=1e9)


@pytest.mark.parametrize("text", ["&" * 5000, "<" * 1100, "é" * 3000, "\U0001f600" * 2000, "x" * 4097, '"\r' * 600])
def test_a_description_is_cut_by_the_bytes_that_are_sent(text: str) -> None:
    with Server(answer(200)) as server:
        send_failure_xml(config(server.url), text, fetch=Platform(server.url), clock=Ticking(), deadline=1e9)
    body = server.requests[0].partition(b"\r\n\r\n")[2]
    wire = body.partition(b"<Description>")[2].partition(b"</Description>")[0]
    assert 4096 - 12 <= len(wire) <= 4096
    told = leaves(ElementTree.fromstring(body))["Description"] or ""
    assert told.endswith("...") and text.startswith(told[:-3])


@given(st.text(max_size=300), st.integers(min_value=3, max_value=200))
def test_whatever_is_escaped_can_be_parsed_and_keeps_its_limit(text: str, limit: int) -> None:
    cut = escaped(text, limit=limit)
    assert len(cut.encode()) <= limit
    assert ElementTree.fromstring(f'<a b="{cut}">{cut}</a>').text == (_parsed(cut) or None)
    if len(escaped(text).encode()) <= limit:
        assert cut == escaped(text)


def _parsed(text: str) -> str:
    for mark, entity in (("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\r", "&#13;"), ("&", "&amp;")):
        text = text.replace(entity, mark)
    return text


@given(st.text(st.characters(), max_size=2000))
def test_a_report_that_fits_is_never_cut(text: str) -> None:
    if size_on_the_wire(text) <= MAX_DESCRIPTION:
        assert escaped(text, limit=MAX_DESCRIPTION) == escaped(text)


def test_text_that_xml_cannot_hold_still_leaves_the_machine() -> None:
    with Server(answer(200)) as server:
        fetch = Platform(server.url)
        send_failure_xml(config(server.url), "a\0b\x1bc\udcffd\ufffee", fetch=fetch, clock=Ticking(), deadline=1e9)
    assert leaves(sent(server)[0])["Description"] == "a?b?c?d?e"


# ---- which of the two


def verdict(protocol: str, *answers: Answer, failure: str | None = None, **options: Any) -> tuple[list[bytes], Ticking]:
    clock = Ticking()
    with Server(*answers) as server:
        arguments = {"clock": clock, "deadline": options.pop("deadline", 1e9)}
        send_verdict(config(server.url, **options), failure, protocol=protocol, fetch=Platform(server.url), **arguments)
    return lines(server), clock


@pytest.mark.parametrize("failure", [None, "result=error"])
@pytest.mark.parametrize(("protocol", "line"), [("json", JSON), ("auto", JSON), ("xml", XML)])
def test_a_verdict_that_is_taken_is_told_once(protocol: str, line: bytes, failure: str | None) -> None:
    assert verdict(protocol, answer(201), failure=failure)[0] == [line]


@pytest.mark.parametrize("failure", [None, "result=error"])
@pytest.mark.parametrize("status", [400, 404, 405, 501])
def test_auto_turns_to_xml_when_json_was_refused_three_times(status: int, failure: str | None) -> None:
    asked, clock = verdict("auto", answer(status), answer(status), answer(status), answer(201), failure=failure)
    assert asked == [JSON, JSON, JSON, XML]
    assert sum(clock.slept) <= 4.0


def test_a_json_endpoint_that_comes_to_its_senses_is_kept() -> None:
    assert verdict("auto", answer(404), answer(501), answer(201))[0] == [JSON, JSON, JSON]


def test_a_busy_json_endpoint_is_not_left() -> None:
    assert verdict("auto", *[answer(503)] * 5, answer(201))[0] == [JSON] * 6
    assert verdict("auto", answer(404), answer(503), answer(404), answer(404), answer(201))[0] == [JSON] * 4 + [XML]


@pytest.mark.parametrize("status", [401, 403, 410])
def test_a_refusal_of_another_kind_is_undelivered_at_once(status: int) -> None:
    with Server(answer(status)) as server, pytest.raises(VerdictUndelivered, match=f"status {status}"):
        send_verdict(
            config(server.url), None, protocol="auto", fetch=Platform(server.url), clock=Ticking(), deadline=1e9
        )
    assert lines(server) == [JSON]


@pytest.mark.parametrize("status", [400, 404, 405])
def test_json_alone_never_turns_to_xml(status: int) -> None:
    with Server(answer(status)) as server, pytest.raises(VerdictUndelivered):
        send_verdict(
            config(server.url), None, protocol="json", fetch=Platform(server.url), clock=Ticking(), deadline=1e9
        )
    assert lines(server) == [JSON]


def test_both_endpoints_share_one_deadline() -> None:
    clock = Ticking()
    with Server(answer(404), answer(404), answer(404), answer(503)) as server:
        fetch = Platform(server.url)
        with pytest.raises(VerdictUndelivered, match=r"status 404.* and then .*status 503") as caught:
            send_verdict(config(server.url), None, protocol="auto", fetch=fetch, clock=clock, deadline=1060.0)
    assert 1045.0 < clock.at <= 1060.0
    assert fetch.asked == [1060.0]
    assert caught.value.exit_code == 75


def test_where_time_is_short_the_other_endpoint_gets_it() -> None:
    assert verdict("auto", answer(404), answer(201), deadline=1001.0)[0] == [JSON, XML]


def test_the_endpoint_s_own_budget_holds_for_both() -> None:
    clock = Ticking()
    with Server(answer(404), answer(404), answer(404), answer(503)) as server, pytest.raises(VerdictUndelivered):
        settings = config(server.url, total_retry_timeout_secs=30.0)
        send_verdict(settings, None, protocol="auto", fetch=Platform(server.url), clock=clock, deadline=1e9)
    assert clock.at <= 1030.0


@pytest.mark.parametrize(("protocol", "expected"), [("json", [JSON]), ("auto", [JSON, XML]), ("xml", [XML])])
def test_progress_is_tried_once_at_each(protocol: str, expected: list[bytes]) -> None:
    clock = Ticking()
    with Server(answer(404)) as server, pytest.raises(VerdictUndelivered):
        send_progress(config(server.url), ID, protocol=protocol, fetch=Platform(server.url), clock=clock, deadline=1e9)
    assert lines(server) == expected
    assert clock.slept == []
