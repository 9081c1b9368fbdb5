"""The files in which other programs look for cloud-init's state, written where userdata.cloud_init_compat is set.

/run/cloud-init/status.json, result.json   the stages and their errors; links into /var/lib/cloud/data, as there
/run/cloud-init/cloud-id, cloud-id-azure   the platform's name
/var/lib/cloud/instance                    the directory of this VM, with user-data.txt and, at the end, boot-finished
/var/lib/cloud/data/instance-id            this VM's id
"""

from __future__ import annotations

from azureinit.jsontext import dumps
from azureinit.plan.actions import Link, MakeDir, Remove, Step, Way, Write
from azureinit.record import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.plan.actions import Action, Plan

NAME = "files of cloud-init"
RUN, CLOUD = "/run/cloud-init", "/var/lib/cloud"
DATASOURCE = "DataSourceAzure [seed=azure-init]"
# The names of our stages in status.json. `init-local` is azure-init.service itself.
STAGES = {"network": "init", "config": "modules-config", "final": "modules-final"}
LAST = "final"


def status_values(result: Mapping[str, Any], *, began: float) -> dict[str, Any]:
    """What status.json says of the stages in `result`, which is the content of /run/azure-init/userdata.json.

    `began`: when this boot began.
    """
    stages = result.get("stages", {})
    ended = stages.get("network", {}).get("started") or began
    told: dict[str, Any] = {"datasource": DATASOURCE, "init-local": _stage({"started": began, "finished": ended})}
    running = None
    for ours, theirs in STAGES.items():
        stage = stages.get(ours)
        told[theirs] = _stage(stage or {})
        if stage and stage.get("finished") is None:
            running = theirs
    return {"v1": {**told, "stage": running}}


def result_values(result: Mapping[str, Any]) -> dict[str, Any]:
    return {"v1": {"datasource": DATASOURCE, "errors": errors(result)}}


def errors(result: Mapping[str, Any]) -> list[str]:
    """The failures of all stages, as texts."""
    return [text for stage in result.get("stages", {}).values() for text in _failures(stage)]


def is_finished(result: Mapping[str, Any]) -> bool:
    last = result.get("stages", {}).get(LAST)
    return bool(last) and last.get("finished") is not None


def _stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    warnings = [str(text) for text in stage.get("cautions", ())]
    return {
        "errors": _failures(stage),
        "recoverable_errors": {"WARNING": warnings} if warnings else {},
        "start": stage.get("started"),
        "finished": stage.get("finished"),
    }


def _failures(stage: Mapping[str, Any]) -> list[str]:
    return [f"{one.get('module', '')}: {one.get('message', '')}" for one in stage.get("failures", ())]


def plan_compat_files(
    result: Mapping[str, Any], *, vm_id: str, data: Secret | None, finished: str, began: float, cloud: str = "azure"
) -> Plan:
    """`data`: customData as it was given. `finished`: the line of boot-finished, once the last stage is over. `cloud`:
    the platform's name."""
    instance = f"{CLOUD}/instances/{vm_id}"
    directories = (CLOUD, f"{CLOUD}/data", f"{CLOUD}/instances", instance, RUN)
    actions: list[Action] = [MakeDir(path=path, mode=0o755, kept=True) for path in directories]
    actions += [
        _json("status", status_values(result, began=began)),
        Write(path=f"{CLOUD}/data/instance-id", data=f"{vm_id}\n".encode(), mode=0o644),
        Write(path=f"{RUN}/.instance-id", data=f"{vm_id}\n".encode(), mode=0o644),
        Write(path=f"{RUN}/cloud-id-{cloud}", data=f"{cloud}\n".encode(), mode=0o644),
        Write(path=f"{instance}/datasource", data=f"DataSourceAzure: {DATASOURCE}\n".encode(), mode=0o644),
        Link(path=f"{RUN}/cloud-id", target=f"{RUN}/cloud-id-{cloud}"),
        Link(path=f"{RUN}/status.json", target=f"../..{CLOUD}/data/status.json"),
        Link(path=f"{CLOUD}/instance", target=instance),
    ]
    if data is not None:
        actions.append(Write(path=f"{instance}/user-data.txt", data=data, mode=0o600))
    if is_finished(result):
        actions += [
            _json("result", result_values(result)),
            Link(path=f"{RUN}/result.json", target=f"../..{CLOUD}/data/result.json"),
            Write(path=f"{instance}/boot-finished", data=f"{finished}\n".encode(), mode=0o644),
        ]
    else:
        stale = (f"{RUN}/result.json", f"{CLOUD}/data/result.json", f"{instance}/boot-finished")
        actions += [Remove(path=path) for path in stale]
    ways = (Way(backend="native", actions=tuple(actions)),)
    return (Step(name=NAME, why="userdata.cloud_init_compat is true", ways=ways),)


def _json(name: str, values: dict[str, Any]) -> Write:
    return Write(path=f"{CLOUD}/data/{name}.json", data=f"{dumps(values)}\n".encode(), mode=0o644)
