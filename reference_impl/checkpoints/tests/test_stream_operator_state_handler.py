"""Claims about one operator's state: when it is given out, in what order it is kept, and what an error leaves."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointOptions,
)
from reference_impl.checkpoints.async_checkpoint import (
    FINISHED_ON_RESTORE,
    OperatorSnapshotFutures,
    OperatorSubtaskState,
    TaskStateSnapshot,
    TaskStateStore,
)
from reference_impl.checkpoints.state_handler import (
    StateInitializationContext,
    StateSnapshotContext,
    StreamOperatorStateHandler,
)
from reference_impl.checkpoints.tests.checkpoint_rig import NotingResponder
from reference_impl.state.operator_state import OperatorStateBackend
from reference_impl.state.snapshots import SnapshotFuture
from reference_impl.state.state_descriptor import ListStateDescriptor

NAMES = ListStateDescriptor(name="names")
CUT = CheckpointMetaData(checkpoint_id=5, timestamp=40)


class NotingBackend:
    """A backend, or timers, that notes when it is asked. Mutable."""

    def __init__(self, name: str, happened: list[str], *, error: Exception | None = None) -> None:
        self.name = name
        self.happened = happened
        self.future: SnapshotFuture[str] = SnapshotFuture.calling(lambda: name)
        self._error = error

    def snapshot(self, *_cut: object) -> SnapshotFuture[str]:
        self.happened.append(self.name)
        if self._error is not None:
            raise self._error
        return self.future

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.happened.append(f"{self.name} complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.happened.append(f"{self.name} aborted {checkpoint_id}")

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self.happened.append(f"{self.name} subsumed {checkpoint_id}")

    def dispose(self) -> None:
        self.happened.append(f"{self.name} disposed")

    def close(self) -> None:
        self.happened.append(f"{self.name} closed")


class NamesOperator:
    """An operator with a list state, kept as a plain list between checkpoints. Mutable."""

    def __init__(self, happened: list[str]) -> None:
        self.names: list[str] = []
        self.context: StateInitializationContext | None = None
        self.raw: list[Any] = []
        self.happened = happened

    def initialize_state(self, context: StateInitializationContext) -> None:
        self.happened.append("initialize")
        self.context = context
        self._state = context.operator_state_store.get_list_state(NAMES)
        if context.is_restored:
            self.names = self._state.get()

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        self.happened.append(f"user {context.checkpoint_id} of {context.checkpoint_timestamp}")
        self._state.update(self.names)
        context.raw_operator_state.extend(self.raw)


class UserPart:
    """An operator that only notes its own part."""

    def __init__(self, happened: list[str], *, error: Exception | None = None) -> None:
        self.happened = happened
        self._error = error

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        self.happened.append("user")
        if self._error is not None:
            raise self._error


def taken(handler: StreamOperatorStateHandler, operator: object) -> OperatorSnapshotFutures:
    """The futures of checkpoint 5."""
    return handler.snapshot_state(operator, CUT, CheckpointOptions())


def restored_from(state: OperatorSubtaskState | None, *, checkpoint_id: int | None) -> NamesOperator:
    """An operator that was started from it."""
    backend = OperatorStateBackend(operator="names")
    backend.restore(state.managed_operator_state if state else None)
    operator = NamesOperator([])
    StreamOperatorStateHandler(
        operator_id="names",
        restored_checkpoint_id=checkpoint_id,
        restored=state,
        operator_state_backend=backend,
    ).initialize_operator_state(operator)
    return operator


# ------------------------------------------------------------------------------------------------------ the order


def test_timers_then_the_user_then_the_operator_backend_then_the_keyed_one_c6() -> None:
    happened: list[str] = []
    handler = StreamOperatorStateHandler(
        operator_id="map",
        timer_services=NotingBackend("timers", happened),
        operator_state_backend=NotingBackend("operator state", happened),
        keyed_state_backend=NotingBackend("keyed state", happened),
    )

    futures = taken(handler, UserPart(happened))

    assert happened == ["timers", "user", "operator state", "keyed state"]
    assert futures.finalize() == OperatorSubtaskState(
        raw_keyed_state="timers", managed_operator_state="operator state", managed_keyed_state="keyed state"
    )


@pytest.mark.parametrize("where", ["user", "operator state", "keyed state"])
def test_an_error_cancels_what_was_begun_and_declines_naming_the_operator_c6(where: str) -> None:
    happened: list[str] = []
    error = ArithmeticError("overflow")

    def backend(name: str) -> NotingBackend:
        return NotingBackend(name, happened, error=error if name == where else None)

    timers = backend("timers")
    handler = StreamOperatorStateHandler(
        operator_id="map",
        timer_services=timers,
        operator_state_backend=backend("operator state"),
        keyed_state_backend=backend("keyed state"),
    )

    with pytest.raises(CheckpointException, match="'map' could not take its part in checkpoint 5") as raised:
        taken(handler, UserPart(happened, error=error if where == "user" else None))

    assert raised.value.reason is CheckpointFailureReason.CHECKPOINT_DECLINED
    assert raised.value.__cause__ is error
    assert timers.future.is_cancelled


def test_an_operator_without_a_part_of_its_own_is_not_asked_for_one_c6() -> None:
    happened: list[str] = []
    handler = StreamOperatorStateHandler(
        operator_id="map", keyed_state_backend=NotingBackend("keyed state", happened)
    )

    taken(handler, object())

    assert happened == ["keyed state"]


def test_an_operator_without_backends_has_no_state_c10() -> None:
    futures = taken(StreamOperatorStateHandler(operator_id="map"), object())

    assert not futures.finalize().has_state


def test_a_backend_without_states_has_no_state_c10_s18() -> None:
    handler = StreamOperatorStateHandler(
        operator_id="map", operator_state_backend=OperatorStateBackend(operator="map")
    )

    assert not taken(handler, object()).finalize().has_state


# -------------------------------------------------------------------------------------------------- the isolation


def test_writes_after_the_synchronous_part_are_not_in_the_snapshot_c7_s23() -> None:
    happened: list[str] = []
    operator, backend = NamesOperator(happened), OperatorStateBackend(operator="names")
    handler = StreamOperatorStateHandler(operator_id="names", operator_state_backend=backend)
    handler.initialize_operator_state(operator)
    operator.names, operator.raw = ["a"], [{"open": [1]}]

    futures = taken(handler, operator)
    operator.names.append("b")
    operator.raw[0]["open"].append(2)
    operator.snapshot_state(StateSnapshotContext(operator_id="names", checkpoint_id=6))
    again = restored_from(futures.finalize(), checkpoint_id=5)

    assert again.names == ["a"]
    assert again.context is not None
    assert again.context.raw_operator_state == ({"open": [1]},)


# ----------------------------------------------------------------------------------------------------- the restore


def test_a_restored_operator_finds_what_it_kept_c45() -> None:
    operator, backend = NamesOperator([]), OperatorStateBackend(operator="names")
    handler = StreamOperatorStateHandler(operator_id="names", operator_state_backend=backend)
    handler.initialize_operator_state(operator)
    operator.names = ["a", "b"]

    again = restored_from(taken(handler, operator).finalize(), checkpoint_id=5)

    assert again.names == ["a", "b"]


@pytest.mark.parametrize("checkpoint_id", [None, 5])
def test_is_restored_says_that_there_was_a_checkpoint_even_without_state_c45(
    checkpoint_id: int | None,
) -> None:
    operator = restored_from(None, checkpoint_id=checkpoint_id)

    assert operator.context is not None
    assert operator.context.is_restored == (checkpoint_id is not None)
    assert operator.context.restored_checkpoint_id == checkpoint_id
    assert operator.names == []


def test_checkpoint_0_is_a_checkpoint_too_c45() -> None:
    assert StateInitializationContext(operator_id="map", restored_checkpoint_id=0).is_restored


def test_state_that_nobody_asks_for_after_a_restore_survives_the_next_snapshot_c45_s9() -> None:
    operator, backend = NamesOperator([]), OperatorStateBackend(operator="names")
    handler = StreamOperatorStateHandler(operator_id="names", operator_state_backend=backend)
    handler.initialize_operator_state(operator)
    operator.names = ["a"]
    first = taken(handler, operator).finalize()
    deaf = OperatorStateBackend(operator="names")
    deaf.restore(first.managed_operator_state)

    second = taken(
        StreamOperatorStateHandler(operator_id="names", operator_state_backend=deaf), object()
    ).finalize()

    assert restored_from(second, checkpoint_id=6).names == ["a"]


def test_an_operator_that_wants_no_state_is_not_asked_at_its_start_c45() -> None:
    happened: list[str] = []

    StreamOperatorStateHandler(operator_id="map").initialize_operator_state(UserPart(happened))

    assert happened == []


def test_a_task_finds_the_state_of_each_operator_by_its_id_c45() -> None:
    mine = OperatorSubtaskState(managed_operator_state="mine")
    store = TaskStateStore(
        responder=NotingResponder([]),
        restored=TaskStateSnapshot(operator_states={"map": mine}),
        restored_checkpoint_id=3,
    )

    assert store.restored_state("map") is mine
    assert store.restored_state("new") is None


@pytest.mark.parametrize(
    ("restored", "is_finished"),
    [(None, False), (FINISHED_ON_RESTORE, True), (TaskStateSnapshot(is_task_finished=True), False)],
    ids=["nothing", "all had finished", "only some had"],
)
def test_a_task_is_not_run_again_if_all_of_its_operator_had_finished_c19(
    restored: TaskStateSnapshot | None,
    is_finished: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    store = TaskStateStore(responder=NotingResponder([]), restored=restored)

    assert store.is_task_deployed_as_finished is is_finished


# ----------------------------------------------------------------------------------------------- the notifications


def test_the_backends_hear_of_every_notification_c13() -> None:
    happened: list[str] = []
    handler = StreamOperatorStateHandler(
        operator_id="map",
        operator_state_backend=OperatorStateBackend(operator="map"),
        keyed_state_backend=NotingBackend("keyed", happened),
    )

    handler.notify_checkpoint_complete(1)
    handler.notify_checkpoint_aborted(2)
    handler.notify_checkpoint_subsumed(1)

    assert happened == ["keyed complete 1", "keyed aborted 2", "keyed subsumed 1"]


def test_a_closed_handler_lets_go_of_timers_and_states_t16() -> None:
    happened: list[str] = []
    handler = StreamOperatorStateHandler(
        operator_id="map",
        timer_services=NotingBackend("timers", happened),
        keyed_state_backend=NotingBackend("keyed", happened),
    )

    handler.close()

    assert happened == ["timers closed", "keyed disposed"]
