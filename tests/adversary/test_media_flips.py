"""One flipped bit anywhere in a medium's structures: the same document is read, or the medium is refused.

File contents have no checksum in either format, so they are left out; a document inside a UDF file entry is covered.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from azureinit.errors import MediaUnreadable
from azureinit.sources.media import read_image
from fakeazure.platform.media import disc
from support.bounds import SEED, sample
from support.images import EMBEDDED, LONG, SHORT, Udf, genisoimage, mkudffs

NAME = "ovf-env.xml"
# Two documents and a third file, so that a wrong extent, length or name has something else to lead to.
DOCUMENT = b"<Environment>" + b"document " * 300 + b"</Environment>"
OTHER = b"<Environment>" + b"something else " * 200 + b"</Environment>"
FILES = {NAME: DOCUMENT, "CustomData.bin": OTHER, "ovf-env.bak": OTHER[:1000]}
FEW = 1500
RUN = 128


class Live:
    """An image that may change between two reads, and remembers which bytes were asked for."""

    def __init__(self, data: bytearray) -> None:
        self.data, self.size = data, len(data)
        self.ranges: list[tuple[int, int]] = []

    def read(self, offset: int, length: int) -> bytes:
        self.ranges.append((offset, offset + length))
        return bytes(self.data[offset : offset + length])


def made_by_fakeazure(form: str) -> Callable[[Path], bytes]:
    return lambda _place: disc(FILES, form=form, made=datetime(2026, 1, 1, tzinfo=UTC))


def made_by_genisoimage(*options: str) -> Callable[[Path], bytes]:
    return lambda place: genisoimage(place, FILES, *options)


def made_by_mkudffs(revision: str, allocation: int, media: str = "dvd", size: int = 2048) -> Callable[[Path], bytes]:
    def make(place: Path) -> bytes:
        volume = Udf(mkudffs(place, revision=revision, media=media, block_size=size), block_size=size)
        for name, data in FILES.items():
            content = data[:1000] if allocation == EMBEDDED and size == 2048 else data
            volume.add(name, content, allocation=allocation, extended=revision > "2")
        return bytes(volume.image)

    return make


IMAGES: dict[str, Callable[[Path], bytes]] = {
    "fakeazure udf": made_by_fakeazure("udf"),
    "fakeazure iso": made_by_fakeazure("iso"),
    "fakeazure bridge": made_by_fakeazure("bridge"),
    "iso": made_by_genisoimage(),
    "iso rock ridge": made_by_genisoimage("-R"),
    "iso joliet": made_by_genisoimage("-J"),
    "iso joliet rock ridge": made_by_genisoimage("-J", "-R"),
    "iso bridge": made_by_genisoimage("-udf", "-J", "-R"),
    "udf 1.02 short": made_by_mkudffs("1.02", SHORT),
    "udf 1.02 disk": made_by_mkudffs("1.02", LONG, "hd", 512),
    "udf 2.01 long": made_by_mkudffs("2.01", LONG),
    "udf 2.01 embedded": made_by_mkudffs("2.01", EMBEDDED),
    "udf 2.01 sparable": made_by_mkudffs("2.01", LONG, "cdrw"),
    "udf 1.50 virtual": made_by_mkudffs("1.50", LONG, "cdr"),
    "udf 2.50 metadata": made_by_mkudffs("2.50", LONG, "bdr"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_no_flipped_bit_leads_to_other_content(tmp_path: Path, name: str) -> None:
    image = bytearray(IMAGES[name](tmp_path))
    live = Live(image)
    document = read_image(live)[1]
    assert document is not None and DOCUMENT.startswith(document)
    points = sample(places(image, live.ranges, contents="embedded" in name), FEW)
    lost = 0
    for at, bit in points:
        image[at] ^= 1 << bit
        try:
            found = read_image(Live(image))[1]
            assert found in (None, document), f"bit {bit} of byte {at} leads to other content; seed {SEED}"
            lost += found is None
        except MediaUnreadable as refused:
            assert len(str(refused)) < 1000
        image[at] ^= 1 << bit
    # A file can be lost without an error by its name alone, which has no twin in a plain ISO 9660 directory.
    assert lost == 0 or ("iso" in name and lost < len(points) / 50), f"{lost} of {len(points)}; seed {SEED}"


def places(image: bytearray, ranges: list[tuple[int, int]], *, contents: bool) -> list[tuple[int, int]]:
    """Every bit that was read, of contents only where they are covered; of zeroes one bit in each kibibyte."""
    runs = {start for begin, end in ranges for start in range(begin - begin % RUN, end, RUN)}
    points: list[tuple[int, int]] = []
    for start in sorted(runs):
        run = bytes(image[start : start + RUN])
        if not any(run):
            points += [(start + start // 1024 % RUN, start // 1024 % 8)] if start % 1024 == 0 else []
        elif contents or not any(run.rstrip(b"\0") in data for data in FILES.values()):
            points += [(at, bit) for at in range(start, start + len(run)) for bit in range(8)]
    return points


def test_what_covers_contents_is_tried_too(tmp_path: Path) -> None:
    """A document inside its UDF file entry is covered by that entry's CRC: every flip in it is refused."""
    image = bytearray(IMAGES["udf 2.01 embedded"](tmp_path))
    at = image.find(DOCUMENT[:1000])
    for place in sample(range(at, at + 1000), 100):
        image[place] ^= 4
        with pytest.raises(MediaUnreadable, match="damaged"):
            read_image(Live(image))
        image[place] ^= 4
