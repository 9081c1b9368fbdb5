"""The hostname stage: a host name that changes after provisioning reaches DNS. Off unless hostname.monitor is set.

The name that was last registered in DNS is kept in the data directory, so that a change is noticed even if this stage
did not run at that time.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError, LocalError
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan
    from azureinit.run.state import Context

FILE = "published_hostname"
MOST_SECS = 60.0  # for one registration in DNS
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 3600.0  # an older networkd takes the address away for a moment


def watch(context: Context) -> int:
    """Returns only where there is nothing to watch; otherwise it runs as long as the machine."""
    if not context.config.hostname.monitor or context.machine.rooted:
        why = "this tree is not the running system" if context.config.hostname.monitor else "hostname.monitor is false"
        context.events.tell(INFO, "hostname", f"the host name is not watched: {why}")
        return 0
    from azureinit.machine.watch import HostnameWatch

    monitor = Monitor(context)
    with HostnameWatch() as kernel:  # listens before the first look
        while True:
            context.machine.clock.wait(kernel.wait, monitor.look())


class Monitor:
    def __init__(self, context: Context) -> None:
        self.context, self.machine, self.config = context, context.machine, context.config
        self.path = f"{context.config.azure_init_data_dir.path.rstrip('/')}/{FILE}"
        self.pause = FIRST_PAUSE

    def look(self) -> float:
        """Returns the seconds until the next look. After a failure they grow with each retry."""
        try:
            self._look()
        except AzureInitError as error:
            self.pause = min(2 * self.pause, LONGEST_PAUSE)
            self.context.events.tell(WARN, "hostname", f"{error}; tried again in {self.pause:g} s")
            return self.pause
        finally:
            self.context.events.flush()
        self.pause = FIRST_PAUSE
        return self.config.hostname.monitor_secs

    def _look(self) -> None:
        name, known = self.machine.hostname(), self.known()
        if name == known:
            return
        from azureinit.plan.names import check_hostname, is_generic_hostname

        if is_generic_hostname(name):
            return
        check_hostname(name)
        if known is not None:
            self._publish(name)
        self.machine.make_dirs(self.path.rpartition("/")[0], mode=0o700)
        self.machine.write(self.path, name.encode(), mode=0o600)

    def known(self) -> str | None:
        """The name that was last registered in DNS; None where it is not recorded."""
        for path in (self.path, f"{self.config.waagent.lib_dir.rstrip('/')}/{FILE}"):
            try:
                data = self.machine.read(path, limit=4096)
            except LocalError:
                continue
            if data is not None:
                return data.decode("utf-8", "replace").strip()
        return None

    def _publish(self, name: str) -> None:
        from azureinit.run.enact import enact, tell_cautions

        plan, events = self.plan(name), self.context.events
        tell_cautions(plan, events)
        until = self.machine.clock.monotonic() + MOST_SECS
        enact(self.machine, plan, events=events, deadline=until)

    def plan(self, name: str) -> Plan:
        from azureinit.facts.dhcp_client import read_dhcp_client
        from azureinit.facts.hostnames import read_name_files
        from azureinit.facts.waagent import read_waagent
        from azureinit.plan.dhcpnames import plan_dhcp_names
        from azureinit.plan.publish import plan_publish
        from azureinit.plan.published import plan_published

        dhcp = read_dhcp_client(self.machine)
        if dhcp is None:
            raise LocalError(f"cannot register the host name {name} in DNS: there is no route to the platform")
        library = self.config.waagent.lib_dir
        return (
            *plan_dhcp_names(hostname=name, files=read_name_files(self.machine)),
            *plan_publish(hostname=name, dhcp=dhcp, renamed=True),
            *plan_published(hostname=name, waagent=read_waagent(self.machine, library), lib_dir=library),
        )
