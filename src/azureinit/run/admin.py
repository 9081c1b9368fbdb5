"""Facts that can only be read once the admin's name is known: the home, the key files, the login."""

from __future__ import annotations

from azureinit.facts.key_files import AdminFiles, read_keys_files, read_pieces
from azureinit.facts.ssh import MERGER
from azureinit.machine.clock import days
from azureinit.plan.hostkeys import has_image_keys
from azureinit.plan.keys import key_paths
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.machine import Machine
    from azureinit.run.state import Asked, Context
    from azureinit.sources.imds import PublicKey
    from azureinit.sources.metadata import Metadata


def today(machine: Machine) -> int:
    """In days since 1970, as /etc/shadow counts."""
    return days(machine.clock.now())


def with_admin_files(machine: Machine, config: Config, facts: Facts, metadata: Metadata) -> Facts:
    facts = with_keys_files(machine, config, facts, username=metadata.username or "", keys=metadata.keys)
    return with_pair_files(machine, facts, metadata) if metadata.key_pairs else facts


def with_keys_files(
    machine: Machine, config: Config, facts: Facts, *, username: str, keys: tuple[PublicKey, ...]
) -> Facts:
    home = facts.accounts.home_of(username)
    admin = AdminFiles(key_pieces=read_pieces(machine, home) if facts.ssh.pieces == MERGER else ())
    paths = key_paths(
        username=username, home=home, keys=keys, accounts=facts.accounts, ssh=facts.ssh, admin=admin, config=config
    )
    return replace(facts, admin=replace(admin, keys_files=read_keys_files(machine, home=home, paths=paths)))


def with_pair_files(machine: Machine, facts: Facts, metadata: Metadata) -> Facts:
    from azureinit.facts.key_files import read_pair_files
    from azureinit.plan.keypairs import pair_paths

    username = metadata.username or ""
    home = facts.accounts.home_of(username)
    paths = pair_paths(username=username, home=home, pairs=metadata.key_pairs)
    pair_files = read_pair_files(machine, home=home, paths=paths)
    return replace(facts, admin=replace(facts.admin, pair_files=pair_files))


def with_access(machine: Machine, config: Config, facts: Facts, metadata: Metadata) -> Facts:
    """What decides about the admin's login. sshd is asked only where its configuration has rules for logins."""
    if not facts.ssh.installed:
        return replace(facts, access=None)
    from azureinit.facts.access import read_access
    from azureinit.plan.access import paths_of, questions

    user = facts.accounts.user(metadata.username or "")
    access = read_access(
        machine,
        facts.ssh,
        systemd=facts.host.systemd,
        shell=user.shell if user else facts.accounts.shell,
        paths=paths_of(metadata=metadata, accounts=facts.accounts, ssh=facts.ssh, admin=facts.admin, config=config),
    )
    asked = questions(metadata=metadata, host=facts.host, accounts=facts.accounts, ssh=facts.ssh, config=config)
    if asked:
        from azureinit.facts.sshd_answer import ask_about

        answers, unanswered = ask_about(machine, facts.ssh, asked)
        access = replace(access, answers=answers, unanswered=unanswered)
    return replace(facts, access=access)


def own_keys(context: Context, asked: Asked, facts: Facts) -> frozenset[str] | None:
    """The host keys that this VM made; None where it was provisioned before, and so all of them are its own."""
    journal, instance = asked.memory.journal, asked.identity.instance
    if context.config.ssh.regenerate_host_keys != "auto" or instance is None or not asked.memory.readable:
        return None
    if not has_image_keys(facts.ssh, own=journal.own_keys, done=journal.done):
        return journal.own_keys
    from azureinit.facts.provisioned import was_provisioned
    from azureinit.memory.instance import is_marked
    from azureinit.plan.waagent import spellings

    ids, library = spellings(instance.vm_id), context.config.waagent.lib_dir
    before = is_marked(context.machine, instance) or was_provisioned(context.machine, spellings=ids, lib_dir=library)
    return None if before else journal.own_keys
