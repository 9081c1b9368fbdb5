"""Log filters: directives such as `warn,libazureinit::http=debug`; the most specific one applies.

A target is `libazureinit::` and the event's name. `azure_init` and `azureinit` name all targets of the agent, too;
`off` is a level.
"""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LEVELS = {"off": 99, "error": 40, "warn": 30, "info": 20, "debug": 10, "trace": 5, "warning": 30}
NUMBERS = dict(zip("012345", LEVELS))  # a level may also be given as its index in this row
ROOT = "libazureinit::"  # the prefix of all targets
OURS = ("libazureinit", "azure_init", "azureinit")


class Filter(Record):
    level: int  # for events without a matching target
    targets: Mapping[str, int]

    def allows(self, name: str, level: int) -> bool:
        if not self.targets:
            return level >= self.level
        target = target_of(name)
        longest = max((prefix for prefix in self.targets if target.startswith(prefix)), key=len, default=None)
        return level >= (self.level if longest is None else self.targets[longest])


def target_of(name: str) -> str:
    """The target of an event: `report Ready` is libazureinit::report_ready."""
    return ROOT + "".join(one if one.isalnum() else "_" for one in name.lower())


def parse_filter(text: str) -> Filter | None:
    """None for a malformed list. Without a bare level, only named targets and errors are logged."""
    level, targets = LEVELS["error"], {}
    directives = [*filter(None, (one.strip() for one in text.split(",")))]
    for directive in directives:
        target, equals, word = directive.rpartition("=")
        found = _level(word.strip())
        if equals:
            if found is None or not _is_target(target.strip()):
                return None
            targets[_own(target.strip())] = found
        elif found is not None:
            level = found
        elif _is_target(directive) and (len(directives) > 1 or _is_path(directive)):
            targets[_own(directive)] = LEVELS["trace"]  # everything from there
        else:
            return None
    return Filter(level=level, targets=targets)


def _level(word: str) -> int | None:
    return LEVELS.get(NUMBERS.get(word, word.lower()))


def _is_target(word: str) -> bool:
    return bool(word) and word.isascii() and all(one.isalnum() or one in "_:-." for one in word)


def _is_path(word: str) -> bool:
    """False for a misspelt level, which would otherwise be a target and silence all but errors."""
    return "::" in word or ROOT.startswith(_own(word))


def _own(target: str) -> str:
    """The prefix of targets that a directive's name stands for."""
    for name in OURS:
        if target == name or target.startswith(name + "::"):
            return "libazureinit" + target[len(name) :]
    return target
