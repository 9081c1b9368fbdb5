"""A made-up machine with several NICs, as systemd-networkd's files in /run show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from azureinit.config.model import Config
from azureinit.machine.netlink import Address, Link, Route
from azureinit.memory.instance import Instance
from azureinit.plan.actions import Step, Write
from azureinit.run.network import plan_answer
from azureinit.sources.network_metadata import parse_network
from support.made_up_network import Networked

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

A, B, C = "00:0d:3a:12:34:56", "00:0d:3a:12:34:57", "00:0d:3a:12:34:58"
NAMES = {A: "eth0", B: "eth1", C: "eth2"}
DEFAULT = "/usr/lib/systemd/network/zzz-azure-init.network"
PLATFORM = "CLASSLESS_ROUTES=0.0.0.0/0,10.0.0.1 168.63.129.16/32,10.0.0.1 169.254.169.254/32,10.0.0.1\n"
LEASE = (
    'lease {\n  interface "eth0";\n  fixed-address 10.0.0.4;\n'
    "  option rfc3442-classless-static-routes 32,168,63,129,16,10,0,0,1;\n}\n"
)
INSTANCE = Instance(data_dir="/var/lib/azure-init", vm_id="c0ffee00-1111-2222-3333-444444444444")


def entry(mac: str, *ipv4: str, ipv6: tuple[str, ...] = (), prefix: Any = "24") -> dict[str, Any]:
    subnet = ipv4[0].rpartition(".")[0] + ".0" if ipv4 else "10.0.9.0"
    return {
        "macAddress": mac.replace(":", "").upper(),
        "ipv4": {
            "ipAddress": [{"privateIpAddress": one, "publicIpAddress": ""} for one in ipv4],
            "subnet": [{"address": subnet, "prefix": prefix}],
        },
        "ipv6": {"ipAddress": [{"privateIpAddress": one} for one in ipv6]},
    }


def network(*entries: Any) -> dict[str, Any]:
    return {"interface": list(entries)}


TWO = network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.1.5"))


class Several(Networked):
    """Each NIC n has the address 10.0.n.4 and a lease; that of `primary` leads to the platform."""

    def __init__(self, root: Path, *macs: str, primary: str = A, managed: bool = True) -> None:
        links, addresses, routes = [], [], []
        for number, mac in enumerate(macs):
            index = number + 2
            links.append(_link(index, NAMES[mac], mac))
            address = Address(index=index, family=4, address=f"10.0.{number}.4", prefix=24, scope="global")
            addresses.append(address)
            routes.append(
                Route(
                    family=4,
                    destination="0.0.0.0",
                    prefix=0,
                    type="unicast",
                    table=254,
                    index=index,
                    gateway=f"10.0.{number}.1",
                    metric=100,
                )
            )
        super().__init__(root, links=tuple(links), addresses=tuple(addresses), routes=tuple(routes))
        self.put("/sys/class/net/lo/ifindex", "1\n")
        for number, mac in enumerate(macs):
            self.put_card(NAMES[mac], index=number + 2, mac=mac)
            if managed:
                self.put_state(number + 2, DEFAULT)
                lease = f"ADDRESS=10.0.{number}.4\nROUTER=10.0.{number}.1\n" + (PLATFORM if mac == primary else "")
                self.put(f"/run/systemd/netif/leases/{number + 2}", lease)
        (root / "var/lib/azure-init").mkdir(parents=True, exist_ok=True)

    def find(self, tool: str) -> str | None:
        return f"/usr/bin/{tool}"

    def put_state(self, index: int, file: str, state: str = "configured") -> None:
        self.put(f"/run/systemd/netif/links/{index}", f"ADMIN_STATE={state}\nNETWORK_FILE={file}\n")

    def plan(self, document: Any, *, config: Config | None = None, confirmed: bool = False) -> Plan:
        answer = parse_network(document)
        return plan_answer(self, config or Config(), INSTANCE, answer, confirmed=confirmed)


def _link(index: int, name: str, mac: str) -> Link:
    return Link(index=index, name=name, mac=mac, mtu=1500, up=True, carrier=True, loopback=False, state="up")


def told(plan: Plan) -> str:
    return "\n".join(f"{type(item).__name__}: {item.name}: {item.why}" for item in plan)


def writes(plan: Plan) -> dict[str, Write]:
    """The files that are written, without those of the data directory."""
    found = {}
    for item in plan:
        for way in item.ways if isinstance(item, Step) else ():
            for action in getattr(way, "actions", ()):
                if isinstance(action, Write) and not action.path.startswith(INSTANCE.data_dir):
                    found[action.path] = action
    return found


def commands(plan: Plan) -> list[str]:
    steps = [item for item in plan if isinstance(item, Step)]
    actions = [action for step in steps for way in step.ways for action in getattr(way, "actions", ())]
    return [" ".join(action.argv) for action in actions if hasattr(action, "argv")]
