"""Claims about what the first design does otherwise: A30, A33, A55, A63, B18, B19; and about what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any, cast

import pytest

from reference_impl.elements import QueueElement, WatermarkStatus
from reference_impl.flip12.wait_operator import build_operator
from reference_impl.mailbox.availability import AVAILABLE
from reference_impl.operator.build import BuildOperator, Mode
from reference_impl.operator.build import build_operator as build_reference
from reference_impl.operator.retry import FLINK, FixedDelay
from reference_impl.tests.rig import HandFunction, OpenRig, Rig, open_rig, record, watermark
from tools.cases import each

BOTH = pytest.mark.parametrize("mode", ["ordered", "unordered"])

Snapshots = list[tuple[QueueElement, ...]]


def note_snapshot(rig: Rig, taken: Snapshots) -> None:
    """Mail that looks into the operator in the middle of whatever it waits for."""
    rig.executor.execute(lambda: taken.append(rig.operator.snapshot()), "peek")


# ------------------------------------------------------------------------- the capacity + 1st element


@BOTH
def test_the_element_that_waits_for_room_is_the_last_of_a_snapshot_b19(rigs: OpenRig, mode: Mode) -> None:
    """FLINK-14044 did away with it: see the reference's test of A30."""
    taken: Snapshots = []
    with rigs(mode=mode, capacity=2) as rig:
        rig.process(record(1), watermark(1))
        note_snapshot(rig, taken)
        rig.complete_soon(1)

        rig.process(record(2))
        rig.run_mail()

        assert taken == [(record(1), watermark(1), record(2))]
        assert rig.operator.snapshot() == (record(2),)


@BOTH
def test_a_foreign_threads_snapshot_holds_it_too_b19(rigs: OpenRig, mode: Mode) -> None:
    """The trigger thread of Flink's sources took snapshots under the checkpoint lock alone."""
    taken: Snapshots = []
    with rigs(mode=mode, capacity=1) as rig:

        def trigger_checkpoint() -> None:
            thread = Thread(target=lambda: taken.append(rig.operator.snapshot()))
            thread.start()
            thread.join(timeout=60)
            assert not thread.is_alive()

        rig.process(record(1))
        rig.executor.execute(trigger_checkpoint, "barrier")
        rig.complete_soon(1)

        rig.process(record(2))

    assert taken == [(record(1), record(2))]


@BOTH
def test_a_replay_that_waits_has_all_that_is_left_of_it_in_the_snapshot_b19(
    rigs: OpenRig, mode: Mode
) -> None:
    taken: Snapshots = []
    with rigs(mode=mode, capacity=1) as rig:

        def complete_first() -> None:
            rig.executor.execute(lambda: taken.append(rig.operator.snapshot()), "peek")
            rig.complete(1)

        rig.loop.call_soon(complete_first)
        rig.loop.call_later(0.001, lambda: rig.complete(2))

        rig.operator.open([record(1), record(2), record(3)])

    assert taken == [(record(1), record(2), record(3))]


@BOTH
def test_at_each_mail_what_was_given_has_left_or_is_in_the_snapshot_b19(rigs: OpenRig, mode: Mode) -> None:
    """Also while the task waits; the same holds of the reference only between two elements (A59)."""
    given: list[int] = []
    sums: list[tuple[int, int]] = []
    with rigs(mode=mode, capacity=3, function=HandFunction(invoke=lambda _, handle: soon(handle))) as rig:

        def count() -> None:
            sums.append((len(given), len(rig.emitted) + len(rig.operator.snapshot())))

        def soon(handle: Any) -> None:
            rig.executor.execute(count, "count")
            rig.loop.call_soon(handle.complete, [len(given)])
            rig.loop.call_soon(rig.executor.execute, count, "count")

        for value in range(20):
            given.append(value)
            rig.process(record(value))
        rig.operator.end_input()
        rig.run_mail()

    assert len(sums) == 40
    assert all(accepted == found for accepted, found in sums)


def test_between_two_elements_both_designs_have_the_same_snapshot_a56() -> None:
    def snapshot_of(build: Callable[..., Any]) -> tuple[QueueElement, ...]:
        with open_rig(build=cast("BuildOperator", build)) as rig:
            rig.process(record(1), watermark(1), record(2))
            rig.complete(2, "b")
            rig.run_mail()
            return rig.operator.snapshot()

    assert snapshot_of(build_operator) == snapshot_of(build_reference)


# ---------------------------------------------------------------------------------- what came later


@BOTH
def test_a_status_passes_takes_no_slot_and_is_in_no_snapshot_a55(rigs: OpenRig, mode: Mode) -> None:
    """Up to Flink 2.2; what may come of it is B20."""
    with rigs(mode=mode, capacity=1) as rig:
        rig.process(record(1), WatermarkStatus(idle=True))

        assert rig.values() == ["idle"]
        assert rig.operator.snapshot() == (record(1),)


def test_a_stored_status_is_refused_for_no_snapshot_of_this_design_has_one_a61(rigs: OpenRig) -> None:
    with rigs() as rig, pytest.raises(TypeError, match="snapshot of this operator"):
        rig.operator.open([record(1), WatermarkStatus(idle=True)])


def test_a_full_operator_says_that_it_has_room_a33(rigs: OpenRig) -> None:
    """Who feeds it waits inside `process`: soft back pressure came with FLINK-39835."""
    with rigs(capacity=1) as rig:
        rig.process(record(1))

        assert rig.operator.room is AVAILABLE


@each(
    ("field", "settings"),
    [
        ("retry", {"retry": FixedDelay(max_retries=1, delay_ms=1), "timeout_ms": 10}),
        ("quirks", {"quirks": FLINK}),
        ("downstream", {"downstream": lambda: AVAILABLE}),
    ],
)
def test_what_the_first_design_lacks_is_refused_by_its_name(
    rigs: OpenRig, field: str, settings: dict[str, Any]
) -> None:
    """Retry is FLIP-232's; an operator behind this one may not be asynchronous (B18, FLINK-13063)."""
    with pytest.raises(ValueError, match=f"^{field} is given"), rigs(**settings):
        pass


@each(
    ("field", "settings"),
    [
        ("capacity", {"capacity": 0}),
        ("timeout_ms", {"timeout_ms": -1}),
        ("timeout_ms", {"timeout_ms": 1.5}),
        ("mode", {"mode": "sorted"}),
    ],
)
def test_what_cannot_work_is_refused_by_its_name_a2_a3_a5(
    rigs: OpenRig, field: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=field), rigs(**settings):
        pass


# ------------------------------------------------------------------------------------------- restore


@BOTH
def test_a_snapshot_of_more_than_the_capacity_restores_to_itself_a63(rigs: OpenRig, mode: Mode) -> None:
    taken: Snapshots = []
    with rigs(mode=mode, capacity=1) as rig:
        rig.process(record(1))
        note_snapshot(rig, taken)
        rig.complete_soon(1)
        rig.process(watermark(2))
    with rigs(mode=mode, capacity=2) as rig:
        rig.operator.open(taken[0])

        assert rig.operator.snapshot() == taken[0] == (record(1), watermark(2))
