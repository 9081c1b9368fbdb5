"""The platform's proof: a login over SSH as anybody would do it, with the machine's key and with its password."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
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
REFUSALS = 3  # an sshd that is told to read its configuration again may be asked with the old one
PAUSE = 0.5
DENIED_SECS = 10.0  # of trying a machine that says that no login is possible
ONE_TRY = 20.0


class NoSsh(Exception):
    """There is no ssh to try a login with."""


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
    """Into the ledger: every login that a machine which said Ready owes to its owner. A specialised one owes none.

    A machine that failed because no login is possible is tried too: one that lets its owner in was wrong.
    """
    vm = machine.vm
    verdicts = machine.ledger.verdicts
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
        if login.ok or not stopped():  # one that was broken off says nothing about the machine
            machine.ledger.add(login)


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
    """One event for each of key and password that there is, within `timeout` each. `now` is the ledger's clock.

    Where each alone is refused, both are tried together: an image may ask for both, and then that event is the third.
    `group`: the process group for ssh, as of a `Workplace`, so that it ends with us; else it has one of its own.
    """
    tool = shutil.which("ssh")
    if tool is None:
        raise NoSsh("no login can be tried, for ssh is missing: install openssh-client")
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
            ok, text = persist(ssh, timeout=timeout, stopped=stopped)
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
    """ssh takes a password from a program alone; this one reads it from a file that only we can read."""
    answerer, secret = directory / ANSWERER, directory / f"{ANSWERER}.secret"
    with open(secret, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(password + "\n")
    with open(answerer, "w", opener=lambda name, flags: os.open(name, flags, 0o700)) as file:
        file.write(ASK)
    return answerer


def persist(ssh: Callable[..., tuple[bool, str]], *, timeout: float, stopped: Callable[[], bool]) -> tuple[bool, str]:
    """Until it succeeds, is refused, or the time is up: a machine that has just become Ready is still starting."""
    until = time.monotonic() + timeout
    refusals = 0
    while True:
        ok, text = ssh(timeout=max(1.0, min(ONE_TRY, until - time.monotonic())))
        refusals += REFUSED in text
        if ok or refusals >= REFUSALS or stopped() or time.monotonic() + PAUSE > until:
            return ok, text
        time.sleep(PAUSE)


def connect(command: list[str], environ: dict[str, str], *, group: int, timeout: float) -> tuple[bool, str]:
    """Whether it worked, and if not, what ssh said last."""
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
