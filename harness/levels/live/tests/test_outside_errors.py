"""At a real level an error of the service comes from outside only if no fault of the run can have caused it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymysql
import pytest

from harness.database.endpoint import Endpoint
from harness.database.epoch import SinkLost
from harness.levels.live.place import real_parts
from harness.levels.live.tests.faulty_scenario import faulty
from harness.scenario.plan import RunPlan
from harness.sut.variant import HONEST

NOWHERE = Endpoint(host="127.0.0.1", port=1, user="u", password="p", database="d")
CUT = {"id": "cut", "do": "cut", "link": "lookups", "when": {"at": "1s"}}
PAUSE = {"id": "pause", "do": "pause_worker", "subtask": 0, "when": {"at": "1s"}, "for": "1s"}


def cause(folder: Path, cause: BaseException, *faults: dict[str, Any]) -> str | None:
    """The cause that an attempt of a run with these faults names for a sink that gave up because of `cause`."""
    plan = RunPlan(
        run_id="r",
        scenario=faulty(*faults).model_dump(mode="json", by_alias=True),
        seed=1,
        sut="reference",
        mutant=None,
        lookups=NOWHERE,
        sink=NOWHERE,
        folder=str(folder),
        path=[],
        table=[],
        crashes=[],
    )
    lost = SinkLost("the sink gave up")
    lost.__cause__ = cause
    return real_parts(plan, 0, variant=HONEST).place.cause_of(lost)


@pytest.mark.parametrize(
    "error",
    [
        pymysql.err.OperationalError(1213, "deadlock"),
        pymysql.err.OperationalError(2013, "lost connection"),
        ConnectionResetError("reset"),
    ],
    ids=repr,
)
def test_the_servers_own_error_is_outside_unless_a_fault_is_on_it_trust2(
    tmp_path: Path, error: BaseException
) -> None:
    assert cause(tmp_path, error) == "outside"
    assert cause(tmp_path, error, PAUSE) == "outside"
    assert cause(tmp_path, error, CUT) is None


def test_a_wait_for_a_lock_is_outside_unless_a_worker_is_stopped_that_may_hold_it_trust2(
    tmp_path: Path,
) -> None:
    waited = pymysql.err.OperationalError(1205, "lock wait timeout")

    assert cause(tmp_path, waited) == "outside"
    assert cause(tmp_path, waited, PAUSE) is None


@pytest.mark.parametrize(
    "error",
    [
        pymysql.err.IntegrityError(1062, "duplicate"),
        pymysql.err.ProgrammingError(1146, "no such table"),
        TimeoutError("no answer"),
        KeyError("a mistake"),
    ],
    ids=repr,
)
def test_an_error_that_repeating_does_not_help_or_of_our_own_clock_has_no_cause_trust2(
    tmp_path: Path, error: BaseException
) -> None:
    assert cause(tmp_path, error) is None
