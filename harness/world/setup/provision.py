"""The steps of `floodmark setup` for the local world and for Kafka: find what is missing and install it into the cache.

A database server is had without root: the distribution's packages are downloaded and unpacked into the cache. apt runs
with private state, so it needs no root and starts with empty lists; the system's sources, keys and proxy settings hold.
Invariants: a step that finds its result in place changes nothing and says so; nothing outside the cache is written, and
a server is in the cache only after it has run.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.system.child import run_to_end
from harness.system.clock import monotonic_us
from harness.system.errors import WorldError
from harness.world.containers import sweep_run
from harness.world.kafka.broker import find_java_for_kafka, install_kafka, kafka_folder
from harness.world.ledger import Ledger, open_ledger, reap
from harness.world.mysql_server import prepared_data_folder, prepared_name
from harness.world.proxy_program import build_proxy_program, built_proxy_program, find_proxy_program
from harness.world.server_program import (
    MANIFEST,
    NAMES,
    ServerProgram,
    find_clock_library,
    find_server,
    unpacked_program,
)
from harness.world.settings import WorldSettings

Say = Callable[[str], None]
"""Gets sentences about the progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionStep:
    """One thing that a world needs, and what was done for it."""

    thing: str
    outcome: str
    took_s: float

    def __str__(self) -> str:
        return f"{self.thing}: {self.outcome} ({self.took_s:.1f} s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """One run of `setup`: its options, and the ledger that lists unfinished things."""

    settings: WorldSettings
    ledger: Ledger
    rebuild: bool
    say: Say


@contextmanager
def provisioning(settings: WorldSettings, *, rebuild: bool, say: Say) -> Iterator[Provision]:
    """A run of `setup` for the duration of the block; unfinished things are removed, even after a SIGKILL."""
    settings.places.make()
    reap(settings.places, sweep_run)
    with open_ledger(settings, sweep_run) as ledger:
        yield Provision(settings=settings, ledger=ledger, rebuild=rebuild, say=say)


def provide_local_world(task: Provision, *, toxiproxy: bool = True) -> Iterator[ProvisionStep]:
    """A server, Toxiproxy (unless False), a prepared data folder and a clock that can be shifted."""
    begun_us = monotonic_us()
    server, outcome = _server(task)
    yield timed_step("database server", outcome, begun_us)
    if toxiproxy:
        begun_us = monotonic_us()
        yield timed_step("proxy", _proxy(task), begun_us)
    begun_us = monotonic_us()
    yield timed_step("data folder", _data_folder(task, server), begun_us)
    begun_us = monotonic_us()
    yield timed_step("server's clock", _clock(task), begun_us)


def _server(task: Provision) -> tuple[ServerProgram, str]:
    try:
        found = find_server(task.settings)
    except WorldError:
        if task.settings.server is not None:
            raise
    else:
        if not task.rebuild or found.root is None:  # an installed server is not ours to replace
            return found, f"{found.title} at {found.program}, already there"
    unpacked = unpack_server(task)
    return unpacked, f"{unpacked.title} unpacked into {unpacked.root}"


def _proxy(task: Provision) -> str:
    """Our own proxy needs no setup. Toxiproxy is built where Go is available, for comparison."""
    try:
        found = find_proxy_program(task.settings)
    except WorldError:
        found = None
    if found is not None and not (task.rebuild and found == built_proxy_program(task.settings)):
        return f"{found}, already there; our own beside it"
    try:
        built = build_proxy_program(task.settings, scratch=task.ledger.folder, say=task.say)
    except WorldError as lacking:
        return f"our own serves, which needs nothing; {lacking.what}"
    return f"built {built}; our own beside it"


def _data_folder(task: Provision, server: ServerProgram) -> str:
    places = task.settings.places
    ready = places.datadirs / prepared_name(server)
    if task.rebuild:
        shutil.rmtree(ready, ignore_errors=True)
    if ready.exists():
        return f"{ready}, already there"
    return f"prepared {prepared_data_folder(server, places=places, ledger=task.ledger, say=task.say)}"


def _clock(task: Provision) -> str:
    """Only the fault `server_clock` needs it, so its absence is no error."""
    found = find_clock_library(task.settings)
    if found is None or (task.rebuild and found.is_relative_to(task.settings.places.clock)):
        try:
            unpack_clock(task)
        except WorldError as lacking:
            return f"cannot be shifted here: {lacking.what}"
        unpacked = find_clock_library(task.settings)
        return f"unpacked {unpacked}" if unpacked else "cannot be shifted here: the library does not load"
    return f"{found}, already there"


def timed_step(thing: str, outcome: str, begun_us: int) -> ProvisionStep:
    """A step that began at `begun_us` and has ended now."""
    return ProvisionStep(thing=thing, outcome=outcome, took_s=(monotonic_us() - begun_us) / 1_000_000)


def provide_kafka(task: Provision) -> Iterator[ProvisionStep]:
    """Download the pinned jars into the cache, unless they are there."""
    begun_us = monotonic_us()
    find_java_for_kafka(task.settings)
    home = kafka_folder(task.settings.places)
    if task.rebuild:
        shutil.rmtree(home, ignore_errors=True)
    if home.is_dir():
        outcome = f"{home}, already there"
    else:
        outcome = f"jars in {install_kafka(task.settings, scratch=task.ledger.folder, say=task.say)}"
    yield timed_step("Kafka", outcome, begun_us)


UPDATE_LIMIT_S = 300.0
DOWNLOAD_LIMIT_S = 600.0
UNPACK_LIMIT_S = 120.0
SERVERS = (
    ("mysql-server-core",),
    ("mysql-server-core-8.4",),
    ("mysql-server-core-8.0",),
    ("mariadb-server-core", "mariadb-client-core"),  # the second has what the first's installer calls
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


def unpack_server(task: Provision) -> ServerProgram:
    """Unpack a server into the cache and return it."""
    with tempfile.TemporaryDirectory(dir=task.ledger.folder) as name:
        return _adopt(_unpacked(task, SERVERS, folder=Path(name)), settings=task.settings)


def unpack_clock(task: Provision) -> None:
    """Unpack the clock library into the cache; `find_clock_library` checks whether it loads."""
    clock = task.settings.places.clock
    with tempfile.TemporaryDirectory(dir=task.ledger.folder) as name:
        root = _unpacked(task, CLOCKS, folder=Path(name))
        if clock.exists():
            shutil.rmtree(clock)
        root.rename(clock)


def _unpacked(task: Provision, wishes: Sequence[Sequence[str]], *, folder: Path) -> Path:
    """Unpack the first available package set with its dependencies below a folder."""
    programs = ("apt-get", "dpkg-deb")
    missing = [one for one in programs if shutil.which(one, path=task.settings.path) is None]
    if missing:
        raise WorldError(
            f"a server can be unpacked only on Debian and systems based on it: there is no {' and no '.join(missing)}",
            fix="install MySQL or MariaDB so that mysqld is on the PATH, name it in FLOODMARK_MYSQLD, "
            "or use --world containers",
        )
    apt = ["env", f"APT_CONFIG={_private_configuration(folder)}"]
    task.say("reading the distribution's package lists")
    lists = _update(apt)
    packages = _packages(apt, wishes, lists=lists)
    task.say(f"downloading {', '.join(packages)}")
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
