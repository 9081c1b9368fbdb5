"""PyYAML and jinja2: packages of the distribution, imported only where a document needs them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

YAML_MISSING = "PyYAML is not installed, and without it no YAML can be read"
YAML_HINT = "install the package python3-yaml (on some systems python3-pyyaml or PyYAML)"
JINJA_MISSING = "jinja2 is not installed, and without it no template can be rendered"
JINJA_HINT = "install the package python3-jinja2 (on some systems python3-Jinja2)"


def find_yaml() -> Any | None:
    for _attempt in ("as started", "with packages"):
        try:
            import yaml

            return yaml
        except ImportError:
            _add_packages()
    return None


def find_jinja2() -> Any | None:
    for _attempt in ("as started", "with packages"):
        try:
            import jinja2

            return jinja2
        except ImportError:
            _add_packages()
    return None


def _add_packages() -> None:
    """The installed launcher starts without site-packages."""
    import site
    import sys

    sys.path.extend(path for path in site.getsitepackages() if path not in sys.path)
