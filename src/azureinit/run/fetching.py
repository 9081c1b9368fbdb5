"""What customData names by URL: one fetch, with every redirect checked as the URL itself is.

No message contains the part of a URL that may be a secret: its query.
"""

from __future__ import annotations

from azureinit.addresses import join_url
from azureinit.errors import HttpFailed
from azureinit.http import Retry, send
from azureinit.userdata.include import check_url
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.http import Connect, Observe
    from azureinit.machine import Machine

HTTPS = "https://"
REDIRECTS = frozenset((301, 302, 303, 307, 308))
MOST_REDIRECTS = 5
# A client's mistake such as 404 is final; a server's, and no answer, is not.
RETRY = Retry(
    connect_timeout=10.0,
    request_timeout=60.0,
    total=120.0,
    delay=1.0,
    statuses=frozenset((408, 425, 429, *range(500, 600))),
    attempts=6,
)


def fetch(
    machine: Machine,
    url: str,
    *,
    allow_http: bool,
    deadline: float,
    limit: int,
    headers: Mapping[str, str] | None = None,
    observe: Observe | None = None,
    retry: Retry = RETRY,
) -> bytes:
    """The content. HttpFailed says why there is none, in words that follow "cannot be fetched: "."""
    from azureinit.machine.outgoing import Refused

    asked = dict(headers or {})
    if not all(_is_header(name) and _is_header(value) for name, value in asked.items()):
        raise HttpFailed("a header has a character that no header may have")
    sent = ""
    for _hop in range(MOST_REDIRECTS + 1):
        url = _whole(url)
        _, wrong, _ = check_url(url, allow_http=allow_http)
        if not wrong and sent.startswith(HTTPS) and not url.startswith(HTTPS):
            wrong = "it is not an https:// URL"
        if wrong:
            raise HttpFailed(f"it redirects to a URL that is refused: {wrong}" if sent else wrong)
        try:
            answer = send(
                "GET",
                url,
                retry=retry,
                deadline=deadline,
                clock=machine.clock,
                headers={"User-Agent": f"azure-init/{VERSION}", **asked},
                observe=observe,
                limit=limit,
                connect=_connector(machine, secure=url.startswith(HTTPS)),
                also=REDIRECTS,
                shown=url.partition("?")[0],
            )
        except Refused as error:
            raise HttpFailed(str(error)) from error
        except HttpFailed as error:
            raise HttpFailed(_reason(error)) from error
        if answer.status not in REDIRECTS:
            return answer.body
        sent, url = url, join_url(url, answer.headers.get("location", ""))
        if _origin(sent) != _origin(url):
            asked = {}  # they may hold a token for the first host
    raise HttpFailed(f"it is redirected more than {MOST_REDIRECTS} times")


def _connector(machine: Machine, *, secure: bool) -> Connect:
    return lambda host, port, seconds: machine.connect(host, port, seconds, secure=secure)


def _is_header(text: str) -> bool:
    return text.isprintable() and all(letter < "\u0100" for letter in text)


def _whole(url: str) -> str:
    """The scheme in lower case, and a path where there is only a query."""
    scheme, mark, rest = url.partition("#")[0].partition("://")
    host, question, query = rest.partition("?")
    return scheme.lower() + mark + host + ("/" if question and "/" not in host else "") + question + query


def _origin(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _reason(error: HttpFailed) -> str:
    """Without the URL, which the finding's line already names."""
    told = str(error)
    return told.partition(" failed for ")[2].partition(": ")[2] or told
