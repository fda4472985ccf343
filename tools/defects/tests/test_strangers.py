"""The strangers: each changes what a run does, in the smallest case that was found, or what its part does alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from harness.database.checkpoint_store import CheckpointStore, StoreLost
from harness.database.coordinator import Coordinator
from harness.database.epoch import CheckpointPart
from harness.database.store_files import MemoryFiles
from harness.explore.drawing import draw_scenario
from harness.history.text import digest_of
from harness.levels.sim import run as sim_run
from harness.levels.sim.simulation import Simulation
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.order import Order
from harness.scenario.workloads.shape import Lookup
from harness.sut.variant import HONEST, Variant
from reference_impl.mailbox.loops import VirtualLoop
from reference_impl.operator.build import build_operator
from reference_impl.operator.retry import FixedDelay, any_error
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.state_descriptor import StateTtlConfig, ValueStateDescriptor
from reference_impl.state.tests.ttl_rig import BY_HAND
from reference_impl.tests.rig import open_virtual, record
from tools.defects import STRANGERS

SHOWN_BY: dict[str, int | str] = {
    "clock-behind-its-alarm": "calm",
    "timers-without-end": "calm",
    "timeout-lost-in-backoff": "backoff-outlasts-timeout",
    "timeout-a-millisecond-early": "timeout-boundary",
    "timeout-a-second-late": "blackhole-with-default",
    "falls-back-once": "two-newest-missing",
    "retires-one-too-many": "two-newest-missing",
    "every-third-barrier-left-out": "kill-after-commit",
    "no-barriers-after-restart": "two-newest-torn",
    "resumes-at-another-position": "chained-operators",
    "deletes-old-epochs": 6,
    "sweeps-at-take-over": 13,
    "deletes-last-epoch-at-close": 5,
    "upserts-by-record": 8,
    "upsert-blanks-values": 17,
    "duplicate-drops-batch": 110,
    "loses-remainder-of-batch": 1,
    "truncates-texts": 9,
    "renumbers-results": 3,
    "equal-values-once": 0,
    "drains-buffer-early": 17,
    "rows-again-after-lost-reply": 118,
    "epoch-before-rows": 10,
    "commits-newest-only": 24,
    "rolls-back-restored-epoch": 22,
    "letter-without-error": 20,
    "letters-of-last-error": 20,
    "letters-need-outputs": 20,
    "letters-once-an-error": 20,
    "letters-written-again": 560,
    "letters-at-once": "poison-at-head",
    "letters-deleted-at-take-over": 24,
    "restored-record-without-letter": "poison-at-head",
    "letter-names-key": 20,
    "letter-overtakes": 46,
    "letter-for-each-try": 82,
    "retries-at-once": 7,
    "jitter-below-backoff": "timeout-and-retry",
    "backoff-never-reset": 7,
    "backoff-explodes": 7,
    "swallows-last-error": 450,
    "retry-forgets-timeout": 107,
    "timeout-for-each-try": 107,
    "retries-newest-record": 7,
    "end-drops-backoff": 171,
    "restored-records-not-retried": 38,
    "completes-by-majority": 9,
    "aborts-what-it-completed": 0,
    "completes-what-it-aborted": 0,
    "acknowledges-unfenced": 8,
    "acknowledges-before-storing": 44,
    "forgets-newest-checkpoint": 13,
    "believes-failed-writes": 44,
    "unreadable-starts-anew": "newest-missing",
    "restores-oldest-kept": 13,
    "restores-uncompleted": 0,
    "fence-read-without-lock": 8,
    "leaves-session": 8,
    "neither-locks-nor-ends-session": 8,
    "fence-checked-once": 8,
    "restores-before-fencing": 10,
    "sink-fails-once": 2,
    "fails-after-restart": 0,
    "calls-fail-now-and-then": 1,
    "empty-checkpoint-fails": 2,
    "replays-other-keys": 10,
    "resumes-one-too-far": 32,
    "replays-without-time": 10,
    "watermark-falls-at-restore": 10,
    "source-ends-early": 5,
    "cache-slots-collide": 9,
    "first-row-only": 7,
    "answer-in-shared-attribute": 25,
    "joins-other-calls": 2,
    "second-loss-is-no-row": 2,
    "cancelled-call-keeps-slot": 22,
    "circuit-sticks-half-open": 2,
    "circuit-never-closes": 2,
    "equal-times-share-timer": "sessions-end-at-once",
    "gives-up-waiting-for-slot": 105,
    "full-queue-drops-watermark": 2,
    "second-result-without-time": 3,
    "snapshot-of-four": 20,
    "restored-without-timeout": 101,
    "restores-keys-once": 21,
    "mailbox-keeps-six": 20,
    "one-timer-an-instant": 4,
    "timers-in-tens": 3,
    "timer-at-watermark-waits": "sessions-after-commit",
    "some-timers-not-restored": "sessions-crash-loop",
    "state-by-bucket": 176,
    "alignment-timeout-ignored": "checkpoints-beside-a-stall",
    "status-lost": "late-behind-idle-inputs",
    "status-overtakes-records": "late-behind-idle-inputs",
    "woken-input-pulls-back": "sessions-catching-up",
}
"""A seed, whose random run differs from the reference's, or a scenario that differs with seed 1."""
DRAWN = [name for name, by in SHOWN_BY.items() if isinstance(by, int)]
IN_A_SCENARIO = [name for name in SHOWN_BY if name not in DRAWN]


@dataclass(frozen=True)
class Left:
    """What a run left: its history, and the tables that no event shows."""

    history: str
    rows: list[Any]
    letters: list[Any]


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Variant], Left]:
    """Runs what shows a stranger, with a variant."""
    made: list[Simulation] = []

    def noting(*args: Any, **parts: Any) -> Simulation:
        made.append(Simulation(*args, **parts))
        return made[-1]

    def run(name: str, variant: Variant) -> Left:
        by = SHOWN_BY[name]
        scenario = draw_scenario(by) if isinstance(by, int) else load(catalogue()[by])
        assert STRANGERS[name].applies(scenario)
        order = Order(scenario=scenario, level="sim", seed=by if isinstance(by, int) else 1)
        ran = sim_run.simulate_scenario(order, variant=variant)
        tables = made[-1].tables
        rows = [(row.subtask, row.id, row.j, row.v) for row in tables.output]
        return Left(
            digest_of(ran.header, ran.events),
            rows,
            [(row.subtask, row.id, row.error) for row in tables.dead_letter],
        )

    monkeypatch.setattr(sim_run, "Simulation", noting)
    return run


@pytest.mark.sweep
@pytest.mark.parametrize("name", DRAWN)
def test_a_stranger_changes_what_a_random_run_leaves(name: str, left: Callable[[str, Variant], Left]) -> None:
    assert left(name, STRANGERS[name].variant) != left(name, HONEST)


@pytest.mark.sweep
@pytest.mark.parametrize("name", IN_A_SCENARIO)
def test_a_stranger_changes_what_its_scenario_leaves(name: str, left: Callable[[str, Variant], Left]) -> None:
    assert left(name, STRANGERS[name].variant) != left(name, HONEST)


# ------------------------------------------------------------------------------------- those that few runs show


def variant(name: str) -> Variant:
    return STRANGERS[name].variant


def _calls_of_three_failures(build: Any) -> list[Any]:
    retry = FixedDelay(max_retries=1, delay_ms=1, on_error=any_error)
    with open_virtual(build=build, timeout_ms=1000, retry=retry) as rig:
        rig.process(record(1))
        for until_ms in (5, 10, 15):
            rig.fail(1)
            rig.advance(until_ms)
            if not len(rig.operator):
                break
        return rig.calls()


def test_tries_once_too_often_makes_one_call_more() -> None:
    honest = _calls_of_three_failures(build_operator)

    assert len(_calls_of_three_failures(variant("tries-once-too-often").build_operator)) == len(honest) + 1


@dataclass
class Newest:
    token: int
    ended: bool = False


def test_a_stale_acknowledgement_counts() -> None:
    trusting: Any = variant("stale-acknowledgement-counts").coordinator(Coordinator)
    honest: Any = Coordinator
    newest = {0: Newest(token=2)}

    assert not honest._is_complete(None, {0: 1}, newest)
    assert trusting._is_complete(None, {0: 1}, newest)


def _store(kind: Any) -> Any:
    return kind(MemoryFiles(), subtask=0, seed=1)


def test_two_attempts_write_one_file_for_a_checkpoint() -> None:
    store = _store(variant("file-without-attempt").store(CheckpointStore))

    names = [store.write(1, attempt=attempt, position=attempt, elements=[]) for attempt in (1, 2)]

    assert names[0] == names[1]
    assert store.read(names[0]).position == 2


def _restored_below(store: Any) -> int:
    file = store.write(1, attempt=1, position=1, elements=[])
    parts = [CheckpointPart(epoch=2, token=1, file="gone"), CheckpointPart(epoch=1, token=1, file=file)]
    epoch: int = store.restore(parts, committed=2).saved.epoch
    return epoch


def test_a_checkpoint_below_the_committed_epoch_is_restored() -> None:
    with pytest.raises(StoreLost):
        _restored_below(_store(CheckpointStore))

    assert _restored_below(_store(variant("restores-below-committed").store(CheckpointStore))) == 1


async def _echo(asked: Any, pool: Any) -> Any:
    """A table that changes with each question: the answer is the key, and the number of questions so far."""
    pool.append(asked.key)
    return [] if asked.key == 0 else [(asked.key, len(pool))]


def answers(name: str, *keys: Any) -> list[Any]:
    """What the lookup of a stranger gives for these keys, one after the other."""

    async def ask() -> list[Any]:
        pool: Any = []
        lookup = variant(name).lookup(_echo)
        return [await lookup(Lookup(id=1, key=key, service_ms=0), pool) for key in keys]

    loop = VirtualLoop()
    try:
        given: list[Any] = loop.run_until_complete(ask())
    finally:
        loop.close()
    return given


@pytest.mark.parametrize(
    ("name", "key", "asked"),
    [
        ("key-first-part", ("a", 1), "a"),
        ("key-as-double", 2**53 + 1, 2**53),
    ],
)
def test_a_lookup_asks_for_another_key(name: str, key: Any, asked: Any) -> None:
    assert answers(name, key) == [[(asked, 1)]]


def test_a_key_without_rows_is_never_asked_for_again() -> None:
    assert answers("misses-remembered", 0, 0, 1) == [[], [], [(1, 2)]]


class _OneRow:
    """A pool with one row."""

    async def fetch_all(self, sql: str, args: Any = ()) -> list[tuple[Any, ...]]:
        return [(" a ", None, 2**40, 7)]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("texts-stripped", ("a", None, 2**40, 7)),
        ("null-as-text", (" a ", "", 2**40, 7)),
        ("numbers-in-32-bits", (" a ", None, 2**31 - 1, 7)),
    ],
)
def test_a_row_is_read_as_another_one(name: str, row: tuple[Any, ...]) -> None:
    loop = VirtualLoop()
    try:
        assert loop.run_until_complete(variant(name).pool(_OneRow)().fetch_all("")) == [row]
    finally:
        loop.close()


def _backend(kind: type[KeyedStateBackend], clock: list[int]) -> Any:
    backend = kind(operator="o", max_parallelism=1, key_type=int, now_ms=lambda: clock[0])
    backend.set_current_key(1)
    return backend


def _read_late(kind: type[KeyedStateBackend], *, written_again_ms: int | None) -> Any:
    """The value at 150 ms, of a state that lives for 100 ms, written at 0 ms."""
    clock = [0]
    descriptor = ValueStateDescriptor(
        name="v", value_type=int, ttl=StateTtlConfig(time_to_live_ms=100, cleanup_strategies=BY_HAND)
    )
    state = _backend(kind, clock).get_partitioned_state(None, descriptor)
    state.update(1)
    if written_again_ms is not None:
        clock[0] = written_again_ms
        state.update(2)
    clock[0] = 150
    return state.value()


def test_a_value_that_is_written_again_lives_no_longer() -> None:
    assert _read_late(KeyedStateBackend, written_again_ms=80) == 2
    assert _read_late(variant("rewrites-do-not-prolong").keyed.backend, written_again_ms=80) is None


# ------------------------------------------------------------------------------------------------- the table

ALONE = {
    "tries-once-too-often",
    "stale-acknowledgement-counts",
    "file-without-attempt",
    "restores-below-committed",
    "key-first-part",
    "key-as-double",
    "texts-stripped",
    "null-as-text",
    "numbers-in-32-bits",
    "misses-remembered",
    "rewrites-do-not-prolong",
}
"""The strangers that tests above show without a run."""


def test_each_stranger_is_shown_to_differ_from_the_reference() -> None:
    assert {*SHOWN_BY, *ALONE} == set(STRANGERS)


def test_each_stranger_says_what_it_breaks_and_if_no_run_reaches_it_why_it_survives() -> None:
    assert [
        name for name, one in STRANGERS.items() if not one.breaks or not (one.levels or one.survives)
    ] == []
