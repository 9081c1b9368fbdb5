"""Having a NIC managed that the packaged rules take for a virtual function: for this boot alone, by files in /run."""

from __future__ import annotations

from azureinit.facts.network_own import MANA_PREFIX, NETWORKD_RUNTIME
from azureinit.plan.actions import MakeDir, Run, Way, Write
from azureinit.plan.network_layout import METRIC, file_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.nics import LoneNic
    from azureinit.plan.actions import Action

RULES = "/run/udev/rules.d"
FILE = """\
[Match]
MACAddress={mac}
Driver=mana

[Network]
DHCP=yes

[DHCPv4]
ClientIdentifier=mac
RouteMetric={metric}
RoutesToDNS=no

[IPv6AcceptRA]
RouteMetric={metric}
"""
# After 68-azure-init-vf.rules, whose marks it takes away.
RULE = """\
SUBSYSTEM=="net", ACTION!="remove", ATTR{{address}}=="{mac}", DRIVERS=="mana", ENV{{NM_UNMANAGED}}="", \
ENV{{ID_NET_MANAGED_BY}}=""
"""


def manage(nic: LoneNic) -> Way:
    name, mac, key = nic.link.name, nic.link.mac, file_key(nic.link.mac)
    file = FILE.format(mac=mac, metric=METRIC).encode()
    actions: list[Action] = [
        MakeDir(path=NETWORKD_RUNTIME, mode=0o755, kept=True),
        Write(path=f"{NETWORKD_RUNTIME}/{MANA_PREFIX}{key}.network", data=file, mode=0o644),
        MakeDir(path=RULES, mode=0o755, kept=True),
        Write(path=f"{RULES}/69-azure-init-mana-{key}.rules", data=RULE.format(mac=mac).encode(), mode=0o644),
    ]
    if "udevadm" in nic.tools:
        actions += [
            _run("udevadm", "control", "--reload"),
            _run("udevadm", "trigger", "--settle", f"/sys/class/net/{name}"),
        ]
    if nic.networkd and "networkctl" in nic.tools:
        actions += [_run("networkctl", "reload"), _run("networkctl", "reconfigure", name)]
    return Way(backend="native", actions=tuple(actions))


def _run(*argv: str) -> Run:
    return Run(argv=argv, timeout=30.0, changes=False)
