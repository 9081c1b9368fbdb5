"""Fault scripts: each answer as a client sees it, and the end of a script."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from fakeazure import Fabric, Imds, Wireserver
from fakeazure.platform.faults import BadFault, Pace, parse_answer, parse_answers, parse_script

INSTANCE = "/metadata/instance"
HEALTH = "/provisioning/health"


def scripted(*answers: Any, path: str = INSTANCE) -> Fabric:
    return Fabric(faults=[{"path": path, "answers": list(answers)}])


def ask(fabric: Fabric, *, timeout: float = 10) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(urlsplit(fabric.imds).netloc, timeout=timeout)
    try:
        connection.request("GET", INSTANCE + "?api-version=2023-11-15", headers={"Metadata": "true"})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def tell(fabric: Fabric) -> int:
    connection = http.client.HTTPConnection(urlsplit(fabric.wireserver).netloc, timeout=10)
    try:
        connection.request("POST", HEALTH, body=b'{"state":"Ready"}')
        return connection.getresponse().status
    finally:
        connection.close()


def test_answers_are_used_up_one_a_request_in_their_order() -> None:
    with scripted(503, 404, "ok*") as fabric:
        assert [ask(fabric)[0] for _ in range(5)] == [503, 404, 200, 200, 200]
        assert [request.fault for request in fabric.ledger.requests] == ["503", "404", "ok*", "ok*", "ok*"]


def test_a_status_may_go_on_for_ever() -> None:
    with scripted("502*") as fabric:
        assert {ask(fabric)[0] for _ in range(10)} == {502}
        assert not any(request.off_script for request in fabric.ledger.requests)


def test_running_off_the_end_is_an_error_and_never_begins_anew() -> None:
    with scripted(503, "ok") as fabric:
        assert [ask(fabric)[0] for _ in range(4)] == [503, 200, 409, 409]
        assert [request.off_script for request in fabric.ledger.requests] == [False, False, True, True]
        tell(fabric)
        judgement = fabric.judge()
    assert judgement.state == "off-script" and not judgement.ok
    assert judgement.complaints == ("/metadata/instance was requested 2 more times than its script has answers",)


def test_other_paths_are_not_touched() -> None:
    with scripted(503) as fabric:
        assert tell(fabric) == 201
        assert fabric.ledger.requests[0].fault is None


def test_a_status_may_carry_retry_after_and_a_body() -> None:
    with scripted({"status": 429, "retry_after": 7}, {"body": "{}", "content_type": "text/plain"}) as fabric:
        status, headers, _ = ask(fabric)
        assert (status, headers["Retry-After"]) == (429, "7")
        status, headers, body = ask(fabric)
        assert (status, headers["Content-Type"], body) == (200, "text/plain", b"{}")


@pytest.mark.parametrize("answer", ["reset", "lost"])
def test_a_reset_is_a_reset(answer: str) -> None:
    with scripted(answer, "ok") as fabric:
        with pytest.raises(ConnectionResetError):
            ask(fabric)
        assert fabric.ledger.requests[0].status is None
        assert ask(fabric)[0] == 200


def test_truncation_breaks_its_promise() -> None:
    with scripted("truncate 200", "truncate 1MiB") as fabric:
        for count in (200, None):
            with pytest.raises(http.client.IncompleteRead) as caught:
                ask(fabric)
            assert caught.value.expected and caught.value.expected > 0
            assert count is None or len(caught.value.partial) == count
            assert count is not None or caught.value.expected == 1


@pytest.mark.parametrize("answer", ["stall 200", "stall 0", "trickle 2"])
def test_an_answer_that_does_not_end_leaves_the_connection_open(answer: str) -> None:
    with scripted(answer, "ok") as fabric:
        with pytest.raises(TimeoutError):
            ask(fabric, timeout=0.2)
        assert [request.status for request in fabric.ledger.requests] == [200]
        assert ask(fabric)[0] == 200
    assert parse_answer(answer).processed and not parse_answer(answer).acknowledged


def test_a_trickle_ends_with_the_whole_answer() -> None:
    with scripted("trickle 1MiB") as fabric:
        assert json.loads(ask(fabric)[2])["compute"]


def test_garbage_and_html_come_with_a_200() -> None:
    with scripted("garbage", "html") as fabric:
        status, headers, body = ask(fabric)
        assert status == 200 and headers["Content-Type"].startswith("application/json")
        with pytest.raises(ValueError, match="decode"):
            json.loads(body)
        status, headers, body = ask(fabric)
        assert status == 200 and headers["Content-Type"] == "text/html" and body.startswith(b"<!DOCTYPE html")


def test_an_oversized_answer_is_the_right_one_with_a_tail() -> None:
    with scripted("oversized 2MiB") as fabric:
        _, _, body = ask(fabric)
        assert len(body) == 2 * 2**20
        assert json.loads(body)["compute"]


def test_a_slow_answer_is_the_right_one() -> None:
    with scripted("slow 20ms") as fabric:
        assert ask(fabric)[0] == 200
        assert fabric.ledger.requests[0].took >= 0.02


@pytest.mark.parametrize("answer", ["hang", "slow 60s"])
def test_who_does_not_wait_is_noted(answer: str) -> None:
    with scripted(answer, "ok") as fabric:
        with pytest.raises(TimeoutError):
            ask(fabric, timeout=0.05)
        assert fabric.ledger.wait(lambda ledger: len(ledger.requests) == 1, timeout=10)
        request = fabric.ledger.requests[0]
        assert (request.status, request.note) == (None, "the client left first")
        assert ask(fabric)[0] == 200


@pytest.mark.parametrize(
    ("answer", "heard", "acknowledged"),
    [
        ("ok", True, True), ("slow 1ms", True, True), (200, True, True), ("oversized 10", True, True),
        ("lost", True, False), ("truncate 0", True, False),
        (503, False, None), ("reset", False, None), ("html", False, None), ("garbage", False, None),
    ],
)  # fmt: skip
def test_a_verdict_counts_where_the_platform_heard_it(answer: Any, heard: bool, acknowledged: bool | None) -> None:
    with scripted(answer, path=HEALTH) as fabric:
        try:
            tell(fabric)
        except (ConnectionError, http.client.HTTPException):
            pass
        verdicts = fabric.ledger.verdicts
        assert len(verdicts) == heard
        assert [verdict.acknowledged for verdict in verdicts] == ([acknowledged] if heard else [])


def test_a_verdict_said_again_because_its_answer_was_lost_is_no_lie() -> None:
    with scripted("lost", "ok", path=HEALTH) as fabric:
        with pytest.raises(ConnectionResetError):
            tell(fabric)
        assert tell(fabric) == 201
        assert fabric.judge().ok


def test_scripts_of_one_fabric_do_not_run_on_in_another() -> None:
    script = parse_script({"path": INSTANCE, "answers": [503, "ok*"]})
    for _ in range(2):
        with Fabric(faults=[script]) as fabric:
            assert ask(fabric)[0] == 503


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (True, "True is not an answer"),
        (99, "99 is not an HTTP status"),
        ("700", "700 is not an HTTP status"),
        (1.5, "1.5 is not an answer"),
        ("slow", "'slow' is not an answer"),
        ("slow soon", "'slow soon' is not an answer"),
        ("truncate 5 apples", "is not an answer"),
        ("truncate 5x", "is not an answer"),
        ("maybe", "'maybe' is not an answer"),
        ("", "'' is not an answer"),
        ({"status": "many"}, "status 'many' is not a number"),
        ({"state": 200}, "an answer has no state"),
        ([], "[] is not an answer"),
    ],
)
def test_what_is_no_answer_is_refused(answer: Any, says: str) -> None:
    with pytest.raises(BadFault) as caught:
        parse_answer(answer)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("answers", "says"), [([], "list of answers is empty"), (["ok*", 503], "nothing can follow it")]
)
def test_scripts_that_cannot_be_meant_are_refused(answers: list[Any], says: str) -> None:
    with pytest.raises(BadFault, match=says):
        parse_answers(answers)


def test_a_service_that_restarts_resets_every_connection_for_a_while() -> None:
    with scripted("restart 3s", 503, "ok*") as fabric:
        for _ in range(3):
            with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
                ask(fabric)
        assert tell(fabric) == 201, "another service goes on"
        again = fabric.ledger.requests[0].t + 3.1
        while fabric.ledger.now() < again:
            time.sleep(0.1)
        assert [ask(fabric)[0] for _ in range(2)] == [503, 200], "a restart uses up no other answer"
        faults = [request.fault for request in fabric.ledger.requests if request.service == "imds"]
    assert faults == ["restart 3s", "restarting", "restarting", "503", "ok*"]


def test_a_restarting_wireserver_hears_nothing() -> None:
    with scripted("restart 60s", "ok*", path=HEALTH) as fabric:
        for _ in range(2):
            with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
                tell(fabric)
        assert fabric.ledger.told == ()


def test_latency_is_before_every_answer_of_a_service_and_no_other() -> None:
    with Fabric(imds=Imds(latency_secs=1.0)) as fabric:
        assert [ask(fabric)[0] for _ in range(2)] == [200, 200] and tell(fabric) == 201
        took: dict[str, list[float]] = {service: [] for service in ("imds", "wireserver")}
        for request in fabric.ledger.requests:
            took[request.service].append(request.took)
    assert min(took["imds"]) >= 1.0 > max(took["wireserver"])


def test_latency_adds_to_what_is_slow_anyway() -> None:
    pace = Pace(latency_secs=0.5)
    assert pace.pause(None) == pace.pause(parse_answer("ok")) == 0.5
    assert pace.pause(parse_answer("slow 3s")) == 3.5
    assert pace.pause(parse_answer("hang")) is None
    assert Pace().pause(parse_answer(503)) == 0


def test_who_does_not_wait_for_a_late_answer_was_not_heard() -> None:
    with Fabric(wireserver=Wireserver(latency_secs=60)) as fabric:
        connection = http.client.HTTPConnection(urlsplit(fabric.wireserver).netloc, timeout=0.2)
        connection.request("POST", HEALTH, body=b'{"state":"Ready"}')
        with pytest.raises(TimeoutError):
            connection.getresponse()
        connection.close()
        assert fabric.ledger.wait(lambda ledger: bool(ledger.requests), timeout=10)
        (request,) = fabric.ledger.requests
        assert (request.status, request.note) == (None, "the client left first") and fabric.ledger.told == ()


def test_a_narrow_line_takes_its_time_and_loses_nothing() -> None:
    with Fabric() as fabric:
        whole = ask(fabric)[2]
    with Fabric(vm=fabric.vm, imds=Imds(bytes_per_sec=20_000)) as slow:
        started = slow.ledger.now()
        assert ask(slow)[2] == whole
        assert slow.ledger.now() - started >= len(whole) / 20_000 * 0.9


@pytest.mark.parametrize(("data", "speed"), [(b"", 0), (b"", 5), (b"abc", 0), (b"abc" * 50, 7), (b"abc", 1_000_000)])
def test_the_parts_of_an_answer_are_all_of_it(data: bytes, speed: int) -> None:
    parts = list(Pace(bytes_per_sec=speed).parts(data))
    assert b"".join(part for part, _ in parts) == data
    assert sum(takes for _, takes in parts) == pytest.approx(len(data) / speed if speed else 0)
