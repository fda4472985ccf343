"""Strangers, and two mutants, in a keyed task and its inputs, and in elements that no source of the harness sends yet.

Answers to promises on idle inputs, latency markers, unaligned barriers, processing-time timers and values that expire.
Invariant: each replaces one part of a keyed task, or the operator; where its element, timer or barrier does not occur,
it is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from harness.scenario.model import Scenario
from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, Defect
from harness.sut.defects.twelve import building
from harness.sut.rescaling import Keeping, KeptState, KeyedParts
from harness.sut.variant import Variant
from reference_impl.checkpoints.input_gate import StatusWatermarkValve, WatermarkOutput
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.elements import OperatorInput, Watermark, WatermarkStatus
from reference_impl.mailbox.timers import Timer
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import InternalTimer, InternalTimerService, TimerHeap
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.serializer import TtlValue
from reference_impl.state.state_descriptor import StateTtlConfig, TtlTimeProvider
from reference_impl.state.ttl_state_factory import TtlStateFactory
from reference_impl.state.ttl_states import TtlDecorator
from tools.defects.kinds import Stranger

_BUCKETS: Final = 16
_PAGE: Final = 4
_GROUPS: Final = 8


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


class _SavesNewTimers(InternalTimerService):
    """Leaves restored timers out of its snapshots: an older checkpoint has them."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._restored: dict[InternalTimer, None] = {}

    def restore(self, *, event_time: list[InternalTimer], processing_time: list[InternalTimer]) -> None:
        super().restore(event_time=event_time, processing_time=processing_time)
        self._restored |= dict.fromkeys((*event_time, *processing_time))

    def event_time_timers(self) -> list[InternalTimer]:
        return [timer for timer in super().event_time_timers() if timer not in self._restored]

    def processing_time_timers(self) -> list[InternalTimer]:
        return [timer for timer in super().processing_time_timers() if timer not in self._restored]


class _FiresOne(InternalTimerService):
    """Fires one processing-time timer when it wakes up, and sets its alarm for one with a later time only."""

    def _on_clock(self, time: int, armed: Timer) -> None:
        if self._armed is armed:
            self._armed = None
        timer = self._pop_until(time, self._processing_time)
        if timer is not None and self._target is not None:
            self._target.on_processing_time(timer)
        head = self._processing_time.peek()
        if self._armed is None and head is not None and head.timestamp > time:
            self._arm()


class _SharedTimes(TimerHeap):
    """Keeps one timer for each time and key group."""

    def add(self, timer: InternalTimer) -> bool:
        mine = timer.timestamp, timer.key % _GROUPS
        return all((other.timestamp, other.key % _GROUPS) != mine for other in self) and super().add(timer)


class _SharingTimers(InternalTimerService):
    heap_kind = _SharedTimes


def _services(kind: type[InternalTimerService]) -> Variant:
    """A keyed task whose timer services are of class `kind`."""

    class Services(InternalTimerServices):
        service_kind = kind

    return Variant(keyed=KeyedParts(timer_services=Services))


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
            super().__init__(**options | {"create_with_ttl": create})

    return ExpiringBackend


def _keyed(scenario: Scenario) -> bool:
    return scenario.task is not None


def _keyed_and_restored(scenario: Scenario) -> bool:
    return _keyed(scenario) and any(fault.do in {"kill_worker", "zombie"} for fault in scenario.faults)


def _is_joined(scenario: Scenario) -> bool:
    return scenario.task is not None and scenario.task.joined > 0


def _never_unaligned(**parts: Any) -> SingleCheckpointBarrierHandler:
    return _NeverUnaligned(**parts, alternating=True)


OF_INPUTS_AND_KEYS = (
    Stranger(
        name="woken-input-pulls-back",
        about="a watermark of an input that was behind pulls the combined one back",
        component="watermark status",
        breaks="watermarks rise",
        variant=Variant(keyed=KeyedParts(valve=_WakesTooLow)),
        where="an input falls idle and wakes up behind the others",
        applies=lambda scenario: scenario.task is not None and scenario.task.catch_up > 0,
        scenario="sessions-catching-up",
        convicted_by=("V6", "V8"),
    ),
    Stranger(
        name="status-overtakes-records",
        about="a status leaves before the records that came before it",
        component="watermark status",
        breaks="a status keeps its place among the records",
        variant=Variant(build_operator=building(_StatusOvertakes)),
        where="all inputs fall idle, and the task behind has another one",
        applies=_is_joined,
        scenario="late-behind-idle-inputs",
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="status-lost",
        about="the operator passes no status on",
        component="watermark status",
        breaks="each status leaves",
        variant=Variant(build_operator=building(_StatusLost)),
        where="all inputs fall idle, and the task behind has another one",
        applies=_is_joined,
        scenario="late-behind-idle-inputs",
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="state-by-bucket",
        about="keyed state is kept for sixteen buckets of keys",
        component="keyed state",
        breaks="each key has its own state",
        variant=Variant(keyed=KeyedParts(backend=_BucketsKeys)),
        where="a keyed task with more than sixteen keys",
        applies=lambda scenario: _keyed(scenario) and scenario.workload.keys > _BUCKETS,
        convicted_by=("V8", "V9"),
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
        convicted_by=("V8", "V9"),
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
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="alignment-timeout-ignored",
        about="an alignment whose timeout has passed goes on aligning",
        component="alignment",
        breaks="an alignment that takes too long becomes an unaligned checkpoint",
        variant=Variant(keyed=KeyedParts(alternating=_never_unaligned)),
        where="a keyed task with an alignment timeout",
        applies=lambda scenario: scenario.task is not None and bool(scenario.task.alignment_timeout),
        scenario="checkpoints-beside-a-stall",
        convicted_by=("V18",),
    ),
    Stranger(
        name="rewrites-do-not-prolong",
        about="a value that is written again expires when the first one would have",
        component="time to live",
        breaks="a write begins the time to live anew",
        variant=Variant(keyed=KeyedParts(backend=_expiring_by(_ExpiresByCreation))),
        where="a keyed task with a time to live",
        applies=lambda scenario: scenario.task is not None and scenario.task.ttl > 0,
        scenario="counts-expire",
        convicted_by=("V8", "V9"),
    ),
    Defect(
        name="restored-timers-not-saved-again",
        about="timers that were restored are in no later snapshot, so a second restart loses them",
        mirrors="an incremental snapshot whose base is thrown away",
        convicted_by=("V8",),
        variant=_services(_SavesNewTimers),
        where="sessions are longer than the time between checkpoints, and a worker is killed twice",
        applies=NEVER,
        scenario="sessions-restored-twice",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="one-clock-timer-a-wake",
        about="of several timers that are due at one time of the clock only the first fires at once",
        mirrors="a callback that takes the head of its queue once",
        convicted_by=("V8",),
        variant=_services(_FiresOne),
        where="several sessions end at one time of the clock",
        applies=NEVER,
        scenario="sessions-end-at-once",
        levels=SIM_AND_LIVE,
    ),
    Stranger(
        name="equal-times-share-timer",
        about="timers with one time and one key group are one timer, whatever their keys",
        component="processing-time timers",
        breaks="each timer fires, for its own key",
        variant=_services(_SharingTimers),
        where="sessions of several keys end at one time",
        applies=lambda scenario: scenario.task is not None and scenario.workload.keys > _GROUPS,
        scenario="sessions-end-at-once",
        convicted_by=("V8", "V9"),
    ),
)
