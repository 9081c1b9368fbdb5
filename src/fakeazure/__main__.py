"""Where the command begins: Ctrl-C while it is still starting ends it without a word."""

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
