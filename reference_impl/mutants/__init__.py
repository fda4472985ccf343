"""Planted defects: variants of the reference operator, each wrong in one way, to be convicted by a checker.

An operator's module has a `build_operator` like the honest one's (`reference_impl.operator.build`); those of the
mailbox are Flink's own, era by era; of a task and of its timers, `harness.defects` makes use.
Invariant: a mutant differs from the reference in the one thing that its name says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from reference_impl.mutants import (
    acknowledges_at_once,
    acknowledges_empty_state,
    discards_acknowledged_state,
    drops_equal_watermarks,
    emits_after_close,
    emits_from_callback,
    end_at_once,
    forgets_abort_marks,
    frees_slot_on_call,
    keeps_abort_marks,
    late_abort_drops_state,
    late_results,
    loses_async_errors,
    loses_completions,
    notifies_stopped_operators,
    restores_beyond_capacity,
    restores_reversed,
    retries_after_timeout,
    segment_leak,
    settles_twice,
    shares_records,
    silent_about_aborted,
    snapshot_awaits_empty_queue,
    snapshot_omits_completed,
    swallows_errors,
    unordered_emission,
    watermarks_at_once,
)
from reference_impl.mutants.mailbox_eras import MAILBOXES
from reference_impl.operator.build import BuildOperator

__all__ = ["BUILDERS", "COORDINATORS", "MAILBOXES"]

BUILDERS: Mapping[str, BuildOperator] = MappingProxyType(
    {
        "snapshot-omits-completed": snapshot_omits_completed.build_operator,
        "restores-reversed": restores_reversed.build_operator,
        "loses-completions": loses_completions.build_operator,
        "settles-twice": settles_twice.build_operator,
        "watermarks-at-once": watermarks_at_once.build_operator,
        "segment-leak": segment_leak.build_operator,
        "retries-after-timeout": retries_after_timeout.build_operator,
        "late-results": late_results.build_operator,
        "restores-beyond-capacity": restores_beyond_capacity.build_operator,
        "frees-slot-on-call": frees_slot_on_call.build_operator,
        "swallows-errors": swallows_errors.build_operator,
        "shares-records": shares_records.build_operator,
        "emits-from-callback": emits_from_callback.build_operator,
        "emits-after-close": emits_after_close.build_operator,
        "end-at-once": end_at_once.build_operator,
        "snapshot-awaits-empty-queue": snapshot_awaits_empty_queue.build_operator,
        "drops-equal-watermarks": drops_equal_watermarks.build_operator,
        "unordered-emission": unordered_emission.build_operator,
    }
)
"""Each planted defect of the operator by name."""

COORDINATORS: Mapping[str, Callable[..., SubtaskCheckpointCoordinator]] = MappingProxyType(
    {
        "acknowledges-at-once": acknowledges_at_once.build_coordinator,
        "discards-acknowledged-state": discards_acknowledged_state.build_coordinator,
        "late-abort-drops-state": late_abort_drops_state.build_coordinator,
        "forgets-abort-marks": forgets_abort_marks.build_coordinator,
        "keeps-abort-marks": keeps_abort_marks.build_coordinator,
        "silent-about-aborted": silent_about_aborted.build_coordinator,
        "notifies-stopped-operators": notifies_stopped_operators.build_coordinator,
        "loses-async-errors": loses_async_errors.build_coordinator,
        "acknowledges-empty-state": acknowledges_empty_state.build_coordinator,
    }
)
"""Each planted defect of a subtask's checkpoints by name."""
