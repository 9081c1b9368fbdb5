"""`python3 -m azureinit`, and what the installed launcher runs."""

import gc

gc.disable()  # a run lives for milliseconds; collecting costs more than it frees

from azureinit.cli import main  # noqa: E402
from azureinit.machine import leave  # noqa: E402

if __name__ == "__main__":
    leave(main())
