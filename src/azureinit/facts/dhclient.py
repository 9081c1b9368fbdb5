"""dhclient's lease files: `lease { option dhcp-lease-time 3600; ... }`, one after another, the newest last. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

QUOTED = '"'  # marks a word that was quoted, so that text is not taken for numbers
MARKS = "{};"
PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": "\b"}
DAY = 86400


def parse_blocks(text: str) -> Iterator[dict[str, str]]:
    """The statements of each lease, by name; `option` is not a part of it."""
    words: list[str] = []
    values: dict[str, str] | None = None
    depth = 0
    for word in _words(text):
        if word not in MARKS:
            words.append(word)
            continue
        if word == "{":
            depth += 1
            if depth == 1:
                values = {} if words == ["lease"] else None
        elif word == "}":
            depth = max(0, depth - 1)
            if depth == 0 and values is not None:
                yield values
                values = None
        elif depth == 1 and values is not None:
            name = 1 if words[:1] == ["option"] else 0
            if len(words) > name + 1:
                values[words[name]] = " ".join(words[name + 1 :])
        words = []


def _words(text: str) -> Iterator[str]:
    """Words and marks; a comment ends with its line."""
    place = 0
    while place < len(text):
        letter = text[place]
        if letter.isspace():
            place += 1
        elif letter in MARKS:
            yield letter
            place += 1
        elif letter == "#":
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
        elif letter == QUOTED:
            word, place = _quoted(text, place + 1)
            yield QUOTED + word
        else:
            start = place
            while place < len(text) and not (text[place].isspace() or text[place] in MARKS):
                place += 1
            yield text[start:place]


def _quoted(text: str, place: int) -> tuple[str, int]:
    """Text up to the closing quote, and the index behind it. A backslash escapes a letter, or three octal digits."""
    word: list[str] = []
    while place < len(text) and text[place] != QUOTED:
        if text[place] != "\\":
            word.append(text[place])
            place += 1
            continue
        digits = text[place + 1 : place + 4]
        if len(digits) == 3 and not digits.strip("01234567"):
            word.append(chr(int(digits, 8) & 0xFF))
            place += 4
        else:
            word += [PLAIN.get(letter, letter) for letter in digits[:1]]
            place += 2
    return "".join(word), place + 1


def octets(value: str) -> bytes | None:
    """`a8:3f:81:1`, `a83f8110`, `0,10,0,0,1`, `168.63.129.16`, or quoted text; None for anything else."""
    if value.startswith(QUOTED):
        try:
            return value[1:].encode("latin-1")
        except UnicodeEncodeError:
            return None
    for mark, base in ((":", 16), (",", 10), (".", 10)):
        if mark in value:
            return _numbers(value.split(mark), base)
    if len(value) % 2:
        return _numbers([value], 16)
    return _numbers([value[at : at + 2] for at in range(0, len(value), 2)], 16)


def route_octets(value: str) -> bytes:
    """The octets of classless routes, up to the first malformed one.

    `0,10,0,0,1`, any form that `octets` knows, and Red Hat's `0 10.0.0.1,32.168.63.129.16 10.0.0.1`.
    """
    found = octets(value)
    if found is not None or value.startswith(QUOTED):
        return found or b""
    base = 16 if ":" in value else 10
    whole = bytearray()
    for part in value.replace(":" if base == 16 else ".", " ").replace(",", " ").split():
        number = _numbers([part], base)
        if number is None:
            break
        whole += number
    return bytes(whole)


def _numbers(parts: list[str], base: int) -> bytes | None:
    known = "0123456789abcdefABCDEF"[: 10 if base == 10 else None]
    parts = [part.strip(" \t") for part in parts]
    if any(not part or part.strip(known) or len(part) > 3 for part in parts):
        return None
    numbers = [int(part, base) for part in parts]
    return bytes(numbers) if max(numbers, default=0) < 256 else None


def parse_expiry(value: str) -> float | None:
    """Seconds since 1970; None: never. A date that cannot be parsed counts as expired."""
    words = value.split()
    if "never" in words[:2]:  # some versions write the day of the week first
        return None
    if words[:1] == ["epoch"] and len(words) > 1 and words[1].isascii() and words[1].isdigit():
        return float(words[1][:12])
    date, time = (_three(words[1], "/"), _three(words[2], ":")) if len(words) > 2 else (None, None)
    if date is None or time is None or not 1 <= date[1] <= 12:
        return 0.0
    return float(_days(*date) * DAY + time[0] * 3600 + time[1] * 60 + time[2])


def _three(text: str, mark: str) -> tuple[int, int, int] | None:
    parts = text.split(mark)
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970. Years are counted from March, so that the leap day is the last one."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719469
