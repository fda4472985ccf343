"""One attempt of a subtask: take over, restore, run to the end, in this process, at any level.

Answers to Flink's execution of a task after a restart. Invariant: what an attempt does depends on its plan
and on what the database holds, on nothing that another attempt kept in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from harness.clock import monotonic_us
from harness.database.epoch import Attempt, Fenced, SavedEpoch, SinkLost
from harness.database.pool import ConnectionPool
from harness.history.journal import Journal
from harness.history.recorder import Recorder, attempt_file
from harness.plan import RunPlan
from harness.process_identity import this_process
from harness.scenario import Operator, Scenario, Workload
from harness.sut.careless_clients import CARELESS_LOOKUPS
from harness.sut.dead_letter import DeadLetterFunction, is_dead_letter
from harness.sut.enrichment import JournalProbe, answer_timeouts, enrich
from harness.sut.inside.crash import InjectedFailure
from harness.sut.inside.inside_faults import InsideFaults
from harness.sut.mutants import build_timers, operator_builder
from harness.sut.phases import Phases
from harness.sut.positions import Replay, SubtaskSource, named, restored
from harness.sut.registry import SUTS, LookupFunction, load_lookup
from harness.sut.sink_choice import ChosenSink
from harness.workloads.lookups import Lookup, LookupSource, expected_results
from reference_impl.async_function import AsyncFunction
from reference_impl.coroutine_function import from_coroutine
from reference_impl.errors import OperatorError, StreamElementFailed
from reference_impl.loops import real_loop
from reference_impl.mailbox import Mailbox
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.mailbox_loop import MailboxLoop
from reference_impl.retry import FixedDelay, RetryStrategy, any_error
from reference_impl.task import Checkpoint, Source, StreamTask

__all__ = ["AttemptFailed", "run_attempt"]

_CONNECTIONS_MAX = 50
"""Of one subtask's pool; two subtasks stay below a server's usual limit of 151."""
_PRIORITY = 0
"""The operator's place in its chain; it is alone."""


class AttemptFailed(Exception):
    """The attempt reported its failure and is over; another may start."""


def run_attempt(plan: RunPlan, subtask: int) -> int:
    """Be the next attempt of `subtask`, to the end; its number. Raises `AttemptFailed`."""
    scenario = Scenario.model_validate(plan.scenario)
    chosen = ChosenSink(plan, scenario, subtask=subtask)
    lost: list[int | str] = []
    met: list[int | str] = []
    try:
        chosen.sink.listen(on_loss=lost.append, on_error=met.append)
        attempt = chosen.take_over(now_ms=monotonic_us() // 1000)
        path = attempt_file(Path(plan.folder), subtask=subtask, attempt=attempt.number)
        with Recorder(path) as recorder:
            journal = Journal(recorder, subtask=subtask, attempt=attempt.number)
            for code in lost:  # while it took over, which gave it the number that its journal needs
                journal.lost_connection("sink", code)
            for code in met:
                journal.server_error("sink", code)
            chosen.sink.listen(
                on_loss=partial(journal.lost_connection, "sink"),
                on_error=partial(journal.server_error, "sink"),
            )
            _live(plan, scenario, subtask, attempt, chosen=chosen, journal=journal)
    except (OperatorError, Fenced, SinkLost, InjectedFailure) as error:
        raise AttemptFailed(_in_words(error)) from error
    finally:
        chosen.sink.close()
    return attempt.number


def _live(
    plan: RunPlan,
    scenario: Scenario,
    subtask: int,
    attempt: Attempt,
    *,
    chosen: ChosenSink,
    journal: Journal,
) -> None:
    """From `start` to `close`, or to `failed`."""
    saved = attempt.saved
    journal.started(
        checkpoint=saved.epoch if saved else None,
        position=saved.position if saved else 0,
        process=this_process(),
    )
    for passed in attempt.passed_over:
        journal.passed_over(
            checkpoint=passed.epoch,
            file=passed.file,
            what=passed.what,
            restored=saved.epoch if saved else None,
        )
    try:
        with real_loop() as loop:
            inside = InsideFaults(
                plan,
                workload=scenario.workload,
                subtask=subtask,
                attempt=attempt.number,
                journal=journal,
                loop=loop,
                store=chosen.store,
            )
            chosen.sink.reach = inside.phases.reach
            inside.phases.reach("open")
            checkpoint = None if saved is None else _restored(saved, journal, inside.phases)
            task = _Task(
                plan, scenario, subtask, attempt, chosen=chosen, journal=journal, inside=inside, loop=loop
            )
            task.run(checkpoint)
    except Exception as error:
        record = error.record.value.id if isinstance(error, StreamElementFailed) else None
        with suppress(OSError):  # a full disk takes no last words; the error goes up all the same
            journal.failed(_in_words(error), id=record)
        raise
    journal.closed()


def _restored(saved: SavedEpoch, journal: Journal, phases: Phases) -> Checkpoint:
    phases.reach("restore.begin")
    journal.restored(checkpoint=saved.epoch, elements=[named(element) for element in saved.elements])
    elements = Replay([restored(element) for element in saved.elements], phases)
    return Checkpoint(number=saved.epoch, position=saved.position, elements=elements)


class _Task:
    """The task around the operator, with what it holds."""

    def __init__(
        self,
        plan: RunPlan,
        scenario: Scenario,
        subtask: int,
        attempt: Attempt,
        *,
        chosen: ChosenSink,
        journal: Journal,
        inside: InsideFaults,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._pool = ConnectionPool(
            plan.lookups,
            size=min(scenario.operator.capacity, _CONNECTIONS_MAX),
            seed=plan.seed,
            on_loss=partial(journal.lost_connection, "lookups"),
            on_error=partial(journal.server_error, "lookups"),
        )
        self._mailbox = Mailbox(loop=loop)
        executor = MailboxExecutor(self._mailbox, _PRIORITY)
        timers = build_timers(plan.mutant, loop, executor, inside.wall_clock)
        mailbox_loop = MailboxLoop(self._mailbox)
        coordination = chosen.coordination(
            journal=journal,
            phases=inside.phases,
            expect=_expectation(plan),
            timers=timers,
            restored=attempt.saved.epoch if attempt.saved else 0,
        )
        self._operator = operator_builder(plan.mutant, sut=plan.sut)(
            mode=scenario.operator.mode,
            capacity=scenario.operator.capacity,
            function=_function(plan, scenario.operator, self._pool, inside, loop),
            timeout_ms=scenario.operator.timeout,
            executor=executor,
            timers=timers,
            emit=coordination.emit,
            fail=mailbox_loop.report_error,
            probe=JournalProbe(journal, inside.phases),
            **_retry(scenario.operator),
        )
        self._task = StreamTask(
            loop=loop,
            mailbox_loop=mailbox_loop,
            timers=timers,
            operator=self._operator,
            source=_source(plan, scenario.workload, subtask, attempt, inside),
            coordinator=coordination,
        )

    def run(self, checkpoint: Checkpoint | None) -> None:
        """To the end of the input; whatever happens, what it holds is given up."""
        try:
            self._task.run(checkpoint)
        finally:
            self._operator.close()
            self._mailbox.close()
            self._pool.close()


def _source(
    plan: RunPlan, workload: Workload, subtask: int, attempt: Attempt, inside: InsideFaults
) -> Source:
    elements = LookupSource(workload=workload, seed=plan.seed, subtask=subtask, faults=inside.shaping)
    source = SubtaskSource(elements, checkpoint_every=workload.checkpoint_every, origin_ms=attempt.origin_ms)
    return inside.around_source(source, elements)


def _function(
    plan: RunPlan,
    settings: Operator,
    pool: ConnectionPool,
    inside: InsideFaults,
    loop: asyncio.AbstractEventLoop,
) -> AsyncFunction:
    """The lookup of the system under test, with the faults of its calls, and with what becomes of a failed one."""
    on_timeout = settings.on_timeout
    lookup = from_coroutine(
        enrich(_lookup(plan), pool),
        loop=loop,
        on_timeout="fail" if on_timeout == "fail" else answer_timeouts(on_timeout),
    )
    function = inside.around_calls(lookup)
    return DeadLetterFunction(function) if settings.on_error == "dead-letter" else function


def _lookup(plan: RunPlan) -> LookupFunction:
    """The lookup under test, careless if that is the planted defect."""
    lookup = load_lookup(plan.sut)
    careless = CARELESS_LOOKUPS.get(plan.mutant or "")
    return lookup if careless is None else careless(lookup)


def _retry(settings: Operator) -> _Retry:
    """How often a record is asked for, at most; a dead letter is a failure that came as a result."""
    if settings.tries == 1:
        return {}
    dead_letters = settings.on_error == "dead-letter"
    return {
        "retry": FixedDelay(
            max_retries=settings.tries - 1,
            delay_ms=max(1, settings.retry_delay),
            on_result=is_dead_letter if dead_letters else None,
            on_error=None if dead_letters else any_error,
        )
    }


class _Retry(TypedDict):
    """Given only where there is one: not every design knows it."""

    retry: NotRequired[RetryStrategy]


def _expectation(plan: RunPlan) -> Callable[[Lookup], list[Any]] | None:
    """What our own lookup answers; what a user's should, nobody knows."""
    answers = expected_results(plan.table)
    return (lambda lookup: answers.get(lookup.key, [])) if plan.sut in SUTS else None


def _in_words(error: BaseException) -> str:
    """The error and its cause, one line."""
    cause = error.__cause__
    return f"{type(error).__name__}: {error}" + (f" ({type(cause).__name__}: {cause})" if cause else "")
