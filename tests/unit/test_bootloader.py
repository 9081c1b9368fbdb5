"""Words for the kernel command line: which file gets them, which are present already, and their removal."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.apply.executor import apply_step
from azureinit.facts.bootloader import (
    ADDED,
    BEGIN,
    DEFAULTS,
    DROPIN,
    GRUB,
    Loader,
    parse_added,
    parse_assignments,
    parse_entry,
    parse_environment,
    parse_menu,
    read_loader,
    without_block,
)
from azureinit.facts.kernel import HEADER
from azureinit.machine import Machine
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import Caution, MakeDir, Remove, Run, Satisfied, Step, Way, Write
from azureinit.plan.kernel import plan_arguments, plan_kernel_undo
from azureinit.record import replace
from support.trees import changed, listing

SERIAL = ("console=ttyS0", "earlyprintk=ttyS0")
DEBIAN_MKCONFIG = "#!/bin/sh\nfor x in ${sysconfdir}/default/grub.d/*.cfg ; do . $x; done\n"
PLAIN_MKCONFIG = "#!/bin/sh\n. ${sysconfdir}/default/grub\n"
MENU = "menuentry 'Linux' {\n\tlinux\t/boot/vmlinuz-6.1 root=UUID=1 ro  quiet\n\tinitrd /boot/initrd\n}\n"
ENTRY = "title Linux\nlinux /vmlinuz-5.14\noptions root=UUID=1 ro $kernelopts\n"
SUSE = 'GRUB_TIMEOUT=8\nGRUB_CMDLINE_LINUX=""\nGRUB_CMDLINE_LINUX_DEFAULT="splash=silent quiet"'  # no line feed
FLATCAR = 'set oem_id="azure"\nset linux_append="flatcar.oem.id=azure"\n'


def tree(root: Path, files: dict[str, str]) -> Machine:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Machine(root=str(root))


def actions(plan: tuple[object, ...]) -> tuple[object, ...]:
    (step,) = (item for item in plan if isinstance(item, Step))
    (way,) = step.ways
    assert isinstance(way, Way)
    return way.actions


def carry_out(machine: Machine, plan: tuple[object, ...]) -> None:
    for item in plan:
        if isinstance(item, Step):
            apply_step(machine, item, journal=MemoryJournal(), deadline=float("inf"))


def undo(loader: Loader) -> tuple[object, ...]:
    return plan_kernel_undo(timeout_rules=None, rules=(), loader=loader)


# ---- which one it is, and there and back again

GRUB_TREE = {"boot/grub/grub.cfg": MENU}
TREES: dict[str, tuple[dict[str, str], str, str]] = {  # files, kind, the file that changes
    "drop-ins": (
        {**GRUB_TREE, "usr/sbin/grub-mkconfig": DEBIAN_MKCONFIG, "etc/default/grub.d/10-vendor.cfg": ""},
        "grub drop-in",
        DROPIN,
    ),
    "defaults": (
        {"boot/grub2/grub.cfg": MENU, "usr/sbin/grub2-mkconfig": PLAIN_MKCONFIG, "etc/default/grub": SUSE},
        "grub defaults",
        DEFAULTS,
    ),
    "oem": ({"oem/grub.cfg": FLATCAR}, "grub of the OEM", "/oem/grub.cfg"),
    "kernel-install": ({"etc/kernel/cmdline": "root=LABEL=root  ro"}, "kernel-install", "/etc/kernel/cmdline"),
}


@pytest.mark.parametrize("name", TREES)
def test_words_come_and_go_and_nothing_else_changes(tmp_path: Path, name: str) -> None:
    files, kind, path = TREES[name]
    machine = tree(tmp_path, files)
    before = listing(tmp_path)
    loader = read_loader(machine)
    assert (loader.kind, loader.path) == (kind, path)
    carry_out(machine, plan_arguments(("numa=off", *SERIAL), loader))
    note = {ADDED.lstrip("/")} if kind == "kernel-install" else set()
    assert changed(before, listing(tmp_path)) == {path.lstrip("/"), *note}
    text = (tmp_path / path.lstrip("/")).read_text()
    assert all(text.count(word) == 1 for word in ("numa=off", *SERIAL))
    again = plan_arguments(("numa=off", *SERIAL), read_loader(machine))
    assert not [item for item in again if isinstance(item, Step)]
    carry_out(machine, undo(read_loader(machine)))
    assert changed(before, listing(tmp_path)) == set()
    assert undo(read_loader(machine)) == ()


@pytest.mark.parametrize(("name", "speaks"), [("drop-ins", True), ("defaults", True), ("oem", False)])
def test_what_cannot_be_done_under_another_root_is_said(tmp_path: Path, name: str, *, speaks: bool) -> None:
    plan = plan_arguments(SERIAL, read_loader(tree(tmp_path, TREES[name][0])))
    assert [item.name for item in plan if isinstance(item, Caution)] == (["boot menu"] if speaks else [])
    assert not [action for action in actions(plan) if isinstance(action, Run)]


def test_no_known_boot_loader_is_said(tmp_path: Path) -> None:
    # GRUB's programs are here, as on a machine that only builds images; it does not boot by them.
    machine = tree(tmp_path, {"usr/sbin/grub-mkconfig": DEBIAN_MKCONFIG, "etc/default/grub": SUSE})
    (item,) = plan_arguments(SERIAL, read_loader(machine))
    assert isinstance(item, Caution)
    assert item.why == "no known boot loader was found: add console=ttyS0 earlyprintk=ttyS0 by hand"
    assert undo(read_loader(machine)) == ()


@pytest.mark.parametrize(
    "line",
    [
        'GRUB_CMDLINE_LINUX="console=ttyS0 earlyprintk=ttyS0"',
        "GRUB_CMDLINE_LINUX_DEFAULT='console=tty1 console=ttyS0,115200n8 earlyprintk=ttyS0,115200'",
    ],
)
def test_words_that_are_there_are_not_added_twice(tmp_path: Path, line: str) -> None:
    files = {**TREES["drop-ins"][0], "etc/default/grub.d/50-azure.cfg": f"{line}\n"}
    words = line.split("=", 1)[1].strip("\"'")
    files["boot/grub/grub.cfg"] = f"linux /vmlinuz {words}\n"
    plan = plan_arguments(SERIAL, read_loader(tree(tmp_path, files)))
    assert plan == (Satisfied(name="kernel command line", why="has console=ttyS0 earlyprintk=ttyS0"),)


def test_another_console_stays_and_ours_is_added(tmp_path: Path) -> None:
    files = {**TREES["drop-ins"][0], "etc/default/grub": 'GRUB_CMDLINE_LINUX="console=tty0 earlyprintk=ttyS0"\n'}
    machine = tree(tmp_path, files)
    carry_out(machine, plan_arguments(SERIAL, read_loader(machine)))
    ours = (tmp_path / DROPIN.lstrip("/")).read_bytes()
    assert ours == HEADER + b'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX console=ttyS0"\n'
    assert (tmp_path / "etc/default/grub").read_text() == files["etc/default/grub"]


def test_a_word_that_is_asked_for_no_longer_leaves_our_own_file(tmp_path: Path) -> None:
    machine = tree(tmp_path, TREES["drop-ins"][0])
    carry_out(machine, plan_arguments(("numa=off", *SERIAL), read_loader(machine)))
    carry_out(machine, plan_arguments(SERIAL, read_loader(machine)))
    assert "numa=off" not in (tmp_path / DROPIN.lstrip("/")).read_text()


def test_the_directory_of_drop_ins_is_made_where_it_is_missing(tmp_path: Path) -> None:
    files = {**GRUB_TREE, "usr/sbin/grub-mkconfig": DEBIAN_MKCONFIG, "etc/default/grub": SUSE}
    plan = plan_arguments(SERIAL, read_loader(tree(tmp_path, files)))
    assert [type(action) for action in actions(plan)] == [MakeDir, Write]


# ---- a file that is read after ours

LATER = "etc/default/grub.d/zz-site.cfg"
WHOLE = 'GRUB_CMDLINE_LINUX="console=ttyS0"\n'


def test_words_that_a_later_file_would_drop_are_told_and_no_menu_is_made_for_them(tmp_path: Path) -> None:
    machine = tree(tmp_path, TREES["drop-ins"][0])
    carry_out(machine, plan_arguments(SERIAL, read_loader(machine)))
    tree(tmp_path, {LATER: WHOLE})
    loader = replace(read_loader(machine), remake=(("update-grub",),), rooted=False)
    (item,) = plan_arguments(SERIAL, loader)
    assert isinstance(item, Caution)
    assert item.why == (
        "earlyprintk=ttyS0 would have no effect: /etc/default/grub.d/zz-site.cfg is read after "
        "/etc/default/grub.d/99-azure-init.cfg and sets the whole GRUB_CMDLINE_LINUX: "
        "begin its value with $GRUB_CMDLINE_LINUX, or give it a name before 99-azure-init.cfg"
    )
    (tmp_path / LATER).write_text('GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX console=ttyS0"\n')
    mended = replace(read_loader(machine), remake=loader.remake, rooted=False)
    assert Run(argv=("update-grub",), timeout=300.0) in actions(plan_arguments(SERIAL, mended))
    carry_out(machine, undo(read_loader(machine)))
    assert not (tmp_path / DROPIN.lstrip("/")).exists()


def test_nothing_is_written_that_would_not_arrive(tmp_path: Path) -> None:
    machine = tree(tmp_path, {**TREES["drop-ins"][0], LATER: WHOLE})
    assert [type(item) for item in plan_arguments(SERIAL, read_loader(machine))] == [Caution]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (LATER, 'GRUB_CMDLINE_LINUX="console=ttyS0 earlyprintk=ttyS0"\n'),  # the very words
        (LATER, 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'),
        ("etc/default/grub.d/50-site.cfg", WHOLE),  # read before
        ("etc/default/grub.d/zz-site.cfg.bak", WHOLE),  # not read
    ],
)
def test_a_file_that_drops_nothing_of_ours_changes_nothing(tmp_path: Path, name: str, text: str) -> None:
    plan = plan_arguments(SERIAL, read_loader(tree(tmp_path, {**TREES["drop-ins"][0], name: text})))
    assert "kernel command line" not in {item.name for item in plan if isinstance(item, Caution)}


# ---- the running system's menu


def test_a_menu_that_lacks_the_words_is_made_anew_though_the_file_has_them() -> None:
    data = HEADER + b'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX console=ttyS0 earlyprintk=ttyS0"\n'
    remake = (("update-grub",),)
    loader = Loader(kind="grub drop-in", path=DROPIN, data=data, menu=frozenset({"quiet"}), remake=remake)
    assert actions(plan_arguments(SERIAL, loader)) == (Run(argv=("update-grub",), timeout=300.0),)


def test_going_back_what_says_that_it_is_ours_goes_last() -> None:
    data = HEADER + b'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX numa=off"\n'
    loader = Loader(kind="grub drop-in", path=DROPIN, data=data, remake=(("update-grub",),))
    emptied, run, gone = actions(undo(loader))
    assert isinstance(emptied, Write) and emptied.data == HEADER
    assert isinstance(run, Run) and gone == Remove(path=DROPIN)
    block = Loader(
        kind="grub defaults", path=DEFAULTS, data=b"A=b" + BEGIN + b"x\n# azure-init: end\n", remake=loader.remake
    )
    first, _run, last = actions(undo(block))
    assert isinstance(first, Write) and isinstance(last, Write)
    assert (last.data, last.was) == (b"A=b", first.data)


def test_somebody_else_s_file_of_that_name_does_not_go() -> None:
    assert undo(Loader(kind="grub drop-in", path=DROPIN, data=b"GRUB_TIMEOUT=0\n")) == ()


# ---- grubby

RHEL = {"usr/sbin/grubby": "", "boot/loader/entries/1.conf": ENTRY, "boot/loader/entries/2.conf": ENTRY}


def test_grubby_changes_every_entry_and_only_the_running_system_s(tmp_path: Path) -> None:
    machine = tree(tmp_path, {**RHEL, "boot/grub2/grubenv": "# GRUB Environment Block\nkernelopts=quiet\n"})
    loader = read_loader(machine)
    assert (loader.kind, loader.menu) == ("grubby", frozenset({"root=UUID=1", "ro", "quiet"}))
    (item,) = plan_arguments(SERIAL, loader)
    assert isinstance(item, Caution) and "the running system only" in item.why


def test_what_grubby_adds_is_written_down_first_and_only_what_nobody_had() -> None:
    loader = Loader(kind="grubby", menu=frozenset({"ro"}), words=frozenset({"ro", "console=ttyS0"}))
    note, run = actions(plan_arguments(SERIAL, loader))
    assert isinstance(note, Write) and isinstance(note.data, bytes)
    assert (note.path, parse_added(note.data)) == (ADDED, ("earlyprintk=ttyS0",))
    assert isinstance(run, Run)
    assert run.argv == ("grubby", "--update-kernel=ALL", "--args=console=ttyS0 earlyprintk=ttyS0")


def test_grubby_takes_back_what_is_written_down() -> None:
    loader = Loader(kind="grubby", added=("earlyprintk=ttyS0",), noted=True)
    run, gone = actions(undo(loader))
    assert isinstance(run, Run) and run.argv[-1] == "--remove-args=earlyprintk=ttyS0"
    assert gone == Remove(path=ADDED)


def test_entries_that_all_have_the_words_need_nothing() -> None:
    loader = Loader(kind="grubby", menu=frozenset(SERIAL), added=SERIAL, noted=True)
    (item,) = plan_arguments(SERIAL, loader)
    assert isinstance(item, Satisfied)


# ---- kernel-install


def test_a_vendor_s_command_line_is_copied_and_the_copy_goes_again(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"usr/lib/kernel/cmdline": "root=LABEL=root rw\n", "etc/os-release": ""})
    before = listing(tmp_path)
    carry_out(machine, plan_arguments(("numa=off",), read_loader(machine)))
    assert (tmp_path / "etc/kernel/cmdline").read_text() == "root=LABEL=root rw numa=off\n"
    carry_out(machine, undo(read_loader(machine)))
    assert changed(before, listing(tmp_path)) == {"etc/kernel"}


def test_of_a_word_that_is_there_twice_ours_goes(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"etc/kernel/cmdline": "ro\n"})
    carry_out(machine, plan_arguments(("numa=off",), read_loader(machine)))
    (tmp_path / "etc/kernel/cmdline").write_text("numa=off ro numa=off x\n")
    carry_out(machine, undo(read_loader(machine)))
    assert (tmp_path / "etc/kernel/cmdline").read_text() == "numa=off ro x\n"


# ---- what the files say


@given(st.binary())
def test_no_file_is_too_strange(data: bytes) -> None:
    assert "" not in parse_assignments((data,), GRUB) | parse_menu(data) | parse_entry(data, parse_environment(data))
    assert "" not in parse_added(data)


@given(st.binary(), st.binary())
def test_our_lines_leave_a_file_as_it_was(before: bytes, lines: bytes) -> None:
    if BEGIN not in before and b"# azure-init: end\n" not in lines:
        assert without_block(before + BEGIN + lines + b"# azure-init: end\n") == before


def test_the_words_of_a_menu_are_those_of_its_kernels() -> None:
    text = "set x=y\n linux /a one\n\tlinuxefi /b two three\ninitrd /c four\nlinux16 /memtest\n"
    assert parse_menu(text.encode()) == {"one", "two", "three"}
