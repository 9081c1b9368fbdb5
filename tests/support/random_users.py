"""Random documents about users, passwords and ssh: most pass validation, many contradict themselves."""

from __future__ import annotations

from random import Random
from typing import Any

from support.ssh_trees import ed25519

KEYS = [ed25519("a"), ed25519("b"), "ssh-rsa broken", f'from="10.0.0.0/8" {ed25519("c")}']
NAMES = ["default", "ada", "bob", "eve", "legacy", "root", "docker", "-x", "ü", "1000"]
HASHES = ["$6$saltsalt$" + "h" * 86, "!", "*", "", "$6$short", "x" * 13]
SHELLS = ["/bin/bash", "/bin/zsh", "/bin/false", "/usr/sbin/nologin", "bash", "/none"]
SETTINGS: dict[str, list[Any]] = {
    "gecos": ["", "A. B.", "a:b"],
    "homedir": ["/srv/x", "/home/ada", "/home/legacy", "rel", "/", "/srv/../etc", "/var/x/y/z"],
    "primary_group": ["adm", "fresh", "4", "ada"],
    "groups": ["adm, sudo", ["docker", "fresh"], "", [], {"adm": None}, ["bob"]],
    "no_create_home": [True, False],
    "no_user_group": [True, False],
    "no_log_init": [True],
    "create_groups": [True, False],
    "system": [True, False],
    "shell": SHELLS,
    "uid": [0, 1000, 1001, "4000", "x", 70000, -1],
    "sudo": ["ALL=(ALL) NOPASSWD:ALL", ["ALL=(ALL) ALL", "ALL=(root) /bin/ls"], False, None, [], "ALL=(ALL) !ALL"],
    "doas": [["permit nopass bob"], ["permit ada as root cmd /bin/ls"], ["bad"]],
    "lock_passwd": [True, False],
    "passwd": HASHES,
    "hashed_passwd": HASHES,
    "plain_text_passwd": ["", "pässword", "a b", "x\ny"],
    "expiredate": ["2030-01-01", "soon", "1999-01-01"],
    "inactive": ["5", "-1", "x"],
    "selinux_user": ["staff_u"],
    "ssh_authorized_keys": [[KEYS[0]], KEYS[:2], KEYS[2:3], KEYS[3], []],
    "ssh_import_id": [["gh:x"], "lp:y", ["--x"]],
    "ssh_redirect_user": [True, False],
    "snapuser": ["a@example.org"],
}


def random_document(random: Random) -> dict[str, Any]:
    """A mapping. It is YAML as JSON writes it."""

    def user() -> Any:
        if random.random() < 0.25:
            return random.choice(NAMES)
        keys = random.sample(sorted(SETTINGS), random.randint(0, 5))
        made = {key: random.choice(SETTINGS[key]) for key in keys}
        return {**made, "name": random.choice(NAMES)} if random.random() < 0.9 else made

    def password() -> dict[str, Any]:
        kind = random.choice(["hash", "text", "RANDOM"])
        made = {"name": random.choice(NAMES), "type": kind}
        return made if kind == "RANDOM" else {**made, "password": random.choice(HASHES)}

    lines = ["bob:x", "ada:R", f"legacy:{HASHES[0]}", "ada:a:b", ":x", "noone:y"]
    container = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU="
    private = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{container}\n-----END OPENSSH PRIVATE KEY-----\n"
    whole: dict[str, Any] = {
        "users": [user() for _ in range(random.randint(0, 4))],
        "user": user(),
        "groups": random.choice(["a,b", ["a", {"b": ["ada", "bob"]}], {"adm": "bob", "-x": []}]),
        "ssh_authorized_keys": random.sample(KEYS, 2),
        "ssh_keys": random.choice([{"rsa_private": private}, {"rsa_public": "x"}, {"ed25519_private": "bad"}]),
        "ssh_genkeytypes": random.sample(["rsa", "ecdsa", "ed25519"], random.randint(0, 3)),
        "ssh_deletekeys": random.choice([True, False]),
        "disable_root": random.choice([True, False]),
        "disable_root_opts": random.choice(["", 'command="no"', "bad\noption"]),
        "allow_public_ssh_keys": random.choice([True, False]),
        "ssh_pwauth": random.choice([True, False, "yes", "no", "unchanged", "maybe"]),
        "password": random.choice(["x", "", "R", HASHES[0]]),
        "chpasswd": random.choice(
            [
                {"expire": random.choice([True, False]), "users": [password() for _ in range(random.randint(0, 3))]},
                {"expire": random.choice([True, False]), "list": random.sample(lines, 2)},
                {"list": "\n".join(random.sample(lines, 3))},
            ]
        ),
        "ssh_import_id": [random.choice(["gh:x", "-y"])],
    }
    return {key: whole[key] for key in random.sample(sorted(whole), random.randint(1, 5))}
