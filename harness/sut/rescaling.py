"""The replaceable parts of a keyed task, and rescaling: stored state becomes the shares of the next subtasks.

Answers to mutation testing, like `harness.sut.variant`, which contains them. Invariant: a part draws no random number,
so equal seeds give equal runs.

Answers to Flink's `StateAssignmentOperation`. Elements in flight are list state, which is split between any two
elements (A56, A64); the places of the source's partitions are union state, of which each subtask keeps its own (S25);
the number of key groups is broadcast state; keyed state and timers go by key groups, of which a subtask owns a range
(S8).
Invariant: all shares together hold each element in flight, each key group and each partition once.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from harness.scenario.model import Fault, Scenario
from harness.scenario.plan import RescaledShare, RunPlan
from harness.scenario.workloads.lookups import Inputs, LookupSource
from harness.scenario.workloads.partitions import Element, PartitionedSource, places_before
from harness.scenario.workloads.sessions import SourceBefore
from harness.scenario.workloads.shape import MarkOfTime
from harness.sut.positions import restored
from harness.system.json_types import Json
from reference_impl.checkpoints.barrier_states import (
    CheckpointableInput,
    CheckpointableTask,
    CheckpointBarrierHandler,
    InitInputCheckpoint,
)
from reference_impl.checkpoints.channels import InputChannel
from reference_impl.checkpoints.input_gate import StatusWatermarkValve
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.elements import Record, Watermark
from reference_impl.mailbox.timers import Timers
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import KeyContext, KeyGroupTimers, TimersHandle
from reference_impl.state.key_groups import (
    KeyGroupRange,
    assign_to_key_group,
    compute_key_group_range_for_operator_index,
)
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.operator_state import RoundRobinOperatorStateRepartitioner
from reference_impl.state.snapshots import (
    KeyedStateHandle,
    Mode,
    OperatorStateHandle,
    OperatorStatePartitions,
)
from reference_impl.state.ttl_state_factory import CreateWithTtl, create_state_with_ttl


class BuildBarrierHandler(Protocol):
    """Builds the barrier handler of the inputs."""

    def __call__(
        self, *, task: CheckpointableTask, inputs: Sequence[CheckpointableInput], timers: Timers
    ) -> CheckpointBarrierHandler:
        """Builds it for one task."""


class BuildAlternatingHandler(Protocol):
    """Builds the barrier handler of inputs whose barriers may overtake; `checkpoints` hears when one begins."""

    def __call__(
        self,
        *,
        task: CheckpointableTask,
        inputs: Sequence[CheckpointableInput],
        timers: Timers,
        checkpoints: InitInputCheckpoint,
    ) -> CheckpointBarrierHandler:
        """Builds it for one task."""


class Keeping:
    """Encodes the state of one attempt for the sink and decodes it on restore. Mutable."""

    def text(self, finish: Callable[[], KeptState]) -> str:
        """The stored text of a snapshot; `finish` runs its asynchronous part."""
        return encoded(finish())

    def state(self, text: str) -> KeptState:
        return decoded(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedParts:
    """The replaceable parts of one keyed task."""

    barrier_handler: BuildBarrierHandler = SingleCheckpointBarrierHandler.aligned
    """By default aligned: a barrier blocks its input until all barriers have arrived (C22)."""
    alternating: BuildAlternatingHandler = SingleCheckpointBarrierHandler.alternating
    """The same for a task with an alignment timeout: its barriers may overtake (C26)."""
    channel: Callable[..., InputChannel] = InputChannel
    """Builds an input channel of such a task."""
    valve: Callable[[int], StatusWatermarkValve] = StatusWatermarkValve
    """Builds the watermark valve for a number of inputs."""
    backend: type[KeyedStateBackend] = KeyedStateBackend
    timer_services: type[InternalTimerServices] = InternalTimerServices
    create_with_ttl: CreateWithTtl = create_state_with_ttl
    keeping: type[Keeping] = Keeping
    timers_key_context: Callable[[KeyContext], KeyContext] = lambda context: context
    """The key context whose current key a timer sets before it fires."""


HONEST_PARTS = KeyedParts()


_CHECKSUM_LENGTH = 16


class KeptStateAltered(Exception):
    """The stored state was altered or truncated."""


class KeptState(msgspec.Struct, frozen=True, kw_only=True):
    """Keyed state and timers of a snapshot; None: empty (C10)."""

    keyed: KeyedStateHandle | None
    timers: TimersHandle | None


def encoded(state: KeptState) -> str:
    """Encodes `state` as text with a checksum."""
    body = msgspec.msgpack.encode(state)
    return f"{_checksum(body)}:{b64encode(body).decode('ascii')}"


def decoded(text: str) -> KeptState:
    """Decodes what `encoded` wrote. Raises `KeptStateAltered`."""
    checksum, _, rest = text.partition(":")
    try:
        body = b64decode(rest, validate=True)
    except ValueError as error:
        message = f"the state of the keyed operator is torn: its text is no base64 ({error})"
        raise KeptStateAltered(message) from error
    if _checksum(body) != checksum:
        message = f"the state of the keyed operator is torn or altered: its checksum is not {checksum}"
        raise KeptStateAltered(message)
    return msgspec.msgpack.decode(body, type=KeptState)


def _checksum(body: bytes) -> str:
    return sha256(body).hexdigest()[:_CHECKSUM_LENGTH]


KEY_GROUPS = 8
"""The maximum parallelism; few, so that each key group holds several keys."""
ALL_GROUPS = KeyGroupRange(start=0, end=KEY_GROUPS - 1)
"""What a subtask owns in a run that does not rescale."""
IN_FLIGHT = "in flight"
"""The name of the state that is split."""
_PLACES, _SETTINGS = "places of partitions", "settings"
_encode, _decode = msgspec.json.encode, msgspec.json.decode


@dataclass(frozen=True, slots=True, kw_only=True)
class OldSubtask:
    """A subtask that a rescale ends, with its part of the checkpoint."""

    number: int
    position: int
    elements: Sequence[dict[str, Any]]
    has_ended: bool = False
    """Whether it had drained: then its partitions are read to their ends, and it holds nothing."""


class Rescaling:
    """Redistributes state; planted defects override a method."""

    def __init__(self, scenario: Scenario, plan: RunPlan) -> None:
        self._scenario = scenario
        self._plan = plan

    def shares(self, old: Sequence[OldSubtask], *, checkpoint: int, to: int) -> dict[int, RescaledShare]:
        """The shares of the `to` subtasks that follow, by number; the numbers go on after all earlier ones."""
        first = first_number(self._plan, self._scenario)
        generation = 1 + max((share.generation for share in self._plan.shares.values()), default=0)
        handles = self.redistributed([self._handle(one) for one in old], to)
        texts = [str(e["state"]) for one in old for e in one.elements if "state" in e]
        kept = [decoded(text) for text in texts]
        shares: dict[int, RescaledShare] = {}
        for index, handle in enumerate(handles):
            owned = self.owned(index, to)
            state = [{"state": encoded(self.keyed_state(kept, owned))}] if self._scenario.task else []
            elements = self._elements(handle)
            shares[first + index] = RescaledShare(
                generation=generation,
                checkpoint=checkpoint,
                index=index,
                parallelism=to,
                groups=(owned.start, owned.end),
                places=self.places(_placed(handle), owned),
                elements=[*state, *elements],
                inherited=len(elements),
                cuts={one.number: self._cut(one) for one in old},
            )
        return shares

    def _cut(self, old: OldSubtask) -> int:
        """The position behind what the subtask had read at the checkpoint."""
        return (
            len(PlannedSubtask(plan=self._plan, scenario=self._scenario, number=old.number).shared_source())
            if old.has_ended
            else old.position
        )

    def _handle(self, old: OldSubtask) -> OperatorStateHandle:
        """The operator state that the subtask wrote."""
        source = PlannedSubtask(plan=self._plan, scenario=self._scenario, number=old.number).shared_source()
        until = self._cut(old)
        share = self._plan.shares.get(old.number)
        places = {**(share.places if share else {}), **places_before(source, until)}
        in_flight = [element for element in old.elements if "state" not in element]
        return OperatorStateHandle(
            states={
                IN_FLIGHT: OperatorStatePartitions(
                    mode=Mode.SPLIT_DISTRIBUTE, items=tuple(map(_encode, in_flight))
                ),
                _PLACES: OperatorStatePartitions(mode=Mode.UNION, items=tuple(map(_encode, places.items()))),
                _SETTINGS: OperatorStatePartitions(
                    mode=Mode.BROADCAST, items=((_encode("key groups"), _encode(KEY_GROUPS)),)
                ),
            }
        )

    def redistributed(
        self, old: Sequence[OperatorStateHandle], to: int
    ) -> Sequence[OperatorStateHandle | None]:
        """The operator state of each new subtask."""
        return RoundRobinOperatorStateRepartitioner().repartition_state(old, len(old), to)

    def owned(self, index: int, parallelism: int) -> KeyGroupRange:
        """The key groups of a new subtask."""
        return compute_key_group_range_for_operator_index(KEY_GROUPS, parallelism, index)

    def places(self, every: Mapping[int, int], owned: KeyGroupRange) -> dict[int, int]:
        """The places of a new subtask, chosen from those of all partitions."""
        return {part: at for part, at in every.items() if part in owned}

    def keyed_state(self, old: Sequence[KeptState], owned: KeyGroupRange) -> KeptState:
        """The values and timers of the key groups of a new subtask."""
        handles = [kept.keyed for kept in old if kept.keyed is not None]
        parts = [part for handle in handles if (part := handle.intersection(owned)) is not None]
        return KeptState(keyed=_joined(parts, owned), timers=self.timers(old, owned))

    def timers(self, old: Sequence[KeptState], owned: KeyGroupRange) -> TimersHandle | None:
        """The timers of the key groups of a new subtask."""
        services: dict[str, dict[int, KeyGroupTimers]] = {}
        handles = [kept.timers for kept in old if kept.timers is not None]
        for handle in handles:
            for name, groups in handle.services.items():
                mine = {group: timers for group, timers in groups.items() if group in owned}
                services.setdefault(name, {}).update(mine)
        return replace(handles[0], key_group_range=owned, services=services) if handles else None

    def _elements(self, handle: OperatorStateHandle | None) -> list[Json]:
        """The elements in flight of a new subtask, at the positions from 0 on."""
        if handle is None:
            return []
        told = {name: states.items for name, states in handle.states.items()}
        settings = [item for item in told.get(_SETTINGS, ()) if isinstance(item, tuple)]
        if any(_decode(count) != KEY_GROUPS for _, count in settings):
            raise ValueError("the state was written with another number of key groups, which never changes")
        in_flight = [_decode(item) for item in told.get(IN_FLIGHT, ()) if isinstance(item, bytes)]
        return [{**element, "pos": place} for place, element in enumerate(in_flight)]


def _placed(handle: OperatorStateHandle | None) -> dict[int, int]:
    places: dict[int, int] = {}
    for item in handle.states[_PLACES].items if handle and _PLACES in handle.states else ():
        assert isinstance(item, bytes), "a list holds single items"
        part, at = _decode(item)
        places[part] = max(at, places.get(part, 0))
    return places


def _joined(parts: Sequence[KeyedStateHandle], owned: KeyGroupRange) -> KeyedStateHandle | None:
    """One handle of the parts, whose key groups differ."""
    if not parts:
        return None
    states = {name: meta for part in parts for name, meta in part.states.items()}
    groups = {group: blocks for part in parts for group, blocks in part.key_groups.items()}
    return replace(parts[0], key_group_range=owned, states=states, key_groups=groups)


def first_number(plan: RunPlan, scenario: Scenario) -> int:
    """The number of the first subtask that no rescale has begun yet."""
    return max([scenario.workload.subtasks, *(number + 1 for number in plan.shares)])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSubtask:
    """A subtask of a run, as the plan and the scenario have it."""

    plan: RunPlan
    scenario: Scenario
    number: int

    @property
    def share(self) -> RescaledShare | None:
        """What the rescale that began it gave it; None: it was there from the beginning."""
        return self.plan.shares.get(self.number)

    def groups(self) -> KeyGroupRange:
        """The key groups that it owns; all of them if the run does not rescale."""
        if self.share is not None:
            return KeyGroupRange(start=self.share.groups[0], end=self.share.groups[1])
        if not self.scenario.rescales:
            return ALL_GROUPS
        subtasks = self.scenario.workload.subtasks
        return compute_key_group_range_for_operator_index(KEY_GROUPS, subtasks, self.number)

    def sources_before(self) -> list[SourceBefore]:
        """What the subtasks read that the rescale ended which began this one; for expected results of a `task`."""
        task, found = self.scenario.task, list[SourceBefore]()
        if self.share is None or task is None:
            return found
        for number, cut in self.share.cuts.items():
            other = PlannedSubtask(plan=self.plan, scenario=self.scenario, number=number)
            source = other.shared_source()
            inputs = Inputs(task, source, seed=self.plan.seed, subtask=number)
            before = other.sources_before()
            found.append(
                SourceBefore(source=source, inputs=inputs, first=source.inherited, cut=cut, before=before)
            )
        return found

    def stops_at(self) -> int | None:
        """The checkpoint at which it stops for the next rescale; None: it runs to its end."""
        generation, rescales = 0 if self.share is None else self.share.generation, self.scenario.rescales
        return None if generation >= len(rescales) else rescales[generation].at.checkpoint

    def shared_source(self) -> PartitionedSource:
        """Its source in a run that rescales."""
        share = self.share
        return PartitionedSource(
            workload=self.scenario.workload,
            seed=self.plan.seed,
            owns=self.groups(),
            group_of=lambda key: assign_to_key_group(key, KEY_GROUPS),
            begin_at={} if share is None else share.places,
            inherited=[] if share is None else _as_source(share.elements),
        )

    def source(self, faults: Iterable[Fault]) -> LookupSource:
        """Its source; the faults shape that of a run that does not rescale."""
        if self.scenario.rescales:
            return self.shared_source()
        plan, workload = self.plan, self.scenario.workload
        return LookupSource(
            workload=workload, seed=plan.seed, subtask=self.number, own=plan.own, faults=faults
        )


def _as_source(elements: Iterable[Json]) -> list[Element]:
    """Elements in flight as a source has them."""
    found: list[Element] = []
    for element in elements:
        match restored(element):
            case Record(value=lookup, timestamp=ts):
                found.append((lookup, ts))
            case Watermark(timestamp=timestamp):
                found.append(MarkOfTime(timestamp=timestamp))
            case _:
                pass
    return found
