"""The plans of all stages of customData, for `azure-init plan`."""

from __future__ import annotations

from azureinit.errors import AzureInitError, LocalError
from azureinit.memory.modules import DOCUMENT, once_path, read_marks
from azureinit.plan.actions import Caution, Satisfied, Unknown
from azureinit.record import replace
from azureinit.run.admin import today
from azureinit.run.explain import cautions
from azureinit.run.module_tables import modules_of
from azureinit.run.modules import ALWAYS, CONFIG, FINAL, NETWORK, ONCE
from azureinit.run.request import in_words, make_request, read_customdata, saved_userdata
from azureinit.run.serving import NAME, given, has_image_config, has_scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.memory.instance import Instance
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan
    from azureinit.run.modules import Module
    from azureinit.run.state import Asked, Context

UNKNOWN_ID = -1  # of an account that the run makes: no file has it yet


def plan_stages(context: Context, asked: Asked) -> Plan:
    """Nothing is fetched or rendered. A stage plans again when it begins: earlier ones may have changed the machine."""
    instance = asked.identity.instance if asked.memory.readable else None
    from azureinit.memory.userdata import SavedUserdata

    try:
        saved = saved_userdata(context, instance) if instance is not None else None
    except LocalError as error:
        return (Caution(name=NAME, why=str(error)),)
    if saved is None or not saved.data:
        if asked.metadata is None:
            return ()
        found = given(context.config, asked.metadata)
        if found.left:
            return (Caution(name=found.source, why=found.left),)
        saved = SavedUserdata(source=found.source, data=found.data, metadata=asked.metadata)
    machine, config = context.machine, context.config
    if not saved.data and not has_scripts(machine, config) and not has_image_config(machine):
        return ()
    vm_id = asked.identity.vm_id or ""
    directory = f"{config.azure_init_data_dir.path.rstrip('/')}/{vm_id}.d"
    document = read_customdata(context, saved, vm_id=vm_id)
    if document.errors:
        name = saved.source or NAME
        return tuple(Caution(name=name, why=f"nothing is done: {in_words(one)}") for one in document.errors)
    request = make_request(context, saved, document, vm_id=vm_id, directory=directory)
    unrendered = cautions(document, unrendered="it is rendered when its stage begins")
    return (*unrendered, *_plan_modules(context, request, instance))


def _plan_modules(context: Context, request: Request, instance: Instance | None) -> Plan:
    ended: frozenset[str] = frozenset()
    once: frozenset[str] = frozenset()
    if instance is not None:
        marks = read_marks(context.machine, instance.path("modules"))
        others = read_marks(context.machine, once_path(instance))
        if DOCUMENT in marks.failures:
            return (Caution(name=NAME, why=f"nothing is done: {marks.failures[DOCUMENT].text}"),)
        ended, once = marks.ended, others.ended
        request = replace(request, done=marks.done | others.done)
    rows = [row for stage in (NETWORK, CONFIG, FINAL) for row in modules_of(stage) if row.asked(request)]
    planned = [(row, once if row.frequency == ONCE else ended) for row in rows]
    return tuple(item for row, done in planned for item in _plan_module(context, row, request, done))


def _plan_module(context: Context, row: Module, request: Request, ended: frozenset[str]) -> Plan:
    if row.frequency != ALWAYS and row.name in ended:
        return (Satisfied(name=row.name, why=f"it has run ({row.frequency})"),)
    try:
        return row.planner(request, _after_run(context, request, row.facts(context.machine, request)))
    except AzureInitError as error:
        return (Unknown(name=row.name, why=str(error)),)


def _after_run(context: Context, request: Request, facts: object) -> object:
    """The facts as the stages will find them: the run makes the platform's admin before."""
    from azureinit.facts.system_files import SystemFiles
    from azureinit.facts.users import Users
    from azureinit.modules.ssh_import_id import ImportFacts
    from azureinit.plan.account import accounts_with_admin

    admin = request.metadata.username
    if not admin:
        return facts
    if isinstance(facts, SystemFiles):
        users, groups = ({admin: UNKNOWN_ID, **known} for known in (facts.users, facts.groups))
        return replace(facts, users=users, groups=groups)
    if isinstance(facts, (Users, ImportFacts)):
        day = today(context.machine)
        after = accounts_with_admin(admin, accounts=facts.accounts, config=context.config, today=day)
        return replace(facts, accounts=after)
    return facts
