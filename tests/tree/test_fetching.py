"""What customData names by URL, from servers with certificates of an authority that the test makes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from azureinit.config.model import Config
from azureinit.errors import HttpFailed
from azureinit.http import Retry
from azureinit.machine import Machine
from azureinit.memory.expanded import read_expansion
from azureinit.record import replace
from azureinit.run import expand as expand_module
from azureinit.run.expand import expand
from azureinit.run.fetching import RETRY, fetch
from azureinit.userdata.document import Document
from azureinit.userdata.node import plain
from support.https import HOST, Page, Resolving, Site, make_authority, serving

ONCE = replace(RETRY, attempts=1, connect_timeout=5.0)
DIRECTORY = "/var/lib/azure-init/vm.d"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def trusted(authority: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The server's certificate, whose authority the system's store has."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority[0]))
    monkeypatch.setenv("SSL_CERT_DIR", "/nowhere")
    return authority[1]


@pytest.fixture
def machine(tmp_path: Path) -> Resolving:
    return Resolving({HOST: ("127.0.0.1",)}, tmp_path)


Pages = dict[str, "Page | Callable[[], Page]"]


@pytest.fixture
def site(trusted: Path, pages: Pages) -> Iterator[Site]:
    with serving(pages, trusted) as made:
        yield made


@pytest.fixture
def pages() -> Pages:
    return {}


def get(machine: Machine, url: str, *, limit: int = 1 << 20, retry: Retry = ONCE, allow_http: bool = False) -> bytes:
    deadline = machine.clock.monotonic() + 20
    return fetch(machine, url, allow_http=allow_http, deadline=deadline, limit=limit, retry=retry)


def why(machine: Machine, url: str, *, limit: int = 1 << 20, allow_http: bool = False) -> str:
    with pytest.raises(HttpFailed) as caught:
        get(machine, url, limit=limit, allow_http=allow_http)
    return str(caught.value)


def expanded(machine: Machine, text: str, *, settings: Config | None = None, earlier_only: bool = False) -> Document:
    return expand(
        machine,
        text.encode(),
        settings or Config(),
        directory=DIRECTORY,
        deadline=machine.clock.monotonic() + 20,
        fetch=True,
        earlier_only=earlier_only,
    )


def errors(document: Document) -> list[tuple[int, str, str]]:
    return [(one.line, one.part, one.message) for one in document.errors]


# ---- one fetch


def test_a_file_is_fetched_and_the_certificate_verified(machine: Resolving, site: Site, pages: Pages) -> None:
    pages["/a?sig=S3cret"] = b"hello"
    assert get(machine, site.url("/a?sig=S3cret")) == b"hello"
    assert site.requests[0][1]["host"] == f"{HOST}:{site.port}"


def test_an_unknown_authority_ends_the_fetch_at_once(
    authority: tuple[Path, Path], machine: Resolving, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(make_authority(other)[0]))
    untrusted = pytest.raises(HttpFailed, match="certificate cannot be trusted")
    with serving({"/a": b"x"}, authority[1]) as site, untrusted:
        get(machine, site.url("/a"), retry=RETRY)
    assert site.requests == []


def test_a_certificate_of_another_name_is_refused(tmp_path: Path, site: Site) -> None:
    machine = Resolving({"other.example": ("127.0.0.1",)}, tmp_path)
    assert "certificate cannot be trusted" in why(machine, site.url("/a", "other.example"))


def test_proxies_of_the_environment_are_not_used(
    machine: Resolving, site: Site, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    pages["/a"] = b"direct"
    assert get(machine, site.url("/a")) == b"direct"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("http://files.example/a", "it redirects to a URL that is refused: an include must be an https:// URL"),
        ("https://169.254.169.254/metadata", "link-local address or the platform's own"),
        ("https://[::ffff:169.254.169.254]/x", "link-local address or the platform's own"),
        ("https://168.63.129.16/x", "link-local address or the platform's own"),
        ("https://2852039166/x", "link-local address or the platform's own"),
        ("https://imds.example/x", "the host's address is link-local or the platform's own"),
        ("https://six.example/x", "the host's address is link-local or the platform's own"),
        ("https://mixed.example/x", "the host's address is link-local or the platform's own"),
        ("file:///etc/shadow", "an include must be an https:// URL"),
        ("//imds.example/x", "the host's address is link-local or the platform's own"),
    ],
)
def test_a_redirect_is_checked_like_the_url_itself(
    tmp_path: Path, site: Site, pages: Pages, location: str, expected: str
) -> None:
    names = {
        HOST: ("127.0.0.1",),
        "imds.example": ("169.254.169.254",),
        "six.example": ("fe80::1",),
        "mixed.example": ("127.0.0.1", "168.63.129.16"),
    }
    pages["/a"] = (302, {"Location": location}, b"")
    assert expected in why(Resolving(names, tmp_path), site.url("/a"))
    assert len(site.requests) == 1


def test_https_is_not_left_even_where_http_is_allowed(machine: Resolving, site: Site, pages: Pages) -> None:
    with serving({"/b": b"plain"}, None) as plain_site:
        pages["/a"] = (302, {"Location": plain_site.url("/b")}, b"")
        assert "it is not an https:// URL" in why(machine, site.url("/a"), allow_http=True)
        assert get(machine, plain_site.url("/b"), allow_http=True) == b"plain"
    assert len(plain_site.requests) == 1


def test_redirects_are_followed_and_counted(machine: Resolving, site: Site, pages: Pages) -> None:
    pages.update({"/d/a": (302, {"Location": "b"}, b""), "/d/b": (307, {"Location": "/c"}, b""), "/c": b"there"})
    assert get(machine, site.url("/d/a")) == b"there"
    pages["/l"] = (302, {"Location": "/l"}, b"")
    assert why(machine, site.url("/l")) == "it is redirected more than 5 times"


def test_headers_go_to_the_first_host_only(tmp_path: Path, site: Site, pages: Pages) -> None:
    machine = Resolving({HOST: ("127.0.0.1",)}, tmp_path)
    pages.update({"/a": (302, {"Location": site.url("/b", "127.0.0.1")}, b""), "/b": b"x", "/c": b"x"})
    deadline = machine.clock.monotonic() + 20
    asked = {"Authorization": "token"}
    for path in ("/a", "/c"):
        fetch(machine, site.url(path), allow_http=False, deadline=deadline, limit=99, headers=asked, retry=ONCE)
    assert [(path, "authorization" in headers) for path, headers in site.requests] == [
        ("/a", True),
        ("/b", False),
        ("/c", True),
    ]
    with pytest.raises(HttpFailed, match="a header has a character"):
        fetch(machine, site.url("/c"), allow_http=False, deadline=deadline, limit=99, headers={"A": "b\r\nC: d"})


def test_what_is_too_large_or_too_slow_is_given_up(machine: Resolving, site: Site, pages: Pages) -> None:
    pages["/large"] = b"x" * 100_001
    assert "answer larger than 100000 bytes" in why(machine, site.url("/large"), limit=100_000)

    def slow() -> bytes:
        time.sleep(1.5)
        return b"x"

    pages["/slow"] = slow
    begun = machine.clock.monotonic()
    with pytest.raises(HttpFailed, match="timed out"):
        fetch(machine, site.url("/slow"), allow_http=False, deadline=begun + 0.5, limit=99)
    assert machine.clock.monotonic() - begun < 1.4


def test_a_server_that_recovers_is_asked_again_and_a_missing_page_is_not(
    machine: Resolving, site: Site, pages: Pages
) -> None:
    answers: list[Page] = [(503, {}, b""), b"here"]
    pages["/a"] = lambda: answers.pop(0)
    assert get(machine, site.url("/a"), retry=replace(RETRY, delay=0.05)) == b"here"
    with pytest.raises(HttpFailed) as caught:
        get(machine, site.url("/none?sig=S3cret"), retry=RETRY)
    assert str(caught.value) == "status 404"


def test_a_name_without_an_address_is_told(tmp_path: Path) -> None:
    assert "cannot be resolved" in why(Machine(root=str(tmp_path)), "https://no-such-host.invalid/x")
    assert "link-local" in why(Machine(root=str(tmp_path)), "https://169.254.169.254/x")


# ---- includes


def test_includes_are_fetched_in_their_place(machine: Resolving, site: Site, pages: Pages) -> None:
    inner = f"#include\n{site.url('/two')}\n"
    pages.update({"/one": inner.encode(), "/two": b"#cloud-config\nhostname: two\n", "/three": b"#!/bin/sh\n"})
    document = expanded(machine, f"#include\n{site.url('/one')}\n{site.url('/three')}\n")
    assert document.findings == ()
    assert plain(document.config) == {"hostname": "two"}
    assert [(part.kind, part.place.part) for part in document.parts] == [
        ("cloud-config", "include, line 2, line 2"),
        ("script", "include, line 3"),
    ]


def test_a_mistake_in_an_included_document_names_its_place(machine: Resolving, site: Site, pages: Pages) -> None:
    pages["/one"] = b"#cloud-config\nruncm: [a]\n"
    document = expanded(machine, f"#include\n# a comment\n{site.url('/one')}\n")
    assert errors(document) == [(2, "include, line 3", "unknown key runcm")]
    assert document.config.pairs() == ()


def test_a_failure_is_an_error_with_the_line(machine: Resolving, site: Site) -> None:
    document = expanded(machine, f"#include\n\n{site.url('/none?sig=S3cret')}\n")
    assert errors(document) == [(3, "", "the include cannot be fetched: status 404")]
    assert "S3cret" not in repr(document.findings)


def test_loops_end(machine: Resolving, site: Site, pages: Pages) -> None:
    pages["/a"] = f"#include {site.url('/b')}\n".encode()
    pages["/b"] = f"#include {site.url('/a')}\n".encode()
    ((line, part, message),) = errors(expanded(machine, f"#include {site.url('/a')}\n"))
    assert (line, part) == (1, "include, line 1, line 1") and "includes it" in message
    assert len(site.requests) == 2


def test_depth_and_number_are_limited(machine: Resolving, site: Site, pages: Pages) -> None:
    for at in range(12):
        pages[f"/{at}"] = f"#include {site.url(f'/{at + 1}')}\n".encode()
    pages["/last"] = b"#!/bin/sh\n"
    (found,) = errors(expanded(machine, f"#include {site.url('/0')}\n"))
    assert "nested more than 10 levels deep" in found[2]
    assert len(site.requests) <= 11
    twice = f"#include\n{site.url('/last')}\n{site.url('/last')}\n"
    pages["/many"] = (twice * 30).encode()
    (found,) = errors(expanded(machine, f"#include\n{site.url('/many')}\n{site.url('/many')}\n"))
    assert "more than 100 URLs" in found[2]


def test_a_checksum_is_checked(machine: Resolving, site: Site, pages: Pages) -> None:
    pages["/a"] = b"#!/bin/sh\n"
    right, wrong = hashlib.sha256(b"#!/bin/sh\n").hexdigest(), "0" * 64
    assert expanded(machine, f"#include\n{site.url('/a')}#sha256={right.upper()}\n").errors == ()
    document = expanded(machine, f"#include\n{site.url('/a')}#sha256={wrong}\n")
    assert errors(document) == [(2, "", "the included content does not have this checksum")]


def test_all_urls_together_have_a_limit(
    machine: Resolving, site: Site, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expand_module, "MOST_FETCHED", 100)
    pages.update({"/a": b"#!/bin/sh\n" + b"#" * 60, "/b": b"#!/bin/sh\n" + b"#" * 20})
    document = expanded(machine, f"#include\n{site.url('/a')}\n{site.url('/b')}\n")
    assert document.errors == ()
    pages["/c"] = b"#!/bin/sh\n"
    urls = "\n".join(site.url(path) for path in ("/a", "/b", "/c"))
    assert errors(expanded(machine, f"#include\n{urls}\n")) == [
        (4, "", "the include cannot be fetched: all URLs together have more than 16 MiB")
    ]


def test_later_stages_fetch_nothing_and_once_is_once(machine: Resolving, site: Site, pages: Pages) -> None:
    pages.update({"/once": b"#cloud-config\nhostname: one\n", "/every": b"#!/bin/sh\necho 1\n"})
    text = f"#include-once\n{site.url('/once')}\n#include\n{site.url('/every')}\n"
    first = expanded(machine, text)
    assert machine.stat(f"{DIRECTORY}/expanded").st_mode & 0o777 == 0o600  # type: ignore[union-attr]
    later = expanded(machine, text, earlier_only=True)
    assert (plain(later.config), later.parts) == (plain(first.config), first.parts) and len(site.requests) == 2
    pages.update({"/once": b"#cloud-config\nhostname: two\n", "/every": b"#!/bin/sh\necho 2\n"})
    again = expanded(machine, text)
    assert [path for path, _ in site.requests[2:]] == ["/every"]
    assert plain(again.config) == {"hostname": "one"} and again.scripts[0].content == b"#!/bin/sh\necho 2\n"


def test_an_earlier_copy_is_used_where_a_later_boot_cannot_fetch(machine: Resolving, site: Site, pages: Pages) -> None:
    pages["/a"] = b"#!/bin/sh\necho 1\n"
    text = f"#include\n{site.url('/a')}\n"
    expanded(machine, text)
    del pages["/a"]
    told: list[str] = []
    deadline = machine.clock.monotonic() + 20
    again = expand(
        machine, text.encode(), Config(), directory=DIRECTORY, deadline=deadline, fetch=True, tell=told.append
    )
    assert again.errors == () and again.scripts[0].content == b"#!/bin/sh\necho 1\n"
    assert told[-1] == "line 2: status 404; the copy of an earlier boot is used"
    assert expanded(machine, "#include\nhttps://other.example/x\n", earlier_only=True).errors != ()


def test_without_fetch_an_include_is_one_warning(machine: Resolving) -> None:
    text = b"#include\nhttps://a.example/x\nhttps://a.example/y\n"
    document = expand(machine, text, Config(), deadline=1e9, fetch=False)
    assert [one.level for one in document.findings] == ["warning"] and machine.asked == []
    assert len(document.includes) == 2


def test_a_damaged_record_is_as_none(machine: Resolving, site: Site, pages: Pages) -> None:
    pages["/a"] = b"#!/bin/sh\n"
    expanded(machine, f"#include\n{site.url('/a')}\n")
    path = Path(machine.real(f"{DIRECTORY}/expanded"))
    path.write_bytes(path.read_bytes().replace(b"IyEv", b"IyEw"))
    assert read_expansion(machine, DIRECTORY) is None


# ---- the sources of files


def test_the_source_of_a_file_is_fetched_once_with_its_headers(machine: Resolving, site: Site, pages: Pages) -> None:
    pages["/f"] = b"content"
    file = f"path: /f, source: {{uri: '{site.url('/f')}', headers: {{Authorization: token}}}}"
    text = f"#cloud-config\nwrite_files:\n- {{{file}}}\n"
    document = expanded(machine, text)
    assert {uri: secret.reveal() for uri, secret in document.fetched.items()} == {site.url("/f"): b"content"}
    assert site.requests[0][1]["authorization"] == "token"
    pages["/f"] = b"changed"
    for earlier_only in (False, True):
        again = expanded(machine, text, earlier_only=earlier_only)
        assert again.fetched[site.url("/f")].reveal() == b"content"
    assert len(site.requests) == 1


def test_a_source_that_cannot_be_fetched(machine: Resolving, site: Site) -> None:
    text = f"#cloud-config\nwrite_files:\n- path: /f\n  source: {{uri: '{site.url('/f')}'}}\n"
    document = expanded(machine, text)
    assert errors(document) == [(4, "", "the source of the file cannot be fetched: status 404")]
    assert document.config.pairs() == ()
    document = expanded(machine, text + "  content: x\n")
    assert document.errors == () and document.fetched == {} and document.config.get("write_files") is not None
    assert [one.level for one in document.findings] == ["warning"]
