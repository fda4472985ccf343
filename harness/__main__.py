"""`python -m harness` runs the command `floodmark` from a checkout, without installation."""

from __future__ import annotations

import sys

from harness.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
