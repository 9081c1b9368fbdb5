"""The shells of this machine that may be /bin/sh somewhere."""

from __future__ import annotations

import shutil

NAMED = {"dash": ("dash",), "bash": ("bash", "--posix"), "busybox": ("busybox", "sh")}
SHELLS = {name: argv for name, argv in NAMED.items() if shutil.which(argv[0])}
