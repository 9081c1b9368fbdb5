"""Names in a text, as cloud-init fills them in: $NAME and ${NAME}, or {{ name }} in a text that begins with its line
for jinja. Any other name stays as it is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

JINJA = "## template: jinja"
LONGEST = 64  # of a name


def filled(text: str, values: Mapping[str, str]) -> str:
    first, _, rest = text.partition("\n")
    if first.strip().lower().startswith(JINJA):
        return _replaced(rest, values, opening="{{", closing="}}")
    return _dollars(_replaced(text, values, opening="${", closing="}"), values)


def _replaced(text: str, values: Mapping[str, str], *, opening: str, closing: str) -> str:
    first, *pieces = text.split(opening)
    made = [first]
    for piece in pieces:
        name, mark, _rest = piece[: LONGEST + len(closing)].partition(closing)
        if mark and name.strip() in values:
            made.append(values[name.strip()] + piece[len(name) + len(closing) :])
        else:
            made.append(opening + piece)
    return "".join(made)


def _dollars(text: str, values: Mapping[str, str]) -> str:
    first, *pieces = text.split("$")
    made = [first]
    for piece in pieces:
        end = 0
        while end < len(piece) and (piece[end].isalnum() or piece[end] == "_"):
            end += 1
        known = values.get(piece[:end])
        made.append(f"${piece}" if known is None else known + piece[end:])
    return "".join(made)
