"""The telemetry of a whole run: the key-value pool, the log and the trace."""

from __future__ import annotations

import fcntl
import json

from azureinit.kvp.diagnostics import Diagnostic
from azureinit.kvp.entries import parse_entries
from azureinit.kvp.records import parse_records
from azureinit.kvp.report import REPORT_KEY, Report, parse_report
from fakeazure import Expect, Imds, Media, Vm
from fakeazure.platform.events import Kvp, Told
from support.bench import Bench, Benches
from support.need import need_root

FAILURE = Expect(verdict="failure")
STEPS = {"metadata", "hostname", "user azureuser", "report Ready"}


def pairs(one: Bench) -> list[tuple[str, str]]:
    return parse_records((one.tree / "var/lib/hyperv/.kvp_pool_1").read_bytes())


def report(one: Bench) -> Report:
    (text,) = [value for key, value in pairs(one) if key == REPORT_KEY]
    return parse_report(text)


def diagnostics(one: Bench) -> list[Diagnostic]:
    return [entry for entry in parse_entries(pairs(one)) if isinstance(entry, Diagnostic)]


def test_the_host_reads_the_report_and_every_step_before_ready(bench: Benches) -> None:
    one = bench(kvp=True)
    assert one.agent().status == 0
    told = report(one)
    assert (told.result, told.vm_id, told.pps_type) == ("success", one.fabric.vm.id, "None")
    steps = [entry for entry in diagnostics(one) if entry.kind == "finish"]
    assert {entry.name for entry in steps} >= STEPS
    assert all(entry.vm_id == one.fabric.vm.id and entry.result == "success" for entry in steps)
    starts = {entry.event_id: entry.name for entry in diagnostics(one) if entry.kind == "start"}
    assert starts == {entry.event_id: entry.name for entry in steps}
    assert len(pairs(one)) <= 200
    requests = [entry for entry in diagnostics(one) if entry.name == "http"]
    assert requests and all(entry.duration is not None and entry.result == "success" for entry in requests)
    read = [event for event in one.fabric.ledger.events if isinstance(event, Kvp)]
    assert REPORT_KEY in {event.key for event in read}, "it was there when the verdict came"
    assert one.fabric.judge().ok


def test_a_failure_is_in_the_pool_before_the_platform_hears_of_it(bench: Benches) -> None:
    one = bench(kvp=True, vm=Vm(username="root"), expect=FAILURE)
    assert one.agent().status == 1
    told = report(one)
    assert (told.result, told.reason, told.vm_id) == ("error", "invalid username", one.fabric.vm.id)
    assert told.documentation_url == "https://aka.ms/linuxprovisioningerror"
    assert any(entry.name == "provision" and "invalid username" in str(entry.payload) for entry in diagnostics(one))
    events = [event for event in one.fabric.ledger.events if isinstance(event, (Kvp, Told))]
    assert REPORT_KEY in {event.key for event in events if isinstance(event, Kvp)}
    assert one.fabric.judge().ok


def test_a_configuration_that_cannot_be_used_is_in_the_pool_too(bench: Benches) -> None:
    one = bench(kvp=True, expect=Expect(verdict="failure", reason="invalid configuration"))
    one.config.write_text(one.config.read_text() + "[ssh]\nquery_sshd_config = 7\n")
    assert one.agent().status == 78
    assert (report(one).result, report(one).reason) == ("error", "invalid configuration")
    assert one.fabric.judge().ok


def test_a_second_verdict_replaces_the_first_ones_report(bench: Benches) -> None:
    one = bench(kvp=True, vm=Vm(password="correct horse", keys=()), media=Media(enable=False), expect=FAILURE)
    assert one.agent().status == 1
    assert report(one).result == "error"
    one.fabric.media = Media()
    one.fabric.reboot(expect=Expect(verdict="ready"))
    one.fabric.write_media(one.directory / "late.iso")
    one.configure(provisioning_media={"path": str(one.directory / "late.iso")})
    assert one.agent().status == 0
    assert report(one).result == "success"


def test_no_filter_suppresses_the_report(bench: Benches) -> None:
    one = bench(kvp=True)
    one.configure(telemetry={"kvp_filter": "off"})
    assert one.agent().status == 0
    assert [key for key, _value in pairs(one)] == [REPORT_KEY]


def test_without_diagnostics_the_pool_stays_as_it_is(bench: Benches) -> None:
    one = bench(kvp=True)
    one.configure(telemetry={"kvp_diagnostics": False})
    assert one.agent().status == 0
    assert list((one.tree / "var/lib/hyperv").iterdir()) == []


def test_a_pool_that_somebody_holds_is_no_reason_not_to_provision(bench: Benches) -> None:
    one = bench(kvp=True)
    pool = one.tree / "var/lib/hyperv/.kvp_pool_1"
    with pool.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert one.agent().status == 0
    assert pool.stat().st_size == 0
    assert one.fabric.judge().ok
    assert "has held it" in one.read("var/log/azure-init.log")


def test_a_pool_on_a_full_disk_is_no_reason_not_to_provision(bench: Benches) -> None:
    need_root()
    one = bench(kvp=True)
    pools = one.tree / "var/lib/hyperv"
    assert one.agent(inside=f"mount -t tmpfs -o size=4k,mode=700 none {pools}").status == 0
    assert one.fabric.judge().state == "ready"
    assert "no space left" in one.read("var/log/azure-init.log").lower()


def test_a_torn_pool_is_left_alone(bench: Benches) -> None:
    one = bench(kvp=True)
    pool = one.tree / "var/lib/hyperv/.kvp_pool_1"
    pool.write_bytes(b"torn" * 100)
    assert one.agent().status == 0
    assert pool.read_bytes() == b"torn" * 100
    assert one.fabric.judge().state == "ready"


def test_an_unreachable_service_is_told_with_the_network_as_it_is(bench: Benches) -> None:
    one = bench(kvp=True, imds=Imds(enable=False), media=Media(enable=False), expect=FAILURE)
    one.configure(imds={"total_retry_timeout_secs": 0.3})
    assert one.agent().status == 1
    (seen,) = [entry for entry in diagnostics(one) if entry.name == "network"]
    assert "lo" in str(seen.payload) and "link lo: up" in str(seen.payload)
    assert "network:" in one.read("var/log/azure-init.log")


def test_the_trace_has_every_event_of_the_run(bench: Benches) -> None:
    one = bench()
    assert one.agent().status == 0
    file = one.data / "trace.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    ends = {line["name"]: line for line in lines if line["kind"] == "finish"}
    assert ends.keys() >= STEPS
    for end in ends.values():
        (start,) = [line for line in lines if (line["kind"], line.get("id")) == ("start", end["id"])]
        assert start["at"] <= end["at"] and end["seconds"] >= 0 and not end["failed"]
    assert len({line["run"] for line in lines}) == 1
    assert any(line.get("about", {}).get("vm_id") == one.fabric.vm.id for line in lines)
