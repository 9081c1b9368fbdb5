from __future__ import annotations

import sys

from fakeazure.cli import main

sys.exit(main())
