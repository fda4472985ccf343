"""A server's clock that can be shifted: libfaketime, preloaded into the server, follows a file.

Answers to Jepsen's clock nemesis, for one process instead of a machine. Invariants: the file is replaced whole (a
torn one would end the server); only the calendar is shifted, never the clock that waits are measured by; and what
the library keeps in shared memory, which a killed server leaves behind, is removed with the server.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.world.settings import WorldSettings

__all__ = ["LIBRARY", "ShiftedClock", "find_clock_library", "remove_shared_memory"]

LIBRARY = "libfaketimeMT.so.1"
"""The variant for programs with threads."""
SYSTEM_FOLDERS = ("/usr/lib", "/usr/local/lib")
ASK_LIMIT_S = 10.0
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (the library's choice, not ours)
SHARED_MEMORY_NAMES = ("faketime_shm_{pid}", "sem.faketime_sem_{pid}")
"""What the library makes as a process starts, and removes only if it ends by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedClock:
    """The clock of one server; `file` is what its library follows."""

    library: Path
    file: Path

    def environment(self) -> Mapping[str, str]:
        """What the server must be started with."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",  # else it follows two seconds late
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def shift(self, shift_ms: int) -> None:
        """Let its calendar be so far from ours, from its next look on; also before it starts."""
        young = self.file.with_suffix(".young")
        young.write_text(f"{shift_ms / 1000:+.3f}\n")
        young.replace(self.file)


def find_clock_library(settings: WorldSettings) -> Path | None:
    """The library, unpacked by `setup` or installed; None if there is none that can be loaded here."""
    unpacked = sorted(settings.places.clock.glob(f"usr/lib/*/faketime/{LIBRARY}"))
    installed = [
        path
        for folder in SYSTEM_FOLDERS
        for path in sorted(
            [*Path(folder).glob(f"*/faketime/{LIBRARY}"), *Path(folder).glob(f"faketime/{LIBRARY}")]
        )
    ]
    return next((path for path in [*unpacked, *installed] if _loads(path)), None)


def remove_shared_memory(pid: int) -> list[str]:
    """Remove what the library of an ended process left in shared memory, and say what it was."""
    removed = []
    for name in SHARED_MEMORY_NAMES:
        left = SHARED_MEMORY / name.format(pid=pid)
        with suppress(FileNotFoundError, PermissionError):  # not there, or another user's
            left.unlink()
            removed.append(f"shared memory {left}")
    return removed


def _loads(library: Path) -> bool:
    """Whether this system's loader takes it: one that was built for another C library is left out with a word."""
    try:
        done = subprocess.run(
            ["env", f"LD_PRELOAD={library}", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and not done.stderr
