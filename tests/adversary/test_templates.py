"""Templates that try to use up the machine, or to leave the sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.machine import Machine
from azureinit.run.rendering import render
from azureinit.userdata.expanding import Failed

HEAD = "## template: jinja\n#!/bin/sh\n"
DATA = {"v1": {"region": "west"}, "userdata": "x"}


def made(text: str) -> bytes | Failed:
    return render(Machine(), (HEAD + text).encode(), DATA, placeholders=True)


def test_processor_time_is_limited() -> None:
    loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    assert made(loops) == Failed(why="it takes more than 5 seconds")


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('touch /tmp/azure-init-escaped') }}",
        "{{ lipsum.__globals__['os'].popen('id').read() }}",
        "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ ('{0.__class__}'|format)('') }}",
        "{{ v1.__setitem__('region', 1) }}",
        "{% do v1.clear() %}",
        "{% import 'os' as os %}",
        "{% extends '/etc/shadow' %}",
        "{{ 'x' * (1 << 40) }}",
        "{{ range(1 << 40) | list }}",
        "{{ 'x'.ljust(1 << 33) }}",
        "{{ '%099999999999d' % 1 }}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ '\\ud800' }}",
    ],
)
def test_nothing_escapes(text: str) -> None:
    found = made(text)
    assert isinstance(found, Failed) or b"<class" not in found, found
    assert not Path("/tmp/azure-init-escaped").exists()
    if isinstance(found, Failed):
        assert "\n" not in found.why and "Traceback" not in found.why
