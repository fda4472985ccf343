"""The bench on which the task's tests stand: an input with a script, operators that note all they hear.

Answers to Flink's `StreamTaskMailboxTestHarness`. Invariant: one log holds everything that happens, in its order;
time is virtual, so a task that waits for what never comes raises `SimulationStuck` instead of hanging.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from reference_impl.checkpoint_events import (
    CheckpointBarrier,
    CheckpointException,
    CheckpointMetaData,
    CheckpointOptions,
    SnapshotType,
    StopMode,
)
from reference_impl.elements import OperatorInput
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.loops import real_loop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers
from reference_impl.task.input_processor import (
    StreamInputProcessor,
    StreamOneInputProcessor,
    StreamTaskNetworkOutput,
)
from reference_impl.task.operator_chain import OperatorChain, OperatorLink, TaskEnvironment
from reference_impl.task.stream_task import StreamTask
from reference_impl.tests.rig import shown

END = (DataInputStatus.END_OF_DATA, DataInputStatus.END_OF_INPUT)


def cut(checkpoint_id: int) -> tuple[CheckpointMetaData, CheckpointOptions]:
    """What triggers an ordinary checkpoint."""
    return CheckpointMetaData(checkpoint_id=checkpoint_id), CheckpointOptions()


def savepoint(checkpoint_id: int, *, drains: bool) -> tuple[CheckpointMetaData, CheckpointOptions]:
    """What triggers a savepoint that ends the task."""
    kind = SnapshotType.SAVEPOINT_TERMINATE if drains else SnapshotType.SAVEPOINT_SUSPEND
    return CheckpointMetaData(checkpoint_id=checkpoint_id), CheckpointOptions(snapshot_type=kind)


class HandInput:
    """An input that gives the elements, and says the words, of a script. Mutable."""

    def __init__(self, *script: OperatorInput | DataInputStatus) -> None:
        self._script: deque[OperatorInput | DataInputStatus] = deque(script)
        self.is_available = AVAILABLE

    def emit_next(self, output: StreamTaskNetworkOutput) -> DataInputStatus:
        """One step of the script; behind its end there is nothing, for the time being."""
        thing = self._script.popleft() if self._script else DataInputStatus.NOTHING_AVAILABLE
        if not isinstance(thing, DataInputStatus):
            output.emit(thing)
            return DataInputStatus.MORE_AVAILABLE
        if thing is DataInputStatus.NOTHING_AVAILABLE:
            self.is_available = Availability()
        return thing

    def arrive(self, *things: OperatorInput | DataInputStatus) -> None:
        """The script goes on."""
        self._script.extend(things)
        if not self.is_available:
            waiting, self.is_available = self.is_available, AVAILABLE
            waiting.end()


class HandSource(HandInput):
    """A source that can be told to end."""

    def stop(self, mode: StopMode) -> None:
        """Forget what was still to come."""
        word = DataInputStatus.END_OF_DATA if mode is StopMode.DRAIN else DataInputStatus.STOPPED
        self._script.clear()
        self.arrive(word, DataInputStatus.END_OF_INPUT)


class HandOperator:
    """Passes everything on, and notes each call; `on` says what else a call does, by its name."""

    emits_on_final_checkpoint = False

    def __init__(
        self,
        name: str,
        log: list[Any],
        *,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Callable[[OperatorInput], None],
        **_: Any,
    ) -> None:
        self.name = name
        self.log = log
        self.executor = executor
        self.timers = timers
        self.emit = emit
        self.on: dict[str, Callable[[], None]] = {}

    def _note(self, what: str) -> None:
        self.log.append(f"{self.name} {what}")
        self.on.get(what, lambda: None)()

    def process(self, element: OperatorInput) -> None:
        self._note(f"takes {shown(element)}")
        self.emit(element)

    def open(self) -> None:
        self._note("opens")

    def end_input(self) -> None:
        self._note("ends")

    def finish(self) -> None:
        self._note("finishes")

    def close(self) -> None:
        self._note("closes")

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        self._note(f"prepares {checkpoint_id}")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._note(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._note(f"aborted {checkpoint_id}")

    def put(self, what: str, *, deferrable: bool = False) -> None:
        """Send oneself mail."""
        executor = self.executor.deferring() if deferrable else self.executor
        executor.execute(lambda: self._note(what), what)


class HandWriter:
    """Notes what leaves; has room while a test lets it."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.is_available = AVAILABLE
        self.all_data_processed = AVAILABLE
        self.flushes = 0

    def emit(self, element: OperatorInput) -> None:
        self.log.append(shown(element))

    def broadcast_event(self, event: Any, *, is_priority: bool = False) -> None:
        self.log.append(f"barrier {event.checkpoint_id}" if isinstance(event, CheckpointBarrier) else event)

    def flush(self) -> None:
        self.flushes += 1


class HandCheckpoints:
    """Cuts at once, and tells the operators without more ado."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.error: Exception | None = None
        """What the next cut raises."""

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None: ...

    def checkpoint_state(
        self, metadata: CheckpointMetaData, options: Any, metrics: Any, *, operator_chain: Any, **_: Any
    ) -> None:
        if self.error is not None:
            raise self.error
        operator_chain.prepare_snapshot_pre_barrier(metadata.checkpoint_id)
        operator_chain.broadcast_event(CheckpointBarrier(checkpoint_id=metadata.checkpoint_id))

    def notify_checkpoint_complete(
        self, checkpoint_id: int, *, operator_chain: OperatorChain, **_: Any
    ) -> None:
        operator_chain.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(
        self, checkpoint_id: int, *, operator_chain: OperatorChain, **_: Any
    ) -> None:
        operator_chain.notify_checkpoint_aborted(checkpoint_id)

    def notify_checkpoint_subsumed(
        self, checkpoint_id: int, *, operator_chain: OperatorChain, **_: Any
    ) -> None:
        operator_chain.notify_checkpoint_subsumed(checkpoint_id)

    def abort_checkpoint_on_barrier(
        self, checkpoint_id: int, cause: CheckpointException, *, operator_chain: OperatorChain
    ) -> None:
        operator_chain.notify_checkpoint_aborted(checkpoint_id)

    def wait_for_pending_checkpoints(self) -> None:
        self.log.append("waits for pending checkpoints")

    def cancel(self) -> None:
        self.log.append("cancels checkpoints")

    def close(self) -> None:
        self.log.append("closes checkpoints")


class TaskRig:
    """A task of `HandOperator`s in virtual time."""

    def __init__(
        self,
        loop: Any,
        task_input: HandInput,
        *,
        names: Sequence[str] = ("head", "tail"),
        checkpoints: bool = False,
        batches: bool = False,
        processor: StreamInputProcessor | None = None,
        chain: type[OperatorChain] = OperatorChain,
        task: type[StreamTask] = StreamTask,
        **environment: Any,
    ) -> None:
        self.loop = loop
        self.log: list[Any] = []
        self.input = task_input
        self.mailbox = Mailbox(loop=loop)
        self.mailbox_processor = MailboxProcessor(self.mailbox)
        self.writer = HandWriter(self.log)
        self.checkpoints = HandCheckpoints(self.log)
        self.declined: list[tuple[int, str]] = []
        self.chain = chain(
            [OperatorLink(operator_id=name, build=partial(HandOperator, name, self.log)) for name in names],
            mailbox=self.mailbox,
            timers=partial(Timers, loop),
            record_writer=self.writer,
            fail=self.mailbox_processor.report_throwable,
        )
        self.operators: dict[str, HandOperator] = dict(
            zip(names, self.chain.operators, strict=True)  # type: ignore[arg-type]  # all of them are
        )
        self.task = task(
            loop=loop,
            mailbox_processor=self.mailbox_processor,
            operator_chain=self.chain,
            input_processor=processor
            or StreamOneInputProcessor(
                task_input,
                operator_chain=self.chain,
                can_emit_batch_of_records=self._can_emit_batch if batches else None,
            ),
            record_writer=self.writer,
            environment=TaskEnvironment(
                task_name="task", decline_checkpoint=self._note_declined, **environment
            ),
            checkpoints=self.checkpoints if checkpoints else None,
        )

    def _can_emit_batch(self) -> bool:
        return self.task.can_emit_batch_of_records()

    def _note_declined(self, checkpoint_id: int, error: CheckpointException) -> None:
        self.declined.append((checkpoint_id, error.reason.name))

    def at(self, instant_ms: int, action: Callable[[], object]) -> None:
        """Do it then, in a callback of the loop, as the world outside would."""
        self.loop.call_at_ms(instant_ms, action)

    def run_mail(self) -> None:
        """All mail there is, of whatever priority."""
        executor = self.mailbox_processor.main_mailbox_executor
        while executor.try_yield():
            pass


def heard(rig: TaskRig) -> list[Any]:
    """What the operator heard of checkpoints."""
    return [entry for entry in rig.log if str(entry).startswith(("op complete", "op aborted"))]


@contextmanager
def open_task(
    *script: OperatorInput | DataInputStatus, real: bool = False, **settings: Any
) -> Iterator[TaskRig]:
    """A rig with that script as its input; on a real loop, if another thread takes part."""
    with real_loop() if real else virtual_loop() as loop:
        yield TaskRig(loop, HandInput(*script), **settings)
