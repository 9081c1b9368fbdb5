"""Fault scripts: for one path, the answers to its requests, in order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

# The answer when a script has none left. No agent retries a 409, so the mistake shows at once.
OFF_SCRIPT_STATUS = 409

SIZES = {"": 1, "k": 1024, "kib": 1024, "m": 1024**2, "mib": 1024**2}
WORDS = (
    '503, "503*", "ok", "ok*", "reset", "lost", "silent", "hang", "slow 3s", "restart 5s", "refuse 5s", '
    '"truncate 200", "stall 200", "trickle 10", "oversized 2MiB", "garbage", "html", or {status=429, retry_after=1}'
)
INCOMPLETE = ("truncate", "stall", "trickle", "lost", "silent")  # the client does not get the whole answer in time
PROCESSED = ("ok", "slow", "oversized", *INCOMPLETE)
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)?")
ANSWER_KEYS = ("status", "retry_after", "body", "content_type", "forever")


class BadFault(ValueError):
    """An invalid script; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One scripted answer.

    The platform processes the request: ok, slow, truncate, oversized, stall (a part of the answer, and the connection
    stays open), trickle (so many bytes a second), lost (connection reset instead of an answer), silent (no answer, and
    the connection stays open).
    The platform does not process the request: status (below 200 or above 299), reset, hang, garbage, html, and restart
    and refuse, after which the service resets every connection, or its port is closed, for a while.
    """

    kind: str
    text: str
    forever: bool = False
    amount: float = 0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None

    @property
    def processed(self) -> bool:
        return self.kind in PROCESSED or (self.kind == "status" and 200 <= self.status <= 299)

    @property
    def acknowledged(self) -> bool:
        """Whether the client gets the answer."""
        return self.processed and self.kind not in INCOMPLETE


OK = Answer(kind="ok", text="ok", forever=True)
RESTARTING = Answer(kind="reset", text="restarting")


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of all answers of a service."""

    latency_secs: float = 0.0
    bytes_per_sec: int = 0

    BEATS = 10  # parts per second

    def pause(self, answer: Answer | None) -> float | None:
        """Seconds before the answer; None: no answer is sent."""
        if answer and answer.kind == "hang":
            return None
        return self.latency_secs + (answer.amount if answer and answer.kind == "slow" else 0.0)

    def parts(self, data: bytes) -> Iterator[tuple[bytes, float]]:
        """Parts of the data, each with the seconds to wait before it."""
        step = max(self.bytes_per_sec // self.BEATS, 1) if self.bytes_per_sec else len(data)
        for start in range(0, len(data), step or 1):
            part = data[start : start + step]
            yield part, len(part) / self.bytes_per_sec if self.bytes_per_sec else 0.0


@dataclass(slots=True)
class Script:
    path: str
    answers: tuple[Answer, ...]
    used: int = 0

    def next(self) -> Answer | None:
        """The answer to the next request; None: the script has no answer left."""
        if self.used >= len(self.answers):
            last = self.answers[-1] if self.answers else None
            return last if last and last.forever else None
        self.used += 1
        return self.answers[self.used - 1]

    @property
    def left(self) -> int:
        return len([answer for answer in self.answers[self.used :] if not answer.forever])


def parse_script(entry: Script | Mapping[str, Any]) -> Script:
    if isinstance(entry, Script):
        return replace(entry, used=0)
    if missing := [option for option in ("path", "answers") if option not in entry]:
        raise BadFault(f"a script has no {' and no '.join(missing)}: {dict(entry)!r}")
    return Script(path=script_path(entry["path"]), answers=parse_answers(entry["answers"]))


def script_path(path: Any) -> str:
    """Normalised: `/machine/?comp=health` is `/machine?comp=health`. Without a query, a script matches any query."""
    if not isinstance(path, str) or not path.startswith("/"):
        raise BadFault(f"path {path!r} does not begin with a slash")
    plain, mark, query = path.partition("?")
    return (plain.rstrip("/") or "/") + mark + query


def parse_answers(entries: Iterable[Any]) -> tuple[Answer, ...]:
    answers = tuple(parse_answer(entry) for entry in entries)
    if not answers:
        raise BadFault("the list of answers is empty: give at least one")
    for answer in answers[:-1]:
        if answer.forever:
            raise BadFault(f"{answer.text!r} repeats for ever, so nothing can follow it")
    return answers


def parse_answer(entry: Any) -> Answer:
    if isinstance(entry, bool):
        raise BadFault(f"{entry!r} is not an answer; an answer is one of {WORDS}")
    if isinstance(entry, int):
        return status_answer(entry, text=str(entry))
    if isinstance(entry, Mapping):
        return parse_table(entry)
    if isinstance(entry, str):
        return parse_word(entry)
    raise BadFault(f"{entry!r} is not an answer; an answer is one of {WORDS}")


def parse_word(text: str) -> Answer:
    forever = text.endswith("*")
    match text.rstrip("*").split():
        case [("ok" | "reset" | "lost" | "silent" | "hang" | "garbage" | "html") as kind]:
            return Answer(kind=kind, text=text, forever=forever)
        case [status] if status.isdigit():
            return status_answer(int(status), text=text, forever=forever)
        case [("slow" | "restart" | "refuse") as kind, duration] if found := DURATION.fullmatch(duration):
            seconds = float(found[1]) / (1000 if found[2] == "ms" else 1)
            return Answer(kind=kind, text=text, forever=forever, amount=seconds)
        case [("truncate" | "stall" | "trickle" | "oversized") as kind, size] if found := re.fullmatch(
            r"(\d+)([a-z]*)", size.lower()
        ):
            if found[2] in SIZES:
                return Answer(kind=kind, text=text, forever=forever, amount=int(found[1]) * SIZES[found[2]])
    raise BadFault(f"{text!r} is not an answer; an answer is one of {WORDS}")


def parse_table(table: Mapping[str, Any]) -> Answer:
    if unknown := table.keys() - set(ANSWER_KEYS):
        raise BadFault(f"an answer has no {', '.join(sorted(unknown))}; it has {', '.join(ANSWER_KEYS)}")
    status = table.get("status", 200)
    if not isinstance(status, int) or isinstance(status, bool):
        raise BadFault(f"status {status!r} is not a number")
    headers = {}
    if "retry_after" in table:
        headers["Retry-After"] = str(table["retry_after"])
    if "content_type" in table:
        headers["Content-Type"] = str(table["content_type"])
    after = f", Retry-After {table['retry_after']}" if "retry_after" in table else ""
    answer = status_answer(status, text=f"{status}{after}", forever=bool(table.get("forever", False)))
    return replace(answer, headers=headers, body=None if "body" not in table else str(table["body"]))


def status_answer(status: int, *, text: str, forever: bool = False) -> Answer:
    if not 200 <= status <= 599:
        raise BadFault(f"{status} is not an HTTP status from 200 to 599")
    return Answer(kind="status", text=text, forever=forever, status=status)
