"""The type of the pytest fixture `floodmark`; `harness.pytest_plugin` implements it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from harness.scenario.model import Scenario
from harness.scenario_parts.parts import Level

__all__ = ["Floodmark"]


class Floodmark(Protocol):
    """Asserts that scenarios hold with a function of the user's."""

    def holds(
        self,
        *scenarios: str | Path | Scenario,
        sut: object = None,
        level: Level | None = None,
        runs: int | None = None,
        seed: int | None = None,
        expected: object = None,
    ) -> None:
        """Run each scenario `runs` times, with consecutive seeds, and stop at the first run that does not pass.

        `scenarios`: names of the catalogue, files (beside the test, or from the current folder) or values. What is left
        out is taken from the marker `floodmark` of the test, then from the options, the environment and pyproject.toml;
        the level is `sim` otherwise, `runs` 1 and the seed new. Without a `sut` anywhere, nothing is run and the test
        fails.

        Raises AssertionError, with the explanation as its text, if a run's verdict is not `pass`.
        """
