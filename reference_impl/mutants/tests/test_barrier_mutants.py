"""Claims about planted defects of barriers and watermarks: each breaks a property that the reference keeps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from reference_impl.checkpoint_events import CheckpointException
from reference_impl.checkpoints.channels import InputChannel
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.checkpoints.tests.interleavings import Run, conserves, goes_on, play, runs
from reference_impl.checkpoints.tests.naive_alignment import NaiveAlignment, Overheard, as_the_model
from reference_impl.checkpoints.tests.test_status_watermark_valve import STEPS, does_as_the_model
from reference_impl.checkpoints.watermark_valve import StatusWatermarkValve
from reference_impl.mutants.abort_leaves_blocked import AbortLeavesBlocked
from reference_impl.mutants.captures_behind_barrier import CapturesBehindBarrier
from reference_impl.mutants.end_loses_barrier import EndLosesBarrier
from reference_impl.mutants.idle_order_decides import IdleOrderDecides
from reference_impl.mutants.late_cancel_aborts_newer import LateCancelAbortsNewer
from reference_impl.mutants.min_watermark_lost import MinWatermarkLost
from reference_impl.mutants.overtaken_fails_task import OvertakenFailsTask
from reference_impl.mutants.stale_barrier_blocks import StaleBarrierBlocks
from reference_impl.mutants.unaligned_captures_nothing import CapturesNothing

searching = settings(
    max_examples=1_000, derandomize=True, deadline=None, database=None, phases=[Phase.generate]
)
"""The first run that will do; a smaller one would say no more."""


def convicting(broken: Callable[[Any], None], drawn: st.SearchStrategy[Any]) -> Any:
    """A run on which what must hold does not."""

    def does_not_hold(run: Any) -> bool:
        try:
            broken(run)
        except (AssertionError, CheckpointException):
            return True
        return False

    return find(drawn, does_not_hold, settings=searching)


def tells_as_the_model(run: Run, *, handler: type[SingleCheckpointBarrierHandler]) -> None:
    """C20-C24: the task hears what follows from the events that were read."""

    def overheard(*, task: Any, inputs: Any, timers: Any, **_: Any) -> Overheard:
        return Overheard(
            task=task,
            handler=lambda told: handler.aligned(task=told, inputs=inputs, timers=timers),
            model=NaiveAlignment(len(run.contents), count_ended=True),
        )

    play(run, as_the_model, kind="aligned", handler=overheard)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(EndLosesBarrier, id="end-loses-barrier-c23"),
        pytest.param(LateCancelAbortsNewer, id="late-cancel-aborts-newer-c24"),
    ],
)
def test_a_handler_that_decides_otherwise_than_its_model_is_convicted_c20_c21_c22_c23_c24(
    mutant: type[SingleCheckpointBarrierHandler],
) -> None:
    run = convicting(partial(tells_as_the_model, handler=mutant), runs(["aligned"]))

    tells_as_the_model(run, handler=SingleCheckpointBarrierHandler)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(AbortLeavesBlocked, id="abort-leaves-blocked-c21-c25"),
        pytest.param(StaleBarrierBlocks, id="stale-barrier-blocks-c20"),
    ],
)
def test_a_handler_that_leaves_a_channel_blocked_for_nobody_is_convicted_c20_c25(
    mutant: type[SingleCheckpointBarrierHandler],
) -> None:
    run = convicting(lambda run: play(run, goes_on, handler=mutant.alternating), runs(["aligned"]))

    play(run, goes_on)


def test_a_handler_that_fails_the_task_over_a_checkpoint_that_was_overtaken_is_convicted_c21() -> None:
    run = convicting(
        lambda run: play(run, goes_on, handler=OvertakenFailsTask.alternating), runs(["unaligned"])
    )

    play(run, goes_on)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(CapturesNothing, id="unaligned-captures-nothing-c27"),
        pytest.param(CapturesBehindBarrier, id="captures-behind-barrier-c27"),
    ],
)
def test_a_channel_that_loses_or_doubles_what_is_in_flight_is_convicted_c28(
    mutant: type[InputChannel],
) -> None:
    run = convicting(
        lambda run: play(run, conserves, channel_type=mutant), runs(["unaligned"], channels=(3, 4))
    )

    play(run, conserves)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(MinWatermarkLost, id="min-watermark-lost-w1"),
        pytest.param(IdleOrderDecides, id="idle-order-decides-w3"),
    ],
)
def test_a_valve_that_does_otherwise_than_its_model_is_convicted_w1_w3(
    mutant: type[StatusWatermarkValve],
) -> None:
    steps = convicting(partial(does_as_the_model, kind=mutant), STEPS)

    does_as_the_model(steps, kind=StatusWatermarkValve)
