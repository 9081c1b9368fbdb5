"""YAML text -> Node. Reads events one by one, with PyYAML's resolver for scalars, so that every size is bounded.

The C parser (libyaml) is used where PyYAML has it: it reads 64 KiB in 4 to 9 ms, the Python one in 90 to 200. Values
are those of `yaml.safe_load`. Unlike there, a key that is given twice is an error.
"""

from __future__ import annotations

from azureinit.userdata.node import BINARY, DATE, FLAG, INTEGER, LIST, MAPPING, NULL, NUMBER, TEXT, Node
from azureinit.userdata.packages import YAML_HINT, YAML_MISSING, find_yaml
from azureinit.userdata.values import (
    ERROR,
    MOST_FINDINGS,
    MOST_NUMBER,
    MOST_YAML_BYTES,
    MOST_YAML_DEPTH,
    MOST_YAML_NODES,
    Finding,
    Place,
    finding,
    shown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

TAG = "tag:yaml.org,2002:"
MERGE = "merge"  # the key <<; as a value it is text
SCALARS = {
    "str": TEXT,
    "int": INTEGER,
    "float": NUMBER,
    "bool": FLAG,
    "null": NULL,
    "binary": BINARY,
    "timestamp": DATE,
    "merge": MERGE,
    "value": TEXT,
}
# Part of the parser's message, and what to do.
ADVICE = (
    ("mapping values are not allowed", "quote a value that contains a colon and a space, or correct the indentation"),
    ("could not find expected ':'", "a key needs a colon and a space after it; check the indentation of this line"),
    ("did not find expected key", "the indentation differs from that of the lines before"),
    ("expected <block end>", "the indentation differs from that of the lines before"),
    ("did not find expected '-' indicator", "the indentation differs from that of the lines before"),
    ("cannot start any token", "quote a value that begins with this character"),
    ("unexpected end of stream", "a quotation mark or bracket is not closed"),
    ("undefined tag handle", "quote a value that begins with !"),
)


PLAIN_DIGITS = 20
# The mistake is where the parser began to read the value, not where it gave up.
UNFINISHED = ("could not find expected ':'", "unexpected end of stream")
# Without their names: a password that begins with !, & or * and has no quotation marks is taken for one of them.
TAGGED = "a YAML tag (a word that begins with !) is not supported"
ANCHORED = "an anchor (a word that begins with &) is given twice"
MOST_LINES = 100_000  # beyond it, an error is told without a look at its line


class Refused(Exception):
    def __init__(self, message: str, line: int, column: int, hint: str = "") -> None:
        super().__init__(message)
        self.line, self.column, self.hint = line, column, hint


def parse_yaml(text: str, *, place: Place) -> tuple[Node | None, tuple[Finding, ...]]:
    """The document, None if it is empty or broken, and what is wrong with it."""
    yaml = find_yaml()
    if yaml is None:
        return None, (finding(ERROR, YAML_MISSING, place=place, hint=YAML_HINT),)
    if len(text) > MOST_YAML_BYTES:
        message = f"the YAML document is longer than {MOST_YAML_BYTES >> 20} MiB"
        return None, (finding(ERROR, message, place=place),)
    reader = Reader(yaml, place)
    try:
        node = reader.read(text)
    except Refused as refused:
        line, column, hint = refused.line, refused.column, refused.hint
        found = finding(ERROR, str(refused), place=place, line=line, column=column, hint=hint)
        return None, (*reader.findings, found)
    except yaml.reader.ReaderError:
        line, column = _unprintable(text)
        message = "invalid YAML: a control character"
        return None, (finding(ERROR, message, place=place, line=line, column=column, hint="remove the character"),)
    except yaml.YAMLError as error:
        return None, (*reader.findings, _syntax(error, text, place))
    return node, tuple(reader.findings)


class Frame:
    """A collection that is being read."""

    __slots__ = ("anchor", "column", "height", "items", "kind", "line", "size")

    def __init__(self, kind: str, line: int, column: int, anchor: str | None) -> None:
        self.kind, self.line, self.column, self.anchor = kind, line, column, anchor
        self.items: list[Node] = []
        self.size, self.height = 1, 1


class Reader:
    def __init__(self, yaml: Any, place: Place) -> None:
        self.yaml, self.place = yaml, place
        self.resolvers = yaml.SafeLoader.yaml_implicit_resolvers
        self.constructor = yaml.constructor.SafeConstructor()
        self.findings: list[Finding] = []
        self.frames: list[Frame] = []
        self.anchors: dict[str, tuple[Node, int] | None] = {}  # None while the collection is being read
        self.root: Node | None = None
        self.text = ""
        self.lines: list[str] = []  # of the text, once they are needed
        self.documents = 0

    def read(self, text: str) -> Node | None:
        yaml, self.text = self.yaml, text
        loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        handlers = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }
        for event in yaml.parse(text, Loader=loader):
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
        return self.root

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self._refuse("a second YAML document begins here", event, "remove the line ---")

    def _scalar(self, event: Any) -> None:
        value: Any = event.value
        text = value
        tag = event.tag
        kind = TEXT
        if tag is None or tag == "!":
            for short, pattern in self.resolvers.get(value[:1], ()) if event.implicit[0] else ():
                if pattern.match(value):
                    kind, value = self._resolved(short, event)
                    break
        else:
            kind, value = self._resolved(tag, event)
        mark, place = event.start_mark, self.place
        line, column = mark.line + 1 + place.line, mark.column + 1 + place.column
        node = Node(kind, value, line, column, place.part, text, event.style == "|")
        if not event.style and " - " in text and event.end_mark.line > mark.line:
            self._look_for_items(node, event)
        self._add(node, event, event.anchor, 1)

    def _look_for_items(self, node: Node, event: Any) -> None:
        """An item that is indented more than the one above it is a part of that one's text."""
        if not self.frames or self.frames[-1].kind != LIST or len(self.findings) >= MOST_FINDINGS:
            return
        self.lines = self.lines or self.text.split("\n")
        first, end = event.start_mark.line + 1, event.end_mark.line + 1
        for number, line in enumerate(self.lines[first:end], first + 1):
            if line.lstrip().startswith("- ") and line.strip() in node.text:
                column = len(line) - len(line.lstrip()) + 1
                message = "this line begins with a hyphen, and is still a part of the item above it"
                hint = "give both items the same indentation, or put the text in quotation marks"
                self.findings.append(finding(ERROR, message, place=self.place, line=number, column=column, hint=hint))
                return

    def _resolved(self, tag: str, event: Any) -> tuple[str, Any]:
        name = tag[len(TAG) :] if tag.startswith(TAG) else ""
        kind = SCALARS.get(name, "")
        if not kind:
            self._refuse(TAGGED, event, "quote a value that begins with !")
        if kind in (TEXT, MERGE):
            return kind, event.value
        if kind == INTEGER and len(event.value) < PLAIN_DIGITS and event.value.isdigit() and event.value[0] != "0":
            return INTEGER, int(event.value)  # as the constructor does, in a third of the time
        if kind in (INTEGER, NUMBER) and len(event.value) > MOST_NUMBER:
            self._refuse(f"a number has more than {MOST_NUMBER} digits", event, "quote it if it is text")
        node = self.yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        try:
            return kind, getattr(self.constructor, f"construct_yaml_{name}")(node)
        except (ValueError, KeyError, IndexError, OverflowError, AttributeError, self.yaml.YAMLError):
            self._refuse(f"this is not a valid {kind}", event, "quote it if it is text")

    def _open(self, event: Any) -> None:
        kind, tag = (MAPPING, "map") if isinstance(event, self.yaml.MappingStartEvent) else (LIST, "seq")
        if event.tag not in (None, "!", TAG + tag):
            self._refuse(TAGGED, event, "remove the tag")
        if len(self.frames) >= MOST_YAML_DEPTH:
            self._refuse(f"the YAML is nested more than {MOST_YAML_DEPTH} levels deep", event)
        if event.anchor is not None:
            if event.anchor in self.anchors:
                self._refuse(ANCHORED, event, "quote a value that begins with &")
            self.anchors[event.anchor] = None
        mark = event.start_mark
        self.frames.append(Frame(kind, mark.line + 1, mark.column + 1, event.anchor))

    def _close(self, _event: Any) -> None:
        frame = self.frames.pop()
        made = tuple(frame.items) if frame.kind == LIST else self._pairs(frame.items)
        place = self.place
        node = Node(frame.kind, made, frame.line + place.line, frame.column + place.column, place.part)
        node.size = frame.size
        self._add(node, frame, frame.anchor, frame.height)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            self._refuse("an alias has no anchor", event, "quote a value that begins with *")
        known = self.anchors[event.anchor]
        if known is None:
            self._refuse("an alias contains itself", event)
        node, height = known
        if len(self.frames) + height > MOST_YAML_DEPTH:
            self._refuse(f"the YAML is nested more than {MOST_YAML_DEPTH} levels deep", event)
        self._add(node, event, None, height)

    def _add(self, node: Node, at: Any, anchor: str | None, height: int) -> None:
        if anchor is not None:
            if self.anchors.get(anchor) is not None:
                self._refuse(ANCHORED, at, "quote a value that begins with &")
            self.anchors[anchor] = node, height
        frame = self.frames[-1] if self.frames else None
        if node.kind == MERGE and (frame is None or frame.kind == LIST or len(frame.items) % 2):
            node.kind = TEXT
        if frame is None:
            self.root = node
            return
        frame.items.append(node)
        frame.size += node.size
        frame.height = max(frame.height, height + 1)
        if frame.size > MOST_YAML_NODES:
            self._refuse(f"the YAML has more than {MOST_YAML_NODES} values, aliases expanded", at)

    def _pairs(self, items: list[Node]) -> tuple[tuple[Node, Node], ...]:
        own: dict[Any, tuple[Node, Node]] = {}
        merged: dict[Any, tuple[Node, Node]] = {}
        for key, value in zip(items[::2], items[1::2]):
            if key.kind in (MAPPING, LIST):
                self._refuse_at(
                    "a key must be text, not a mapping or a list", key, "quote a value that begins with { or ["
                )
            if key.kind == MERGE:
                merged.update(self._merged(value))
                continue
            before = own.get(key.value)
            if before is not None and len(self.findings) < MOST_FINDINGS:
                self.findings.append(
                    Finding(
                        level=ERROR,
                        message=f"the key {shown(key.text)} is given twice: first in line {before[0].line}",
                        line=key.line,
                        column=key.column,
                        part=key.part,
                        hint="only the last one would count: join the two",
                    )
                )
            own[key.value] = key, value
        return tuple({**merged, **own}.values()) if merged else tuple(own.values())

    def _merged(self, value: Node) -> dict[Any, tuple[Node, Node]]:
        """The pairs that `<<` adds: of several mappings the first wins, and own keys win over all."""
        pairs: dict[Any, tuple[Node, Node]] = {}
        for mapping in reversed(value.items()) if value.kind == LIST else (value,):
            if mapping.kind != MAPPING:
                self._refuse_at("<< takes a mapping, or a list of mappings", value)
            pairs.update({key.value: (key, below) for key, below in mapping.pairs()})
        return pairs

    def _refuse(self, message: str, at: Any, hint: str = "") -> NoReturn:
        if isinstance(at, Frame):
            raise Refused(message, at.line, at.column, hint)
        raise Refused(message, at.start_mark.line + 1, at.start_mark.column + 1, hint)

    def _refuse_at(self, message: str, node: Node, hint: str = "") -> NoReturn:
        raise Refused(message, node.line - self.place.line, node.column - self.place.column, hint)


def _syntax(error: Any, text: str, place: Place) -> Finding:
    """The parser's own message. It contains no value of the document, at most one character."""
    problem = str(getattr(error, "problem", None) or "cannot be read")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    found = line_of(text, line)
    indentation = found[: len(found) - len(found.lstrip())]
    if "\t" in indentation or found[column - 1 : column] == "\t":
        column = (indentation if "\t" in indentation else found).find("\t") + 1
        message, hint = "invalid YAML: a tab where only spaces are allowed", "indent with spaces"
        return finding(ERROR, message, place=place, line=line, column=column, hint=hint)
    begun = getattr(error, "context_mark", None)
    if begun is not None and any(words in problem for words in UNFINISHED):
        problem = f"{problem} ({error.context}), and ends in line {line + place.line}"
        line, column = begun.line + 1, begun.column + 1
    hint = next((advice for words, advice in ADVICE if words in problem), "")
    return finding(ERROR, f"invalid YAML: {problem}", place=place, line=line, column=column, hint=hint)


def line_of(text: str, number: int) -> str:
    lines = text.split("\n", number) if number <= MOST_LINES else ()
    return lines[number - 1] if len(lines) >= number else ""


def _unprintable(text: str) -> tuple[int, int]:
    """Line and column of the first character that YAML does not allow."""
    line = column = 1
    for character in text:
        code = ord(character)
        control = code < 32 and character not in "\t\n\r"
        if control or (127 <= code < 160 and code != 0x85) or code in (0xFFFE, 0xFFFF):
            break
        line, column = (line + 1, 1) if character == "\n" else (line, column + 1)
    return line, column
