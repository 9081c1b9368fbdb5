"""The wireserver's documents: versions, goal state, and the configurations in its links."""

from __future__ import annotations

import uuid
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from fakeazure.platform.vm import Vm

PREFERRED = "2015-04-05"
SUPPORTED = ("2015-04-05", "2012-11-30", "2012-09-15", "2012-05-15", "2011-12-31", "2010-12-15")
INCARNATION = 1
DECLARATION = '<?xml version="1.0" encoding="utf-8"?>\n'
XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
BLOB_TYPE = "BlockBlob"


def container_id(vm: Vm) -> str:
    """Derived from the VM id."""
    return str(uuid.uuid5(uuid.UUID(vm.id), "container"))


def instance_id(vm: Vm) -> str:
    return f"_{vm.name}"


def versions() -> str:
    supported = "".join(f"<Version>{version}</Version>" for version in SUPPORTED)
    return (
        f"{DECLARATION}<Versions><Preferred><Version>{PREFERRED}</Version></Preferred>"
        f"<Supported>{supported}</Supported></Versions>"
    )


def goal_state(vm: Vm, *, base: str) -> str:
    """`base`: the URL that the client used; the links begin with it."""
    place = f"{base}/machine/{container_id(vm)}/{quote(instance_id(vm))}?comp="
    kinds = {
        "HostingEnvironmentConfig": "config&type=hostingEnvironmentConfig",
        "SharedConfig": "config&type=sharedConfig",
        "ExtensionsConfig": "config&type=extensionsConfig",
        "FullConfig": "config&type=fullConfig",
        "Certificates": "certificates",
    }
    links = "".join(
        f"<{name}>{escape(f'{place}{query}&incarnation={INCARNATION}')}</{name}>" for name, query in kinds.items()
    )
    return (
        f'{DECLARATION}<GoalState {XSI} xsi:noNamespaceSchemaLocation="goalstate10.xsd">'
        f"<Version>2012-11-30</Version><Incarnation>{INCARNATION}</Incarnation>"
        "<Machine><ExpectedState>Started</ExpectedState><StopRolesDeadlineHint>300000</StopRolesDeadlineHint>"
        "<LBProbePorts><Port>16001</Port></LBProbePorts><ExpectHealthReport>FALSE</ExpectHealthReport></Machine>"
        f"<Container><ContainerId>{container_id(vm)}</ContainerId><RoleInstanceList><RoleInstance>"
        f"<InstanceId>{escape(instance_id(vm))}</InstanceId><State>Started</State>"
        f"<Configuration>{links}<ConfigName>{container_id(vm)}.0.{escape(vm.name)}.1.xml</ConfigName></Configuration>"
        "</RoleInstance></RoleInstanceList></Container></GoalState>"
    )


def configuration(vm: Vm, kind: str) -> str | None:
    """None: no such configuration."""
    makers = {
        "hostingenvironmentconfig": hosting_environment,
        "sharedconfig": shared_config,
        "extensionsconfig": extensions_config,
        "fullconfig": shared_config,
    }
    maker = makers.get(kind.lower())
    return maker(vm) if maker else None


def deployment(vm: Vm) -> str:
    """The elements that all configurations share."""
    guid, name = f"{{{container_id(vm)}}}", container_id(vm).replace("-", "")
    return (
        f'<Deployment name="{name}" guid="{guid}" incarnation="0" isNonCancellableTopologyChangeEnabled="false">'
        f'<Service name="{name}" guid="{{00000000-0000-0000-0000-000000000000}}"/>'
        f'<ServiceInstance name="{name}.0" guid="{guid}"/></Deployment>'
        f'<Incarnation number="1" instance={quoteattr(instance_id(vm))} guid="{guid}"/>'
        f'<Role guid="{guid}" name={quoteattr(vm.name)} settleTimeSeconds="0"/>'
    )


def hosting_environment(vm: Vm) -> str:
    return (
        f'{DECLARATION}<HostingEnvironmentConfig version="1.0.0.0" goalStateIncarnation="{INCARNATION}">'
        f"<StoredCertificates/>{deployment(vm)}"
        '<HostingEnvironmentSettings name="full" runtime="fakeazure"><CAS mode="full"/><PrivilegeLevel mode="max"/>'
        "<AdditionalProperties><CgiHandlers/></AdditionalProperties></HostingEnvironmentSettings>"
        "<ApplicationSettings/><ResourceReferences/></HostingEnvironmentConfig>"
    )


def shared_config(vm: Vm) -> str:
    return (
        f'{DECLARATION}<SharedConfig version="1.0.0.0" goalStateIncarnation="{INCARNATION}">{deployment(vm)}'
        '<LoadBalancerSettings timeoutSeconds="0" waitLoadBalancerProbeCount="8"><Probes/></LoadBalancerSettings>'
        "<OutputEndpoints/>"
        f'<Instances><Instance id={quoteattr(instance_id(vm))} address="{vm.primary.address}">'
        '<FaultDomains randomId="0" updateId="0" updateCount="0"/>'
        "<InputEndpoints/></Instance></Instances></SharedConfig>"
    )


def extensions_config(vm: Vm) -> str:
    """Without extensions. The agent hands the URL of its status blob to the host plugin."""
    return (
        f'{DECLARATION}<Extensions version="1.0.0.0" goalStateIncarnation="{INCARNATION}">'
        "<GuestAgentExtension><GAFamilies/></GuestAgentExtension><Plugins/><PluginSettings/>"
        f'<StatusUploadBlob statusBlobType="{BLOB_TYPE}">{escape(status_blob(vm))}</StatusUploadBlob>'
        '<InVMGoalStateMetaData inSvdSeqNo="0" createdOnTicks="638000000000000000"'
        f' activityId="{container_id(vm)}" correlationId="{container_id(vm)}"/></Extensions>'
    )


def status_blob(vm: Vm) -> str:
    """Never empty: without this URL, an agent fetches the goal state again and again."""
    blob = f"{quote(vm.name)}.{container_id(vm)}.status"
    signature = "sv=2018-03-28&sr=b&sk=system-1&sig=fakeazure&se=9999-01-01T00%3A00%3A00Z&sp=w"
    return f"https://md-hdd-fakeazure.z1.blob.storage.azure.net/$system/{blob}?{signature}"
