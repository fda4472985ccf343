"""The checks of `floodmark doctor`: one function each, with a finding and, for a problem, a fix.

Invariant: a check changes nothing, downloads nothing and has a time limit.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from subprocess import TimeoutExpired

import psutil

from harness.levels import extras_missing
from harness.system.child import answer_of
from harness.system.errors import WorldError
from harness.system.levels import LEVELS
from harness.world.containers import find_engine
from harness.world.ledger import dead_runs
from harness.world.mysql_server import prepared_name
from harness.world.proxy_program import find_proxy_program
from harness.world.server_program import find_server
from harness.world.settings import WorldSettings

JAVA_MIN = 17
"""The oldest Java that Spark 4 supports."""
JAVA_LIMIT_S = 60.0
DISK_FREE_MIN_MB = 300
DISK_FREE_WANTED_MB = 2_000
MEMORY_FREE_WANTED_MB = 2_000


class State(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check and its result."""

    name: str
    state: State
    says: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All checks, and the worlds that can be opened."""

    checks: Sequence[Check]
    worlds: Sequence[str]
    levels: Sequence[str]
    """The levels that run here, `job` among them."""
    level: str | None = None
    """The one that is judged; None: what all need."""

    @property
    def well(self) -> bool:
        """Whether the judged level runs here, or at least one world and Java work."""
        if self.level is not None:
            return self.level in self.levels
        java = next(check for check in self.checks if check.name == "java")
        return bool(self.worlds) and java.state is not State.FAIL


def examine(settings: WorldSettings, *, level: str | None = None) -> Diagnosis:
    """Makes all checks; what `level` does not need is no failure."""
    engine, images, server, proxy = [*_containers(settings), _server(settings), _proxy(settings)]
    client = _client()
    worlds = []
    if client.state is State.OK and engine.state is State.OK and images.state is State.OK:
        worlds.append("containers")
    if client.state is State.OK and server.state is State.OK:
        worlds.append("local")
    java, pyspark = _java(settings), _pyspark()
    has = {"mysql": bool(worlds), "spark": java.state is State.OK and pyspark.state is State.OK}
    levels = [name for name, facts in LEVELS.items() if all(has[extra] for extra in facts.extras)]
    needs = ("mysql", "spark") if level is None else LEVELS[level].extras
    worlds_check = Check(name="worlds", state=State.OK, says=f"can be opened: {', '.join(worlds)}")
    if not worlds:
        fix = client.fix or "floodmark setup"
        none = Check(name="worlds", state=State.FAIL, says="none can be opened", fix=fix)
        worlds_check = none if "mysql" in needs else _not_needed(none)
    checks = [
        Check(name="python", state=State.OK, says=f"{platform.python_version()} on {platform.platform()}"),
        java if "spark" in needs else _not_needed(java),
        pyspark,
        client,
        engine,
        images,
        server,
        proxy,
        _cache(settings),
        _memory(),
        _remains(settings),
        worlds_check,
        _levels(levels, level=level),
    ]
    return Diagnosis(checks=checks, worlds=worlds, levels=levels, level=level)


def _not_needed(check: Check) -> Check:
    """The check of something that the judged level does not need."""
    return replace(check, state=State.WARN) if check.state is State.FAIL else check


def _java(settings: WorldSettings) -> Check:
    fix = (
        f"install Java {JAVA_MIN} or later (Debian: `apt-get install default-jre-headless`), or set JAVA_HOME; only"
        " level spark needs it: `floodmark doctor --level live` judges without"
    )
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=settings.path)
    if java is None:
        return Check(name="java", state=State.FAIL, says="there is no java on the PATH", fix=fix)
    try:
        asked = answer_of([java, "-version"], limit_s=JAVA_LIMIT_S)
    except (OSError, TimeoutExpired) as error:
        return Check(name="java", state=State.FAIL, says=f"{java} does not run: {error}", fix=fix)
    said = re.search(r'version "((\d+)[^"]*)"', asked.stderr)
    if said is None:
        return Check(name="java", state=State.FAIL, says=f"{java} does not print its version", fix=fix)
    state = State.OK if int(said[2]) >= JAVA_MIN else State.FAIL
    return Check(name="java", state=state, says=f"{said[1]} at {java}", fix="" if state is State.OK else fix)


def _pyspark() -> Check:
    if importlib.util.find_spec("pyspark") is None:
        return Check(
            name="pyspark",
            state=State.WARN,
            says="not installed, so level spark cannot run",
            fix="pip install 'floodmark[spark]'",
        )
    return Check(name="pyspark", state=State.OK, says=importlib.metadata.version("pyspark"))


def _client() -> Check:
    """The database's client, which each real world needs."""
    if extras_missing("live"):
        return Check(
            name="client",
            state=State.WARN,
            says="no client of a database is installed, so levels live and spark cannot run; level sim can",
            fix="pip install 'floodmark[mysql]'",
        )
    return Check(name="client", state=State.OK, says=f"asyncmy {importlib.metadata.version('asyncmy')}")


def _containers(settings: WorldSettings) -> Iterator[Check]:
    """The checks of the container engine and of its images."""
    try:
        engine = find_engine(settings)
    except WorldError as error:
        yield Check(name="engine", state=State.WARN, says=error.what, fix=error.fix)
        yield Check(name="images", state=State.WARN, says="not checked: no engine answers")
        return
    yield Check(name="engine", state=State.OK, says=f"{engine.title} answers")
    from harness.world.containers.engine import choose_images

    try:
        images = choose_images(engine, settings, proxy="auto", offline=True, say=lambda _: None)
    except WorldError as error:
        yield Check(name="images", state=State.WARN, says=error.what, fix=error.fix)
        return
    yield Check(name="images", state=State.OK, says=images.why)


def _server(settings: WorldSettings) -> Check:
    try:
        server = find_server(settings)
    except WorldError as error:
        return Check(name="server", state=State.WARN, says=error.what, fix=error.fix)
    prepared = (settings.places.datadirs / prepared_name(server)).exists()
    folder = "its data folder is prepared" if prepared else "its data folder is created on first use"
    return Check(name="server", state=State.OK, says=f"{server.title} at {server.program}; {folder}")


def _proxy(settings: WorldSettings) -> Check:
    """Our own proxy is always available; Toxiproxy is optional."""
    try:
        says = f"our own, and Toxiproxy at {find_proxy_program(settings)}"
    except WorldError:
        says = "our own; Toxiproxy is not installed, and not needed"
    return Check(name="proxy", state=State.OK, says=says)


def _cache(settings: WorldSettings) -> Check:
    root = settings.places.root
    nearest = next(folder for folder in (root, *root.parents) if folder.exists())
    if not os.access(nearest, os.W_OK):
        fix = "set FLOODMARK_CACHE to a folder that you may write to"
        return Check(name="cache", state=State.FAIL, says=f"{nearest} cannot be written", fix=fix)
    free_mb = shutil.disk_usage(nearest).free >> 20
    state = (
        State.OK
        if free_mb >= DISK_FREE_WANTED_MB
        else State.WARN
        if free_mb >= DISK_FREE_MIN_MB
        else State.FAIL
    )
    fix = "" if state is State.OK else "free some space there, or set FLOODMARK_CACHE to a larger disk"
    return Check(name="cache", state=state, says=f"{root}, {free_mb} MB free", fix=fix)


def _memory() -> Check:
    free_mb = psutil.virtual_memory().available >> 20
    if free_mb >= MEMORY_FREE_WANTED_MB:
        return Check(name="memory", state=State.OK, says=f"{free_mb} MB available")
    fix = f"a run under Spark needs about {MEMORY_FREE_WANTED_MB} MB; end other programs"
    return Check(name="memory", state=State.WARN, says=f"only {free_mb} MB available", fix=fix)


def _remains(settings: WorldSettings) -> Check:
    dead = dead_runs(settings.places)
    if not dead:
        return Check(name="remains", state=State.OK, says="no killed run left anything behind")
    says = f"{len(dead)} killed runs left something behind: {', '.join(dead)}"
    return Check(
        name="remains", state=State.WARN, says=says, fix="floodmark clean (the next run does it as well)"
    )


def _levels(runs: Sequence[str], *, level: str | None) -> Check:
    lacking = [one for one in LEVELS if one not in runs]
    says = f"run here: {', '.join(runs)}" + (f"; not: {', '.join(lacking)}" if lacking else "")
    if level is not None:
        says += f"; judged: {level}"
    state = State.FAIL if level in lacking else State.WARN if lacking else State.OK
    return Check(name="levels", state=state, says=says, fix="see the lines above" if lacking else "")
