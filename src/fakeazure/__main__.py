"""The entry point. Ctrl-C during the imports ends the command without a traceback."""

from __future__ import annotations

import sys


def main() -> int:
    try:
        from fakeazure.cli import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
