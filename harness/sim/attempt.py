"""One attempt of a subtask at level sim: take over, restore, run to the end, in an actor of its own.

The counterpart of `harness.sut.attempt`, around the same operator, task and coordination. Invariant: what an
attempt does depends on its job and on what the database holds; once it is killed nothing of it is written or sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from harness.choices import Choices
from harness.database.backoff import Backoff
from harness.database.circuit import Circuit
from harness.database.epoch import Attempt as TakenOver
from harness.database.epoch import SavedEpoch
from harness.engine.subtask import Subtask
from harness.sim.buffer_journal import BufferJournal
from harness.sim.client import Client
from harness.sim.hub import Actor
from harness.sim.link import LoopAlarm
from harness.sim.subtask_loop import SubtaskLoop
from harness.sut.coordination import Coordination, JournalledSubtask
from harness.sut.enrichment import JournalProbe
from harness.sut.keyed_task.keyed_task import KeyedTask
from harness.sut.positions import Replay, named, restored
from reference_impl.async_function import AsyncFunction
from reference_impl.async_wait_build import Mode
from reference_impl.elements import OperatorInput
from reference_impl.errors import StreamElementFailed
from reference_impl.mailbox import Mailbox
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.queues.availability import Availability
from reference_impl.retry import NO_RETRY, RetryStrategy
from reference_impl.task.async_link import AsyncOperator
from reference_impl.task.positioned_input import Checkpoint, Source
from reference_impl.timers import Timers

if TYPE_CHECKING:
    from harness.sim.crashes import Crashes
    from harness.sim.simulation import Simulation

__all__ = ["Attempt", "Job"]

_MS_PER_S = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the attempts of a run do; functions of the attempt make what each has of its own."""

    mode: Mode
    capacity: int
    timeout_ms: int
    subtasks: int
    source: Callable[[int, int], Source]
    """Of a subtask, due since an instant (ms)."""
    sink: type[Any]
    """Built as `sink(attempt)`; `take_over()`, `add`, `commit`, `close`."""
    function: Callable[[Attempt], AsyncFunction]
    expect: Callable[[Any], Sequence[Any]] | None
    retry: RetryStrategy = NO_RETRY
    nonces: bool = False
    connections: int = 50
    breaks_circuit: bool = False
    """Whether connects that fail in a row are followed by none for a while."""
    is_hard: bool = False
    """Whether elements enter though the queue is full, and wait inside the operator."""
    coordination: type[JournalledSubtask] = Coordination
    copy_value: Callable[[Any], Any] | None = None
    saved_elements: Callable[[SavedEpoch], tuple[Any, ...]] = lambda saved: tuple(
        restored(element) for element in saved.elements
    )
    """What a snapshot holds, as elements."""
    downstream: Callable[[Attempt], Callable[[], Availability]] | None = None
    """Whether who gets what is emitted has room; None: always."""
    linger_ms: int = 0
    """How long an attempt that has closed lives on, so that late answers find it."""
    keyed: Callable[[int], KeyedTask] | None = None
    """What stands in front of a subtask's lookups; None: nothing."""


class _Downstream(TypedDict):
    """Given only where there is one: not every design can do without room."""

    downstream: NotRequired[Callable[[], Availability]]


class Attempt:
    """Mutable: has its parts from `live` on."""

    def __init__(self, run: Simulation, job: Job, subtask: int, crashes: Crashes) -> None:
        self.run = run
        self.job = job
        self.subtask = subtask
        self.crashes = crashes
        self.number = 0
        """Given by `take_over`; 0: it has not got so far."""
        self.actor: Actor
        self.sink: Any = None
        self.journal: BufferJournal | None = None
        self.loop: SubtaskLoop | None = None
        self.mailbox: Mailbox
        self.executor: MailboxExecutor
        self.client: Client
        self.task: Subtask
        self.coordination: Any = None
        self.ended = False
        """Whether all its input has been emitted and committed."""

    # ------------------------------------------------------------------------------------------- waiting

    def wait(self) -> None:
        """Block until somebody wakes the attempt."""
        self.actor.wait(None)
        self._catch_up()

    def sleep_until(self, instant_ms: int) -> None:
        """Block until then."""
        self.actor.sleep_until(instant_ms)
        self._catch_up()

    def _catch_up(self) -> None:
        if self.loop is not None:
            self.loop.catch_up()

    # ---------------------------------------------------------------------------------------------- life

    def live(self, actor: Actor) -> None:
        """All of it; what it raises is the attempt's failure."""
        self.actor = actor
        self.sink = self.run.variant.sink(self.job.sink)(self)
        try:
            self._go(self.sink.take_over())
        finally:
            if actor.killed and self.journal is not None:
                self.journal.cut()
            self.sink.close()

    def _go(self, taken: TakenOver) -> None:
        run, saved = self.run, taken.saved
        self.number = taken.number
        journal = run.variant.journal(BufferJournal)(
            run.tape, subtask=self.subtask, attempt=taken.number, nonces=self.job.nonces
        )
        self.journal = journal
        self.crashes.begins(self)
        journal.started(checkpoint=saved.epoch if saved else None, position=saved.position if saved else 0)
        run.started(self)
        self.crashes.reach("open")
        checkpoint = None
        if saved is not None:
            self.crashes.reach("restore.begin")
            elements = Replay(self.job.saved_elements(saved), self.crashes)
            journal.restored(checkpoint=saved.epoch, elements=named(saved.elements))
            checkpoint = Checkpoint(number=saved.epoch, position=saved.position, elements=elements)
        self._build(journal, taken.origin_ms)
        try:
            self.task.run(checkpoint)
            self.ended = True
        except Exception as error:
            record = error.record.value.id if isinstance(error, StreamElementFailed) else None
            journal.failed(_in_words(error), id=record)
            raise
        finally:
            self._leave(journal)

    def _build(self, journal: BufferJournal, origin_ms: int) -> None:
        """The task around the operator."""
        variant = self.run.variant
        loop = self.loop = SubtaskLoop(self.actor, journal)
        self.mailbox = variant.build_mailbox(loop=loop)
        self.client = self._build_client(loop)
        self.coordination = variant.coordination(self.job.coordination)(
            journal=journal, sink=self.sink, phases=self.crashes, expect=self.job.expect
        )
        keyed = None if self.job.keyed is None else self.job.keyed(self.subtask)
        self.task = variant.task(Subtask)(
            loop=loop,
            mailbox=self.mailbox,
            timers=lambda executor: variant.timers(loop, executor),
            source=variant.source(self.job.source(self.subtask, origin_ms)),
            lookups=self._build_operator,
            coordination=self.coordination,
            head=None if keyed is None else keyed.head(self.coordination, phases=self.crashes),
            is_hard=self.job.is_hard,
        )

    def _leave(self, journal: BufferJournal) -> None:
        """Killed: at once and without a word. Else close, and linger, as a process does that has more to do."""
        assert self.loop is not None, "an attempt leaves what it has built"
        try:
            if self.actor.killed:
                journal.cut()
                self.client.close()
            self.task.close()
            if not self.actor.killed:
                journal.closed()
                linger_ms = max(self.job.linger_ms, self.run.variant.linger_ms)
                if linger_ms:
                    self.loop.turn_until(self.run.hub.now_ms + linger_ms)
        finally:
            if self.actor.killed:
                journal.cut()
            self.client.close()
            self.loop.wind_up()

    def _build_client(self, loop: SubtaskLoop) -> Client:
        run, job = self.run, self.job
        client: Client = run.variant.client(Client)(
            run.direct if run.variant.bypasses_proxy else run.links["lookups"],
            run.database,
            alarm=LoopAlarm(loop),
            size=min(job.capacity, job.connections),
            circuit=_circuit(loop, self.subtask) if job.breaks_circuit else None,
        )
        return client

    def _build_operator(
        self,
        *,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Callable[[OperatorInput], None],
        fail: Callable[[BaseException], None],
    ) -> AsyncOperator:
        """The operator that calls, in its place of the chain."""
        job, variant = self.job, self.run.variant
        assert self.journal is not None, "an attempt has its journal before its operator"
        self.executor = executor
        more: _Downstream = {} if job.downstream is None else {"downstream": job.downstream(self)}
        return variant.build_operator(
            mode=job.mode,
            capacity=job.capacity,
            function=variant.function(job.function(self), self),
            timeout_ms=job.timeout_ms,
            executor=executor,
            timers=timers,
            emit=emit,
            fail=fail,
            probe=JournalProbe(self.journal, self.crashes),
            retry=job.retry,
            copy_value=job.copy_value,
            **more,
        )


def _circuit(loop: SubtaskLoop, subtask: int) -> Circuit:
    backoff = Backoff(Choices(subtask, "circuit of the lookups' pool"))
    return Circuit(now_s=lambda: loop.now_ms() / _MS_PER_S, backoff=backoff)


def _in_words(error: BaseException) -> str:
    """The error and its cause, one line."""
    cause = error.__cause__
    return f"{type(error).__name__}: {error}" + (f" ({type(cause).__name__}: {cause})" if cause else "")
