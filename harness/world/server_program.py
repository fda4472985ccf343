"""Which database server this machine has: one that is named, one on the PATH, or one that `setup` unpacked.

Invariant: a `ServerProgram` can be run as it stands; its version was asked of the program itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import WorldError
from harness.world.settings import WorldSettings

__all__ = ["MANIFEST", "ServerProgram", "find_server", "unpacked_program"]

MANIFEST = "server.json"
"""Marks a folder of `servers/` as complete; names the program's file below it."""
NAMES = ("mysqld", "mariadbd")
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin:/usr/libexec"
"""Where distributions put servers; often not on a user's PATH."""
ASK_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgram:
    """A database server that can be started."""

    flavour: str
    """`MySQL` or `MariaDB`."""
    version: str
    program: Path
    root: Path | None = None
    """The folder that a distribution's packages were unpacked in; None: installed in its place."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """For people: `MariaDB 10.11.19`."""
        return f"{self.flavour} {self.version}"

    @property
    def is_mariadb(self) -> bool:
        """MariaDB is no stand-in for MySQL in every respect (`docs/reference/references.md`, Measured)."""
        return self.flavour == "MariaDB"

    def user_option(self) -> tuple[str, ...]:
        """Servers refuse to run as root unless told to; another user could not enter our private folders."""
        return ("--user=root",) if os.geteuid() == 0 else ()

    def location_options(self) -> tuple[str, ...]:
        """Where an unpacked server finds its own files; an installed one knows."""
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
    """The server that worlds use here, or an error with the fix."""
    for program, root in _candidates(settings):
        found = _ask(program, root=root)
        if found is not None:
            return found
        if program == settings.server:
            raise WorldError(
                f"{program} (from FLOODMARK_MYSQLD) is no mysqld or mariadbd that runs",
                fix="name a server's program, or unset FLOODMARK_MYSQLD",
            )
    raise WorldError(
        f"no database server: neither mysqld nor mariadbd is on the PATH, in {SYSTEM_FOLDERS}, "
        f"or in {settings.places.servers}",
        fix="floodmark setup",
    )


def unpacked_program(folder: Path) -> ServerProgram | None:
    """The server that was unpacked in a folder of the cache; None if it is not complete or does not run."""
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
    """Ask a program for its version; None if it does not answer like a server."""
    environment = _library_path(root)
    try:
        answer = subprocess.run(
            [str(program), "--no-defaults", "--version"],
            capture_output=True,
            env={"LC_ALL": "C", **environment},
            timeout=ASK_LIMIT_S,
            check=False,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.search(r"Ver (\d+\.\d+\.\d+)(-MariaDB)?", answer)
    if said is None:
        return None
    flavour = "MariaDB" if said[2] else "MySQL"
    return ServerProgram(
        flavour=flavour, version=said[1], program=program, root=root, environment=environment
    )


def _library_path(root: Path | None) -> Mapping[str, str]:
    """Unpacked libraries come before the system's."""
    if root is None:
        return {}
    folders = [str(folder) for folder in sorted(root.glob("usr/lib/*-linux-gnu"))]
    return {"LD_LIBRARY_PATH": ":".join([*folders, str(root / "usr" / "lib")])}
