"""Sending a form to a URL that the user names."""

from __future__ import annotations

from azureinit.errors import HttpFailed
from azureinit.http import Retry, send
from azureinit.machine.outgoing import Refused
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.plan.actions import Post

REFUSALS = frozenset(range(300, 600))


def post(machine: Machine, action: Post, *, deadline: float) -> None:
    url = action.url.text()
    retry = Retry(
        connect_timeout=action.timeout,
        request_timeout=action.timeout,
        total=action.tries * (action.timeout + action.pause),
        delay=action.pause,
        growth=1.0,
        attempts=action.tries,
        statuses=REFUSALS,
    )
    headers = {"Content-Type": "application/x-www-form-urlencoded", "User-Agent": f"azure-init v{VERSION}"}
    try:
        send(
            "POST",
            url,
            retry=retry,
            deadline=deadline,
            clock=machine.clock,
            headers=headers,
            body=action.form.reveal(),
            connect=lambda host, port, seconds: machine.connect(host, port, seconds, secure=url.startswith("https:")),
            shown=action.shown,
        )
    except Refused as error:
        raise HttpFailed(f"nothing was sent to {action.shown}: {error}", endpoint=action.shown) from error
