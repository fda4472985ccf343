"""Planted defects of barriers and watermarks: each breaks a property that the reference keeps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from reference_impl.checkpoint_events import CheckpointException
from reference_impl.checkpoints.input_gate import StatusWatermarkValve
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.checkpoints.tests.interleavings import Run, conserves, goes_on, play, runs
from reference_impl.checkpoints.tests.naive_alignment import NaiveAlignment, Overheard, as_the_model
from reference_impl.checkpoints.tests.test_status_watermark_valve import STEPS, does_as_the_model
from tools.cases import in_sweep_after
from tools.defects.tests.wrong_parts import wrong_part

searching = settings(
    max_examples=1_000, derandomize=True, deadline=None, database=None, phases=[Phase.generate]
)
"""No shrinking: the first run that convicts is enough."""


def convicting(broken: Callable[[Any], None], drawn: st.SearchStrategy[Any]) -> Any:
    """A drawn run on which `broken` raises."""

    def does_not_hold(run: Any) -> bool:
        try:
            broken(run)
        except (AssertionError, CheckpointException):
            return True
        return False

    return find(drawn, does_not_hold, settings=searching)


def tells_as_the_model(run: Run, *, handler: type[SingleCheckpointBarrierHandler]) -> None:
    """C20-C24: the handler calls the task as the model says, for the events that were read."""

    def overheard(*, task: Any, inputs: Any, timers: Any, **_: Any) -> Overheard:
        return Overheard(
            task=task,
            handler=lambda told: handler.aligned(task=told, inputs=inputs, timers=timers),
            model=NaiveAlignment(len(run.contents), count_ended=True),
        )

    play(run, as_the_model, kind="aligned", handler=overheard)


DECIDES_OTHERWISE = ("end-loses-barrier", "late-cancel-aborts-newer")
LEAVES_BLOCKED = ("abort-leaves-blocked", "stale-barrier-blocks")
FAILS_TASK = ("overtaken-fails-task",)
LOSES_OR_DOUBLES = ("unaligned-captures-nothing", "captures-behind-barrier")
WRONG_VALVES = ("new-channel-left-out", "idle-order-decides")
CONVICTIONS = (*DECIDES_OTHERWISE, *LEAVES_BLOCKED, *FAILS_TASK, *LOSES_OR_DOUBLES, *WRONG_VALVES)


@pytest.mark.sweep
@pytest.mark.parametrize("name", in_sweep_after(1, DECIDES_OTHERWISE))
def test_a_handler_that_decides_otherwise_than_its_model_is_convicted_c20_c21_c22_c23_c24(name: str) -> None:
    run = convicting(partial(tells_as_the_model, handler=wrong_part(name)), runs(["aligned"]))

    tells_as_the_model(run, handler=SingleCheckpointBarrierHandler)


@pytest.mark.parametrize("name", in_sweep_after(1, LEAVES_BLOCKED))
def test_a_handler_that_leaves_a_channel_blocked_is_convicted_c20_c25(name: str) -> None:
    handler = wrong_part(name).alternating
    run = convicting(lambda run: play(run, goes_on, handler=handler), runs(["aligned"]))

    play(run, goes_on)


@pytest.mark.parametrize("name", FAILS_TASK)
def test_a_handler_that_fails_the_task_over_an_overtaken_checkpoint_is_convicted_c21(name: str) -> None:
    handler = wrong_part(name).alternating
    run = convicting(lambda run: play(run, goes_on, handler=handler), runs(["unaligned"]))

    play(run, goes_on)


@pytest.mark.parametrize("name", in_sweep_after(1, LOSES_OR_DOUBLES))
def test_a_channel_that_loses_or_doubles_what_is_in_flight_is_convicted_c28(name: str) -> None:
    channel = wrong_part(name)
    run = convicting(
        lambda run: play(run, conserves, channel_type=channel), runs(["unaligned"], channels=(3, 4))
    )

    play(run, conserves)


@pytest.mark.parametrize("name", in_sweep_after(1, WRONG_VALVES))
def test_a_valve_that_does_otherwise_than_its_model_is_convicted_w1_w3(name: str) -> None:
    steps = convicting(partial(does_as_the_model, kind=wrong_part(name)), STEPS)

    does_as_the_model(steps, kind=StatusWatermarkValve)
