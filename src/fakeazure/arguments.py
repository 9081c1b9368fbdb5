"""The command line: the parsers of all verbs. Packaging reads `parser()` for the completions and the manual page."""

from __future__ import annotations

import argparse
from pathlib import Path

from fakeazure.machines.container import CONFIG, DRIVE, SHARED
from fakeazure.machines.options import MOST_BOOTS
from fakeazure.machines.reboots import SETTLED_SECS
from fakeazure.version import VERSION

SERVICES = ("imds", "wireserver", "hostplugin")
MACHINE_EXIT = """\
exit status: 0 the platform was told the truth in time; 1 it was not; 2 something is missing on this host, or the
command line, the scenario or the image is wrong; 128 + n stopped by signal n.
"""
RUN_DESCRIPTION = """\
Starts a platform on loopback, writes the provisioning medium, runs COMMAND, and prints what the platform was told.

COMMAND runs on this host with your privileges: an agent that runs as root changes this host. Give it a root
directory of its own (azure-init --root DIR), or use `fakeazure container` or `fakeazure boot`.

COMMAND finds the platform through its environment:
  FAKEAZURE_IMDS         base URL of the metadata service, e.g. http://127.0.0.1:40001
  FAKEAZURE_WIRESERVER   base URL of the wireserver (goal state, certificates, health reports)
  FAKEAZURE_HOSTPLUGIN   base URL of the host's plugin for guest agents (in Azure: port 32526)
  FAKEAZURE_MEDIA        the provisioning medium, an image file (absent if the scenario has none)
  FAKEAZURE_CONFIG       a configuration file for azure-init; AZURE_INIT_CONFIG names it too
  FAKEAZURE_KVP          a directory for key-value pools; the platform reads .kvp_pool_1 there, as Hyper-V does
  FAKEAZURE_LEDGER       the ledger, one JSON object per line, written as events happen
  FAKEAZURE_KEY          the private SSH key of the machine, unless the scenario lists keys
The medium is removed after a verdict, as in Azure. Where the scenario asks for the guest proxy agent, a stub of
azure-proxy-agent is first on the PATH.
"""
RUN_EXIT = """\
exit status: 0 the platform was told the truth in time; 1 it was not; 2 the command line or the scenario is wrong.
The exit status of COMMAND is shown and does not count. A command that does not provision (azure-init plan; any other
with --no-verdict) is not judged: if it reports nothing, fakeazure returns its exit status.

examples:
  fakeazure run imds-truncated -- azure-init --root DIR
  fakeazure run -- sh -c 'curl -sH Metadata:true "$FAKEAZURE_IMDS/metadata/instance?api-version=2023-11-15"'
"""
BOOT_DESCRIPTION = """\
Boots DISK under QEMU with the platform around it: the provisioning medium in its drive, Azure's firmware tables, DHCP,
the metadata service and the wireserver at their Azure addresses. Waits for the verdict, tries to log in as the
machine's owner would, powers it off, and prints what the platform was told. DISK is not changed, unless --keep is
given.
"""
BOOT_EXIT = f"""\
{MACHINE_EXIT}A scenario's within_secs counts from power on; an emulated machine is slower than Azure's.
"""
CONTAINER_DESCRIPTION = f"""\
Boots ROOT, the root directory of a system with systemd, as a container on a network of its own, where the platform
answers at 169.254.169.254 and 168.63.129.16 and assigns the machine's address by DHCP. After the verdict, the platform
logs in over SSH with the machine's key and password; then the machine is shut down. Needs root.

The container has
  eth0, eth1, ...        with the MAC addresses in its metadata; vf0, ... where the scenario has VFs
  {DRIVE}               the provisioning medium, as a block device; on hosts without loop devices
                         {SHARED}/provisioning.iso is the same as a file
  {CONFIG}
                         configuration of azure-init: a container has no firmware with a VM id
ROOT is not changed, unless --keep is given.
"""
SERVE_DESCRIPTION = """\
Listens for machines until Ctrl-C. Prints the address of each service, one per line, then each verdict when it is
reported, and at the end the judgement of each machine.

Machines are told apart
  by path     http://ADDRESS:PORT/vm/NAME/metadata/instance (NAME, or the machine's id); links have the same prefix
  by address  of the client; on loopback the first machine is 127.1.0.1, the next 127.1.0.2, and so on
A single machine needs neither: every request is this machine's, unless --by is given.
"""
SERVE_EXIT = """\
exit status: 0 the platform was told the truth about every machine; 1 it was not; 2 the command line or a scenario is
wrong, or fakeazure cannot listen at an address.

examples:
  fakeazure serve --imds 127.0.0.1:8080
  fakeazure serve imds-html --vms 1000 --by address --ledger ledgers/
  fakeazure serve --vm web.toml@10.0.0.5 --vm db.toml@10.0.0.6 --by address
"""
JUDGE_DESCRIPTION = "Prints what the platform was told, and whether that was true. Exit status: 0 it was; 1 it was not."
TELL_DESCRIPTION = """\
Sends a command to a running `fakeazure container` or `fakeazure boot`:
  imds NAME              make the change NAME of the scenario's [[imds.changes]]; returns when it is made
  reuse                  a customer takes the VM from its pool; its network changes in the following seconds
"""
BOOTS_HELP = f"""\
boot the machine N times (1 to {MOST_BOOTS}) with the same disk. A machine that has reported Ready need not report it
again: a later boot ends after a login was tried, or after {SETTLED_SECS:g} s if none can be tried"""

Verbs = argparse._SubParsersAction  # generic only for the type checker


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="fakeazure", description="Azure's provisioning platform on a laptop.", allow_abbrev=False
    )
    whole.add_argument("-V", "--version", action="version", version=f"fakeazure {VERSION}", help="print the version")
    verbs = whole.add_subparsers(dest="verb", metavar="VERB", required=True)
    add_run(verbs)
    add_boot(verbs)
    add_container(verbs)
    add_serve(verbs)
    one = verbs.add_parser("scenarios", help="list the shipped scenarios, one per line")
    one.add_argument("name", nargs="?", metavar="NAME", help="print the file of this scenario instead")
    one = verbs.add_parser("judge", help="print the verdict from a ledger", description=JUDGE_DESCRIPTION)
    one.add_argument("ledger", type=Path, metavar="LEDGER", help="a file that --ledger wrote")
    one.add_argument("--brief", action="store_true", help="only the verdict, without the timeline")
    one = verbs.add_parser("tell", help="send a command to a running container or boot", description=TELL_DESCRIPTION,
                           formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    one.add_argument("control", type=Path, metavar="CONTROL", help="the file given to its --control")
    one.add_argument("words", nargs="+", metavar="WORD", help="the command")
    one = verbs.add_parser("new", help="write a scenario file with every setting explained")
    one.add_argument("file", nargs="?", type=Path, metavar="FILE", help="default: standard output")
    return whole


def add_run(verbs: Verbs[argparse.ArgumentParser]) -> None:
    one = verbs.add_parser(
        "run",
        help="run a command with a platform around it",
        usage="fakeazure run [--ledger FILE] [--until-verdict] [--no-verdict] [--pools DIR] [SCENARIO] -- COMMAND...",
        description=RUN_DESCRIPTION,
        epilog=RUN_EXIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_scenario(one)
    add_ledger(one)
    one.add_argument(
        "--until-verdict", action="store_true", help="end the command after its verdict (for agents that keep running)"
    )
    one.add_argument(
        "--pools", type=Path, metavar="DIR", help="the command's key-value pools, if it is not to be configured"
    )
    one.add_argument(
        "--no-verdict",
        action="store_true",
        help="the command does not provision: it must report nothing, and its exit status counts "
        "(implied for azure-init plan and other verbs that do not report)",
    )


def add_boot(verbs: Verbs[argparse.ArgumentParser]) -> None:
    one = verbs.add_parser(
        "boot",
        help="boot a disk image under QEMU with a platform around it",
        description=BOOT_DESCRIPTION,
        epilog=BOOT_EXIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("disk", type=Path, metavar="DISK", help="a disk image: raw, qcow2, VHD, VHDX or VMDK")
    add_machine_options(one, image="DISK", off="power off")
    one.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto",
                     help="auto: KVM if a probe answers within two seconds, else emulation")  # fmt: skip
    one.add_argument("--memory", type=int, default=2048, metavar="MB", help="default: 2048")
    one.add_argument("--kernel", type=Path, metavar="FILE", help="start this kernel, without a boot loader")
    one.add_argument("--initrd", type=Path, metavar="FILE", help="with --kernel: its initial RAM disk")
    one.add_argument("--append", default="", metavar="TEXT", help="with --kernel: its command line")


def add_container(verbs: Verbs[argparse.ArgumentParser]) -> None:
    one = verbs.add_parser(
        "container",
        help="boot a root directory with a platform around it",
        description=CONTAINER_DESCRIPTION,
        epilog=MACHINE_EXIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("root", type=Path, metavar="ROOT", help="the root directory of a system with systemd")
    add_machine_options(one, image="ROOT", off="shut down")


def add_serve(verbs: Verbs[argparse.ArgumentParser]) -> None:
    one = verbs.add_parser(
        "serve",
        help="serve one machine or thousands, until Ctrl-C",
        description=SERVE_DESCRIPTION,
        epilog=SERVE_EXIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_scenario(one)
    for service in SERVICES:
        one.add_argument(f"--{service}", metavar="ADDR:PORT", help="where to listen; default: any port of 127.0.0.1")
    how_many = one.add_mutually_exclusive_group()
    how_many.add_argument("--vms", metavar="N", help="N machines of this scenario, NAME-1 to NAME-N")
    how_many.add_argument("--vm", action="append", metavar="FILE[@ADDR]", help="one machine; may be repeated")
    one.add_argument("--by", choices=("address", "path"), help="how machines are told apart; default, for many: path")
    one.add_argument("--ledger", type=Path, metavar="PLACE", help="one machine's ledger, or a directory for many")
    one.add_argument("--media", type=Path, metavar="DIR", help="directory for media and azure-init configurations")
    one.add_argument("--json", action="store_true", help="print JSON objects, one per line, instead of text")


def add_scenario(one: argparse.ArgumentParser) -> None:
    named = "a name from `fakeazure scenarios`, or a file; default: ordinary"
    one.add_argument("scenario", nargs="?", metavar="SCENARIO", help=named)


def add_ledger(one: argparse.ArgumentParser) -> None:
    one.add_argument("--ledger", type=Path, metavar="FILE", help="write the ledger to this file")


def add_machine_options(one: argparse.ArgumentParser, *, image: str, off: str) -> None:
    """What `boot` and `container` share: the fields of `MachineOptions`, and the scenario."""
    add_scenario(one)
    add_ledger(one)
    one.add_argument("--console", type=Path, metavar="FILE", help="write the machine's console to this file")
    one.add_argument("--keep", action="store_true", help=f"write to {image} itself, not to a layer over it")
    one.add_argument("--no-login", "--until-verdict", dest="login", action="store_false",
                     help=f"{off} right after the verdict; try no login")  # fmt: skip
    one.add_argument("--stay", action="store_true", help="keep the machine running until it powers off, or Ctrl-C")
    one.add_argument("--control", type=Path, metavar="FILE", help="make a socket there for `fakeazure tell`")
    one.add_argument("--boots", type=boot_count, default=1, metavar="N", help=BOOTS_HELP)


def boot_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_BOOTS):
        raise argparse.ArgumentTypeError(f"a number from 1 to {MOST_BOOTS}, not {text!r}")
    return int(text)
