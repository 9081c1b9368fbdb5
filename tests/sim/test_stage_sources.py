"""Which sources each stage asks, by the platform's ledger and by openings of the media: as its row in STAGES says."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from azureinit.run.stages import AWAITED, FAILURE, NOTHING, STAGES, VERDICT, Stage
from fakeazure import Expect, KeyPair, Vm
from support.bench import Bench, Benches
from support.need import need

IN_OPEN, IN_NONBLOCK = 0x20, 0o4000
# A key pair: the wireserver is a source too, since it has the certificates.
PAIRED = Vm(key_pairs=(KeyPair(path="/home/azureuser/.ssh/id_rsa"),))
CERTIFICATES = "comp=certificates"
REPORTS: dict[str, set[str]] = {VERDICT: {"ready"}, FAILURE: {"failed"}, NOTHING: set(), AWAITED: set()}


@contextmanager
def opened(path: Path) -> Iterator[list[str]]:
    """The file's name for each time that it is opened, filled in at the end."""
    libc = ctypes.CDLL(None, use_errno=True)
    found: list[str] = []
    watch: int = libc.inotify_init1(IN_NONBLOCK)
    assert watch >= 0 and libc.inotify_add_watch(watch, os.fsencode(path), IN_OPEN) > 0, ctypes.get_errno()
    try:
        yield found
        try:
            found.extend([path.name] * (len(os.read(watch, 1 << 16)) // 16))
        except BlockingIOError:
            pass  # it was not opened
    finally:
        os.close(watch)


def asked_by(one: Bench, stage: Stage) -> tuple[set[str], set[str]]:
    """The sources that the stage asks, and the verdicts that it reports."""
    before, told = len(one.fabric.ledger.requests), len(one.fabric.ledger.verdicts)
    media = one.fabric.media_path
    assert media is not None
    with opened(media) as openings:
        ran = one.agent(*(("--stage", stage.name) if stage.name != "provision" else ()))
    assert ran.status == 0, ran.err
    requests = one.fabric.ledger.requests[before:]
    sources = {"imds"} & {request.service for request in requests}
    sources |= {"wireserver" for request in requests if CERTIFICATES in request.target}
    sources |= {"media"} if openings else set()
    return sources, {verdict.kind for verdict in one.fabric.ledger.verdicts[told:]}


def prepare(bench: Benches, stage: Stage) -> Bench:
    if stage.name != "resend":
        return bench(vm=PAIRED, expect=Expect(verdict="none"))
    # The run before it could not deliver Ready: the endpoint for JSON refuses every report, the one for XML does not.
    refusing = [{"path": "/provisioning/health", "answers": ["503*"]}]
    one = bench(vm=PAIRED, expect=Expect(verdict="none"), faults=refusing)
    one.configure(report={"protocol": "json"})
    assert one.agent().status == 75
    one.configure(report={"protocol": "xml"})
    return one


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_asks_the_sources_of_its_row_and_reports_what_it_says(bench: Benches, stage: Stage) -> None:
    need("openssl")
    one = prepare(bench, stage)
    sources, verdicts = asked_by(one, stage)
    assert sources == set(stage.sources)
    assert verdicts == REPORTS[stage.tells]
