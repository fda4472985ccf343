"""One attempt of a subtask: take over from the previous attempt, restore, run to the end; the same at every level.

Answers to Flink's execution of a task after a restart. Invariant: an attempt depends only on its parts and on what the
database and the checkpoint store hold, not on anything that another attempt kept in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Protocol

from harness.database.checkpoint_store import CheckpointStore, StoreLost
from harness.database.driver import AsyncDriver, Driver
from harness.database.epoch import Fenced, SavedEpoch, SinkLost, Takeover
from harness.database.store_files import Files
from harness.engine.subtask import Subtask
from harness.faults.kill_worker import InjectedFailure
from harness.history.event import Restore
from harness.history.journal import Journal
from harness.history.notes import LostConnection, Refused, RestoreFallback, ServerError, Stopped
from harness.scenario.model import Fault, Operator, Scenario
from harness.scenario.plan import RunPlan
from harness.scenario.workloads.lookups import (
    Inputs,
    Lookup,
    LookupSource,
    changing_keys,
    expected_results,
)
from harness.scenario.workloads.partitions import PartitionedSource
from harness.scenario.workloads.sessions import expect_stamped, session_stamps
from harness.sut.coordination import AtomicCoordination, AttemptLog, StoppedForRescale
from harness.sut.function_under_test import Client, FunctionUnderTest, JournalProbe, is_dead_letter
from harness.sut.inside_faults import BegunAttempt, with_planned_failures
from harness.sut.keyed_head import KeyedHead, KeyedTask
from harness.sut.lookup_object import LookupFailed
from harness.sut.neighbours import JoinedTask, UpstreamOperator, telling_end
from harness.sut.phases import Phases
from harness.sut.positions import Replay, SubtaskSource, named, restored
from harness.sut.registry import SUTS
from harness.sut.rescaling import PlannedSubtask
from harness.sut.sink_choice import ChosenSink, Later, PreparedCoordination
from harness.sut.user_code import is_interruption
from harness.sut.user_lookup import failure_of_lookup, failure_of_task
from harness.sut.variant import HONEST, Variant, operator_builder
from harness.system.clock import Clock
from harness.system.errors import SutError
from harness.system.json_types import Json
from harness.system.process_identity import ProcessIdentity
from reference_impl.errors import OperatorError, StreamElementFailed
from reference_impl.mailbox.availability import AVAILABLE, Availability
from reference_impl.mailbox.mailbox import MAX_PRIORITY, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.retry import ExponentialBackoff, FixedDelay, RetryStrategy
from reference_impl.task.input_processor import Checkpoint, Reader, Source
from reference_impl.task.operator_chain import BuildAsyncOperator


class AttemptFailed(Exception):
    """The attempt has recorded its failure and ended; another one may start."""


class Inside(Protocol):
    """The faults that act inside an attempt."""

    @property
    def phases(self) -> Phases:
        """Called at each phase that the attempt reaches."""

    @property
    def shaping(self) -> Iterable[Fault]:
        """The faults that change what the source sends."""

    def wall_ns(self) -> int:
        """The attempt's wall clock in ns, which faults may shift."""

    def around_source(self, source: SubtaskSource, elements: LookupSource) -> Source:
        """`source`, wrapped so that faults can wait for its records."""

    def around_calls(self, function: AsyncFunction) -> AsyncFunction:
        """`function`, wrapped so that faults can act on its calls."""


class AttemptPlace(Protocol):
    """Everything in which levels differ: clock, process, connections, files, journal, event loop."""

    @property
    def clock(self) -> Clock:
        """The clock of the blocking parts (sink, checkpoint store)."""

    @property
    def process(self) -> ProcessIdentity:
        """The process that runs the attempt."""

    @property
    def sink(self) -> Driver:
        """The driver that connects the sink."""

    @property
    def files(self) -> Files:
        """The files of the checkpoint store."""

    def journal(self, attempt: int) -> AbstractContextManager[Journal]:
        """The journal of attempt `attempt`, open while the block lasts."""

    def loop(self) -> AbstractContextManager[asyncio.AbstractEventLoop]:
        """The event loop of the task's thread, closed when the block ends."""

    def lookups(self, loop: asyncio.AbstractEventLoop) -> AsyncDriver:
        """The driver that connects the lookups' pool."""

    def client(self, name: str) -> Client:
        """A faulty client (`operator.client`) in place of the pool."""

    def inside(self, begun: BegunAttempt) -> Inside:
        """The inside faults of this attempt."""

    def watching(
        self, loop: asyncio.AbstractEventLoop, journal: Journal, lookup: object
    ) -> AbstractContextManager[None]:
        """Records, while the block lasts, when `lookup` blocks the loop."""

    def cause_of(self, error: BaseException) -> str | None:
        """The cause of a failure, as `harness.history.event` names it; None: not known."""

    def elements(self, subtask: int, shaping: Iterable[Fault]) -> LookupSource:
        """The elements of the source of `subtask`."""

    def run_loop_after_close(self, loop: asyncio.AbstractEventLoop, ms: int) -> None:
        """Runs the loop for `ms`."""


class CommitPhases(Protocol):
    """A sink, as an attempt sees it; `reach` is called at each phase of a commit."""

    reach: Callable[[str], None]


class Committing(Protocol):
    """The sink of one attempt, with its checkpoint store and its coordination; `ChosenSink` is the usual one."""

    @property
    def sink(self) -> CommitPhases:
        """Where rows go."""

    @property
    def store(self) -> CheckpointStore:
        """The checkpoint store."""

    def coordination(
        self, log: AttemptLog, *, timers: Later, restored: int
    ) -> AtomicCoordination | PreparedCoordination:
        """The coordination for this sink."""


class Share(Protocol):
    """What is different for an attempt that runs a range of its source only, and whose caller commits."""

    @property
    def task(self) -> type[Subtask]:
        """The class of its task."""

    def source(self, elements: LookupSource, *, origin_ms: int) -> SubtaskSource:
        """Its part of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptParts:
    """The inputs of one attempt."""

    plan: RunPlan
    scenario: Scenario
    subtask: int
    place: AttemptPlace
    variant: Variant = HONEST
    share: Share | None = None
    """None: the attempt runs to the end of its source and commits itself."""


def run_attempt(parts: AttemptParts) -> int:
    """Runs the subtask's next attempt to its end and returns its number.

    Raises `AttemptFailed`, or SutError if the function under test breaks a rule.
    """
    place = parts.place
    chosen = ChosenSink(
        parts.scenario,
        plan=parts.plan,
        subtask=parts.subtask,
        driver=place.sink,
        files=place.files,
        clock=place.clock,
        variant=parts.variant,
    )
    lost: list[int | str] = []
    met: list[int | str] = []
    try:
        chosen.sink.listen(on_loss=lost.append, on_error=met.append)
        attempt = _taken_over(chosen, place)
        with place.journal(attempt.number) as journal:

            def on_loss(code: int | str) -> None:
                journal.note(LostConnection(link="sink", code=code))

            def on_error(code: int | str) -> None:
                journal.note(ServerError(link="sink", code=code))

            for code in lost:  # from the take-over, when the journal was not open yet
                on_loss(code)
            for code in met:
                on_error(code)
            chosen.sink.listen(on_loss=on_loss, on_error=on_error)
            _Attempt(parts, attempt, chosen=chosen, journal=journal).live()
    except _FAILURES as error:
        raise _told(error) from error
    finally:
        chosen.sink.close()
    return attempt.number


def run_share(parts: AttemptParts, attempt: Takeover, *, chosen: Committing) -> None:
    """Runs the attempt that the caller has begun, on its share of the source; `chosen` gets what the caller commits.

    Raises as `run_attempt`.
    """
    try:
        with parts.place.journal(attempt.number) as journal:
            _Attempt(parts, attempt, chosen=chosen, journal=journal).live()
    except _FAILURES as error:
        raise _told(error) from error


_FAILURES = (OperatorError, Fenced, SinkLost, InjectedFailure, SystemExit, KeyboardInterrupt)


def _told(error: BaseException) -> BaseException:
    """What an attempt that ended with `error` raises."""
    if is_interruption(error):
        return error
    if isinstance(error.__cause__, SutError):
        return error.__cause__
    return AttemptFailed(_in_words(error))


def _taken_over(chosen: ChosenSink, place: AttemptPlace) -> Takeover:
    """Takes over the subtask; records the attempt also if its checkpoint cannot be restored. Raises `SinkLost`."""
    try:
        return chosen.take_over(now_ms=place.clock.now_us() // 1000)
    except StoreLost as error:
        with place.journal(chosen.sink.token) as journal:
            journal.started(checkpoint=None, position=0, process=place.process)
            journal.failed(_in_words(error), id=None, by=place.cause_of(error))
        raise


class _Attempt:
    """One attempt from its `start` event to `ended` or `failed`."""

    def __init__(
        self, parts: AttemptParts, attempt: Takeover, *, chosen: Committing, journal: Journal
    ) -> None:
        self._parts = parts
        self._attempt = attempt
        self._chosen = chosen
        self._journal = journal

    def live(self) -> None:
        saved, journal, place = self._attempt.saved, self._journal, self._parts.place
        journal.started(
            checkpoint=saved.epoch if saved else None,
            position=saved.position if saved else 0,
            process=place.process,
        )
        for passed in self._attempt.passed_over:
            restored = saved.epoch if saved else None
            journal.note(RestoreFallback(what=passed.what, c=passed.epoch, file=passed.file, to=restored))
        try:
            with place.loop() as loop:
                store = self._chosen.store
                begun = BegunAttempt(number=self._attempt.number, journal=journal, loop=loop, store=store)
                inside = place.inside(begun)
                self._chosen.sink.reach = self._chosen.store.reach = inside.phases.reach
                inside.phases.reach("open")
                checkpoint = None if saved is None else self._restored(saved, inside.phases)
                task = _Task(
                    self._parts, self._attempt, chosen=self._chosen, journal=journal, inside=inside, loop=loop
                )
                task.run(checkpoint)
        except StoppedForRescale as stop:
            journal.note(Stopped(c=stop.checkpoint))
            journal.closed()
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # out of a task that the function started
            if is_interruption(error):
                raise
            record = error.record.value.id if isinstance(error, StreamElementFailed) else None
            with suppress(OSError):  # on a full disk nothing can be recorded; the error is raised anyway
                refusal = error if isinstance(error, SutError) else error.__cause__
                if isinstance(refusal, SutError):
                    journal.note(Refused(what=refusal.what, fix=refusal.fix))
                journal.failed(_in_words(error), id=record, by=place.cause_of(error))
            raise

    def _restored(self, saved: SavedEpoch, phases: Phases) -> Checkpoint:
        phases.reach("restore.begin")
        self._journal.event(Restore, c=saved.epoch, elements=named(saved.elements))
        elements = Replay([restored(element) for element in saved.elements], phases)
        return Checkpoint(number=saved.epoch, position=saved.position, elements=elements)


class _Task:
    """Builds the task around the operator and owns its resources."""

    def __init__(
        self,
        parts: AttemptParts,
        attempt: Takeover,
        *,
        chosen: Committing,
        journal: Journal,
        inside: Inside,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        plan, scenario, variant, place = parts.plan, parts.scenario, parts.variant, parts.place
        self._place, self._loop, self._journal = place, loop, journal
        self._runs_on_ms = variant.linger_ms
        self._under_test = FunctionUnderTest(
            plan,
            scenario.operator,
            driver=place.lookups(loop),
            client=place.client,
            journal=journal,
            around_calls=lambda calls: with_planned_failures(
                inside.around_calls(calls), scenario.workload, journal=journal
            ),
            loop=loop,
            variant=variant,
            tells_versions=bool(scenario.changing),
        )
        mailbox = variant.build_mailbox(loop=loop)
        timers = partial(variant.timers, loop, wall_ns=inside.wall_ns)
        elements = place.elements(parts.subtask, inside.shaping)
        keyed = _keyed(parts, elements)
        expect = _expectation(parts, elements, keyed)
        restored = attempt.saved.epoch if attempt.saved else 0
        coordination = chosen.coordination(
            AttemptLog(journal=journal, phases=inside.phases, expect=expect),
            timers=Timers(loop, MailboxExecutor(mailbox, MAX_PRIORITY)),  # never those of a mutant
            restored=restored,
        )
        if isinstance(elements, PartitionedSource):
            stops = PlannedSubtask(plan=plan, scenario=scenario, number=parts.subtask).stops_at()
            coordination.rescales(stops_at=stops, places=elements.places, restored=restored)
        operator, workload = scenario.operator, scenario.workload
        lookups = self._lookups(parts, inside.phases)
        source = _source(parts, elements, origin_ms=attempt.origin_ms)
        self._task = variant.task(Subtask if parts.share is None else parts.share.task)(
            loop=loop,
            mailbox=mailbox,
            timers=timers,
            source=variant.source(inside.around_source(source, elements)),
            lookups=lookups if keyed is None else telling_end(lookups, reader=coordination),
            coordination=coordination,
            head=None
            if keyed is None
            else KeyedHead(keyed, reader=coordination, phases=inside.phases, loop=loop),
            in_front=_in_front(scenario, reader=coordination, loop=loop),
            behind=None if keyed is None or expect is None else _behind(keyed, elements),
            is_hard=operator.back_pressure == "hard",
            downstream=_downstream(operator, loop),
            checkpoint_interval_ms=workload.checkpoint_interval or 0,
        )

    def _lookups(self, parts: AttemptParts, phases: Phases) -> BuildAsyncOperator:
        """What builds the operator under test around the function under test."""
        scenario, variant = parts.scenario, parts.variant
        probe = JournalProbe(
            self._journal,
            phases,
            cause_of=self._place.cause_of,
            timeout_answers=scenario.operator.on_timeout != "nothing",
        )
        function = variant.function(self._under_test.function, self)
        build = operator_builder(variant, sut=parts.plan.sut)
        return partial(build, function=function, probe=probe, **_settings(scenario))

    @property
    def journal(self) -> Journal:
        """The attempt's journal, for planted defects of the function."""
        return self._journal

    def run(self, checkpoint: Checkpoint | None) -> None:
        """Runs to the end of the input; releases all resources also after a failure."""
        try:
            try:
                self._run(checkpoint)
            except (Exception, SystemExit):
                with suppress(LookupFailed):  # the first failure is the one that is told
                    self._under_test.end(has_failed=True)
                raise
            self._under_test.end()
            self._journal.closed()
            if self._runs_on_ms:
                self._place.run_loop_after_close(self._loop, self._runs_on_ms)
        finally:
            self._under_test.close()

    def _run(self, checkpoint: Checkpoint | None) -> None:
        try:
            self._under_test.open()
            with self._place.watching(self._loop, self._journal, self._under_test.lookup):
                self._task.run(checkpoint)
        finally:
            self._task.close()


def _source(parts: AttemptParts, elements: LookupSource, *, origin_ms: int) -> SubtaskSource:
    workload, share = parts.scenario.workload, parts.plan.shares.get(parts.subtask)
    if parts.share is not None:
        return parts.share.source(elements, origin_ms=origin_ms)
    return SubtaskSource(
        elements,
        checkpoint_every=workload.checkpoint_every,
        origin_ms=origin_ms,
        reuses_objects=workload.reuses_objects,
        first=0 if share is None else share.inherited,
        after=0 if share is None else share.checkpoint,
    )


def _keyed(parts: AttemptParts, elements: LookupSource) -> KeyedTask | None:
    """The operator with keyed state in front of the lookups, if the scenario has a `task`."""
    task = parts.scenario.task
    if task is None:
        return None
    inputs = Inputs(task, elements, seed=parts.plan.seed, subtask=parts.subtask)
    groups = PlannedSubtask(plan=parts.plan, scenario=parts.scenario, number=parts.subtask).groups()
    return KeyedTask(inputs=inputs, task=task, parts=parts.variant.keyed, groups=groups)


def _in_front(
    scenario: Scenario, *, reader: Reader, loop: asyncio.AbstractEventLoop
) -> UpstreamOperator | None:
    """The operator in front of the lookups, if the scenario has an `upstream`."""
    settings = scenario.operator.upstream
    if settings is None:
        return None
    copy_value = copy if scenario.workload.reuses_objects else None
    return UpstreamOperator(settings, reader=reader, loop=loop, copy_value=copy_value)


def _behind(keyed: KeyedTask, elements: LookupSource) -> JoinedTask | None:
    """The task behind, if the scenario has a second input of it; what it adds to results must be expected."""
    step_ms = keyed.task.joined
    return JoinedTask(step_ms=step_ms, elements=elements, inputs=keyed.inputs) if step_ms else None


def _downstream(settings: Operator, loop: asyncio.AbstractEventLoop) -> ShutDownstream | None:
    down = settings.downstream
    return None if down is None else ShutDownstream(loop, takes=down.takes, shut_ms=down.shut)


def _settings(scenario: Scenario) -> Json:
    """The operator's settings; options that not every operator supports are passed only if the scenario uses them."""
    operator = scenario.operator
    return {
        "mode": operator.mode,
        "capacity": operator.capacity,
        "timeout_ms": operator.timeout,
        **_retry(operator),
        **({"copy_value": copy} if scenario.workload.reuses_objects else {}),
        **({"key_of": attrgetter("key")} if operator.mode == "keyed" else {}),
    }


def _retry(settings: Operator) -> dict[str, RetryStrategy]:
    """The retry strategy; with dead letters a failed call arrives as a result, so results are tested too."""
    if settings.tries == 1:
        return {}
    dead_letters = settings.on_error == "dead-letter"
    on_result = is_dead_letter if dead_letters else None
    # Any error of a call is retried, except that the function under test breaks the rules.
    on_error = None if dead_letters else lambda error: not isinstance(error, SutError)
    if settings.retry_multiplier is None:
        fixed = FixedDelay(
            max_retries=settings.tries - 1,
            delay_ms=settings.first_delay_ms,
            on_result=on_result,
            on_error=on_error,
        )
        return {"retry": fixed}
    exponential = ExponentialBackoff(
        max_retries=settings.tries - 1,
        initial_ms=settings.first_delay_ms,
        max_ms=settings.longest_delay_ms,
        multiplier=settings.retry_multiplier,
        on_result=on_result,
        on_error=on_error,
    )
    return {"retry": exponential}


def _expectation(
    parts: AttemptParts, elements: LookupSource, keyed: KeyedTask | None
) -> Callable[[Lookup], Sequence[object] | None] | None:
    """The expected results of each record, with timestamps if there is a keyed task; None if nothing is expected.

    A key whose rows change during the run has none: V8 judges it by versions, and by the other records of the key.
    """
    answers = _answers(parts)
    if answers is None or keyed is None:
        return answers
    stamps = session_stamps(
        elements,
        keyed.inputs,
        task=keyed.task,
        before=PlannedSubtask(
            plan=parts.plan, scenario=parts.scenario, number=parts.subtask
        ).sources_before(),
    )
    return expect_stamped(answers, stamps)


def _answers(parts: AttemptParts) -> Callable[[Lookup], Sequence[object] | None] | None:
    """The results of a user's lookup as they are known before the run, and of our own those of the table's rows."""
    plan = parts.plan
    if plan.sut not in SUTS:
        if plan.expected is None or plan.expected.source == "none":
            return None
        known = plan.expected.known()
        return lambda lookup: known(lookup.id, lookup.key)
    if parts.scenario.workload.expected == "untold":
        return None
    table = expected_results(plan.table)
    changing = changing_keys(parts.scenario, plan.table)
    return lambda lookup: None if lookup.key in changing else table.get(lookup.key, [])


def _in_words(error: BaseException) -> str:
    """The error and its cause; of a user's lookup what it raised, for which record, and where."""
    cause = error.__cause__
    if isinstance(error, LookupFailed):
        return str(error)
    if isinstance(error, StreamElementFailed) and cause is not None:
        told = failure_of_lookup(cause, error.record.value.id)
        if told is not None:
            return told
    if (told := failure_of_task(error)) is not None:
        return told
    return f"{type(error).__name__}: {error}" + (f" ({type(cause).__name__}: {cause})" if cause else "")


class ShutDownstream:
    """The downstream of one attempt: blocks for `shut_ms` after every `takes` checks. Mutable.

    Invariant: it accepts `takes` checks between two blocked times, so a result waits for at most `shut_ms`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, takes: int, shut_ms: int) -> None:
        self._loop = loop
        self._takes = takes
        self._shut_s = shut_ms / 1000
        self._asked = 0
        self._shut: Availability | None = None

    def __call__(self) -> Availability:
        """The present availability; if it is blocked, a wait for its end."""
        if self._shut is not None:
            return self._shut
        self._asked += 1
        if self._asked <= self._takes:
            return AVAILABLE
        self._asked = 0
        self._shut = Availability()
        self._loop.call_later(self._shut_s, self._open)
        return self._shut

    def _open(self) -> None:
        shut, self._shut = self._shut, None
        assert shut is not None, "it opens once each time that it is shut"
        shut.end()
