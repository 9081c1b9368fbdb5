"""`python3 -m azureinit`, and what the installed launcher imports."""

import gc

gc.disable()  # a run lives for milliseconds; collecting costs more than it frees

from azureinit.cli import main  # noqa: E402
from azureinit.machine.this_process import leave  # noqa: E402

leave(main())
