"""What a user's own tests, programs and lookups import: all that is public (`docs/reference/testing.md`).

    from harness.testing import run

    judged = run("connections-cut", sut=lookup)
    assert judged.verdict.holds, judged.verdict.explanation

`Floodmark` is the type of the pytest fixture `floodmark`. Invariant: a name is imported when it is first asked for, so
that a lookup that only needs `MayAskAgain` does not import the checkers in each of its workers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from harness.system.own_packages import import_ours

if TYPE_CHECKING:
    from harness.database.pool import MayAskAgain
    from harness.history.verdict import Outcome
    from harness.scenario.model import Scenario
    from harness.system.errors import FloodmarkError
    from harness.testing.running import Floodmark, Run, Verdict, check, job, load, run
    from harness.testing.strategies import histories, scenarios

__all__ = [
    "Floodmark",
    "FloodmarkError",
    "MayAskAgain",
    "Outcome",
    "Run",
    "Scenario",
    "Verdict",
    "check",
    "histories",
    "job",
    "load",
    "run",
    "scenarios",
]

_HOMES: Final = {
    "Floodmark": "harness.testing.running",
    "FloodmarkError": "harness.system.errors",
    "MayAskAgain": "harness.database.pool",
    "Outcome": "harness.history.verdict",
    "Run": "harness.testing.running",
    "Scenario": "harness.scenario.model",
    "Verdict": "harness.testing.running",
    "check": "harness.testing.running",
    "histories": "harness.testing.strategies",
    "job": "harness.testing.running",
    "load": "harness.testing.running",
    "run": "harness.testing.running",
    "scenarios": "harness.testing.strategies",
}

import_ours()  # before a `reports` of the user's is imported


if not TYPE_CHECKING:  # a type checker would take it for a promise that every name exists

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
