"""The service that follows the network, as a process: real netlink, a real systemd-networkd, and an IMDS beyond the
NIC, in namespaces.
"""

from __future__ import annotations

import pytest

from support.bounds import ALL
from support.network_lab import in_lab

pytestmark = pytest.mark.newer  # the DHCP server is fakeazure's

SETUP = """
import os, signal, subprocess, sys, time

A, B = "00:0d:3a:12:34:56", "00:0d:3a:12:34:57"
IMDS = '''
import http.server, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open("/run/asked", "a") as asked:
            asked.write(self.client_address[0] + " " + self.path + chr(10))
        body = pathlib.Path("/run/answer").read_bytes()
        self.send_response(200 if body else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(("169.254.169.254", 80), Handler)
print("serving", flush=True)
server.serve_forever()
'''
CONFIG = f'''
[platform]
require_azure = false
vm_id = "c0ffee00-1111-2222-3333-444444444444"
[network]
watch = true
watch_secs = 1
[azure_init_data_dir]
path = "/run/azure-init-data"
[azure_init_log_path]
path = "/run/azure-init.log"
[telemetry]
kvp_diagnostics = false
trace = false
'''

def say(*entries):
    Path("/run/answer.new").write_text(json.dumps({"interface": list(entries)}) if entries else "")
    os.rename("/run/answer.new", "/run/answer")

def asked():
    return len(Path("/run/asked").read_text().splitlines()) if Path("/run/asked").exists() else 0

def looks(lab, number):
    until = asked() + number
    lab.wait(lambda: asked() >= until)

def own(name="eth0"):
    rows = json.loads(shell(f"ip -j addr show {name}"))[0]["addr_info"]
    return sorted(row["local"] for row in rows if row["family"] == "inet" and row["prefixlen"] == 32)

def serve(lab):
    shell("ip -n far addr add 169.254.169.254/32 dev lo")
    words = ["ip", "netns", "exec", "far", sys.executable, "-c", IMDS]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "serving\\n"
    Path("/run/config.toml").write_text(CONFIG)

def follow():
    words = [sys.executable, "-m", "azureinit", "--config", "/run/config.toml", "--stage", "addresses"]
    with open("/run/follower.log", "a") as log:
        return subprocess.Popen(words, stdout=log, stderr=log)
"""


def test_addresses_come_within_a_look_and_go_after_two_and_a_kill_loses_nothing() -> None:
    added, kept, after, admins, killed, changed, ended, mtime, log, senders = in_lab(
        SETUP
        + """
lab = Lab(("eth0", A, "10.0.0.4", True))
lab.wait(lambda: shell("networkctl list").count("configured") >= 1)
serve(lab)
say(entry(A, "10.0.0.4"))
service = follow()
looks(lab, 2)
say(entry(A, "10.0.0.4", "10.0.0.5", "10.0.0.6"))
looks(lab, 2)  # one may have been on its way
lab.wait(lambda: own() == ["10.0.0.5", "10.0.0.6"])
added = own(), sorted(files_below("/etc/systemd/network"))
shell("ip addr add 10.0.0.9/32 dev eth0")
file = Path("/etc/systemd/network") / added[1][0]
before = file.stat().st_mtime_ns
looks(lab, 3)
mtime = file.stat().st_mtime_ns == before
for number in range(3):  # an answer that is alone removes nothing
    first = asked()
    say(entry(A, "10.0.0.4", "10.0.0.5"))
    lab.wait(lambda: asked() > first)
    say(entry(A, "10.0.0.4", "10.0.0.5", "10.0.0.6"))
    once = asked() - first == 1
    looks(lab, 1)
    if once:
        break
kept = own()
say(entry(A, "10.0.0.4", "10.0.0.5"))
lab.wait(lambda: "10.0.0.6" not in own())
after, admins = own(), "Address=10.0.0.9" in file.read_text()
service.kill()
service.wait()
say(entry(A, "10.0.0.4", "10.0.0.7"))  # while nothing follows
service = follow()
lab.wait(lambda: own() == ["10.0.0.7", "10.0.0.9"])
killed = file.read_text().count("\\nAddress=")
say()  # IMDS fails
looks(lab, 1)
service.send_signal(signal.SIGTERM)
ended = service.wait(10)
changed = own()
senders = sorted({line.split()[0] for line in Path("/run/asked").read_text().splitlines()})
log = Path("/run/follower.log").read_text()
print((added, kept, after, admins, killed, changed, ended, mtime, log, senders))
"""
    )
    assert added == (["10.0.0.5", "10.0.0.6"], ["zzx-azure-init-000d3a123456.network"])
    assert mtime, "equal answers write nothing"
    assert kept == ["10.0.0.5", "10.0.0.6", "10.0.0.9"]
    assert (after, admins) == (["10.0.0.5", "10.0.0.9"], False)
    assert (killed, changed) == (1, ["10.0.0.7", "10.0.0.9"])
    assert ended == 0, log
    assert senders == ["10.0.0.4"], "the primary address of the primary NIC"
    assert log.count("eth0: added 10.0.0.5, 10.0.0.6") == 1 and "Traceback" not in log, log


def test_a_nic_that_is_attached_while_the_machine_runs_is_configured_and_one_that_is_gone_is_forgotten() -> None:
    before, way, seen, gone, log = in_lab(
        SETUP
        + """
lab = Lab(("eth0", A, "10.0.0.4", True))
lab.wait(lambda: shell("networkctl list").count("configured") >= 1)
serve(lab)
say(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.1.5"))  # IMDS lists it before the link is here
Path("/run/config.toml").write_text(CONFIG.replace("watch_secs = 1", "watch_secs = 600"))
service = follow()
looks(lab, 1)
time.sleep(1)
before = sorted(files_below("/etc/systemd/network"))
def attach():
    lab.attach("eth1", B, "10.0.1.4", False)
    lab.wait(lambda: "10101" in shell("ip rule") and "10.0.1.5" in shell("ip addr show eth1")
             and "default" in shell("ip route show table 10101"))
seen = watched(attach, "eth0")
way = lab.way("8.8.8.8", "from", "10.0.1.4"), lab.way("8.8.8.8", "from", "10.0.1.5"), lab.way("8.8.8.8")
service.terminate()
service.wait(10)
shell("ip link del eth1")
say(entry(A, "10.0.0.4"))
Path("/run/config.toml").write_text(CONFIG)
service = follow()
lab.wait(lambda: not files_below("/etc/systemd/network") and "10101" not in shell("ip rule"))
lab.wait(lambda: not Path(lab.instance.path("network")).exists())
gone = service.poll() is None
service.terminate()
service.wait(10)
print((before, way, seen, gone, Path("/run/follower.log").read_text()))
"""
    )
    assert before == []
    assert way == (
        "via 10.0.1.1 dev eth1 table 10101",
        "via 10.0.1.1 dev eth1 table 10101",
        "via 10.0.0.1 dev eth0 src 10.0.0.4",
    ), log
    assert seen == [], "the primary notices nothing"
    assert gone and "Traceback" not in log, log


@pytest.mark.skipif(not ALL, reason="a measurement: run scripts/test --all")
def test_what_a_day_costs() -> None:
    """Two NICs, six addresses; the requests of an hour and a half, each a second after the last."""
    requests, cpu, rss, anonymous, log = in_lab(
        SETUP
        + """
lab = Lab(("eth0", A, "10.0.0.4", True), ("eth1", B, "10.0.1.4", False))
lab.wait(lambda: shell("networkctl list").count("configured") >= 2)
serve(lab)
say(entry(A, "10.0.0.4", "10.0.0.5", "10.0.0.6"), entry(B, "10.0.1.4", "10.0.1.5", "10.0.1.6"))
service = follow()
lab.wait(lambda: "10.0.1.6" in shell("ip addr show eth1"))
looks(lab, 5)
def ticks():
    fields = Path(f"/proc/{service.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
def memory(name):
    return int(Path(f"/proc/{service.pid}/status").read_text().partition(name + ":")[2].split()[0])
lines, first, before = Path("/run/follower.log").read_text(), asked(), ticks()
while asked() < first + 90:
    time.sleep(1)
cpu = (ticks() - before) / os.sysconf("SC_CLK_TCK")
log = Path("/run/follower.log").read_text()[len(lines):]
print((asked() - first, cpu, memory("VmRSS"), memory("RssAnon"), log))
"""
    )
    each = cpu / requests
    print(
        f"CPU of a request: {each * 1000:.1f} ms; of a day: {each * 1440:.0f} to {each * 1920:.0f} s; "
        f"memory: {rss} kB, {anonymous} kB of its own"
    )
    assert log == "" and rss < 32 << 10
