"""What the tests of the sources share."""

from __future__ import annotations

from azureinit.sources.imds import PublicKey
from support.ssh_trees import ed25519

KEY = PublicKey(data=ed25519())
OVF = """<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1"
 xmlns:wa="http://schemas.microsoft.com/windowsazure"><wa:ProvisioningSection><wa:Version>1.0</wa:Version>
<LinuxProvisioningConfigurationSet xmlns="http://schemas.microsoft.com/windowsazure">
<HostName>web-1</HostName><UserName>azureuser</UserName><UserPassword>pass-word</UserPassword>
<DisableSshPasswordAuthentication>false</DisableSshPasswordAuthentication>
</LinuxProvisioningConfigurationSet></wa:ProvisioningSection>
<wa:PlatformSettingsSection><wa:Version>1.0</wa:Version>
<PlatformSettings xmlns="http://schemas.microsoft.com/windowsazure">
<ProvisionGuestProxyAgent>PROXY</ProvisionGuestProxyAgent></PlatformSettings></wa:PlatformSettingsSection>
</Environment>"""


def unheard(_name: str, **_fields: object) -> None:
    pass
