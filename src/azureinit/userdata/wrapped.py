"""Content of customData while it is unpacked: where it begins, and what it was wrapped in."""

from __future__ import annotations

from azureinit.userdata.formats import GZIP_TYPES
from azureinit.userdata.values import Place

FILE = Place()


class Wrapped:
    """Content that has to be unpacked further, or that is a part."""

    __slots__ = ("chain", "content", "content_type", "inside", "merge_type", "name", "place", "windows")

    def __init__(
        self,
        content: bytes,
        place: Place = FILE,
        inside: tuple[str, ...] = (),
        name: str = "",
        chain: tuple[str, ...] = (),
    ) -> None:
        self.content, self.place, self.inside, self.name = content, place, inside, name
        self.chain = chain  # the URLs that it was included by
        self.content_type = self.merge_type = ""
        self.windows = False  # what it lies in has Windows line ends itself

    def unpacked(self, content: bytes, how: str, place: Place) -> Wrapped:
        below = Wrapped(content, place, (*self.inside, how), self.name, self.chain)
        below.merge_type, below.windows = self.merge_type, self.windows
        below.content_type = "" if self.content_type in GZIP_TYPES else self.content_type
        return below
