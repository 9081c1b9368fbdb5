"""The configuration and the environment variables that point an agent to the platform."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fakeazure.platform.machine import Machine


def config(machine: Machine) -> dict[str, dict[str, Any]]:
    """azure-init's configuration as tables. Writes the medium, if that was not done."""
    path = machine.media_path or machine.write_media()
    return {
        "imds": {"endpoint": machine.imds},
        "wireserver": {"health_endpoint": machine.health_endpoint},
        "provisioning_media": {"path": str(path)},
        "platform": {"require_azure": False, "vm_id": machine.vm.id},
    }


def config_text(machine: Machine, tables: Mapping[str, Mapping[str, Any]]) -> str:
    whole = machine.config()
    for name, values in tables.items():
        whole[name] = {**whole.get(name, {}), **values}
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in values.items())
        for name, values in whole.items()
    )


def environment(machine: Machine, *, tell_pools: bool = True) -> dict[str, str]:
    """`tell_pools`: name the directory of key-value pools in azure-init's configuration."""
    tables = dict(machine.azure_init)
    if machine.pools and tell_pools:
        tables["telemetry"] = {"kvp_directory": str(machine.pools), **tables.get("telemetry", {})}
    file = machine.directory / "azure-init.toml"
    file.write_text(config_text(machine, tables), encoding="utf-8")
    found = {
        "FAKEAZURE_IMDS": machine.imds,
        "FAKEAZURE_WIRESERVER": machine.wireserver,
        "FAKEAZURE_HOSTPLUGIN": machine.host_plugin,
        "FAKEAZURE_MEDIA": str(machine.media_path),
        "FAKEAZURE_CONFIG": str(file),
        "AZURE_INIT_CONFIG": str(file),
    }
    if machine.pools:
        found["FAKEAZURE_KVP"] = str(machine.pools)
    if machine.ledger_path:
        found["FAKEAZURE_LEDGER"] = str(machine.ledger_path.absolute())
    if stub := machine.write_proxy_agent(machine.directory / "bin"):
        found["PATH"] = os.pathsep.join((str(stub.parent), os.environ.get("PATH", os.defpath)))
    return found


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
