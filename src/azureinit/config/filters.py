"""What is worth telling: directives such as `warn,libazureinit::http=debug`, the most particular of which counts.

A target is where an event comes from: `libazureinit::` and the event's name. `azure_init` and `azureinit` name all of
ours, too; `off` is a level.
"""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LEVELS = {"off": 99, "error": 40, "warn": 30, "info": 20, "debug": 10, "trace": 5}
NUMBERS = dict(zip("012345", LEVELS))  # a level may also be its place in that row
OURS = ("libazureinit", "azure_init", "azureinit")


class Filter(Record):
    level: int  # of whatever no target is named for
    targets: Mapping[str, int]

    def lets(self, name: str, level: int) -> bool:
        if not self.targets:
            return level >= self.level
        target = target_of(name)
        longest = max((prefix for prefix in self.targets if target.startswith(prefix)), key=len, default=None)
        return level >= (self.level if longest is None else self.targets[longest])

    @property
    def lowest(self) -> int:
        return min(self.level, *self.targets.values()) if self.targets else self.level


def target_of(name: str) -> str:
    """`report Ready` is libazureinit::report_ready."""
    return "libazureinit::" + "".join(one if one.isalnum() else "_" for one in name.lower())


def parse_filter(text: str) -> Filter | None:
    """None for what is no list of directives. Without a bare level, only what is named is told, and errors."""
    level, targets = LEVELS["error"], {}
    for directive in filter(None, (one.strip() for one in text.split(","))):
        target, equals, word = directive.rpartition("=")
        found = _level(word.strip())
        if equals:
            if found is None or not _is_target(target.strip()):
                return None
            targets[_own(target.strip())] = found
        elif found is not None:
            level = found
        elif _is_target(directive):
            targets[_own(directive)] = LEVELS["trace"]  # everything from there
        else:
            return None
    return Filter(level=level, targets=targets)


def _level(word: str) -> int | None:
    return LEVELS.get(NUMBERS.get(word, word.lower()))


def _is_target(word: str) -> bool:
    return bool(word) and word.isascii() and all(one.isalnum() or one in "_:-." for one in word)


def _own(target: str) -> str:
    """The prefix it stands for in our names: the agent has one, whatever it is called."""
    for name in OURS:
        if target == name or target.startswith(name + "::"):
            return "libazureinit" + target[len(name) :]
    return target
