"""A machine for tests of the oracle's setup: a cache of its own, and on its PATH what a test puts there."""

from __future__ import annotations

from pathlib import Path

from harness.conform.oracle.program import flink_jar
from harness.world.settings import Places, WorldSettings

ANSWERS_EACH_LINE = """while read -r line; do echo '{"ev":"quiet"}'; done"""
"""A `java` whose program speaks just enough for a rehearsal."""
COMPILES = """while [ "$1" != -d ]; do shift; done; mkdir "$2"; echo bytes > "$2/Sut.class" """
"""A `javac` that leaves one class where it is told to."""


def bare_machine(folder: Path) -> WorldSettings:
    programs = folder / "programs"
    programs.mkdir()
    places = Places(root=folder / "cache")
    places.make()
    return WorldSettings(places=places, path=str(programs))


def put_program(settings: WorldSettings, name: str, shell: str) -> Path:
    program = Path(settings.path) / name
    program.write_text(f"#!/bin/sh\n{shell}\n")
    program.chmod(0o755)
    return program


def put_flink(settings: WorldSettings) -> Path:
    jar = flink_jar(settings.places)
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"a jar")
    return jar
