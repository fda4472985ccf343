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
from harness.faults.kill_worker import InjectedFailure
from harness.history.journal import Journal
from harness.history.recorder import Recorder, attempt_file
from harness.plan import RunPlan
from harness.process_identity import this_process
from harness.scenario import Operator, Scenario, Workload
from harness.sut.dead_letter import is_dead_letter
from harness.sut.enrichment import JournalProbe
from harness.sut.function_under_test import FunctionUnderTest
from harness.sut.inside.inside_faults import InsideFaults
from harness.sut.keyed_task.defects import KEYED_DEFECTS
from harness.sut.keyed_task.keyed_task import KeyedTask, wired
from harness.sut.keyed_task.parts import HONEST_PARTS
from harness.sut.mutants import build_timers, operator_builder
from harness.sut.phases import Phases
from harness.sut.positions import Replay, SubtaskSource, named, restored
from harness.sut.registry import SUTS
from harness.sut.sink_choice import ChosenSink
from harness.workloads.inputs import Inputs
from harness.workloads.lookups import Lookup, LookupSource, expected_results
from harness.workloads.sessions import expect_stamped, session_stamps
from reference_impl.errors import OperatorError, StreamElementFailed
from reference_impl.loops import real_loop
from reference_impl.mailbox import Mailbox
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.mailbox_processor import MailboxProcessor
from reference_impl.retry import FixedDelay, RetryStrategy, any_error
from reference_impl.source_task import Checkpoint, Source, SourceTask

__all__ = ["AttemptFailed", "run_attempt"]

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
    journal.restored(checkpoint=saved.epoch, elements=named(saved.elements))
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
        self._under_test = FunctionUnderTest(
            plan, scenario.operator, journal=journal, inside=inside, loop=loop
        )
        self._mailbox = Mailbox(loop=loop)
        executor = MailboxExecutor(self._mailbox, _PRIORITY)
        timers = build_timers(plan.mutant, loop, executor, inside.wall_clock)
        mailbox_processor = MailboxProcessor(self._mailbox)
        elements = LookupSource(
            workload=scenario.workload, seed=plan.seed, subtask=subtask, faults=inside.shaping
        )
        keyed = _keyed(plan, scenario, elements, subtask)
        coordination = chosen.coordination(
            journal=journal,
            phases=inside.phases,
            expect=_expectation(plan, elements, keyed),
            timers=timers,
            restored=attempt.saved.epoch if attempt.saved else 0,
        )
        lookups = partial(
            operator_builder(plan.mutant, sut=plan.sut),
            mode=scenario.operator.mode,
            capacity=scenario.operator.capacity,
            function=self._under_test.function,
            timeout_ms=scenario.operator.timeout,
            probe=JournalProbe(journal, inside.phases),
            **_retry(scenario.operator),
        )
        parts = wired(
            keyed,
            lookups=lookups,
            source=_source(scenario.workload, elements, attempt, inside),
            coordination=coordination,
            phases=inside.phases,
            mailbox=self._mailbox,
            executor=executor,
            timers=timers,
            timers_of=lambda of: build_timers(plan.mutant, loop, of, inside.wall_clock),
            fail=mailbox_processor.report_throwable,
        )
        self._operator = parts.operator
        self._task = SourceTask(
            loop=loop,
            mailbox_processor=mailbox_processor,
            timers=timers,
            operator=parts.operator,
            source=parts.source,
            coordinator=parts.coordinator,
        )

    def run(self, checkpoint: Checkpoint | None) -> None:
        """To the end of the input; whatever happens, what it holds is given up."""
        try:
            with self._under_test.watch.watching():
                self._task.run(checkpoint)
        finally:
            self._operator.close()
            self._mailbox.close()
            self._under_test.close()


def _keyed(plan: RunPlan, scenario: Scenario, elements: LookupSource, subtask: int) -> KeyedTask | None:
    """What the scenario's `task:` puts in front of the lookups."""
    task = scenario.task
    if task is None:
        return None
    inputs = Inputs(task, elements, seed=plan.seed, subtask=subtask)
    parts = KEYED_DEFECTS.get(plan.mutant or "", HONEST_PARTS)
    return KeyedTask(inputs=inputs, gap_ms=task.gap, parts=parts)


def _source(workload: Workload, elements: LookupSource, attempt: Attempt, inside: InsideFaults) -> Source:
    source = SubtaskSource(elements, checkpoint_every=workload.checkpoint_every, origin_ms=attempt.origin_ms)
    return inside.around_source(source, elements)


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


def _expectation(
    plan: RunPlan, elements: LookupSource, keyed: KeyedTask | None
) -> Callable[[Lookup], list[Any]] | None:
    """What our own lookup answers, stamped if something stamps; what a user's should, nobody knows."""
    if plan.sut not in SUTS:
        return None
    table = expected_results(plan.table)

    def answers(lookup: Lookup) -> list[Any]:
        return table.get(lookup.key, [])

    if keyed is None:
        return answers
    return expect_stamped(answers, session_stamps(elements, keyed.inputs, gap_ms=keyed.gap_ms))


def _in_words(error: BaseException) -> str:
    """The error and its cause, one line."""
    cause = error.__cause__
    return f"{type(error).__name__}: {error}" + (f" ({type(cause).__name__}: {cause})" if cause else "")
