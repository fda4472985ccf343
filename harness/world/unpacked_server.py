"""Gets a database server without root: downloads the distribution's packages and unpacks them into the cache.

apt runs with private state, so it needs no root and starts with empty lists; the system's sources, keys and proxy
settings apply. Invariant: nothing outside the cache is written, and a server is in the cache only after it has run.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.system.errors import WorldError
from harness.world.processes import run_to_end
from harness.world.server_program import MANIFEST, NAMES, ServerProgram, unpacked_program
from harness.world.settings import WorldSettings

UPDATE_LIMIT_S = 300.0
DOWNLOAD_LIMIT_S = 600.0
UNPACK_LIMIT_S = 120.0
SERVERS = (
    ("mysql-server-core",),
    ("mysql-server-core-8.4",),
    ("mysql-server-core-8.0",),
    (
        "mariadb-server-core",
        "mariadb-client-core",
    ),  # the second has the programs that the first's installer calls
)
"""Package sets to try; the first that the distribution has is taken."""
CLOCKS = (("libfaketime",),)
"""The library that shifts a server's clock, built for this system's C library."""
NEVER_UNPACKED = re.compile(r"libc6|libc-bin|gcc-\d+-base")
"""The C library must match the system's loader, so the system's is used."""
FIX = (
    "see that the package mirrors can be reached; or install MySQL or MariaDB yourself, name its program in "
    "FLOODMARK_MYSQLD, or use --world containers"
)


def unpack_server(settings: WorldSettings, *, scratch: Path, say: Callable[[str], None]) -> ServerProgram:
    """Unpack a server into the cache and return it; `scratch` must be on the cache's disk."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        return _adopt(_unpacked(SERVERS, settings=settings, folder=Path(name), say=say), settings=settings)


def unpack_clock(settings: WorldSettings, *, scratch: Path, say: Callable[[str], None]) -> None:
    """Unpack the clock library into the cache; `find_clock_library` checks whether it loads."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        root = _unpacked(CLOCKS, settings=settings, folder=Path(name), say=say)
        if settings.places.clock.exists():
            shutil.rmtree(settings.places.clock)
        root.rename(settings.places.clock)


def _unpacked(
    wishes: Sequence[Sequence[str]], *, settings: WorldSettings, folder: Path, say: Callable[[str], None]
) -> Path:
    """Unpack the first available package set with its dependencies below a folder."""
    _require_apt(settings.path)
    apt = ["env", f"APT_CONFIG={_private_configuration(folder)}"]
    say("reading the distribution's package lists")
    lists = _update(apt)
    packages = _packages(apt, wishes, lists=lists)
    say(f"downloading {', '.join(packages)}")
    archives, root = folder / "archives", folder / "root"
    archives.mkdir()
    run_to_end(
        [*apt, "apt-get", "download", *packages],
        what="downloading packages",
        limit_s=DOWNLOAD_LIMIT_S,
        fix=FIX,
        cwd=archives,
    )
    for archive in sorted(archives.glob("*.deb")):
        run_to_end(
            ["dpkg-deb", "--extract", str(archive), str(root)],
            what=f"unpacking {archive.name}",
            limit_s=UNPACK_LIMIT_S,
            fix="free space in the cache, or set FLOODMARK_CACHE",
        )
    return root


def _require_apt(path: str) -> None:
    missing = [program for program in ("apt-get", "dpkg-deb") if shutil.which(program, path=path) is None]
    if missing:
        raise WorldError(
            f"a server can be unpacked only on Debian and systems based on it: there is no {' and no '.join(missing)}",
            fix="install MySQL or MariaDB so that mysqld is on the PATH, name it in FLOODMARK_MYSQLD, "
            "or use --world containers",
        )


def _private_configuration(folder: Path) -> Path:
    """An apt configuration with private state and no hooks, and the system's access to its mirrors."""
    for inside in ("lists/partial", "cache/archives/partial"):
        (folder / inside).mkdir(parents=True)
    system = run_to_end(
        ["apt-config", "dump"], what="reading apt's configuration", limit_s=UPDATE_LIMIT_S, fix=FIX
    )
    lines = [line for line in system.splitlines() if line.startswith("Acquire::") and "Languages" not in line]
    lines += [
        f'Dir::State "{folder}";',
        f'Dir::State::Lists "{folder}/lists";',
        'Dir::State::Status "/var/lib/dpkg/status";',
        f'Dir::Cache "{folder}/cache";',
        'Dir::Etc::Parts "/dev/null";',
        'Dir::Etc::Main "/dev/null";',
        'Acquire::Languages "none";',
        'APT::Sandbox::User "root";',
        'Debug::NoLocking "true";',
    ]
    path = folder / "apt.conf"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _update(apt: Sequence[str]) -> str:
    """Update the package lists; returns the output. A failure is no error yet: an unrelated source may be broken."""
    try:
        return run_to_end(
            [*apt, "apt-get", "update"], what="reading package lists", limit_s=UPDATE_LIMIT_S, fix=FIX
        )
    except WorldError as error:
        return error.what


def _packages(apt: Sequence[str], wishes: Sequence[Sequence[str]], *, lists: str) -> list[str]:
    """The packages of the first available set and the dependencies that this system lacks."""
    for wanted in wishes:
        try:
            plan = run_to_end(
                [*apt, "apt-get", "install", "--simulate", "--no-install-recommends", *wanted],
                what="asking for " + wanted[0],
                limit_s=UPDATE_LIMIT_S,
                fix=FIX,
            )
        except WorldError:
            continue
        needed = re.findall(r"^Inst (\S+)", plan, flags=re.MULTILINE)
        return sorted({*wanted, *(name for name in needed if not NEVER_UNPACKED.fullmatch(name))})
    asked = ", ".join(wanted[0] for wanted in wishes)
    tail = "".join(f"\n    {line}" for line in lists.splitlines()[-4:])
    raise WorldError(
        f"the distribution's mirrors gave none of {asked}; reading their lists ended with{tail}", fix=FIX
    )


def _adopt(root: Path, *, settings: WorldSettings) -> ServerProgram:
    """Move the unpacked folder into the cache's `servers/`, if its server runs."""
    program = next((path for name in NAMES if (path := root / "usr" / "sbin" / name).exists()), None)
    if program is None:
        raise WorldError(f"the packages hold neither {' nor '.join(NAMES)}", fix=FIX)
    (root / MANIFEST).write_text(json.dumps({"program": str(program.relative_to(root))}))
    found = unpacked_program(root)
    if found is None:
        raise WorldError(
            f"{program.name} was unpacked but does not run here: a library may be missing", fix=FIX
        )
    home = settings.places.servers / f"{found.flavour.lower()}-{found.version}"
    if home.exists():
        shutil.rmtree(home)
    root.rename(home)
    settled = unpacked_program(home)  # checked again: every path in it has changed
    assert settled is not None, "a server that ran must run after its folder was renamed"
    return settled
