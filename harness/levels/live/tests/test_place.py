"""What the surroundings of a real attempt take for a cause outside of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymysql
import pytest

from harness.database.endpoint import Endpoint
from harness.history.event import OUTSIDE
from harness.levels.live.place import RealPlace
from harness.levels.live.tests.faulty_scenario import faulty
from harness.scenario.plan import RunPlan
from harness.sut.variant import HONEST

NOWHERE = Endpoint(host="", port=0, user="", password="", database="")
STOPS = {"id": "stops", "do": "pause_worker", "subtask": 0, "for": "1s", "when": {"at": "100ms"}}
DIES = {"id": "dies", "do": "kill_worker", "subtask": 0, "when": {"phase": "emit", "hit": 5}}


@pytest.mark.parametrize(("fault", "is_outside"), [(STOPS, False), (DIES, True)], ids=["stops", "dies"])
def test_a_lock_that_a_stopped_worker_may_hold_is_no_cause_outside_trust7(
    tmp_path: Path, fault: dict[str, Any], *, is_outside: bool
) -> None:
    scenario = faulty(fault, decisive=["V8"])
    plan = RunPlan(
        run_id="",
        scenario={},
        seed=1,
        sut="reference",
        mutant=None,
        lookups=NOWHERE,
        sink=NOWHERE,
        folder=str(tmp_path),
        path=[],
        table=[],
        crashes=[],
    )
    place = RealPlace(plan, scenario, 1, HONEST)

    waited = pymysql.err.OperationalError(1205, "Lock wait timeout exceeded; try restarting transaction")

    assert (place.cause_of(waited) == OUTSIDE) is is_outside
