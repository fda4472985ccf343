"""`python -m harness.proxy`: our proxy as a child process of a world, started in a tenth of a second.

Users run `floodmark proxy`, which takes the same options and more; this entry point imports only what the
proxy needs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.proxy.listener import LOOPBACK
from harness.proxy.service import CONTROL_PORT, Service, serve
from harness.system.errors import FloodmarkError


def main() -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    try:
        serve(_service(), say=_say)
    except FloodmarkError as error:
        sys.stderr.write(f"floodmark proxy: {error}\n")
        return error.exit_code
    return 0


def _service() -> Service:
    options = argparse.ArgumentParser(prog="python -m harness.proxy")
    options.add_argument("--host", default=LOOPBACK)
    options.add_argument("--port", type=int, default=CONTROL_PORT)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--log", type=Path)
    given = options.parse_args()
    return Service(host=given.host, port=given.port, seed=given.seed, log=given.log)


def _say(sentence: str) -> None:
    sys.stdout.write(f"floodmark proxy: {sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
