"""manage_etc_hosts: the whole file (true, template), or the line of the host's own name (localhost)."""

from __future__ import annotations

from azureinit.modules.file_steps import flag, refuse, text, write_file
from azureinit.modules.hostname import host_name
from azureinit.modules.steps import named
from azureinit.plan.actions import Satisfied
from azureinit.plan.hostname import OWN_ADDRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.distros import Distro
    from azureinit.facts.system_files import SystemFiles
    from azureinit.modules.hostname import HostName
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan

MODULE, HOSTS = "manage_etc_hosts", "/etc/hosts"
HEADER = (
    "# Written by azure-init at every boot, because customData has `manage_etc_hosts: true`.\n"
    "# Changes to this file are lost.\n"
)
MARK = "## template:"  # the first line of a template names its language


def template_path(distro: Distro) -> str:
    return f"/etc/cloud/templates/hosts.{distro.family}.tmpl"


def plan_etc_hosts(request: Request, facts: SystemFiles) -> Plan:
    node = request.config.get("manage_etc_hosts")
    if node is None:
        return ()
    name, wanted = named(MODULE, node), text(node).lower()
    if wanted != "localhost" and wanted != "template" and not flag(node):
        return (Satisfied(name=name, why=f"{HOSTS} is left alone"),)
    host = host_name(request, facts.host.distro)
    if not host.full or not all(one.isprintable() and not one.isspace() for one in f"{host.full}{host.short}"):
        return (refuse(name, "the host has no name that /etc/hosts can hold"),)
    old = (facts.files[HOSTS].data or b"").decode("utf-8", "surrogateescape")
    if wanted == "localhost":
        new: str | None = with_own_line(old, host)
    else:
        template = facts.files[template_path(facts.host.distro)].data if request.compatible else None
        new = rendered(template.decode("utf-8", "surrogateescape"), host) if template is not None else None
        if template is None:
            new = HEADER + facts.host.distro.hosts.format(fqdn=host.full, hostname=host.short)
    if new is None:
        why = f"{template_path(facts.host.distro)} is more than text with {{{{hostname}}}} and {{{{fqdn}}}}"
        return (refuse(name, why),)
    return (write_file(name, HOSTS, new.encode("utf-8", "surrogateescape"), facts, why=f"{HOSTS} names {host.full}"),)


def with_own_line(content: str, host: HostName) -> str:
    """The file with one line for 127.0.1.1. All other lines stay as they are."""
    lines = content.split("\n") if content else [""]
    wanted = f"{OWN_ADDRESS}\t{host.full}\t{host.short}"
    own = [at for at, line in enumerate(lines) if line.split()[:1] == [OWN_ADDRESS]]
    if any(_names(lines[at])[:1] == [host.full] and host.short in _names(lines[at])[1:] for at in own):
        return content
    if own:
        lines[own[0]] = wanted
        lines = [line for at, line in enumerate(lines) if at not in own[1:]]
    else:
        lines.insert(len(lines) - (not lines[-1]), wanted)
    made = "\n".join(lines)
    return made if made.endswith("\n") else f"{made}\n"


def _names(line: str) -> list[str]:
    return line.partition("#")[0].split()[1:]


def rendered(template: str, host: HostName) -> str | None:
    """A template of cloud-init, if it has nothing but comments and the two names; otherwise None."""
    first, _, rest = template.partition("\n")
    names = (("hostname", host.short), ("fqdn", host.full))
    if not first.startswith(MARK):
        return _replaced(template, names, ("${}", "${{{}}}"))
    made = ""
    while "{#" in rest:
        before, _, after = rest.partition("{#")
        comment, end, rest = after.partition("#}")
        if not end:
            return None
        made += before
        rest = rest.lstrip() if comment.endswith("-") else rest[1:] if rest.startswith("\n") else rest
    made = _replaced(made + rest, names, ("{{{{{}}}}}", "{{{{ {} }}}}"))
    return None if "{{" in made or "{%" in made else made


def _replaced(body: str, names: tuple[tuple[str, str], ...], forms: tuple[str, ...]) -> str:
    for name, value in names:
        for form in forms:
            body = body.replace(form.format(name), value)
    return body
