"""Which lines of sshd's configuration apply to one connection, and whether Allow and Deny lines accept it.

The rules are those of OpenSSH's match.c, addrmatch.c, groupaccess.c and servconf.c. Loaded only where a configuration
has such lines. A result that cannot be known here (a host's name in DNS, the local address) is None.
"""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from ipaddress import IPv4Network, IPv6Network
    from typing import Union

    from azureinit.facts.sshd_config import Block, Directive

    Network = Union[IPv4Network, IPv6Network]

ALLOW_USERS, DENY_USERS, ALLOW_GROUPS, DENY_GROUPS = "allowusers", "denyusers", "allowgroups", "denygroups"
# Every line adds to these; of all other keywords the first counts.
LISTS = (ALLOW_USERS, DENY_USERS, ALLOW_GROUPS, DENY_GROUPS)
ALIASES = {"pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms", "dsaauthentication": "pubkeyauthentication"}
# Keywords that decide about a login; a Match block without any of these does not matter.
DECIDING = (
    *LISTS, "authenticationmethods", "authorizedkeyscommand", "authorizedkeysfile", "authorizedprincipalscommand",
    "challengeresponseauthentication", "chrootdirectory", "dsaauthentication", "forcecommand",
    "kbdinteractiveauthentication", "maxsessions", "passwordauthentication", "permitrootlogin",
    "pubkeyacceptedalgorithms", "pubkeyacceptedkeytypes", "pubkeyauthentication", "refuseconnection",
    "requiredrsasize", "revokedkeys", "strictmodes", "trustedusercakeys", "usepam",
)  # fmt: skip
PRIVATE, PUBLIC = "10.0.0.9", "203.0.113.9"  # client addresses: in the virtual network, and elsewhere
ELSEWHERE = ("192.168.0.9", "172.16.0.9", "198.51.100.9", "20.0.0.9", "2001:db8::9")
MOST_ADDRESSES = 256


class Client(Record):
    """A connection as the configuration distinguishes them. `host`: its name in DNS; None where that is not known."""

    user: str
    groups: frozenset[str]
    address: str
    host: str | None
    ports: tuple[str, ...] = ("22",)  # one of the ports that sshd listens on
    # The assumed result of Match lines that cannot be decided here.
    benefit: bool = False


class InForce(Record):
    """A value in force for one connection: its arguments and its line (None: reported by sshd)."""

    keyword: str
    arguments: tuple[str, ...]
    directive: Directive | None


def match_pattern(text: str, pattern: str) -> bool:
    """`*` and `?` alone are special. Linear, with a single backtracking point."""
    at = place = 0
    star, marked = -1, 0
    while at < len(text):
        if place < len(pattern) and pattern[place] == "*":
            star, marked = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in (text[at], "?"):
            at, place = at + 1, place + 1
        elif star >= 0:
            marked += 1
            at, place = marked, star + 1
        else:
            return False
    return not pattern[place:].strip("*")


def match_list(text: str, patterns: str) -> int:
    """1: a pattern of the comma list matches; -1: one with a `!` does; 0: none."""
    found = 0
    for part in patterns.split(","):
        negated = part.startswith("!")
        if match_pattern(text, part[negated:]):
            if negated:
                return -1
            found = 1
    return found


def match_addresses(address: str, patterns: str) -> int:
    """As match_list, with networks; -2: a list that sshd refuses."""
    from ipaddress import ip_address

    client = ip_address(address)
    found = 0
    for part in patterns.split(","):
        negated = part.startswith("!")
        word = part[negated:]
        if not word:
            return -2
        network = parse_network(word)
        if network is not None:
            hit = client.version == network.version and client in network
        elif parse_network(word, strict=False) is not None:
            return -2  # bits behind the mask
        else:
            hit = match_pattern(address, word)
        if hit and negated:
            return -1
        found = found or int(hit)
    return found


def parse_network(word: str, *, strict: bool = True) -> Network | None:
    from ipaddress import ip_network

    if "/" in word and not word.partition("/")[2].isdecimal():
        return None  # sshd does not accept dotted masks
    try:
        return ip_network(word, strict=strict)
    except ValueError:
        return None


def match_host(client: Client, patterns: str) -> int | None:
    """Matches a host's name, in lower case; None where it depends on DNS."""
    if client.host is None:
        return 1 if patterns == "*" else None
    return match_list(client.host.lower(), patterns.lower())


def match_user(client: Client, pattern: str) -> bool | None:
    """USER or USER@HOST of AllowUsers and DenyUsers; a `!` means nothing special before the @."""
    user, at, host = pattern.rpartition("@")
    if not at:
        return match_pattern(client.user, pattern)
    if not match_pattern(client.user, user):
        return False
    by_address = match_addresses(client.address, host)
    if by_address < 0:
        return False
    by_name = match_host(client, host)
    if by_name is None:
        return True if by_address else None
    return by_name >= 0 and (by_name > 0 or by_address > 0)


def match_groups(groups: Iterable[str], patterns: str) -> bool:
    """The criterion of a Match line: a `!` for any one of the groups decides."""
    found = [match_list(group, patterns) for group in groups]
    return -1 not in found and 1 in found


def applies(block: Block | None, client: Client) -> bool | None:
    """Whether the lines under that Match line apply to the client."""
    if block is None:
        return True
    answers = [*_criteria(block.criteria, client), applies(block.outer, client)]
    return False if False in answers else None if None in answers else True


def _criteria(criteria: Sequence[str], client: Client) -> Iterable[bool | None]:
    words = list(criteria)
    while words:
        name, equals, value = words.pop(0).partition("=")
        name = name.lower()
        if name == "all":
            yield True
            continue
        if name == "invalid-user":
            yield False
            continue
        if not equals:
            value = words.pop(0) if words else ""
        yield _criterion(name, value, client)


def _criterion(name: str, value: str, client: Client) -> bool | None:
    if name == "user":
        return match_list(client.user, value) == 1
    if name == "group":
        return match_groups(client.groups, value)
    if name == "address":
        return match_addresses(client.address, value) == 1
    if name == "host":
        found = match_host(client, value)
        return None if found is None else found == 1
    if name == "localport":
        return None if value in client.ports and len(client.ports) > 1 else value in client.ports
    return None  # local address, routing domain, the client's version


def in_force(directives: Iterable[Directive], client: Client) -> dict[str, tuple[InForce, ...]]:
    """Values by keyword, as sshd decides: Match blocks replace the global values."""
    general: dict[str, list[InForce]] = {}
    matched: dict[str, list[InForce]] = {}
    for said in directives:
        keyword = ALIASES.get(said.keyword, said.keyword)
        counts = applies(said.block, client)
        if not (client.benefit if counts is None else counts):
            continue
        known = (general if said.block is None else matched).setdefault(keyword, [])
        if keyword in LISTS:
            known += [InForce(keyword=keyword, arguments=(word,), directive=said) for word in said.arguments]
        elif not known:
            known.append(InForce(keyword=keyword, arguments=said.arguments, directive=said))
    return {keyword: tuple(values) for keyword, values in {**general, **matched}.items()}


def clients(directives: Sequence[Directive], *, user: str, groups: frozenset[str]) -> tuple[Client, ...]:
    """One client for each origin that the configuration distinguishes; a single one where it distinguishes none."""
    from_dns = any(said.keyword == "usedns" and said.arguments[0].lower() == "yes" for said in directives)
    ports = tuple(dict.fromkeys(_ports_in(directives))) or ("22",)
    blocks = blocks_of(directives)
    told_apart = list(_addresses_in(directives, blocks))
    addresses = dict.fromkeys((PUBLIC, PRIVATE, *ELSEWHERE, *told_apart) if told_apart else (PUBLIC,))
    base = [
        Client(user=user, groups=groups, address=address, host=None if from_dns else address, ports=ports)
        for address in list(addresses)[:MOST_ADDRESSES]
    ]
    open_ended = len(addresses) > len(base) or any(
        applies(block, client) is None for block in blocks for client in base
    )
    made = [*base, *(_benefit(client) for client in base if open_ended)]
    return tuple(made)


def _ports_in(directives: Sequence[Directive]) -> Iterable[str]:
    for said in directives:
        word = said.arguments[0]
        if said.keyword == "port":
            yield word
        elif said.keyword == "listenaddress" and (word.count(":") == 1 or "]:" in word):
            yield word.rpartition(":")[2]


def blocks_of(directives: Sequence[Directive]) -> list[Block]:
    """The Match blocks that may matter for a login."""
    return list(dict.fromkeys(said.block for said in directives if said.block and said.keyword in DECIDING))


def applied(directives: Sequence[Directive], client: Client) -> tuple[bool | None, ...]:
    """Which Match blocks apply to it: sshd's answer for one client holds for all others with the same ones."""
    return tuple(applies(block, client) for block in blocks_of(directives))


def _benefit(client: Client) -> Client:
    return Client(**{**client.as_dict(), "benefit": True})


def _addresses_in(directives: Sequence[Directive], blocks: Sequence[Block]) -> Iterable[str]:
    for said in directives:
        if said.keyword in (ALLOW_USERS, DENY_USERS):
            for word in said.arguments:
                yield from _examples(word.rpartition("@")[2] if "@" in word else "")
    for block in blocks:
        names = [word.partition("=") for word in block.criteria]
        for at, (name, equals, value) in enumerate(names):
            if name.lower() in ("address", "host"):
                yield from _examples(value if equals else "".join(names[at + 1]) if at + 1 < len(names) else "")


def _examples(patterns: str) -> Iterable[str]:
    """Addresses inside each network or pattern that a list names: its first, one in the middle, its last; and the next
    ones outside.
    """
    for part in patterns.split(","):
        word = part.lstrip("!")
        network = parse_network(word)
        if network is not None:
            last = network.num_addresses - 1
            yield from (str(network[at]) for at in {0, (last + 1) // 2, last})
            yield from _next_to(network)
        elif word and word != "*":
            filled = word.replace("?", "1")
            tries = (filled.replace("*", text) for text in ("1", "1.1", "1.1.1", "1.1.1.1", "", "::1"))
            yield from (text for text in tries if "/" not in text and parse_network(text) is not None)


def _next_to(network: Network) -> Iterable[str]:
    for edge, step in ((network[0], -1), (network[-1], 1)):
        try:
            yield str(edge + step)
        except ValueError:
            continue  # there is no lower or higher address


def refusing_line(values: dict[str, tuple[InForce, ...]], client: Client) -> tuple[InForce, bool] | None:
    """The Allow or Deny line that refuses the client, and whether that is certain; None: it is accepted."""
    doubt: InForce | None = None
    for said in values.get(DENY_USERS, ()):
        hit = match_user(client, said.arguments[0])
        if hit:
            return said, True
        doubt = said if hit is None else doubt
    allowed = values.get(ALLOW_USERS, ())
    hits = [match_user(client, said.arguments[0]) for said in allowed]
    if allowed and True not in hits:
        if None not in hits:
            return allowed[0], True
        doubt = allowed[0]
    for said in values.get(DENY_GROUPS, ()):
        if any(match_pattern(group, said.arguments[0]) for group in client.groups):
            return said, True
    allowed = values.get(ALLOW_GROUPS, ())
    if allowed and not any(match_pattern(group, said.arguments[0]) for said in allowed for group in client.groups):
        return allowed[0], True
    return None if doubt is None else (doubt, False)
