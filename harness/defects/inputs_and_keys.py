"""Strangers in a keyed task and its inputs, and in elements that are no records.

Answers to promises on idle inputs, latency markers, unaligned barriers, processing-time timers and values that expire.
Invariant: each replaces one part of a keyed task, or the operator; where its element, timer or barrier does not occur,
it is the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from harness.defects.defect import NO_LEVEL, SIM_AND_LIVE, Stranger
from harness.defects.keyed_state import SharingBackend
from harness.defects.operators import building
from harness.scenario.model import Scenario
from harness.sut.keyed_parts import Keeping, KeptState, KeyedParts
from harness.sut.variant import Variant
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.checkpoints.watermark_valve import StatusWatermarkValve, WatermarkOutput
from reference_impl.elements import LatencyMarker, OperatorInput, Watermark, WatermarkStatus
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import KeyGroupTimers, TimersHandle
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.ttl_config import StateTtlConfig, TtlTimeProvider
from reference_impl.state.ttl_state_factory import TtlStateFactory
from reference_impl.state.ttl_states import TtlDecorator
from reference_impl.state.ttl_value import TtlValue

__all__ = ["OF_INPUTS_AND_KEYS"]

_BUCKETS: Final = 16
_PAGE: Final = 4


class _IdleHoldsBack(StatusWatermarkValve):
    """Does not look at the status of its inputs: an idle one holds the watermark back for good."""

    def input_watermark_status(
        self, status: WatermarkStatus, channel_index: int, output: WatermarkOutput
    ) -> None:
        """Nothing."""


class _WakesTooLow(StatusWatermarkValve):
    """Lets an input that wakes up pull the watermark back to its own."""

    def input_watermark(self, watermark: Watermark, channel_index: int, output: WatermarkOutput) -> None:
        self._last_output = min(self._last_output, watermark.timestamp - 1)
        super().input_watermark(watermark, channel_index, output)


class _StatusOvertakes(AsyncWaitOperator):
    """Passes a status on at once, before the records that came before it."""

    def process(self, element: OperatorInput) -> None:
        if isinstance(element, WatermarkStatus):
            self.emit(element)
        else:
            super().process(element)


class _StatusLost(AsyncWaitOperator):
    """Passes no status on: downstream never learns that its input is idle."""

    def process(self, element: OperatorInput) -> None:
        if not isinstance(element, WatermarkStatus):
            super().process(element)


class _MarkerWaits(AsyncWaitOperator):
    """Lets a latency marker wait until the queue is empty, so that it measures the calls too."""

    def process(self, element: OperatorInput) -> None:
        if isinstance(element, LatencyMarker):
            self._run_mail_until(lambda: not len(self.queue), "an empty queue")
        super().process(element)


class _BucketsKeys(KeyedStateBackend):
    """Keeps its state by sixteen buckets of keys instead of by key."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        select: Callable[[Any], None] = self.set_current_key

        def select_bucket(key: Any) -> None:
            select(key % _BUCKETS)

        self.set_current_key = select_bucket


class _LateTimers(InternalTimerServices):
    """Fires the timers below a watermark, not those at it."""

    def advance_watermark(self, timestamp: int) -> None:
        super().advance_watermark(timestamp - 1)

    def try_advance_watermark(self, timestamp: int, should_stop: Callable[[], bool]) -> bool:
        return super().try_advance_watermark(timestamp - 1, should_stop)


class _EventTimersOnly(InternalTimerServices):
    """Restores the timers of event time, and forgets those of processing time."""

    def restore(self, handles: Iterable[TimersHandle]) -> None:
        super().restore(self._of_event_time(handle) for handle in handles)

    def _of_event_time(self, handle: TimersHandle) -> TimersHandle:
        services = {
            name: {
                group: KeyGroupTimers(event_time=timers.event_time, processing_time=[])
                for group, timers in groups.items()
            }
            for name, groups in handle.services.items()
        }
        return replace(handle, services=services)


class _NeverUnaligned(SingleCheckpointBarrierHandler):
    """Lets an alignment take as long as it takes: its timeout does nothing."""

    def _time_out(self, barrier: Any) -> None:
        """Nothing."""


class _LosesPages(Keeping):
    """Reads the timers of a snapshot without the first key group of each page of four."""

    def state(self, text: str) -> KeptState:
        kept = super().state(text)
        if kept.timers is None:
            return kept
        services = {
            name: {group: timers for group, timers in groups.items() if group % _PAGE}
            for name, groups in kept.timers.services.items()
        }
        return replace(kept, timers=replace(kept.timers, services=services))


class _NeverExpires(TtlDecorator):
    def has_expired(self, last_access_ms: int) -> bool:
        del last_access_ms
        return False


class _ExpiresByCreation(TtlDecorator):
    """Does not move the timestamp of a value that is written again."""

    _first: int | None = None

    def stamped(self, value: Any) -> Any:
        stamped = super().stamped(value)
        self._first = stamped.last_access_ms if self._first is None else self._first
        return TtlValue(stamped.value, self._first)


def _expiring_by(decorator: Callable[[StateTtlConfig, TtlTimeProvider], TtlDecorator]) -> type[Any]:
    """A backend whose states expire by the rules of `decorator`."""

    def create(descriptor: Any, *, create_state: Any, now_ms: Callable[[], int]) -> Any:
        factory = TtlStateFactory(create_state=create_state, now_ms=now_ms, decorator=decorator)
        return factory.create(descriptor)

    class ExpiringBackend(KeyedStateBackend):
        def __init__(self, **options: Any) -> None:
            super().__init__(**{**options, "create_with_ttl": create})

    return ExpiringBackend


def _keyed(scenario: Scenario) -> bool:
    return scenario.task is not None


def _keyed_and_restored(scenario: Scenario) -> bool:
    return _keyed(scenario) and any(fault.do in {"kill_worker", "zombie"} for fault in scenario.faults)


def _falls_idle(scenario: Scenario) -> bool:
    return scenario.task is not None and scenario.task.idle > 0


def _has_latency_markers(scenario: Scenario) -> bool:
    return scenario.task is not None and scenario.task.latency_markers > 0


def _by_clock(scenario: Scenario) -> bool:
    return scenario.task is not None and scenario.task.timers == "processing-time"


def _snapshots_later(scenario: Scenario) -> bool:
    return scenario.task is not None and scenario.task.async_snapshot > 0


def _expires(scenario: Scenario) -> bool:
    return scenario.task is not None and scenario.task.ttl > 0


def _never_unaligned(**parts: Any) -> SingleCheckpointBarrierHandler:
    return _NeverUnaligned(**parts, alternating=False)


OF_INPUTS_AND_KEYS = (
    Stranger(
        name="idle-input-holds-back",
        about="an input that has fallen idle holds the watermark back",
        component="watermark status",
        breaks="an idle input holds nothing back",
        variant=Variant(keyed=KeyedParts(valve=_IdleHoldsBack)),
        where="an input falls idle",
        applies=_falls_idle,
        scenario="sessions-of-idle-inputs",
        levels=SIM_AND_LIVE,
    ),
    Stranger(
        name="woken-input-pulls-back",
        about="a watermark of an input that was behind pulls the combined one back",
        component="watermark status",
        breaks="watermarks rise",
        variant=Variant(keyed=KeyedParts(valve=_WakesTooLow)),
        where="an input falls idle and wakes up behind the others",
        applies=_falls_idle,
        scenario="sessions-of-idle-inputs",
        levels=SIM_AND_LIVE,
        survives="an input of a task is never behind when it wakes up: `idle` with a `lag` is refused",
    ),
    Stranger(
        name="status-overtakes-records",
        about="a status leaves before the records that came before it",
        component="watermark status",
        breaks="a status keeps its place among the records",
        variant=Variant(build_operator=building(_StatusOvertakes)),
        where="an input falls idle",
        applies=_falls_idle,
        levels=SIM_AND_LIVE,
        survives="a history has no event for a status",
    ),
    Stranger(
        name="status-lost",
        about="the operator passes no status on",
        component="watermark status",
        breaks="each status leaves",
        variant=Variant(build_operator=building(_StatusLost)),
        where="an input falls idle",
        applies=_falls_idle,
        levels=SIM_AND_LIVE,
        survives="a history has no event for a status",
    ),
    Stranger(
        name="latency-marker-waits",
        about="a latency marker waits until the queue is empty",
        component="latency markers",
        breaks="a latency marker overtakes what is queued",
        variant=Variant(build_operator=building(_MarkerWaits)),
        where="there are latency markers",
        applies=_has_latency_markers,
        scenario="latency-markers",
        levels=SIM_AND_LIVE,
    ),
    Stranger(
        name="state-by-bucket",
        about="keyed state is kept for sixteen buckets of keys",
        component="keyed state",
        breaks="each key has its own state",
        variant=Variant(keyed=KeyedParts(backend=_BucketsKeys)),
        where="a keyed task with more than sixteen keys",
        applies=lambda scenario: _keyed(scenario) and scenario.workload.keys > _BUCKETS,
    ),
    Stranger(
        name="timer-at-watermark-waits",
        about="a timer that is due at exactly the watermark fires with the next one",
        component="timers",
        breaks="a watermark fires all timers up to it",
        variant=Variant(keyed=KeyedParts(timer_services=_LateTimers)),
        where="a keyed task",
        applies=_keyed,
        scenario="sessions-after-commit",
    ),
    Stranger(
        name="some-timers-not-restored",
        about="the timers of one key group in four are not restored",
        component="timers",
        breaks="a restore brings back each timer",
        variant=Variant(keyed=KeyedParts(keeping=_LosesPages)),
        where="a keyed task; an attempt is killed, or superseded",
        applies=_keyed_and_restored,
        scenario="sessions-crash-loop",
    ),
    Stranger(
        name="processing-timers-not-restored",
        about="timers of processing time are not restored",
        component="processing-time timers",
        breaks="a restore brings back each timer",
        variant=Variant(keyed=KeyedParts(timer_services=_EventTimersOnly)),
        where="a keyed task with timers of processing time; an attempt is killed, or superseded",
        applies=lambda scenario: _keyed_and_restored(scenario) and _by_clock(scenario),
        scenario="sessions-by-clock",
        levels=SIM_AND_LIVE,
    ),
    Stranger(
        name="snapshot-sees-updates",
        about="updates that are made while a snapshot is written get into it",
        component="asynchronous snapshot",
        breaks="a snapshot holds the state of one instant",
        variant=Variant(keyed=KeyedParts(backend=SharingBackend)),
        where="a keyed task that goes on while its snapshot is written",
        applies=lambda scenario: _keyed_and_restored(scenario) and _snapshots_later(scenario),
        scenario="sessions-in-async-snapshot",
        levels=SIM_AND_LIVE,
    ),
    Stranger(
        name="alignment-timeout-ignored",
        about="an alignment whose timeout has passed goes on aligning",
        component="alignment",
        breaks="an alignment that takes too long becomes an unaligned checkpoint",
        variant=Variant(keyed=KeyedParts(barrier_handler=_never_unaligned)),
        where="a keyed task with an alignment timeout",
        levels=NO_LEVEL,
        survives="the checkpoints of a keyed task are always aligned",
    ),
    Stranger(
        name="state-never-expires",
        about="a value whose time to live has passed is still returned",
        component="time to live",
        breaks="an expired value is not returned",
        variant=Variant(keyed=KeyedParts(backend=_expiring_by(_NeverExpires))),
        where="a keyed task with a time to live",
        applies=_expires,
        scenario="counts-expire",
        levels=SIM_AND_LIVE,
    ),
    Stranger(
        name="rewrites-do-not-prolong",
        about="a value that is written again expires when the first one would have",
        component="time to live",
        breaks="a write begins the time to live anew",
        variant=Variant(keyed=KeyedParts(backend=_expiring_by(_ExpiresByCreation))),
        where="a keyed task with a time to live",
        applies=_expires,
        scenario="counts-expire",
        levels=SIM_AND_LIVE,
    ),
)
