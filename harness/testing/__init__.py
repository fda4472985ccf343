"""What a user's own tests and programs import; nothing else of Floodmark is public (`docs/reference/testing.md`).

    from harness.testing import run

    judged = run("connections-cut", sut=lookup)
    assert judged.verdict.holds, judged.verdict.explanation

`Floodmark` is the type of the pytest fixture `floodmark`.
"""

from __future__ import annotations

from harness.errors import FloodmarkError
from harness.own_packages import import_ours

import_ours()  # before a `reports` of the user's is imported

from harness.scenario.model import Scenario  # noqa: E402 - see above
from harness.testing.judging import Verdict, check  # noqa: E402
from harness.testing.running import Floodmark, Run, job, load, run  # noqa: E402
from harness.testing.strategies import histories, scenarios  # noqa: E402
from harness.verdict import Outcome  # noqa: E402

__all__ = [
    "Floodmark",
    "FloodmarkError",
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
