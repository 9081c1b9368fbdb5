"""A login over SSH, with the machine's key and with its password."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fakeazure.judge import says_no_login
from fakeazure.platform.events import Login

if TYPE_CHECKING:
    from fakeazure.platform.machine import Machine

ASK = '#!/bin/sh\nexec cat "$0.secret"\n'
ANSWERER = "answer"
REFUSED = "Permission denied"
REFUSALS = 3  # sshd may still use the old configuration during a reload
PAUSE = 0.5
DENIED_SECS = 10.0  # for a machine that reported that no login is possible
POOL_SECS = 10.0  # for the login that must be refused; in the pool it is tried once, as nothing listens there
ONE_TRY = 20.0


class NoSsh(Exception):
    """The ssh client is missing."""


def prove_login(
    machine: Machine,
    *,
    address: str,
    port: int = 22,
    private_key: Path | None,
    directory: Path,
    timeout: float,
    stopped: Callable[[], bool] = lambda: False,
    group: int = 0,
) -> None:
    """Tries the logins that must work after Ready, and records them. A specialised VM has none.

    Also after a failure "no login is possible": a login that works shows that the report was wrong.
    """
    vm = machine.vm
    verdicts = machine.ledger.final_verdicts
    ready = any(told.kind == "ready" for told in verdicts)
    if vm.specialised or not (ready or any(map(says_no_login, verdicts))):
        return
    logins = try_login(
        address=address,
        port=port,
        user=vm.username,
        private_key=private_key,
        password=None if vm.password_disabled else vm.password,
        directory=directory,
        timeout=timeout if ready else min(timeout, DENIED_SECS),
        now=machine.ledger.now,
        stopped=stopped,
        group=group,
    )
    for login in logins:
        if login.ok or not stopped():  # an interrupted attempt proves nothing
            machine.ledger.add(login)


def prove_pool_login(
    machine: Machine, *, address: str, private_key: Path | None, directory: Path, group: int = 0
) -> None:
    """Tries the login that must not work: with the credentials of the pool's VM, in the pool and later."""
    if machine.pool is None:
        return
    vm = machine.pool.pool_vm
    tried = try_login(
        address=address,
        user=vm.username,
        private_key=private_key,
        password=None if vm.password_disabled else vm.password,
        directory=directory,
        timeout=POOL_SECS if machine.pool.taken else 0.0,
        now=machine.ledger.now,
        group=group,
    )
    for login in tried:
        machine.ledger.add(replace(login, of_pool=True))


def try_login(
    *,
    address: str,
    port: int = 22,
    user: str,
    private_key: Path | None,
    password: str | None,
    directory: Path,
    timeout: float,
    now: Callable[[], float],
    stopped: Callable[[], bool] = lambda: False,
    group: int = 0,
) -> list[Login]:
    """One event for the key and one for the password, if given, each within `timeout`. `now`: the ledger's clock.

    If each alone is refused, both are tried together: an image may require both. Success is then a third event.
    `group`: the process group for ssh, as of a `Workspace`; 0: a new one.
    """
    tool = shutil.which("ssh")
    if tool is None:
        raise NoSsh("cannot try a login: ssh is missing: install openssh-client")
    base = [tool, *options(port=port, user=user, directory=directory)]
    tried = []
    if private_key:
        command = [*base, "-oBatchMode=yes", "-oPreferredAuthentications=publickey", "-i", str(private_key)]
        tried.append(("key", command, environment(None)))
    if password is not None:
        methods = "-oPreferredAuthentications=password,keyboard-interactive"
        command = [*base, methods, "-oPubkeyAuthentication=no", "-oNumberOfPasswordPrompts=1"]
        tried.append(("password", command, environment(write_answerer(directory, password))))
    try:
        logins = []
        for how, command, environ in tried:
            ssh = partial(connect, [*command, address, "true"], environ, group=group)
            ok, text = retry(ssh, timeout=timeout, stopped=stopped)
            logins.append(Login(t=now(), how=how, user=user, ok=ok, text="" if ok else text))
        if private_key and password is not None and all(REFUSED in login.text for login in logins):
            methods = "-oPreferredAuthentications=publickey,password,keyboard-interactive"
            command = [*base, methods, "-i", str(private_key), "-oNumberOfPasswordPrompts=1", address, "true"]
            ok, _ = connect(command, environment(directory / ANSWERER), group=group, timeout=min(ONE_TRY, timeout))
            if ok:
                logins.append(Login(t=now(), how=Login.BOTH, user=user, ok=True))
        return logins
    finally:
        for name in (ANSWERER, f"{ANSWERER}.secret"):
            with suppress(FileNotFoundError):
                (directory / name).unlink()


def options(*, port: int, user: str, directory: Path) -> list[str]:
    settings = {
        "ConnectTimeout": "5",
        "GlobalKnownHostsFile": "/dev/null",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "LogLevel": "ERROR",
        "StrictHostKeyChecking": "no",
        "UpdateHostKeys": "no",
        "UserKnownHostsFile": str(directory / "known_hosts"),
    }
    return ["-F", "none", "-T", "-p", str(port), "-l", user, *(f"-o{a}={b}" for a, b in settings.items())]


def environment(answerer: Path | None) -> dict[str, str]:
    ask = {"SSH_ASKPASS": str(answerer), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":"} if answerer else {}
    return {"PATH": os.environ.get("PATH", os.defpath), **ask}


def write_answerer(directory: Path, password: str) -> Path:
    """An SSH_ASKPASS program: ssh takes a password only from a program. It reads a file with mode 0600."""
    answerer, secret = directory / ANSWERER, directory / f"{ANSWERER}.secret"
    with open(secret, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(password + "\n")
    with open(answerer, "w", opener=lambda name, flags: os.open(name, flags, 0o700)) as file:
        file.write(ASK)
    return answerer


def retry(ssh: Callable[..., tuple[bool, str]], *, timeout: float, stopped: Callable[[], bool]) -> tuple[bool, str]:
    """Retries until success, refusal or timeout: sshd may start after Ready."""
    until = time.monotonic() + timeout
    refusals = 0
    while True:
        ok, text = ssh(timeout=max(1.0, min(ONE_TRY, until - time.monotonic())))
        refusals += REFUSED in text
        if ok or refusals >= REFUSALS or stopped() or time.monotonic() + PAUSE > until:
            return ok, text
        time.sleep(PAUSE)


def connect(command: list[str], environ: dict[str, str], *, group: int, timeout: float) -> tuple[bool, str]:
    """Whether the login worked, and the last line of ssh's messages."""
    try:
        ran = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            process_group=group,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, "no answer in time"
    said = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    return ran.returncode == 0, said[-1] if said else f"the session ended with status {ran.returncode}"
