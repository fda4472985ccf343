"""Claims about the coordinator under any order of messages, against a model too simple to be wrong: C32-C37.

Messages come late, twice, for checkpoints that never were and from attempts long gone; tasks fail; time passes.
Whatever happens, each number ends once, what tasks wrote is referenced or discarded once, and nobody hears both ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reference_impl.job.execution_graph import ExecutionAttemptID, ExecutionState
from reference_impl.job.messages import (
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    ToTask,
    TriggerCheckpoint,
)
from reference_impl.job.tests.coordination_rig import open_coordinator, some_state

TIMEOUT_MS = 100
PLAIN, FORCED, SAVEPOINT = range(3)
WHO = st.integers(0, 5)
BACK = st.integers(0, 3)
"""How long ago a checkpoint was triggered, in numbers; 0: not yet."""


class Model:
    """Sets and dicts. Mutable."""

    def __init__(self, max_retained: int) -> None:
        self.max_retained = max_retained
        self.kind: dict[int, int] = {}
        self.waiting: dict[int, set[ExecutionAttemptID]] = {}
        self.expires_ms: dict[int, int] = {}
        self.ended: dict[int, str] = {}
        self.store: list[int] = []
        self.received: set[tuple[int, ExecutionAttemptID]] = set()
        self.owned: dict[int, set[ExecutionAttemptID]] = {}
        """By a checkpoint under way or kept, or a savepoint: not to be discarded."""

    def begin(self, number: int, kind: int, tasks: list[ExecutionAttemptID], now_ms: int) -> None:
        self.kind[number] = kind
        self.waiting[number] = set(tasks)
        self.owned[number] = set()
        self.expires_ms[number] = now_ms + TIMEOUT_MS

    def acknowledge(self, number: int, task: ExecutionAttemptID, *, has_state: bool) -> None:
        if has_state and (number, task) not in self.received:
            self.received.add((number, task))
            if task in self.waiting.get(number, ()):
                self.owned[number].add(task)
        if task in self.waiting.get(number, ()):
            self.waiting[number].remove(task)
            if not self.waiting[number]:
                self.complete(number)

    def complete(self, number: int) -> None:
        self.end(number, "complete")
        self.abort(other for other in list(self.waiting) if other < number and self.kind[other] == PLAIN)
        self.store = sorted([*self.store, number])
        plain = [kept for kept in self.store if self.kind[kept] != SAVEPOINT]
        for kept in list(self.store):
            if len(self.store) > self.max_retained and kept not in {self.store[-1], *plain[-1:]}:
                self.store.remove(kept)
                if self.kind[kept] != SAVEPOINT:
                    del self.owned[kept]

    def abort(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.end(number, "aborted")
            del self.owned[number]

    def end(self, number: int, how: str) -> None:
        assert number not in self.ended
        self.ended[number] = how
        del self.waiting[number]


class CoordinatorMachine(RuleBasedStateMachine):
    """The coordinator and the model, told the same."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()

    @initialize(concurrent=st.integers(1, 3), retained=st.integers(1, 3))
    def start(self, concurrent: int, retained: int) -> None:
        self.prepared: list[Callable[[], None]] = []
        self.cleaning: list[Callable[[], None]] = []
        self.max_concurrent = concurrent
        self.rig = self.stack.enter_context(
            open_coordinator(
                executor=self.prepared.append,
                cleaning=self.cleaning.append,
                max_concurrent_checkpoints=concurrent,
                max_retained=retained,
                checkpoint_timeout_ms=TIMEOUT_MS,
            )
        )
        self.rig.on_send = self._hear
        self.model = Model(retained)
        self.attempts = self.rig.tasks
        self.kinds: list[int] = []
        """Of requests that nobody has seen start, in no particular order."""

    def _hear(self, task: ExecutionAttemptID, message: ToTask) -> None:
        """A trigger is how the model learns of a checkpoint; a completion must be in the store by now (C35)."""
        number = getattr(message, "checkpoint_id", 0)
        match message:
            case TriggerCheckpoint(metadata=metadata, options=options):
                pending = self.rig.coordinator.pending_checkpoints[metadata.checkpoint_id]
                is_plain = not options.snapshot_type.is_savepoint and not pending.properties.is_forced
                if metadata.checkpoint_id not in self.model.kind:
                    kind = PLAIN if is_plain else SAVEPOINT if options.snapshot_type.is_savepoint else FORCED
                    assert kind != PLAIN or len(self.model.waiting) < self.max_concurrent, "C32"
                    self.model.begin(metadata.checkpoint_id, kind, self.rig.tasks, self.rig.loop.now_ms())
            case NotifyCheckpointComplete():
                assert number in self.rig.storage.checkpoint_ids(), "told before it is durable (C35)"
            case NotifyCheckpointAborted(latest_completed_id=latest):
                assert latest == (self.rig.completed or [0])[-1]

    @rule(kind=st.sampled_from([PLAIN, FORCED, SAVEPOINT]), waits=st.sampled_from([False, False, True]))
    def trigger(self, kind: int, waits: bool) -> None:  # noqa: FBT001
        """Prepared at once, or only after something else has happened."""
        if kind == SAVEPOINT:
            self.rig.coordinator.trigger_savepoint()
        else:
            self.rig.coordinator.trigger_checkpoint(is_forced=kind == FORCED)
        while self.prepared and not waits:
            self.prepare()

    @precondition(lambda self: self.prepared)
    @rule()
    def prepare(self) -> None:
        self.prepared.pop(0)()

    @precondition(lambda self: self.cleaning)
    @rule(last=st.booleans())
    def clean(self, last: bool) -> None:  # noqa: FBT001
        self.cleaning.pop(-1 if last else 0)()

    @precondition(lambda self: self.model.waiting)
    @rule(which=st.integers(0, 3), how_many=st.integers(1, 3))
    def some_acknowledge(self, which: int, how_many: int) -> None:
        number = sorted(self.model.waiting)[which % len(self.model.waiting)]
        for task in sorted(self.model.waiting[number])[:how_many]:
            self._acknowledge(number, task)

    @precondition(lambda self: self.model.waiting)
    @rule(which=st.integers(0, 3))
    def all_acknowledge(self, which: int) -> None:
        self.some_acknowledge(which, 3)

    @rule(back=BACK, who=WHO)
    def a_stray_acknowledgement_comes(self, back: int, who: int) -> None:
        """Late, once more, unknown, from an attempt that is gone."""
        self._acknowledge(self._number(back), self.attempts[who % len(self.attempts)])

    def _acknowledge(self, number: int, task: ExecutionAttemptID) -> None:
        """Whoever says it once more says the same."""
        has_state = (number + task.subtask) % 3 != 0
        self.rig.acknowledge(number, task, state=some_state() if has_state else None)
        self.model.acknowledge(number, task, has_state=has_state)

    def _number(self, back: int) -> int:
        return max(1, max(self.model.kind, default=0) + 1 - back)

    @rule(back=BACK, who=WHO, fails=st.booleans())
    def a_task_declines_or_fails(self, back: int, who: int, fails: bool) -> None:  # noqa: FBT001
        task, number = self.attempts[who % len(self.attempts)], self._number(back)
        if fails:
            self._fail(task)
        else:
            self.rig.decline(number, task)
            self.model.abort([number] if number in self.model.waiting else [])

    def _fail(self, task: ExecutionAttemptID) -> None:
        if not self.rig.graph.update_state(task, ExecutionState.FAILED):
            return  # one long gone
        doomed = [number for number, waiting in self.model.waiting.items() if task in waiting]
        self.rig.coordinator.fail_unacknowledged_pending_checkpoints_for(task)
        self.model.abort(doomed)

    @rule()
    def restart_the_job(self) -> None:
        restored = self.rig.coordinator.restore_latest_checkpointed_state()
        self.model.abort(list(self.model.waiting))
        self.rig.graph.restart()
        for task in self.rig.tasks:
            self.rig.graph.update_state(task, ExecutionState.RUNNING)
        self.attempts = self.attempts[-3:] + self.rig.tasks

        assert (restored.checkpoint_id or 0) == (self.model.store or [0])[-1], (
            "the highest completed wins (C37)"
        )

    @rule(passed_ms=st.sampled_from([1, 30, TIMEOUT_MS]))
    def let_time_pass(self, passed_ms: int) -> None:
        now_ms = self.rig.loop.now_ms() + passed_ms
        expired = [number for number in self.model.waiting if self.model.expires_ms[number] <= now_ms]
        self.model.abort(expired)
        self.rig.advance(now_ms)

    @invariant()
    def the_same_are_pending_and_kept(self) -> None:
        assert self.rig.pending == sorted(self.model.waiting)
        assert self.rig.completed == self.model.store

    @invariant()
    def each_number_ends_once_and_every_task_hears_one_ending_at_most(self) -> None:
        heard = Counter(
            (task, message.checkpoint_id)
            for task, message in self.rig.sent
            if isinstance(message, NotifyCheckpointComplete | NotifyCheckpointAborted)
        )
        assert set(heard.values()) <= {1}
        for task, message in self.rig.sent:
            if isinstance(message, NotifyCheckpointComplete | NotifyCheckpointAborted):
                is_complete = isinstance(message, NotifyCheckpointComplete)
                assert self.model.ended[message.checkpoint_id] == (
                    "complete" if is_complete else "aborted"
                ), task

    @invariant()
    def what_is_discarded_was_received_is_referenced_no_more_and_is_discarded_once(self) -> None:
        discarded = Counter((handle.checkpoint_id, handle.task) for handle in self.rig.discarded)
        owned = {(number, task) for number, tasks in self.model.owned.items() for task in tasks}
        assert set(discarded.values()) <= {1}
        assert discarded.keys() <= self.model.received - owned
        if not self.cleaning:
            assert set(discarded) == self.model.received - owned

    def teardown(self) -> None:
        """In the end everything that waited for its cleaning is cleaned, and nothing is left over."""
        if hasattr(self, "rig"):
            while self.cleaning:
                self.cleaning.pop(0)()
            self.what_is_discarded_was_received_is_referenced_no_more_and_is_discarded_once()
        self.stack.close()


TestCoordinator = CoordinatorMachine.TestCase
TestCoordinator.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
