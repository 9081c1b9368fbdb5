"""IMDS and the provisioning media together, over real sockets."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import AzureProxyAgent, Config, Imds as ImdsConfig, ProvisioningMedia, Sources
from azureinit.errors import (
    MediaAbsent,
    MediaRefused,
    OvfInvalid,
    ProxyAgentFailed,
    ProxyAgentMissing,
)
from azureinit.machine import Clock, Machine
from azureinit.record import Secret, replace
from azureinit.sources.gather import Gathered, ask_sources
from azureinit.sources.imds import PublicKey
from support.gathering import KEY, OVF, unheard
from support.wire import Server, answer, unused_url

DOCUMENT = {
    "compute": {
        "osProfile": {"adminUsername": "azureuser", "computerName": "web-1", "disablePasswordAuthentication": "false"},
        "publicKeys": [{"keyData": KEY.data, "path": ""}],
    }
}
GOOD = answer(body=json.dumps(DOCUMENT).encode())


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
