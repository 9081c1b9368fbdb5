"""Core dump limits: this process must not dump core, since its memory holds passwords and keys."""

from __future__ import annotations

import resource

_inherited: list[tuple[int, int]] = []  # the limits at the start, once they were changed


def forbid_core_dumps() -> None:
    """Lower only the soft limit, so that `restore_core_limit` can raise a child's again without privileges."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    except (OSError, ValueError):
        return  # a sandbox may refuse it; provisioning does not depend on it
    _inherited[:] = [(soft, hard)]


def restore_core_limit(child: int) -> None:
    """Give a child the limit that this process was started with."""
    if not _inherited or _inherited[0][0] == 0:
        return
    try:
        resource.prlimit(child, resource.RLIMIT_CORE, _inherited[0])
    except OSError:
        pass  # the child has ended already, or changed its user
