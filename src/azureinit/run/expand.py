"""customData with its includes fetched and its templates rendered: parsed again until nothing is left to expand.

What was fetched and rendered is kept in the VM's directory. Later stages of the boot use that and nothing else. At a
later boot `#include-once` and the sources of files are read from it; another include is fetched again, and if that
fails, the earlier copy is used.
"""

from __future__ import annotations

from azureinit.errors import HttpFailed
from azureinit.memory.expanded import read_expansion, write_expansion
from azureinit.record import Secret, replace
from azureinit.run.fetching import fetch as fetch_url
from azureinit.userdata.document import EMPTY, read_document
from azureinit.userdata.expanding import MOST_FETCHED, NOTHING, Expansion, Failed, file_sources
from azureinit.userdata.parts import RENDERED
from azureinit.userdata.values import ERROR, MOST_DEPTH, WARNING, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from azureinit.config.model import Config
    from azureinit.facts.image_config import ConfigFile
    from azureinit.http import Observe
    from azureinit.machine import Machine
    from azureinit.userdata.document import Document
    from azureinit.userdata.expanding import Source
    from azureinit.userdata.values import Include

ROUNDS = MOST_DEPTH + 4  # includes in includes, then their templates
TOO_MUCH = f"all URLs together have more than {MOST_FETCHED >> 20} MiB"
NOT_KEPT = "the network stage did not fetch it"


def expand(
    machine: Machine,
    data: bytes,
    settings: Config,
    *,
    directory: str = "",
    below: tuple[ConfigFile, ...] = (),
    instance_data: Mapping[str, Any] | None = None,
    deadline: float,
    fetch: bool,
    earlier_only: bool = False,
    tell: Callable[[str], None] | None = None,
    observe: Observe | None = None,
) -> Document:
    """Every failure is a finding with its line.

    `directory`: where the result is kept; empty: nowhere. `instance_data`: the whole of it, for the variables of
    templates, which without it are not rendered. `fetch`: False leaves URLs alone, which is a warning. `earlier_only`:
    use what an earlier stage has kept.
    """
    kept = read_expansion(machine, directory) if directory else None
    work = _Work(machine, settings, kept or NOTHING, deadline=deadline, fetch=fetch, earlier_only=earlier_only)
    work.tell, work.observe = tell or work.tell, observe
    allow_http = settings.userdata.allow_http
    if instance_data is not None and not settings.userdata.jinja_sensitive:
        from azureinit.userdata.instance_data import redacted

        instance_data = redacted(instance_data)
    document = read_document(data, allow_http=allow_http, below=below)
    for _round in range(ROUNDS):
        if not work.advance(document, instance_data):
            break
        document = read_document(data, allow_http=allow_http, expansion=work.expansion, below=below)
    document = work.with_sources(document)
    if directory and work.is_new:
        write_expansion(machine, directory, work.everything)
    return document


class _Work:
    def __init__(
        self,
        machine: Machine,
        settings: Config,
        kept: Expansion,
        *,
        deadline: float,
        fetch: bool,
        earlier_only: bool,
    ) -> None:
        self.machine, self.settings, self.kept = machine, settings, kept
        self.deadline, self.fetch, self.earlier_only = deadline, fetch, earlier_only
        self.tell: Callable[[str], None] = lambda _text: None
        self.observe: Observe | None = None
        self.fetched: dict[str, bytes | Failed] = {}
        self.rendered: dict[bytes, bytes | Failed] = dict(kept.rendered) if earlier_only else {}
        self.room = MOST_FETCHED
        self.is_new = False

    @property
    def expansion(self) -> Expansion:
        return Expansion(fetched=self.fetched, rendered=self.rendered)

    @property
    def everything(self) -> Expansion:
        """With what earlier boots fetched: an error in this document must not lose it."""
        usable = {url: content for url, content in self.fetched.items() if isinstance(content, bytes)}
        return Expansion(fetched={**self.kept.fetched, **usable}, rendered=self.rendered)

    def advance(self, document: Document, data: Mapping[str, Any] | None) -> bool:
        """Fetch and render what the document still lacks. False: there is nothing more that can be done."""
        before = len(self.fetched) + len(self.rendered)
        for include in document.includes:
            if include.url not in self.fetched:
                self._include(include)
        for part in document.templates:
            if part.renders in RENDERED:
                self._render(part.content, data)
        for template in document.image_templates:
            self._render(template, data)
        return len(self.fetched) + len(self.rendered) > before

    def with_sources(self, document: Document) -> Document:
        """With the sources of files. One that cannot be fetched is a warning if the file has content beside it."""
        found: list[Finding] = []
        sources: dict[str, Secret] = {}
        for source in file_sources(document.config):
            if source.uri not in self.fetched:
                self._source(source)
            content = self.fetched.get(source.uri)
            if isinstance(content, bytes):
                sources[source.uri] = Secret(content)
            elif isinstance(content, Failed):
                found.append(
                    Finding(
                        level=WARNING if source.optional else ERROR,
                        message=f"the source of the file cannot be fetched: {content.why}",
                        line=source.line,
                        column=source.column,
                        part=source.part,
                        hint="its content is used" if source.optional else "",
                    )
                )
        findings = (*document.findings, *found)
        if any(one.level == ERROR for one in found):
            return replace(document, config=EMPTY, scripts=(), findings=findings)
        return replace(document, findings=findings, fetched=sources)

    def _include(self, include: Include) -> None:
        earlier = self.kept.fetched.get(include.url)
        if self.earlier_only or (include.once and earlier is not None):
            self._use(include.url, earlier or Failed(why=NOT_KEPT))
        elif self.fetch:
            content = self._fetched(include.url, {})
            if isinstance(content, Failed) and earlier is not None:
                self.tell(f"line {include.line}: {content.why}; the copy of an earlier boot is used")
                content = earlier
            self._use(include.url, content)

    def _source(self, source: Source) -> None:
        """It is fetched once for each VM."""
        earlier = self.kept.fetched.get(source.uri)
        if self.earlier_only or earlier is not None:
            self._use(source.uri, earlier or Failed(why=NOT_KEPT))
        elif self.fetch:
            self._use(source.uri, self._fetched(source.uri, dict(source.headers)))

    def _use(self, url: str, content: bytes | Failed) -> None:
        self.fetched[url] = content
        if isinstance(content, bytes):
            self.room -= len(content)
            self.is_new = self.is_new or self.kept.fetched.get(url) != content
        if self.room < 0:
            self.fetched[url] = Failed(why=TOO_MUCH)

    def _fetched(self, url: str, headers: dict[str, str]) -> bytes | Failed:
        if self.room <= 0:
            return Failed(why=TOO_MUCH)
        self.tell(f"fetching {url.partition('?')[0]}")
        allow_http = self.settings.userdata.allow_http
        try:
            return fetch_url(
                self.machine,
                url,
                allow_http=allow_http,
                deadline=self.deadline,
                limit=self.room,
                headers=headers,
                observe=self.observe,
            )
        except HttpFailed as error:
            return Failed(why=str(error))

    def _render(self, template: bytes, data: Mapping[str, Any] | None) -> None:
        if template in self.rendered or data is None or self.earlier_only:
            return
        try:
            template.decode()
        except UnicodeDecodeError:
            return  # a finding of its own
        from azureinit.run.rendering import render

        self.tell("rendering a template")
        placeholders = self.settings.userdata.cloud_init_compat
        self.rendered[template] = render(self.machine, template, data, placeholders=placeholders)
        self.is_new = self.is_new or self.kept.rendered.get(template) != self.rendered[template]
