"""The containers world: MySQL and Toxiproxy in containers, through testcontainers.

This module is cheap to import: it checks whether an engine can exist before it imports the Docker client, which takes
half a second and may not be installed. Invariant: only this package talks to the container engine.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from harness.system.errors import WorldError
from harness.world.settings import WorldSettings

if TYPE_CHECKING:
    from harness.world.containers.engine import Engine

__all__ = ["find_engine", "sweep_run"]

USUAL_SOCKET = Path("/var/run/docker.sock")


def find_engine(settings: WorldSettings) -> Engine:
    """The engine. Raises WorldError with the reason if there is none; fast in that case."""
    if importlib.util.find_spec("docker") is None or importlib.util.find_spec("testcontainers") is None:
        raise WorldError(
            "no container engine can be used: the Docker client is not installed",
            fix="pip install 'floodmark[containers]'",
        )
    if settings.engine is None and not USUAL_SOCKET.exists():
        raise WorldError(
            f"no container engine: {USUAL_SOCKET} does not exist and DOCKER_HOST is not set",
            fix="start one (`systemctl start docker`), or use --world local",
        )
    from harness.world.containers.engine import connect  # noqa: PLC0415

    return connect()


def sweep_run(run_id: str) -> list[str]:
    """Remove the containers and networks of one run; a `harness.world.ledger.EngineSweep`."""
    from harness.world.containers import engine  # noqa: PLC0415

    return engine.sweep_run(engine.connect(), run_id)
