"""The plan: complete, the same again through its pipe, and silent about the password."""

from __future__ import annotations

import traceback

from harness.database.endpoint import Endpoint
from harness.scenario.plan import Crash, RunPlan, decode_plan, encode_plan

PASSWORD = "hunter2-and-then-some"
ENDPOINT = Endpoint(host="127.0.0.1", port=3306, user="app", password=PASSWORD, database="fm_1")
PLAN = RunPlan(
    run_id="20260101-000000-1-001",
    scenario={"scenario": "small", "when": {"at": 3}},
    seed=7,
    sut="reference",
    mutant=None,
    lookups=ENDPOINT,
    sink=ENDPOINT,
    folder="/somewhere/raw",
    path=["/their/code"],
    table=[[0, "Ünïcode\nname", "city", 3]],
    crashes=[Crash(fault="kill", subtask=1, phase="committed", hit=2)],
)


def test_a_plan_is_the_same_after_its_pipe() -> None:
    assert decode_plan(encode_plan(PLAN)) == PLAN


def test_a_plan_is_one_line() -> None:
    assert b"\n" not in encode_plan(PLAN)


def test_no_text_of_a_plan_or_an_endpoint_shows_the_password() -> None:
    for text in (repr(PLAN), str(PLAN), f"{PLAN}", repr(ENDPOINT), str(ENDPOINT), f"{[ENDPOINT]}"):
        assert PASSWORD not in text
        assert "app@127.0.0.1:3306/fm_1" in text


def test_a_traceback_that_shows_its_variables_hides_the_password() -> None:
    try:
        _fail_with(PLAN)
    except ZeroDivisionError as error:
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())

    assert "plan = RunPlan" in shown
    assert PASSWORD not in shown


def _fail_with(plan: RunPlan) -> float:
    return len(plan.folder) / 0
