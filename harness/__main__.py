"""`python -m harness`: the command `floodmark`, for whoever has the checkout on the path and nothing installed."""

from __future__ import annotations

import sys

from harness.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
