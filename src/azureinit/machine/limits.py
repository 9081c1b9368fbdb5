"""No core dump of this process: its memory holds passwords and keys."""

from __future__ import annotations

import resource

_inherited: list[tuple[int, int]] = []  # the limits this process was started with, once they were changed


def forbid_core_dumps() -> None:
    """Lowers the soft limit alone, so that `restore_core_limit` can raise a child's again without privileges."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    except (OSError, ValueError):
        return  # a sandbox may refuse it; provisioning does not depend on it
    _inherited[:] = [(soft, hard)]


def restore_core_limit(child: int) -> None:
    """A child inherits the limit of this process, and is another program: it gets the limit it would have had."""
    if not _inherited or _inherited[0][0] == 0:
        return
    try:
        resource.prlimit(child, resource.RLIMIT_CORE, _inherited[0])
    except OSError:
        pass  # the child has ended already, or changed its user
