"""An include document -> its URLs. Nothing is fetched here; what a URL may be is checked here."""

from __future__ import annotations

from azureinit.addresses import WIRESERVER, is_link_local, parse_ipv4
from azureinit.userdata.values import ERROR, MOST_URLS, WARNING, Finding, Include, Place, finding

ONCE, EVERY = "#include-once", "#include"
CHECKSUM = "#sha256="
LONGEST = 256 << 10
HEX = frozenset("0123456789abcdef")
HTTPS, HTTP = "https://", "http://"
NOT_HTTPS = "an include must be an https:// URL"
OF_THE_PLATFORM = "an include must not name a link-local address or the platform's own"


def parse_includes(
    text: str, *, place: Place, allow_http: bool = False
) -> tuple[tuple[Include, ...], tuple[Finding, ...]]:
    """One URL a line, also behind the header; lines that begin with # are comments."""
    if len(text) > LONGEST:
        return (), (finding(ERROR, f"the include document is longer than {LONGEST >> 10} KiB", place=place),)
    found: list[Include] = []
    problems: list[Finding] = []
    once = False
    for number, line in enumerate(text.splitlines(), 1):
        rest = line
        if line.lower().startswith(ONCE):
            once, rest = True, line[len(ONCE) :]
        elif line.lower().startswith(EVERY):
            once, rest = False, line[len(EVERY) :]
        url = rest.strip()
        if not url or url.startswith("#"):
            continue
        column = line.find(url) + 1
        if len(found) + len(problems) == MOST_URLS:
            message = f"there are more than {MOST_URLS} URLs"
            problems.append(finding(ERROR, message, place=place, line=number, column=column))
            break
        url, wrong, hint = check_url(url, allow_http=allow_http)
        if wrong:
            problems.append(finding(ERROR, wrong, place=place, line=number, column=column, hint=hint))
            continue
        address, _, checksum = url.partition(CHECKSUM)
        found.append(
            Include(
                url=address,
                sha256=checksum.lower(),
                once=once,
                line=number + place.line,
                column=column + place.column,
                part=place.part,
            )
        )
    if not found and not problems:
        problems.append(finding(WARNING, "the include document names no URL", place=place))
    return tuple(found), tuple(problems)


def check_url(url: str, *, allow_http: bool) -> tuple[str, str, str]:
    """The URL, what is wrong with it, and what to do. No message contains the URL: it may carry a token."""
    lower = url.lower()
    if lower.startswith(HTTP):
        if not allow_http:
            return url, NOT_HTTPS, "use https://; plain http can be changed on its way"
    elif not lower.startswith(HTTPS):
        return url, NOT_HTTPS, "write one URL a line, with https:// before it"
    if not url.isascii() or not url.isprintable() or " " in url:
        return url, "the URL contains a blank, a control character or a letter outside ASCII", "percent-encode it"
    address, _, fragment = url.partition("#")
    checksum = fragment[len(CHECKSUM) - 1 :].lower()
    if fragment and (not fragment.startswith(CHECKSUM[1:]) or len(checksum) != 64 or not HEX.issuperset(checksum)):
        return url, "the part after # is not a checksum", "write #sha256= and 64 hexadecimal digits"
    authority = address.partition("://")[2].replace("\\", "/").partition("/")[0].partition("?")[0]
    if "@" in authority:
        return url, "the URL contains a user name or password", "use a URL that needs none, such as a signed one"
    host, _, port = authority.rpartition(":") if _has_port(authority) else (authority, "", "443")
    if not host or not port.isdigit() or len(port) > 5 or not 0 < int(port) < 65536:
        return url, "the URL has no valid host and port", ""
    if is_refused(host):
        return url, OF_THE_PLATFORM, "copy the content to a host of your own"
    return url, "", ""


def is_refused(host: str) -> bool:
    """Addresses that an include must not reach, as far as the URL shows them. Names are checked when they resolve."""
    bare = host.strip("[]").rstrip(".").lower()
    if ":" in bare:
        return bare.startswith(("fe8", "fe9", "fea", "feb", "::ffff:a9fe", "::ffff:169.254.")) or WIRESERVER in bare
    number = parse_ipv4(bare)
    if number is None:
        # Other spellings of an address (0xa9fea9fe, 2852039166, 169.254.43518) name no host.
        last = bare.rpartition(".")[2]
        return last.isdigit() or last.startswith("0x")
    return is_link_local(number) or bare == WIRESERVER


def _has_port(authority: str) -> bool:
    return ":" in authority.rpartition("]")[2]
