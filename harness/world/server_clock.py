"""Shifts a server's calendar clock: libfaketime, preloaded into the server, reads the shift from a file.

Answers to Jepsen's clock nemesis, for one process instead of a machine. Invariants: the file is replaced atomically
(an incomplete one would end the server); the monotonic clock that waits use is not shifted; the library's shared
memory, which a killed server leaves, is removed with the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired

from harness.system.child import answer_of
from harness.world.settings import WorldSettings

LIBRARY = "libfaketimeMT.so.1"
"""The variant for multi-threaded programs."""
SYSTEM_FOLDERS = ("/usr/lib", "/usr/local/lib")
ASK_LIMIT_S = 10.0
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (the library's choice, not ours)
SHARED_MEMORY_NAMES = ("faketime_shm_{pid}", "sem.faketime_sem_{pid}")
"""Shared memory that the library creates at a process's start and removes only at a normal exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedClock:
    """The clock of one server; its library reads `file`."""

    library: Path
    file: Path

    def environment(self) -> Mapping[str, str]:
        """The environment variables for the server's start."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",  # else a change acts two seconds late
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def shift(self, shift_ms: int) -> None:
        """Shift the server's calendar by `shift_ms`; also works before the server starts."""
        young = self.file.with_suffix(".young")
        young.write_text(f"{shift_ms / 1000:+.3f}\n")
        young.replace(self.file)


def find_clock_library(settings: WorldSettings) -> Path | None:
    """The library that `setup` unpacked or the system has; None if none can be loaded here."""
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
    """Remove the shared memory of an ended process; returns what was removed."""
    removed = []
    for name in SHARED_MEMORY_NAMES:
        left = SHARED_MEMORY / name.format(pid=pid)
        with suppress(FileNotFoundError, PermissionError):  # not there, or another user's
            left.unlink()
            removed.append(f"shared memory {left}")
    return removed


def _loads(library: Path) -> bool:
    """Whether the loader takes it; for one built for another C library it prints a warning."""
    try:
        done = answer_of(["env", f"LD_PRELOAD={library}", "true"], limit_s=ASK_LIMIT_S)
    except (OSError, TimeoutExpired):
        return False
    return done.returncode == 0 and not done.stderr
