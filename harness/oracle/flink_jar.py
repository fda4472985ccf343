"""Flink's distribution jar, from the package index, in a folder of its own in the cache.

Invariant: the folder is there whole or not at all; nothing of it is ever imported by Python.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.errors import WorldError
from harness.world.places import Places
from harness.world.processes import run_to_end

__all__ = ["FLINK_VERSION", "adopt", "flink_jar", "install_flink", "oracle_folder"]

FLINK_VERSION = "2.3.0"
PACKAGE = "apache-flink-libraries"
INSTALL_LIMIT_S = 900.0


def oracle_folder(places: Places) -> Path:
    """Where everything of the oracle is kept."""
    return places.root / "oracle"


def flink_jar(places: Places) -> Path:
    """Where the jar is, once it is installed."""
    return _home(places) / "pyflink" / "lib" / f"flink-dist-{FLINK_VERSION}.jar"


def install_flink(places: Places, *, scratch: Path, say: Callable[[str], None]) -> Path:
    """Install the package by pip, into `scratch` first, and return the jar; `scratch` is on the cache's disk."""
    say(f"installing {PACKAGE} {FLINK_VERSION} from the package index (a third of a gigabyte)")
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        fresh = Path(name) / "flink"
        run_to_end(
            [
                *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"),
                *("--no-deps", "--no-compile", "--target", str(fresh), f"{PACKAGE}=={FLINK_VERSION}"),
            ],
            what=f"installing {PACKAGE} {FLINK_VERSION}",
            limit_s=INSTALL_LIMIT_S,
            fix="see that pip is in this Python's environment and that the package index can be reached",
        )
        adopt(fresh, _home(places))
    jar = flink_jar(places)
    if not jar.exists():
        raise WorldError(
            f"{PACKAGE} {FLINK_VERSION} was installed without {jar.name}",
            fix=f"remove {_home(places)} and say floodmark setup --oracle again",
        )
    return jar


def adopt(fresh: Path, home: Path) -> None:
    """Give a folder its lasting name; another run of setup may have been quicker, and made the same."""
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        fresh.rename(home)
    except OSError:
        if not home.is_dir():
            raise


def _home(places: Places) -> Path:
    return oracle_folder(places) / f"flink-{FLINK_VERSION}"
