"""The kernel command line, changed by a distribution's real tools in a chroot: the menu before, after, and undone."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.container import PROJECT, debian_root
from support.need import need, need_root, unfit

SIZE = 1 << 30
START = 1 << 20
SOON = 10.0
VM_ID = "c0ffee00-1111-2222-3333-444444444444"
ENTER = """
mount "$1" "$2" && mount -t proc proc "$2/proc" && mount -t sysfs sysfs "$2/sys" || exit 1
mount --rbind /dev "$2/dev"
mount --bind "$3/src" "$2/mnt"
exec env -i PATH=/usr/sbin:/usr/bin PYTHONPATH=/mnt PYTHONDONTWRITEBYTECODE=1 chroot "$2" sh -ec "$4"
"""
# A machine that is provisioned, so that the run does no more than every boot does.
PREPARE = f"""
mkdir -p /etc/azure-init /var/lib/azure-init /boot/grub
touch /var/lib/azure-init/{VM_ID}.provisioned
cat >/etc/azure-init/azure-init.toml <<'END'
[platform]
require_azure = false
vm_id = "{VM_ID}"
[disk]
grow_root = false
[telemetry]
console = false
trace = false
[kernel]
scsi_timeout_secs = 300
mask_persistent_net = true
numa_off = true
serial_console = true
END
echo 'no kernel' >/boot/vmlinuz-6.1.0-test
mkdir -p /usr/lib/modules/6.1.0-test
snap() {{ cd /; for f in $(find etc boot -type f -o -type l | sort); do
    test -L "$f" && echo "$f -> $(readlink "$f")" || sha256sum "$f"; done; }}
"""


class Disk:
    """A distribution on a partition of a disk: what it boots from can be asked of it."""

    def __init__(self, partition: str, place: Path) -> None:
        self.partition, self.place = partition, place

    def run(self, script: str) -> str:
        command = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh")
        given = (self.partition, str(self.place), str(PROJECT), PREPARE + script)
        ran = subprocess.run((*command, *given), capture_output=True, text=True, timeout=100)
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
        return ran.stdout


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    need_root()
    for tool in ("losetup", "partx", "sfdisk", "mke2fs"):
        need(tool)
    root = debian_root("trixie", "grub-pc-bin", "grub2-common", "udev")
    image, point = tmp_path / "disk", tmp_path / "mounted"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZE)
    run("sfdisk", "--quiet", str(image), text=f"label: dos\nstart={START // 512}, type=linux\n")
    run(
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-d",
        str(root),
        "-E",
        f"offset={START}",
        str(image),
        f"{SIZE // 1024 - 2048}k",
    )
    try:
        loop = run("losetup", "--find", "--show", str(image))
    except subprocess.CalledProcessError as error:
        unfit(f"no loop device: {error.stderr.strip()}")
        return
    try:
        subprocess.run(("partx", "--add", loop), capture_output=True, check=False)  # some kernels were quicker
        yield Disk(f"{loop}p1", point)
    finally:
        until = time.monotonic() + SOON
        while list(Path("/sys/block", Path(loop).name).glob(f"{Path(loop).name}p*")):
            assert time.monotonic() < until, f"{loop} is busy"
            subprocess.run(("partx", "--delete", loop), capture_output=True, check=False)
        run("losetup", "--detach", loop)


def run(*command: str, text: str = "") -> str:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def part(told: str, name: str) -> str:
    """What was said between two marks."""
    return told.partition(f"=== {name}\n")[2].partition("=== ")[0]


def test_grub_s_own_menu_has_the_words_and_loses_them_again(disk: Disk) -> None:
    told = disk.run("""
    cp /usr/share/grub/default/grub /etc/default/grub
    echo 'GRUB_CMDLINE_LINUX="console=tty1"' >>/etc/default/grub
    mkdir -p /usr/lib/udev/rules.d; echo '# packaged' >/usr/lib/udev/rules.d/75-persistent-net-generator.rules
    echo '# eth0' >/etc/udev/rules.d/70-persistent-net.rules
    update-grub 2>/dev/null
    snap >/tmp/before
    python3 -m azureinit 2>&1
    echo '=== menu'; grep -P '^\\tlinux' /boot/grub/grub.cfg
    echo '=== changed'; snap | diff /tmp/before - | grep -o '[>].*' | sed 's/.* \\(etc\\|boot\\)/\\1/' || true
    echo '=== rules'; udevadm verify && echo sound
    echo '=== again'; snap >/tmp/after; python3 -m azureinit 2>&1; snap | cmp - /tmp/after && echo the same
    echo '=== died'; sed -i 's/ console=ttyS0//' /boot/grub/grub.cfg; python3 -m azureinit 2>&1
    grep -c console=ttyS0 /boot/grub/grub.cfg
    cp /boot/grub/grub.cfg /tmp/grub.cfg
    echo '=== deprovision'; python3 -m azureinit deprovision --force
    echo '=== after'; snap | diff /tmp/before - || true
    cat /usr/lib/udev/rules.d/75-persistent-net-generator.rules
    """)
    (menu,) = part(told, "menu").splitlines()
    assert menu.split()[-6:] == ["ro", "console=tty1", "numa=off", "console=ttyS0", "earlyprintk=ttyS0", "quiet"]
    assert set(part(told, "changed").split("\n")) >= {
        "boot/grub/grub.cfg",
        "etc/default/grub.d/99-azure-init.cfg",
        "etc/udev/rules.d/99-azure-init-scsi-timeout.rules",
    }
    assert "sound" in part(told, "rules") and "the same" in part(told, "again")
    assert "to the kernel command line" not in part(told, "again")
    assert "earlyprintk=ttyS0 to the kernel command line" in part(told, "died") and part(told, "died").strip().endswith(
        "3"
    )
    shown = part(told, "deprovision")
    assert "run update-grub" in shown and "remove /etc/default/grub.d/99-azure-init.cfg" in shown
    left = [line.split()[-1] for line in part(told, "after").splitlines() if line[:1] in "<>"]
    # The machine's own name and addresses went too: that rule was of one machine, and no image has it.
    assert set(left) <= {
        "etc/udev/rules.d/70-persistent-net.rules",
        "etc/machine-id",
        "etc/hostname",
        "etc/resolv.conf",
    }
    assert "boot/grub/grub.cfg" not in left and "# packaged" in part(told, "after")


def test_words_that_a_later_drop_in_drops_are_told_and_the_menu_is_made_again_only_when_it_helps(disk: Disk) -> None:
    told = disk.run("""
    cp /usr/share/grub/default/grub /etc/default/grub
    mkdir -p /etc/default/grub.d; echo 'GRUB_CMDLINE_LINUX="console=tty1"' >/etc/default/grub.d/zz-site.cfg
    update-grub 2>/dev/null
    echo '=== dropped'; python3 -m azureinit 2>&1
    sed -i 's/="/="$GRUB_CMDLINE_LINUX /' /etc/default/grub.d/zz-site.cfg
    echo '=== mended'; python3 -m azureinit 2>&1
    echo '=== menu'; grep -P '^\\tlinux' /boot/grub/grub.cfg
    echo '=== again'; python3 -m azureinit 2>&1
    echo 'GRUB_CMDLINE_LINUX="console=tty1"' >/etc/default/grub.d/zz-site.cfg; update-grub 2>/dev/null
    echo '=== dropped again'; grep -c ttyS0 /boot/grub/grub.cfg || true; python3 -m azureinit 2>&1
    """)
    for name in ("dropped", "dropped again"):
        assert "would have no effect: /etc/default/grub.d/zz-site.cfg is read after" in part(told, name), told
        assert "to the kernel command line" not in part(told, name)
    assert part(told, "dropped again").startswith("0\n"), "grub-mkconfig reads them in the order that we say"
    assert "earlyprintk=ttyS0 to the kernel command line" in part(told, "mended")
    assert "numa=off console=ttyS0 earlyprintk=ttyS0 console=tty1" in part(told, "menu")
    assert "to the kernel command line" not in part(told, "again") and "would have no effect" not in part(told, "again")


def test_where_there_are_no_drop_ins_lines_of_ours_stand_at_the_end_of_the_defaults(disk: Disk) -> None:
    told = disk.run("""
    sed -i 's,default/grub.d/,default/no-such.d/,' /usr/sbin/grub-mkconfig
    rm /usr/sbin/update-grub
    cp /usr/share/grub/default/grub /etc/default/grub
    printf 'GRUB_TIMEOUT=1' >>/etc/default/grub
    grub-mkconfig -o /boot/grub/grub.cfg 2>/dev/null
    cp /boot/grub/grub.cfg /tmp/menu; cp /etc/default/grub /tmp/defaults
    python3 -m azureinit 2>&1
    echo '=== menu'; grep -P '^\\tlinux' /boot/grub/grub.cfg
    echo '=== back'; python3 -m azureinit deprovision --force >/dev/null
    cmp /boot/grub/grub.cfg /tmp/menu && cmp /etc/default/grub /tmp/defaults && echo the same
    """)
    assert "numa=off console=ttyS0 earlyprintk=ttyS0 quiet" in part(told, "menu")
    assert part(told, "back").strip() == "the same"


def test_the_real_kernel_install_writes_the_words_into_its_entries(disk: Disk) -> None:
    told = disk.run("""
    echo 0123456789abcdef0123456789abcdef >/etc/machine-id
    mkdir -p /boot/loader/entries /etc/kernel
    echo layout=bls >/etc/kernel/install.conf
    printf 'root=LABEL=root ro' >/etc/kernel/cmdline
    export SYSTEMD_LOG_LEVEL=warning KERNEL_INSTALL_BYPASS=0
    kernel-install --make-entry-directory=yes add 6.1.0-test /boot/vmlinuz-6.1.0-test
    cat /boot/loader/entries/*.conf >/tmp/entry
    python3 -m azureinit 2>&1
    echo '=== entry'; grep options /boot/loader/entries/*.conf
    echo '=== again'; python3 -m azureinit 2>&1
    echo '=== back'; python3 -m azureinit deprovision --force 2>&1
    echo '=== after'; cat /etc/kernel/cmdline; echo; ls /etc/azure-init.kernel-arguments 2>&1 || true
    grep options /boot/loader/entries/*.conf
    """)
    assert "root=LABEL=root ro numa=off console=ttyS0 earlyprintk=ttyS0" in part(told, "entry"), told
    assert "to the kernel command line" not in part(told, "again")
    assert part(told, "after").startswith("root=LABEL=root ro\n")
    assert "No such file" in part(told, "after") and "ttyS0" not in part(told, "after")


# What grubby does to entries, as far as we ask it to; the real one is not to be had on this distribution.
GRUBBY = """#!/bin/sh
test "$1" = --update-kernel=ALL || exit 1
for entry in /boot/loader/entries/*.conf; do
    case $2 in
    --args=*) sed -i "s/^options.*/& ${2#--args=}/" "$entry" ;;
    --remove-args=*) for word in ${2#--remove-args=}; do sed -i "s/ $word\\b//" "$entry"; done ;;
    esac
done
"""


def test_where_grubby_is_here_it_is_asked(disk: Disk) -> None:
    told = disk.run(f"""
    cat >/usr/sbin/grubby <<'END'
{GRUBBY}END
    chmod +x /usr/sbin/grubby
    mkdir -p /boot/loader/entries
    for n in 1 2; do
        printf 'linux /vmlinuz\\noptions root=UUID=1 ro console=tty0\\n' >/boot/loader/entries/$n.conf
    done
    snap >/tmp/before
    python3 -m azureinit 2>&1
    echo '=== entry'; grep -h options /boot/loader/entries/*.conf
    echo '=== again'; python3 -m azureinit 2>&1
    echo '=== back'; python3 -m azureinit deprovision --force 2>&1
    snap | diff /tmp/before - | grep -v 'etc/machine-id\\|etc/hostname\\|etc/resolv' || echo the same
    """)
    line = "options root=UUID=1 ro console=tty0 numa=off console=ttyS0 earlyprintk=ttyS0\n"
    assert part(told, "entry") == line * 2
    assert "to the kernel command line" not in part(told, "again")
    assert "run grubby --update-kernel=ALL '--remove-args=numa=off console=ttyS0 earlyprintk=ttyS0'" in told
