"""One attempt of a subtask: take over, restore, run to the end, in this process, at any level.

Answers to Flink's execution of a task after a restart. Invariant: what an attempt does depends on its plan
and on what the database holds, on nothing that another attempt kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from harness.clock import monotonic_us
from harness.database.epoch import Attempt, Fenced, SinkLost
from harness.database.pool import ConnectionPool
from harness.database.sink import EpochSink, SplitSink
from harness.history.journal import Journal
from harness.history.recorder import Recorder, attempt_file
from harness.plan import RunPlan
from harness.process_identity import this_process
from harness.scenario import Scenario
from harness.sut.coordination import Coordination
from harness.sut.crash import Crashes
from harness.sut.enrichment import JournalProbe, answer_timeouts, enrich
from harness.sut.mutants import MUTANTS, operator_builder
from harness.sut.positions import SubtaskSource, named, restored
from harness.sut.registry import SUTS, load_lookup
from harness.workloads.lookups import Lookup, LookupSource, expected_value
from reference_impl.coroutine_function import from_coroutine
from reference_impl.errors import OperatorError, StreamElementFailed
from reference_impl.loops import real_loop
from reference_impl.mailbox import Mailbox
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.mailbox_loop import MailboxLoop
from reference_impl.task import Checkpoint, StreamTask
from reference_impl.timers import Timers

__all__ = ["AttemptFailed", "run_attempt"]

_CONNECTIONS_MAX = 50
"""Of one subtask's pool; two subtasks stay below a server's usual limit of 151."""
_PRIORITY = 0
"""The operator's place in its chain; it is alone."""


class AttemptFailed(Exception):
    """The attempt reported its failure and is over; another may start."""


def run_attempt(plan: RunPlan, subtask: int) -> int:
    """Be the next attempt of `subtask`, to the end; its number. Raises `AttemptFailed`."""
    mutant = MUTANTS[plan.mutant] if plan.mutant else None
    sink_class = SplitSink if mutant and mutant.writes_at_once else EpochSink
    sink = sink_class(plan.sink, subtask=subtask)
    try:
        attempt = sink.take_over(now_ms=monotonic_us() // 1000)
        path = attempt_file(Path(plan.folder), subtask=subtask, attempt=attempt.number)
        with Recorder(path) as recorder:
            journal = Journal(recorder, subtask=subtask, attempt=attempt.number)
            sink.on_loss = partial(journal.lost_connection, "sink")
            _live(plan, subtask, attempt, sink=sink, journal=journal)
    except (OperatorError, Fenced, SinkLost) as error:
        raise AttemptFailed(_in_words(error)) from error
    finally:
        sink.close()
    return attempt.number


def _live(plan: RunPlan, subtask: int, attempt: Attempt, *, sink: EpochSink, journal: Journal) -> None:
    """From `start` to `close`, or to `failed`."""
    checkpoint = _saved_checkpoint(attempt)
    journal.started(
        checkpoint=checkpoint.number if checkpoint else None,
        position=checkpoint.position if checkpoint else 0,
        process=this_process(),
    )
    if attempt.saved is not None:
        names = [named(element) for element in attempt.saved.elements]
        journal.restored(checkpoint=attempt.saved.epoch, elements=names)
    try:
        _run_task(plan, subtask, attempt, checkpoint, sink=sink, journal=journal)
    except Exception as error:
        record = error.record.value.id if isinstance(error, StreamElementFailed) else None
        with suppress(OSError):  # a full disk takes no last words; the error goes up all the same
            journal.failed(_in_words(error), id=record)
        raise
    journal.closed()


def _saved_checkpoint(attempt: Attempt) -> Checkpoint | None:
    epoch = attempt.saved
    if epoch is None:
        return None
    elements = tuple(restored(element) for element in epoch.elements)
    return Checkpoint(number=epoch.epoch, position=epoch.position, elements=elements)


def _run_task(
    plan: RunPlan,
    subtask: int,
    attempt: Attempt,
    checkpoint: Checkpoint | None,
    *,
    sink: EpochSink,
    journal: Journal,
) -> None:
    """Build the task around the operator and run it to the end of its input."""
    scenario = Scenario.model_validate(plan.scenario)
    settings, workload = scenario.operator, scenario.workload
    crashes = Crashes(
        plan.crashes, subtask=subtask, attempt=attempt.number, folder=Path(plan.folder), journal=journal
    )
    coordination = Coordination(journal=journal, sink=sink, crashes=crashes, expect=_expectation(plan))
    elements = LookupSource(workload=workload, seed=plan.seed, subtask=subtask)
    source = SubtaskSource(elements, checkpoint_every=workload.checkpoint_every, origin_ms=attempt.origin_ms)
    pool = ConnectionPool(
        plan.lookups,
        size=min(settings.capacity, _CONNECTIONS_MAX),
        on_loss=partial(journal.lost_connection, "lookups"),
    )
    on_timeout = settings.on_timeout
    with real_loop() as loop:
        mailbox = Mailbox(loop=loop)
        executor = MailboxExecutor(mailbox, _PRIORITY)
        timers = Timers(loop, executor)
        mailbox_loop = MailboxLoop(mailbox)
        operator = operator_builder(plan.mutant, sut=plan.sut)(
            mode=settings.mode,
            capacity=settings.capacity,
            function=from_coroutine(
                enrich(load_lookup(plan.sut), pool),
                loop=loop,
                on_timeout="fail" if on_timeout == "fail" else answer_timeouts(on_timeout),
            ),
            timeout_ms=settings.timeout,
            executor=executor,
            timers=timers,
            emit=coordination.emit,
            fail=mailbox_loop.report_error,
            probe=JournalProbe(journal, crashes),
        )
        task = StreamTask(
            loop=loop,
            mailbox_loop=mailbox_loop,
            timers=timers,
            operator=operator,
            source=source,
            coordinator=coordination,
        )
        try:
            task.run(checkpoint)
        finally:
            operator.close()
            mailbox.close()
            pool.close()


def _expectation(plan: RunPlan) -> Callable[[Lookup], list[Any]] | None:
    """What our own lookup answers; what a user's should, nobody knows."""
    answers = {row[0]: [expected_value(row)] for row in plan.table}
    return (lambda lookup: answers[lookup.key]) if plan.sut in SUTS else None


def _in_words(error: BaseException) -> str:
    """The error and its cause, one line."""
    cause = error.__cause__
    return f"{type(error).__name__}: {error}" + (f" ({type(cause).__name__}: {cause})" if cause else "")
