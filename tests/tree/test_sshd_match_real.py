"""azure-init's rules for Match, Allow and Deny lines, compared with sshd on random configurations."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from azureinit.facts.sshd_answer import ADDING, parse_answer
from azureinit.facts.sshd_config import Walk, expand
from azureinit.plan.sshd_match import Client, in_force
from support.bounds import SEED, bounded
from support.need import need, unfit

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
USERS = ("root", "daemon", "nobody")
ADDRESSES = ("10.0.0.9", "203.0.113.9", "2001:db8::7")
WORDS = {
    "AllowUsers": ("root", "d*", "nobody@10.0.0.0/8", "*@203.0.113.*", "!root", "?oot"),
    "DenyUsers": ("daemon", "nob?dy", "root@::/0", "*@!10.0.0.9,*"),
    "AllowGroups": ("root", "nog*", "daemon"),
    "DenyGroups": ("nogroup", "r??t"),
    "PubkeyAuthentication": ("yes", "no"),
    "AuthorizedKeysFile": ("/etc/keys/%u", ".ssh/a .ssh/b", "none"),
    "AuthenticationMethods": ("password", "keyboard-interactive,password password"),
    "ForceCommand": ("none", "/bin/true"),
}
CRITERIA = (
    "User root",
    "User *,!root",
    "User d*,nobody",
    "Group root",
    "Group *,!nogroup",
    "Address 10.0.0.0/8",
    "Address !10.0.0.9,10.*",
    "Address 2001:db8::/32,203.0.113.9",
    "Host 203.0.113.*",
    "LocalPort 22",
    "LocalPort 2222",
    "User root Address 10.0.0.0/8",
    "all",
)


def make_config(chance: random.Random, directory: Path) -> Path:
    def lines(count: int) -> list[str]:
        return [f"{word} {chance.choice(WORDS[word])}" for word in (chance.choice(list(WORDS)) for _ in range(count))]

    text = lines(chance.randrange(3))
    for block in range(chance.randrange(4)):
        text += [f"Match {chance.choice(CRITERIA)}", *lines(chance.randrange(1, 4))]
        if chance.random() < 0.3:
            part = directory / f"part{block}"
            part.write_text("\n".join([*lines(1), f"Match {chance.choice(CRITERIA)}", *lines(2)]) + "\n")
            text.append(f"Include {part}")
    main = directory / "sshd_config"
    main.write_text("\n".join(text) + "\n")
    return main


@pytest.fixture(scope="module")
def host_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("sshd")
    privsep = Path("/run/sshd")
    if os.geteuid() == 0:
        privsep.mkdir(mode=0o755, exist_ok=True)
    if not privsep.is_dir():
        unfit("sshd does not answer without /run/sshd, which only root makes")
    path = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def groups_of(user: str) -> frozenset[str]:
    return frozenset(subprocess.run(["id", "-Gn", user], check=True, capture_output=True, text=True).stdout.split())


def test_our_reading_is_sshds_own(tmp_path: Path, host_key: Path) -> None:
    chance = random.Random(SEED)
    groups = {user: groups_of(user) for user in USERS}
    for number in range(bounded(60, 3000)):
        place = tmp_path / str(number)
        place.mkdir()
        main = make_config(chance, place)
        user, address = chance.choice(USERS), chance.choice(ADDRESSES)
        spec = f"user={user},host={address},addr={address},laddr=10.0.0.4,lport=22"
        ran = subprocess.run(
            [str(SSHD), "-T", "-C", spec, "-f", str(main), "-h", str(host_key)], capture_output=True, text=True
        )
        assert ran.returncode == 0, f"{main.read_text()}\n{ran.stderr}"
        answer = parse_answer(ran.stdout.encode(), adding=ADDING)
        read = Walk(
            str(main),
            read=lambda path: Path(path).read_bytes(),
            expand=lambda pattern: expand(pattern, lambda path: tuple(os.listdir(path))),
            aliases={},
        )
        client = Client(user=user, groups=groups[user], address=address, host=address)
        values = in_force(read.directives, client)
        for word in (name.lower() for name in WORDS):
            own = tuple(argument for value in values.get(word, ()) for argument in value.arguments)
            if own:
                assert answer.get(word) == own, f"seed {SEED}, {spec}\n{main.read_text()}"
            else:
                assert answer.get(word, ("any",))[0] in ("any", "none", "yes", ".ssh/authorized_keys"), main.read_text()
