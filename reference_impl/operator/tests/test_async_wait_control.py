"""Claims about what is no record: watermarks, their status, markers, attributes. A51-A55."""

from __future__ import annotations

from typing import get_args

from reference_impl.elements import LatencyMarker, OperatorInput, RecordAttributes, Watermark, WatermarkStatus
from reference_impl.operator.build import Mode
from reference_impl.tests.rig import OpenRig, record, watermark
from tools.cases import each

BOTH = each("mode", get_args(Mode))


@BOTH
def test_a_watermark_at_an_empty_queue_leaves_at_once_a51(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode) as rig:
        mark = Watermark(timestamp=3, position=9)
        rig.process(mark)

        assert rig.emitted == [mark]


@BOTH
def test_a_watermark_waits_for_the_records_before_it_a52(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode) as rig:
        rig.process(record(1), watermark(1), record(2))
        rig.complete(2, "b")
        rig.run_mail()
        assert rig.emitted == []

        rig.complete(1, "a")
        rig.run_mail()

    assert rig.values() == ["a", "w1", "b"]


@BOTH
def test_watermarks_are_neither_merged_nor_dropped_a52(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode) as rig:
        rig.process(record(1), watermark(5), watermark(5), watermark(3))
        rig.complete(1)
        rig.run_mail()

    assert rig.values() == ["w5", "w5", "w3"]


@BOTH
def test_a_watermark_waits_for_a_slot_too_a51(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode, capacity=1) as rig:
        rig.process(record(1))
        rig.complete_soon(1, "a")

        rig.process(watermark(1))

    assert rig.values() == ["a", "w1"]


def test_event_time_moves_no_timer_a53(rigs: OpenRig) -> None:
    with rigs(timeout_ms=60_000) as rig:
        rig.process(record(1), watermark(2**62))
        rig.run_mail()

        assert len(rig.timers) == 1


@BOTH
@each("element", [LatencyMarker(id=4), RecordAttributes(backlog=True)])
def test_a_marker_overtakes_what_is_in_flight_even_if_the_queue_is_full_a54(
    rigs: OpenRig, mode: Mode, element: OperatorInput
) -> None:
    with rigs(mode=mode, capacity=2) as rig:
        rig.process(record(1), watermark(1))

        rig.process(element)

        assert rig.emitted == [element]
        assert rig.operator.snapshot() == (record(1), watermark(1))


@BOTH
def test_a_status_keeps_its_place_takes_a_slot_and_is_in_the_snapshot_a55(rigs: OpenRig, mode: Mode) -> None:
    """A55, B20: idleness that overtakes a record lets event time run ahead of it."""
    idle, active = WatermarkStatus(idle=True), WatermarkStatus(idle=False)
    with rigs(mode=mode, capacity=4) as rig:
        rig.process(record(1), idle, record(2), active)
        rig.complete(2, "b")
        rig.run_mail()
        assert rig.operator.snapshot() == (record(1), idle, record(2), active)
        assert not rig.operator.room

        rig.complete(1, "a")
        rig.run_mail()

    assert rig.values() == ["a", "idle", "b", "active"]
