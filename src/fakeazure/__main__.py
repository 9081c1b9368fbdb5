from __future__ import annotations

import sys

try:
    from fakeazure.cli import main

    sys.exit(main())
except KeyboardInterrupt:  # while we were still starting
    sys.exit(130)
