"""The text of apt's sources: both formats, the mirrors in them, and suites that are switched off. Pure text to text."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

PRIMARY, SECURITY = "PRIMARY", "SECURITY"
# Names of suites that stand for one of this release.
SUITES = {
    "release": "$RELEASE",
    "updates": "$RELEASE-updates",
    "backports": "$RELEASE-backports",
    "security": "$RELEASE-security",
    "proposed": "$RELEASE-proposed",
}
MIRROR_FILE = "mirror+file:"
DISABLED = "# suite disabled by azure-init: "
VARIABLE = r"\$\{([A-Za-z0-9_.]+)\}|\$([A-Za-z0-9_.]+)"


class UnknownVariable(Exception):
    """The name of a variable that has no value."""


class Mirror(Record):
    """What entries of the distribution's archive get. Empty: as it is."""

    uri: str = ""
    key: str = ""  # the path of its key


class Line(Record):
    """One entry in the format of one line."""

    kind: str  # deb or deb-src
    options: tuple[str, ...]
    uri: str
    suite: str
    components: tuple[str, ...]

    def text(self) -> str:
        options = (f"[{' '.join(self.options)}]",) if self.options else ()
        return " ".join((self.kind, *options, self.uri, self.suite, *self.components))


def render(text: str, values: Mapping[str, str]) -> str:
    """`$NAME` and `${NAME}` by their values."""
    import re

    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        if name not in values:
            raise UnknownVariable(name)
        return values[name]

    return re.sub(VARIABLE, value, text)


def is_deb822(text: str) -> bool:
    lines = text.splitlines()
    if any(line.startswith(("deb ", "deb-src ")) for line in lines):
        return False
    return any(line.startswith(("Types: ", "Suites: ", "Components: ", "URIs: ")) for line in lines)


def parse_line(text: str) -> Line | None:
    """None for a comment, and for what is no entry."""
    kind, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    if kind not in ("deb", "deb-src"):
        return None
    options: tuple[str, ...] = ()
    if rest.startswith("["):
        inside, bracket, rest = rest[1:].partition("]")
        if not bracket:
            return None
        options = tuple(inside.split())
    words = rest.split()
    if len(words) < 2:
        return None
    return Line(kind=kind, options=options, uri=words[0], suite=words[1], components=tuple(words[2:]))


def stanzas(text: str) -> list[str]:
    """The paragraphs of a deb822 file, each with the blank lines after it: joined they are the text again."""
    found: list[str] = []
    after_blank = True
    for line in text.splitlines(keepends=True):
        if after_blank and line.strip():
            found.append(line)
        elif found:
            found[-1] += line
        else:
            found.append(line)
        after_blank = not line.strip()
    return found


def field(stanza: str, name: str) -> tuple[str, ...]:
    """The words of a field, those on continued lines included."""
    words: list[str] = []
    inside = False
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t"):
            words += line.split() if inside else []
            continue
        key, colon, value = line.partition(":")
        inside = bool(colon) and key.lower() == name.lower()
        words += value.split() if inside else []
    return tuple(words)


def with_field(stanza: str, name: str, words: Iterable[str]) -> str:
    """The field replaced where it stands, with its continued lines; or added at the end."""
    lines: list[str] = []
    new = f"{name}: {' '.join(words)}"
    inside = found = False
    for line in stanza.rstrip("\n").split("\n"):
        if inside and line[:1] in (" ", "\t"):
            continue
        inside = not line.startswith("#") and line.partition(":")[0].lower() == name.lower()
        if inside:
            lines += [] if found else [new]
            found = True
        else:
            lines.append(line)
    blank = stanza[len(stanza.rstrip("\n")) :] or "\n"
    return "\n".join(lines if found else [*lines, new]) + blank


def role(suites: Iterable[str], components: Iterable[str], codename: str) -> str:
    """Which archive of the distribution an entry reads; empty for any other archive."""
    own = [suite for suite in suites if suite.split("/")[0].split("-")[0] == codename]
    if not codename or not own or "main" not in tuple(components):
        return ""
    security = all(suite in (f"{codename}-security", f"{codename}/updates") for suite in own)
    return SECURITY if security else PRIMARY


def mirrors_in(texts: Iterable[str], codename: str) -> dict[str, str]:
    """The mirrors that the image's own sources name, by archive; the first one of each counts."""
    found: dict[str, str] = {}
    for text in texts:
        if is_deb822(text):
            for stanza in stanzas(text):
                kind = role(field(stanza, "Suites"), field(stanza, "Components"), codename)
                uris = field(stanza, "URIs")
                if kind and uris:
                    found.setdefault(kind, uris[0])
            continue
        for line in map(parse_line, text.splitlines()):
            kind = role((line.suite,), line.components, codename) if line is not None else ""
            if line is not None and kind:
                found.setdefault(kind, line.uri)
    return found


def mirror_file(uri: str) -> str:
    """The path of a list of mirrors; empty where the URI is a mirror itself."""
    return "/" + uri[len(MIRROR_FILE) :].lstrip("/") if uri.startswith(MIRROR_FILE) else ""


def with_mirrors(text: str, codename: str, mirrors: Mapping[str, Mirror]) -> str:
    """The sources with other mirrors for the distribution's archives. A list of mirrors stays where it is named."""

    def stanza(one: str) -> str:
        kind = role(field(one, "Suites"), field(one, "Components"), codename)
        mirror = mirrors.get(kind, Mirror())
        uris = field(one, "URIs")
        if mirror.uri and uris and not mirror_file(uris[0]):
            one = with_field(one, "URIs", (mirror.uri,))
        return with_field(one, "Signed-By", (mirror.key,)) if mirror.key else one

    def line(one: Line) -> Line:
        mirror = mirrors.get(role((one.suite,), one.components, codename), Mirror())
        uri = mirror.uri if mirror.uri and not mirror_file(one.uri) else one.uri
        options = one.options
        if mirror.key:
            options = (*(word for word in options if not word.startswith("signed-by=")), f"signed-by={mirror.key}")
        return Line(kind=one.kind, options=options, uri=uri, suite=one.suite, components=one.components)

    return _edited(text, stanza, lambda one, text: text if line(one) == one else line(one).text())


def disabled_suites(names: Iterable[str], codename: str) -> frozenset[str]:
    return frozenset(SUITES.get(name, name).replace("${RELEASE}", codename).replace("$RELEASE", codename)
                     for name in names)  # fmt: skip


def without_suites(text: str, suites: frozenset[str]) -> str:
    """The sources without these suites. An entry that has no other one is disabled, and stays to be read."""

    def stanza(one: str) -> str:
        before = field(one, "Suites")
        left = tuple(suite for suite in before if suite not in suites)
        if left == before:
            return one
        return with_field(one, "Suites", left) if left else with_field(one, "Enabled", ("no",))

    return _edited(text, stanza, lambda one, text: f"{DISABLED}{text}" if one.suite in suites else text)


def _edited(text: str, stanza: Callable[[str], str], line: Callable[[Line, str], str]) -> str:
    """`line` gets an entry, and its text without the end of the line."""
    if is_deb822(text):
        return "".join(stanza(one) for one in stanzas(text))
    edited = []
    for one in text.splitlines(keepends=True):
        entry = parse_line(one)
        bare = one.rstrip("\r\n")
        edited.append(one if entry is None else line(entry, bare) + one[len(bare) :])
    return "".join(edited)
