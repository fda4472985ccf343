"""The programs of the database server: mysqld or mariadbd, and the library that shifts its clock.

Finds the database server of this machine: named by the user, on the PATH, or unpacked by `setup`.

Invariant: a `ServerProgram` can be started as it is; its version was read from the program itself.

Shifts a server's calendar clock: libfaketime, preloaded into the server, reads the shift from a file.

Answers to Jepsen's clock nemesis, for one process instead of a machine. Invariants: the file is replaced atomically
(an incomplete one would end the server); the monotonic clock that waits use is not shifted; the library's shared
memory, which a killed server leaves, is removed with the server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired

from harness.system.child import answer_of
from harness.system.errors import WorldError
from harness.world.settings import WorldSettings

LIBRARY = "libfaketimeMT.so.1"
"""The variant for multi-threaded programs."""
LIBRARY_FOLDERS = ("/usr/lib", "/usr/local/lib")
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
        for folder in LIBRARY_FOLDERS
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


MANIFEST = "server.json"
"""Marks a folder of `servers/` as complete and names the server's program in it."""
NAMES = ("mysqld", "mariadbd")
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin:/usr/libexec"
"""Where distributions install servers; often not on a user's PATH."""
ASK_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgram:
    """A database server that can be started."""

    flavour: str
    """`MySQL` or `MariaDB`."""
    version: str
    program: Path
    root: Path | None = None
    """The folder with the distribution's unpacked packages; None: installed on the system."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """For messages: `MariaDB 10.11.19`."""
        return f"{self.flavour} {self.version}"

    @property
    def is_mariadb(self) -> bool:
        """Whether it is MariaDB, which differs from MySQL here and there (`docs/reference/references.md`, Measured)."""
        return self.flavour == "MariaDB"

    def user_option(self) -> tuple[str, ...]:
        """`--user=root` for root: without it the server refuses to run.

        Another user could not read our private folders.
        """
        return ("--user=root",) if os.geteuid() == 0 else ()

    def location_options(self) -> tuple[str, ...]:
        """Options that tell an unpacked server where its files are; an installed one knows."""
        if self.root is None:
            return ()
        share = self.root / "usr" / "share" / "mysql"
        plugins = next(iter(self.root.glob("usr/lib/mysql/plugin")), None)
        return (
            f"--basedir={self.root / 'usr'}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share / 'charsets'}",
            *((f"--plugin-dir={plugins}",) if plugins else ()),
        )


def find_server(settings: WorldSettings) -> ServerProgram:
    """The server that worlds use on this machine. Raises WorldError if there is none."""
    for program, root in _candidates(settings):
        found = _ask(program, root=root)
        if found is not None:
            return found
        if program == settings.server:
            raise WorldError(
                f"{program} (from FLOODMARK_MYSQLD) is not a mysqld or mariadbd that can be run",
                fix="name a server's program, or unset FLOODMARK_MYSQLD",
            )
    raise WorldError(
        f"no database server: neither mysqld nor mariadbd is on the PATH, in {SYSTEM_FOLDERS}, "
        f"or in {settings.places.servers}",
        fix="floodmark setup",
    )


def unpacked_program(folder: Path) -> ServerProgram | None:
    """The server unpacked in a folder of the cache; None if it is incomplete or does not run."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        return None
    named = json.loads(manifest.read_text())
    return _ask(folder / named["program"], root=folder)


def _candidates(settings: WorldSettings) -> Iterator[tuple[Path, Path | None]]:
    if settings.server is not None:
        yield settings.server, None
        return
    for name in NAMES:
        found = shutil.which(name, path=f"{settings.path}:{SYSTEM_FOLDERS}")
        if found:
            yield Path(found), None
    for manifest in sorted(settings.places.servers.glob(f"*/{MANIFEST}"), reverse=True):
        yield manifest.parent / json.loads(manifest.read_text())["program"], manifest.parent


def _ask(program: Path, *, root: Path | None) -> ServerProgram | None:
    """Run the program for its version; None if it does not answer like a server."""
    environment = {}
    if root is not None:  # the loader is to find unpacked libraries before the system's
        folders = [*sorted(root.glob("usr/lib/*-linux-gnu")), root / "usr" / "lib"]
        environment["LD_LIBRARY_PATH"] = ":".join(map(str, folders))
    try:
        command, variables = [str(program), "--no-defaults", "--version"], {"LC_ALL": "C", **environment}
        answer = answer_of(command, limit_s=ASK_LIMIT_S, environment=variables).stdout
    except (OSError, TimeoutExpired):
        return None
    said = re.search(r"Ver (\d+\.\d+\.\d+)(-MariaDB)?", answer)
    if said is None:
        return None
    flavour = "MariaDB" if said[2] else "MySQL"
    return ServerProgram(
        flavour=flavour, version=said[1], program=program, root=root, environment=environment
    )
