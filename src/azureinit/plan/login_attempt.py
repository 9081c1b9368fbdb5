"""One attempt to log in, as the rules judge it, and the obstacles that they find."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.access import Access
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.key_files import AdminFiles
    from azureinit.facts.ssh import Ssh
    from azureinit.plan.access import Account
    from azureinit.plan.sshd_match import Client, InForce
    from azureinit.sources.metadata import Metadata

DOUBT, CERTAIN = 1, 2


class Obstacle(Record):
    level: int
    why: str


class LoginAttempt(Record):
    """One connection of one account with the credentials that were given."""

    account: Account
    client: Client
    values: dict[str, tuple[InForce, ...]]
    metadata: Metadata
    accounts: Accounts
    ssh: Ssh
    admin: AdminFiles
    access: Access
    today: int
    pending: bool

    def word(self, keyword: str, default: str) -> str:
        found = self.values.get(keyword)
        return found[0].arguments[0] if found else default

    def says(self, keyword: str, *, default: bool) -> bool:
        return self.word(keyword, "yes" if default else "no").lower() in ("yes", "true")

    def where(self, keyword: str) -> str:
        found = self.values.get(keyword)
        return place(found[0]) if found else keyword

    @property
    def pam(self) -> bool:
        return self.says("usepam", default=False)


def place(value: InForce) -> str:
    """File, line and directive."""
    said = value.directive
    if said is None:
        return f"{value.keyword} {' '.join(value.arguments)}, as sshd reports"
    under = "" if said.block is None else f" (below '{printable(said.block.line)}')"
    return f"{said.path} line {said.number}: '{printable(said.line)}'{under}"


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:100])
