"""The wireserver in a whole run: goal state, certificates, verdicts in XML, role properties."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from azureinit.config.model import Config, Wireserver as Settings
from azureinit.errors import SourceError, VerdictUndelivered
from azureinit.machine import Machine
from azureinit.report.goalstate import send_fingerprint, send_ready_xml
from azureinit.report.protocol import send_progress, send_verdict
from azureinit.report.verdict import MAX_DESCRIPTION
from azureinit.sources.certificates import Certificates, read_certificates
from azureinit.sources.goalstate import GoalState, read_goal_state, wireserver
from azureinit.telemetry.console import fingerprint
from fakeazure import Expect, Fabric, Imds, Media, Vm, Wireserver
from fakeazure.platform.certificates import certificate_file
from fakeazure.platform.media import ovf_env
from fakeazure.platform.vm import PUBLIC_KEY
from support.bench import Benches
from support.need import need

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBVcyGJ0jWMBfOxdwqGI5A3lOrGhMuPc83Nv2d3cH4jS root@web"
HEALTH = "/machine?comp=health"


class Agent:
    """What the agent has at hand: this computer, its configuration, and little patience."""

    def __init__(self, fabric: Fabric, directory: Path, *, secs: float = 10.0) -> None:
        (directory / "root").mkdir(parents=True)
        self.fabric = fabric
        self.machine = Machine(root=str(directory / "root"))
        self.clock = self.machine.clock
        self.config = Config(
            wireserver=Settings(
                health_endpoint=fabric.wireserver + "/provisioning/health",
                retry_interval_secs=0.05,
                read_timeout_secs=1.0,
                total_retry_timeout_secs=secs,
            )
        )

    def goal_state(self, deadline: float | None = None) -> GoalState:
        until = self.clock.monotonic() + 10 if deadline is None else deadline
        return read_goal_state(self.config, endpoint=wireserver(self.config), clock=self.clock, deadline=until)

    def certificates(self, *, secs: float = 30.0) -> Certificates:
        deadline = self.clock.monotonic() + secs
        return read_certificates(self.machine, self.config, self.goal_state(), deadline=deadline)

    def tell(self, send: Callable[..., None], *words: Any, **options: Any) -> None:
        until = self.clock.monotonic() + 10
        send(self.config, *words, fetch=self.goal_state, clock=self.clock, deadline=until, **options)

    def asked(self) -> list[tuple[str, int | None]]:
        return [(request.target.partition("&")[0], request.status) for request in self.fabric.ledger.requests]


def faults(path: str, *answers: Any) -> list[dict[str, Any]]:
    return [{"path": path, "answers": list(answers)}]


def test_the_whole_conversation_of_a_fabric_without_json(tmp_path: Path) -> None:
    with Fabric(vm=Vm(name='two "words" & <more>')) as fabric:
        agent = Agent(fabric, tmp_path)
        agent.tell(send_progress, "an-id", protocol="xml")
        agent.tell(send_verdict, None, protocol="xml")
        before = [("/?comp=versions", 200), ("/machine/?comp=goalstate", 200)]
        assert agent.asked() == [*before, (HEALTH, 201), *before, (HEALTH, 201)]
        assert [told.kind for told in fabric.ledger.told] == ["progress", "ready"]
        assert "vm_id=an-id" in fabric.ledger.told[0].description
        assert fabric.judge().ok


@pytest.mark.parametrize("report", ["result=error|reason=a < b & c|error=\u00e9", "&" * 5000])
def test_a_failure_is_heard_whatever_it_says(report: str, tmp_path: Path) -> None:
    with Fabric() as fabric:
        Agent(fabric, tmp_path).tell(send_verdict, report, protocol="xml")
        [told] = fabric.ledger.told
    assert told.kind == "failed"
    assert told.description == report if len(report) < MAX_DESCRIPTION else told.description.endswith("...")


@pytest.mark.parametrize("refusal", [400, 404, 405, 501])
def test_auto_finds_the_endpoint_there_is(refusal: int, tmp_path: Path) -> None:
    with Fabric(faults=faults("/provisioning/health", *[refusal] * 3)) as fabric:
        agent = Agent(fabric, tmp_path)
        agent.tell(send_verdict, None, protocol="auto")
        assert [path for path, _ in agent.asked()] == [
            *["/provisioning/health"] * 3,
            "/?comp=versions",
            "/machine/?comp=goalstate",
            HEALTH,
        ]
        assert fabric.judge().ok


def test_auto_is_quick_where_json_is_there(tmp_path: Path) -> None:
    with Fabric() as fabric:
        agent = Agent(fabric, tmp_path)
        agent.tell(send_progress, "an-id", protocol="auto")
        agent.tell(send_verdict, None, protocol="auto")
        assert agent.asked() == [("/provisioning/health", 201)] * 2


def test_a_platform_that_takes_neither_is_an_undelivered_verdict(tmp_path: Path) -> None:
    both = [*faults("/provisioning/health", "404*"), *faults(HEALTH, "503*")]
    with Fabric(faults=both) as fabric:
        agent = Agent(fabric, tmp_path, secs=2.0)
        with pytest.raises(VerdictUndelivered, match=r"status 404.* and then .*status 503"):
            agent.tell(send_verdict, None, protocol="auto")
        assert fabric.ledger.told == ()


@pytest.mark.parametrize("answers", [(503, 410, "ok*"), ("garbage", "html", "truncate 200", "ok*"), ("reset", "ok*")])
def test_a_goal_state_that_comes_late_or_torn_is_waited_for(answers: tuple[Any, ...], tmp_path: Path) -> None:
    with Fabric(faults=faults("/machine?comp=goalstate", *answers)) as fabric:
        agent = Agent(fabric, tmp_path)
        agent.tell(send_ready_xml)
        assert len(agent.asked()) == 1 + len(answers) + 1
        assert fabric.judge().ok


def test_a_platform_that_is_not_ready_yet_is_waited_for(tmp_path: Path) -> None:
    with Fabric(wireserver=Wireserver(goal_state_after_secs=0.4)) as fabric:
        agent = Agent(fabric, tmp_path)
        agent.tell(send_ready_xml)
        assert ("/machine/?comp=goalstate", 503) in agent.asked()
        assert fabric.judge().ok


def test_a_goal_state_that_never_comes_is_told(tmp_path: Path) -> None:
    with Fabric(faults=faults("/machine?comp=goalstate", "503*")) as fabric:
        agent = Agent(fabric, tmp_path, secs=1.0)
        with pytest.raises(SourceError, match=r"sent no goal state: .*status 503"):
            agent.goal_state()


def test_a_verdict_for_the_container_of_before_is_told_again_for_the_one_of_now(tmp_path: Path) -> None:
    with Fabric() as fabric:
        agent = Agent(fabric, tmp_path)
        given = []

        def fetch(deadline: float) -> GoalState:
            state = agent.goal_state(deadline)
            given.append(state)
            if len(given) > 1:
                return state
            return GoalState(**{**state.as_dict(), "container_id": "00000000-0000-0000-0000-000000000000"})

        send_ready_xml(agent.config, fetch=fetch, clock=agent.clock, deadline=agent.clock.monotonic() + 10)
        assert [status for path, status in agent.asked() if path == HEALTH] == [400, 201]
        assert fabric.judge().ok


def test_the_host_key_s_fingerprint_reaches_the_platform(tmp_path: Path) -> None:
    told = fingerprint(KEY)
    assert told is not None
    with Fabric() as fabric:
        agent = Agent(fabric, tmp_path)
        agent.tell(send_fingerprint, told.split()[1])
        request = fabric.ledger.requests[-1]
        goal = agent.goal_state()
    assert (request.target, request.status) == ("/machine?comp=roleProperties", 202)
    tree = ElementTree.fromstring(request.body)
    assert tree.findtext("Container/ContainerId") == goal.container_id
    values = {node.get("name"): node.get("value") for node in tree.iter("Property")}
    assert values == {"CertificateThumbprint": told.split()[1].replace(":", "")}


@pytest.mark.parametrize(
    ("answers", "ciphers"), [(["ok*"], ["AES128_CBC"]), ([400, "ok*"], ["AES128_CBC", "DES_EDE3_CBC"])]
)
def test_certificates_come_with_either_cipher(answers: list[Any], ciphers: list[str], tmp_path: Path) -> None:
    need("openssl")
    with Fabric(faults=faults("/machine?comp=certificates", *answers)) as fabric:
        certificates = Agent(fabric, tmp_path).certificates()
        asked = [request for request in fabric.ledger.requests if "comp=certificates" in request.target]
    assert [request.headers["x-ms-cipher-name"] for request in asked] == ciphers
    [one] = certificates.found
    assert one.private_key is not None and (one.public_key or "").startswith("ssh-rsa ")
    assert certificates.get(one.thumbprint.lower()) is one
    assert not (tmp_path / "root/run/azure-init").exists()


def test_an_envelope_for_someone_else_leaves_a_sentence(tmp_path: Path) -> None:
    need("openssl")
    with Fabric() as other:
        (tmp_path / "other").mkdir()
        agent = Agent(other, tmp_path / "other")
        agent.certificates()
        theirs = next(request for request in other.ledger.requests if "comp=certificates" in request.target)
    transport = theirs.headers["x-ms-guest-agent-public-x509-cert"]
    stolen = certificate_file(transport=transport, cipher="AES128_CBC", directory=None)
    always = {"status": 200, "body": stolen, "forever": True}
    with Fabric(faults=faults("/machine?comp=certificates", always)) as fabric:
        certificates = Agent(fabric, tmp_path).certificates()
    assert certificates.found == ()
    assert "cannot be decrypted here" in certificates.why


def test_torn_certificates_are_asked_for_again(tmp_path: Path) -> None:
    need("openssl")
    with Fabric(faults=faults("/machine?comp=certificates", "truncate 500", "garbage", "html", 503, "ok*")) as fabric:
        assert len(Agent(fabric, tmp_path).certificates().found) == 1


def test_certificates_of_a_goal_state_that_is_gone_are_asked_for_where_they_are_now(tmp_path: Path) -> None:
    need("openssl")
    with Fabric(faults=faults("/machine?comp=certificates", 410, "ok*")) as fabric:
        agent = Agent(fabric, tmp_path)
        assert len(agent.certificates().found) == 1
        assert [path for path, _ in agent.asked()].count("/machine/?comp=goalstate") == 2


def test_a_key_named_by_its_certificate_is_installed(bench: Benches) -> None:
    """The media say only a thumbprint, in small letters; the wireserver has the certificate."""
    need("openssl")
    one = bench(imds=Imds(enable=False))
    (certificate,) = Agent(one.fabric, one.directory / "asks").certificates().found
    medium = one.fabric.media_path
    assert medium is not None
    whole = ovf_env(one.fabric.vm, one.fabric.media).decode()
    named = re.sub(
        r"<Fingerprint>.*?</Fingerprint>",
        f"<Fingerprint>{certificate.thumbprint.lower()}</Fingerprint>",
        whole,
    )
    one.fabric.media = Media(ovf=re.sub(r"<Value>.*?</Value>", "", named))
    one.fabric.write_media(medium)
    assert one.agent().status == 0
    assert one.read("home/azureuser/.ssh/authorized_keys").split()[:2] == (certificate.public_key or "").split()[:2]
    assert one.fabric.judge().ok


def test_a_key_named_by_its_certificate_is_installed_beside_one_that_is_spelt_out(bench: Benches) -> None:
    need("openssl")
    one = bench(imds=Imds(enable=False))
    (certificate,) = Agent(one.fabric, one.directory / "asks").certificates().found
    medium = one.fabric.media_path
    assert medium is not None
    whole = ovf_env(one.fabric.vm, one.fabric.media).decode()
    path = "<Path>/home/azureuser/.ssh/authorized_keys</Path>"
    second = f"<PublicKey><Fingerprint>{certificate.thumbprint}</Fingerprint>{path}</PublicKey>"
    one.fabric.media = Media(ovf=whole.replace("</PublicKeys>", f"{second}</PublicKeys>"))
    one.fabric.write_media(medium)
    assert one.agent().status == 0
    lines = one.read("home/azureuser/.ssh/authorized_keys").splitlines()
    wanted = [PUBLIC_KEY, certificate.public_key or ""]
    assert [line.split()[:2] for line in lines] == [key.split()[:2] for key in wanted]


def test_a_certificate_that_is_not_there_is_a_failure_that_names_it(bench: Benches) -> None:
    need("openssl")
    one = bench(imds=Imds(enable=False), expect=Expect(verdict="failure", reason="failed to retrieve certificates"))
    medium = one.fabric.media_path
    assert medium is not None
    whole = ovf_env(one.fabric.vm, one.fabric.media).decode()
    one.fabric.media = Media(ovf=re.sub(r"<Value>.*?</Value>", "", whole))
    one.fabric.write_media(medium)
    assert one.agent().status == 1
    assert one.fabric.judge().ok
