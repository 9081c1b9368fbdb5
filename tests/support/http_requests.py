"""What the tests of http.py share."""

from __future__ import annotations

import pytest

from azureinit.errors import HttpFailed, HttpTimeout
from azureinit.http import Response, Retry, send
from azureinit.machine import Clock
from azureinit.record import replace
from support.wire import Answer, Server, Ticking

RETRY = Retry(connect_timeout=5.0, request_timeout=5.0, total=60.0, delay=1.0, statuses=frozenset((429, 500, 503)))
ONCE = replace(RETRY, attempts=1)


def ask(
    server: Server | str,
    *,
    retry: Retry = RETRY,
    clock: Clock | None = None,
    deadline: float = 1e9,
    limit: int = 1 << 20,
    told: list[dict[str, object]] | None = None,
) -> Response:
    return send(
        "GET",
        (server if isinstance(server, str) else server.url) + "/x?y=z",
        retry=retry,
        deadline=deadline,
        clock=clock or Ticking(),
        headers={"Metadata": "true"},
        limit=limit,
        observe=None if told is None else lambda _name, **fields: told.append(fields),
    )


def body_of(*answers: Answer) -> bytes:
    with Server(*answers) as server:
        return ask(server, retry=ONCE).body


def refused(*answers: Answer, limit: int = 1 << 20) -> str:
    """Why the one attempt failed."""
    with Server(*answers) as server, pytest.raises(HttpFailed) as caught:
        ask(server, retry=ONCE, limit=limit)
    assert not isinstance(caught.value, HttpTimeout)
    return str(caught.value).partition(" s: ")[2]
