"""The [kernel] settings in a whole run: planned, applied after Ready, nothing left to do, and undone."""

from __future__ import annotations

from support.bench import Bench, Benches
from support.trees import changed, listing

ASKED = {
    "scsi_timeout_secs": 300,
    "mask_persistent_net": True,
    "entropy": True,
    "numa_off": True,
    "serial_console": True,
}
OURS = {
    "etc/udev/rules.d/99-azure-init-scsi-timeout.rules",
    "etc/udev/rules.d/75-persistent-net-generator.rules",
    "etc/udev/rules.d/75-persistent-net-generator.rules.azure-init",
    "etc/default/grub.d/99-azure-init.cfg",
}
FILES = {
    "usr/sbin/grub-mkconfig": "#!/bin/sh\nfor x in ${sysconfdir}/default/grub.d/*.cfg ; do . $x; done\n",
    "boot/grub/grub.cfg": "linux /vmlinuz root=/dev/sda1 ro\n",
    "etc/default/grub.d/50-vendor.cfg": 'GRUB_CMDLINE_LINUX="quiet"\n',
    "usr/lib/udev/rules.d/75-persistent-net-generator.rules": "# packaged\n",
    "etc/udev/rules.d/10-site.rules": "# the site's own\n",
}


def machine(bench: Benches) -> Bench:
    one = bench()
    one.configure(kernel=ASKED)
    for name, text in FILES.items():
        (one.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (one.tree / name).write_text(text)
    return one


def test_what_is_asked_of_the_kernel_is_shown_done_and_taken_back(bench: Benches) -> None:
    one = machine(bench)
    image = listing(one.tree)
    shown = one.agent("plan").out
    for line in (
        "+ disk timeout rule: every new disk gets a timeout of 300 s",
        "+ mask 75-persistent-net-generator.rules: ",
        "+ kernel command line: numa=off console=ttyS0 earlyprintk=ttyS0: from the next boot on",
        '+GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX numa=off console=ttyS0 earlyprintk=ttyS0"',
        "! boot menu: takes effect when the boot menu is made anew, which is not possible here",
    ):
        assert line in shown
    assert listing(one.tree) == image
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert one.fabric.judge().ok
    done = listing(one.tree)
    assert changed(image, done) >= OURS
    told = ran.err
    assert told.index("reported Ready") < told.index("kernel command line")
    assert "0 to do" in one.agent("plan").out
    assert one.agent().status == 0  # as the next boot would
    assert {name: what for name, what in listing(one.tree).items() if name in OURS} == {
        name: what for name, what in done.items() if name in OURS
    }

    assert one.agent("deprovision", "--user", "--force").status == 0
    left = changed(image, listing(one.tree))
    assert not left & (OURS | set(FILES))


def test_a_later_boot_does_what_was_asked_since(bench: Benches) -> None:
    one = machine(bench)
    one.configure()
    assert one.agent().status == 0
    assert not OURS & listing(one.tree).keys()
    one.configure(kernel=ASKED)
    assert one.agent().status == 0
    assert listing(one.tree).keys() >= OURS


def test_one_that_cannot_be_done_is_told_and_leaves_verdict_and_the_others_alone(bench: Benches) -> None:
    one = machine(bench)
    rule = one.tree / "etc/udev/rules.d/99-azure-init-scsi-timeout.rules"
    rule.mkdir()
    (rule / "in the way").touch()
    (one.tree / "boot/grub/grub.cfg").unlink()
    ran = one.agent()
    assert (ran.status, one.fabric.judge().ok) == (0, True)
    assert "99-azure-init-scsi-timeout.rules" in ran.err
    assert "no known boot loader was found" in ran.err
