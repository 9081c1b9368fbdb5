"""Inputs for parsers: mutations of real documents, and words of their language in random order. Seeded."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

LONGEST = 1 << 16
HANG_SECS = 60  # of processor time for one input of at most 64 KiB: detects a parser that does not end, not a slow one
MOST_GROWTH = 512 << 20  # bytes of memory that a whole series may add
SECRET = "Kanarienvogel-7"
NUMBERS = (b"0", b"-1", b"255", b"256", b"65536", b"4294967295", b"4294967296", b"9" * 30, b"1e999", b"0x10", b"0777")
BYTES = (b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\t", b" ", b'"', b"'", b"\\", b"\xc3\xa9",
         b"\xed\xa0\x80", b"\x1b[2J", b"\xe2\x80\xa8", b"%s", b"{}")  # fmt: skip


@dataclass(frozen=True)
class Target:
    """`call` takes any bytes: it gives back nothing and raises nothing but `errors`, or an AssertionError."""

    name: str
    call: Callable[[bytes], object]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()
    errors: tuple[type[Exception], ...] = ()
    secret: bool = False  # the seeds contain SECRET, which no error text may contain
    cost: int = 1  # number of ordinary inputs that one of these replaces
    longest_error: int = 2000


@dataclass
class Tally:
    tried: int = 0
    refused: int = 0
    kinds: dict[str, int] = field(default_factory=dict)


def inputs(target: Target, count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(f"{seed} {target.name}")
    words = [*target.words, *NUMBERS, *BYTES]
    yield from target.seeds
    for _ in range(count - len(target.seeds)):
        if target.words and rng.random() < 0.25:
            yield b"".join(rng.choice(words) for _ in range(rng.randrange(1, 60)))
        else:
            yield mutated(rng, target.seeds, words)


def mutated(rng: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3, 5, 12))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 4, 16, 100)))
        kind = rng.randrange(9)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at:end]
        elif kind == 3:
            data[at:at] = data[at:end] * rng.choice((1, 1, 2, 30))
        elif kind == 4:
            data[at:end] = rng.choice(words)
        elif kind == 5:
            data[at:at] = rng.choice(words) * rng.choice((1, 1, 1, 3, 500))
        elif kind == 6:
            del data[at:]
        elif kind == 7:
            other = rng.choice(seeds)
            cut = rng.randrange(len(other) + 1)
            data[at:end] = other[cut : cut + rng.randrange(1, 200)]
        else:
            data[at:at] = rng.randbytes(rng.choice((1, 3, 20)))
        del data[LONGEST:]
    return bytes(data)


def run(target: Target, count: int, seed: int) -> Tally:
    tally = Tally()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for data in inputs(target, count, seed):
        tally.tried += 1
        where = f"{target.name}, seed {seed}, input {tally.tried}: {data[:300]!r}"
        try:
            with ending(where):
                target.call(data)
        except target.errors as error:
            tally.refused += 1
            tally.kinds[type(error).__name__] = tally.kinds.get(type(error).__name__, 0) + 1
            text = f"{error} {getattr(error, 'hint', '')} {getattr(error, 'data', '')}"
            assert len(text) <= target.longest_error, f"an error of {len(text)} letters: {where}"
            assert not target.secret or SECRET not in text, f"an error tells a secret: {where}"
        except Exception as error:
            error.add_note(where)
            raise
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < MOST_GROWTH, f"{target.name}, seed {seed}: {grown >> 20} MiB more memory"
    return tally


@contextmanager
def ending(where: str) -> Iterator[None]:
    """Ends a parser that does not end by itself."""

    def stop(*_: object) -> None:
        raise AssertionError(f"no end in sight: {where}")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_SECS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
