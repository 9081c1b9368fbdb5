"""Host keys of the image: removed and made anew, once for each VM."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azureinit.apply.executor import apply_step
from azureinit.config.model import Config, Ssh
from azureinit.facts.gather import Facts, read_facts
from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.journal import MemoryJournal, read_journal
from azureinit.plan.actions import Caution, Declined, Remove, Run, Satisfied, Step, Way, Write
from azureinit.plan.plan import Wanted, make_plan
from azureinit.plan.provision import AFTER_READY, PROVISION
from azureinit.plan.regenerate import NAME, plan_regeneration
from azureinit.record import replace
from azureinit.run.early import begin_early
from azureinit.run.gather import learn_identity
from azureinit.run.recall import recall
from azureinit.run.state import Context, Identity, Knowing, Known, Memory
from azureinit.sources.gather import Gathered
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import Events
from support.facts import altered, parts
from support.need import need
from support.ssh_trees import ed25519, running, tree

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

WHOLE = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
CONFIG = Config(ssh=Ssh(regenerate_host_keys="always"))
EARLY = ("ed25519", "ecdsa")
KEY = "/etc/ssh/ssh_host_{}_key"
IMAGE = {
    "/etc/ssh/sshd_config": "",
    **{KEY.format(kind): WHOLE for kind in ("dsa", "ecdsa", "ed25519", "rsa")},
    **{KEY.format(kind) + ".pub": f"ssh-{kind} AAAA image\n" for kind in ("dsa", "ecdsa", "ed25519", "rsa")},
}


def facts_of(machine: Machine, *, tools: tuple[str, ...] = ("ssh-keygen",)) -> Facts:
    return altered(read_facts(machine, CONFIG), tools=frozenset(tools))


def plan(facts: Facts, *done: str, types: tuple[str, ...] = EARLY) -> Plan:
    config = replace(CONFIG, ssh=replace(CONFIG.ssh, host_key_types=types))
    return plan_regeneration(
        early=types, **parts(facts, "host", "ssh"), config=config, done=frozenset(done), own=frozenset()
    )[0]


def the_step(plan: Plan) -> tuple[Step, Way]:
    (step,) = [item for item in plan if isinstance(item, Step)]
    (way,) = step.ways
    assert isinstance(way, Way)
    return step, way


def test_every_key_of_the_image_goes_before_the_first_new_one_is_made(tmp_path: Path) -> None:
    step, way = the_step(plan(facts_of(tree(tmp_path, IMAGE))))
    removed = [action.path for action in way.actions if isinstance(action, Remove)]
    assert removed == sorted(name for name in IMAGE if "ssh_host" in name)
    made = [action.argv[-1] for action in way.actions if isinstance(action, Run)]
    assert made == [f"{tmp_path}{KEY.format(kind)}" for kind in EARLY]
    assert [isinstance(action, Remove) for action in way.actions] == [True] * 8 + [False] * 2
    assert (step.name, step.once) == (NAME, True)


def test_what_the_journal_remembers_is_not_done_again(tmp_path: Path) -> None:
    facts = facts_of(tree(tmp_path, IMAGE))
    assert plan(facts, NAME) == (Satisfied(name=NAME, why="were made anew"),)


def test_an_image_without_keys_is_noted_so_that_those_made_now_stay(tmp_path: Path) -> None:
    step, way = the_step(plan(facts_of(tree(tmp_path, {"/etc/ssh/sshd_config": ""}))))
    assert step.once
    assert not any(isinstance(action, Remove) for action in way.actions)


@pytest.mark.parametrize(("mode", "early"), [("always", False), ("auto", True), ("never", True)])
def test_no_key_is_made_early_that_would_be_taken_for_the_image_s(tmp_path: Path, mode: str, early: bool) -> None:
    need("ssh-keygen")
    machine = tree(tmp_path, {"/etc/ssh/sshd_config": ""})
    config = Config(ssh=Ssh(regenerate_host_keys=mode))
    now = machine.clock.monotonic()
    context = Context(machine=machine, config=config, events=Events(clock=machine.clock), started=now, booted=now)
    begin_early(context, Memory(journal=MemoryJournal())).wait()
    assert (tmp_path / "etc/ssh/ssh_host_ed25519_key").exists() == early


def test_the_rsa_key_is_made_after_ready_though_the_image_has_one(tmp_path: Path) -> None:
    facts = facts_of(tree(tmp_path, IMAGE))
    (rsa,) = make_plan(AFTER_READY, Wanted(metadata=Metadata(), config=CONFIG), facts)
    assert isinstance(rsa, Step) and rsa.why == f"no {KEY.format('rsa')}; after Ready"
    (kept,) = make_plan(AFTER_READY, Wanted(metadata=Metadata(), config=CONFIG, done=frozenset((NAME,))), facts)
    assert isinstance(kept, Satisfied)


def test_keys_lie_where_the_configuration_says(tmp_path: Path) -> None:
    files = {"/etc/ssh/sshd_config": "HostKey /srv/my_ecdsa_key\nHostKey /srv/odd\n", "/srv/my_ecdsa_key": WHOLE}
    files |= {"/srv/my_ecdsa_key.pub": "x", "/srv/odd": WHOLE}
    files |= {KEY.format("ed25519"): WHOLE, KEY.format("ed25519") + "-cert.pub": "x"}
    made = plan(facts_of(tree(tmp_path, files)))
    _step, way = the_step(made)
    assert [action.path for action in way.actions if isinstance(action, Remove)] == [
        KEY.format("ed25519"),
        "/srv/my_ecdsa_key",
        "/srv/my_ecdsa_key.pub",
    ]
    certificate, odd = [item.why for item in made if isinstance(item, Caution)]
    assert certificate.startswith("/etc/ssh/ssh_host_ed25519_key-cert.pub certifies a key that is removed")
    assert odd.startswith("the name of /srv/odd has no key type")


def test_a_link_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    need("ssh-keygen")
    machine = tree(tmp_path, {"/etc/ssh/sshd_config": "", "/srv/key": WHOLE})
    (tmp_path / "etc/ssh/ssh_host_ed25519_key").symlink_to("/srv/key")
    step, _way = the_step(plan(facts_of(machine), types=("ed25519",)))
    apply_step(machine, step, journal=MemoryJournal(), deadline=float("inf"))
    assert (tmp_path / "srv/key").read_text() == WHOLE
    key = tmp_path / "etc/ssh/ssh_host_ed25519_key"
    assert not key.is_symlink() and key.stat().st_mode & 0o777 == 0o600


def test_an_sshd_that_runs_is_told_after_the_keys_are_there(tmp_path: Path) -> None:
    facts = running(
        facts_of(tree(tmp_path, IMAGE), tools=("ssh-keygen", "systemctl")), running=True, unit="ssh.service"
    )
    _step, way = the_step(plan(altered(facts, init="systemd")))
    argv = ("systemctl", "--no-block", "try-reload-or-restart", "ssh.service")
    assert way.actions[-1] == Run(argv=argv, changes=False)


@pytest.mark.parametrize(("types", "told"), [((), "any type"), (("ed25519",), "ed25519")])
def test_where_nothing_would_be_made_nothing_goes(tmp_path: Path, types: tuple[str, ...], told: str) -> None:
    facts = facts_of(tree(tmp_path, IMAGE))
    facts = replace(facts, ssh=replace(facts.ssh, fips=True))
    (item,) = plan(facts, types=types)
    assert item == Caution(name=NAME, why=f"no key of {told} can be made here: the image's keys stay")


def test_without_ssh_keygen_nothing_goes_and_the_step_is_declined_by_name(tmp_path: Path) -> None:
    (step,) = plan(facts_of(tree(tmp_path, IMAGE), tools=()))
    assert isinstance(step, Step)
    assert step.ways == (Declined(backend="ssh-keygen", why="ssh-keygen is not installed"),)


def test_without_sshd_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert plan(facts_of(tree(tmp_path, {KEY.format("rsa"): WHOLE}))) == ()


def test_cut_off_after_any_action_the_next_run_makes_all_of_it_anew(tmp_path: Path) -> None:
    """Nothing is recorded before the end, so the same plan meets whatever the first left."""
    need("ssh-keygen")
    for cut in itertools.count():
        root = tmp_path / str(cut)
        machine = tree(root, IMAGE)
        step, way = the_step(plan(facts_of(machine)))
        short = replace(step, ways=(replace(way, actions=way.actions[:cut]),))
        apply_step(machine, short, journal=MemoryJournal(), deadline=float("inf"))
        again, _way = the_step(plan(facts_of(machine)))
        apply_step(machine, again, journal=MemoryJournal(), deadline=float("inf"))
        left = {path.name for path in (root / "etc/ssh").iterdir()} - {"sshd_config"}
        assert left == {f"ssh_host_{kind}_key{half}" for kind in EARLY for half in ("", ".pub")}
        assert not any("image" in (root / "etc/ssh" / name).read_text() for name in left)
        if cut > len(way.actions):
            break


def test_sshd_is_not_asked_to_judge_with_a_key_that_has_gone_by_then(tmp_path: Path) -> None:
    """It refuses to without one. Every key that HostKey lines name is made anew before, RSA too."""
    lines = "".join(f"HostKey {KEY.format(kind)}\n" for kind in ("rsa", "ecdsa", "ed25519"))
    facts = running(facts_of(tree(tmp_path, {**IMAGE, "/etc/ssh/sshd_config": lines})), privsep_dir=True)
    metadata = Metadata(username="ada", hostname="web-1", keys=(PublicKey(data=ed25519()),), disable_password=True)
    made = make_plan(PROVISION, Wanted(metadata=metadata, config=CONFIG, done=frozenset(), today=20000), facts)
    names = [item.name for item in made]
    assert names.index(NAME) < names.index("sshd")
    (sshd,) = [item for item in made if isinstance(item, Step) and item.name == "sshd"]
    (checked,) = [
        action.check for way in sshd.ways if isinstance(way, Way) for action in way.actions if isinstance(action, Write)
    ]
    assert checked == Run(argv=("sshd", "-t", "-h", KEY.format("rsa")), changes=False)
    _step, way = the_step(tuple(item for item in made if item.name == NAME))
    assert KEY.format("rsa") in [action.makes for action in way.actions if isinstance(action, Run)]


# ---- auto

AUTO = Config()
VM = "c0ffee00-1111-4222-8333-444444444444"
ADA = Metadata(username="ada", hostname="web-1", keys=(PublicKey(data=ed25519()),), disable_password=True)


def auto(machine: Machine, *done: str, own: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What goes."""
    facts = altered(read_facts(machine, AUTO), tools=frozenset(("ssh-keygen",)))
    made = make_plan(
        PROVISION, Wanted(metadata=ADA, config=AUTO, done=frozenset(done), today=20000, own_keys=frozenset(own)), facts
    )
    ways = [way for item in made if isinstance(item, Step) and item.name == NAME for way in item.ways]
    return tuple(
        action.path for way in ways if isinstance(way, Way) for action in way.actions if isinstance(action, Remove)
    )


def test_by_default_keys_at_sshd_s_own_paths_go_that_this_vm_did_not_make(tmp_path: Path) -> None:
    machine = tree(tmp_path, IMAGE)
    every = tuple(sorted(name for name in IMAGE if "ssh_host" in name))
    assert auto(machine) == every
    assert auto(machine, NAME) == ()
    own = KEY.format("ed25519")
    assert auto(machine, own=(own,)) == tuple(name for name in every if not name.startswith(own))
    assert auto(machine, own=tuple(KEY.format(kind) for kind in ("ed25519", "ecdsa", "rsa"))) == ()


def test_by_default_keys_elsewhere_stay_and_so_do_those_that_sshd_does_not_load(tmp_path: Path) -> None:
    other = {"/etc/ssh/sshd_config": "HostKey /etc/ssh/ssh_host_fleet_ed25519_key\n"}
    machine = tree(tmp_path, {**IMAGE, **other, "/etc/ssh/ssh_host_fleet_ed25519_key": WHOLE})
    assert auto(machine) == ()


def test_a_library_s_caller_has_no_image_and_keeps_every_key(tmp_path: Path) -> None:
    facts = altered(read_facts(tree(tmp_path, IMAGE), AUTO), tools=frozenset(("ssh-keygen",)))
    made = make_plan(PROVISION, Wanted(metadata=ADA, config=AUTO, done=frozenset(), today=20000), facts)
    assert NAME not in [item.name for item in made]


def boot(machine: Machine) -> Context:
    now = machine.clock.monotonic()
    return Context(machine=machine, config=AUTO, events=Events(clock=machine.clock), started=now, booted=now)


IDENTITY = Identity(vm_id=VM, instance=Instance(data_dir="/var/lib/azure-init", vm_id=VM))


def test_keys_made_early_are_known_as_this_vm_s_own_to_a_run_that_follows_a_death(tmp_path: Path) -> None:
    """The line is written before the first key is: wherever the run dies, no key is taken for the image's."""
    need("ssh-keygen")
    machine = tree(tmp_path, {"/etc/ssh/sshd_config": "", "/var/lib/azure-init/x": ""})
    context = boot(machine)
    journal = tmp_path / f"var/lib/azure-init/{VM}.journal"
    journal.write_bytes(b'{"done": "torn')
    early = begin_early(context, recall(context, IDENTITY))
    written = read_journal(machine, f"/var/lib/azure-init/{VM}.journal")
    early.wait()
    assert set(written.own_keys) == {KEY.format(kind) for kind in ("ed25519", "ecdsa", "rsa")}
    assert not written.begun, "nothing of the machine was changed yet that another VM had"
    assert (tmp_path / "etc/ssh/ssh_host_ed25519_key").exists()
    assert auto(machine, own=tuple(written.own_keys)) == ()


def test_where_only_imds_knows_the_id_they_are_recorded_when_it_has_told_it(tmp_path: Path) -> None:
    need("ssh-keygen")
    machine = tree(tmp_path, {"/etc/ssh/sshd_config": "", "/var/lib/azure-init/x": ""})
    context = boot(machine)
    memory = recall(context, Identity())
    early = begin_early(context, memory)
    early.wait()
    answers = {"imds": Metadata(vm_id=VM)}
    gathered = Gathered(answers=answers, failures={}, device=None)
    learn_identity(context, gathered, early, memory, Knowing(Known()), end_if_done=True)
    assert KEY.format("ed25519") in read_journal(machine, f"/var/lib/azure-init/{VM}.journal").own_keys


def test_an_image_with_keys_has_none_made_early_and_nothing_recorded(tmp_path: Path) -> None:
    need("ssh-keygen")
    machine = tree(tmp_path, {**IMAGE, "/var/lib/azure-init/x": ""})
    context = boot(machine)
    early = begin_early(context, recall(context, IDENTITY))
    assert early.keys == () and not (tmp_path / f"var/lib/azure-init/{VM}.journal").exists()


@pytest.mark.parametrize("line", ['{"host keys": 1}', '{"host keys": [1, null, {}]}', '{"host keys": "x"}'])
def test_a_damaged_record_of_own_keys_is_none(tmp_path: Path, line: str) -> None:
    machine = tree(tmp_path, {"/journal": f"{line}\n"})
    assert read_journal(machine, "/journal").own_keys == frozenset()
