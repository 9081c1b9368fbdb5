"""Debian's own cloud-init beside us: the files that its code writes for the same metadata, in the same machine.

What it gets wrong is shown by the same capture, as a documented difference (docs/network.md).
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakeazure import Imds, Interface, Vm
from fakeazure.platform.imds_document import document
from support.bounds import ALL
from support.container import debian_root
from support.installed import Boot, Disk, Images
from support.network_machines import FAR, MANAGERS, PORT, SEND, captured, departures, has_addresses, network_image, nic

pytestmark = [
    pytest.mark.newer,
    pytest.mark.skipif(not ALL, reason="a comparison: run scripts/test --all"),
]

TWO = nic("56", secondary='["10.0.0.5"]') + nic("57", "10.0.1.4")
NICS = (
    Interface(mac="00:0d:3a:12:34:56", secondary=("10.0.0.5",)),
    Interface(mac="00:0d:3a:12:34:57", address="10.0.1.4"),
)
ADDRESSES = {"azure0": ["10.0.0.4", "10.0.0.5"], "azure1": ["10.0.1.4"]}
NEIGHBOUR = "10.0.0.77"
# cloud-init's data source makes its network configuration, and its renderer writes networkd's files. A container has no
# hv_netvsc, so no driver is matched.
RENDER = """
import json, os, sys, tempfile
from cloudinit.net import network_state, networkd
from cloudinit.sources import DataSourceAzure as azure
made = azure.generate_network_config_from_instance_network_metadata(
    json.loads(sys.argv[1]), apply_network_config_for_secondary_ips=True
)
place = tempfile.mkdtemp()
networkd.Renderer({}).render_network_state(network_state.parse_net_config_data(made), target=place)
directory = os.path.join(place, "etc/systemd/network")
print(json.dumps({name: open(os.path.join(directory, name)).read() for name in os.listdir(directory)}))
"""


@pytest.fixture
def disk(images: Images, tmp_path: Path) -> Iterator[Disk]:
    yield Disk(network_image(images, MANAGERS["networkd"]), tmp_path / "machine")
    shutil.rmtree(tmp_path, ignore_errors=True)


def written_by_cloud_init() -> dict[str, str]:
    metadata = document(Vm(nics=NICS), Imds(), version="2021-08-01", extended=False)["network"]
    root = debian_root("trixie", "cloud-init")
    command = ("unshare", "--mount", "chroot", str(root), "python3", "-B", "-c", RENDER, json.dumps(metadata))
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(ran.stdout.splitlines()[-1])
    return found


def source_to_neighbour(boot: Boot) -> str:
    """The address from which a packet to a neighbour leaves if no address is asked for."""
    words = boot.out("ip", "route", "get", NEIGHBOUR).split()
    return words[words.index("src") + 1]


def test_cloud_init_routes_a_secondary_interface_by_the_primary_one_and_takes_a_secondary_source(disk: Disk) -> None:
    files = written_by_cloud_init()
    assert sorted(files) == ["10-cloud-init-eth0.network", "10-cloud-init-eth1.network"]
    for name, text in files.items():
        disk.write(f"etc/systemd/network/{name}", text)
    with disk.boot(TWO) as boot:
        boot.until(lambda: has_addresses(boot, ADDRESSES), "every address is there")
        assert departures(boot, ADDRESSES) == {"azure0": ["10.0.0.4", "10.0.0.5", "10.0.1.4"], "azure1": []}
        assert source_to_neighbour(boot) == "10.0.0.5"
        with captured(boot, "azure0") as packets:
            boot.out("python3", "-c", SEND, FAR, FAR, str(PORT), "0.0.0.0")
        assert {packet.source for packet in packets if packet.port == PORT} == {"10.0.0.4"}


def test_ours_are_right_in_the_same_machine(disk: Disk) -> None:
    with disk.boot(TWO) as boot:
        boot.ready()
        boot.ended()
        boot.until(lambda: has_addresses(boot, ADDRESSES), "every address is there")
        assert departures(boot, ADDRESSES) == ADDRESSES
        assert source_to_neighbour(boot) == "10.0.0.4"
